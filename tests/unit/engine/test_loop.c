/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Loops with several threads and several engines: one thread at a time runs them, and no wake-up is lost. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_lcore.h>

#include "engine/engine_priv.h"
#include "util.h"

enum { THREADS = 2, PROGRAMS = 2, ROUNDS = 20000 };

struct program {
	struct engine *e;
	struct engine_session *s;
	struct ring_db *db;
	struct qp qp;
	int kick_fds[THREADS];
	unsigned int thread; /* of the loop, the one that it kicks */
	uint64_t kicks;
	pthread_t id;
};

struct member {
	struct engine_loop *l;
	unsigned int thread;
	pthread_t id;
};

static struct rig rig[2];
static struct program programs[PROGRAMS];
static struct member members[THREADS];
static struct engine_loop *loop;

/* transport_run() of both engines: never on two threads at once. */
static _Atomic int inside;
static _Atomic uint64_t overlaps, slice_ns;
static unsigned int nb_threads = THREADS;

static void
look_for_overlap(void *arg, uint64_t now_ns)
{
	overlaps += atomic_fetch_add(&inside, 1) != 0;
	atomic_fetch_sub(&inside, 1);
}

static int
set_qp_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct program *p = arg;

	engine_session_set_qp(p->s, 0, &p->qp);
	return 0;
}

static void *
member_main(void *arg)
{
	struct member *m = arg;

	engine_loop_run(m->l, m->thread);
	return NULL;
}

/** Two engines without ports, a program of each, and a loop of two threads. */
static void
up(enum engine_idle idle)
{
	static const int cpus[THREADS] = { 0, 1 };
	struct engine *engines[2];

	rig_cpus = cpus;
	rig_nb_cpus = nb_threads;
	rig_up(rig, 2, idle, 0, NULL);
	rec.on_run = look_for_overlap;
	overlaps = 0;
	for (unsigned int i = 0; i < PROGRAMS; i++) {
		struct program *p = &programs[i];

		*p = (struct program){ .e = rig[i].e, .db = aligned_alloc(64, sizeof(*p->db)) };
		memset(p->db, 0, sizeof(*p->db));
		for (unsigned int k = 0; k < nb_threads; k++)
			p->kick_fds[k] = eventfd(0, EFD_CLOEXEC);
		p->s = engine_session_add(p->e, p->db, 1, p->kick_fds, false);
		assert_non_null(p->s);
		engine_call(p->e, set_qp_msg, p);
		engines[i] = p->e;
	}
	loop = engine_loop_create(engines, 2);
	assert_non_null(loop);
	for (unsigned int i = 0; i < nb_threads; i++) {
		members[i] = (struct member){ .l = loop, .thread = i };
		assert_int_equal(pthread_create(&members[i].id, NULL, member_main, &members[i]), 0);
	}
}

static void
down(void)
{
	for (unsigned int i = 0; i < PROGRAMS; i++)
		engine_session_remove(programs[i].e, programs[i].s);
	engine_stop(rig[0].e);
	engine_stop(rig[1].e);
	for (unsigned int i = 0; i < nb_threads; i++)
		pthread_join(members[i].id, NULL);
	engine_loop_destroy(loop);
	for (unsigned int i = 0; i < PROGRAMS; i++) {
		for (unsigned int k = 0; k < nb_threads; k++)
			close(programs[i].kick_fds[k]);
		free(programs[i].db);
	}
	assert_int_equal(overlaps, 0);
	rig_down(rig, 2);
	rig_nb_cpus = 0;
}

static void
kick(struct program *p)
{
	const uint64_t one = 1;

	p->kicks++;
	assert_int_equal(write(p->kick_fds[p->thread], &one, sizeof(one)), sizeof(one));
}

/** Ring and wait for the engine, again and again; kick this and that thread, with pauses of every length. */
static void *
program_main(void *arg)
{
	struct program *p = arg;
	uint64_t end;

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		p->thread = round % 3 == 0;
		if (ring_db_ring(p->db, 0))
			kick(p);
		end = clock_ns() + UINT64_C(10000000000);
		for (unsigned int i = 1; __atomic_load_n(&p->qp.rung, __ATOMIC_ACQUIRE) < round; i++) {
			if (i % 64 == 0)
				sched_yield();
			if (i % 4096 == 0 && clock_ns() > end)
				return NULL;
		}
		for (unsigned int i = 0; i < round % 13; i++)
			rte_pause();
		if (round % 512 == 0)
			nap_us(2000);
	}
	return p;
}

