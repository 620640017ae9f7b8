/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NAKs: for requests that are refused, that can't be executed yet, or that arrive beyond a gap.
 */
#include "base/mark.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/resp/resp_priv.h"

void
responder_refuse(struct transport *tp, struct qp *qp, uint8_t syndrome, uint32_t psn)
{
	int event = syndrome == WIRE_NAK_REM_ACCESS ? UROCE_EVENT_QP_ACCESS_ERR :
		    syndrome == WIRE_NAK_INV_REQ    ? UROCE_EVENT_QP_REQ_ERR :
						      UROCE_EVENT_QP_FATAL;

	if (syndrome == WIRE_NAK_REM_ACCESS)
		tp->counters.resp_remote_access_errors++;
	else if (syndrome == WIRE_NAK_INV_REQ)
		tp->counters.resp_invalid_requests++;
	else
		tp->counters.resp_op_errors++;
	qp->resp.reply = TP_REPLY_FATAL;
	qp->resp.syndrome = syndrome;
	qp->resp.reply_psn = psn;
	diag_note(tp, qp, QP_EV_NAK_SENT, syndrome, 0, psn);
	qp_error(tp, qp, event, TP_BECAUSE(REFUSED, syndrome));
	qp_reply_later(tp, qp);
}

void
responder_out_of_sequence(struct transport *tp, struct qp *qp, uint32_t psn)
{
	tp->counters.out_of_sequence++;
	if (qp->rcv.nak_state == TP_NAK_NONE || wire_psn_diff(psn, qp->rcv.psn_dropped) > 0)
		qp->rcv.psn_dropped = psn;
	/* Once per gap; and not while the peer waits for its RNR timer to end (hfi1 does the same). */
	if (qp->rcv.nak_state != TP_NAK_NONE)
		return;
	qp->rcv.nak_state = TP_NAK_SEQ_SENT;
	qp->diag.nak_ns = tp->now_ns;
	diag_note(tp, qp, QP_EV_NAK_SENT, WIRE_NAK_PSN_SEQ, 0, qp->rcv.epsn);
	qp->resp.reply = TP_REPLY_NAK_SEQ;
	qp_reply_later(tp, qp);
}

void
responder_not_ready(struct transport *tp, struct qp *qp)
{
	MARK_IF(qp->rcv.nak_state == TP_NAK_SEQ_SENT, "the missing packet finds no receive while more is missing");
	MARK_IF(qp->rcv.reorder != NULL, "there is no receive while packets are held beyond it");
	if (qp->rcv.nak_state == TP_NAK_NONE)
		qp->rcv.psn_dropped = qp->rcv.epsn;
	if (qp->rcv.nak_state != TP_NAK_RNR_SENT)
		qp->diag.nak_ns = tp->now_ns;
	qp->rcv.nak_state = TP_NAK_RNR_SENT;
	diag_note(tp, qp, QP_EV_RNR_SENT, qp->rcv.min_rnr_timer, 0, qp->rcv.epsn);
	qp->resp.reply = TP_REPLY_RNR;
	qp_reply_later(tp, qp);
}

bool
responder_gap_remains(struct qp *qp)
{
	bool unsent = qp->resp.reply == TP_REPLY_NAK_SEQ || qp->resp.reply == TP_REPLY_RNR;

	if (unsent && wire_psn_diff(qp->rcv.psn_dropped, qp->rcv.epsn) >= 0) {
		MARK_IF(qp->resp.reply == TP_REPLY_RNR, "an RNR NAK that was not sent becomes a sequence NAK");
		qp->rcv.nak_state = TP_NAK_SEQ_SENT;
		qp->resp.reply = TP_REPLY_NAK_SEQ;
		return true;
	}
	qp->rcv.nak_state = TP_NAK_NONE;
	/* The NAK that is given up had replaced an ACK that may be owed. */
	if (unsent) {
		MARK("a NAK is given up before it was sent, and an ACK is owed");
		qp->resp.reply = TP_REPLY_ACK;
	}
	return false;
}
