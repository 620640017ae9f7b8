/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder of RC QPs: accepts requests in PSN order, executes SEND and WRITE, and then goes on with packets held
 * beyond a gap.
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/resp/recv_priv.h"
#include "transport/resp/resp_priv.h"

void
receiver_reset(struct qp *qp)
{
	const struct qp_receiver *r = &qp->rcv;

	UROCE_ASSERT(r->reorder == NULL && !r->rwqe.valid);
	qp->rcv = (struct qp_receiver){
		.rq = r->rq,
		.srq = r->srq,
		.xrcd = r->xrcd,
		.rq_seen = r->rq.counter,
		.sack_mark = sack_mark(r->sack_mark),
		/* The rate of CNPs is limited per QP, whatever its connection. */
		.cnp_next_ns = r->cnp_next_ns,
	};
}

void
responder_reset(struct qp *qp)
{
	struct qp_responder *r = &qp->resp;

	UROCE_ASSERT(r->reads == NULL);
	*r = (struct qp_responder){ .res_max = r->res_max, .res_limit = r->res_limit, .res = r->res };
	for (uint32_t i = 0; i < r->res_max; i++)
		r->res[i].used = false;
}

/* The expected packet was executed: move epsn, and acknowledge if asked to. */
static inline void
accepted(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	qp->rcv.epsn = wire_psn_add(qp->rcv.epsn, 1u + p->more);
	if (unlikely(qp->rcv.nak_state != TP_NAK_NONE) && responder_gap_remains(qp))
		return;
	if (p->bth.ackreq) {
		qp->resp.reply = TP_REPLY_ACK;
		qp_reply_later(tp, qp);
	}
}

/* A SEND packet that doesn't fit or can't be stored fails the receive WQE too. @return the NAK syndrome. */
static uint8_t
receive_failed(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr)
{
	if (status == UROCE_WC_LOC_LEN_ERR)
		tp->counters.resp_local_length_error++;
	recv_fail(tp, qp, status, verr);
	return status == UROCE_WC_LOC_LEN_ERR ? WIRE_NAK_INV_REQ : WIRE_NAK_REM_OP;
}

/*
 * SEND_WITH_INV must be executed after everything that the peer requested before it (9.4.1.1.3): READs whose responses
 * are still to be built would find the rkey invalid. (If a response is lost it is too late; a program that wants to be
 * sure fences the SEND.) @return false: the responses can't be sent now; the peer has to send it again.
 */
static bool
reads_answered(struct transport *tp, struct qp *qp)
{
	if (qp->resp.pending != 0)
		responder_run(tp, qp, TP_TX_MAX);
	/* Memory that isn't mapped may take long: the peer shall wait without using up its retries. */
	if (copy_runs(qp, COPY_READ)) {
		responder_not_ready(tp, qp);
	} else if (qp->resp.pending != 0) {
		MARK_UNIT("a SEND_WITH_INV waits for READ responses that can't be sent", "unit/transport/limits");
		responder_out_of_sequence(tp, qp, qp->rcv.epsn);
	}
	return qp->resp.pending == 0 && qp->state != UROCE_QPS_ERR;
}

/*
 * Invalidate the rkey in the IETH. A failure is of class J (9.9.3; as in Linux rxe_resp.c): the peer gets no NAK, the
 * receive completes in error, the QP goes to ERR.
 */
static bool
invalidated(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (likely(journal_was_placed(qp, p->bth.psn) ||
		   mw_invalidate(tp->c.sh.mrs, wire_get32(p->bthp + p->op->off_ieth), qp->pd, qp->qpn))) {
		journal_note_placed(qp, p->bth.psn);
		tp->counters.rx_invalidate_requests++;
		return true;
	}
	MARK("a peer invalidates a key that it may not");
	tp->counters.resp_invalidate_errors++;
	recv_fail(tp, qp, UROCE_WC_REM_INV_REQ_ERR, TP_VERR_MW);
	qp_error(tp, qp, -1, TP_BECAUSE(INVALIDATE, 0));
	return false;
}

