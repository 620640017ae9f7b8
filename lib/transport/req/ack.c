/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a requester, and the credits that its peer grants.
 */
#include "base/mark.h"
#include "transport/core/sched_priv.h"
#include "transport/req/ack_priv.h"
#include "transport/req/complete_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/scoreboard_priv.h"

/* psn_una has moved. */
static void
progress(struct transport *tp, struct qp *qp)
{
	if (wire_psn_diff(qp->req.psn_cur, qp->req.psn_una) < 0) {
		/* Packets that were about to be resent have arrived. */
		MARK("an ACK arrives for packets that are about to be resent");
		qp->req.psn_cur = qp->req.psn_una;
		qp->req.sq_cur = qp->req.sq_tail;
	}
	if (unlikely(qp->req.scoreboard != NULL))
		scoreboard_progress(tp, qp);
	loss_progress(tp, qp);
	qp_activate(tp, qp);
}

bool
ack_upto(struct transport *tp, struct qp *qp, uint32_t psn)
{
	bool moved = false, free = true;

	while (qp->req.sq_tail != qp->req.sq.counter && wire_psn_diff(psn, qp->req.psn_una) >= 0) {
		const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);

		if (swqe_kind(w) != TP_REQ_DATA) {
			free = false;
			break;
		}
		moved = true;
		if (wire_psn_diff(psn, w->last_psn) < 0) {
			qp->req.psn_una = wire_psn_add(psn, 1);
			break;
		}
		qp->req.psn_una = wire_psn_add(w->last_psn, 1);
		complete_head(tp, qp);
	}
	if (moved)
		progress(tp, qp);
	return free;
}

void
ack_response(struct transport *tp, struct qp *qp, uint32_t psns)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
	uint32_t psn = wire_psn_add(qp->req.psn_una, psns - 1), nth = (psn - w->first_psn) & WIRE_PSN_MASK;
	bool last = psn == w->last_psn;

	qp->req.psn_una = wire_psn_add(psn, 1);
	if ((last || (nth & (TP_READ_CHUNK_PACKETS - 1)) == TP_READ_CHUNK_PACKETS - 1) && qp->req.rd_out > 0)
		qp->req.rd_out--;
	if (last)
		complete_head(tp, qp);
	progress(tp, qp);
}

/* ---- End-to-end credits ---- */
/*
 * Take over the credits in an AETH. They are counted from the messages that are complete here. The peer may have
 * executed more and so has granted more than we assume; that way an old AETH does no harm. A peer that doesn't send
 * credits, or hasn't yet, is taken to have enough receives: RNR NAKs will tell.
 */
void
credits_rx(struct transport *tp, struct qp *qp, uint8_t syndrome)
{
	uint8_t code = syndrome & WIRE_AETH_CREDITS_INVALID;
	uint32_t limit;

	if (code == WIRE_AETH_CREDITS_INVALID || unlikely(!tp->c.ports[qp->path.port].features.credits)) {
		qp->req.credits = false;
		limit = qp->req.recvs_done + TP_CREDITS_ANY;
	} else {
		limit = qp->req.recvs_done + wire_aeth_credits(code);
		if (qp->req.credits && (int32_t)(limit - qp->req.recvs_limit) <= 0)
			return;
		qp->req.credits = true;
	}
	qp->req.recvs_limit = limit;
	if (unlikely(qp->req.out_of_credits)) {
		qp->req.out_of_credits = false;
		qp_activate(tp, qp);
	}
}

void
credits_wait(struct transport *tp, struct qp *qp)
{
	tp->counters.rc_credit_waits += !qp->req.out_of_credits;
	qp->req.out_of_credits = true;
	qp->req.wait = REQ_WAIT_CREDITS;
}
