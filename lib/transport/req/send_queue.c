/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: the table of opcodes, fetching posted WQEs from the SQ and checking them, and the blocks for WQEs in
 * flight.
 */
#include "base/mark.h"
#include "transport/core/share_priv.h"
#include "transport/core/slot_priv.h"
#include "transport/req/send_queue_priv.h"

#define SVC(s) (1 << (WIRE_##s >> 5))

/* The services of an opcode from the QP types that have it; XRC follows RC's rules. */
#define SERVICES(types) ((types) & 1u << UROCE_QPT_RC ? SVC(RC) : 0) | ((types) & 1u << UROCE_QPT_UC ? SVC(UC) : 0) | \
	((types) & 1u << UROCE_QPT_UD ? SVC(UD) : 0)
#define WR_WIRE(first, middle, last, only) WIRE_OP_##first, WIRE_OP_##middle, WIRE_OP_##last, WIRE_OP_##only
#define WR_WIRE_ONE(op) WR_WIRE(op, op, op, op)
#define WR_WIRE_NONE 0, 0, 0, 0
#define REQ_OP(name, number, types, kind, operands, can_inline, recvs, wc, wire) \
	[number] = { SERVICES(types), UROCE_WC_##wc, TP_REQ_##kind, wire, recvs },
const struct tp_req_op tp_req_ops[UROCE_WR_OPS] = { WR_OP_TABLE(REQ_OP) };

enum { ATOMIC_BYTES = 8 };

/* ---- Fetching ---- */
/*
 * Check the SGEs of a message that has several packets or a response, so that a bad one is found before anything is
 * sent.
 */
static inline void
check_sge(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sge *sge, uint32_t access)
{
	struct ring_sge s = wqe_get_sge(sge);

	if (s.length != 0 && unlikely(mr_check(tp->c.sh.mrs, s.lkey, qp->pd, access, s.addr, s.length) == NULL))
		wqe_error(w, UROCE_WC_LOC_PROT_ERR, lkey_verr(tp, s.lkey, qp->pd, s.addr, s.length));
}

static inline void
check_sges(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sge *sge, uint32_t access)
{
	if (likely(w->nb_sge == 1))
		check_sge(tp, qp, w, sge, access);
	else
		for (uint32_t i = 0; i < w->nb_sge && w->status == 0; i++)
			check_sge(tp, qp, w, &sge[i], access);
}

/* Check a FLUSH, which has operands but no data. @return as check_wqe(). */
static uint8_t
check_flush(struct tp_swqe *w, const struct ring_sq_wqe *slot, uint16_t count)
{
	struct ring_flush f = wqe_get_flush(slot);

	if (count != 0 || (w->flags & UROCE_SEND_INLINE))
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
	if (f.type == 0 || (f.type & ~UROCE_FLUSH_TYPES) != 0 || f.level > UROCE_FLUSH_MR)
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_FLUSH);
	if (f.length > UROCE_MAX_MSG_BYTES)
		return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
	return 0;
}

/* Check everything but the SGEs' keys. @return 0, or the status with which the WQE completes once it is the oldest. */
static uint8_t
check_wqe(const struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot, const struct ring_sge *sge, uint16_t count)
{
	const struct tp_req_op *op;
	uint64_t length = 0;

	if (w->opcode >= UROCE_WR_OPS || (tp_req_ops[w->opcode].services & 1 << (qp->service >> 5)) == 0)
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_OPCODE);
	op = &tp_req_ops[w->opcode];
	/* A local operation has neither data nor PSNs. */
	if (unlikely(op->kind == TP_REQ_LOCAL))
		return count == 0 ? 0 : wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
	/* With max_rd_atomic 0 no READ or atomic may ever be outstanding, so this one could never be sent. */
	if (unlikely(op->kind != TP_REQ_DATA && qp->req.max_rd == 0))
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_NO_RD_ATOMIC);
	if (w->flags & UROCE_SEND_INLINE) {
		if ((op->kind != TP_REQ_DATA && op->kind != TP_REQ_PLACE) || count > qp->req.max_inline)
			return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
		w->length = count;
	} else {
		if (count > qp->req.max_send_sge)
			return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
		w->nb_sge = (uint8_t)count;
		if (likely(count == 1))
			length = wqe_get_sge_length(sge);
		else
			for (uint32_t i = 0; i < count; i++)
				length += wqe_get_sge_length(&sge[i]);
		if (length > UROCE_MAX_MSG_BYTES)
			return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
		w->length = (uint32_t)length;
	}
	if (unlikely(op->kind == TP_REQ_ATOMIC || op->kind == TP_REQ_PLACE)) {
		if (w->opcode == UROCE_WR_FLUSH)
			return check_flush(w, slot, count);
		if (w->length != ATOMIC_BYTES)
			return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
	}
	if (qp->service == WIRE_UD && w->length > UINT32_C(1) << qp->path.mtu_shift)
		return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
	return 0;
}

