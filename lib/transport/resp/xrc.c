/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC (annex A14 of the specification). An initiator's QP is an RC QP whose requests name an SRQ of the target in an
 * XRCETH. A target's QP has no PD, queues or CQs of its own: for each request it uses those of the SRQ that the request
 * names, provided both are of the same XRC domain. A domain, its SRQs and its QPs belong to one engine, and move together.
 */
#include "transport/core/srq_priv.h"
#include "transport/resp/resp_priv.h"

void
xrc_leave(struct qp *qp)
{
	if (qp->rcv.srq != NULL)
		srq_release(qp->rcv.srq);
	qp->rcv.srq = NULL;
	qp->recv_cq = NULL;
}

/*
 * The request is invalid if its XRCETH names no SRQ, one of another domain, or another one than the message began with
 * (annex A14: invalid XRCETH, XRC domain violation): class C of 9.9.3, NAK Invalid Request.
 */
bool
xrc_admit(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	struct srq *srq = srq_find(tp, xrc_srqn(p));

	if (unlikely(srq == NULL || srq->xrcd != qp->rcv.xrcd || (qp->rcv.msg != TP_RMSG_NONE && srq != qp->rcv.srq))) {
		tp->counters.resp_bad_xrceth++;
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
		return false;
	}
	if (srq != qp->rcv.srq) {
		xrc_leave(qp);
		srq->users++;
		qp->rcv.srq = srq;
		qp->recv_cq = srq->cq;
		qp->pd = srq->pd;
	}
	return true;
}

bool
xrc_pd(const struct transport *tp, const struct qp *qp, uint32_t srqn, uint32_t *pd)
{
	const struct srq *srq = srq_find(tp, srqn);

	if (srq == NULL || srq->xrcd != qp->rcv.xrcd)
		return false;
	*pd = srq->pd;
	return true;
}
