/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which QPs have work: the active list, the reply list, and the SQs that the engine watches.
 *
 * Owns: both lists, and struct qp_sched of each QP. A QP is on the active list while the engine has work for it or
 * watches its SQ (shared->sq_watch is 1), and on the reply list while it owes its peer a reply. Whoever gives a QP work
 * calls qp_activate() or qp_reply_later(); transport.c takes QPs from the lists in its turns. A QP whose packets found
 * no room in the TX vector, or no mbuf, stays active. Called on the QP's engine.
 */
#ifndef UROCE_TP_SCHED_H
#define UROCE_TP_SCHED_H

#include "transport/core/qp_states_priv.h"

/** Put @p qp on the active list and watch its SQ, unless that is so already. */
void qp_wake(struct transport *tp, struct qp *qp);
/** There is work for @p qp: give it a turn. */
static inline void
qp_activate(struct transport *tp, struct qp *qp)
{
	UROCE_ASSERT(qp->tp == tp);
	qp->sched.last_work_ns = tp->now_ns;
	if (unlikely(!qp->sched.on_active || !qp->sched.watched))
		qp_wake(tp, qp);
}
/** @p qp owes its peer a reply. */
void qp_reply_later(struct transport *tp, struct qp *qp);
/** Set whether the engine polls the SQ (true) or the client has to ring the doorbell. */
void qp_watch(struct qp *qp, bool on);
/** Take @p qp off the active list; it must be on it. */
void qp_deactivate(struct transport *tp, struct qp *qp);
/** Take @p qp off both lists and stop its timer, but not that of its struct cc (cc_stop()). */
void qp_unlist(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_SCHED_H */
