/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Where packets go: ports made of rings whose other ends the test holds. */
#include <stdlib.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include "engine/engine_priv.h"
#include "util.h"

enum {
	PORTS = 2,
	ENGINES = 2,
	TX_SIZE = 8, /**< a TX ring holds one less */
	RX_SIZE = 128,
};

static struct rte_ring *rx[PORTS][ENGINES], *tx[PORTS][ENGINES];
static uint16_t port_ids[PORTS];

static void
ports_up(void)
{
	char name[32];

	for (unsigned int p = 0; p < PORTS; p++) {
		for (unsigned int q = 0; q < ENGINES; q++) {
			snprintf(name, sizeof(name), "rx%u-%u", p, q);
			rx[p][q] = rte_ring_create(name, RX_SIZE, SOCKET_ID_ANY, 0);
			snprintf(name, sizeof(name), "tx%u-%u", p, q);
			tx[p][q] = rte_ring_create(name, TX_SIZE, SOCKET_ID_ANY, 0);
		}
		snprintf(name, sizeof(name), "r%u", p);
		port_ids[p] = (uint16_t)rte_eth_from_rings(name, rx[p], ENGINES, tx[p], ENGINES, 0);
	}
}

/** Configure the ports with queues out of the rig's pool. */
static void
ports_start(struct rig *r)
{
	const struct rte_eth_conf conf = { 0 };

	for (unsigned int p = 0; p < PORTS; p++) {
		assert_int_equal(rte_eth_dev_configure(port_ids[p], ENGINES, ENGINES, &conf), 0);
		for (uint16_t q = 0; q < ENGINES; q++) {
			assert_int_equal(rte_eth_rx_queue_setup(port_ids[p], q, 64, SOCKET_ID_ANY, NULL, r->sh.pool), 0);
			assert_int_equal(rte_eth_tx_queue_setup(port_ids[p], q, 64, SOCKET_ID_ANY, NULL), 0);
		}
		assert_int_equal(rte_eth_dev_start(port_ids[p]), 0);
	}
}

static void
up(struct rig *r)
{
	rig_up(r, ENGINES, ENGINE_IDLE_POLL, PORTS, port_ids);
	ports_start(r);
}

static void
down(struct rig *r)
{
	for (unsigned int p = 0; p < PORTS; p++)
		assert_int_equal(rte_eth_dev_stop(port_ids[p]), 0);
	rig_down(r, ENGINES);
}

static struct rte_mbuf *
packet_of(struct rig *r, uint32_t number, uint16_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(r->sh.pool);

	assert_non_null(m);
	*(uint32_t *)rte_pktmbuf_append(m, bytes) = number;
	return m;
}

static struct rte_mbuf *
packet(struct rig *r, uint32_t number)
{
	return packet_of(r, number, 64);
}

/** Take a packet from a ring. @return its number. */
static uint32_t
take(struct rte_ring *ring)
{
	uint32_t number;
	void *m = NULL;

	assert_int_equal(rte_ring_dequeue(ring, &m), 0);
	number = *rte_pktmbuf_mtod((struct rte_mbuf *)m, uint32_t *);
	rte_pktmbuf_free(m);
	return number;
}

static void
received_packets_reach_the_transport(void **state)
{
	struct rig r[ENGINES];

	up(r);
	for (uint16_t p = 0; p < PORTS; p++) {
		for (unsigned int q = 0; q < ENGINES; q++) {
			for (int i = 0; i < 3; i++)
				assert_int_equal(rte_ring_enqueue(rx[p][q], packet(r, 0)), 0);
			memset(&rec, 0, sizeof(rec));
			assert_int_equal(engine_turn(r[!q].e), 0);
			assert_int_equal(engine_turn(r[q].e), 3);
			assert_int_equal(rec.rx_untrusted, 3);
			assert_int_equal(rec.rx_trusted, 0);
			assert_int_equal(rec.last_rx_port, p);
			assert_int_equal(rec.last_rx_engine, q);
		}
	}
	assert_int_equal(engine_stats(r[0].e)->rx_packets, 3 * PORTS);
	assert_int_equal(engine_stats(r[0].e)->rx_bursts, PORTS);
	down(r);
}

