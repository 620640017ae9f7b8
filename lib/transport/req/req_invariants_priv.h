/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Invariants of a requester between its turns, checked at the end of each turn in builds with assertions. Owns nothing.
 */
#ifndef UROCE_REQ_INVARIANTS_H
#define UROCE_REQ_INVARIANTS_H

#include "transport/cc/cc_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/req/scoreboard_priv.h"

/** @return whether the counts of the scoreboard say what its bitmaps say, and no packet is both lost and there. */
static inline bool
scoreboard_adds_up(const struct tp_scoreboard *b)
{
	uint32_t has = 0, lost = 0;

	for (uint32_t i = 0; i < SACK_WORDS; i++) {
		if ((b->has[i] & b->lost[i]) != 0)
			return false;
		has += (uint32_t)__builtin_popcountll(b->has[i]);
		lost += (uint32_t)__builtin_popcountll(b->lost[i]);
	}
	return has == b->nb_has && lost == b->nb_lost;
}

/** @return the congestion window that losses, congestion control and the scoreboard leave. */
static inline uint32_t
window_of(const struct qp *qp)
{
	uint32_t cwnd = RTE_MIN(qp->loss.loss_cwnd, qp->tp->c.limits.cwnd);

	if (qp->req.cc != NULL)
		cwnd = RTE_MIN(cwnd, qp->req.cc->cwnd);
	return qp->loss.not_in_flight == 0 ? cwnd : RTE_MIN(cwnd + qp->loss.not_in_flight, (uint32_t)TP_CWND_MAX);
}

/** Checks nothing of a QP that isn't RC, or doesn't send. */
static inline void
requester_assert_invariants(const struct qp *qp)
{
	const struct tp_scoreboard *b = qp->req.scoreboard;
	const struct qp_requester *r = &qp->req;

	if (qp->service != WIRE_RC || !qp_sends(qp))
		return;
	UROCE_ASSERT(qp->loss.cwnd == window_of(qp));
	UROCE_ASSERT(qp->loss.retry_left <= qp->loss.retry_cnt && qp->loss.rnr_left <= qp->loss.rnr_retry);
	UROCE_ASSERT(qp->loss.probes <= TP_PROBES);
	UROCE_ASSERT(r->rd_out <= UROCE_MAX_RD_ATOMIC);
	/* What is in flight, or waits for the peer to be ready, has a timer, and the wheel wakes it no later. */
	UROCE_ASSERT(qp->loss.deadline_ns != 0 || (!qp->loss.rnr_wait && (qp->loss.timeout == 0 || r->psn_cur == r->psn_una)));
	UROCE_ASSERT(qp->loss.deadline_ns == 0 ||
		     (wheel_pending(&qp->loss.timer) &&
		      qp->loss.timer.tick <= RTE_MAX((qp->loss.deadline_ns >> WHEEL_TICK_SHIFT) + 1, qp->tp->wheel.tick)));
	/* The packet that is timed is in flight. */
	UROCE_ASSERT(!qp->loss.rtt_timing || wire_psn_diff(qp->loss.rtt_psn, r->psn_max) < 0);
	UROCE_ASSERT(qp->loss.not_in_flight == (b != NULL ? b->nb_has + b->nb_lost : 0));
	if (b == NULL)
		return;
	UROCE_ASSERT(scoreboard_adds_up(b));
	/* una <= acked <= psn_max, and what is sent again is in the scoreboard. */
	UROCE_ASSERT(b->una == r->psn_una && r->psn_cur == r->psn_max);
	UROCE_ASSERT(wire_psn_diff(b->acked, b->una) >= 0 && wire_psn_diff(b->acked, r->psn_max) <= 0);
	UROCE_ASSERT(wire_psn_diff(b->end, r->psn_max) <= 0);
	/* It is returned when nothing needs it any more. */
	UROCE_ASSERT(b->nb_lost != 0 || wire_psn_diff(b->una, b->end) <= 0);
}

#endif /* UROCE_REQ_INVARIANTS_H */
