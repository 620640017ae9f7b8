/* SPDX-License-Identifier: BSD-3-Clause */
/* The network: each direction between two endpoints delays, and loses, repeats, reorders and damages. */
#include <inttypes.h>
#include <string.h>

#include "ecn.h"
#include "sim.h"

enum { STREAM_NET = 3, STREAM_LINK = 64, STREAM_QUIET = 98303, STREAM_LANES = 98304, MAX_FLIPS = 3 };
#define LATE_NS 15000  /* how late what leaves a TX queue may be, */
#define LATE_FOR_NS 50000 /* and for how long at most it is as late as that */

void
link_init(struct sim_world *w)
{
	struct rng quiet = rng_stream(w->cfg.seed, STREAM_QUIET);
	uint32_t i, j;

	w->late_all = rng_one_in(&quiet, 2);
	stale_init(w);
	w->net_rng = rng_stream(w->cfg.seed, STREAM_NET);
	for (i = 0; i < w->cfg.nb_eps; i++) {
		for (j = 0; j < w->cfg.nb_eps; j++) {
			w->links[i][j].rng = rng_stream(w->cfg.seed, STREAM_LINK + i * SIM_MAX_EPS + j);
			for (uint32_t k = 0; k < SIM_MAX_ENGINES; k++)
				w->links[i][j].lanes[k].rng = rng_stream(w->cfg.seed, STREAM_LANES + (i * SIM_MAX_EPS + j) * SIM_MAX_ENGINES + k);
		}
	}
	w->partition_to = 0;
	memset(w->ports_free_at, 0, sizeof(w->ports_free_at));
}

/* @return when the last packet that endpoint @p from has sent leaves it. */
uint64_t
link_busy_until(const struct sim_world *w, uint32_t from)
{
	uint64_t until = 0;

	for (uint32_t to = 0; to < w->cfg.nb_eps; to++)
		until = RTE_MAX(until, w->links[from][to].free_at);
	return until;
}

/* Down times follow one another at random distances; the next one is made up when the last is over. */
static bool
in_partition(struct sim_world *w, uint32_t from, uint32_t to)
{
	if (!(w->cfg.faults & SIM_F_PARTITION))
		return false;
	while (w->now_ns >= w->partition_to) {
		w->partition_from = w->partition_to + rng_between(&w->net_rng, w->cfg.partition_every_ns / 2,
								 w->cfg.partition_every_ns * 2);
		w->partition_to = w->partition_from + rng_between(&w->net_rng, w->cfg.partition_ns / 2,
								  w->cfg.partition_ns);
		w->partition_mask = (uint32_t)rng_below(&w->net_rng, 1u << w->cfg.nb_eps);
		/* After a long rest there is no need to make up all the partitions that nobody saw. */
		if (w->now_ns > w->partition_to + SIM_NS_PER_S)
			w->partition_to = w->now_ns;
	}
	return w->now_ns >= w->partition_from && ((w->partition_mask >> from ^ w->partition_mask >> to) & 1);
}

bool
link_dies(const struct sim_world *w, uint32_t from, uint32_t to)
{
	return (w->cfg.faults & SIM_F_DEATH) && from != to && (from == w->cfg.dead_ep || to == w->cfg.dead_ep);
}

static bool
in_burst(struct sim_world *w, struct sim_link *l)
{
	if (!(w->cfg.faults & SIM_F_BURST))
		return false;
	while (w->now_ns >= l->burst_to) {
		l->burst_from = l->burst_to +
				rng_between(&l->rng, w->cfg.burst_every_ns / 2, w->cfg.burst_every_ns * 2);
		l->burst_to = l->burst_from + rng_between(&l->rng, 1, w->cfg.burst_ns);
		if (w->now_ns > l->burst_to + SIM_NS_PER_S)
			l->burst_to = w->now_ns;
	}
	return w->now_ns >= l->burst_from;
}