/* Otherwise timers would find deadlines passed whose ACKs wait in the queue. */
static void
late_turn_receives_all_before_timers_look(void **state)
{
	enum { N = RX_SIZE - 4 };
	struct rig r[ENGINES];

	up(r);
	engine_turn(r[0].e);
	nap_us(5000);
	memset(&rec, 0, sizeof(rec));
	for (int i = 0; i < N; i++)
		assert_int_equal(rte_ring_enqueue(rx[1][0], packet(r, 0)), 0);
	assert_int_equal(engine_turn(r[0].e), N);
	assert_int_equal(rec.rx_untrusted, N);
	assert_int_equal(rec.runs, 1);
	down(r);
}

/* A turn costs something whatever is in it, so it takes more packets if they are small. Large ones would make others wait. */
static void
full_burst_of_small_packets_is_followed_by_another(void **state)
{
	enum { N = RX_SIZE - 4, EACH = ENGINE_SMALL_BYTES / ENGINE_RX_BURST };
	struct rig r[ENGINES];

	up(r);
	for (int i = 0; i < N; i++)
		assert_int_equal(rte_ring_enqueue(rx[0][0], packet_of(&r[0], 0, EACH)), 0);
	assert_int_equal(engine_turn(r[0].e), 2 * ENGINE_RX_BURST);
	assert_int_equal(engine_turn(r[0].e), N - 2 * ENGINE_RX_BURST);
	for (int i = 0; i < N; i++)
		assert_int_equal(rte_ring_enqueue(rx[0][0], packet_of(&r[0], 0, EACH + (i == 0))), 0);
	assert_int_equal(engine_turn(r[0].e), ENGINE_RX_BURST);
	assert_int_equal(engine_turn(r[0].e), 2 * ENGINE_RX_BURST);
	assert_int_equal(engine_turn(r[0].e), N - 3 * ENGINE_RX_BURST);
	down(r);
}

static void
other_packets_are_dropped_or_answered_on_their_port(void **state)
{
	struct engine_event ev;
	struct rig r[ENGINES];

	up(r);
	rec.rx_gives_back = true;
	rec.action = NET_DROP;
	rte_ring_enqueue(rx[1][0], packet(r, 1));
	engine_turn(r[0].e);
	assert_int_equal(rte_ring_count(tx[1][0]), 0);
	assert_false(engine_event_next(r[0].e, &ev));

	rec.action = NET_REPLY;
	rec.learned = true;
	rte_ring_enqueue(rx[1][0], packet(r, 2));
	engine_turn(r[0].e);
	assert_int_equal(take(tx[1][0]), 2);
	assert_true(engine_event_next(r[0].e, &ev));
	assert_int_equal(ev.kind, ENGINE_EV_LEARNED);
	assert_int_equal(ev.learned.port, 1);
	assert_int_equal(engine_net_counters(r[0].e, 1)->rx_arp, 2);
	assert_int_equal(engine_net_counters(r[0].e, 0)->rx_arp, 0);
	assert_null(engine_net_counters(r[0].e, PORTS));

	/* Answers that the port doesn't take wait for it. Those that find no room are lost, and counted. */
	for (uint32_t i = 0; i < TX_SIZE - 1 + TP_TX_MAX + 2; i++) {
		rte_ring_enqueue(rx[1][0], packet(r, i));
		engine_turn(r[0].e);
	}
	assert_int_equal(engine_stats(r[0].e)->send_dropped, 2);
	for (uint32_t i = 0; i < TX_SIZE - 1 + TP_TX_MAX; i++) {
		if (rte_ring_empty(tx[1][0]))
			engine_turn(r[0].e);
		assert_int_equal(take(tx[1][0]), i);
	}
	down(r);
}