static __rte_always_inline void
data_request(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags;
	uint8_t nak = 0, status, verr = TP_VERR_NONE;

	if (unlikely(f & WIRE_F_IETH) && !reads_answered(tp, qp))
		return;
	if ((f & WIRE_F_RQ) && unlikely(!recv_take(tp, qp))) {
		responder_not_ready(tp, qp);
		return;
	}
	if (f & WIRE_F_START)
		qp->rcv.length = 0;
	if (f & WIRE_F_SEND) {
		status = recv_place(tp, qp, p->payload, p->payload_bytes, &verr);
		if (unlikely(status == COPY_LATER))
			return;
		tp->counters.rx_send_requests += (f & WIRE_F_START) != 0;
		if (unlikely(status != 0))
			nak = receive_failed(tp, qp, status, verr);
		else if (unlikely(f & WIRE_F_IETH) && !invalidated(tp, qp, p))
			return;
	} else {
		nak = message_write(tp, qp, p);
	}
	if (unlikely(nak == COPY_LATER))
		return;
	if (unlikely(nak != 0)) {
		responder_refuse(tp, qp, nak, qp->rcv.epsn);
		return;
	}
	qp->rcv.length += p->payload_bytes;
	if (!(f & WIRE_F_END)) {
		qp->rcv.msg = f & WIRE_F_SEND ? TP_RMSG_SEND : TP_RMSG_WRITE;
		accepted(tp, qp, p);
		return;
	}
	qp->rcv.msg = TP_RMSG_NONE;
	if (f & WIRE_F_SEND)
		recv_complete(tp, qp, UROCE_WC_RECV, p);
	else if (f & WIRE_F_IMM)
		recv_complete(tp, qp, UROCE_WC_RECV_RDMA_WITH_IMM, p);
	/*
	 * The CQ had no room: the program will never learn of the message, so nobody may acknowledge it, not even on
	 * behalf of the QP when it is destroyed (time_wait.c).
	 */
	if (unlikely(qp->state == UROCE_QPS_ERR)) {
		MARK("the receive CQ overruns at the end of a message");
		return;
	}
	qp->rcv.msn = wire_psn_add(qp->rcv.msn, 1);
	qp->rcv.rx_bytes += qp->rcv.length;
	accepted(tp, qp, p);
}

/* Acknowledge again what was executed, but not beyond a READ or atomic whose response the peer may lack. */
static void
duplicate_data(struct transport *tp, struct qp *qp, uint32_t psn)
{
	uint32_t upto = wire_psn_add(qp->rcv.epsn, WIRE_PSN_MASK);
	bool limited = false;

	if (qp->resp.reply != TP_REPLY_NONE && qp->resp.reply != TP_REPLY_DUP_ACK) {
		MARK_IF(qp->resp.reply == TP_REPLY_RNR, "a duplicate arrives while an RNR NAK is owed");
		MARK_IF(qp->resp.reply == TP_REPLY_NAK_SEQ, "a duplicate arrives while a sequence NAK is owed");
		MARK_IF(qp->resp.reply == TP_REPLY_SACK, "a duplicate arrives while a SACK is owed");
		return;
	}
	for (uint32_t i = 0; i < qp->resp.res_max; i++) {
		const struct tp_res *r = &qp->resp.res[i];

		if (r->used && wire_psn_diff(r->psn, psn) > 0 && wire_psn_diff(r->psn, upto) <= 0) {
			upto = wire_psn_add(r->psn, WIRE_PSN_MASK);
			limited = true;
		}
	}
	MARK_IF(limited, "the ACK of a duplicate ends before a READ whose response the peer may lack");
	MARK_IF(qp->resp.reply == TP_REPLY_DUP_ACK, "a second duplicate arrives before the first is acknowledged");
	qp->resp.reply = limited ? TP_REPLY_DUP_ACK : TP_REPLY_ACK;
	qp->resp.reply_psn = upto;
	qp_reply_later(tp, qp);
}

