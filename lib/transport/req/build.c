/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building requests that are always answered: READ, atomics, ATOMIC_WRITE and FLUSH.
 */
#include "transport/req/build_priv.h"

static bool
build_read(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, r->counter);
	uint32_t off = ((r->psn - r->w->first_psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	uint32_t len = RTE_MIN(r->w->length - off, r->psns << qp->path.mtu_shift);
	struct wire_bth b = build_bth(qp, r, WIRE_OP_READ_REQUEST, true, false);
	struct tp_out o;

	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	wire_put_reth(o.bth + o.op->off_reth, wqe_get_remote_addr(slot) + off, wqe_get_rkey(slot), len);
	tp_finish(tp, qp, &o, b, 0);
	return true;
}

static bool
build_atomic(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, r->counter);
	struct ring_atomic a = wqe_get_atomic(slot);
	bool swap = r->w->opcode == UROCE_WR_ATOMIC_CMP_AND_SWP;
	struct wire_bth b = build_bth(qp, r, tp_req_ops[r->w->opcode].only, true, false);
	struct tp_out o;

	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	/* On the wire, the operand of fetch-add stands where compare-swap has the swap value. */
	wire_put_atomiceth(o.bth + o.op->off_atomiceth, wqe_get_remote_addr(slot), wqe_get_rkey(slot), swap ? a.swap : a.compare_add,
			   swap ? a.compare_add : 0);
	tp_finish(tp, qp, &o, b, 0);
	return true;
}

/* ATOMIC_WRITE and FLUSH (annex A19). */
static bool
build_place(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, r->counter);
	struct ring_flush f = wqe_get_flush(slot);
	uint32_t len = r->w->opcode == UROCE_WR_FLUSH ? 0 : r->w->length;
	struct wire_bth b = build_bth(qp, r, tp_req_ops[r->w->opcode].only, true, false);
	struct tp_out o;

	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	wire_put_reth(o.bth + o.op->off_reth, wqe_get_remote_addr(slot), wqe_get_rkey(slot), len != 0 ? len : f.length);
	if (len == 0)
		wire_put_feth(o.bth + o.op->off_feth, f.type, f.level);
	if (len != 0 && sq_gather(tp, qp, r->w, slot, r->counter, 0, tp_payload(&o), len) != 0) {
		tp_cancel(tp, &o);
		return false;
	}
	tp_finish(tp, qp, &o, b, len);
	return true;
}

bool
build_request(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	switch (tp_req_ops[r->w->opcode].kind) {
	case TP_REQ_DATA:
		return build_data(tp, qp, r);
	case TP_REQ_READ:
		return build_read(tp, qp, r);
	case TP_REQ_PLACE:
		return build_place(tp, qp, r);
	default:
		return build_atomic(tp, qp, r);
	}
}
