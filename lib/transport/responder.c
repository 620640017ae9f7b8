/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder of RC QPs: executes requests in PSN order, remembers READs and atomics, answers.
 */
#include "cc.h"
#include "tp_internal.h"

/* ---- NAKs ---- */
/* Refuse a request for good (class C errors, 9.9.3): NAK with its PSN, QP to ERR. */
static void
refuse(struct transport *tp, struct qp *qp, uint8_t syndrome, uint32_t psn)
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
	qp->reply = TP_REPLY_FATAL;
	qp->reply_syndrome = syndrome;
	qp->reply_psn = psn;
	qp_error(tp, qp, event);
	qp_reply_later(tp, qp);
}

static void
out_of_sequence(struct transport *tp, struct qp *qp, uint32_t psn)
{
	tp->counters.out_of_sequence++;
	if (qp->told == TP_TOLD_NOTHING || wire_psn_diff(psn, qp->psn_dropped) > 0)
		qp->psn_dropped = psn;
	/* Once per gap; and not while the peer waits for the end of an RNR timer (hfi1 does the same). */
	if (qp->told != TP_TOLD_NOTHING)
		return;
	qp->told = TP_TOLD_SEQ;
	qp->reply = TP_REPLY_NAK_SEQ;
	qp_reply_later(tp, qp);
}

static void
not_ready(struct transport *tp, struct qp *qp)
{
	if (qp->told == TP_TOLD_NOTHING)
		qp->psn_dropped = qp->epsn;
	qp->told = TP_TOLD_RNR;
	qp->reply = TP_REPLY_RNR;
	qp_reply_later(tp, qp);
}

/*
 * epsn has moved, after something beyond it was dropped or refused. If the NAK still waits to be sent it now asks for what comes
 * next, provided that was dropped: the peer has no other way to know. @return true if so.
 */
static bool
gap_remains(struct qp *qp)
{
	bool unsent = qp->reply == TP_REPLY_NAK_SEQ || qp->reply == TP_REPLY_RNR;

	if (unsent && wire_psn_diff(qp->psn_dropped, qp->epsn) >= 0) {
		qp->told = TP_TOLD_SEQ;
		qp->reply = TP_REPLY_NAK_SEQ;
		return true;
	}
	qp->told = TP_TOLD_NOTHING;
	/* It stood for an ACK that may be owed. */
	if (unsent)
		qp->reply = TP_REPLY_ACK;
	return false;
}

/* The expected packet came and was executed. */
static inline void
accepted(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	qp->epsn = wire_psn_add(qp->epsn, 1);
	if (unlikely(qp->told != TP_TOLD_NOTHING) && gap_remains(qp))
		return;
	if (p->bth.ackreq) {
		qp->reply = TP_REPLY_ACK;
		qp_reply_later(tp, qp);
	}
}

/* What a peer's key opens to it. @p va becomes the address in that MR. */
static inline struct mr *
key_opens(struct transport *tp, const struct qp *qp, uint32_t rkey, uint32_t access, uint64_t *va, uint32_t len)
{
	return mr_check_remote(tp->c.mrs, rkey, qp->pd, qp->qpn, access, va, len);
}

/* ---- SEND and WRITE; parts are shared with UC ---- */
/* Is this packet the next of a message, and is its payload as long as its place in the message wants? (9.6.1.1.2) */
bool
responder_shape_ok(const struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags, mtu = UINT32_C(1) << qp->mtu_shift;

	if (qp->rmsg == TP_RMSG_NONE) {
		if (!(f & WIRE_F_START))
			return false;
	} else if ((f & WIRE_F_START) || !(f & (qp->rmsg == TP_RMSG_SEND ? WIRE_F_SEND : WIRE_F_WRITE))) {
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

	qp->r_va = wire_get64(reth);
	qp->r_rkey = wire_get32(reth + 8);
	qp->r_left = wire_get32(reth + 12);
	return qp->r_left <= UROCE_MAX_MSG_BYTES;
}

bool
responder_write_allowed(struct transport *tp, struct qp *qp)
{
	uint64_t va = qp->r_va;

	/* C9-88: with length 0 the key isn't looked at. */
	if (qp->r_left == 0)
		return true;
	return (qp->access & UROCE_ACCESS_REMOTE_WRITE) &&
	       key_opens(tp, qp, qp->r_rkey, UROCE_ACCESS_REMOTE_WRITE, &va, qp->r_left) != NULL;
}

/* The key is looked up for each packet: it may have gone stale since the first. */
bool
responder_write_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint64_t va = qp->r_va;
	struct mr *mr;

	if (p->payload_bytes == 0)
		return true;
	mr = key_opens(tp, qp, qp->r_rkey, UROCE_ACCESS_REMOTE_WRITE, &va, p->payload_bytes);
	if (unlikely(mr == NULL || mr_write(mr, va, p->payload, p->payload_bytes) != 0))
		return false;
	qp->r_va += p->payload_bytes;
	qp->r_left -= p->payload_bytes;
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
	if (f & WIRE_F_END ? p->payload_bytes != qp->r_left : p->payload_bytes >= qp->r_left)
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
	if (qp->res_pending != 0)
		responder_run(tp, qp, TP_TX_MAX);
	if (qp->res_pending != 0)
		out_of_sequence(tp, qp, qp->epsn);
	return qp->res_pending == 0 && qp->state != UROCE_QPS_ERR;
}

