/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Packet I/O: ports, loopback, other engines, the control thread.
 */
#include <string.h>

#include <rte_ethdev.h>

#include "base/container_of.h"
#include "base/tsan.h"
#include "engine/engine_priv.h"

/** For ThreadSanitizer (base/tsan.h): whatever joins ports. What one engine sends another may receive. */
static char wires;

/** Bit 0 of a pointer in a handoff ring, which is free because mbufs are aligned. */
#define HANDOFF_TRUSTED ((uintptr_t)1)

/** [any] Drop a packet that isn't the transport's. */
static void
send_drop(struct engine *e, struct rte_mbuf *m)
{
	atomic_fetch_add_explicit(&e->stats.send_dropped, 1, memory_order_relaxed);
	rte_pktmbuf_free(m);
}

static bool
is_paused(const struct engine *e, uint16_t port)
{
	return __builtin_expect(e->paused >> port & 1, 0);
}

/** Send a packet that isn't the transport's, after what waits for the port. */
static void
send_one(struct engine *e, uint16_t port, struct rte_mbuf *m)
{
	struct tp_txvec *v = transport_tx(e->tp, port);

	if (is_paused(e, port) || v->n == TP_TX_MAX)
		send_drop(e, m);
	else
		v->pkts[v->n++] = m;
}

/** Handle packets that aren't RoCE v2. */
static void
other_packets(struct engine *e, uint16_t port, struct rte_mbuf **pkts, uint16_t n)
{
	struct engine_event ev = { .kind = ENGINE_EV_LEARNED };

	for (uint16_t i = 0; i < n; i++) {
		bool learned = false;
		enum net_action a = net_rx(e->c.ports[port], pkts[i], &e->net[port], &ev.learned, &learned);

		if (learned)
			event_post(e, &ev);
		if (a == NET_REPLY)
			send_one(e, port, pkts[i]);
		else
			rte_pktmbuf_free(pkts[i]);
	}
}

bool
io_takes(void *engine, uint16_t port, const struct gid *dgid, uint16_t vlan)
{
	const struct engine *e = engine;

	return net_port_takes(e->c.ports[port], dgid, vlan);
}

/** transport_rx() packet by packet: the counter that has changed tells why a packet was dropped. */
static __rte_noinline uint16_t
tap_rx(struct engine *e, uint16_t p, struct rte_mbuf **pkts, uint16_t n, enum engine_tap_way way, uint64_t now_ns)
{
	const struct tp_counters *c = transport_counters(e->tp);
	struct tp_counters before;
	uint16_t rest = 0;

	for (uint16_t i = 0; i < n; i++) {
		void *seen = e->tap->begin(e->tap, p, pkts[i], way, now_ns);

		before = *c;
		if (transport_rx(e->tp, p, &pkts[i], 1, way == ENGINE_TAP_LOCAL, now_ns) > 0)
			pkts[rest++] = pkts[i];
		if (seen != NULL)
			e->tap->end(e->tap, seen, tp_drop_reason(&before, c));
	}
	return rest;
}

/** Receive one burst from one port. @return number of packets. */
static uint16_t
rx_port(struct engine *e, uint16_t p, uint64_t now_ns)
{
	struct rte_mbuf *pkts[ENGINE_RX_BURST];
	uint16_t n = rte_eth_rx_burst(e->c.ports[p]->port_id, (uint16_t)e->c.id, pkts, ENGINE_RX_BURST), rest;

	if (n == 0)
		return 0;
	tsan_acquire(&wires);
	e->stats.rx_bursts++;
	e->stats.rx_bursts_of[31 - __builtin_clz(n)]++;
	e->stats.rx_packets += n;
	rest = __builtin_expect(e->tap != NULL, 0) ? tap_rx(e, p, pkts, n, ENGINE_TAP_RX, now_ns) :
						     transport_rx(e->tp, p, pkts, n, false, now_ns);
	if (__builtin_expect(rest > 0, 0))
		other_packets(e, p, pkts, rest);
	return n;
}

