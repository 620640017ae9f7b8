/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Makes request packets from a QP, a WQE in flight and a PSN alone. Changes nothing of the QP, so that first transmissions, tail
 * loss probes and retransmissions are made alike; whether a packet may be sent, and what follows from it, is the caller's.
 *
 * Called on the QP's engine. Each function puts the packet into its TX vector. @return false: there is no room or no mbuf (counted),
 * or the memory of the WQE is gone, which its status says then.
 */
#ifndef UROCE_REQ_BUILD_H
#define UROCE_REQ_BUILD_H

#include "transport/core/tx_priv.h"
#include "transport/req/sge_priv.h"
#include "transport/req/send_queue_priv.h"

/** Which packet of which WQE. */
struct req_packet {
	struct tp_swqe *w;
	uint32_t counter;  /**< of the WQE's slot */
	uint32_t psn;
	uint32_t psns;     /**< READ: response packets asked for; else 1 */
	bool ackreq;       /**< SEND, WRITE: ask for an ACK; other requests are always answered */
};

/** A packet of any kind of request; the requester's run has the SENDs and WRITEs of new WQEs in line. */
bool build_request(struct transport *tp, struct qp *qp, const struct req_packet *r);
/** A datagram, to where the WQE's AH leads. */
bool build_ud(struct transport *tp, struct qp *qp, const struct req_packet *r);

/** Write the XRCETH of a request. */
static inline void
xrc_put_eth(uint8_t *eth, const struct ring_sq_wqe *slot)
{
	wire_put32(eth, wqe_get_srqn(slot));
}

static inline struct wire_bth
build_bth(const struct qp *qp, const struct req_packet *r, uint8_t op)
{
	return (struct wire_bth){ .opcode = op | qp->prefix, .dqpn = qp->path.dest_qpn, .psn = r->psn, .pkey = qp->path.pkey,
				  .migreq = qp->path.mig == TP_MIG_MIGRATED };
}

/** SEND, WRITE and their variants. */
static __rte_always_inline bool
build_data(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, r->counter);
	struct tp_swqe *w = r->w;
	const struct tp_req_op *op = &tp_req_ops[w->opcode];
	uint32_t nth = (r->psn - w->first_psn) & WIRE_PSN_MASK;
	uint32_t off = nth << qp->path.mtu_shift;
	uint32_t len = RTE_MIN(w->length - off, UINT32_C(1) << qp->path.mtu_shift);
	bool last = r->psn == w->last_psn;
	struct wire_bth b = build_bth(qp, r, nth == 0 ? (last ? op->only : op->first) : (last ? op->last : op->middle));
	struct tp_out o;

	b.ackreq = r->ackreq;
	b.solicited = last && (w->flags & UROCE_SEND_SOLICITED) != 0;
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
	if (len > 0 && unlikely(sq_gather(tp, qp, w, slot, off, tp_payload(&o), len) != 0)) {
		tp_mbuf_put(tp, o.m);
		return false;
	}
	tp_finish(tp, qp, &o, &b, len);
	return true;
}

#endif /* UROCE_REQ_BUILD_H */