static void
flood_of_arp_leaves_room_for_events_of_qps(void **state)
{
	const struct tp_event fatal = { .type = UROCE_EVENT_QP_FATAL };
	unsigned int learned = 0, async = 0;
	struct engine_event ev;
	struct rig r[ENGINES];

	up(r);
	rec.rx_gives_back = true;
	rec.learned = true;
	for (uint32_t i = 0; i < 2 * ENGINE_EVENTS; i++) {
		rte_ring_enqueue(rx[0][0], packet(r, i));
		engine_turn(r[0].e);
	}
	assert_true(engine_stats(r[0].e)->events_lost > 0);
	double_emit(&fatal, 100);
	engine_turn(r[0].e);
	while (engine_event_next(r[0].e, &ev)) {
		learned += ev.kind == ENGINE_EV_LEARNED;
		async += ev.kind == ENGINE_EV_ASYNC;
	}
	assert_int_equal(async, 100);
	assert_int_equal(learned + engine_stats(r[0].e)->events_lost, 2 * ENGINE_EVENTS);
	down(r);
}

static void
what_a_port_doesnt_take_stays_in_order(void **state)
{
	enum { N = 3 * (TX_SIZE - 1) + 2 };
	struct tp_txvec *v;
	struct rig r[ENGINES];
	uint32_t taken = 0;

	up(r);
	v = transport_tx(engine_transport(r[1].e), 0);
	for (v->n = 0; v->n < N; v->n++)
		v->pkts[v->n] = packet(r, v->n);
	while (taken < N) {
		assert_true(engine_turn(r[1].e) > 0);
		assert_int_equal(rte_ring_count(tx[0][0]), 0);
		/* In between the transport adds to the end. */
		if (taken == 0) {
			v->pkts[v->n] = packet(r, N);
			v->n++;
		}
		while (rte_ring_count(tx[0][1]) > 0)
			assert_int_equal(take(tx[0][1]), taken++);
	}
	assert_int_equal(taken, N + 1);
	assert_int_equal(v->n, 0);
	assert_int_equal(engine_stats(r[1].e)->tx_packets, N + 1);
	assert_int_equal(engine_stats(r[1].e)->tx_stuck_dropped, 0);
	down(r);
}

static void
port_that_takes_nothing_for_long_loses_its_packets(void **state)
{
	struct tp_txvec *v;
	uint64_t begin;
	struct rig r[ENGINES];

	up(r);
	v = transport_tx(engine_transport(r[0].e), 1);
	for (v->n = 0; v->n < TX_SIZE + 4; v->n++)
		v->pkts[v->n] = packet(r, v->n);
	engine_turn(r[0].e);
	assert_int_equal(v->n, 5);
	/* Nobody tried to send while we were away, so that doesn't count. */
	nap_us(150000);
	engine_turn(r[0].e);
	assert_int_equal(v->n, 5);
	begin = clock_ns();
	while (v->n != 0 && clock_ns() - begin < UINT64_C(10000000000))
		engine_turn(r[0].e);
	assert_int_equal(v->n, 0);
	assert_true(clock_ns() - begin >= 90000000);
	assert_int_equal(engine_stats(r[0].e)->tx_stuck_dropped, 5);
	while (rte_ring_count(tx[1][0]) > 0)
		take(tx[1][0]);
	down(r);
}

static void
packets_to_ourselves_come_back_trusted(void **state)
{
	struct tp_txvec *v;
	struct rig r[ENGINES];

	up(r);
	v = transport_loop(engine_transport(r[0].e));
	for (v->n = 0; v->n < 6; v->n++) {
		v->pkts[v->n] = packet(r, v->n);
		v->pkts[v->n]->port = v->n / 4;
	}
	assert_int_equal(engine_turn(r[0].e), 6);
	assert_int_equal(rec.rx_trusted, 6);
	assert_int_equal(rec.rx_untrusted, 0);
	assert_int_equal(rec.last_rx_port, 1);
	assert_int_equal(v->n, 0);
	down(r);
}

