/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offer of selective repeat: a packet that every responder takes for a duplicate (core/sack_format_priv.h).
 */
#include "transport/core/sack_format_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/req/build_priv.h"
#include "transport/req/loss_priv.h"

/*
 * @param slot  A WQE in flight, whose SRQ number is sent: an XRC target may look at it before the PSN. NULL: the peer is
 * uroce, which doesn't.
 */
static void
offer(struct transport *tp, struct qp *qp, const struct ring_sq_wqe *slot)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY | qp->prefix, .dqpn = qp->path.dest_qpn, .pkey = qp->path.pkey,
			      .migreq = qp->path.mig == TP_MIG_MIGRATED,
			      .psn = (qp->req.psn_una - SACK_OFFER_BEHIND) & WIRE_PSN_MASK };
	struct tp_out o;
	uint8_t *at;

	if (qp->req.sack_offers == 0 || qp->service != WIRE_RC || !tp->c.ports[qp->path.port].features.selective_repeat ||
	    !tp_begin(tp, qp, b.opcode, &o))
		return;
	qp->req.sack_offers--;
	if (unlikely(qp->prefix == WIRE_XRC)) {
		wire_put32(o.bth + o.op->off_xrceth, 0);
		if (slot != NULL)
			xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	}
	at = o.bth + o.op->off_reth;
	wire_put24(at, SACK_OFFER_MAGIC);
	wire_put24(at + 3, sack_origin(qp->qpn, qp->attr.sq_psn));
	wire_put24(at + 6, qp->req.sack_nonce);
	wire_put24(at + 9, qp->attr.rq_psn);
	wire_put32(at + 12, 0);
	tp_finish(tp, qp, &o, b, 0);
	tp->counters.sack_offers_sent++;
}

void
sack_offer(struct transport *tp, struct qp *qp)
{
	if (qp->req.sq_tail != qp->req.sq.counter)
		offer(tp, qp, ring_slot(&qp->req.sq, qp->req.sq_tail));
}

void
sack_offer_anew(struct transport *tp, struct qp *qp)
{
	qp->req.sack_peer = false;
	qp->req.sack_offers = TP_SACK_OFFERS;
	offer(tp, qp, NULL);
}