static void
every_doorbell_is_seen(void **state)
{
	static const enum engine_idle policies[] = { ENGINE_IDLE_ADAPTIVE, ENGINE_IDLE_INTERRUPT };
	void *done;

	for (unsigned int k = 0; k < 2; k++) {
		up(policies[k]);
		for (unsigned int i = 0; i < PROGRAMS; i++)
			assert_int_equal(pthread_create(&programs[i].id, NULL, program_main, &programs[i]), 0);
		for (unsigned int i = 0; i < PROGRAMS; i++) {
			pthread_join(programs[i].id, &done);
			assert_ptr_equal(done, &programs[i]);
			assert_true(programs[i].kicks > 0);
		}
		down();
	}
}

static int
count_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	++*(uint64_t *)arg;
	return 0;
}

static void
calls_are_served_asleep_or_awake(void **state)
{
	uint64_t n = 0;

	up(ENGINE_IDLE_ADAPTIVE);
	for (unsigned int i = 1; i <= 2000; i++) {
		engine_call(rig[i % 2].e, count_msg, &n);
		if (i % 100 == 0)
			nap_us(3000);
	}
	assert_int_equal(n, 2000);
	down();
}

static uint64_t raised, raised_runs;

/** transport_run(): raises a completion event for each doorbell of the first program. */
static void
raise_event(void *arg, uint64_t now_ns)
{
	if (programs[0].qp.rung == raised)
		return;
	raised = programs[0].qp.rung;
	rec.untold++;
	raised_runs = rec.runs;
}

static void
an_engine_raises_events_at_the_end_of_its_turn(void **state)
{
	rig_up(rig, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	rec.on_run = raise_event;
	programs[0].qp.rung = raised + 1;
	engine_turn(rig[0].e);
	assert_int_equal(rec.told, 1);
	assert_int_equal(rec.untold, 0);
	rec.told = 0;
	rig_down(rig, 1);
}

/** @return turns that the engines had after the one in which an event was raised until it was told. */
static uint64_t
turns_until_told(void)
{
	uint64_t told = __atomic_load_n(&rec.told, __ATOMIC_ACQUIRE);

	if (ring_db_ring(programs[0].db, 0))
		kick(&programs[0]);
	assert_true(wait_for(&rec.told, told + 1));
	return rec.told_runs - raised_runs;
}

/* The acknowledgement of what a program is told of comes first: the other engine has a turn. */
static void
loops_raise_events_when_all_engines_had_a_turn(void **state)
{
	up(ENGINE_IDLE_ADAPTIVE);
	raised = 0;
	rec.on_run = raise_event;
	for (unsigned int i = 0; i < 200; i++) {
		assert_in_range(turns_until_told(), 1, 2 * 9);
		/* Programs that pause let the loop sleep, or another of its threads take over. */
		nap_us(i % 2 == 0 ? 0 : 200);
	}
	/* After a long sleep the first engine has another turn as well. */
	for (unsigned int i = 0; i < 50; i++) {
		nap_us(3000);
		assert_in_range(turns_until_told(), 2, 2 * 9);
	}
	/* Work that never ends doesn't delay them for long. */
	__atomic_store_n(&rec.work, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < 200; i++)
		assert_in_range(turns_until_told(), 1, 2 * 3);
	__atomic_store_n(&rec.work, 0, __ATOMIC_RELEASE);
	down();
}

static void
raise_always(void *arg, uint64_t now_ns)
{
	rec.untold++;
}

static void
nothing_is_left_untold_when_an_engine_stops(void **state)
{
	uint64_t told;

	up(ENGINE_IDLE_ADAPTIVE);
	told = __atomic_load_n(&rec.told, __ATOMIC_ACQUIRE);
	rec.on_run = raise_always;
	__atomic_store_n(&rec.work, 1, __ATOMIC_RELEASE);
	if (ring_db_ring(programs[0].db, 0))
		kick(&programs[0]);
	assert_true(wait_for(&rec.told, told + 1));
	down();
	assert_int_equal(rec.untold, 0);
	__atomic_store_n(&rec.work, 0, __ATOMIC_RELEASE);
}

/* The other engine goes on, and the loop ends with the last one. */
static void
an_engine_that_stops_leaves_the_loop(void **state)
{
	uint64_t n = 0;

	up(ENGINE_IDLE_ADAPTIVE);
	engine_stop(rig[1].e);
	/* Nobody runs it any more, so this call runs right here. */
	for (unsigned int i = 0; i < 100; i++) {
		engine_call(rig[1].e, count_msg, &n);
		engine_call(rig[0].e, count_msg, &n);
		nap_us(100);
	}
	assert_int_equal(n, 200);
	if (ring_db_ring(programs[0].db, 0))
		kick(&programs[0]);
	assert_true(wait_for(&programs[0].qp.rung, 1));
	down();
	atomic_store(&rig[1].e->stop, 0);
}

static void
nobody_is_woken_when_nothing_happens(void **state)
{
	uint64_t turns;

	up(ENGINE_IDLE_ADAPTIVE);
	nap_us(50000);
	turns = engine_stats(rig[0].e)->turns;
	nap_us(200000);
	assert_int_equal(engine_stats(rig[0].e)->turns, turns);
	down();
}

/** Let both programs ring for a while, each from a CPU of its own or both from the first. @return true if they are told to yield then. */
static bool
rings_tell_to_yield_soon(bool apart)
{
	uint64_t end = clock_ns() + 50000000;
	uint64_t rung[PROGRAMS];

	while (clock_ns() < end) {
		for (unsigned int i = 0; i < PROGRAMS; i++) {
			programs[i].thread = apart ? i : 0;
			rung[i] = __atomic_load_n(&programs[i].qp.rung, __ATOMIC_ACQUIRE);
			/* A kick says where the program is, needed or not. */
			ring_db_ring(programs[i].db, 0);
			kick(&programs[i]);
		}
		for (unsigned int i = 0; i < PROGRAMS; i++)
			assert_true(wait_for(&programs[i].qp.rung, rung[i] + 1));
	}
	return atomic_load(&programs[0].db->crowded) != 0 && atomic_load(&programs[1].db->crowded) != 0;
}

/** On a busy machine programs that ring now and then don't count as active. @return whether they are told to yield, or not to, as they should be. */
static bool
rings_tell_to_yield(bool apart)
{
	for (unsigned int i = 0; i < 50; i++)
		if (rings_tell_to_yield_soon(apart) == !apart)
			return !apart;
	return apart;
}

static void
programs_on_one_cpu_are_told_to_yield(void **state)
{
	up(ENGINE_IDLE_ADAPTIVE);
	assert_true(rings_tell_to_yield(false));
	assert_false(rings_tell_to_yield(true));
	assert_true(rings_tell_to_yield(false));
	down();
}

/* Where there is one CPU, the loop leaves it to the programs as soon as it has no work. */
static void
the_only_cpu_is_left_to_programs(void **state)
{
	uint64_t turns;

	nb_threads = 1;
	up(ENGINE_IDLE_ADAPTIVE);
	assert_true(rings_tell_to_yield(false));
	/* The loop would spin for a millisecond if it had the CPU to itself. */
	nap_us(100);
	turns = engine_stats(rig[0].e)->turns;
	nap_us(500);
	assert_int_equal(engine_stats(rig[0].e)->turns, turns);
	down();
	nb_threads = THREADS;
}

static void
note_slice(void *arg, uint64_t now_ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} a = { 0 };

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) == 0)
		atomic_store(&slice_ns, a.runtime);
}