/* Flip up to three bits anywhere, which a CRC-32 always finds at these lengths, or cut the end off. */
static void
damage(struct sim_link *l, struct rte_mbuf *m)
{
	uint32_t len = rte_pktmbuf_data_len(m), bit;
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint64_t n;

	if (rng_one_in(&l->rng, 8)) {
		rte_pktmbuf_trim(m, (uint16_t)rng_between(&l->rng, 1, len - 1));
		return;
	}
	for (n = rng_between(&l->rng, 1, MAX_FLIPS); n != 0; n--) {
		/* Half of them in the headers, where there is more to break. */
		bit = (uint32_t)rng_below(&l->rng, rng_one_in(&l->rng, 2) && len > 100 ? 100 * 8 : 8 * len);
		p[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

void
link_describe(char *buf, size_t len, struct rte_mbuf *m)
{
	struct wire_pkt p = { 0 };
	enum wire_verdict v = wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), true, &p);
	int n;

	if (v != WIRE_OK) {
		snprintf(buf, len, "%u bytes, %s", rte_pktmbuf_data_len(m), wire_verdict_name(v));
		return;
	}
	n = snprintf(buf, len, "%s qpn 0x%06x psn %u%s %u bytes", p.op->name, p.bth.dqpn, p.bth.psn,
		     p.bth.ackreq ? " ackreq" : "", p.payload_bytes);
	if ((p.op->flags & WIRE_F_AETH) && n > 0 && (size_t)n < len)
		snprintf(buf + n, len - (size_t)n, " syndrome 0x%02x msn %u", p.bthp[p.op->off_aeth],
			 wire_get24(p.bthp + p.op->off_aeth + 1));
}

static struct wire_bth
bth_of(struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t off = WIRE_ETH_BYTES + (p[WIRE_ETH_BYTES] >> 4 == 4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES) +
		       WIRE_UDP_BYTES;
	struct wire_bth b;

	wire_get_bth(p + off, &b);
	return b;
}

/*
 * Has this PSN been sent before? Only packets for RC QPs of good programs count. ACKs keep their order too: a NAK
 * behind a later ACK is as good as lost.
 */
static bool
keeps_place(struct sim_world *w, uint32_t to, struct rte_mbuf *m)
{
	struct wire_bth b = bth_of(m);
	struct sim_qp *q;
	uint32_t which;
	bool before;

	q = sent_for(w, to, b.dqpn);
	if (q == NULL || WIRE_OPCODE_SERVICE(b.opcode) != sent_service(q))
		return false;
	if (WIRE_OPCODE_OP(b.opcode) == WIRE_OP_ACK)
		return true;
	which = (wire_opcodes[b.opcode].flags & WIRE_F_RESPONSE) != 0;
	if (q->most_round != q->round + 1) {
		q->most_round = q->round + 1;
		q->most_psn[0] = wire_psn_add(q->attr.rq_psn, WIRE_PSN_MASK);
		q->most_psn[1] = wire_psn_add(q->attr.sq_psn, WIRE_PSN_MASK);
	}
	before = wire_psn_diff(b.psn, q->most_psn[which]) <= 0;
	if (!before)
		q->most_psn[which] = b.psn;
	return before;
}

static void
lose(struct sim_world *w, uint32_t from, uint32_t to, struct rte_mbuf *m, const char *why)
{
	char text[160];

	if (w->verbose) {
		link_describe(text, sizeof(text), m);
		sim_trace(w, "  %u->%u %s LOST (%s)", from, to, text, why);
	}
	w->stats.lost++;
	rte_pktmbuf_free(m);
}

/* Through the switch's port to a host: slower than what comes in, with a queue of its own. @return false: it is full.
 */
static bool
through_queue(struct sim_world *w, uint32_t to, uint16_t port, struct rte_mbuf *m, uint64_t *at)
{
	uint64_t *free_at = &w->ports_free_at[to][port], ns = rte_pktmbuf_pkt_len(m) * UINT64_C(8) / w->cfg.port_gbps, wait;

	wait = *free_at > *at ? *free_at - *at : 0;
	if (wait * w->cfg.port_gbps / 8 > w->cfg.queue_bytes)
		return false;
	/* A switch marks what says that its sender listens, no matter where in the queue. */
	if (wait * w->cfg.port_gbps / 8 > w->cfg.mark_bytes && ecn_capable(rte_pktmbuf_mtod(m, const uint8_t *)))
		ecn_mark_ce(rte_pktmbuf_mtod(m, uint8_t *));
	*at += wait + ns;
	*free_at = *at;
	return true;
}

/*
 * Where QPs move, what one of a host's TX queues brings may overtake what another one brought. Two things keep a QP's packets in order (docs/internals/moves.md), and
 * each has its seeds. In half of them engines don't wait before a QP arrives, and all is in order but what draining is for: requests and acknowledgements. In these no alternate
 * paths are loaded: what is late still says that its QP has none, and is dropped.
 */
static struct sim_lane *
lane_of(const struct sim_world *w, struct sim_link *l, int queue, struct rte_mbuf *m)
{
	struct wire_bth b = bth_of(m);
	uint8_t service = WIRE_OPCODE_SERVICE(b.opcode);

	if ((w->cfg.faults & SIM_F_MOVES) == 0 || queue < 0)
		return NULL;
	if (w->late_all || ((w->cfg.faults & SIM_F_APM) == 0 && (service == WIRE_RC || service == WIRE_XRC) &&
			 (wire_opcodes[b.opcode].flags & (WIRE_F_READ_RESP | WIRE_F_ATOMICACKETH)) == 0))
		return &l->lanes[queue];
	return NULL;
}

/*
 * @return when what would arrive at @p at does. It never overtakes what leaves the same queue, or no queue. Where all must stay in order, a queue that is late holds a
 * packet before it gets to the line: if the line has so much before it that the packet waits there as long anyway, nothing is late.
 */
static uint64_t
lane_arrival(const struct sim_world *w, struct sim_link *l, struct sim_lane *lane, uint64_t at)
{
	if (w->now_ns >= lane->late_until) {
		lane->late_ns = rng_one_in(&lane->rng, 2) ? 0 : rng_below(&lane->rng, LATE_NS + 1);
		lane->late_until = w->now_ns + rng_between(&lane->rng, 1, LATE_FOR_NS);
	}
	at = RTE_MAX(at, l->last_at);
	/* How late the network is is the same for all queues. */
	if (w->late_all)
		l->last_at = at;
	at = w->late_all ? RTE_MAX(at, w->now_ns + w->cfg.delay_ns + lane->late_ns) : at + lane->late_ns;
	lane->last_at = RTE_MAX(at, lane->last_at);
	return lane->last_at;
}

/* What an endpoint has sent arrives before what it sends from now on, whichever queue it leaves. */
void
link_join_lanes(struct sim_world *w, uint32_t from)
{
	for (uint32_t to = 0; to < w->cfg.nb_eps; to++)
		for (uint32_t k = 0; k < SIM_MAX_ENGINES; k++)
			w->links[from][to].last_at = RTE_MAX(w->links[from][to].last_at, w->links[from][to].lanes[k].last_at);
}

static void
deliver(struct sim_world *w, struct sim_link *l, uint32_t from, uint32_t to, uint16_t port, int queue, struct rte_mbuf *m)
{
	struct sim_lane *lane = lane_of(w, l, queue, m);
	uint64_t at = l->free_at + w->cfg.delay_ns;
	bool again = (w->cfg.faults & SIM_F_REORDER) && w->cfg.reorder_once && keeps_place(w, to, m);
	char text[160];

	if ((w->cfg.faults & SIM_F_QUEUE) && !through_queue(w, to, port, m, &at)) {
		lose(w, from, to, m, "queue full");
		return;
	}
	if (w->cfg.faults & SIM_F_JITTER)
		at += rng_below(&l->rng, w->cfg.jitter_ns + 1);
	if ((w->cfg.faults & SIM_F_REORDER) && !again && rng_chance(&l->rng, w->cfg.reorder_ppm)) {
		at += rng_below(&l->rng, w->cfg.reorder_ns);
		w->stats.reordered++;
	} else if (lane != NULL) {
		at = lane_arrival(w, l, lane, at);
	} else {
		if (at < l->last_at)
			at = l->last_at;
		l->last_at = at;
	}
	if (w->verbose) {
		link_describe(text, sizeof(text), m);
		sim_trace(w, "  %u->%u %s (arrives %.3f)", from, to, text, (double)at / 1000);
	}
	/* What a driver fills in on reception. */
	m->port = port;
	m->ol_flags = 0;
	m->packet_type = 0;
	m->vlan_tci = 0;
	world_event_add(w, at, EV_PACKET, to, m);
}

static void
send_to(struct sim_world *w, uint32_t from, uint32_t to, uint16_t port, int queue, struct rte_mbuf *m)
{
	struct sim_link *l = &w->links[from][to];
	struct rte_mbuf *copy;

	stale_keep(w, to, m);
	if (l->free_at < w->now_ns)
		l->free_at = w->now_ns;
	l->free_at += rte_pktmbuf_pkt_len(m) * UINT64_C(8) / w->cfg.gbps;
	if (link_dies(w, from, to) && w->now_ns >= w->cfg.death_ns) {
		lose(w, from, to, m, "dead host");
		return;
	}
	if (paths_dead(w, m)) {
		lose(w, from, to, m, "dead path");
		return;
	}
	if (in_partition(w, from, to)) {
		lose(w, from, to, m, "partition");
		return;
	}
	if (in_burst(w, l)) {
		lose(w, from, to, m, "burst");
		return;
	}
	if ((w->cfg.faults & SIM_F_LOSS) && rng_chance(&l->rng, w->cfg.loss_ppm)) {
		lose(w, from, to, m, "loss");
		return;
	}
	if ((w->cfg.faults & SIM_F_ECN) && rng_chance(&l->rng, w->cfg.ecn_ppm))
		ecn_mark_ce(rte_pktmbuf_mtod(m, uint8_t *));
	if ((w->cfg.faults & SIM_F_DUP) && rng_chance(&l->rng, w->cfg.dup_ppm)) {
		copy = rte_pktmbuf_copy(m, w->pool, 0, UINT32_MAX);
		if (copy != NULL) {
			w->stats.duplicated++;
			deliver(w, l, from, to, port, queue, copy);
		}
	}
	if ((w->cfg.faults & SIM_F_CORRUPT) && rng_chance(&l->rng, w->cfg.corrupt_ppm)) {
			w->stats.corrupted++;
		damage(l, m);
	}
	deliver(w, l, from, to, port, queue, m);
}

/* A switch that knows of no memberships: to every port. Its copies are its own matter, not of a host's mempool. */
static void
flood(struct sim_world *w, uint32_t from, uint16_t from_port, struct rte_mbuf *m)
{
	struct rte_mbuf *copy;
	uint16_t port;
	uint32_t to;

	for (to = 0; to < w->cfg.nb_eps; to++) {
		for (port = 0; port < w->eps[to].nb_ports; port++) {
			if (to == from && port == from_port)
				continue;
			copy = rte_pktmbuf_copy(m, sim_pool, 0, UINT32_MAX);
			if (copy != NULL)
				send_to(w, from, to, port, -1, copy);
			else
				sim_fail(w, "the network has no mbufs left");
		}
	}
	rte_pktmbuf_free(m);
}

void
link_send(struct sim_world *w, uint32_t from, uint16_t port, int queue, struct rte_mbuf *m)
{
	const uint8_t *dmac = rte_pktmbuf_mtod(m, uint8_t *), *smac = dmac + 6;
	bool group = dmac[0] & 1;
	uint32_t to = group ? from : dmac[5]; /* the last bytes of MACs: port and endpoint (setup.c) */
	uint16_t to_port = group ? port : dmac[4];

	w->stats.packets++;
	w->stats.bytes += rte_pktmbuf_pkt_len(m);
	if (!w->failed)
		sent_check(w, from, to, m);
	if (smac[5] != from || smac[4] != port)
		sim_fail(w, "endpoint %u sends a packet of endpoint %u, port %u, out of port %u", from, smac[5], smac[4], port);
	if (group) {
		flood(w, from, port, m);
		return;
	}
	if (to >= w->cfg.nb_eps || to_port >= w->eps[to].nb_ports) {
		sim_fail(w, "endpoint %u sends to an unknown MAC", from);
		rte_pktmbuf_free(m);
		return;
	}
	send_to(w, from, to, to_port, queue, m);
}
