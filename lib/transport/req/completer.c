/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The completer: handles ACKs, NAKs, READ and atomic responses that come back to a requester.
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/req/ack_priv.h"
#include "transport/req/complete_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/sack_priv.h"
#include "transport/req/sge_priv.h"

/* ---- NAKs ---- */
/* The responder refused the oldest request for good: count it and fail the WQE. */
static void
fatal_nak(struct transport *tp, struct qp *qp, uint8_t syndrome)
{
	static const uint8_t status[] = {
		[WIRE_NAK_INV_REQ & 3] = UROCE_WC_REM_INV_REQ_ERR,
		[WIRE_NAK_REM_ACCESS & 3] = UROCE_WC_REM_ACCESS_ERR,
		[WIRE_NAK_REM_OP & 3] = UROCE_WC_REM_OP_ERR,
	};

	if (syndrome == WIRE_NAK_INV_REQ)
		tp->counters.req_remote_invalid_request++;
	else if (syndrome == WIRE_NAK_REM_ACCESS)
		tp->counters.req_remote_access_errors++;
	else
		tp->counters.req_remote_op_errors++;
	diag_note(tp, qp, QP_EV_NAK, syndrome, 0, qp->req.psn_una);
	complete_head_in_error(tp, qp, status[syndrome & 3], TP_VERR_REMOTE_NAK);
}

/* A NAK of @p psn says that everything before it arrived (9.7.5.2). */
static void
nak_rx(struct transport *tp, struct qp *qp, uint32_t psn, uint8_t syndrome)
{
	bool rnr = WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK;

	/* Nothing may be concluded from a NAK with an unknown code. */
	if (!rnr && (syndrome < WIRE_NAK_PSN_SEQ || syndrome > WIRE_NAK_REM_OP)) {
		MARK("a NAK has an unknown code");
		tp->counters.rx_nak_ignored++;
		return;
	}
	if (!ack_upto(tp, qp, wire_psn_add(psn, WIRE_PSN_MASK)) &&
	    (rnr || syndrome == WIRE_NAK_PSN_SEQ || wire_psn_diff(psn, qp_inflight(qp, qp->req.sq_tail)->last_psn) > 0)) {
		MARK("a NAK passes a READ whose response was lost");
		/* A fatal NAK for a later request doesn't concern this one, whose response was lost. */
		loss_lost_response(tp, qp);
		return;
	}
	if (qp->req.sq_tail == qp->req.sq.counter || !qp_sends(qp)) {
		MARK_UNIT("the send CQ overruns when a NAK acknowledges what came before", "unit/transport/limits");
		return;
	}
	if (rnr) {
		loss_rnr_nak(tp, qp, syndrome & 0x1f);
	} else if (syndrome == WIRE_NAK_PSN_SEQ) {
		loss_sequence_nak(tp, qp);
	} else {
		fatal_nak(tp, qp, syndrome);
	}
}

/* ---- Responses with data ---- */
static void
bad_response(struct transport *tp, struct qp *qp)
{
	tp->counters.rx_bad_response++;
	complete_head_in_error(tp, qp, UROCE_WC_BAD_RESP_ERR, TP_VERR_BAD_RESPONSE);
}

/**
 * Put the @p len bytes of a response at @p off of the oldest WQE's memory.
 * @return false if they can't be copied yet, or the WQE has failed.
 */
static __rte_always_inline bool
scatter_response(struct transport *tp, struct qp *qp, uint32_t off, const uint8_t *data, uint32_t len)
{
	uint8_t verr = sq_scatter(tp, qp, qp->req.sq_tail, off, data, len);

	if (unlikely(verr == COPY_LATER))
		return false;
	if (unlikely(verr != 0)) {
		tp->counters.req_local_errors++;
		complete_head_in_error(tp, qp, UROCE_WC_LOC_PROT_ERR, verr);
		return false;
	}
	return true;
}

