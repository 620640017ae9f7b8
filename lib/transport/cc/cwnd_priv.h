/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Round trip measurement, and the congestion window: how many packets of a QP may be in flight after losses and under
 * the port's congestion control. Owns: these members of struct qp_loss. Called by path/ and req/, on the QP's engine.
 */
#ifndef UROCE_CC_CWND_H
#define UROCE_CC_CWND_H

#include "transport/core/types_priv.h"

/** A connection begins: set the initial window and forget earlier measurements. */
void cwnd_start(struct qp *qp);
/** The path has changed: forget the round trips measured on the old one. */
void cwnd_new_path(struct qp *qp);
/** psn_una has reached psn_grow: let the window grow. */
void cwnd_grow(struct qp *qp);
/** Packets were lost, it is not known how many. @p timeout: the ACK timeout expired without any answer. */
void cwnd_loss(struct transport *tp, struct qp *qp, bool timeout);
/** @p n packets were lost, and it is known which. */
void cwnd_lost(struct transport *tp, struct qp *qp, uint32_t n);
/** Recompute the window after one of its limits has changed. */
void cwnd_update(struct qp *qp);
/** The packet of rtt_psn was acknowledged: take its round trip. */
void rtt_measured(struct transport *tp, struct qp *qp);

/**
 * A packet that will be answered is about to be sent: time its round trip if it is sent for the first time and a
 * measurement is due.
 */
static inline void
rtt_start(const struct transport *tp, struct qp *qp)
{
	if (tp->now_ns < qp->loss.rtt_next_ns || qp->req.psn_cur != qp->req.psn_max)
		return;
	qp->loss.rtt_timing = true;
	qp->loss.rtt_next_ns = UINT64_MAX;
	qp->loss.rtt_psn = qp->req.psn_cur;
	qp->loss.rtt_sent_ns = tp->now_ns;
}

/**
 * The answer could belong to a retransmission (Karn): give up the measurement. The next packet may be timed at once.
 */
static inline void
rtt_untime(struct qp *qp)
{
	qp->loss.rtt_timing = false;
	qp->loss.rtt_next_ns = 0;
}

#endif /* UROCE_CC_CWND_H */
