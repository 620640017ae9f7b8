/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of a QP's former connection that come late, as if its PSNs had been near those of the present one: nothing else of
 * them is changed, so keys, marks, nonces and opcodes are what they were.
 *
 * Only what the transport can tell from its own is sent (docs/wire.md, "What this guarantees"): requests behind the expected
 * PSN or beyond it, but not with it; answers before the oldest PSN in flight or beyond the newest; SACKs with any PSN; offers.
 * So after each packet it must be true that nothing was executed, kept, placed or believed. There is one exception: an ACK
 * with the PSN before the oldest in flight grants the credits that it carries (9.7.7.2.4).
 *
 * The same must be true of packets of the present connection, with the very PSN that comes next, that arrive at another port of
 * the host: a QP belongs to one.
 */
#include <assert.h>
#include <string.h>

#include "hostile.h"
#include "transport/core/sack_format_priv.h"
#include "transport/core/types_priv.h"
#include "transport/rx_priv.h"

enum {
	STREAM_STALE = 42,
	KEEP_ONE_IN = 4,     /* packets */
	COMES_ONE_IN = 4,    /* turns of a program */
	ELSEWHERE_ONE_IN = 8,
	AHEAD = 300,         /* PSNs: some more than selective repeat keeps */
	BEHIND = 64,
	NEWEST_ONE_IN = 8,   /* ACKs before what is in flight: of the newest PSN that was acknowledged */
	OFFER_MAGIC = 0x757232,
	OFFER_BEHIND = 1 << 22,
};

void
stale_init(struct sim_world *w)
{
	w->stale_rng = rng_stream(w->cfg.seed, STREAM_STALE);
}

void
stale_keep(struct sim_world *w, uint32_t to, struct rte_mbuf *m)
{
	struct wire_pkt p = { 0 };
	struct sim_stale *s;
	struct sim_qp *q;

	if (!(w->cfg.faults & (SIM_F_STALE | SIM_F_PORTS)) || !rng_one_in(&w->stale_rng, KEEP_ONE_IN) ||
	    wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), false, &p) != WIRE_OK ||
	    (WIRE_OPCODE_SERVICE(p.bth.opcode) != WIRE_RC && p.bth.opcode != WIRE_OPCODE_SACK))
		return;
	q = sent_for(w, to, p.bth.dqpn);
	if (q == NULL || q->conn->xrc || q->conn->several_paths || q->foreign != NULL)
		return;
	s = &q->stale_now[rng_below(&w->stale_rng, SIM_STALE)];
	s->bth = p.bth;
	memcpy(s->hdr, p.bthp, p.op->hdr_bytes);
	s->payload_bytes = p.payload_bytes;
	s->data_bytes = p.op->flags & WIRE_F_SACK ? p.payload_bytes : 0;
	memcpy(s->data, p.payload, s->data_bytes);
	s->valid = true;
}

void
stale_round(struct sim_qp *q)
{
	memcpy(q->stale_former, q->stale_now, sizeof(q->stale_former));
	memset(q->stale_now, 0, sizeof(q->stale_now));
}

static bool
is_offer(const struct sim_stale *s)
{
	const struct wire_opcode *op = &wire_opcodes[s->bth.opcode];

	return WIRE_OPCODE_OP(s->bth.opcode) == WIRE_OP_WRITE_ONLY && s->payload_bytes == 0 &&
	       wire_get24(s->hdr + op->off_reth) == OFFER_MAGIC;
}

/* A PSN with which the packet is told from those of this connection. */
static uint32_t
psn_to_be_told(struct rng *r, const struct sim_qp *q, const struct sim_stale *s)
{
	const struct wire_opcode *op = &wire_opcodes[s->bth.opcode];
	uint32_t first = q->qp->req.psn_una, next = q->qp->req.psn_max;
	struct uroce_qp_attr a;

	if (op->flags & WIRE_F_SACK)
		return wire_psn_add(first, (uint32_t)rng_below(r, BEHIND));
	if (WIRE_OPCODE_OP(s->bth.opcode) == WIRE_OP_ACK && rng_one_in(r, NEWEST_ONE_IN))
		return wire_psn_add(first, WIRE_PSN_MASK);
	if (op->flags & WIRE_F_RESPONSE)
		return rng_one_in(r, 2) ? wire_psn_add(next, (uint32_t)rng_below(r, AHEAD)) :
					  (first - (uint32_t)rng_between(r, 1, BEHIND)) & WIRE_PSN_MASK;
	qp_query(q->qp, &a);
	if (is_offer(s))
		return (a.rq_psn - OFFER_BEHIND) & WIRE_PSN_MASK;
	/* A duplicate READ is executed again, and an atomic's result may be kept: both may be answers to this connection's. */
	if ((op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) && rng_one_in(r, 4))
		return (a.rq_psn - (uint32_t)rng_between(r, 1, BEHIND)) & WIRE_PSN_MASK;
	/* Mostly near, where the packets that it could replace will be. */
	return wire_psn_add(a.rq_psn, (uint32_t)rng_between(r, 1, rng_one_in(r, 2) ? 8 : AHEAD));
}

/* What has been executed, kept, placed or believed. */
struct view {
	struct uroce_qp_attr a;
	uint32_t una, msn;
	uint8_t mark, reply_mark;
	uint64_t counters[11];
};

