/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls, events, start and stop. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/engine_priv.h"
#include "util.h"

struct call {
	pthread_t ran_on;
	uint64_t now_ns;
	uint64_t times;
};

static int
note_call(struct engine *e, void *arg, uint64_t now_ns)
{
	struct call *c = arg;

	c->ran_on = pthread_self();
	c->now_ns = now_ns;
	c->times++;
	return 40 + (int)(c->times % 2);
}

static void
call_without_a_loop_runs_here(void **state)
{
	struct rig r;
	struct call c = { 0 };

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	assert_int_equal(engine_call(r.e, note_call, &c), 41);
	assert_true(pthread_equal(c.ran_on, pthread_self()));
	assert_int_equal(engine_call(r.e, note_call, &c), 40);
	assert_int_equal(c.times, 2);
	/* The transport hears of it, and has brief turns. */
	assert_int_equal(rec.called, 2);
	rig_down(&r, 1);
}

static void
call_runs_on_the_loops_thread_with_its_clock(void **state)
{
	struct rig r;
	struct runner run;
	struct call c = { 0 };
	uint64_t before, after;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	run_begin(&run, r.e);
	assert_true(wait_for(&rec.runs, 1));
	before = clock_ns();
	assert_int_equal(engine_call(r.e, note_call, &c), 41);
	after = clock_ns();
	assert_true(pthread_equal(c.ran_on, run.thread));
	/* Its turn may have begun before the call did, by a few time slices on a busy machine. */
	assert_in_range(c.now_ns, before - 500000000, after + 10000000);
	run_end(&run);
	assert_int_equal(engine_call(r.e, note_call, &c), 40);
	assert_true(pthread_equal(c.ran_on, pthread_self()));
	rig_down(&r, 1);
}

static void
call_wakes_a_sleeping_engine(void **state)
{
	struct rig r;
	struct runner run;
	struct call c = { 0 };
	uint64_t sleeps = 0;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	run_begin(&run, r.e);
	for (int i = 0; i < 50; i++) {
		/* It doesn't wake by itself, so it sleeps now and once more after the call. */
		assert_true(wait_for(&engine_stats(r.e)->sleeps, sleeps + 1));
		sleeps = engine_stats(r.e)->sleeps;
		engine_call(r.e, note_call, &c);
	}
	assert_int_equal(c.times, 50);
	/* The engine counts its messages after it has run them. */
	assert_true(wait_for(&engine_stats(r.e)->mailbox, 50));
	run_end(&run);
	rig_down(&r, 1);
}

enum { CALLERS = 4, CALLS = 2000 };

struct caller {
	struct engine *e;
	struct call c;
	uint64_t *shared;
};

static int
add_one(struct engine *e, void *arg, uint64_t now_ns)
{
	/* Not atomic: only calls that never overlap count right. */
	volatile uint64_t *n = arg;

	*n = *n + 1;
	return 7;
}

static void *
caller_main(void *arg)
{
	struct caller *c = arg;

	for (int i = 0; i < CALLS; i++)
		c->c.times += (uint64_t)engine_call(c->e, add_one, c->shared);
	return NULL;
}

static void
callers_on_many_threads(struct rig *r)
{
	struct caller callers[CALLERS];
	pthread_t threads[CALLERS];
	uint64_t shared = 0;

	for (int i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){ .e = r->e, .shared = &shared };
		assert_int_equal(pthread_create(&threads[i], NULL, caller_main, &callers[i]), 0);
	}
	for (int i = 0; i < CALLERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(callers[i].c.times, 7 * CALLS);
	}
	assert_int_equal(shared, CALLERS * CALLS);
}

static void
no_call_is_lost_or_overlaps(void **state)
{
	struct rig r;
	struct runner run;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	callers_on_many_threads(&r); /* without a loop: they run each other's */
	run_begin(&run, r.e);
	callers_on_many_threads(&r);
	run_end(&run);
	rig_down(&r, 1);
}

static void *
stopper_main(void *arg)
{
	struct rig *r = arg;
	struct runner run;

	for (int i = 0; i < 100; i++) {
		run_begin(&run, r->e);
		nap_us(i * 7 % 300);
		run_end(&run);
	}
	return NULL;
}

static void
calls_survive_start_and_stop_of_the_loop(void **state)
{
	struct rig r;
	pthread_t stopper;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	assert_int_equal(pthread_create(&stopper, NULL, stopper_main, &r), 0);
	callers_on_many_threads(&r);
	pthread_join(stopper, NULL);
	rig_down(&r, 1);
}

static void
stop_before_start_ends_the_loop_once(void **state)
{
	struct rig r;
	uint64_t runs;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	engine_stop(r.e);
	assert_int_equal(engine_loop(r.e), 0);
	runs = rec.runs;
	assert_int_equal(engine_turn(r.e), 0);
	assert_int_equal(rec.runs, runs + 1);
	rig_down(&r, 1);
}

