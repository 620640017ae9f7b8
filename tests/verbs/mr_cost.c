/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a registration costs: 4 KiB of memory that was never registered, the same again, and a large region beside what
 * copying it once costs. Prints the figures, names and values; with limits as arguments it fails beyond them:
 *
 *     mr_cost [LARGE_MIB [SMALL_US LARGE_RATIO]]
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "vt.h"

enum { SMALL_BYTES = 4096, SMALL_ROUNDS = 400, LARGE_MIB = 1024, LARGE_ROUNDS = 3 };

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

static uint64_t
reg(struct ibv_pd *pd, void *p, size_t bytes)
{
	uint64_t begin = vt_now_ns(), ns;
	struct ibv_mr *mr = ibv_reg_mr(pd, p, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	ns = vt_now_ns() - begin;
	if (mr == NULL)
		vt_die("ibv_reg_mr");
	VT_OK(ibv_dereg_mr(mr));
	return ns;
}

static void
small(struct ibv_pd *pd, uint64_t *fresh, uint64_t *again)
{
	uint8_t *p = memory((size_t)SMALL_ROUNDS * 2 * SMALL_BYTES);
	uint64_t first[SMALL_ROUNDS], second[SMALL_ROUNDS];

	for (unsigned int i = 0; i < SMALL_ROUNDS; i++) {
		uint8_t *page = p + (size_t)i * 2 * SMALL_BYTES;

		memset(page, 1, SMALL_BYTES);
		first[i] = reg(pd, page, SMALL_BYTES);
		second[i] = reg(pd, page, SMALL_BYTES);
	}
	*fresh = median(first, SMALL_ROUNDS);
	*again = median(second, SMALL_ROUNDS);
	munmap(p, (size_t)SMALL_ROUNDS * 2 * SMALL_BYTES);
}

/* Copying takes new memory as registering does: page faults are a part of both. */
static void
large(struct ibv_pd *pd, size_t bytes, uint64_t *registering, uint64_t *copying)
{
	uint64_t r[LARGE_ROUNDS], c[LARGE_ROUNDS], begin;
	uint8_t *p, *q;

	for (unsigned int i = 0; i < LARGE_ROUNDS; i++) {
		p = memory(bytes);
		memset(p, 1, bytes);
		q = memory(bytes);
		begin = vt_now_ns();
		memcpy(q, p, bytes);
		c[i] = vt_now_ns() - begin;
		munmap(q, bytes);
		r[i] = reg(pd, p, bytes);
		munmap(p, bytes);
	}
	*registering = median(r, LARGE_ROUNDS);
	*copying = median(c, LARGE_ROUNDS);
}

int
main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : LARGE_MIB;
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint64_t fresh, again, registering, copying;
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	if (list == NULL || list[0] == NULL)
		vt_die("no verbs device");
	ctx = ibv_open_device(list[0]);
	pd = ctx != NULL ? ibv_alloc_pd(ctx) : NULL;
	if (pd == NULL)
		vt_die("ibv_open_device");
	small(pd, &fresh, &again);
	large(pd, mib << 20, &registering, &copying);
	printf("small_fresh_us=%.1f small_again_us=%.1f large_mib=%zu large_ms=%.1f copy_ms=%.1f ratio=%.2f\n", fresh / 1e3,
	       again / 1e3, mib, registering / 1e6, copying / 1e6, (double)registering / copying);
	VT_OK(ibv_dealloc_pd(pd));
	VT_OK(ibv_close_device(ctx));
	ibv_free_device_list(list);
	if (argc > 3) {
		VT_CHECK(fresh / 1e3 <= strtod(argv[2], NULL), "4 KiB: %.1f us", fresh / 1e3);
		VT_CHECK((double)registering / copying <= strtod(argv[3], NULL), "%zu MiB: %.2f copies", mib,
			 (double)registering / copying);
	}
	return vt_failed;
}
