/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Doorbells: which QP they reach, hot and cold, and the race between the two. */
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_pause.h>

#include "engine/engine_priv.h"
#include "util.h"

enum { SLOTS = 5000 };

static struct ring_db *db;
static struct qp *qps;

struct set_qp {
	struct engine_session *s;
	uint32_t slot;
	struct qp *qp;
};

static int
set_qp_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct set_qp *q = arg;

	engine_session_set_qp(q->s, q->slot, q->qp);
	return 0;
}

static int kick_fd = -1;

/* As a client does when its session is cold. */
static void
kick(void)
{
	const uint64_t one = 1;

	assert_int_equal(write(kick_fd, &one, sizeof(one)), sizeof(one));
}

static void
set_qp(struct engine *e, struct engine_session *s, uint32_t slot, struct qp *qp)
{
	struct set_qp q = { s, slot, qp };

	engine_call(e, set_qp_msg, &q);
}

static int
set_up(void **state)
{
	db = aligned_alloc(64, sizeof(*db));
	memset(db, 0, sizeof(*db));
	qps = calloc(SLOTS, sizeof(*qps));
	kick_fd = eventfd(0, EFD_CLOEXEC);
	return 0;
}

static int
tear_down(void **state)
{
	close(kick_fd);
	free(db);
	free(qps);
	return 0;
}