static int
note_packets(struct engine *e, void *arg, uint64_t now_ns)
{
	uint64_t *seen = arg;

	*seen = rec.rx_packets;
	return 0;
}

/** What a call may destroy has answered what came before: between packets and their acknowledgements there is none. */
static void
calls_come_before_packets(void **state)
{
	uint64_t seen = UINT64_MAX;
	struct engine_msg msg = { .fn = note_packets, .arg = &seen, .state = MSG_QUEUED };
	struct rig r[ENGINES];

	up(r);
	assert_int_equal(rte_ring_enqueue(rx[0][0], packet(r, 0)), 0);
	assert_int_equal(rte_ring_enqueue(r[0].e->mailbox, &msg), 0);
	memset(&rec, 0, sizeof(rec));
	engine_turn(r[0].e);
	assert_int_equal(seen, 0);
	assert_int_equal(rec.rx_packets, 1);
	down(r);
}

static void
packets_of_another_engines_qp_go_over(void **state)
{
	struct rig r[ENGINES];

	up(r);
	double_handoff(0, 1, 1, packet(r, 0), false);
	engine_turn(r[0].e);
	assert_int_equal(rec.rx_packets, 0);
	assert_int_equal(engine_turn(r[1].e), 1);
	assert_int_equal(rec.rx_untrusted, 1);
	assert_int_equal(rec.last_rx_port, 1);
	assert_int_equal(rec.last_rx_engine, 1);

	double_handoff(1, 0, 0, packet(r, 0), true);
	engine_turn(r[1].e);
	assert_int_equal(engine_turn(r[0].e), 1);
	assert_int_equal(rec.rx_trusted, 1);
	assert_int_equal(rec.last_rx_port, 0);
	assert_int_equal(rec.last_rx_engine, 0);

	/* To an engine that there isn't. */
	double_handoff(0, ENGINES, 0, packet(r, 0), true);
	engine_turn(r[0].e);
	double_handoff(0, UROCE_MAX_ENGINES, 0, packet(r, 0), true);
	engine_turn(r[0].e);
	assert_int_equal(engine_stats(r[0].e)->handoff_dropped, 2);
	down(r);
}

static void
handed_over_packet_wakes_the_other_engine(void **state)
{
	struct rig r[ENGINES];
	struct runner run;

	rig_up(r, ENGINES, ENGINE_IDLE_ADAPTIVE, PORTS, port_ids);
	ports_start(r);
	run_begin(&run, r[1].e);
	for (uint64_t i = 1; i <= 20; i++) {
		assert_true(wait_for(&engine_stats(r[1].e)->sleeps, engine_stats(r[1].e)->sleeps + 1));
		double_handoff(0, 1, 0, packet(r, 0), false);
		engine_turn(r[0].e);
		assert_true(wait_for(&rec.rx_packets, i));
	}
	run_end(&run);
	down(r);
}

static void
control_thread_sends_through_the_engine(void **state)
{
	struct rig r[ENGINES];

	up(r);
	engine_send(r[1].e, 0, packet(r, 5));
	engine_send(r[1].e, 1, packet(r, 6));
	engine_send(r[1].e, 1, packet(r, 7));
	engine_send(r[1].e, PORTS, packet(r, 8));
	assert_int_equal(engine_turn(r[1].e), 3);
	assert_int_equal(take(tx[0][1]), 5);
	assert_int_equal(take(tx[1][1]), 6);
	assert_int_equal(take(tx[1][1]), 7);
	assert_int_equal(engine_stats(r[1].e)->send_dropped, 1);
	engine_send(r[1].e, 0, packet(r, 9)); /* never sent: destroying the engine frees it */
	down(r);
}

