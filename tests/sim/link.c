/* SPDX-License-Identifier: BSD-3-Clause */
/* The network: each direction between two endpoints delays, and loses, repeats, reorders and damages. */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

enum { STREAM_NET = 3, STREAM_LINK = 64, MAX_FLIPS = 3 };

void
link_init(struct sim_world *w)
{
	uint32_t i, j;

	w->net_rng = rng_stream(w->cfg.seed, STREAM_NET);
	for (i = 0; i < w->cfg.nb_eps; i++)
		for (j = 0; j < w->cfg.nb_eps; j++)
			w->links[i][j].rng = rng_stream(w->cfg.seed, STREAM_LINK + i * SIM_MAX_EPS + j);
	w->partition_to = 0;
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

/* Mark congestion experienced, as a switch does: the IPv4 header checksum follows (RFC 1624). */
static void
mark_ce(struct rte_mbuf *m)
{
	uint8_t *l3 = rte_pktmbuf_mtod_offset(m, uint8_t *, WIRE_ETH_BYTES);
	uint32_t sum;
	uint16_t old;

	if (l3[0] >> 4 == 4) {
		old = wire_get16(l3);
		l3[1] |= 3;
		sum = (uint16_t)~wire_get16(l3 + 10) + (uint16_t)~old + (uint32_t)wire_get16(l3);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		wire_put16(l3 + 10, (uint16_t)~sum);
	} else {
		l3[1] |= 3 << 4;
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

/* The QP of a good program that a packet is for. */
static struct sim_qp *
packet_qp(struct sim_world *w, uint32_t ep, uint32_t qpn)
{
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep->id == ep && q->qpn == qpn && q->conn->type == UROCE_QPT_RC && q->qp != NULL)
			return q;
	}
	return NULL;
}

static uint8_t
service_of(const struct sim_qp *q)
{
	return q->conn->xrc ? WIRE_XRC : WIRE_RC;
}

/*
 * The MSN says how many of the requester's messages the responder has completed, READs when it accepts them (9.7.7.1,
 * C9-148): at least those that end before the packet's PSN, or with it if the packet acknowledges it.
 */
static void
check_msn(struct sim_world *w, const struct sim_qp *q, const struct wire_pkt *p, bool with_it)
{
	uint32_t msn = wire_get24(p->bthp + p->op->off_aeth + 1), least = 0, i;

	for (i = 0; i < q->nb_posted && wire_psn_diff(q->ops[i].last_psn, p->bth.psn) < with_it; i++)
		least += !op_local(&q->ops[i]);
	if (msn < least || msn > q->most_messages)
		sim_fail(w, "QP %u: %s of PSN %u has MSN %u; of %u posted %u are complete", q->peer->id, p->op->name,
			 p->bth.psn, msn, q->most_messages, least);
}

/* What a responder says in answer to q's requests. */
static void
check_answer(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	uint8_t syndrome;

	/* A packet that waited since another round: its PSN is far away. */
	if ((p->op->flags & WIRE_F_AETH) == 0 || wire_psn_diff(p->bth.psn, q->attr.sq_psn) < 0 ||
	    wire_psn_diff(p->bth.psn, q->psn_next) > 0)
		return;
	syndrome = p->bthp[p->op->off_aeth];
	check_msn(w, q, p, WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK);
	if (syndrome == WIRE_NAK_PSN_SEQ) {
		/* 9.7.5.2.8: once, until what is missing has come. */
		if (q->nak_seen && q->nak_psn == p->bth.psn)
			sim_fail(w, "QP %u: asks twice for PSN %u", q->peer->id, p->bth.psn);
		q->nak_seen = true;
		q->nak_psn = p->bth.psn;
	} else if (WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK) {
		q->rnr_count = q->rnr_count != 0 && q->rnr_psn == p->bth.psn ? q->rnr_count + 1 : 1;
		/* The first try and rnr_retry more (9.7.5.2.8); seven is for ever. */
		if (w->cfg.lossless && q->attr.rnr_retry < 7 && q->rnr_count > q->attr.rnr_retry + 1u)
			sim_fail(w, "QP %u: sends PSN %u %u times to a peer that isn't ready, rnr_retry is %u", q->id,
				 p->bth.psn, q->rnr_count, q->attr.rnr_retry);
		q->rnr_psn = p->bth.psn;
		q->rnr_until = w->now_ns + wire_rnr_timer_ns(syndrome & 0x1f);
	}
}

/* What q's requester sends. */
static void
check_request(struct sim_world *w, const struct sim_qp *q, const struct wire_pkt *p)
{
	/* Where no NAK is lost none is overlooked (9.7.5.2.8); what was sent again early may be answered by a second one,
	 * on its way still when the time that the first one named is over. */
	if (w->cfg.lossless && transport_counters(q->tp)->tail_loss_probes == 0 && !(w->cfg.faults & (SIM_F_SLOW_TX | SIM_F_NO_MBUF)) && p->bth.psn == q->rnr_psn &&
	    w->now_ns < q->rnr_until)
		sim_fail(w, "QP %u: sends PSN %u again before the peer's RNR timer is over", q->id, p->bth.psn);
	if (q->sqd_waiting && q->drained && qp_state(q->qp) == UROCE_QPS_SQD && !(w->cfg.faults & SIM_F_SLOW_TX))
		sim_fail(w, "QP %u: sends PSN %u though its SQ is drained", q->id, p->bth.psn);
}

/* An offer of selective repeat: a WRITE of no bytes, not of this connection's PSNs. */
static void
check_offer(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	enum { OFFERS = 3, MAGIC = 0x757263 };

	if (p->bth.opcode != (WIRE_RC | WIRE_OP_WRITE_ONLY) || wire_get32(p->bthp + p->op->off_reth + 12) != 0 ||
	    wire_get24(p->bthp + p->op->off_reth) != MAGIC)
		return;
	if (w->cfg.go_back_n >> q->ep->id & 1)
		sim_fail(w, "QP %u: offers selective repeat, but is to go back N", q->id);
	if (++q->nb_offers > OFFERS)
		sim_fail(w, "QP %u: offers selective repeat too often", q->id);
	if (wire_psn_diff(p->bth.psn, q->attr.sq_psn) >= 0)
		sim_fail(w, "QP %u: offers selective repeat with a PSN of its own", q->id);
}

/* Who doesn't speak selective repeat never does, and nobody claims to have what was never sent. */
static void
check_sack(struct sim_world *w, struct sim_qp *q, uint32_t from, const struct wire_pkt *p)
{
	enum { BITS = 256 };

	if (w->cfg.go_back_n >> from & 1) {
		sim_fail(w, "endpoint %u sends %s, but is to go back N", from, p->op->name);
	} else if (w->cfg.go_back_n >> q->ep->id & 1) {
		sim_fail(w, "endpoint %u sends a SACK to one that never offered it", from);
	} else if (wire_psn_diff(p->bth.psn, q->attr.sq_psn) >= -1 && wire_psn_diff(p->bth.psn, q->psn_next) < 0) {
		check_msn(w, q, p, true);
		for (uint32_t i = 0; i < BITS; i++)
			if ((p->payload[11 - i / 8 % 8 + i / 64 * 8] >> i % 8 & 1) &&
			    (i == 0 || wire_psn_diff(wire_psn_add(p->bth.psn, 1 + i), q->psn_next) >= 0))
				sim_fail(w, "QP %u: has PSN %u, which was never sent or isn't behind a gap", q->peer->id,
					 wire_psn_add(p->bth.psn, 1 + i));
	}
}

/* What a sender must never do, whatever the network does afterwards. */
static void
check_sent(struct sim_world *w, uint32_t from, uint32_t to, struct rte_mbuf *m)
{
	struct wire_pkt p = { 0 };
	enum wire_verdict v;
	struct sim_qp *q;

	if (m->nb_segs != 1 || rte_pktmbuf_data_len(m) > WIRE_MAX_FRAME_BYTES) {
		sim_fail(w, "endpoint %u sends a packet of %u segments, %u bytes", from, m->nb_segs,
			 rte_pktmbuf_pkt_len(m));
		return;
	}
	v = wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), true, &p);
	if (v != WIRE_OK)
		sim_fail(w, "endpoint %u sends a bad packet: %s", from, wire_verdict_name(v));
	else if (!p.bth.migreq && p.bth.opcode != WIRE_OPCODE_CNP)
		sim_fail(w, "endpoint %u sends %s without MigReq", from, p.op->name);
	else if ((p.op->flags & WIRE_F_READ_RESP) && p.bth.ackreq)
		sim_fail(w, "endpoint %u asks to acknowledge a READ response", from);
	if (w->failed)
		return;
	q = packet_qp(w, to, p.bth.dqpn);
	if (q == NULL || q->peer->ep->id != from)
		return;
	if (p.op->flags & WIRE_F_SACK)
		check_sack(w, q, from, &p);
	if (WIRE_OPCODE_SERVICE(p.bth.opcode) != service_of(q))
		return;
	if (p.op->flags & WIRE_F_RESPONSE)
		check_answer(w, q, &p);
	else
		check_request(w, q->peer, &p);
	check_offer(w, q->peer, &p);
}

