/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving side of UC: lost packets stay lost, nothing is answered. A message with a gap is dropped up to the next
 * first packet, whose PSN becomes the expected one (9.8.2.2).
 */
#include "base/mark.h"
#include "transport/core/qp_error_priv.h"
#include "transport/resp/recv_priv.h"
#include "transport/resp/resp_priv.h"
#include "transport/svc/svc_priv.h"

static void
drop_message(struct qp *qp)
{
	qp->rcv.msg = TP_RMSG_DROP;
}

/* @return false: the packet doesn't continue a message. */
static bool
in_sequence(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	bool start = (p->op->flags & WIRE_F_START) != 0, middle = qp->rcv.msg == TP_RMSG_SEND || qp->rcv.msg == TP_RMSG_WRITE;
	bool expected = p->bth.psn == qp->rcv.epsn;

	qp->rcv.epsn = wire_psn_add(p->bth.psn, 1);
	if (start) {
		/* The end of the previous message is missing. */
		tp->counters.rx_uc_gap += middle;
		qp->rcv.msg = TP_RMSG_NONE;
		return true;
	}
	if (middle && expected)
		return true;
	/* It belongs to a message that was given up before. */
	if (qp->rcv.msg == TP_RMSG_DROP)
		tp->counters.rx_uc_rest++;
	else
		tp->counters.rx_uc_gap++;
	drop_message(qp);
	return false;
}

void
uc_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags;
	uint8_t nak, status, verr = TP_VERR_NONE;

	if (!in_sequence(tp, qp, p))
		return;
	if (!message_continues(qp, p)) {
		tp->counters.resp_invalid_requests++;
		drop_message(qp);
		return;
	}
	if ((f & WIRE_F_RQ) && !recv_take(tp, qp)) {
		MARK_IF(!(f & WIRE_F_START), "the immediate of a UC WRITE finds no receive at its end");
		tp->counters.rx_uc_no_wqe++;
		drop_message(qp);
		return;
	}
	if (f & WIRE_F_START)
		qp->rcv.length = 0;
	if (f & WIRE_F_SEND) {
		status = recv_place(tp, qp, p->payload, p->payload_bytes, &verr);
		if (unlikely(status == COPY_LATER)) {
			qp->rcv.epsn = p->bth.psn;
			return;
		}
		tp->counters.rx_send_requests += (f & WIRE_F_START) != 0;
		/* The rest is dropped too, and the receive waits for the next message (9.9.3, class D). */
		if (status == UROCE_WC_LOC_LEN_ERR) {
			tp->counters.resp_local_length_error++;
			drop_message(qp);
			return;
		}
		if (status != 0) {
			recv_fail(tp, qp, status, verr);
			qp_error(tp, qp, -1, TP_BECAUSE(RECEIVE, verr));
			return;
		}
	} else if ((nak = message_write(tp, qp, p)) == COPY_LATER) {
		qp->rcv.epsn = p->bth.psn;
		return;
	} else if (nak != 0) {
		/* UC has no NAKs: the peer doesn't learn of it. */
		tp->counters.resp_invalid_requests += nak == WIRE_NAK_INV_REQ;
		tp->counters.resp_remote_access_errors += nak == WIRE_NAK_REM_ACCESS;
		drop_message(qp);
		return;
	}
	qp->rcv.length += p->payload_bytes;
	if (!(f & WIRE_F_END)) {
		qp->rcv.msg = f & WIRE_F_SEND ? TP_RMSG_SEND : TP_RMSG_WRITE;
		return;
	}
	qp->rcv.msg = TP_RMSG_NONE;
	qp->rcv.msn = wire_psn_add(qp->rcv.msn, 1);
	qp->rcv.rx_bytes += qp->rcv.length;
	if (f & WIRE_F_SEND)
		recv_complete(tp, qp, UROCE_WC_RECV, p);
	else if (f & WIRE_F_IMM)
		recv_complete(tp, qp, UROCE_WC_RECV_RDMA_WITH_IMM, p);
}