/** A flood of MADs: none is lost, in order, and another port isn't held up. */
static void
packets_of_the_control_thread_wait_for_a_full_port(void **state)
{
	enum { N = TX_SIZE - 1 + TP_TX_MAX + ENGINE_SEND_RING };
	struct tp_txvec *v;
	struct rig r[ENGINES];
	uint32_t sent;

	up(r);
	v = transport_tx(engine_transport(r[0].e), 0);
	for (sent = 0; sent < TX_SIZE - 1 + TP_TX_MAX; sent++)
		engine_send(r[0].e, 0, packet(r, sent));
	/* A turn takes so many and no more. */
	for (uint32_t n = 0; n < sent; n += ENGINE_SEND_BURST) {
		assert_int_equal(v->n + rte_ring_count(tx[0][0]), n);
		engine_turn(r[0].e);
	}
	assert_int_equal(v->n, TP_TX_MAX);
	assert_true(io_waits_for_port(r[0].e));
	assert_false(io_may_send(r[0].e));
	for (; sent < N; sent++)
		engine_send(r[0].e, 0, packet(r, sent));
	assert_false(io_may_send(r[0].e));
	engine_send(r[0].e, 1, packet(r, 4711));
	assert_true(io_may_send(r[0].e));
	engine_turn(r[0].e);
	assert_int_equal(take(tx[1][0]), 4711);
	assert_int_equal(engine_stats(r[0].e)->send_dropped, 0);
	engine_send(r[0].e, 0, packet(r, sent));
	assert_int_equal(engine_stats(r[0].e)->send_dropped, 1);
	for (uint32_t i = 0; i < N; i++) {
		if (rte_ring_empty(tx[0][0]))
			engine_turn(r[0].e);
		assert_int_equal(take(tx[0][0]), i);
	}
	assert_false(io_waits_for_port(r[0].e));
	assert_int_equal(engine_stats(r[0].e)->tx_packets, N + 1);
	assert_int_equal(engine_stats(r[0].e)->tx_stuck_dropped, 0);
	down(r);
}

static void
congestion_control_of_each_port_reaches_the_transport(void **state)
{
	struct rig r[ENGINES];
	struct engine_config c;
	struct engine *e;

	up(r);
	c = (struct engine_config){ .nb_engines = 1, .ports = r->ports, .nb_ports = PORTS, .sh = r->sh,
				    .socket_id = SOCKET_ID_ANY, .cc = { TP_CC_NONE, TP_CC_DCQCN } };
	c.sh.qsbr = NULL;
	e = engine_create(&c);
	assert_non_null(e);
	assert_int_equal(rec.ports[0].cc, TP_CC_NONE);
	assert_int_equal(rec.ports[1].cc, TP_CC_DCQCN);
	/* The speed of net_ring. */
	assert_int_equal(rec.ports[1].mbps, 10000);
	engine_destroy(e);
	down(r);
}

/* ---- Captures ---- */
struct tap {
	struct engine_tap tap;
	unsigned int rx, tx, local, ended, dropped, cancelled;
};

static void *
tap_begin(struct engine_tap *t, uint16_t port, const struct rte_mbuf *m, enum engine_tap_way way, uint64_t now_ns)
{
	struct tap *k = (struct tap *)t;

	(*(way == ENGINE_TAP_TX ? &k->tx : way == ENGINE_TAP_RX ? &k->rx : &k->local))++;
	return k;
}

static void
tap_end(struct engine_tap *t, void *packet, const char *dropped)
{
	struct tap *k = (struct tap *)t;

	k->ended++;
	k->dropped += dropped != NULL;
}

static void
tap_cancel(struct engine_tap *t, void *packet)
{
	((struct tap *)t)->cancelled++;
}

