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

static struct tp_share_list *
list_of(struct transport *tp, struct share *s)
{
	return s->on == SHARE_QUEUED ? &s->group->queue : &tp->shares[s->on];
}

/* The next share of a group, if there is one, stands for it. */
static void
advance(struct transport *tp, struct share_group *g)
{
	struct share *s = TAILQ_FIRST(&g->queue);

	g->first = s;
	if (s == NULL)
		return;
	TAILQ_REMOVE(&g->queue, s, link);
	s->on = SHARE_BACKLOG;
	TAILQ_INSERT_TAIL(&tp->shares[SHARE_BACKLOG], s, link);
}

/* A share of a group goes from @p from to @p to. @return where it is put. */
static enum share_on
place_in_group(struct transport *tp, struct share *s, uint8_t from, enum share_on to)
{
	struct share_group *g = s->group;
	/* It was kept from sending in this turn of the transport, but keeps its place. */
	bool stays = to == SHARE_BLOCKED || (from == SHARE_BLOCKED && to == SHARE_BACKLOG);

	if (g->first == s && !stays)
		advance(tp, g);
	if (to != SHARE_BACKLOG && to != SHARE_BLOCKED)
		return to;
	if (g->first == NULL)
		g->first = s;
	return g->first == s ? to : SHARE_QUEUED;
}

void
share_move(struct transport *tp, struct share *s, enum share_on to)
{
	uint8_t from = s->on;

	if (from != SHARE_ASLEEP)
		TAILQ_REMOVE(list_of(tp, s), s, link);
	tp->nb_competing += (uint32_t)competes((uint8_t)to) - (uint32_t)competes(from);
	if (unlikely(s->group != NULL))
		to = place_in_group(tp, s, from, to);
	s->on = (uint8_t)to;
	if (to != SHARE_ASLEEP)
		TAILQ_INSERT_TAIL(list_of(tp, s), s, link);
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
