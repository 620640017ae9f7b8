/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building datagrams: one packet per message, to the destination of the WQE's AH.
 */
#include "transport/core/ah_priv.h"
#include "transport/req/build_priv.h"
#include "transport/core/mcast_priv.h"
#include "transport/path/path_priv.h"

#define UD_QKEY_OWN UINT32_C(0x80000000) /* in a WQE: use the QP's Q_Key (10.2.5) */

/* Make the QP's template that of the AH, unless it is already. @return false: there is no such AH. */
static bool
use_ah(struct transport *tp, struct qp *qp, uint32_t handle)
{
	const struct tp_ah *ah;
	uint64_t serial;

	/* Looked up for each WQE: it may have been destroyed since. */
	ah = ah_get(tp->c.sh.ahs, handle, qp->pd);
	if (unlikely(ah == NULL || ah->path.port != qp->path.port))
		return false;
	serial = atomic_load_explicit(&ah->serial, memory_order_acquire);
	if (unlikely(qp->path.tmpl_ah != serial)) {
		qp->path.tmpl_ah = serial;
		qp->path.tmpl = ah->tmpl;
		/*
		 * Use a source port of the QP's own, as Linux does: port 0 doesn't distinguish flows, and firewalls
		 * drop it.
		 */
		if (ah->path.addr.sport == 0)
			wire_tmpl_set_flow(&qp->path.tmpl, wire_calc_flow_label(qp->qpn, 1));
		qp->path.loopback = ah->path.loopback;
		qp->path.detour = (uint8_t)((ah->path.loopback ? DETOUR_LOOPBACK : 0) |
					    (atomic_load_explicit(&ah->gone, memory_order_relaxed) ? DETOUR_GONE : 0));
		qp->path.multicast = ah->path.multicast;
		path_follow_mtu(tp, qp);
	}
	return true;
}

bool
build_ud(struct transport *tp, struct qp *qp, const struct req_packet *r)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, r->counter);
	struct ring_ud to = wqe_get_ud(slot);
	struct tp_swqe *w = r->w;
	struct wire_bth b = wire_bth_make(tp_req_ops[w->opcode].only | WIRE_UD, to.qpn, r->psn, qp->path.pkey, true, (w->flags & UROCE_SEND_SOLICITED) != 0, false, 0);
	struct tp_out o;

	if (!use_ah(tp, qp, to.ah)) {
		wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_AH);
		return false;
	}
	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	wire_put_deth(o.bth + o.op->off_deth, to.qkey & UD_QKEY_OWN ? qp->rcv.qkey : to.qkey, qp->qpn);
	if (o.op->flags & WIRE_F_IMM)
		memcpy(o.bth + o.op->off_imm, &(uint32_t){ wqe_get_imm(slot) }, WIRE_IMM_BYTES);
	if (w->length > 0 && unlikely(sq_gather(tp, qp, w, slot, r->counter, 0, tp_payload(&o), w->length) != 0)) {
		tp_mbuf_put(tp, o.m);
		return false;
	}
	tp_finish(tp, qp, &o, b, w->length);
	if (unlikely(qp->path.multicast) && b.dqpn == WIRE_QPN_MULTICAST && o.m != NULL)
		mcast_loop(tp, qp, o.m);
	return true;
}
