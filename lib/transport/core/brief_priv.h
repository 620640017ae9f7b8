/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Brief turns: the transport's turn ends early while a share, or the control thread, will soon want something again.
 *
 * A program that waits for completions before it posts more, as all do that have a bounded number of messages under way, uses little in a turn and has nothing more
 * to do until the turn's end. If the others could then fill the turn, they would get most of the time. So what a share has used when it had nothing more to do is
 * the quantum of the others for a while, within limits, and the turn is over when each has used it. The transport remembers the last two, so that none makes its
 * own turns brief.
 *
 * Called by turn.c and rx_wait.c, on the engine's thread.
 */
#ifndef UROCE_TP_BRIEF_H
#define UROCE_TP_BRIEF_H

#include "transport/core/owed_priv.h"

/** @return which of light[] counts for @p s: the last one that isn't @p s. */
static inline unsigned int
brief_other(const struct transport *tp, const struct share *s)
{
	return tp->light[0].share == s;
}

/** @return whether turns of @p s have to be brief: another share will want one soon. */
static inline bool
turns_are_brief(const struct transport *tp, const struct share *s)
{
	const struct tp_light *l = &tp->light[brief_other(tp, s)];

	return l->share != NULL && tp->now_ns < l->until_ns;
}

/** @return what @p s gets in each round. */
static inline int64_t
quantum_of(const struct transport *tp, const struct share *s, bool brief)
{
	uint32_t cost = tp->light[brief_other(tp, s)].cost;

	return brief ? RTE_MAX(s->quantum * cost / TP_SHARE_QUANTUM, INT64_C(1)) : s->quantum;
}

/** @p s, or the control thread if it is &tp->control, will want a turn within @p ns. @param cost  What others get meanwhile. */
static inline void
note_light(struct transport *tp, const struct share *s, uint64_t cost, uint64_t ns)
{
	cost = RTE_MAX(cost, (uint64_t)TP_SHARE_QUANTUM / TP_BRIEF);
	if (tp->light[0].share != s)
		tp->light[1] = tp->light[0];
	tp->light[0] = (struct tp_light){ .share = s, .until_ns = tp->now_ns + ns, .cost = (uint32_t)RTE_MIN(cost, (uint64_t)TP_SHARE_QUANTUM) };
}

/** A share has had its turn and has nothing more to do. */
static inline void
note_emptied(struct transport *tp, struct share *s)
{
	uint64_t cost = s->stats.cost - s->emptied_cost;

	s->emptied_cost = s->stats.cost;
	if (cost <= TP_COST_LOOK)
		return;
	note_light(tp, s, owed_others(s, cost), TP_LIGHT_NS);
	if (cost < TP_SHARE_QUANTUM / TP_LIGHT_OF)
		s->light_ns = tp->now_ns;
}

/** It had nothing to do in its turn. */
static inline void
note_idle(struct share *s)
{
	s->emptied_cost = s->stats.cost;
	owed_idle(s);
}

/** A share used @p cost in a turn, and perhaps would have used more if it hadn't been brief. */
static inline void
note_cut(struct transport *tp, const struct share *s, bool brief, uint64_t cost)
{
	if (brief && cost >= (uint64_t)quantum_of(tp, s, true))
		tp->brief_ns = tp->now_ns;
}

#endif /* UROCE_TP_BRIEF_H */
