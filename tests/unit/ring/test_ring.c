/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The inline helpers of lib/ring: phases, strides, readiness, doorbells, and both ends on two threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "ring/ring.h"

enum { ORDER = 3, SLOTS = 1 << ORDER, SHIFT = 6 };

static struct ring
ring_new(void)
{
	struct ring r = { RING_SIZE(ORDER, SHIFT) };

	r.base = aligned_alloc(64, SLOTS << SHIFT);
	assert_non_null(r.base);
	memset(r.base, 0, SLOTS << SHIFT);
	return r;
}

static void
phase_alternates_with_each_lap_and_is_never_zero(void **state)
{
	for (uint32_t i = 0; i < 4 * SLOTS; i++)
		assert_int_equal(ring_phase(i, ORDER), 1 + (i / SLOTS) % 2);
	/* The counter wraps from one lap into the next. */
	assert_int_equal(ring_phase(UINT32_MAX, ORDER), 2);
	assert_int_equal(ring_phase(0, ORDER), 1);
	assert_int_equal(ring_phase(0, 0), 1);
	assert_int_equal(ring_phase(1, 0), 2);
	assert_int_equal(ring_phase(1u << 31, 31), 2);
}

static void
slots_lie_in_a_circle(void **state)
{
	struct ring r = ring_new();

	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_ptr_equal(ring_slot(&r, i), r.base + i * 64);
		assert_ptr_equal(ring_slot(&r, i + SLOTS), r.base + i * 64);
	}
	assert_ptr_equal(ring_slot(&r, UINT32_MAX), r.base + (SLOTS - 1) * 64);
	free(r.base);
}

static void
strides_are_the_least_power_of_two_that_fits(void **state)
{
	assert_int_equal(ring_sq_stride(0, 0), 64);
	assert_int_equal(ring_sq_stride(1, 0), 64);   /* 32 + 16 + 16 */
	assert_int_equal(ring_sq_stride(2, 0), 128);
	assert_int_equal(ring_sq_stride(0, 32), 64);
	assert_int_equal(ring_sq_stride(0, 33), 128);
	assert_int_equal(ring_sq_stride(UROCE_MAX_SGE, 0), 1024);
	assert_int_equal(ring_sq_stride(1, UROCE_MAX_INLINE), 2048);
	assert_int_equal(ring_rq_stride(0), 32);
	assert_int_equal(ring_rq_stride(1), 32);
	assert_int_equal(ring_rq_stride(2), 64);
	assert_int_equal(ring_rq_stride(UROCE_MAX_SGE), 1024);
	for (uint32_t sge = 0; sge <= UROCE_MAX_SGE; sge++) {
		assert_true(ring_sq_stride(sge, 0) >= 48 + sge * 16);
		assert_true(ring_rq_stride(sge) >= 16 + sge * 16);
	}
}

static void
control_words_have_their_fields_where_the_abi_says(void **state)
{
	const union ring_sq_ctl sq = { .opcode = 0x11, .flags = 0x22, .count = 0x4433, .phase = 0x55, .srqn = 0x887766 };
	const union ring_rq_ctl rq = { .num_sge = 0x2211, .phase = 0x88 };
	const union ring_cqe_ctl cq = { .wqe_counter = 0x2211, .vendor_err = 0x33, .wc_flags = 0x44, .sl = 0x55,
					.pkey_index = 0x66, .is_recv = 1, .dead = 1, .phase = 0x88 };

	assert_true(sq.word == UINT64_C(0x8877665544332211));
	assert_true(rq.word == UINT64_C(0x8800000000002211));
	assert_true(cq.word == UINT64_C(0x8805665544332211));
}

