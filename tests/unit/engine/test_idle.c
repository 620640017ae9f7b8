/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What an engine without work does to its core, and that it is back in time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include "engine/engine_priv.h"
#include "net/port/wake_priv.h"
#include "util.h"

/** CPU time of a runner's thread. */
static uint64_t
cpu_ns(const struct runner *run)
{
	struct timespec ts;
	clockid_t id;

	assert_int_equal(pthread_getcpuclockid(run->thread, &id), 0);
	assert_int_equal(clock_gettime(id, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void
poll_never_sleeps(void **state)
{
	struct runner run;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	run_begin(&run, r.e);
	nap_us(20000);
	run_end(&run);
	assert_int_equal(engine_stats(r.e)->sleeps, 0);
	assert_int_equal(engine_stats(r.e)->busy_turns, 0);
	assert_true(engine_stats(r.e)->idle_turns > 100);
	rig_down(&r, 1);
}

static void
adaptive_sleeps_until_it_is_kicked(void **state)
{
	uint64_t cpu, sleeps;
	struct runner run;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	run_begin(&run, r.e);
	assert_true(wait_for(&engine_stats(r.e)->sleeps, 1));
	nap_us(20000);
	cpu = cpu_ns(&run);
	sleeps = engine_stats(r.e)->sleeps;
	nap_us(200000);
	assert_int_equal(cpu_ns(&run), cpu);
	assert_int_equal(engine_stats(r.e)->sleeps, sleeps);
	run_end(&run);
	rig_down(&r, 1);
}

static int
nothing(struct engine *e, void *arg, uint64_t now_ns)
{
	return 0;
}

static void
adaptive_stays_awake_while_there_is_work(void **state)
{
	uint64_t sleeps, busy;
	struct runner run;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	rec.work = 1;
	run_begin(&run, r.e);
	nap_us(20000);
	assert_int_equal(engine_stats(r.e)->sleeps, 0);
	assert_int_equal(engine_stats(r.e)->idle_turns, 0);
	__atomic_store_n(&rec.work, 0, __ATOMIC_RELAXED);
	assert_true(wait_for(&engine_stats(r.e)->sleeps, 1));
	__atomic_store_n(&rec.work, 1, __ATOMIC_RELAXED);
	engine_call(r.e, nothing, NULL);
	busy = engine_stats(r.e)->busy_turns;
	assert_true(wait_for(&engine_stats(r.e)->busy_turns, busy + 10));
	sleeps = engine_stats(r.e)->sleeps;
	nap_us(10000);
	assert_int_equal(engine_stats(r.e)->sleeps, sleeps);
	run_end(&run);
	rig_down(&r, 1);
}

static void
due_timer_keeps_it_awake(void **state)
{
	struct runner run;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_ADAPTIVE, 0, NULL);
	rec.next_timeout = 1;
	run_begin(&run, r.e);
	nap_us(20000);
	assert_int_equal(engine_stats(r.e)->sleeps, 0);
	__atomic_store_n(&rec.next_timeout, UINT64_MAX, __ATOMIC_RELAXED);
	assert_true(wait_for(&engine_stats(r.e)->sleeps, 1));
	run_end(&run);
	rig_down(&r, 1);
}

/** An engine with a port on which nothing arrives. @param tx  Where it sends to. @return the ethdev. */
static uint16_t
rig_up_with_tx(struct rig *r, const char *name, struct rte_ring *tx)
{
	struct rte_ring *rx = rte_ring_create(name, 64, SOCKET_ID_ANY, 0);
	uint16_t port_id = (uint16_t)rte_eth_from_rings(name, &rx, 1, &tx, 1, 0);
	const struct rte_eth_conf conf = { 0 };

	rig_up(r, 1, ENGINE_IDLE_ADAPTIVE, 1, &port_id);
	assert_int_equal(rte_eth_dev_configure(port_id, 1, 1, &conf), 0);
	assert_int_equal(rte_eth_rx_queue_setup(port_id, 0, 64, SOCKET_ID_ANY, NULL, r->sh.pool), 0);
	assert_int_equal(rte_eth_tx_queue_setup(port_id, 0, 64, SOCKET_ID_ANY, NULL), 0);
	assert_int_equal(rte_eth_dev_start(port_id), 0);
	return port_id;
}

static uint16_t
rig_up_with_port(struct rig *r, const char *name)
{
	char tx_name[RTE_RING_NAMESIZE];

	snprintf(tx_name, sizeof(tx_name), "%s_tx", name);
	return rig_up_with_tx(r, name, rte_ring_create(tx_name, 64, SOCKET_ID_ANY, 0));
}

/** @return how often the engine sleeps in a tenth of a second. */
static uint64_t
sleeps_in_tenth(const struct rig *r)
{
	uint64_t sleeps = engine_stats(r->e)->sleeps;

	nap_us(100000);
	return engine_stats(r->e)->sleeps - sleeps;
}

/** A port that can't wake anybody must be looked at, but rarely if no program uses it. */
static void
naps_are_longer_without_programs(void **state)
{
	const uint64_t most = 100000000 / ENGINE_SLEEP_UNUSED_NS;
	struct ring_db *db = aligned_alloc(64, sizeof(*db));
	int kick_fd = eventfd(0, EFD_CLOEXEC);
	struct engine_session *s;
	struct runner run;
	uint16_t port_id;
	struct rig r;

	memset(db, 0, sizeof(*db));
	port_id = rig_up_with_port(&r, "unused");
	run_begin(&run, r.e);
	nap_us(100000);
	assert_in_range(sleeps_in_tenth(&r), 1, most);
	s = engine_session_add(r.e, db, 1, &kick_fd, false);
	assert_non_null(s);
	/* With naps as long as before this would take twenty seconds, and the wait ends after ten. */
	assert_true(wait_for(&engine_stats(r.e)->sleeps, engine_stats(r.e)->sleeps + 4000));
	engine_session_remove(r.e, s);
	nap_us(100000);
	assert_in_range(sleeps_in_tenth(&r), 1, most);
	run_end(&run);
	assert_int_equal(rte_eth_dev_stop(port_id), 0);
	rig_down(&r, 1);
	close(kick_fd);
	free(db);
}

/** A port whose device says that it has RX interrupts. They come when the test says so. */
static void
interrupts_are_relied_on_once_one_has_come(void **state)
{
	struct net_wake wake = { .arms = true, .fds = { eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) } };
	const uint64_t one = 1;
	struct runner run;
	uint16_t port_id;
	uint64_t sleeps;
	struct rig r;

	port_id = rig_up_with_port(&r, "idle");
	r.port[0].wake = &wake;
	run_begin(&run, r.e);
	/* The engine looks for the descriptor. */
	engine_use_port(r.e, 0, false);
	engine_use_port(r.e, 0, true);
	for (int i = 0; i < 2; i++) {
		/* It naps, and looks. */
		sleeps = engine_stats(r.e)->sleeps;
		assert_true(wait_for(&engine_stats(r.e)->sleeps, sleeps + 20));
		assert_int_equal(write(wake.fds[0], &one, sizeof(one)), sizeof(one));
		nap_us(50000);
		sleeps = engine_stats(r.e)->sleeps;
		nap_us(200000);
		assert_int_equal(engine_stats(r.e)->sleeps, sleeps);
		/* A port that starts again must prove it again. */
		engine_use_port(r.e, 0, false);
		engine_use_port(r.e, 0, true);
	}
	run_end(&run);
	assert_int_equal(rte_eth_dev_stop(port_id), 0);
	rig_down(&r, 1);
	close(wake.fds[0]);
}

/** A port that is full, and has room again: nobody tells an engine that sleeps. */
static void
what_a_port_didnt_take_is_offered_again(void **state)
{
	enum { ROOM = 7, N = ROOM + 3 };
	struct rte_ring *tx = rte_ring_create("full", ROOM + 1, SOCKET_ID_ANY, 0);
	const struct engine_stats *s;
	struct runner run;
	uint16_t port_id;
	struct rig r;
	void *m = NULL;
	uint64_t begin;

	port_id = rig_up_with_tx(&r, "asleep", tx);
	s = engine_stats(r.e);
	/* It sleeps until somebody wakes it. */
	atomic_store(&r.port[0].joined, true);
	run_begin(&run, r.e);
	begin = clock_ns();
	for (int i = 0; i < N; i++)
		engine_send(r.e, 0, rte_pktmbuf_alloc(r.sh.pool));
	assert_true(wait_for(&s->tx_packets, ROOM));
	assert_true(wait_for(&s->sleeps, s->sleeps + 3));
	for (int i = 0; i < ROOM; i++) {
		assert_int_equal(rte_ring_dequeue(tx, &m), 0);
		rte_pktmbuf_free(m);
	}
	/* If this thread had no CPU for so long, the port was full for too long. */
	if (clock_ns() - begin < ENGINE_TX_STUCK_NS)
		assert_true(wait_for(&s->tx_packets, N));
	run_end(&run);
	assert_int_equal(s->tx_packets + s->tx_stuck_dropped + transport_tx(engine_transport(r.e), 0)->n, N);
	while (rte_ring_dequeue(tx, &m) == 0)
		rte_pktmbuf_free(m);
	assert_int_equal(rte_eth_dev_stop(port_id), 0);
	rig_down(&r, 1);
}

static void
clock_goes_on_and_never_back(void **state)
{
	uint64_t last = 0, before, after;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	before = clock_ns();
	engine_turn(r.e);
	assert_in_range(rec.last_now_ns, before - 10000000, clock_ns() + 10000000);
	for (int i = 0; i < 10000; i++) {
		engine_turn(r.e);
		assert_true(rec.last_now_ns >= last);
		last = rec.last_now_ns;
	}
	nap_us(50000);
	before = last;
	engine_turn(r.e);
	after = rec.last_now_ns;
	assert_true(after - before >= 49000000);
	rig_down(&r, 1);
}

static void
cycles_are_counted_as_busy_or_idle(void **state)
{
	uint64_t busy, idle;
	struct rig r;

	rig_up(&r, 1, ENGINE_IDLE_POLL, 0, NULL);
	rec.work = 1;
	engine_turn(r.e);
	engine_turn(r.e);
	busy = engine_stats(r.e)->busy_cycles;
	idle = engine_stats(r.e)->idle_cycles;
	assert_true(busy > 0);
	rec.work = 0;
	engine_turn(r.e); /* still counts what the busy turn before it took */
	assert_true(engine_stats(r.e)->busy_cycles > busy);
	assert_int_equal(engine_stats(r.e)->idle_cycles, idle);
	busy = engine_stats(r.e)->busy_cycles;
	engine_turn(r.e);
	assert_int_equal(engine_stats(r.e)->busy_cycles, busy);
	assert_true(engine_stats(r.e)->idle_cycles > idle);
	assert_int_equal(engine_stats(r.e)->turns, 4);
	assert_int_equal(engine_stats(r.e)->busy_turns, 2);
	rig_down(&r, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_never_sleeps),
		cmocka_unit_test(adaptive_sleeps_until_it_is_kicked),
		cmocka_unit_test(adaptive_stays_awake_while_there_is_work),
		cmocka_unit_test(due_timer_keeps_it_awake),
		cmocka_unit_test(naps_are_longer_without_programs),
		cmocka_unit_test(interrupts_are_relied_on_once_one_has_come),
		cmocka_unit_test(what_a_port_didnt_take_is_offered_again),
		cmocka_unit_test(clock_goes_on_and_never_back),
		cmocka_unit_test(cycles_are_counted_as_busy_or_idle),
	};

	if (eal_up("test_engine_idle") != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