/*
 * Invalidate what the IETH names. A failure is of class J (9.9.3; so Linux rxe_resp.c): the peer is told nothing, the
 * receive completes in error, the QP goes to ERR.
 */
static bool
invalidated(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (likely(mw_invalidate(tp->c.mrs, wire_get32(p->bthp + p->op->off_ieth), qp->pd, qp->qpn))) {
		tp->counters.rx_invalidate_requests++;
		return true;
	}
	tp->counters.resp_invalidate_errors++;
	recv_fail(tp, qp, UROCE_WC_REM_INV_REQ_ERR, TP_VERR_MW);
	qp_error(tp, qp, -1);
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
		not_ready(tp, qp);
		return;
	}
	if (f & WIRE_F_START)
		qp->r_length = 0;
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
		refuse(tp, qp, nak, qp->epsn);
		return;
	}
	qp->r_length += p->payload_bytes;
	accepted(tp, qp, p);
	if (!(f & WIRE_F_END)) {
		qp->rmsg = f & WIRE_F_SEND ? TP_RMSG_SEND : TP_RMSG_WRITE;
		return;
	}
	qp->rmsg = TP_RMSG_NONE;
	qp->msn = wire_psn_add(qp->msn, 1);
	if (f & WIRE_F_SEND)
		recv_complete(tp, qp, UROCE_WC_RECV, p);
	else if (f & WIRE_F_IMM)
		recv_complete(tp, qp, UROCE_WC_RECV_RDMA_WITH_IMM, p);
}

/* ---- READ and atomics ---- */
/* The slot for a new READ or atomic: the oldest. @return NULL: the peer has more outstanding than it may (C9-95). */
static struct tp_res *
res_claim(struct transport *tp, struct qp *qp)
{
	struct tp_res *r;

	if (unlikely(qp->res_max == 0))
		return NULL;
	r = &qp->res[qp->res_head];
	/* A replay that wasn't sent yet gives way: the peer can't be waiting for it and send this too. */
	if (unlikely((qp->res_pending >> qp->res_head & 1) && !r->replay)) {
		tp->counters.resp_rd_atomic_exceeded++;
		return NULL;
	}
	return r;
}

static void
res_accept(struct transport *tp, struct qp *qp, struct tp_res *r, uint32_t packets)
{
	r->used = true;
	r->replay = false;
	r->psn = qp->epsn;
	r->last_psn = wire_psn_add(qp->epsn, packets - 1);
	r->first = r->psn;
	r->cur = r->psn;
	qp->res_pending |= UINT64_C(1) << qp->res_head;
	qp->res_head = qp->res_head + 1 == qp->res_max ? 0 : qp->res_head + 1;
	qp->epsn = wire_psn_add(r->last_psn, 1);
	/* The response acknowledges everything before it too (9.7.5.1.2). */
	if (likely(qp->told == TP_TOLD_NOTHING) || !gap_remains(qp))
		qp->reply = TP_REPLY_NONE;
	/* C9-148: once, when accepted. */
	qp->msn = wire_psn_add(qp->msn, 1);
	qp_reply_later(tp, qp);
}