static void
a_tap_sees_what_comes_and_what_the_port_takes(void **state)
{
	struct tap k = { .tap = { tap_begin, tap_end, tap_cancel } };
	struct rig r[ENGINES];
	struct tp_txvec *v;

	up(r);
	engine_set_tap(r[0].e, &k.tap);
	memset(&rec, 0, sizeof(rec));
	for (int i = 0; i < 3; i++)
		assert_int_equal(rte_ring_enqueue(rx[0][0], packet(&r[0], 0)), 0);
	assert_int_equal(engine_turn(r[0].e), 3);
	assert_int_equal(rec.rx_untrusted, 3);
	assert_int_equal(k.rx, 3);
	assert_int_equal(k.ended, 3);
	assert_int_equal(k.dropped, 0);
	v = transport_tx(engine_transport(r[0].e), 0);
	for (v->n = 0; v->n < TX_SIZE + 1; v->n++)
		v->pkts[v->n] = packet(&r[0], v->n);
	engine_turn(r[0].e);
	/* Two didn't fit. */
	assert_int_equal(k.ended, 3 + TX_SIZE - 1);
	assert_int_equal(k.cancelled, 2);
	for (uint32_t i = 0; i < TX_SIZE - 1; i++)
		assert_int_equal(take(tx[0][0]), i);
	engine_set_tap(r[0].e, NULL);
	engine_turn(r[0].e);
	assert_int_equal(k.ended, 3 + TX_SIZE - 1);
	for (uint32_t i = TX_SIZE - 1; i < TX_SIZE + 1; i++)
		assert_int_equal(take(tx[0][0]), i);
	down(r);
}

static void
a_tap_sees_what_the_host_sends_itself(void **state)
{
	struct tap k = { .tap = { tap_begin, tap_end, tap_cancel } };
	struct rig r[ENGINES];
	struct rte_mbuf *m;
	struct tp_txvec *v;

	up(r);
	engine_set_tap(r[0].e, &k.tap);
	memset(&rec, 0, sizeof(rec));
	v = transport_loop(engine_transport(r[0].e));
	for (v->n = 0; v->n < 3; v->n++) {
		v->pkts[v->n] = packet(r, v->n);
		v->pkts[v->n]->port = v->n / 2;
	}
	assert_int_equal(engine_turn(r[0].e), 3);
	assert_int_equal(rec.rx_trusted, 3);
	assert_int_equal(rec.last_rx_port, 1);
	assert_int_equal(k.local, 3);
	assert_int_equal(k.ended, 3);
	assert_int_equal(k.rx + k.tx, 0);
	/* What goes by reference is shown by the transport. */
	engine_set_tap(r[0].e, &k.tap);
	assert_non_null(rec.tap);
	m = packet(r, 0);
	assert_ptr_equal(rec.tap->begin(rec.tap, 1, m, 5), &k);
	rec.tap->end(rec.tap, &k, "rx_wrong_state");
	rte_pktmbuf_free(m);
	assert_int_equal(k.local, 4);
	assert_int_equal(k.ended, 4);
	assert_int_equal(k.dropped, 1);
	engine_set_tap(r[0].e, NULL);
	assert_null(rec.tap);
	down(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(congestion_control_of_each_port_reaches_the_transport),
		cmocka_unit_test(received_packets_reach_the_transport),
		cmocka_unit_test(late_turn_receives_all_before_timers_look),
		cmocka_unit_test(full_burst_of_small_packets_is_followed_by_another),
		cmocka_unit_test(other_packets_are_dropped_or_answered_on_their_port),
		cmocka_unit_test(flood_of_arp_leaves_room_for_events_of_qps),
		cmocka_unit_test(what_a_port_doesnt_take_stays_in_order),
		cmocka_unit_test(a_tap_sees_what_comes_and_what_the_port_takes),
		cmocka_unit_test(a_tap_sees_what_the_host_sends_itself),
		cmocka_unit_test(port_that_takes_nothing_for_long_loses_its_packets),
		cmocka_unit_test(packets_to_ourselves_come_back_trusted),
		cmocka_unit_test(calls_come_before_packets),
		cmocka_unit_test(packets_of_another_engines_qp_go_over),
		cmocka_unit_test(handed_over_packet_wakes_the_other_engine),
		cmocka_unit_test(control_thread_sends_through_the_engine),
		cmocka_unit_test(packets_of_the_control_thread_wait_for_a_full_port),
	};

	if (eal_up("test_engine_io") != 0)
		return 1;
	ports_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
