/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Copies: every size and alignment, segment boundaries, remote memory, the order of the last bytes. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util.h"

enum { GUARD = 0x5a };

static struct mr_table *t;
static struct mem_owner self;

static int
set_up(void **state)
{
	t = mr_table_create(64, NULL, 0);
	self.mem_fd = open("/proc/self/mem", O_RDWR);
	return t == NULL || self.mem_fd < 0;
}

static int
tear_down(void **state)
{
	mr_table_destroy(t);
	close(self.mem_fd);
	return 0;
}

static void
fill(uint8_t *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 167 + seed + (i >> 8));
}

static void
assert_all(const uint8_t *p, size_t n, uint8_t v)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], v);
}

/** Write and read back @p len bytes at offset @p off of @p mr, whose bytes in order are behind @p peek. */
static void
round_trip(struct mr *mr, uint8_t *image, size_t size, size_t off, size_t len)
{
	uint8_t src[512], back[512 + 2];

	assert_true(len <= sizeof(src));
	memset(image, GUARD, size);
	fill(src, len, (unsigned int)(off + len));
	assert_int_equal(mr_write(mr, mr->iova + off, src, len), 0);
	assert_all(image, off, GUARD);
	assert_memory_equal(image + off, src, len);
	assert_all(image + off + len, size - off - len, GUARD);
	memset(back, GUARD, sizeof(back));
	assert_int_equal(mr_read(mr, mr->iova + off, back + 1, len), 0);
	assert_memory_equal(back + 1, src, len);
	assert_int_equal(back[0], GUARD);
	assert_int_equal(back[len + 1], GUARD);
}

static void
tail_is_the_largest_aligned_store(void **state)
{
	assert_int_equal(mem_tail_bytes(0x1000, 100), 8);
	assert_int_equal(mem_tail_bytes(0x1008, 8), 8);
	assert_int_equal(mem_tail_bytes(0x1008, 7), 4);
	assert_int_equal(mem_tail_bytes(0x1008, 3), 2);
	assert_int_equal(mem_tail_bytes(0x1008, 1), 1);
	assert_int_equal(mem_tail_bytes(0x1004, 100), 4);
	assert_int_equal(mem_tail_bytes(0x1002, 100), 2);
	assert_int_equal(mem_tail_bytes(0x1001, 100), 1);
}

static void
mapped_every_size_and_alignment(void **state)
{
	uint8_t *image = aligned_alloc(64, 512);
	struct mr *mr = make_mapped(t, 0x7000, image, 512);

	for (size_t off = 0; off < 17; off++)
		for (size_t len = 0; len <= 200; len++)
			round_trip(mr, image, 512, off, len);
	mr_destroy(t, mr);
	free(image);
}

static void
remote_through_own_proc_mem(void **state)
{
	uint8_t *image = aligned_alloc(64, 512);
	struct mem_seg s = { .va = (uintptr_t)image, .length = 512 };
	struct mr *mr = make_mr(t, &s, 1, &self);

	assert_null(mr->host);
	for (size_t off = 0; off < 10; off++)
		for (size_t len = 0; len <= 70; len++)
			round_trip(mr, image, 512, off, len);
	round_trip(mr, image, 512, 0, 512);
	assert_int_equal(self.dead, 0);
	mr_destroy(t, mr);
	free(image);
}

/** Mapped and remote pieces in turn, as ragged edges give them: the program's bytes at va are image[va - base]. */
static void
pieces_of_all_kinds_join_without_a_seam(void **state)
{
	enum { SIZE = 256 };
	static const uint64_t lengths[] = { 1, 7, 8, 64, 3, 100, 5, 68 };
	enum { SEGS = sizeof(lengths) / sizeof(lengths[0]) };
	int fd = memfd_create("seam", 0);
	uint8_t *image, *elsewhere;
	struct mem_seg segs[SEGS];
	struct mr *mr;
	uint64_t off = 0;

	assert_int_equal(ftruncate(fd, SIZE), 0);
	image = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	elsewhere = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (int i = 0; i < SEGS; i++) {
		/* Mapped pieces alternate between two mappings, so that no two continue each other. */
		uint8_t *base = i % 4 == 1 ? elsewhere : i % 4 == 2 ? image : i % 4 == 3 ? elsewhere : NULL;

		segs[i] = (struct mem_seg){ (uintptr_t)image + off, lengths[i], base != NULL ? base + off : NULL };
		off += lengths[i];
	}
	assert_int_equal(off, SIZE);
	mr = make_mr(t, segs, SEGS, &self);
	assert_int_equal(mr->nb_segs, SEGS);
	for (size_t from = 0; from < SIZE; from++)
		for (size_t len = 0; len <= SIZE - from; len += len < 20 ? 1 : 7)
			round_trip(mr, image, SIZE, from, len);
	mr_destroy(t, mr);
	munmap(image, SIZE);
	munmap(elsewhere, SIZE);
	close(fd);
}

