/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The bytes of a posted work request: in the memory that its SGEs name, or inline in its slot. SGEs and keys are read
 * from the slot and checked at each use, so a client that rewrites a posted slot can change only its own message.
 * Called on the QP's engine.
 */
#ifndef UROCE_REQ_SGE_H
#define UROCE_REQ_SGE_H

#include "transport/req/send_queue_priv.h"

struct tp_out;

/**
 * @return where @p len bytes at @p off of the message are, if the WQE, which is in @p slot, has one SGE and its region is mapped in one piece; NULL: it isn't
 * so, or access is refused. @p access: as of mr_check().
 */
static inline uint8_t *
sq_mapped(struct transport *tp, const struct qp *qp, const struct tp_swqe *w, const struct ring_sq_wqe *slot, uint32_t off, uint32_t len, uint32_t access)
{
	struct ring_sge s;
	struct mr *mr;

	if (unlikely(w->nb_sge != 1))
		return NULL;
	s = wqe_get_sge(wqe_sges(slot, w->opcode));
	if (unlikely((uint64_t)off + len > s.length))
		return NULL;
	mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, access, s.addr + off, len);
	return likely(mr != NULL && mr->host != NULL) ? mr->host + (s.addr + off - mr->iova) : NULL;
}

/**
 * Fetch the first bytes that the next WQE in the SQ of @p qp sends, if it is there. What the client has written counts for nothing else here: a wrong address is fetched
 * in vain.
 */
static inline void
sq_prefetch_payload(const struct transport *tp, const struct qp *qp)
{
	const struct ring_sq_wqe *slot;
	union ring_sq_ctl ctl;
	struct ring_sge s;
	const struct mr *mr;

	if (qp->req.sq_cur != qp->req.sq.counter)
		return;
	slot = ring_slot(&qp->req.sq, qp->req.sq.counter);
	ctl.word = atomic_load_explicit(&slot->ctl, memory_order_acquire);
	if (ctl.phase != ring_phase(qp->req.sq.counter, qp->req.sq.order) || ctl.opcode >= UROCE_WR_OPS || tp_req_ops[ctl.opcode].kind != TP_REQ_DATA ||
	    ctl.count == 0 || ctl.count > qp->req.max_send_sge || (ctl.flags & UROCE_SEND_INLINE))
		return;
	s = wqe_get_sge(wqe_sges(slot, ctl.opcode));
	mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, 0, s.addr, 1);
	if (mr != NULL && mr->host != NULL)
		rte_prefetch0(mr->host + (s.addr - mr->iova));
}

/** sq_gather() and sq_scatter() for any WQE and region. */
uint8_t sq_gather_any(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t off, uint8_t *dst, uint32_t len);
uint8_t sq_scatter_any(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data, uint32_t len);

/**
 * Gather @p len bytes at offset @p off of the message of WQE @p counter into @p dst.
 * @param slot  Of the WQE.
 * @return 0; the error status, also stored in @p w; or COPY_LATER: they are being fetched, or there is no room for that now.
 */
static inline uint8_t
sq_gather(struct transport *tp, struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot, uint32_t counter, uint32_t off, uint8_t *dst, uint32_t len)
{
	const uint8_t *src = sq_mapped(tp, qp, w, slot, off, len, 0);

	if (unlikely(src == NULL))
		return sq_gather_any(tp, qp, w, counter, off, dst, len);
	mem_copy(dst, src, len);
	return 0;
}

/** @return where all @p len bytes at @p off of the message are, or NULL: not in one mapped piece. A wrong key is found by sq_gather_any(). */
const uint8_t *sq_piece(struct transport *tp, struct qp *qp, const struct tp_swqe *w, uint32_t counter, uint32_t off, uint32_t len);
/** As sq_gather(), for packet @p o, which goes by reference: its payload stays where it is, if it is in one mapped piece. */
uint8_t sq_payload(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t off, struct tp_out *o, uint32_t len);
/** Scatter response bytes at offset @p off of the message into the SGEs of WQE @p counter. @return 0, enum tp_vendor_err or COPY_LATER. */
static inline uint8_t
sq_scatter(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data, uint32_t len)
{
	uint8_t *dst = sq_mapped(tp, qp, qp_inflight(qp, counter), ring_slot(&qp->req.sq, counter), off, len, UROCE_ACCESS_LOCAL_WRITE);

	/* Among copies, the order of what is written matters. */
	if (unlikely(dst == NULL || qp->copy != NULL))
		return sq_scatter_any(tp, qp, counter, off, data, len);
	mem_copy_tail_last(dst, data, len);
	return 0;
}

/**
 * @return whether an earlier READ or atomic in flight writes to the same memory as WQE @p counter. The bytes of the later one must
 * stay (10.8.3.3), so the two have to be placed in order.
 */
bool sq_read_overlaps(struct qp *qp, uint32_t counter);

#endif /* UROCE_REQ_SGE_H */
