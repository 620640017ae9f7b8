/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a share is owed that was away: it had nothing to do for some milliseconds while others used the engine, and wants turns again.
 *
 * Programs that have to share a CPU are there by turns: while one runs, the queues of the others may still be full, but its own is empty while it doesn't run. By rounds alone it
 * would have half of the engine for half of the time. So it is owed its part of what the others used meanwhile, up to a limit, and gets that as up to TP_OWED_QUANTA more
 * in each round of the backlog. If it never has enough to do for a whole quantum, the brief turns of the others are shorter by the same factor (core/brief_priv.h).
 *
 * Who is away for longer than TP_AWAY_MAX_NS is owed nothing. Nor is who waited for its turn, for room in the TX vector, or for what its rate allows. The shares of a group have one
 * account: the group was away only if all of them were.
 *
 * Called by turn.c and brief_priv.h, on the engine's thread.
 */
#ifndef UROCE_TP_OWED_H
#define UROCE_TP_OWED_H

#include "transport/core/types_priv.h"

static inline struct share_owed *
owed_account(struct share *s)
{
	return unlikely(s->group != NULL) ? &s->group->owed : &s->owed;
}

/** @return whether another share of its group waits for a turn. */
static inline bool
owed_others_wait(const struct share *s)
{
	const struct share_group *g = s->group;

	return g != NULL && ((g->first != NULL && g->first != s) || !TAILQ_EMPTY(&g->queue));
}

/** Credit @p s with its part of what others have used, while it was away for @p ns, until all had used @p cost. */
static inline void
owed_credit(const struct transport *tp, const struct share *s, struct share_owed *o, uint64_t ns, uint64_t cost)
{
	uint64_t others, competing;

	if (ns > TP_AWAY_MAX_NS || o->worked_ns == 0) {
		o->cost = 0;
		return;
	}
	if (s->rate != NULL || owed_others_wait(s))
		return;
	/* If only one of the others was there, what it used is an estimate. It is no more than the time. */
	others = RTE_MIN(cost - o->worked_cost, ns * TP_COST_PER_NS);
	competing = RTE_MAX(tp->nb_competing, 2u) - 1;
	o->cost += (int64_t)(others * s->weight / (s->weight + competing * SHARE_WEIGHT_USUAL));
	o->cost = RTE_MIN(o->cost, (int64_t)TP_OWED_MAX);
}

/**
 * @p s had its turn.
 * @param cost  What all had used before.
 * @param worked  It has done something, or would have if there had been room.
 * @param rests  It has nothing, or nothing more, to do.
 */
static inline void
owed_turn(const struct transport *tp, struct share *s, uint64_t cost, bool worked, bool rests)
{
	struct share_owed *o = owed_account(s);
	uint64_t ns = tp->now_ns - o->worked_ns;

	if (worked) {
		if (unlikely(ns >= TP_AWAY_NS) && s->rested)
			owed_credit(tp, s, o, ns, cost);
		o->worked_ns = tp->now_ns;
		o->worked_cost = tp->cost;
	}
	/* If it did nothing, but perhaps only since the turn was over before, it may still rest. */
	s->rested = rests || (s->rested && !worked);
}

/** @p s has used up its deficit: give it another @p quantum, if it is owed one. @return false: it isn't, or it had enough in this round. */
static inline bool
owed_spend(struct share *s, int64_t quantum)
{
	struct share_owed *o = owed_account(s);

	if (likely(o->cost <= 0) || s->on != SHARE_BACKLOG || o->quanta == TP_OWED_QUANTA)
		return false;
	o->quanta++;
	o->cost -= quantum;
	o->paid += quantum;
	s->deficit += quantum;
	return s->deficit > 0;
}

/** @p s has nothing to do. */
static inline void
owed_idle(struct share *s)
{
	owed_account(s)->paid = 0;
}

/** The round is over for @p s: it goes to the end of the backlog. Not if there was no room, or the transport's turn was over: then it keeps its place. */
static inline void
owed_round(struct share *s)
{
	owed_account(s)->quanta = 0;
}

/** @p s has used @p cost, and has nothing more to do. @return what others may use until it has used that again. */
static inline uint64_t
owed_others(struct share *s, uint64_t cost)
{
	struct share_owed *o = owed_account(s);
	uint64_t others = cost / (TP_OWED_QUANTA + 1);
	int64_t more = (int64_t)(cost - others) - o->paid;

	o->paid = 0;
	if (likely(o->cost <= 0))
		return cost;
	o->cost -= RTE_MAX(more, INT64_C(0));
	return others;
}

#endif /* UROCE_TP_OWED_H */
