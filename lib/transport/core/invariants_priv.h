/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Invariants of a QP between its turns, checked at the end of each turn in builds with assertions. Owns nothing.
 */
#ifndef UROCE_TP_INVARIANTS_H
#define UROCE_TP_INVARIANTS_H

#include "transport/core/qp_states_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/rx_wait_priv.h"

static inline void
qp_assert_requester(const struct qp *qp)
{
	const struct qp_requester *r = &qp->req;
	uint32_t in_flight = r->sq.counter - r->sq_tail;

	UROCE_ASSERT(in_flight <= r->inflight_mask + 1);
	UROCE_ASSERT(r->inflight_mask == (r->inflight == qp->own_inflight ? TP_INFLIGHT_OWN : TP_INFLIGHT_MAX) - 1);
	if (!qp_sends(qp))
		return;
	/* sq_tail <= sq_cur <= sq.counter; after a failed WQE sq_cur may be behind sq_tail. */
	UROCE_ASSERT(r->sq_cur - r->sq_tail <= in_flight);
	/* psn_una <= psn_cur <= psn_max <= psn_next. */
	UROCE_ASSERT(wire_psn_diff(r->psn_cur, r->psn_una) >= 0);
	UROCE_ASSERT(wire_psn_diff(r->psn_max, r->psn_cur) >= 0);
	UROCE_ASSERT(wire_psn_diff(r->psn_next, r->psn_max) >= 0);
	if (qp->service != WIRE_RC)
		return;
	UROCE_ASSERT(qp->loss.cwnd >= 1 && qp->loss.cwnd <= TP_CWND_MAX);
	/* So that a scoreboard (TP_SACK_SPAN) has room for all. */
	UROCE_ASSERT(wire_psn_diff(r->psn_max, r->psn_una) <= TP_CWND_MAX);
}

static inline void
qp_assert_responder(const struct qp *qp)
{
	const struct qp_responder *r = &qp->resp;

	/*
	 * Only slots of res[] that exist may have responses pending; without a pending response the QP keeps no READ
	 * block.
	 */
	UROCE_ASSERT(r->res_max == UROCE_MAX_RD_ATOMIC || r->pending >> r->res_max == 0);
	UROCE_ASSERT(r->res_head == 0 || r->res_head < r->res_max);
	UROCE_ASSERT(r->res_limit <= r->res_max);
	UROCE_ASSERT(r->reads == NULL || r->pending != 0);
	UROCE_ASSERT(qp->rcv.reorder == NULL || (qp->rcv.reorder->nb <= TP_SACK_SPAN && qp_receives(qp)));
}

/** Checks nothing that the client can write. */
static inline void
qp_assert_invariants(const struct qp *qp)
{
	qp_assert_requester(qp);
	qp_assert_responder(qp);
	/* The engine watches only the SQs of QPs that get turns. */
	UROCE_ASSERT((!qp->sched.watched && !rx_waits(qp)) || qp->sched.on_active);
	UROCE_ASSERT(!qp->sched.on_active || (qp->share->on != SHARE_ASLEEP && qp->share->nb_active > 0));
	if (qp->state == UROCE_QPS_ERR)
		UROCE_ASSERT(qp->req.scoreboard == NULL && qp->rcv.reorder == NULL);
}

#endif /* UROCE_TP_INVARIANTS_H */