static uint32_t
rx_ports(struct engine *e, uint32_t bursts, uint64_t now_ns)
{
	const struct tp_counters *c = transport_counters(e->tp);
	uint32_t work = 0, i;
	uint16_t n;

	for (uint16_t p = 0; p < e->c.nb_ports; p++) {
		uint64_t bytes = c->rx_bytes;

		if (is_paused(e, p))
			continue;
		for (i = 0, n = ENGINE_RX_BURST; i < bursts && n == ENGINE_RX_BURST; i++) {
			n = rx_port(e, p, now_ns);
			work += n;
		}
		if (n == ENGINE_RX_BURST && c->rx_bytes - bytes <= ENGINE_SMALL_BYTES)
			work += rx_port(e, p, now_ns);
	}
	return work;
}

/** Pass packets of different ports to the transport, grouped by port and in order. */
static void
rx_by_port(struct engine *e, struct rte_mbuf **pkts, uint16_t n, bool trusted, uint64_t now_ns)
{
	uint16_t from = 0, to, rest;

	while (from < n) {
		for (to = from + 1; to < n && pkts[to]->port == pkts[from]->port; to++)
			;
		/* A transport of ours built them, so a packet that isn't RoCE v2 is an error: drop it. */
		rest = transport_rx(e->tp, pkts[from]->port, pkts + from, to - from, trusted, now_ns);
		rte_pktmbuf_free_bulk(pkts + from, rest);
		from = to;
	}
}

/** Show the tap what this host sends itself. Nobody looks at the ICRCs of these frames, so they have none until now. */
static __rte_noinline void
tap_loop(struct engine *e, struct rte_mbuf **pkts, uint16_t n, uint64_t now_ns)
{
	for (uint16_t i = 0; i < n; i++) {
		struct wire_pkt p;

		if (wire_parse(rte_pktmbuf_mtod(pkts[i], uint8_t *), pkts[i]->data_len, false, &p) == WIRE_OK)
			wire_put_icrc(rte_pktmbuf_mtod(pkts[i], uint8_t *) + pkts[i]->data_len - WIRE_ICRC_BYTES,
				      wire_icrc_packet(p.l3, p.ip_version, (size_t)(p.payload + p.payload_bytes + p.bth.pad - p.l3)));
		if (tap_rx(e, pkts[i]->port, &pkts[i], 1, ENGINE_TAP_LOCAL, now_ns) > 0)
			rte_pktmbuf_free(pkts[i]);
	}
}

static uint32_t
rx_loop(struct engine *e, uint64_t now_ns)
{
	struct tp_txvec *v = transport_loop(e->tp);
	struct rte_mbuf *pkts[TP_TX_MAX];
	uint16_t n = v->n;

	if (n == 0)
		return 0;
	/* transport_rx() may put answers into the vector while it handles requests. */
	memcpy(pkts, v->pkts, n * sizeof(pkts[0]));
	v->n = 0;
	if (__builtin_expect(e->tap != NULL, 0))
		tap_loop(e, pkts, n, now_ns);
	else
		rx_by_port(e, pkts, n, true, now_ns);
	return n;
}

static uint32_t
rx_handoff_burst(struct engine *e, uint64_t now_ns)
{
	struct rte_mbuf *pkts[ENGINE_RX_BURST];
	uintptr_t tagged[ENGINE_RX_BURST];
	unsigned int n, from, to;

	if (rte_ring_empty(e->handoff))
		return 0;
	n = rte_ring_dequeue_burst(e->handoff, (void **)tagged, ENGINE_RX_BURST, NULL);
	tsan_acquire(e->handoff);
	for (from = 0; from < n; from = to) {
		uintptr_t trusted = tagged[from] & HANDOFF_TRUSTED;

		for (to = from; to < n && (tagged[to] & HANDOFF_TRUSTED) == trusted; to++)
			pkts[to] = (struct rte_mbuf *)(tagged[to] & ~HANDOFF_TRUSTED);
		rx_by_port(e, pkts + from, (uint16_t)(to - from), trusted != 0, now_ns);
	}
	return n;
}

static uint32_t
rx_handoff(struct engine *e, uint32_t bursts, uint64_t now_ns)
{
	uint32_t work = 0, n = ENGINE_RX_BURST;

	for (uint32_t i = 0; i < bursts && n == ENGINE_RX_BURST; i++) {
		n = rx_handoff_burst(e, now_ns);
		work += n;
	}
	return work;
}

