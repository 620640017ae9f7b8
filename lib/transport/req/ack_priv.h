/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What acknowledgements and responses mean for the WQEs in flight: progress, completions, credits. Called on the QP's engine.
 */
#ifndef UROCE_REQ_ACK_H
#define UROCE_REQ_ACK_H

#include "transport/req/send_queue_priv.h"

/**
 * Everything up to @p psn has arrived: complete SENDs and WRITEs.
 * @return false: a READ or atomic stands in between, whose response was lost (implied NAK, 9.7.5.1.2).
 */
bool ack_upto(struct transport *tp, struct qp *qp, uint32_t psn);
/** The next PSN of the READ or atomic that is the oldest WQE has been answered. */
void ack_response(struct transport *tp, struct qp *qp);

/* ---- End-to-end credits: receives that the peer has posted (9.7.7.2) ---- */
/** What an AETH says of them. */
void credits_rx(struct transport *tp, struct qp *qp, uint8_t syndrome);
/** @p w has to wait for a receive. */
void credits_wait(struct transport *tp, struct qp *qp);
/**
 * 9.7.7.2.5: with no receives left at the peer, one request more may be sent; its answer tells of new ones. (It may also be an RNR
 * NAK.) It asks for an answer as every last packet does, and is repeated as any other, so that waiting for credits always ends.
 * @return true: @p w, of which nothing has been sent, must wait.
 */
static inline bool
credits_lacking(const struct qp *qp, const struct tp_swqe *w)
{
	return unlikely((int32_t)(w->recvs - qp->req.recvs_limit) > 1) && swqe_recvs(w) != 0 &&
	       w->recvs - qp->req.recvs_done > 1;
}

#endif /* UROCE_REQ_ACK_H */
