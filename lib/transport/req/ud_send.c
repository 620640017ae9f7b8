/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending side of UD: one packet per message, to wherever the WQE's AH leads.
 */
#include "transport/core/ah.h"
#include "transport/core/tx.h"
#include "transport/req/req.h"
#include "transport/svc/svc.h"

#define UD_QKEY_OWN UINT32_C(0x80000000) /* in a WQE: use the QP's Q_Key (10.2.5) */

/* The QP's template is that of the AH it used last. @return false: no such AH. */
static bool
use_ah(struct transport *tp, struct qp *qp, uint32_t handle)
{
	const struct tp_ah *ah;

	/* Looked up each time: it may have been destroyed since. */
	ah = ah_get(tp->c.ahs, handle, qp->pd);
	if (unlikely(ah == NULL || ah->path.port != qp->path.port))
		return false;
	if (unlikely(qp->path.tmpl_ah != handle)) {
		qp->path.tmpl_ah = handle;
		qp->path.tmpl = ah->tmpl;
		/* A source port of the QP's own, as Linux does it: port 0 tells no flows apart, and firewalls drop it. */
		if (ah->path.addr.sport == 0)
			wire_tmpl_set_flow(&qp->path.tmpl, wire_calc_flow_label(qp->qpn, 1));
		qp->path.loopback = ah->path.loopback;
		qp->path.multicast = ah->path.multicast;
	}
	return true;
}

uint32_t
ud_send(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq_cur);
	uint64_t to = *(const volatile uint64_t *)&slot->remote_addr;
	uint32_t qkey = *(const volatile uint32_t *)&slot->rkey;
	struct wire_bth b = { .opcode = tp_req_ops[w->opcode].only | WIRE_UD, .dqpn = to >> 32 & 0xffffff,
			      .psn = qp->req.psn_cur, .pkey = qp->path.pkey, .migreq = true,
			      .solicited = (w->flags & UROCE_SEND_SOLICITED) != 0 };
	struct tp_out o;

	if (!use_ah(tp, qp, (uint32_t)to)) {
		wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_AH);
		return 0;
	}
	if (!tp_begin(tp, qp, b.opcode, &o))
		return 0;
	wire_put_deth(o.bth + o.op->off_deth, qkey & UD_QKEY_OWN ? qp->qkey : qkey, qp->qpn);
	if (o.op->flags & WIRE_F_IMM)
		memcpy(o.bth + o.op->off_imm, &slot->imm, WIRE_IMM_BYTES);
	if (w->length > 0 && unlikely(requester_gather(tp, qp, w, slot, 0, tp_payload(&o), w->length) != 0)) {
		tp_mbuf_put(tp, o.m);
		return 0;
	}
	tp_finish(tp, qp, &o, &b, w->length);
	if (unlikely(qp->path.multicast) && b.dqpn == WIRE_QPN_MULTICAST)
		mcast_loop(tp, qp, o.m);
	requester_sent(tp, qp, w, 1);
	return 1;
}
