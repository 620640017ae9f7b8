/* SPDX-License-Identifier: BSD-3-Clause */
/** @file mr_atomic() on mapped, remote, unaligned and divided operands. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "util.h"

static struct mr_table *t;
static struct mem_owner self;
static uint8_t *image;

static int
set_up(void **state)
{
	t = mr_table_create(64, NULL, 0);
	self.mem_fd = open("/proc/self/mem", O_RDWR);
	image = aligned_alloc(64, 4096);
	return t == NULL || self.mem_fd < 0 || image == NULL;
}

static int
tear_down(void **state)
{
	mr_table_destroy(t);
	close(self.mem_fd);
	free(image);
	return 0;
}

static uint64_t
value_at(size_t off)
{
	uint64_t v;

	memcpy(&v, image + off, sizeof(v));
	return v;
}

/** Every outcome of both operations on the eight bytes at image + @p off, which are at @p va of @p mr. */
static void
check_operations(struct mr *mr, uint64_t va, size_t off)
{
	uint64_t v = UINT64_C(0xfffffffffffffffe), old = 0;

	memset(image, 0x11, 128);
	memcpy(image + off, &v, sizeof(v));
	assert_int_equal(mr_atomic(mr, va, MR_FETCH_ADD, 5, 0, &old), 0);
	assert_true(old == v);
	assert_true(value_at(off) == 3);
	assert_int_equal(mr_atomic(mr, va, MR_FETCH_ADD, 0, 0, &old), 0);
	assert_true(old == 3 && value_at(off) == 3);
	assert_int_equal(mr_atomic(mr, va, MR_CMP_SWAP, 4, 77, &old), 0);
	assert_true(old == 3 && value_at(off) == 3);
	assert_int_equal(mr_atomic(mr, va, MR_CMP_SWAP, 3, UINT64_C(0x0123456789abcdef), &old), 0);
	assert_true(old == 3 && value_at(off) == UINT64_C(0x0123456789abcdef));
	if (off > 0)
		assert_int_equal(image[off - 1], 0x11);
	assert_int_equal(image[off + 8], 0x11);
}

static void
mapped_operand(void **state)
{
	struct mr *mr = make_mapped(t, 0x1000, image, 64);

	check_operations(mr, 0x1000, 0);
	check_operations(mr, 0x1028, 0x28);
	mr_destroy(t, mr);
}

static void
remote_operand(void **state)
{
	struct mem_seg s = { .va = (uintptr_t)image, .length = 64 };
	struct mr *mr = make_mr(t, &s, 1, &self);

	check_operations(mr, s.va, 0);
	check_operations(mr, s.va + 16, 16);
	mr_destroy(t, mr);
}

/* The peer's address is aligned, the program's isn't: iova is free to choose. Here it crosses a cache line. */
static void
operand_unaligned_in_memory(void **state)
{
	struct mem_seg s = { .va = 0x1001, .length = 256, .host = image + 1 };
	struct mr_params p = { .pd = PD, .access = ALL_ACCESS, .addr = 0x1001, .iova = 0, .length = 256, .segs = &s,
			       .nb_segs = 1 };
	struct mr *mr;

	assert_int_equal(mr_create(t, &p, &mr), 0);
	check_operations(mr, 0, 1);
	check_operations(mr, 0x38, 0x39);
	mr_destroy(t, mr);
}

static void
operand_in_two_segments(void **state)
{
	struct mem_seg segs[] = {
		{ .va = (uintptr_t)image, .length = 12 },
		{ .va = (uintptr_t)image + 12, .length = 52, .host = image + 12 },
	};
	struct mr *mr = make_mr(t, segs, 2, &self);

	check_operations(mr, segs[0].va, 0);
	check_operations(mr, segs[0].va + 8, 8);
	check_operations(mr, segs[0].va + 16, 16);
	mr_destroy(t, mr);
}

enum { ADDS = 20000, THREADS = 3 };

struct adder {
	struct mr *mr;
	uint64_t va;
	_Atomic int failed;
};

static void *
adder_main(void *arg)
{
	struct adder *a = arg;
	uint64_t old;

	for (int i = 0; i < ADDS; i++)
		a->failed |= mr_atomic(a->mr, a->va, MR_FETCH_ADD, 1, 0, &old);
	return NULL;
}

static void
no_add_is_lost(struct mr *mr, uint64_t va, size_t off)
{
	struct adder a = { .mr = mr, .va = va };
	pthread_t threads[THREADS];

	memset(image, 0, 64);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adder_main, &a), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(a.failed, 0);
	assert_int_equal(value_at(off), ADDS * THREADS);
}

static void
engines_lose_no_update(void **state)
{
	struct mem_seg s = { .va = (uintptr_t)image, .length = 64 };
	struct mr *mapped = make_mapped(t, 0x1000, image, 64), *remote = make_mr(t, &s, 1, &self);

	no_add_is_lost(mapped, 0x1008, 8);
	no_add_is_lost(remote, s.va + 8, 8);
	mr_destroy(t, mapped);
	mr_destroy(t, remote);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapped_operand),
		cmocka_unit_test(remote_operand),
		cmocka_unit_test(operand_unaligned_in_memory),
		cmocka_unit_test(operand_in_two_segments),
		cmocka_unit_test(engines_lose_no_update),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