static void
read_request(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	uint64_t va = wire_get64(reth), at = va;
	uint32_t rkey = wire_get32(reth + 8), length = wire_get32(reth + 12);
	struct tp_res *r = res_claim(tp, qp);

	tp->counters.rx_read_requests++;
	if (r == NULL || length > UROCE_MAX_MSG_BYTES) {
		refuse(tp, qp, WIRE_NAK_INV_REQ, qp->epsn);
		return;
	}
	if (length > 0 && (!(qp->access & UROCE_ACCESS_REMOTE_READ) ||
			   key_opens(tp, qp, rkey, UROCE_ACCESS_REMOTE_READ, &at, length) == NULL)) {
		refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->epsn);
		return;
	}
	r->va = va;
	r->rkey = rkey;
	r->length = length;
	r->atomic = false;
	r->placed = false;
	res_accept(tp, qp, r, wire_packets(length, qp->mtu_shift));
}

static void
atomic_request(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *eth = p->bthp + p->op->off_atomiceth;
	uint64_t va = wire_get64(eth), swap_add = wire_get64(eth + 12), compare = wire_get64(eth + 20);
	bool swap = WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_CMP_SWAP;
	uint32_t rkey = wire_get32(eth + 8);
	struct tp_res *r = res_claim(tp, qp);
	struct mr *mr = NULL;

	tp->counters.rx_atomic_requests++;
	if (r == NULL || (va & 7) != 0) {
		refuse(tp, qp, WIRE_NAK_INV_REQ, qp->epsn);
		return;
	}
	if (qp->access & UROCE_ACCESS_REMOTE_ATOMIC)
		mr = key_opens(tp, qp, rkey, UROCE_ACCESS_REMOTE_ATOMIC, &va, sizeof(uint64_t));
	if (mr == NULL || mr_atomic(mr, va, swap ? MR_CMP_SWAP : MR_FETCH_ADD, swap ? compare : swap_add, swap_add,
				    &r->va) != 0) {
		refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->epsn);
		return;
	}
	r->atomic = true;
	r->placed = false;
	res_accept(tp, qp, r, 1);
}

/*
 * Annex A19: eight aligned bytes, stored at once, after everything before it; answered as a READ of nothing is, with
 * the resources of a READ. On mapped memory it is one store.
 */
static void
atomic_write_request(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	uint64_t va = wire_get64(reth);
	uint32_t rkey = wire_get32(reth + 8);
	struct tp_res *r = res_claim(tp, qp);
	struct mr *mr = NULL;

	tp->counters.rx_write_requests++;
	if (r == NULL || (va & 7) != 0 || wire_get32(reth + 12) != sizeof(uint64_t) ||
	    p->payload_bytes != sizeof(uint64_t)) {
		refuse(tp, qp, WIRE_NAK_INV_REQ, qp->epsn);
		return;
	}
	if (qp->access & UROCE_ACCESS_REMOTE_WRITE)
		mr = key_opens(tp, qp, rkey, UROCE_ACCESS_REMOTE_WRITE, &va, sizeof(uint64_t));
	if (mr == NULL || mr_write(mr, va, p->payload, sizeof(uint64_t)) != 0) {
		refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->epsn);
		return;
	}
	r->atomic = false;
	r->placed = true;
	r->length = 0;
	res_accept(tp, qp, r, 1);
}

/* ---- Duplicates (C9-105): nothing is executed twice, errors are never NAKed ---- */
static struct tp_res *
res_find(struct qp *qp, uint32_t psn)
{
	for (uint32_t i = 0; i < qp->res_max; i++) {
		struct tp_res *r = &qp->res[i];

		if (r->used && wire_psn_diff(psn, r->psn) >= 0 && wire_psn_diff(psn, r->last_psn) <= 0)
			return r;
	}
	return NULL;
}

/* Acknowledge again what has been executed, but not beyond a READ or atomic whose response the peer may lack. */
static void
duplicate_data(struct transport *tp, struct qp *qp, uint32_t psn)
{
	uint32_t upto = wire_psn_add(qp->epsn, WIRE_PSN_MASK);
	bool limited = false;

	if (qp->reply != TP_REPLY_NONE && qp->reply != TP_REPLY_DUP_ACK)
		return;
	for (uint32_t i = 0; i < qp->res_max; i++) {
		const struct tp_res *r = &qp->res[i];

		if (r->used && wire_psn_diff(r->psn, psn) > 0 && wire_psn_diff(r->psn, upto) <= 0) {
			upto = wire_psn_add(r->psn, WIRE_PSN_MASK);
			limited = true;
		}
	}
	qp->reply = limited ? TP_REPLY_DUP_ACK : TP_REPLY_ACK;
	qp->reply_psn = upto;
	qp_reply_later(tp, qp);
}