static void
slot_is_ready_in_its_lap_only(void **state)
{
	struct ring sq = ring_new(), rq = ring_new(), cq = ring_new();
	union ring_cqe_ctl got;

	for (uint32_t i = 0; i < 5 * SLOTS; i++) {
		const union ring_sq_ctl s = { .opcode = (uint8_t)i, .phase = ring_phase(i, ORDER) };
		const union ring_rq_ctl r = { .num_sge = 1, .phase = ring_phase(i, ORDER) };
		const union ring_cqe_ctl c = { .wqe_counter = (uint16_t)i, .phase = ring_phase(i, ORDER) };

		assert_false(ring_sq_ready(&sq, i));
		assert_false(ring_rq_ready(&rq, i));
		assert_false(ring_cq_ready(&cq, i, &got));
		atomic_store(&((struct ring_sq_wqe *)ring_slot(&sq, i))->ctl, s.word);
		atomic_store(&((struct ring_rq_wqe *)ring_slot(&rq, i))->ctl, r.word);
		atomic_store(&((struct ring_cqe *)ring_slot(&cq, i))->ctl, c.word);
		assert_true(ring_sq_ready(&sq, i));
		assert_true(ring_rq_ready(&rq, i));
		assert_true(ring_cq_ready(&cq, i, &got));
		assert_int_equal(got.wqe_counter, i);
		assert_false(ring_sq_ready(&sq, i + SLOTS));
		assert_false(ring_rq_ready(&rq, i + SLOTS));
		assert_false(ring_cq_ready(&cq, i + SLOTS, &got));
	}
	free(sq.base);
	free(rq.base);
	free(cq.base);
}

/** What both threads of the next test share. */
struct both {
	struct ring r;
	_Atomic uint32_t taken;
};

enum { MESSAGES = 100000 };

static void *
producer_main(void *arg)
{
	struct both *b = arg;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ring_sq_wqe *w = ring_slot(&b->r, i);
		const union ring_sq_ctl ctl = { .opcode = (uint8_t)i, .phase = ring_phase(i, ORDER) };

		while (i - atomic_load_explicit(&b->taken, memory_order_acquire) >= SLOTS)
			sched_yield();
		w->wr_id = UINT64_C(0x100000001) * i;
		w->remote_addr = ~w->wr_id;
		atomic_store_explicit(&w->ctl, ctl.word, memory_order_release);
	}
	return NULL;
}

static void
consumer_sees_whole_slots_in_order(void **state)
{
	struct both b = { .r = ring_new() };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, producer_main, &b), 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		const struct ring_sq_wqe *w = ring_slot(&b.r, i);

		while (!ring_sq_ready(&b.r, i))
			sched_yield();
		assert_true(w->wr_id == UINT64_C(0x100000001) * i);
		assert_true(w->remote_addr == ~w->wr_id);
		atomic_store_explicit(&b.taken, i + 1, memory_order_release);
	}
	pthread_join(thread, NULL);
	assert_false(ring_sq_ready(&b.r, MESSAGES));
	free(b.r.base);
}

static void
doorbell_sets_a_bit_on_each_level(void **state)
{
	static const uint32_t slots[] = { 0, 63, 64, 4095, 4096, 70000, RING_DB_SLOTS - 1 };
	struct ring_db *db = aligned_alloc(64, sizeof(*db));

	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		uint32_t s = slots[i];

		memset(db, 0, sizeof(*db));
		assert_true(ring_db_ring(db, s)); /* cold: kick */
		assert_true(db->low[s / 64] == UINT64_C(1) << s % 64);
		assert_true(db->mid[s / 4096] == UINT64_C(1) << s / 64 % 64);
		assert_true(db->top == UINT64_C(1) << s / 4096);
		db->hot = 1;
		assert_false(ring_db_ring(db, s));
	}
	free(db);
}

static void
doorbell_leaves_upper_levels_to_whoever_was_first(void **state)
{
	struct ring_db *db = aligned_alloc(64, sizeof(*db));

	memset(db, 0, sizeof(*db));
	ring_db_ring(db, 5);
	/* An engine on its way down has taken top, not yet low: the next ringer has nothing to add above. */
	db->top = 0;
	ring_db_ring(db, 6);
	assert_true(db->top == 0);
	assert_true(db->low[0] == (1 << 5 | 1 << 6));
	/* Once low is taken, the next one starts anew, from the bottom up. */
	db->mid[0] = 0;
	db->low[0] = 0;
	ring_db_ring(db, 6);
	assert_true(db->top == 1 && db->mid[0] == 1 && db->low[0] == 1 << 6);
	free(db);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phase_alternates_with_each_lap_and_is_never_zero),
		cmocka_unit_test(slots_lie_in_a_circle),
		cmocka_unit_test(strides_are_the_least_power_of_two_that_fits),
		cmocka_unit_test(control_words_have_their_fields_where_the_abi_says),
		cmocka_unit_test(slot_is_ready_in_its_lap_only),
		cmocka_unit_test(consumer_sees_whole_slots_in_order),
		cmocka_unit_test(doorbell_sets_a_bit_on_each_level),
		cmocka_unit_test(doorbell_leaves_upper_levels_to_whoever_was_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