uint32_t
io_rx(struct engine *e, uint32_t bursts, uint64_t now_ns)
{
	return rx_ports(e, bursts, now_ns) + rx_loop(e, now_ns) + rx_handoff(e, bursts, now_ns);
}

void
io_rx_inside(struct engine *e, uint64_t now_ns)
{
	unsigned int left = rte_ring_count(e->handoff);

	rx_loop(e, now_ns);
	while (left > 0) {
		unsigned int n = rx_handoff_burst(e, now_ns);

		if (n == 0)
			break;
		left -= RTE_MIN(n, left);
	}
}

void
io_handoff(void *engine, unsigned int to, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	struct engine *e = engine, *peer = to < UROCE_MAX_ENGINES ? e->peers[to] : NULL;

	m->port = port;
	if (peer != NULL)
		tsan_release(peer->handoff);
	if (peer == NULL ||
	    rte_ring_enqueue(peer->handoff, (void *)((uintptr_t)m | (trusted ? HANDOFF_TRUSTED : 0))) != 0) {
		e->stats.handoff_dropped++;
		rte_pktmbuf_free(m);
		return;
	}
	e->handed_to |= UINT64_C(1) << to;
}

void
io_handoff_done(struct engine *e)
{
	for (uint64_t bits = e->handed_to; bits != 0; bits &= bits - 1)
		engine_wake(e->peers[__builtin_ctzll(bits)]);
	e->handed_to = 0;
}

void
engine_send(struct engine *e, uint16_t port, struct rte_mbuf *m)
{
	m->port = port;
	if (port < e->c.nb_ports)
		tsan_release(e->send[port]);
	if (port >= e->c.nb_ports || rte_ring_enqueue(e->send[port], m) != 0) {
		send_drop(e, m);
		return;
	}
	engine_wake(e);
}

void
io_send(struct engine *e)
{
	for (uint16_t p = 0; p < e->c.nb_ports; p++) {
		struct rte_mbuf *pkts[ENGINE_SEND_BURST];
		unsigned int room, n;

		if (likely(rte_ring_empty(e->send[p])))
			continue;
		/* What finds no room stays in the ring: a MAD that is lost costs its sender seconds. */
		room = TP_TX_MAX - transport_tx(e->tp, p)->n;
		n = rte_ring_dequeue_burst(e->send[p], (void **)pkts, RTE_MIN(room, (unsigned int)ENGINE_SEND_BURST), NULL);
		tsan_acquire(e->send[p]);
		for (unsigned int i = 0; i < n; i++)
			send_one(e, p, pkts[i]);
	}
}

bool
io_may_send(const struct engine *e)
{
	for (uint16_t p = 0; p < e->c.nb_ports; p++)
		if (!rte_ring_empty(e->send[p]) && transport_tx(e->tp, p)->n < TP_TX_MAX)
			return true;
	return false;
}

bool
io_waits_for_port(const struct engine *e)
{
	for (uint16_t p = 0; p < e->c.nb_ports; p++)
		if (!is_paused(e, p) && transport_tx(e->tp, p)->n != 0)
			return true;
	return false;
}

void
io_was_away(struct engine *e, uint64_t ns)
{
	for (uint16_t p = 0; p < e->c.nb_ports; p++)
		e->tx_progress_ns[p] += ns;
}

/** A port accepts no packets: drop them when they have waited too long (no link, or no peer). */
static void
tx_stuck(struct engine *e, uint16_t port, struct tp_txvec *v, uint64_t now_ns)
{
	if (now_ns - e->tx_progress_ns[port] < ENGINE_TX_STUCK_NS)
		return;
	e->stats.tx_stuck_dropped += v->n;
	rte_pktmbuf_free_bulk(v->pkts, v->n);
	v->n = 0;
}

/** The tap must see packets before the port gets them, but they count only if the port accepts them. */
static __rte_noinline uint16_t
tap_tx(struct engine *e, uint16_t p, struct tp_txvec *v)
{
	void *seen[TP_TX_MAX];
	uint16_t n, i;

	for (i = 0; i < v->n; i++)
		seen[i] = e->tap->begin(e->tap, p, v->pkts[i], ENGINE_TAP_TX, e->now_ns);
	tsan_release(&wires);
	n = rte_eth_tx_burst(e->c.ports[p]->port_id, (uint16_t)e->c.id, v->pkts, v->n);
	for (i = 0; i < v->n; i++) {
		if (seen[i] == NULL)
			continue;
		if (i < n)
			e->tap->end(e->tap, seen[i], NULL);
		else
			e->tap->cancel(e->tap, seen[i]);
	}
	return n;
}

