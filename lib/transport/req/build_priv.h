/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Builds request packets from a QP, a WQE in flight and a PSN alone, and does not change the QP. So first
 * transmissions, tail loss probes and retransmissions are built the same way; the caller decides whether a packet may
 * be sent, and accounts for it.
 *
 * Called on the QP's engine. Each function puts the packet into its TX vector.
 * @return false: there is no room or no mbuf (counted); the bytes are being fetched (copy_priv.h); or the memory of the WQE is no longer
 * accessible: then w->status is set.
 */
#ifndef UROCE_REQ_BUILD_H
#define UROCE_REQ_BUILD_H

#include "transport/core/tx_priv.h"
#include "transport/req/sge_priv.h"
#include "transport/req/send_queue_priv.h"

/** Identifies a packet of a WQE. */
struct req_packet {
	struct tp_swqe *w;
	uint32_t counter;  /**< of the WQE's slot in the SQ */
	uint32_t psn;
	uint32_t psns;     /**< READ: number of response packets to request; else 1, or how many PSNs a packet by reference has */
	const uint8_t *piece; /**< SEND, WRITE: where the payload is, if it has several PSNs */
	bool ackreq;       /**< SEND, WRITE: request an ACK. Other requests are always answered */
};

/** Build a request packet of any kind. The requester's run builds SENDs and WRITEs of new WQEs inline instead. */
bool build_request(struct transport *tp, struct qp *qp, const struct req_packet *r);
/** Build a datagram to the destination of the WQE's AH. */
bool build_ud(struct transport *tp, struct qp *qp, const struct req_packet *r);

/** Write the XRCETH of a request. */
static inline void
xrc_put_eth(uint8_t *eth, const struct ring_sq_wqe *slot)
{
	wire_put32(eth, wqe_get_srqn(slot));
}

static inline struct wire_bth
build_bth(const struct qp *qp, const struct req_packet *r, uint8_t op, bool ackreq, bool solicited)
{
	return wire_bth_make(op | qp->prefix, qp->path.dest_qpn, r->psn, qp->path.pkey, qp->path.mig == TP_MIG_MIGRATED, solicited, ackreq, qp->req.sack_mark);
}

/** Build a packet of a SEND, a WRITE or one of their variants. */
static __rte_always_inline bool
build_data(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, r->counter);
	struct tp_swqe *w = r->w;
	const struct tp_req_op *op = &tp_req_ops[w->opcode];
	uint32_t nth = (r->psn - w->first_psn) & WIRE_PSN_MASK;
	uint32_t off = nth << qp->path.mtu_shift;
	uint32_t len = RTE_MIN(w->length - off, r->psns << qp->path.mtu_shift);
	bool last = wire_psn_add(r->psn, r->psns - 1) == w->last_psn;
	struct wire_bth b = build_bth(qp, r, nth == 0 ? (last ? op->only : op->first) : (last ? op->last : op->middle), r->ackreq,
				      last && (w->flags & UROCE_SEND_SOLICITED) != 0);
	struct tp_out o;

	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	if (o.op->flags & WIRE_F_RETH)
		wire_put_reth(o.bth + o.op->off_reth, wqe_get_remote_addr(slot), wqe_get_rkey(slot), w->length);
	if (o.op->flags & WIRE_F_IMM)
		memcpy(o.bth + o.op->off_imm, &(uint32_t){ wqe_get_imm(slot) }, WIRE_IMM_BYTES);
	if (unlikely(o.op->flags & WIRE_F_IETH))
		wire_put32(o.bth + o.op->off_ieth, wqe_get_imm(slot));
	if (unlikely(r->psns > 1)) {
		UROCE_ASSERT(o.local != NULL && r->piece != NULL);
		o.local->p.payload = r->piece;
		o.local->p.more = (uint16_t)(r->psns - 1);
	} else if (len > 0 && unlikely((likely(o.local == NULL) ? sq_gather(tp, qp, w, slot, r->counter, off, tp_payload(&o), len) :
							    sq_payload(tp, qp, w, r->counter, off, &o, len)) != 0)) {
		tp_cancel(tp, &o);
		return false;
	}
	tp_finish(tp, qp, &o, b, len);
	return true;
}

#endif /* UROCE_REQ_BUILD_H */
