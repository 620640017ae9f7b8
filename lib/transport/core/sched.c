/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which QPs and shares have work: the lists that a transport goes through in its turns.
 */
#include "transport/core/sched_priv.h"

static bool
competes(uint8_t on)
{
	return on != SHARE_ASLEEP && on != SHARE_LIMITED;
}

void
share_move(struct transport *tp, struct share *s, enum share_on to)
{
	if (s->on != SHARE_ASLEEP)
		TAILQ_REMOVE(&tp->shares[s->on], s, link);
	tp->nb_competing += (uint32_t)competes((uint8_t)to) - (uint32_t)competes(s->on);
	s->on = (uint8_t)to;
	if (to != SHARE_ASLEEP)
		TAILQ_INSERT_TAIL(&tp->shares[to], s, link);
}

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
	struct share *s = qp->share;

	if (qp_does(qp, QP_FETCHES))
		qp_watch(qp, true);
	if (qp->sched.on_active)
		return;
	qp->sched.on_active = true;
	tp->nb_active++;
	TAILQ_INSERT_TAIL(&s->active, qp, sched.active_link);
	if (s->nb_active++ == 0)
		share_move(tp, s, s->deficit > 0 ? SHARE_FRESH : SHARE_BACKLOG);
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
	struct share *s = qp->share;

	UROCE_ASSERT(qp->sched.on_active && tp->nb_active > 0 && s->nb_active > 0);
	TAILQ_REMOVE(&s->active, qp, sched.active_link);
	qp->sched.on_active = false;
	tp->nb_active--;
	if (--s->nb_active == 0)
		share_move(tp, s, SHARE_ASLEEP);
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