static void *
local_begin(struct tp_tap *t, uint16_t port, const struct rte_mbuf *m, uint64_t now_ns)
{
	struct engine *e = container_of(t, struct engine, tp_tap);

	return e->tap->begin(e->tap, port, m, ENGINE_TAP_LOCAL, now_ns);
}

static void
local_end(struct tp_tap *t, void *packet, const char *dropped)
{
	struct engine *e = container_of(t, struct engine, tp_tap);

	e->tap->end(e->tap, packet, dropped);
}

void
engine_set_tap(struct engine *e, struct engine_tap *t)
{
	e->tap = t;
	e->tp_tap = (struct tp_tap){ local_begin, local_end };
	transport_set_tap(e->tp, t != NULL ? &e->tp_tap : NULL);
}

uint32_t
io_tx(struct engine *e, uint64_t now_ns)
{
	uint32_t work = 0;

	for (uint16_t p = 0; p < e->c.nb_ports; p++) {
		struct tp_txvec *v = transport_tx(e->tp, p);
		uint16_t n;

		if (v->n == 0) {
			e->tx_progress_ns[p] = now_ns;
			continue;
		}
		tsan_release(&wires);
		if (is_paused(e, p))
			n = 0;
		else
			n = __builtin_expect(e->tap != NULL, 0) ? tap_tx(e, p, v) :
								  rte_eth_tx_burst(e->c.ports[p]->port_id, (uint16_t)e->c.id,
										   v->pkts, v->n);
		if (n == 0) {
			tx_stuck(e, p, v, now_ns);
			continue;
		}
		e->tx_progress_ns[p] = now_ns;
		e->stats.tx_packets += n;
		work += n;
		v->n -= n;
		memmove(v->pkts, v->pkts + n, v->n * sizeof(v->pkts[0]));
	}
	return work;
}

struct use_port {
	uint16_t port;
	bool use;
};

static int
call_use_port(struct engine *e, void *arg, uint64_t now_ns)
{
	const struct use_port *u = arg;

	if (u->use && is_paused(e, u->port))
		kicks_watch_port(e, u->port);
	e->paused = (e->paused & ~(UINT32_C(1) << u->port)) | (u->use ? 0 : UINT32_C(1) << u->port);
	e->tx_progress_ns[u->port] = now_ns;
	return 0;
}

void
engine_use_port(struct engine *e, uint16_t port, bool use)
{
	engine_call(e, call_use_port, &(struct use_port){ port, use });
}

static void
vec_free(struct tp_txvec *v)
{
	rte_pktmbuf_free_bulk(v->pkts, v->n);
	v->n = 0;
}

void
io_drain(struct engine *e)
{
	void *p;

	while (e->handoff != NULL && rte_ring_dequeue(e->handoff, &p) == 0)
		rte_pktmbuf_free((struct rte_mbuf *)((uintptr_t)p & ~HANDOFF_TRUSTED));
	for (uint16_t i = 0; i < e->c.nb_ports; i++)
		while (e->send[i] != NULL && rte_ring_dequeue(e->send[i], &p) == 0)
			rte_pktmbuf_free(p);
	if (e->tp == NULL)
		return;
	for (uint16_t i = 0; i < e->c.nb_ports; i++)
		vec_free(transport_tx(e->tp, i));
	vec_free(transport_loop(e->tp));
}

bool
io_arm(const struct engine *e)
{
	bool empty = true;

	for (uint32_t ports = e->waking & ~e->paused; ports != 0; ports &= ports - 1)
		empty &= net_port_wake_arm(e->c.ports[__builtin_ctz(ports)], (uint16_t)e->c.id);
	return empty;
}

void
io_disarm(const struct engine *e)
{
	for (uint32_t ports = e->waking & ~e->paused; ports != 0; ports &= ports - 1)
		net_port_wake_disarm(e->c.ports[__builtin_ctz(ports)], (uint16_t)e->c.id);
}
