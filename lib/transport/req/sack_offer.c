/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offer of selective repeat: a packet that every responder takes for a duplicate (core/sack_format_priv.h).
 */
#include "transport/core/sack_format_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/req/build_priv.h"
#include "transport/req/loss_priv.h"

void
sack_offer(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY | qp->prefix, .dqpn = qp->path.dest_qpn, .pkey = qp->path.pkey,
			      .migreq = qp->path.mig == TP_MIG_MIGRATED,
			      .psn = (qp->req.psn_una - SACK_OFFER_BEHIND) & WIRE_PSN_MASK };
	struct tp_out o;
	uint8_t *at;

	if (qp->req.sack_offers == 0 || qp->service != WIRE_RC || qp->req.sq_tail == qp->req.sq.counter ||
	    !tp->c.ports[qp->path.port].features.selective_repeat || !tp_begin(tp, qp, b.opcode, &o))
		return;
	qp->req.sack_offers--;
	/* A target may look at the SRQ number before the PSN, so send one that is in use. */
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, ring_slot(&qp->req.sq, qp->req.sq_tail));
	at = o.bth + o.op->off_reth;
	wire_put24(at, SACK_OFFER_MAGIC);
	wire_put24(at + 3, qp->qpn);
	wire_put24(at + 6, qp->attr.sq_psn);
	wire_put24(at + 9, qp->attr.rq_psn);
	wire_put32(at + 12, 0);
	tp_finish(tp, qp, &o, &b, 0);
	tp->counters.sack_offers_sent++;
}