static void
every_doorbell_reaches_its_qp_once(void **state)
{
	static const uint32_t slots[] = { 0, 1, 63, 64, 4095, 4096, SLOTS - 1 };
	enum { N = sizeof(slots) / sizeof(slots[0]) };
	struct engine_session *s;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	s = engine_session_add(r.e, db, SLOTS, &kick_fd, false);
	assert_non_null(s);
	assert_int_equal(db->hot, 1);
	for (int i = 0; i < N; i++)
		set_qp(r.e, s, slots[i], &qps[slots[i]]);
	engine_turn(r.e);
	for (int i = 0; i < N; i++) {
		assert_false(ring_db_ring(db, slots[i]));
		assert_false(ring_db_ring(db, slots[i]));
		assert_int_equal(engine_turn(r.e), 1);
		assert_int_equal(qps[slots[i]].rung, 1);
	}
	for (int i = 0; i < N; i++)
		ring_db_ring(db, slots[i]);
	assert_int_equal(engine_turn(r.e), N);
	assert_int_equal(engine_turn(r.e), 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(qps[slots[i]].rung, 2);
	assert_int_equal(engine_stats(r.e)->doorbells, 2 * N);
	engine_session_remove(r.e, s);
	rig_down(&r, 1);
}

static void
slots_without_a_qp_or_beyond_the_end_do_nothing(void **state)
{
	struct engine_session *s;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	s = engine_session_add(r.e, db, 10, &kick_fd, false);
	set_qp(r.e, s, 3, &qps[3]);
	set_qp(r.e, s, 10, &qps[10]); /* refused: beyond the end */
	engine_turn(r.e);
	ring_db_ring(db, 2);
	ring_db_ring(db, 10);
	ring_db_ring(db, RING_DB_SLOTS - 1);
	assert_int_equal(engine_turn(r.e), 0);
	ring_db_ring(db, 3);
	set_qp(r.e, s, 3, NULL);
	engine_turn(r.e);
	assert_int_equal(qps[3].rung, 0);
	assert_int_equal(qps[10].rung, 0);
	engine_session_remove(r.e, s);
	ring_db_ring(db, 3);
	assert_int_equal(engine_turn(r.e), 0);
	rig_down(&r, 1);
}

static void
add_refuses_bad_sizes(void **state)
{
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	assert_null(engine_session_add(r.e, db, 0, &kick_fd, false));
	assert_int_equal(errno, EINVAL);
	assert_null(engine_session_add(r.e, db, RING_DB_SLOTS + 1, &kick_fd, false));
	assert_int_equal(errno, EINVAL);
	rig_down(&r, 1);
}

/* A client that rings everything at once costs a bounded turn, and the other session's doorbell isn't kept waiting. */
static void
flood_is_served_in_shares_and_nothing_gets_lost(void **state)
{
	struct ring_db *other_db = aligned_alloc(64, sizeof(*other_db));
	struct engine_session *flood, *other;
	struct qp other_qp = { 0 };
	uint64_t turns = 0, sum = 0;
	struct rig r;

	memset(other_db, 0, sizeof(*other_db));
	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	flood = engine_session_add(r.e, db, RING_DB_SLOTS, &kick_fd, false);
	other = engine_session_add(r.e, other_db, 1, NULL, false);
	for (uint32_t i = 0; i < SLOTS; i++)
		engine_session_set_qp(flood, i, &qps[i]); /* no loop runs: this thread is the engine */
	engine_session_set_qp(other, 0, &other_qp);
	for (uint32_t i = 0; i < RING_DB_SLOTS; i++)
		ring_db_ring(db, i);
	ring_db_ring(other_db, 0);
	engine_turn(r.e);
	assert_int_equal(other_qp.rung, 1);
	while (db->top != 0) {
		engine_turn(r.e);
		turns++;
	}
	assert_in_range(turns, 32, 64 * 64);
	for (uint32_t i = 0; i < SLOTS; i++)
		sum += qps[i].rung == 1;
	assert_int_equal(sum, SLOTS);
	engine_session_remove(r.e, flood);
	engine_session_remove(r.e, other);
	free(other_db);
	rig_down(&r, 1);
}

/** An engine with a session of ten slots, of which slot 4 has a QP. @param own  Of the engine's own process. */
static struct engine_session *
up_with_qp(struct rig *r, enum engine_idle idle, bool own)
{
	struct engine_session *s;

	rig_up(r, 1, idle, 0, NULL);
	s = engine_session_add(r->e, db, 10, &kick_fd, own);
	set_qp(r->e, s, 4, &qps[4]);
	return s;
}

static void
quiet_session_goes_cold_and_a_kick_heats_it(void **state)
{
	struct engine_session *s;
	struct runner run;
	struct rig r;

	s = up_with_qp(&r, ENGINE_IDLE_ADAPTIVE, false);
	run_begin(&run, r.e);
	for (uint64_t round = 1; round <= 2; round++) {
		for (int i = 0; db->hot != 0 && i < 5000; i++)
			nap_us(1000);
		nap_us(20000); /* it may look once more before it sleeps */
		assert_int_equal(db->hot, 0);
		assert_true(ring_db_ring(db, 4));
		nap_us(20000);
		assert_int_equal(qps[4].rung, round - 1); /* cold means that nobody looks */
		kick();
		assert_true(wait_for(&qps[4].rung, round));
	}
	engine_session_remove(r.e, s);
	run_end(&run);
	rig_down(&r, 1);
}

/* By its policy, or since others keep it busy. */
static void
a_loop_that_never_sleeps_sees_kicks(void **state)
{
	static const enum engine_idle policies[] = { ENGINE_IDLE_POLL, ENGINE_IDLE_ADAPTIVE, ENGINE_IDLE_INTERRUPT };
	struct engine_session *s;
	struct runner run;
	struct rig r;

	for (unsigned int k = 0; k < 3; k++) {
		memset(db, 0, sizeof(*db));
		qps[4].rung = 0;
		s = up_with_qp(&r, policies[k], false);
		rec.work = policies[k] != ENGINE_IDLE_POLL;
		run_begin(&run, r.e);
		for (int i = 0; db->hot != 0 && i < 5000; i++)
			nap_us(1000);
		assert_true(ring_db_ring(db, 4));
		kick();
		assert_true(wait_for(&qps[4].rung, 1));
		assert_int_equal(engine_stats(r.e)->sleeps, 0);
		engine_session_remove(r.e, s);
		run_end(&run);
		rig_down(&r, 1);
	}
}

static void
a_session_of_the_engines_own_process_needs_no_kick(void **state)
{
	struct engine_session *s;
	struct rig r;

	s = up_with_qp(&r, ENGINE_IDLE_POLL, true);
	engine_turn(r.e);
	s->last_ns -= 2 * (uint64_t)ENGINE_SESSION_COLD_NS;
	engine_turn(r.e);
	assert_false(ring_db_ring(db, 4));
	assert_int_equal(engine_turn(r.e), 1);
	assert_int_equal(qps[4].rung, 1);
	engine_session_remove(r.e, s);
	rig_down(&r, 1);
}

static void
grow_old(void *arg, uint64_t now_ns)
{
	struct engine_session *s = arg;

	if (rec.runs % 7 == 0)
		s->last_ns = now_ns - 2 * (uint64_t)ENGINE_SESSION_COLD_NS;
}

/*
 * Every few turns find the session old and make it cold, while its client rings at any moment: each doorbell is
 * seen, or kicked and then seen.
 */
static void
no_doorbell_is_lost_between_hot_and_cold(void **state)
{
	enum { ROUNDS = 30000, PAUSES = 11 };
	uint64_t kicks = 0, end = 0;
	struct engine_session *s;
	struct runner run;
	struct rig r;

	s = up_with_qp(&r, ENGINE_IDLE_ADAPTIVE, false);
	rec.on_run = grow_old;
	rec.on_run_arg = s;
	run_begin(&run, r.e);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		if (ring_db_ring(db, 4)) {
			kicks++;
			kick();
		}
		for (unsigned int i = 1; __atomic_load_n(&qps[4].rung, __ATOMIC_ACQUIRE) < round; i++) {
			if (i % 64 == 0)
				sched_yield();
			if (i == 1000000)
				end = clock_ns() + UINT64_C(5000000000);
			assert_true(i < 1000000 || clock_ns() < end);
		}
		/* The kick heated the session; the next doorbell comes around the moment at which it cools. */
		for (unsigned int i = 0; i < round % PAUSES; i++)
			rte_pause();
	}
	run_end(&run);
	assert_int_equal(qps[4].rung, ROUNDS);
	assert_true(kicks >= ROUNDS / 100);
	engine_session_remove(r.e, s);
	rig_down(&r, 1);
}

