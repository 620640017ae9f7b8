/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Completes work requests of a send queue, always the oldest first. Called on the QP's engine.
 */
#ifndef UROCE_REQ_COMPLETE_H
#define UROCE_REQ_COMPLETE_H

#include "transport/req/send_queue_priv.h"

/** Write the CQE of the oldest WQE. */
void complete_push_cqe(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);
/** Complete the oldest WQE with success; a CQE is written if it was posted signaled. */
static inline void
complete_head(struct transport *tp, struct qp *qp)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);

	if ((w->flags & UROCE_SEND_SIGNALED) || qp->req.sig_all)
		complete_push_cqe(tp, qp, UROCE_WC_SUCCESS, TP_VERR_NONE);
	qp->req.recvs_done = w->recvs;
	qp->req.sq_tail++;
}
/** Complete the oldest WQE with an error; an RC QP goes to ERR, a UC or UD QP to SQE. */
void complete_head_in_error(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);
/** Execute a BIND_MW or LOCAL_INV and complete it. @return false: it was refused; w->status is set. */
bool complete_local(struct transport *tp, struct qp *qp, struct tp_swqe *w);

#endif /* UROCE_REQ_COMPLETE_H */
