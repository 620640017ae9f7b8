/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UD: one packet per message, to wherever the WQE's AH leads; received with 40 bytes of L3 header in front.
 */
#include "transport/core/internal.h"

#define UD_QKEY_OWN UINT32_C(0x80000000) /* in a WQE: use the QP's Q_Key (10.2.5) */

/* The QP's template is that of the AH it used last. @return false: no such AH. */
static bool
use_ah(struct transport *tp, struct qp *qp, uint32_t handle)
{
	const struct tp_ah *ah;

	/* Looked up each time: it may have been destroyed since. */
	ah = ah_get(tp->c.sh.ahs, handle, qp->pd);
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

/* What lies before the payload: the IPv6 header, or 20 bytes of nothing and the IPv4 header (A17.4.5.1). */
static void
make_grh(const struct wire_pkt *p, uint8_t grh[WIRE_GRH_BYTES])
{
	if (p->ip_version == 4) {
		memset(grh, 0, WIRE_GRH_BYTES - WIRE_IPV4_BYTES);
		memcpy(grh + WIRE_GRH_BYTES - WIRE_IPV4_BYTES, p->l3, WIRE_IPV4_BYTES);
	} else {
		memcpy(grh, p->l3, WIRE_IPV6_BYTES);
	}
}

void
ud_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint8_t grh[WIRE_GRH_BYTES], status, verr = TP_VERR_NONE;

	if (wire_get32(p->bthp + p->op->off_deth) != qp->qkey) {
		count_bad_qkey(tp, qp->path.port);
		return;
	}
	if (p->payload_bytes > UINT32_C(1) << qp->path.mtu_shift) {
		tp->counters.rx_ud_length++;
		return;
	}
	if (!recv_take(tp, qp)) {
		tp->counters.rx_ud_no_wqe++;
		return;
	}
	tp->counters.rx_send_requests++;
	make_grh(p, grh);
	status = recv_place(tp, qp, grh, sizeof(grh), &verr);
	if (status == 0)
		status = recv_place(tp, qp, p->payload, p->payload_bytes, &verr);
	if (unlikely(status != 0)) {
		tp->counters.resp_local_length_error += status == UROCE_WC_LOC_LEN_ERR;
		recv_fail(tp, qp, status, verr);
		qp_error(tp, qp, -1, TP_BECAUSE(RECEIVE, verr));
		return;
	}
	qp->rcv.length = WIRE_GRH_BYTES + p->payload_bytes;
	recv_complete(tp, qp, UROCE_WC_RECV, p);
}
