/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which QPs have work: the lists that a transport goes through in its turns.
 */
#include "transport/core/sched_priv.h"

void
qp_watch(struct qp *qp, bool on)
{
	if (qp->sched.watched == on)
		return;
	qp->sched.watched = on;
	atomic_store_explicit(&qp->shared->sq_watch, on, memory_order_release);
}

void
qp_wake(struct transport *tp, struct qp *qp)
{
	if (qp_does(qp, QP_FETCHES))
		qp_watch(qp, true);
	if (qp->sched.on_active)
		return;
	qp->sched.on_active = true;
	tp->nb_active++;
	TAILQ_INSERT_TAIL(&tp->active, qp, sched.active_link);
}

void
qp_reply_later(struct transport *tp, struct qp *qp)
{
	if (qp->sched.on_reply)
		return;
	qp->sched.on_reply = true;
	TAILQ_INSERT_TAIL(&tp->replies, qp, sched.reply_link);
}

void
qp_deactivate(struct transport *tp, struct qp *qp)
{
	UROCE_ASSERT(qp->sched.on_active && tp->nb_active > 0);
	TAILQ_REMOVE(&tp->active, qp, sched.active_link);
	qp->sched.on_active = false;
	tp->nb_active--;
}

void
qp_unlist(struct transport *tp, struct qp *qp)
{
	if (qp->sched.on_active)
		qp_deactivate(tp, qp);
	if (qp->sched.on_reply) {
		TAILQ_REMOVE(&tp->replies, qp, sched.reply_link);
		qp->sched.on_reply = false;
	}
	qp_watch(qp, false);
	wheel_del(&tp->wheel, &qp->loss.timer);
}