static void
read_response(struct transport *tp, struct qp *qp, const struct wire_pkt *p, uint8_t kind)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
	uint32_t off = ((qp->req.psn_una - w->first_psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	uint32_t want = kind == TP_REQ_READ ? RTE_MIN(w->length - off, (UINT32_C(1) + p->more) << qp->path.mtu_shift) : 0;

	if (unlikely(p->payload_bytes != want)) {
		bad_response(tp, qp);
		return;
	}
	if (!scatter_response(tp, qp, off, p->payload, want))
		return;
	qp->rcv.rx_bytes += want;
	ack_response(tp, qp, 1u + p->more);
}

static void
atomic_response(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint64_t old = wire_get64(p->bthp + p->op->off_atomicacketh);

	if (scatter_response(tp, qp, 0, (const uint8_t *)&old, sizeof(old)))
		ack_response(tp, qp, 1);
}

static void
data_response_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	bool read = (p->op->flags & WIRE_F_READ_RESP) != 0;
	uint8_t kind;

	if (unlikely((p->op->flags & WIRE_F_AETH) &&
		     WIRE_AETH_TYPE(p->bthp[p->op->off_aeth]) != WIRE_AETH_ACK)) {
		tp->counters.rx_response_ignored++;
		return;
	}
	/* The SENDs and WRITEs before it have arrived at the peer. */
	if (qp->req.psn_una != p->bth.psn && !ack_upto(tp, qp, wire_psn_add(p->bth.psn, WIRE_PSN_MASK))) {
		if (!sack_response_rx(tp, qp, p) && !copy_stalled(qp))
			loss_lost_response(tp, qp);
		return;
	}
	if (unlikely(qp->req.psn_una != p->bth.psn || qp->req.sq_tail == qp->req.sq.counter || !qp_sends(qp))) {
		tp->counters.rx_response_ignored++;
		return;
	}
	kind = swqe_kind(qp_inflight(qp, qp->req.sq_tail));
	/* The WQE turned out bad when it was to be resent. */
	if (unlikely(kind == TP_REQ_NONE)) {
		MARK_UNIT("the answer arrives to a WQE whose memory is gone", "unit/transport/rc_errors");
		tp->counters.rx_response_ignored++;
		return;
	}
	if (unlikely(kind != (read ? TP_REQ_READ : TP_REQ_ATOMIC) && !(read && kind == TP_REQ_PLACE))) {
		bad_response(tp, qp);
		return;
	}
	if (read)
		read_response(tp, qp, p, kind);
	else
		atomic_response(tp, qp, p);
	if (p->op->flags & WIRE_F_AETH)
		credits_rx(tp, qp, p->bthp[p->op->off_aeth]);
}

/* An ACK of what was acknowledged before: unsolicited, with more credits (9.7.7.2.4), or a duplicate. */
static void
repeated_ack(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint8_t syndrome = WIRE_AETH_NAK;

	if (wire_psn_add(p->bth.psn, 1) == qp->req.psn_una && WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_ACK)
		syndrome = p->bthp[p->op->off_aeth];
	MARK_IF(WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK && qp->req.credits && qp->req.out_of_credits, "a repeated ACK brings the credits that were missing");
	if (WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK && qp->req.credits)
		credits_rx(tp, qp, syndrome);
	tp->counters.rx_response_ignored++;
}

void
completer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn;
	uint8_t syndrome;

	tp->counters.acks_received += 1u + p->more;
	/* This PSN was never sent: the peer is broken, or isn't ours. */
	if (unlikely(wire_psn_diff(psn, qp->req.psn_max) >= 0)) {
		tp->counters.rx_ghost_ack++;
		return;
	}
	if (wire_psn_diff(psn, qp->req.psn_una) < 0) {
		repeated_ack(tp, qp, p);
		return;
	}
	if (p->op->flags & (WIRE_F_READ_RESP | WIRE_F_ATOMICACKETH)) {
		data_response_rx(tp, qp, p);
	} else {
		syndrome = p->bthp[p->op->off_aeth];
		if (likely(WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK)) {
			if (likely(ack_upto(tp, qp, psn)))
				credits_rx(tp, qp, syndrome);
			else if (!sack_marked(tp, qp, p) || !sack_ack_rx(tp, qp, psn))
				loss_lost_response(tp, qp);
		} else {
			nak_rx(tp, qp, psn, syndrome);
		}
	}
	/* It will be here again. */
	tp->counters.acks_received -= copy_stalled(qp);
	if (unlikely(qp->req.scoreboard != NULL))
		sack_advance(tp, qp);
	if (unlikely(qp->state == UROCE_QPS_SQD))
		qp_check_drained(tp, qp);
}
