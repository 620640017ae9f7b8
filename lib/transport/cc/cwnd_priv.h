/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Round trips as measured, and the congestion window: how much of a QP may be in flight, as losses and the port's congestion control
 * leave it. Owns: these members of struct qp_loss. Called by path/ and req/, on the QP's engine.
 */
#ifndef UROCE_CC_CWND_H
#define UROCE_CC_CWND_H

#include "transport/core/types_priv.h"

/** A connection begins: its window, nothing measured. */
void cwnd_start(struct qp *qp);
/** The path has changed: round trips and probes say nothing any more. */
void cwnd_new_path(struct qp *qp);
/** psn_una has reached psn_grow: the window may grow. */
void cwnd_grow(struct qp *qp);
/** Something was lost, nobody knows how much; @p timeout: nothing came at all. */
void cwnd_loss(struct transport *tp, struct qp *qp, bool timeout);
/** @p n packets that are known one by one were lost. */
void cwnd_lost(struct transport *tp, struct qp *qp, uint32_t n);
/** What limits the window has changed. */
void cwnd_update(struct qp *qp);
/** The packet of rtt_psn has arrived. */
void rtt_measured(struct transport *tp, struct qp *qp);

/** A packet that will be answered is about to be sent: measure its round trip if it is the first transmission and time to. */
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

/** The answer could be to a retransmission: give the measurement up; the next packet's round trip may be measured. */
static inline void
rtt_untime(struct qp *qp)
{
	qp->loss.rtt_timing = false;
	qp->loss.rtt_next_ns = 0;
}

#endif /* UROCE_CC_CWND_H */
