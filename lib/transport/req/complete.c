/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of send queues.
 */
#include "transport/core/cq_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/req/complete_priv.h"

void
complete_push_cqe(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
	struct tp_cqe e = {
		.wr_id = w->wr_id,
		.byte_len = w->length,
		.status = status,
		.opcode = w->opcode < UROCE_WR_OPS ? tp_req_ops[w->opcode].wc : UROCE_WC_SEND,
		.ctl = ring_cqe_ctl_make((uint16_t)qp->req.sq_tail, verr, 0, 0, 0, 0),
	};

	cq_push(tp, qp->send_cq, qp, &e);
}

/* A failed WQE gets a CQE whether it is signaled or not (10.7.3.1). */
void
complete_head_in_error(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr)
{
	complete_push_cqe(tp, qp, status, verr);
	qp->req.sq_tail++;
	if (qp->service == WIRE_RC)
		qp_error(tp, qp, -1, TP_BECAUSE(SEND, status << 8 | verr));
	else
		qp_send_error(tp, qp, TP_BECAUSE(SEND, status << 8 | verr));
}