/* Give a busy QP, whose own room for WQEs in flight is full, a block if one is left. */
static bool
inflight_borrow(struct transport *tp, struct qp *qp)
{
	struct tp_swqe *big;

	if (qp->req.inflight != qp->own_inflight || UINT32_C(1) << qp->req.sq.order <= TP_INFLIGHT_OWN ||
	    (big = share_take(tp, qp, TP_POOL_INFLIGHT, &tp->inflight_blocks)) == NULL)
		return false;
	for (uint32_t c = qp->req.sq_tail; c != qp->req.sq.counter; c++)
		big[c & (TP_INFLIGHT_MAX - 1)] = *qp_inflight(qp, c);
	qp->req.inflight = big;
	qp->req.inflight_mask = TP_INFLIGHT_MAX - 1;
	return true;
}

void
inflight_return(struct transport *tp, struct qp *qp)
{
	if (qp->req.inflight == qp->own_inflight || qp->req.sq_tail != qp->req.sq.counter)
		return;
	share_give(tp, qp, TP_POOL_INFLIGHT, &tp->inflight_blocks, qp->req.inflight);
	qp->req.inflight = qp->own_inflight;
	qp->req.inflight_mask = TP_INFLIGHT_OWN - 1;
}

bool
sq_fetch(struct transport *tp, struct qp *qp)
{
	struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq.counter);
	union ring_sq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_acquire) };
	const struct ring_sge *sge = wqe_sges(slot, ctl.opcode);
	struct tp_swqe *w;
	uint32_t packets = 1;

	if (ctl.phase != ring_phase(qp->req.sq.counter, qp->req.sq.order))
		return false;
	if (unlikely(qp->req.sq.counter - qp->req.sq_tail > qp->req.inflight_mask) && !inflight_borrow(tp, qp)) {
		MARK("a QP waits for room for a WQE in flight");
		qp->req.wait = REQ_WAIT_INFLIGHT;
		return false;
	}
	UROCE_ASSERT(qp->req.sq.counter - qp->req.sq_tail <= qp->req.inflight_mask);
	w = qp_inflight(qp, qp->req.sq.counter);
	w->wr_id = slot->wr_id;
	w->opcode = ctl.opcode;
	w->flags = ctl.flags;
	w->nb_sge = 0;
	w->length = 0;
	w->status = 0;
	w->verr = 0;
	if (likely(check_wqe(qp, w, slot, sge, ctl.count) == 0)) {
		uint8_t kind = tp_req_ops[w->opcode].kind;
		bool answered;

		if (unlikely(kind == TP_REQ_LOCAL))
			packets = 0;
		else if (kind != TP_REQ_ATOMIC)
			packets = wire_packets(w->length, qp->path.mtu_shift);
		/* PSNs don't depend on it: keys may be gone when the WQE is fetched again. */
		answered = kind == TP_REQ_READ || kind == TP_REQ_ATOMIC;
		if (answered || packets > 1)
			check_sges(tp, qp, w, sge, answered ? UROCE_ACCESS_LOCAL_WRITE : 0);
	}
	w->first_psn = qp->req.psn_next;
	w->last_psn = wire_psn_add(w->first_psn, packets - 1);
	qp->req.psn_next = wire_psn_add(w->last_psn, 1);
	if (likely(w->status == 0))
		qp->req.recvs_next += swqe_recvs(w);
	w->recvs = qp->req.recvs_next;
	qp->req.sq.counter++;
	rte_prefetch0(ring_slot(&qp->req.sq, qp->req.sq.counter));
	return true;
}

bool
sq_fetch_again(struct transport *tp, struct qp *qp)
{
	struct tp_swqe *w = qp_inflight(qp, qp->req.sq.counter);

	if (!sq_fetch(tp, qp))
		return false;
	if (w->status == UROCE_WC_LOC_PROT_ERR && wire_psn_diff(w->first_psn, qp->req.psn_max) < 0)
		w->status = w->verr = 0;
	return true;
}

void
sq_unfetch(struct qp *qp)
{
	while (qp->req.sq.counter != qp->req.sq_tail) {
		struct tp_swqe *w = qp_inflight(qp, qp->req.sq.counter - 1);

		if (wire_psn_diff(w->first_psn, qp->req.psn_max) < 0)
			return;
		MARK("SQD gives back a WQE that was fetched");
		qp->req.sq.counter--;
		qp->req.psn_next = w->first_psn;
		/*
		 * A WQE's own receives were counted only if it was good when fetched, so restore the sum of the WQE
		 * before it.
		 */
		qp->req.recvs_next = qp->req.sq.counter == qp->req.sq_tail ? qp->req.recvs_done :
								 qp_inflight(qp, qp->req.sq.counter - 1)->recvs;
	}
}
