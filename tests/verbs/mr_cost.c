/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What registrations cost, with their deregistrations (reg: without): 4 KiB and 1 MiB of memory that was never registered, the same again, memory that is
 * unmapped and mapped anew each time, many regions at once, and a large region beside what copying it once costs. Prints the figures, names and
 * values; with limits as arguments it fails beyond them:
 *
 *     mr_cost [LARGE_MIB [MANY [SMALL_US LARGE_RATIO]]]
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

enum { SMALL_BYTES = 4096, MEDIUM_BYTES = 1 << 20, ROUNDS = 400, MEDIUM_ROUNDS = 100, LARGE_MIB = 1024, LARGE_ROUNDS = 3, MANY = 30000 };

/** Nanoseconds, in each round. */
struct costs {
	uint64_t reg[ROUNDS], both[ROUNDS];
};

static int
by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t
median(uint64_t *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n / 2];
}

static uint8_t *
memory(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		vt_die("mmap");
	return p;
}

static struct ibv_mr *
reg(struct ibv_pd *pd, void *p, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (mr == NULL)
		vt_die("ibv_reg_mr");
	return mr;
}

static void
measure(struct ibv_pd *pd, void *p, size_t bytes, struct costs *c, unsigned int round)
{
	uint64_t begin = vt_now_ns();
	struct ibv_mr *mr = reg(pd, p, bytes);

	c->reg[round] = vt_now_ns() - begin;
	VT_OK(ibv_dereg_mr(mr));
	c->both[round] = vt_now_ns() - begin;
}

static void
print(const char *name, struct costs *c, unsigned int rounds)
{
	printf("%s_reg_us=%.1f ", name, (double)median(c->reg, rounds) / 1e3);
	printf("%s_us=%.1f\n", name, (double)median(c->both, rounds) / 1e3);
}

/** @return ns of a registration of memory that was never registered, and of its deregistration. */
static uint64_t
first_and_again(struct ibv_pd *pd, const char *what, size_t bytes, unsigned int rounds)
{
	uint8_t *p = memory(rounds * 2 * bytes);
	struct costs fresh, again;
	char name[64];

	for (unsigned int i = 0; i < rounds; i++) {
		uint8_t *at = p + (size_t)i * 2 * bytes;

		memset(at, 1, bytes);
		measure(pd, at, bytes, &fresh, i);
		measure(pd, at, bytes, &again, i);
	}
	munmap(p, rounds * 2 * bytes);
	snprintf(name, sizeof(name), "%s_fresh", what);
	print(name, &fresh, rounds);
	snprintf(name, sizeof(name), "%s_again", what);
	print(name, &again, rounds);
	return median(fresh.both, rounds);
}

static void
mapped_anew(struct ibv_pd *pd)
{
	struct costs c;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint8_t *p = memory(SMALL_BYTES);

		memset(p, 1, SMALL_BYTES);
		measure(pd, p, SMALL_BYTES, &c, i);
		munmap(p, SMALL_BYTES);
	}
	print("mapped_anew", &c, ROUNDS);
}

static void *
sleep_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/** With another thread, which does nothing. Last: it stays. */
static void
threaded(struct ibv_pd *pd)
{
	pthread_t t;

	if (pthread_create(&t, NULL, sleep_for_ever, NULL) != 0)
		vt_die("pthread_create");
	first_and_again(pd, "threaded", SMALL_BYTES, ROUNDS);
}

/** Regions that are there at once, with a page between two of them. */
static void
many(struct ibv_pd *pd, unsigned int n)
{
	struct ibv_mr **mrs = calloc(n + 1, sizeof(struct ibv_mr *));
	size_t bytes = (size_t)n * 2 * SMALL_BYTES;
	uint8_t *p = memory(bytes);
	uint64_t begin, made;

	if (mrs == NULL)
		vt_die("calloc");
	for (unsigned int i = 0; i < n; i++)
		p[(size_t)i * 2 * SMALL_BYTES] = 1;
	begin = vt_now_ns();
	for (unsigned int i = 0; i < n; i++)
		mrs[i] = reg(pd, p + (size_t)i * 2 * SMALL_BYTES, SMALL_BYTES);
	made = vt_now_ns();
	for (unsigned int i = 0; i < n; i++)
		VT_OK(ibv_dereg_mr(mrs[i]));
	printf("many=%u many_reg_us=%.1f many_us=%.1f\n", n, (double)(made - begin) / 1e3 / n, (double)(vt_now_ns() - begin) / 1e3 / n);
	munmap(p, bytes);
	free(mrs);
}

/** Copying takes new memory as registering does: page faults are a part of both. @return the registration's time by the copy's. */
static double
large(struct ibv_pd *pd, size_t mib)
{
	uint64_t copies[LARGE_ROUNDS], begin, registering, copying;
	size_t bytes = mib << 20;
	struct costs r;
	uint8_t *p, *q;

	for (unsigned int i = 0; i < LARGE_ROUNDS; i++) {
		p = memory(bytes);
		memset(p, 1, bytes);
		q = memory(bytes);
		begin = vt_now_ns();
		memcpy(q, p, bytes);
		copies[i] = vt_now_ns() - begin;
		munmap(q, bytes);
		measure(pd, p, bytes, &r, i);
		munmap(p, bytes);
	}
	registering = median(r.reg, LARGE_ROUNDS);
	copying = median(copies, LARGE_ROUNDS);
	printf("large_mib=%zu large_ms=%.1f copy_ms=%.1f ratio=%.2f\n", mib, (double)registering / 1e6, (double)copying / 1e6,
	       (double)registering / (double)copying);
	return (double)registering / (double)copying;
}

int
main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : LARGE_MIB;
	unsigned int n = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 10) : MANY;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	double small_us, ratio;

	if (list == NULL || list[0] == NULL)
		vt_die("no verbs device");
	ctx = ibv_open_device(list[0]);
	pd = ctx != NULL ? ibv_alloc_pd(ctx) : NULL;
	if (pd == NULL)
		vt_die("ibv_open_device");
	small_us = (double)first_and_again(pd, "small", SMALL_BYTES, ROUNDS) / 1e3;
	mapped_anew(pd);
	first_and_again(pd, "mib", MEDIUM_BYTES, MEDIUM_ROUNDS);
	ratio = mib > 0 ? large(pd, mib) : 0;
	if (n > 0)
		many(pd, n);
	threaded(pd);
	VT_OK(ibv_dealloc_pd(pd));
	VT_OK(ibv_close_device(ctx));
	ibv_free_device_list(list);
	if (argc > 4) {
		VT_CHECK(small_us <= strtod(argv[3], NULL), "4 KiB: %.1f us", small_us);
		VT_CHECK(ratio <= strtod(argv[4], NULL), "%zu MiB: %.2f copies", mib, ratio);
	}
	return vt_failed;
}
