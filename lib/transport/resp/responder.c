/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder of RC QPs: admits requests in PSN order, executes SEND and WRITE.
 */
#include "transport/req/selective.h"

/* ---- NAKs ---- */
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

static void
out_of_sequence(struct transport *tp, struct qp *qp, uint32_t psn)
{
	tp->counters.out_of_sequence++;
	if (qp->rcv.nak_state == TP_NAK_NONE || wire_psn_diff(psn, qp->rcv.psn_dropped) > 0)
		qp->rcv.psn_dropped = psn;
	/* Once per gap; and not while the peer waits for the end of an RNR timer (hfi1 does the same). */
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
		qp->rcv.nak_state = TP_NAK_SEQ_SENT;
		qp->resp.reply = TP_REPLY_NAK_SEQ;
		return true;
	}
	qp->rcv.nak_state = TP_NAK_NONE;
	/* It stood for an ACK that may be owed. */
	if (unsent)
		qp->resp.reply = TP_REPLY_ACK;
	return false;
}

/* The expected packet came and was executed. */
static inline void
accepted(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	qp->rcv.epsn = wire_psn_add(qp->rcv.epsn, 1);
	if (unlikely(qp->rcv.nak_state != TP_NAK_NONE) && responder_gap_remains(qp))
		return;
	if (p->bth.ackreq) {
		qp->resp.reply = TP_REPLY_ACK;
		qp_reply_later(tp, qp);
	}
}

/* ---- SEND and WRITE; parts are shared with UC ---- */
/* Is this packet the next of a message, and is its payload as long as its place in the message wants? (9.6.1.1.2) */
bool
responder_shape_ok(const struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags, mtu = UINT32_C(1) << qp->path.mtu_shift;

	if (qp->rcv.msg == TP_RMSG_NONE) {
		if (!(f & WIRE_F_START))
			return false;
	} else if ((f & WIRE_F_START) || !(f & (qp->rcv.msg == TP_RMSG_SEND ? WIRE_F_SEND : WIRE_F_WRITE))) {
		return false;
	}
	if (!(f & (WIRE_F_SEND | WIRE_F_WRITE)))
		return true;
	if (!(f & WIRE_F_END))
		return p->payload_bytes == mtu && p->bth.pad == 0;
	return p->payload_bytes <= mtu && ((f & WIRE_F_START) || p->payload_bytes > 0);
}

/* RETH of the first packet. @return false: its length can't be. */
bool
responder_write_begin(struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;

	qp->rcv.va = wire_get64(reth);
	qp->rcv.rkey = wire_get32(reth + 8);
	qp->rcv.left = wire_get32(reth + 12);
	return qp->rcv.left <= UROCE_MAX_MSG_BYTES;
}

bool
responder_write_allowed(struct transport *tp, struct qp *qp)
{
	uint64_t va = qp->rcv.va;

	/* C9-88: with length 0 the key isn't looked at. */
	if (qp->rcv.left == 0)
		return true;
	return (qp->access & UROCE_ACCESS_REMOTE_WRITE) &&
	       key_opens(tp, qp, qp->rcv.rkey, UROCE_ACCESS_REMOTE_WRITE, &va, qp->rcv.left) != NULL;
}

/* The key is looked up for each packet: it may have gone stale since the first. */
bool
responder_write_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint64_t va = qp->rcv.va;
	struct mr *mr;

	if (p->payload_bytes == 0)
		return true;
	mr = key_opens(tp, qp, qp->rcv.rkey, UROCE_ACCESS_REMOTE_WRITE, &va, p->payload_bytes);
	if (unlikely(mr == NULL || mr_write(mr, va, p->payload, p->payload_bytes) != 0))
		return false;
	qp->rcv.va += p->payload_bytes;
	qp->rcv.left -= p->payload_bytes;
	return true;
}

/* @return 0 or the NAK. */
static uint8_t
write_packet(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags;

	if (f & WIRE_F_START) {
		tp->counters.rx_write_requests++;
		if (!responder_write_begin(qp, p))
			return WIRE_NAK_INV_REQ;
	}
	/* 9.6.1.1.3: the payloads add up to the RETH's length, and the last packet isn't one too many. */
	if (f & WIRE_F_END ? p->payload_bytes != qp->rcv.left : p->payload_bytes >= qp->rcv.left)
		return WIRE_NAK_INV_REQ;
	if ((f & WIRE_F_START) && !responder_write_allowed(tp, qp))
		return WIRE_NAK_REM_ACCESS;
	return responder_write_place(tp, qp, p) ? 0 : WIRE_NAK_REM_ACCESS;
}

/* A SEND packet that doesn't fit or can't be stored: the receiver's own WQE fails too. @return the NAK. */
static uint8_t
receive_failed(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr)
{
	if (status == UROCE_WC_LOC_LEN_ERR)
		tp->counters.resp_local_length_error++;
	recv_fail(tp, qp, status, verr);
	return status == UROCE_WC_LOC_LEN_ERR ? WIRE_NAK_INV_REQ : WIRE_NAK_REM_OP;
}

/*
 * SEND_WITH_INV comes after everything that the peer asked for before it (9.4.1.1.3): READs whose responses are still
 * to be made would find the key gone. (If one gets lost on its way it is too late: a program that wants to be sure
 * fences.)
 * @return false: they can't be sent now, the packet is as good as lost.
 */