static void
turn_of_ones_own_holds_up_no_grace_period(void **state)
{
	struct rig r;
	struct call c = { 0 };

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	rec.work = 3;
	assert_int_equal(engine_turn(r.e), 3);
	rcu_wait(r.sh.qsbr);
	engine_call(r.e, note_call, &c);
	rcu_wait(r.sh.qsbr);
	rig_down(&r, 1);
}

static void
running_engine_lets_grace_periods_pass(void **state)
{
	static const enum engine_idle policies[] = { ENGINE_IDLE_POLL, ENGINE_IDLE_ADAPTIVE };

	for (int p = 0; p < 2; p++) {
		struct rig r;
		struct runner run;

		rig_up(&r, 1, policies[p], 0, NULL);
		run_begin(&run, r.e);
		for (int i = 0; i < 20; i++) {
			rcu_wait(r.sh.qsbr);
			nap_us(200);
		}
		run_end(&run);
		rig_down(&r, 1);
	}
}

static bool
readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void
events_arrive_with_their_descriptor(void **state)
{
	struct tp_event want = { .type = UROCE_EVENT_QP_FATAL, .cookie = 0x1234, .owner = &want };
	struct engine_event ev;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	assert_false(readable(engine_event_fd(r.e)));
	assert_false(engine_event_next(r.e, &ev));
	for (int round = 0; round < 3; round++) {
		double_emit(&want, 3);
		engine_turn(r.e);
		assert_true(readable(engine_event_fd(r.e)));
		for (int i = 0; i < 3; i++) {
			assert_true(engine_event_next(r.e, &ev));
			assert_int_equal(ev.kind, ENGINE_EV_ASYNC);
			assert_int_equal(ev.async.type, UROCE_EVENT_QP_FATAL);
			assert_int_equal(ev.async.cookie, 0x1234);
			assert_ptr_equal(ev.async.owner, &want);
		}
		assert_false(engine_event_next(r.e, &ev));
		assert_false(readable(engine_event_fd(r.e)));
	}
	rig_down(&r, 1);
}

static void
too_many_events_are_counted(void **state)
{
	const struct tp_event want = { .type = UROCE_EVENT_COMM_EST };
	struct engine_event ev;
	struct rig r;
	unsigned int n = 0;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	double_emit(&want, ENGINE_EVENTS + 5);
	engine_turn(r.e);
	assert_int_equal(engine_stats(r.e)->events_lost, 5);
	while (engine_event_next(r.e, &ev))
		n++;
	assert_int_equal(n, ENGINE_EVENTS);
	double_emit(&want, 1);
	engine_turn(r.e);
	assert_true(engine_event_next(r.e, &ev));
	rig_down(&r, 1);
}

static void
no_event_waits_behind_a_quiet_descriptor(void **state)
{
	enum { ROUNDS = 3000 };
	const struct tp_event want = { .type = UROCE_EVENT_COMM_EST };
	struct engine_event ev;
	struct runner run;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	run_begin(&run, r.e);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct pollfd p = { .fd = engine_event_fd(r.e), .events = POLLIN };

		double_emit(&want, 1);
		/* A wake-up may be for what has been taken already, but one must come. */
		do
			assert_int_equal(poll(&p, 1, 5000), 1);
		while (!engine_event_next(r.e, &ev));
	}
	run_end(&run);
	assert_int_equal(engine_stats(r.e)->events_lost, 0);
	rig_down(&r, 1);
}

/** Make it @p ns o'clock for the engine, and stop its clock there. */
static void
set_clock(struct engine *e, uint64_t ns)
{
	e->clock.base_ns = ns;
	e->clock.mult = 0;
	e->clock.trim_cycles = UINT64_MAX;
}

/** QPs 1 to @p times fail in one turn. @return the events, which are of the first so many. */
static uint32_t
told_of_failures(struct engine *e, uint8_t why, uint32_t times)
{
	struct engine_event ev;
	uint32_t n = 0;

	double_emit_failures(why, times);
	engine_turn(e);
	while (engine_event_next(e, &ev)) {
		assert_int_equal(ev.kind, ENGINE_EV_FAILED);
		assert_int_equal(ev.failed.qpn, ++n);
		assert_int_equal(ev.failed.reason.why, why);
	}
	return n;
}

static void
so_many_failures_a_second_are_told_and_the_rest_counted(void **state)
{
	const uint64_t second = UINT64_C(1000000000);
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	set_clock(r.e, 1000000 * second);
	assert_int_equal(told_of_failures(r.e, QP_WHY_SEND, 3), 3);
	assert_int_equal(told_of_failures(r.e, QP_WHY_RECEIVE, ENGINE_FAILURES), ENGINE_FAILURES - 3);
	assert_int_equal(engine_stats(r.e)->failures_unsaid, 3);
	/* Connections that end as they should take no line of one that broke, and aren't missed. */
	assert_int_equal(told_of_failures(r.e, QP_WHY_PROGRAM, 1000), ENGINE_FAILURES);
	assert_int_equal(engine_stats(r.e)->failures_unsaid, 3);
	set_clock(r.e, 1000000 * second + second / 2);
	assert_int_equal(told_of_failures(r.e, QP_WHY_SEND, 100), 0);
	assert_int_equal(engine_stats(r.e)->failures_unsaid, 103);
	set_clock(r.e, 1000001 * second);
	assert_int_equal(told_of_failures(r.e, QP_WHY_PROGRAM, 1000), ENGINE_FAILURES);
	assert_int_equal(told_of_failures(r.e, QP_WHY_SEND, ENGINE_FAILURES), ENGINE_FAILURES);
	assert_int_equal(told_of_failures(r.e, QP_WHY_SEND, 1), 0);
	assert_int_equal(engine_stats(r.e)->failures_unsaid, 104);
	rig_down(&r, 1);
}

