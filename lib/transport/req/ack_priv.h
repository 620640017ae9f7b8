/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What ACKs and responses mean for the WQEs in flight: progress, completions, credits. Called on the QP's engine.
 */
#ifndef UROCE_REQ_ACK_H
#define UROCE_REQ_ACK_H

#include "transport/req/send_queue_priv.h"

/**
 * Everything up to @p psn has arrived at the peer: complete SENDs and WRITEs.
 * @return false if it stopped at a READ or atomic, whose response was lost (implied NAK, 9.7.5.1.2).
 */
bool ack_upto(struct transport *tp, struct qp *qp, uint32_t psn);
/** The responses with @p psns PSNs from psn_una on, all of one request, have arrived and were placed; the oldest WQE is a READ or atomic. */
void ack_response(struct transport *tp, struct qp *qp, uint32_t psns);

/* ---- End-to-end credits: receives that the peer has posted (9.7.7.2) ---- */
/** Take over the credits in an AETH. */
void credits_rx(struct transport *tp, struct qp *qp, uint8_t syndrome);
/** The next SEND has to wait for a receive at the peer: record that. */
void credits_wait(struct transport *tp, struct qp *qp);
/**
 * 9.7.7.2.5: when the peer has no receives left, one more request may be sent, and its answer reports new ones (it may
 * also be an RNR NAK). That request asks for an answer, as every last packet does, and is resent like any other, so
 * that waiting for credits always ends.
 * @return true if @p w, of which nothing has been sent yet, must wait.
 */
static inline bool
credits_lacking(const struct qp *qp, const struct tp_swqe *w)
{
	return unlikely((int32_t)(w->recvs - qp->req.recvs_limit) > 1) && swqe_recvs(w) != 0 &&
	       w->recvs - qp->req.recvs_done > 1;
}

#endif /* UROCE_REQ_ACK_H */