static void
iova_need_not_be_the_address(void **state)
{
	uint8_t *image = aligned_alloc(64, 256), *other = aligned_alloc(64, 256);
	struct mem_seg segs[] = {
		{ (uintptr_t)image, 128, NULL },
		{ (uintptr_t)image + 128, 128, other },
	};
	struct mr_params p = { .pd = PD, .access = ALL_ACCESS, .addr = (uintptr_t)image, .length = 256, .segs = segs,
			       .nb_segs = 2, .owner = &self };
	uint8_t src[32], back[32];
	struct mr *mr;

	memset(image, 0, 256);
	memset(other, 0, 256);
	fill(src, sizeof(src), 3);
	assert_int_equal(mr_create(t, &p, &mr), 0);
	assert_int_equal(mr->iova, 0);
	assert_ptr_equal(mr_check(t, mr->key, PD, 0, 112, 32), mr);
	assert_null(mr_check(t, mr->key, PD, 0, (uintptr_t)image, 1));
	assert_int_equal(mr_write(mr, 112, src, 32), 0);
	assert_memory_equal(image + 112, src, 16);
	assert_memory_equal(other, src + 16, 16);
	assert_int_equal(mr_read(mr, 112, back, 32), 0);
	assert_memory_equal(back, src, 32);
	mr_destroy(t, mr);

	segs[0].host = other;
	segs[0].length = 256;
	p.nb_segs = 1;
	p.iova = UINT64_C(0xfffffffffffff000);
	assert_int_equal(mr_create(t, &p, &mr), 0);
	assert_int_equal(mr_write(mr, p.iova + 200, src, 32), 0);
	assert_memory_equal(other + 200, src, 32);
	mr_destroy(t, mr);
	free(image);
	free(other);
}

static void
overlapping_regions_show_the_same_bytes(void **state)
{
	uint8_t *image = aligned_alloc(64, 256);
	struct mr *a = make_mapped(t, 0x1000, image, 192), *b = make_mapped(t, 0x1040, image + 64, 192);
	uint8_t src[64], back[64];

	fill(src, sizeof(src), 9);
	assert_int_equal(mr_write(a, 0x1060, src, 64), 0);
	assert_int_equal(mr_read(b, 0x1060, back, 64), 0);
	assert_memory_equal(back, src, 64);
	mr_destroy(t, a);
	assert_int_equal(mr_read(b, 0x1060, back, 64), 0);
	assert_memory_equal(back, src, 64);
	mr_destroy(t, b);
	free(image);
}

static void
memory_that_is_gone_gives_efault_and_marks_the_owner(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *image = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mem_owner owner = { .mem_fd = self.mem_fd }, nobody = { .mem_fd = -1 };
	struct mem_seg s = { .va = (uintptr_t)image, .length = 2 * page };
	struct mr *mr = make_mr(t, &s, 1, &owner), *none = make_mr(t, &s, 1, &nobody);
	uint8_t b[64] = { 0 };
	uint64_t old;

	munmap(image + page, page);
	assert_int_equal(mr_write(mr, s.va, b, 64), 0);
	assert_int_equal(owner.dead, 0);
	/* The transfer that begins in memory and ends in nothing is short, then fails. */
	assert_int_equal(mr_read(mr, s.va + page - 32, b, 64), EFAULT);
	assert_int_equal(owner.dead, 1);
	owner.dead = 0;
	assert_int_equal(mr_write(mr, s.va + page - 32, b, 64), EFAULT);
	assert_int_equal(owner.dead, 1);
	owner.dead = 0;
	assert_int_equal(mr_atomic(mr, s.va + page, MR_FETCH_ADD, 1, 0, &old), EFAULT);
	assert_int_equal(owner.dead, 1);
	assert_int_equal(mr_read(none, s.va, b, 1), EFAULT);
	assert_int_equal(nobody.dead, 1);
	mr_destroy(t, mr);
	mr_destroy(t, none);
	munmap(image, page);
}

/** A program that polls the last byte of a message, and then must find all of it. */
struct poller {
	volatile uint8_t *at;
	size_t len;
	uint32_t done, bad;
};

enum { ROUNDS = 3000 };

static void *
poller_main(void *arg)
{
	struct poller *p = arg;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint8_t want = (uint8_t)(1 + round % 255);

		while (__atomic_load_n(&p->at[p->len - 1], __ATOMIC_ACQUIRE) != want)
			sched_yield();
		for (size_t i = 0; i < p->len; i++)
			p->bad += p->at[i] != want;
		__atomic_store_n(&p->done, round, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void
poll_last_byte(struct mr *mr, uint8_t *at, size_t off, size_t len)
{
	struct poller p = { .at = at + off, .len = len };
	uint8_t src[512];
	pthread_t thread;

	memset(at, 0, 512);
	assert_int_equal(pthread_create(&thread, NULL, poller_main, &p), 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		memset(src, 1 + round % 255, len);
		assert_int_equal(mr_write(mr, mr->iova + off, src, len), 0);
		while (__atomic_load_n(&p.done, __ATOMIC_ACQUIRE) != round)
			sched_yield();
	}
	pthread_join(thread, NULL);
	assert_int_equal(p.bad, 0);
}

static void
last_byte_comes_after_all_others(void **state)
{
	static const size_t lens[] = { 2, 7, 8, 13, 64, 100, 500 };
	uint8_t *image = aligned_alloc(64, 512);
	struct mr *mr = make_mapped(t, 0x1000, image, 512);
	struct mem_seg s = { .va = (uintptr_t)image, .length = 512 };
	struct mr *remote = make_mr(t, &s, 1, &self);

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		poll_last_byte(mr, image, 0, lens[i]);
		poll_last_byte(mr, image, 5, lens[i]);
	}
	poll_last_byte(remote, image, 3, 100);
	mr_destroy(t, mr);
	mr_destroy(t, remote);
	free(image);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tail_is_the_largest_aligned_store),
		cmocka_unit_test(mapped_every_size_and_alignment),
		cmocka_unit_test(remote_through_own_proc_mem),
		cmocka_unit_test(pieces_of_all_kinds_join_without_a_seam),
		cmocka_unit_test(iova_need_not_be_the_address),
		cmocka_unit_test(overlapping_regions_show_the_same_bytes),
		cmocka_unit_test(memory_that_is_gone_gives_efault_and_marks_the_owner),
		cmocka_unit_test(last_byte_comes_after_all_others),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