/* A READ again, of all or of the rest: its memory is read anew, its key checked anew (when the response is made). */
static bool
duplicate_read(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	struct tp_res *r = res_find(qp, p->bth.psn);
	uint64_t bit, off;

	if (r == NULL || r->atomic || r->placed)
		return false;
	off = (uint64_t)((p->bth.psn - r->psn) & WIRE_PSN_MASK) << qp->mtu_shift;
	if (wire_get64(reth) != r->va + off || wire_get32(reth + 8) != r->rkey ||
	    wire_get32(reth + 12) != r->length - off)
		return false;
	bit = UINT64_C(1) << (r - qp->res);
	/* What is still to be sent will answer it. */
	if ((qp->res_pending & bit) && wire_psn_diff(r->cur, p->bth.psn) <= 0)
		return true;
	/* Going back inside what was never answered to its end isn't a replay yet. */
	r->replay |= (qp->res_pending & bit) == 0;
	r->first = p->bth.psn;
	r->cur = p->bth.psn;
	qp->res_pending |= bit;
	return true;
}

static void
duplicate(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	struct tp_res *r;

	tp->counters.duplicate_request++;
	if (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) {
		duplicate_data(tp, qp, p->bth.psn);
		return;
	}
	if (p->op->flags & WIRE_F_READ) {
		if (!duplicate_read(tp, qp, p)) {
			tp->counters.rx_duplicate_dropped++;
			return;
		}
	} else {
		r = res_find(qp, p->bth.psn);
		if (r == NULL || !(p->op->flags & WIRE_F_ATOMIC ? r->atomic : r->placed)) {
			tp->counters.rx_duplicate_dropped++;
			return;
		}
		r->replay |= (qp->res_pending >> (r - qp->res) & 1) == 0;
		r->cur = r->psn;
		qp->res_pending |= UINT64_C(1) << (r - qp->res);
	}
	qp_reply_later(tp, qp);
}

void
responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	int32_t ahead = wire_psn_diff(p->bth.psn, qp->epsn);

	if (unlikely(ahead != 0)) {
		if (ahead > 0)
			out_of_sequence(tp, qp, p->bth.psn);
		else
			duplicate(tp, qp, p);
		return;
	}
	if (unlikely(!responder_shape_ok(qp, p)))
		refuse(tp, qp, WIRE_NAK_INV_REQ, qp->epsn);
	else if (likely(p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)))
		data_request(tp, qp, p);
	else if (p->op->flags & WIRE_F_READ)
		read_request(tp, qp, p);
	else if (p->op->flags & WIRE_F_ATOMIC)
		atomic_request(tp, qp, p);
	else if (WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_ATOMIC_WRITE)
		atomic_write_request(tp, qp, p);
	else
		refuse(tp, qp, WIRE_NAK_INV_REQ, qp->epsn);
}

/* ---- Answering ---- */
static inline struct wire_bth
response_bth(const struct qp *qp, uint8_t opcode, uint32_t psn)
{
	return (struct wire_bth){
		.opcode = opcode, .dqpn = qp->dest_qpn, .psn = psn, .pkey = qp->pkey, .migreq = true,
	};
}