static void
mads_arrive_in_their_order(void **state)
{
	struct engine_event ev;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	for (uint32_t round = 0; round < 10; round++) {
		const uint32_t first = round * ENGINE_MADS;

		double_emit_mads(first, ENGINE_MADS);
		engine_turn(r.e);
		assert_true(readable(engine_event_fd(r.e)));
		for (uint32_t i = 0; i < ENGINE_MADS; i++) {
			assert_true(engine_event_next(r.e, &ev));
			assert_int_equal(ev.kind, ENGINE_EV_MAD);
			assert_int_equal(ev.mad->src_qpn, first + i);
		}
		assert_false(engine_event_next(r.e, &ev));
	}
	assert_int_equal(engine_stats(r.e)->mads_dropped, 0);
	rig_down(&r, 1);
}

static void
a_flood_of_mads_is_counted_and_loses_no_event_of_a_qp(void **state)
{
	const struct tp_event want = { .type = UROCE_EVENT_QP_FATAL };
	struct engine_event ev;
	uint32_t mads = 0, events = 0;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	double_emit_mads(0, 2 * ENGINE_EVENTS);
	engine_turn(r.e);
	assert_int_equal(engine_stats(r.e)->mads_dropped, 2 * ENGINE_EVENTS - ENGINE_MADS);
	double_emit(&want, ENGINE_EVENTS / 2);
	engine_turn(r.e);
	assert_int_equal(engine_stats(r.e)->events_lost, 0);
	while (engine_event_next(r.e, &ev)) {
		mads += ev.kind == ENGINE_EV_MAD;
		events += ev.kind == ENGINE_EV_ASYNC;
	}
	assert_int_equal(mads, ENGINE_MADS);
	assert_int_equal(events, ENGINE_EVENTS / 2);
	/* The half of the events that isn't QPs' own is full: a MAD has a slot then, but no event. */
	double_emit(&want, ENGINE_EVENTS / 2);
	engine_turn(r.e);
	double_emit_mads(7, 3);
	engine_turn(r.e);
	assert_int_equal(engine_stats(r.e)->mads_dropped, 2 * ENGINE_EVENTS - ENGINE_MADS + 3);
	while (engine_event_next(r.e, &ev))
		;
	double_emit_mads(0, ENGINE_MADS);
	engine_turn(r.e);
	for (mads = 0; engine_event_next(r.e, &ev); mads++)
		assert_int_equal(ev.mad->src_qpn, mads);
	assert_int_equal(mads, ENGINE_MADS);
	rig_down(&r, 1);
}

static void
create_refuses_what_cannot_be(void **state)
{
	struct rig r;
	struct engine_config good, bad;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	good = (struct engine_config){ .nb_engines = 1, .sh = r.sh, .socket_id = SOCKET_ID_ANY };
	good.sh.qsbr = NULL;
	bad = good;
	bad.id = 1;
	assert_null(engine_create(&bad));
	assert_int_equal(errno, EINVAL);
	bad = good;
	bad.nb_engines = UROCE_MAX_ENGINES + 1;
	assert_null(engine_create(&bad));
	bad = good;
	bad.nb_ports = UROCE_MAX_PORTS + 1;
	assert_null(engine_create(&bad));
	bad = good;
	bad.sh.qps = NULL;
	assert_null(engine_create(&bad));
	rig_down(&r, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_without_a_loop_runs_here),
		cmocka_unit_test(call_runs_on_the_loops_thread_with_its_clock),
		cmocka_unit_test(call_wakes_a_sleeping_engine),
		cmocka_unit_test(no_call_is_lost_or_overlaps),
		cmocka_unit_test(calls_survive_start_and_stop_of_the_loop),
		cmocka_unit_test(stop_before_start_ends_the_loop_once),
		cmocka_unit_test(turn_of_ones_own_holds_up_no_grace_period),
		cmocka_unit_test(running_engine_lets_grace_periods_pass),
		cmocka_unit_test(events_arrive_with_their_descriptor),
		cmocka_unit_test(too_many_events_are_counted),
		cmocka_unit_test(no_event_waits_behind_a_quiet_descriptor),
		cmocka_unit_test(so_many_failures_a_second_are_told_and_the_rest_counted),
		cmocka_unit_test(mads_arrive_in_their_order),
		cmocka_unit_test(a_flood_of_mads_is_counted_and_loses_no_event_of_a_qp),
		cmocka_unit_test(create_refuses_what_cannot_be),
	};

	if (eal_up("test_engine_mailbox") != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
