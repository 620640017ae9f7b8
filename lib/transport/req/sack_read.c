/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat for READs and atomics, the requester's side: responses that arrive while an earlier one is missing
 * are placed at once, missing ones are found, and all complete in order.
 *
 * A uroce responder answers requests in order and sends ACKs after its responses; it answers repeated requests before
 * new ones. So once the response to a request sent for the first time, or its ACK, has arrived, every earlier response
 * that hasn't arrived was lost, unless it was requested again after that request had been sent.
 */
#include "base/mark.h"
#include "transport/core/qp_states_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/req/ack_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/sack_priv.h"
#include "transport/req/scoreboard_priv.h"
#include "transport/req/sge_priv.h"

static bool
possible(const struct transport *tp, const struct qp *qp)
{
	return qp->req.sack_peer && !qp->loss.rnr_wait && tp->c.ports[qp->path.port].features.selective_repeat && qp_sends(qp);
}

/* ---- What was lost ---- */
/* The answer to @p psn, requested once, has arrived: missing responses to earlier requests were lost. */
static void
passed(struct transport *tp, struct qp *qp, uint32_t psn, uint32_t end)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	uint32_t before, at;
	struct sb_request u;

	if (wire_psn_diff(psn, b->acked) >= 0)
		b->acked = wire_psn_add(psn, 1);
	/* First what the peer has, whether or not it was taken for lost; then what is lost counts. */
	FOREACH_REQUEST(qp, u, end) {
		if (u.kind == TP_REQ_DATA)
			scoreboard_set_has(b, u.psn);
	}
	before = b->nb_lost;
	FOREACH_REQUEST(qp, u, end) {
		if (u.kind == TP_REQ_DATA)
			continue;
		FOREACH_PSN(at, u) {
			if (wire_psn_diff(at, end) < 0 && (b->again[at % TP_SACK_SPAN].nth == 0 ||
							   wire_psn_diff(b->again[at % TP_SACK_SPAN].psn, psn) <= 0))
				scoreboard_set_lost(b, at);
		}
	}
	scoreboard_new_losses(tp, qp, before);
}

/*
 * The answer to a repeated request has arrived: missing responses that were requested again earlier, with lower PSNs,
 * were lost.
 */
static void
passed_again(struct transport *tp, struct qp *qp, uint32_t psn)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	uint32_t before = b->nb_lost, nth = b->again[psn % TP_SACK_SPAN].nth, at;
	struct sb_request u;

	FOREACH_REQUEST(qp, u, psn) {
		if (u.kind == TP_REQ_DATA)
			continue;
		FOREACH_PSN(at, u) {
			uint32_t n = b->again[at % TP_SACK_SPAN].nth;

			if (wire_psn_diff(at, psn) < 0 && n != 0 && n < nth)
				scoreboard_set_lost(b, at);
		}
	}
	scoreboard_new_losses(tp, qp, before);
}

bool
sack_ack_rx(struct transport *tp, struct qp *qp, uint32_t psn)
{
	if (!possible(tp, qp) || scoreboard_get(tp, qp) == NULL)
		return false;
	passed(tp, qp, psn, wire_psn_add(psn, 1));
	scoreboard_update_cwnd(qp);
	qp_activate(tp, qp);
	return true;
}

/* ---- Placing ---- */
/* Place a response if it is what the request of its PSN wants. @return whether it was placed. */
static bool
placed(struct transport *tp, struct qp *qp, uint32_t counter, const struct wire_pkt *p)
{
	const struct tp_swqe *w = qp_inflight(qp, counter);
	uint8_t kind = swqe_kind(w);
	uint32_t off, want;
	uint64_t old;

	if (kind == TP_REQ_ATOMIC && (p->op->flags & WIRE_F_ATOMICACKETH)) {
		old = wire_get64(p->bthp + p->op->off_atomicacketh);
		return !sq_read_overlaps(qp, counter) &&
		       sq_scatter(tp, qp, counter, 0, (const uint8_t *)&old, sizeof(old)) == 0;
	}
	if ((p->op->flags & WIRE_F_READ_RESP) == 0)
		return false;
	if (kind == TP_REQ_PLACE)
		return p->payload_bytes == 0;
	off = ((p->bth.psn - w->first_psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	want = RTE_MIN(w->length - off, UINT32_C(1) << qp->path.mtu_shift);
	return kind == TP_REQ_READ && p->payload_bytes == want && !sq_read_overlaps(qp, counter) &&
	       sq_scatter(tp, qp, counter, off, p->payload, want) == 0;
}

bool
sack_response_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn, counter = qp->req.sq_tail;
	struct tp_scoreboard *b;
	bool again;

	if (!possible(tp, qp) || !sack_marked(tp, qp, p) || (b = scoreboard_get(tp, qp)) == NULL)
		return false;
	if (sack_bit(b->has, psn)) {
		MARK("a READ response that was placed beyond a gap arrives again");
		tp->counters.rx_response_ignored++;
		return true;
	}
	while (wire_psn_diff(qp_inflight(qp, counter)->last_psn, psn) < 0)
		counter++;
	if (!placed(tp, qp, counter, p)) {
		MARK("a response beyond a gap can't be placed");
		return false;
	}
	tp->counters.rx_response_placed++;
	qp->rcv.rx_bytes += p->payload_bytes;
	again = b->again[psn % TP_SACK_SPAN].nth != 0;
	scoreboard_set_has(b, psn);
	if (again)
		passed_again(tp, qp, psn);
	else
		passed(tp, qp, psn, psn);
	if (qp->loss.rtt_timing && psn == qp->loss.rtt_psn && !again)
		rtt_measured(tp, qp);
	loss_alive(tp, qp);
	scoreboard_update_cwnd(qp);
	qp_activate(tp, qp);
	return true;
}

void
sack_advance(struct transport *tp, struct qp *qp)
{
	while (qp->req.scoreboard != NULL && qp->req.sq_tail != qp->req.sq.counter) {
		const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
		uint32_t una = qp->req.psn_una;
		uint8_t kind = swqe_kind(w);

		/* Without anything in flight there is no scoreboard. */
		UROCE_ASSERT(wire_psn_diff(una, qp->req.psn_max) < 0);
		if (kind == TP_REQ_DATA) {
			if (wire_psn_diff(una, qp->req.scoreboard->acked) < 0)
				ack_upto(tp, qp, wire_psn_add(qp->req.scoreboard->acked, WIRE_PSN_MASK));
		} else if (kind != TP_REQ_NONE && kind != TP_REQ_LOCAL && sack_bit(qp->req.scoreboard->has, una)) {
			ack_response(tp, qp, 1);
		}
		if (qp->req.psn_una == una)
			return;
	}
}