static bool
reads_answered(struct transport *tp, struct qp *qp)
{
	if (qp->resp.pending != 0)
		responder_run(tp, qp, TP_TX_MAX);
	if (qp->resp.pending != 0)
		out_of_sequence(tp, qp, qp->rcv.epsn);
	return qp->resp.pending == 0 && qp->state != UROCE_QPS_ERR;
}

/*
 * Invalidate what the IETH names. A failure is of class J (9.9.3; so Linux rxe_resp.c): the peer is told nothing, the
 * receive completes in error, the QP goes to ERR.
 */
static bool
invalidated(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (likely(mw_invalidate(tp->c.sh.mrs, wire_get32(p->bthp + p->op->off_ieth), qp->pd, qp->qpn))) {
		tp->counters.rx_invalidate_requests++;
		return true;
	}
	tp->counters.resp_invalidate_errors++;
	recv_fail(tp, qp, UROCE_WC_REM_INV_REQ_ERR, TP_VERR_MW);
	qp_error(tp, qp, -1, TP_BECAUSE(INVALIDATE, 0));
	return false;
}

static void
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
		tp->counters.rx_send_requests += (f & WIRE_F_START) != 0;
		status = recv_place(tp, qp, p->payload, p->payload_bytes, &verr);
		if (unlikely(status != 0))
			nak = receive_failed(tp, qp, status, verr);
		else if (unlikely(f & WIRE_F_IETH) && !invalidated(tp, qp, p))
			return;
	} else {
		nak = write_packet(tp, qp, p);
	}
	if (unlikely(nak != 0)) {
		responder_refuse(tp, qp, nak, qp->rcv.epsn);
		return;
	}
	qp->rcv.length += p->payload_bytes;
	accepted(tp, qp, p);
	if (!(f & WIRE_F_END)) {
		qp->rcv.msg = f & WIRE_F_SEND ? TP_RMSG_SEND : TP_RMSG_WRITE;
		return;
	}
	qp->rcv.msg = TP_RMSG_NONE;
	qp->rcv.msn = wire_psn_add(qp->rcv.msn, 1);
	if (f & WIRE_F_SEND)
		recv_complete(tp, qp, UROCE_WC_RECV, p);
	else if (f & WIRE_F_IMM)
		recv_complete(tp, qp, UROCE_WC_RECV_RDMA_WITH_IMM, p);
}

/* Acknowledge again what has been executed, but not beyond a READ or atomic whose response the peer may lack. */
static void
duplicate_data(struct transport *tp, struct qp *qp, uint32_t psn)
{
	uint32_t upto = wire_psn_add(qp->rcv.epsn, WIRE_PSN_MASK);
	bool limited = false;

	if (qp->resp.reply != TP_REPLY_NONE && qp->resp.reply != TP_REPLY_DUP_ACK)
		return;
	for (uint32_t i = 0; i < qp->resp.res_max; i++) {
		const struct tp_res *r = &qp->resp.res[i];

		if (r->used && wire_psn_diff(r->psn, psn) > 0 && wire_psn_diff(r->psn, upto) <= 0) {
			upto = wire_psn_add(r->psn, WIRE_PSN_MASK);
			limited = true;
		}
	}
	qp->resp.reply = limited ? TP_REPLY_DUP_ACK : TP_REPLY_ACK;
	qp->resp.reply_psn = upto;
	qp_reply_later(tp, qp);
}

static void
duplicate(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	struct tp_res *r;

	if (selective_offer_rx(tp, qp, p))
		return;
	tp->counters.duplicate_request++;
	if (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) {
		duplicate_data(tp, qp, p->bth.psn);
		return;
	}
	if (p->op->flags & WIRE_F_READ) {
		if (!responder_read_again(tp, qp, p)) {
			tp->counters.rx_duplicate_dropped++;
			return;
		}
	} else {
		r = responder_res_find(qp, p->bth.psn);
		if (r == NULL || !(p->op->flags & WIRE_F_ATOMIC ? r->atomic : r->placed)) {
			tp->counters.rx_duplicate_dropped++;
			return;
		}
		r->replay |= (qp->resp.pending >> (r - qp->resp.res) & 1) == 0;
		qp->resp.pending |= UINT64_C(1) << (r - qp->resp.res);
	}
	qp_reply_later(tp, qp);
}

/* Held if the peer understands that; not while it waits for the end of an RNR timer. */
static void
beyond_gap(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (qp->rcv.sack_on && qp->rcv.nak_state != TP_NAK_RNR_SENT && selective_hold(tp, qp, p))
		tp->counters.out_of_sequence++;
	else
		out_of_sequence(tp, qp, p->bth.psn);
}

static __rte_always_inline void
execute(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (unlikely(qp->prefix != WIRE_RC) && !xrc_admit(tp, qp, p))
		return;
	if (unlikely(!responder_shape_ok(qp, p)))
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

__rte_noinline void
responder_execute(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	execute(tp, qp, p);
}

void
responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	int32_t ahead = wire_psn_diff(p->bth.psn, qp->rcv.epsn);

	if (unlikely(ahead != 0)) {
		if (ahead > 0)
			beyond_gap(tp, qp, p);
		else
			duplicate(tp, qp, p);
		return;
	}
	execute(tp, qp, p);
	if (unlikely(qp->rcv.reorder != NULL))
		selective_drain(tp, qp);
}