/* Kernels before 6.12 have no slices of their own for threads, and say 0. */
static void
loops_have_short_slices(void **state)
{
	uint64_t n = 0;

	note_slice(NULL, 0);
	if (slice_ns == 0)
		skip();
	up(ENGINE_IDLE_ADAPTIVE);
	rec.on_run = note_slice;
	/* Until the loop has begun, this thread runs the engine. */
	for (unsigned int i = 0; i < 1000 && slice_ns != 100000; i++) {
		engine_call(rig[0].e, count_msg, &n);
		nap_us(1000);
	}
	assert_int_equal(slice_ns, 100000);
	rec.on_run = look_for_overlap;
	down();
}

static void
create_refuses_too_many(void **state)
{
	struct engine *engines[ENGINE_LOOP_MAX + 1] = { NULL };

	assert_null(engine_loop_create(engines, 0));
	assert_null(engine_loop_create(engines, ENGINE_LOOP_MAX + 1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_doorbell_is_seen),
		cmocka_unit_test(calls_are_served_asleep_or_awake),
		cmocka_unit_test(an_engine_raises_events_at_the_end_of_its_turn),
		cmocka_unit_test(loops_raise_events_when_all_engines_had_a_turn),
		cmocka_unit_test(nothing_is_left_untold_when_an_engine_stops),
		cmocka_unit_test(an_engine_that_stops_leaves_the_loop),
		cmocka_unit_test(nobody_is_woken_when_nothing_happens),
		cmocka_unit_test(programs_on_one_cpu_are_told_to_yield),
		cmocka_unit_test(the_only_cpu_is_left_to_programs),
		cmocka_unit_test(loops_have_short_slices),
		cmocka_unit_test(create_refuses_too_many),
	};

	if (eal_up("test_engine_loop") != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