/*
 * Has this PSN been sent before? Only packets for RC QPs of good programs count. ACKs keep their order too: a NAK
 * behind a later ACK is as good as lost.
 */
static bool
keeps_place(struct sim_world *w, uint32_t to, struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t off = WIRE_ETH_BYTES + (p[WIRE_ETH_BYTES] >> 4 == 4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES) +
		       WIRE_UDP_BYTES;
	struct wire_bth b;
	struct sim_qp *q;
	uint32_t which;
	bool before;

	wire_get_bth(p + off, &b);
	q = packet_qp(w, to, b.dqpn);
	if (q == NULL || WIRE_OPCODE_SERVICE(b.opcode) != service_of(q))
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
deliver(struct sim_world *w, struct sim_link *l, uint32_t from, uint32_t to, struct rte_mbuf *m)
{
	uint64_t at = l->free_at + w->cfg.delay_ns;
	bool again = (w->cfg.faults & SIM_F_REORDER) && w->cfg.reorder_once && keeps_place(w, to, m);
	char text[160];

	if (w->cfg.faults & SIM_F_JITTER)
		at += rng_below(&l->rng, w->cfg.jitter_ns + 1);
	if ((w->cfg.faults & SIM_F_REORDER) && !again && rng_chance(&l->rng, w->cfg.reorder_ppm)) {
		at += rng_below(&l->rng, w->cfg.reorder_ns);
		w->stats.reordered++;
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
	m->port = 0;
	m->ol_flags = 0;
	m->packet_type = 0;
	m->vlan_tci = 0;
	world_event_add(w, at, EV_PACKET, to, m);
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

void
link_send(struct sim_world *w, uint32_t from, struct rte_mbuf *m)
{
	uint32_t to = rte_pktmbuf_mtod(m, uint8_t *)[5]; /* last byte of the destination MAC (conn.c) */
	struct sim_link *l;
	struct rte_mbuf *copy;

	w->stats.packets++;
	w->stats.bytes += rte_pktmbuf_pkt_len(m);
	if (w->cfg.wire_check && !w->failed)
		check_sent(w, from, to, m);
	if (to >= w->cfg.nb_eps) {
		sim_fail(w, "endpoint %u sends to an unknown MAC", from);
		rte_pktmbuf_free(m);
		return;
	}
	l = &w->links[from][to];
	if (l->free_at < w->now_ns)
		l->free_at = w->now_ns;
	l->free_at += rte_pktmbuf_pkt_len(m) * UINT64_C(8) / w->cfg.gbps;
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
		mark_ce(m);
	if ((w->cfg.faults & SIM_F_DUP) && rng_chance(&l->rng, w->cfg.dup_ppm)) {
		copy = rte_pktmbuf_copy(m, w->pool, 0, UINT32_MAX);
		if (copy != NULL) {
			w->stats.duplicated++;
			deliver(w, l, from, to, copy);
		}
	}
	if ((w->cfg.faults & SIM_F_CORRUPT) && rng_chance(&l->rng, w->cfg.corrupt_ppm)) {
			w->stats.corrupted++;
		damage(l, m);
	}
	deliver(w, l, from, to, m);
}