/* One packet of a READ response. @return 1 if sent, 0: later, -1: the memory or its key is gone. */
static int
send_read_response(struct transport *tp, struct qp *qp, struct tp_res *r)
{
	uint32_t off = ((r->cur - r->psn) & WIRE_PSN_MASK) << qp->mtu_shift;
	uint32_t len = RTE_MIN(r->length - off, UINT32_C(1) << qp->mtu_shift);
	bool first = r->cur == r->first, last = r->cur == r->last_psn;
	uint8_t opcode = first ? (last ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST) :
			 last  ? WIRE_OP_READ_RESP_LAST :
				 WIRE_OP_READ_RESP_MIDDLE;
	struct wire_bth b = response_bth(qp, opcode, r->cur);
	struct tp_out o;
	struct mr *mr;

	if ((unlikely(qp->cc != NULL) && !cc_may_send(tp, qp)) || !tp_begin(tp, qp, opcode, &o))
		return 0;
	if (len > 0) {
		uint64_t va = r->va + off;

		mr = key_opens(tp, qp, r->rkey, UROCE_ACCESS_REMOTE_READ, &va, len);
		if (unlikely(mr == NULL || mr_read(mr, va, tp_payload(&o), len) != 0)) {
			tp_mbuf_put(tp, o.m);
			return -1;
		}
	}
	if (o.op->flags & WIRE_F_AETH)
		wire_put_aeth(o.bth + o.op->off_aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, qp->msn);
	tp_finish(tp, qp, &o, &b, len);
	if (unlikely(qp->cc != NULL))
		cc_sent(tp, qp->cc, o.m->data_len);
	r->cur = wire_psn_add(r->cur, 1);
	return 1;
}

static int
send_atomic_response(struct transport *tp, struct qp *qp, struct tp_res *r)
{
	struct wire_bth b = response_bth(qp, WIRE_OP_ATOMIC_ACK, r->psn);
	struct tp_out o;

	if (!tp_begin(tp, qp, WIRE_OP_ATOMIC_ACK, &o))
		return 0;
	wire_put_aeth(o.bth + o.op->off_aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, qp->msn);
	wire_put64(o.bth + o.op->off_atomicacketh, r->va);
	tp_finish(tp, qp, &o, &b, 0);
	r->cur = wire_psn_add(r->psn, 1);
	return 1;
}

static bool
send_reply(struct transport *tp, struct qp *qp)
{
	uint8_t syndrome = WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID;
	uint32_t psn = qp->epsn;
	struct wire_bth b;
	struct tp_out o;

	switch (qp->reply) {
	case TP_REPLY_ACK:
		psn = wire_psn_add(qp->epsn, WIRE_PSN_MASK);
		break;
	case TP_REPLY_DUP_ACK:
		psn = qp->reply_psn;
		break;
	case TP_REPLY_NAK_SEQ:
		syndrome = WIRE_NAK_PSN_SEQ;
		break;
	case TP_REPLY_RNR:
		syndrome = WIRE_AETH_RNR_NAK | qp->min_rnr_timer;
		break;
	default:
		syndrome = qp->reply_syndrome;
		psn = qp->reply_psn;
		break;
	}
	if (!tp_begin(tp, qp, WIRE_OP_ACK, &o))
		return false;
	b = response_bth(qp, WIRE_OP_ACK, psn);
	wire_put_aeth(o.bth + o.op->off_aeth, syndrome, qp->msn);
	tp_finish(tp, qp, &o, &b, 0);
	tp->counters.acks_sent++;
	tp->counters.rnr_nak_sent += qp->reply == TP_REPLY_RNR;
	qp->reply = TP_REPLY_NONE;
	return true;
}

/* Of the responses to be sent, the one whose request came first. */
static inline uint32_t
oldest_pending(const struct qp *qp)
{
	uint64_t later = qp->res_pending & ~((UINT64_C(1) << qp->res_head) - 1);

	return (uint32_t)__builtin_ctzll(later != 0 ? later : qp->res_pending);
}

uint32_t
responder_run(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0;

	while (qp->res_pending != 0 && work < budget) {
		uint32_t i = oldest_pending(qp);
		struct tp_res *r = &qp->res[i];
		int rc = r->atomic ? send_atomic_response(tp, qp, r) : send_read_response(tp, qp, r);

		if (rc == 0)
			return work;
		if (rc > 0 && wire_psn_diff(r->cur, r->last_psn) <= 0) {
			work++;
			continue;
		}
		qp->res_pending &= ~(UINT64_C(1) << i);
		work++;
		/* A first execution whose memory went away is refused where it stands; a replay is just dropped. */
		if (rc < 0 && r->replay)
			tp->counters.rx_duplicate_dropped++;
		else if (rc < 0 && qp->state != UROCE_QPS_ERR) {
			qp->res_pending = 0;
			refuse(tp, qp, WIRE_NAK_REM_ACCESS, r->cur);
		}
	}
	if (qp->res_pending == 0 && qp->reply != TP_REPLY_NONE && work < budget)
		work += send_reply(tp, qp);
	return work;
}
