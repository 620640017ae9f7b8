/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * End-to-end flow control (9.7.7.2), as the wire shows it: what responders say about their receives is true, they keep what
 * they have said, and requesters send one message more than that at most.
 */
#include "sim.h"

enum { CREDITS_INVALID = 31, UNSENT_NS_MAX = 5000000 };

/* Table 46, a second time, so that a slip in the transport's is seen. */
static const uint16_t credits_of[CREDITS_INVALID] = {
	0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,   64,    96,    128,  192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

static uint32_t
rounded_down(uint32_t credits)
{
	uint32_t i = CREDITS_INVALID;

	while (credits_of[--i] > credits)
		;
	return credits_of[i];
}

static struct sim_credits *
credits(struct sim_qp *q)
{
	struct sim_credits *c = &q->credits;

	if (c->round != q->round + 1)
		*c = (struct sim_credits){ .round = q->round + 1, .arrived = wire_psn_add(q->attr.rq_psn, WIRE_PSN_MASK) };
	return c;
}

static bool
counts_receives(const struct sim_qp *q)
{
	return q->ep->w->cfg.features[q->ep->id].credits && q->rq == &q->own_rq && !q->conn->xrc;
}

/* Receives for q's messages that end no later than this PSN; @p begun: or have begun, of those that need one from then on. */
static uint32_t
receives_for(const struct sim_qp *q, uint32_t psn, bool begun)
{
	uint32_t i, n = 0, first = q->attr.sq_psn;

	for (i = 0; i < q->nb_posted; i++) {
		const struct sim_op *op = &q->ops[i];
		bool early = begun && op->opcode != UROCE_WR_RDMA_WRITE_WITH_IMM;

		n += op_consumes(op) && wire_psn_diff(early ? first : op->last_psn, psn) <= 0;
		first = wire_psn_add(op->last_psn, 1);
	}
	return n;
}

/* The message whose first or any packet has this PSN, or NULL. */
static const struct sim_op *
op_of(const struct sim_qp *q, uint32_t psn, bool *is_first)
{
	uint32_t i, first = q->attr.sq_psn;

	for (i = 0; i < q->nb_posted; i++) {
		*is_first = psn == first;
		if (!op_local(&q->ops[i]) && wire_psn_diff(psn, q->ops[i].last_psn) <= 0)
			return &q->ops[i];
		first = wire_psn_add(q->ops[i].last_psn, 1);
	}
	return NULL;
}

static bool
is_ours(const struct sim_qp *q, uint32_t psn)
{
	return wire_psn_diff(psn, q->attr.sq_psn) >= 0 && wire_psn_diff(psn, q->psn_next) < 0;
}

/* A message for which the responder had said to have a receive when it came is never sent away. */
static void
check_promise(struct sim_world *w, struct sim_qp *q, uint32_t psn)
{
	struct sim_credits *c = credits(q->peer);
	uint32_t slot = psn % SIM_CAME;
	bool first;
	const struct sim_op *op = op_of(q, psn, &first);

	if (!counts_receives(q->peer) || op == NULL || !op_consumes(op) || !c->came[slot].valid || c->came[slot].psn != psn)
		return;
	if (op->consume < c->came[slot].promised)
		sim_fail(w, "QP %u: isn't ready for PSN %u, which takes receive %u, but has said to have %u", q->peer->id, psn,
			 op->consume, c->came[slot].promised);
	c->came[slot].valid = false;
}

void
credits_answer(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	struct sim_qp *r = q->peer;
	struct sim_credits *c = credits(r);
	uint8_t syndrome = p->bthp[p->op->off_aeth];
	uint32_t code = syndrome & 0x1f, taken, has;

	if (WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK)
		check_promise(w, q, p->bth.psn);
	if (WIRE_AETH_TYPE(syndrome) != WIRE_AETH_ACK)
		return;
	/* Receives of an SRQ are promised to nobody. */
	if ((code == CREDITS_INVALID) != !counts_receives(r))
		sim_fail(w, "QP %u: says credit code %u, and %s receives of its own", r->id, code,
			 counts_receives(r) ? "has" : "has no");
	if (code == CREDITS_INVALID)
		return;
	taken = receives_for(q, p->bth.psn, true);
	has = credits_of[code];
	if (has + taken > r->rq->nb_posted)
		sim_fail(w, "QP %u: says that it has %u receives, %u of %u are taken", r->id, has, taken, r->rq->nb_posted);
	/* It may look for receives in steps, but not overlook more than half of them. In ERR they are flushed. */
	taken = receives_for(q, c->arrived, true);
	if (!(w->cfg.faults & SIM_F_SLOW_TX) && r->rq->nb_posted > taken && qp_state(r->qp) != UROCE_QPS_ERR &&
	    has < rounded_down((r->rq->nb_posted - taken + 1) / 2))
		sim_fail(w, "QP %u: says that it has %u receives, but %u are posted and %u taken at most", r->id, has,
			 r->rq->nb_posted, taken);
	taken = receives_for(q, p->bth.psn, true);
	if (taken + has > c->promised)
		c->promised = taken + has;
}

void
credits_killed(const struct sim_world *w, struct sim_qp *q)
{
	/* It heard of it in the turn that doesn't count. */
	if (q->credits.limited_ns == w->now_ns)
		q->credits.limited = false;
}

void
credits_request(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	struct sim_credits *c = credits(q);
	uint32_t limit = receives_for(q, wire_psn_add(q->acked, WIRE_PSN_MASK), false);
	const struct sim_op *op;
	bool first;

	if (!c->limited || c->unlimited || !w->cfg.features[q->ep->id].credits)
		return;
	/* Made before it knew, and not sent. */
	if ((w->cfg.faults & SIM_F_SLOW_TX) && w->now_ns - c->limited_ns < UNSENT_NS_MAX)
		return;
	op = op_of(q, p->bth.psn, &first);
	if (op == NULL || !first || !op_consumes(op))
		return;
	if (limit < c->limit)
		limit = c->limit;
	/* 9.7.7.2.5: one more, to hear of new ones. */
	if (op->consume > limit)
		sim_fail(w, "QP %u: sends a message that takes receive %u; the peer has said to have %u", q->id, op->consume,
			 limit);
}

/* An answer that passes a response that may be missing means its loss, and nothing else (9.7.5.2.8). */
static bool
passes_response(const struct sim_qp *q, uint32_t psn)
{
	uint32_t i;

	for (i = q->nb_retired; i < q->nb_posted && wire_psn_diff(q->ops[i].last_psn, psn) < 0; i++)
		if (op_brings(&q->ops[i]) || q->ops[i].opcode == UROCE_WR_ATOMIC_WRITE ||
		    q->ops[i].opcode == UROCE_WR_FLUSH)
			return true;
	return false;
}

/* The end of a READ's answer, whose beginning may be missing: it isn't taken before that has come. */
static bool
ends_response(const struct sim_qp *q, const struct wire_pkt *p)
{
	bool first = false;

	return (p->op->flags & WIRE_F_READ_RESP) && op_of(q, p->bth.psn, &first) != NULL && !first;
}

void
credits_answered(struct sim_qp *q, const struct wire_pkt *p, bool taken)
{
	struct sim_credits *c = credits(q);
	uint8_t syndrome = p->bthp[p->op->off_aeth];
	uint32_t limit;

	if (WIRE_AETH_TYPE(syndrome) != WIRE_AETH_ACK || !is_ours(q, p->bth.psn))
		return;
	if ((syndrome & 0x1f) == CREDITS_INVALID) {
		c->unlimited = true;
		return;
	}
	/* Of what is acknowledged already an answer says nothing new, also if it is the first with credits. */
	if (taken && !c->limited && wire_psn_diff(p->bth.psn, q->acked) >= 0 && !passes_response(q, p->bth.psn) &&
	    !ends_response(q, p)) {
		c->limited = true;
		c->limited_ns = q->ep->w->now_ns;
	}
	limit = receives_for(q, p->bth.psn, false) + credits_of[syndrome & 0x1f];
	if (limit > c->limit)
		c->limit = limit;
}

void
credits_requested(struct sim_qp *q, const struct wire_pkt *p, uint32_t psns)
{
	struct sim_credits *c = credits(q);
	uint32_t last = wire_psn_add(p->bth.psn, psns - 1), slot = p->bth.psn % SIM_CAME;

	if (!is_ours(q->peer, last))
		return;
	if (wire_psn_diff(last, c->arrived) > 0)
		c->arrived = last;
	if (!c->came[slot].valid || c->came[slot].psn != p->bth.psn) {
		c->came[slot].valid = true;
		c->came[slot].psn = p->bth.psn;
		c->came[slot].promised = c->promised;
	}
}