static void
duplicate(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	struct tp_res *r;

	if (sack_offer_rx(tp, qp, p))
		return;
	tp->counters.duplicate_request++;
	if (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) {
		duplicate_data(tp, qp, p->bth.psn);
		return;
	}
	if (p->op->flags & WIRE_F_READ) {
		if (!responder_read_again(tp, qp, p)) {
			MARK("a duplicate READ can't be answered");
			tp->counters.rx_duplicate_dropped++;
			return;
		}
	} else {
		r = responder_res_find(qp, p->bth.psn);
		if (r == NULL || !(p->op->flags & WIRE_F_ATOMIC ? r->atomic : r->placed)) {
			MARK("the result of a duplicate atomic is no longer there");
			tp->counters.rx_duplicate_dropped++;
			return;
		}
		MARK_IF((qp->resp.pending >> (r - qp->resp.res) & 1) != 0, "an atomic is asked for again before its result was sent");
		MARK_IF(wire_psn_diff(p->bth.psn, qp->rcv.epsn) < 0 && p->bth.psn > qp->rcv.epsn, "a result is replayed after the PSNs have wrapped");
		r->replay |= (qp->resp.pending >> (r - qp->resp.res) & 1) == 0;
		qp->resp.pending |= UINT64_C(1) << (r - qp->resp.res);
	}
	qp_reply_later(tp, qp);
}

/*
 * A request beyond a gap: hold it if the peer understands SACKs, but not while the peer waits for its RNR timer to end.
 */
static void
beyond_gap(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	MARK_IF(qp->rcv.sack_on && qp->rcv.nak_state == TP_NAK_RNR_SENT, "a packet beyond a gap arrives while the peer waits for its RNR timer");
	if (qp->rcv.sack_on && qp->rcv.nak_state != TP_NAK_RNR_SENT && sack_hold(tp, qp, p))
		tp->counters.out_of_sequence++;
	else
		responder_out_of_sequence(tp, qp, p->bth.psn);
}

static __rte_always_inline void
execute(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (unlikely(qp->prefix != WIRE_RC) && !xrc_admit(tp, qp, p))
		return;
	if (unlikely(!message_continues(qp, p)))
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
	else if (likely(p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)))
		data_request(tp, qp, p);
	else if (p->op->flags & WIRE_F_READ)
		responder_read(tp, qp, p);
	else if (p->op->flags & WIRE_F_ATOMIC)
		responder_atomic(tp, qp, p);
	else if (WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_ATOMIC_WRITE)
		responder_atomic_write(tp, qp, p);
	else if (WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_FLUSH)
		responder_flush(tp, qp, p);
	else
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
}

static __rte_noinline void
execute_held(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	execute(tp, qp, p);
}

void
responder_drain(struct transport *tp, struct qp *qp)
{
	for (;;) {
		const struct wire_pkt *p = reorder_next(tp, qp);
		uint32_t psn = qp->rcv.epsn;

		if (qp->rcv.reorder == NULL)
			return;
		if (p == NULL)
			break;
		/* It stays held while it is executed; nothing else is added to the buffer meanwhile. */
		copy_execute(qp, p);
		execute_held(tp, qp, p);
		/* The QP has gone to ERR. */
		if (qp->rcv.reorder == NULL) {
			MARK("a QP fails while it executes packets it held");
			return;
		}
		/* It is executed again from here when its copy is done. */
		if (unlikely(copy_stalled(qp))) {
			qp->copy->in_reorder = true;
			copy_waits(qp, p);
			break;
		}
		copy_executed(tp, qp);
		if (qp->rcv.epsn == psn) {
			/* It could not be executed now; the peer will resend it. */
			MARK("a packet that was held finds no receive");
			reorder_drop(tp, qp, psn);
			break;
		}
	}
	sack_later(tp, qp);
}

void
responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	int32_t beyond = wire_psn_diff(p->bth.psn, qp->rcv.epsn);

	if (unlikely(beyond != 0)) {
		if (beyond > 0)
			beyond_gap(tp, qp, p);
		else
			duplicate(tp, qp, p);
		return;
	}
	execute(tp, qp, p);
	if (unlikely(qp->rcv.reorder != NULL) && !copy_stalled(qp)) {
		copy_executed(tp, qp);
		responder_drain(tp, qp);
	}
	if (unlikely(!tp->c.ports[qp->path.port].features.ack_coalescing) && qp->resp.reply == TP_REPLY_ACK &&
	    qp->resp.pending == 0)
		responder_run(tp, qp, tp->c.limits.qp_budget);
}