static void
programs_are_told_whether_to_yield(void **state)
{
	struct engine_session *s;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	s = engine_session_add(r.e, db, SLOTS, &kick_fd, false);
	assert_non_null(s);
	engine_turn(r.e);
	assert_int_equal(db->crowded, RING_CORES_ENOUGH);
	rec.light = true;
	engine_turn(r.e);
	assert_int_equal(db->crowded, RING_CORES_ENOUGH);
	r.e->crowded = true;
	engine_turn(r.e);
	assert_int_equal(db->crowded, RING_CROWDED_SOON);
	rec.light = false;
	engine_turn(r.e);
	assert_int_equal(db->crowded, RING_CROWDED);
	r.e->crowded = false;
	engine_turn(r.e);
	assert_int_equal(db->crowded, RING_CORES_ENOUGH);
	engine_session_remove(r.e, s);
	rig_down(&r, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_doorbell_reaches_its_qp_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slots_without_a_qp_or_beyond_the_end_do_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(add_refuses_bad_sizes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(flood_is_served_in_shares_and_nothing_gets_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(quiet_session_goes_cold_and_a_kick_heats_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_loop_that_never_sleeps_sees_kicks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_session_of_the_engines_own_process_needs_no_kick, set_up, tear_down),
		cmocka_unit_test_setup_teardown(programs_are_told_whether_to_yield, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_doorbell_is_lost_between_hot_and_cold, set_up, tear_down),
	};

	if (eal_up("test_engine_session") != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