static struct view
view(const struct sim_qp *q)
{
	const struct tp_counters *c = transport_counters(q->tp);
	struct view v;

	memset(&v, 0, sizeof(v));
	qp_query(q->qp, &v.a);
	v.una = q->qp->req.psn_una;
	v.msn = q->qp->rcv.msn;
	v.mark = q->qp->rcv.sack_mark;
	v.reply_mark = q->qp->rcv.reply_mark;
	const uint64_t counters[] = {
		c->rx_send_requests, c->rx_write_requests, c->rx_read_requests, c->rx_atomic_requests, c->rx_flush_requests,
		c->rx_invalidate_requests, c->rx_held, c->rx_response_placed, c->rx_bad_response, c->sacks_received,
		c->sack_offers_received,
	};

	static_assert(sizeof(counters) == sizeof(v.counters), "one for each");
	memcpy(v.counters, counters, sizeof(counters));
	return v;
}

/* An ACK of the newest PSN that was acknowledged is no news but for its credits, which no PSN protects. */
static void
note_credits(struct sim_qp *q, const struct forged *f)
{
	struct wire_pkt p = { .bth = f->bth, .op = &wire_opcodes[f->bth.opcode], .bthp = f->hdr };

	if (WIRE_OPCODE_OP(f->bth.opcode) == WIRE_OP_ACK && wire_psn_add(f->bth.psn, 1) == q->qp->req.psn_una)
		credits_answered(q, &p, false);
}

/* Does the QP look at what comes? What waits for memory has others wait behind it. */
static bool
listens(const struct sim_qp *q)
{
	return (qp_state(q->qp) == UROCE_QPS_RTS || qp_state(q->qp) == UROCE_QPS_SQD) && q->qp->copy == NULL;
}

static struct forged
again(const struct sim_qp *q, const struct sim_stale *s)
{
	struct forged f = { .from = way_back(&q->path), .bth = s->bth, .payload_bytes = s->payload_bytes, .data_bytes = s->data_bytes };

	memcpy(f.hdr, s->hdr, sizeof(s->hdr));
	memcpy(f.data, s->data, sizeof(s->data));
	f.bth.pkey = q->peer->pkey;
	f.bth.pad = 0; /* forged_deliver() sets it */
	return f;
}

static void
elsewhere(struct sim_world *w, struct sim_qp *q)
{
	struct rng *r = &w->stale_rng;
	const struct sim_stale *s;
	struct uroce_qp_attr a;
	struct view before, after;
	struct forged f;

	if (q->ep->nb_ports == 1 || q->foreign != NULL || !rng_one_in(r, ELSEWHERE_ONE_IN))
		return;
	s = &q->stale_now[rng_below(r, SIM_STALE)];
	if (!s->valid || !listens(q))
		return;
	rx_catch_up(q->tp, q->qp);
	f = again(q, s);
	f.from.dmac[4] ^= 1;
	qp_query(q->qp, &a);
	f.bth.dqpn = q->qpn;
	/* A SACK names what has arrived before the gap. */
	if (wire_opcodes[s->bth.opcode].flags & WIRE_F_SACK)
		f.bth.psn = wire_psn_add(q->qp->req.psn_una, WIRE_PSN_MASK);
	else if (wire_opcodes[s->bth.opcode].flags & WIRE_F_RESPONSE)
		f.bth.psn = q->qp->req.psn_una;
	else
		f.bth.psn = a.rq_psn;
	sim_trace(w, "QP %u gets %s with PSN %u at another port", q->id, wire_opcodes[s->bth.opcode].name, f.bth.psn);
	before = view(q);
	forged_deliver(w, q->tp, &f);
	after = view(q);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		sim_fail(w, "QP %u: %s with PSN %u is taken though it came to another port", q->id, wire_opcodes[s->bth.opcode].name,
			 f.bth.psn);
	world_run_at(w, q->ep->id, w->now_ns);
}

/* Of another QP's connection the mark may be right by chance (docs/wire.md). */
static bool
may_bear_our_mark(const struct sim_qp *q, const struct sim_stale *s)
{
	return s->bth.dqpn != q->qpn && s->bth.mark != 0 &&
	       (s->bth.mark == q->qp->rcv.sack_mark || s->bth.mark == sack_mark(q->qp->req.sack_nonce));
}

void
stale_turn(struct sim_world *w, struct sim_qp *q)
{
	struct rng *r = &w->stale_rng;
	const struct sim_stale *s;
	struct view before, after;
	struct forged f;

	moves_finish(w, q->ep);
	elsewhere(w, q);
	if (!(w->cfg.faults & SIM_F_STALE) || q->round == 0 || !rng_one_in(r, COMES_ONE_IN))
		return;
	s = &q->stale_former[rng_below(r, SIM_STALE)];
	if (!s->valid || !listens(q) || may_bear_our_mark(q, s))
		return;
	/* What waits for a turn isn't this packet's doing. */
	rx_catch_up(q->tp, q->qp);
	f = again(q, s);
	/* A QP that was destroyed had another number: what comes to that is nobody's. */
	if (!rng_one_in(r, 4))
		f.bth.dqpn = q->qpn;
	f.bth.psn = psn_to_be_told(r, q, s);
	q->old_sacks += (wire_opcodes[s->bth.opcode].flags & WIRE_F_SACK) != 0;
	sim_trace(w, "QP %u gets %s of a former connection with PSN %u", q->id, wire_opcodes[s->bth.opcode].name, f.bth.psn);
	w->stats.stale++;
	if (f.bth.dqpn == q->qpn)
		note_credits(q, &f);
	before = view(q);
	forged_deliver(w, q->tp, &f);
	after = view(q);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		sim_fail(w, "QP %u: %s of a former connection with PSN %u is taken for one of this connection", q->id,
			 wire_opcodes[s->bth.opcode].name, f.bth.psn);
	world_run_at(w, q->ep->id, w->now_ns);
}
