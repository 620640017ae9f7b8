/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which QPs and shares have work: the active lists, the reply list, and the SQs that the engine watches.
 *
 * Owns: these lists, struct qp_sched of each QP, and the place of each share in the schedule. A QP is on the active list of its
 * share while the engine has work for it or watches its SQ (shared->sq_watch is 1), and on the reply list while it owes its peer a
 * reply. Whoever gives a QP work calls qp_activate() or qp_reply_later(); turn.c takes QPs from the lists in its turns. A QP whose
 * packets found no room in the TX vector, or no mbuf, stays active. Called on the QP's engine.
 *
 * A share with active QPs is in one of these lists (deficit round robin of Shreedhar and Varghese, with the precedence for
 * new flows of FQ-CoDel, RFC 8290):
 *
 * - SHARE_FRESH: it had nothing to do when it was last looked at. These are looked at first, so that a program that sends little needn't wait
 *   for those that send much. It can't gain time by that: once it has used up its deficit, it waits in the other list.
 * - SHARE_BACKLOG: the others, in the order of their turns. When one has used up its deficit, it goes to the end and gets a quantum.
 * - SHARE_BLOCKED, within a turn: there was no room in the TX vector for what it has to send. It keeps its place.
 * - SHARE_LIMITED: its rate doesn't let it send before due_ns.
 * - SHARE_QUEUED: another share of its group is in SHARE_BACKLOG. When that one has had its turn, the next one of the group goes to the end of SHARE_BACKLOG.
 *   So a group gets what a single share gets, and its shares take turns in that.
 */
#ifndef UROCE_TP_SCHED_H
#define UROCE_TP_SCHED_H

#include "transport/core/qp_states_priv.h"

/** Put @p qp on the active list and watch its SQ, unless that is so already. */
void qp_wake(struct transport *tp, struct qp *qp);
/** Put @p s at the end of a list; SHARE_ASLEEP: in none. With SHARE_BACKLOG it may get into its group's queue. */
void share_move(struct transport *tp, struct share *s, enum share_on to);
/** @return whether no other share wants a turn. */
static inline bool
share_alone(const struct transport *tp, const struct share *s)
{
	return tp->nb_competing == 0 || (tp->nb_competing == 1 && (s->on == SHARE_FRESH || s->on == SHARE_BACKLOG));
}
/**
 * There is work for @p qp: give it a turn. What the requester waited for in its last turn may have come, so that it isn't blocked until the next
 * one has shown that it still waits (transport_rest()).
 */
static inline void
qp_activate(struct transport *tp, struct qp *qp)
{
	UROCE_ASSERT(qp->tp == tp);
	qp->sched.last_work_ns = tp->now_ns;
	qp->req.wait = REQ_RUNS;
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
