/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shares: what each session gets of a transport's time and pools.
 *
 * Owns: struct share, except its place in the schedule (sched_priv.h). Called on the share's engine.
 *
 * Pools: a part of each is reserved. Every share can have the same small part of that at any time, whatever the others hold. Of
 * the rest a share may hold as many items as are left for others (the dynamic threshold of Choudhury and Hahne, as in switches
 * with shared buffers). So a session whose QPs never give anything back, because their peers never answer, leaves at least as much as it
 * has. While nobody has made a share, the transport's own has all.
 *
 * Rates: a bucket is kept as the time at which it would be empty if nothing more were sent (the virtual scheduling algorithm of ITU-T
 * I.371). Several engines may share a bucket, since one atomic word is its whole state.
 */
#ifndef UROCE_TP_SHARE_H
#define UROCE_TP_SHARE_H

#include "transport/core/types_priv.h"

/** Begin the transport's own share and the reserves of its pools, whose sizes are known. */
void shares_init(struct transport *tp);

/** @return whether @p s may take an item of @p pool beyond its part of the reserve. */
static inline bool
share_may_take(const struct transport *tp, const struct share *s, enum tp_pool id, const struct pool *pool)
{
	return tp->nb_shares == 0 || (int64_t)s->held[id] < (int64_t)pool_left(pool) - tp->reserve[id].left;
}

/** @return whether @p s may take an item of @p pool. */
static inline bool
share_may_have(const struct transport *tp, const struct share *s, enum tp_pool id, const struct pool *pool)
{
	return s->held[id] < tp->reserve[id].each || share_may_take(tp, s, id, pool);
}

/** @return how many items of @p pool are left that aren't reserved. */
static inline uint32_t
share_common(const struct transport *tp, enum tp_pool id, const struct pool *pool)
{
	return pool_left(pool) - (tp->nb_shares == 0 ? 0 : RTE_MIN(pool_left(pool), tp->reserve[id].left));
}

/** Lend @p qp an item. @return NULL: none is left for its share (counted). */
static inline void *
share_take(struct transport *tp, struct qp *qp, enum tp_pool id, struct pool *pool)
{
	struct share *s = qp->share;
	bool own = s->held[id] < tp->reserve[id].each;
	void *item = NULL;

	if (likely(own || share_may_take(tp, s, id, pool)))
		item = pool_get(pool);
	if (unlikely(item == NULL)) {
		s->stats.refused++;
		tp->counters.share_refused++;
		return NULL;
	}
	tp->reserve[id].left -= own;
	s->held[id]++;
	return item;
}

/**
 * Lend @p s an item for a QP that had it already, in another transport or before a restart. A share that then had what others have given back
 * since gets it again: limits apply to what is taken from now on. @return NULL: the pool is empty.
 */
static inline void *
share_lend(struct transport *tp, struct share *s, enum tp_pool id, struct pool *pool)
{
	void *item = pool_get(pool);

	if (item == NULL)
		return NULL;
	tp->reserve[id].left -= s->held[id] < tp->reserve[id].each;
	s->held[id]++;
	return item;
}

/** Take back an item that a QP of @p s has. */
static inline void
share_return(struct transport *tp, struct share *s, enum tp_pool id, struct pool *pool, void *item)
{
	UROCE_ASSERT(s->held[id] > 0);
	pool_put(pool, item);
	s->held[id]--;
	tp->reserve[id].left += s->held[id] < tp->reserve[id].each;
}

/** Take back an item that share_take() has lent to @p qp. */
static inline void
share_give(struct transport *tp, struct qp *qp, enum tp_pool id, struct pool *pool, void *item)
{
	share_return(tp, qp->share, id, pool, item);
}

/** Charge @p s with @p cost, for something that isn't done in a turn of a QP. */
static inline void
share_charge_only(struct transport *tp, struct share *s, uint32_t cost)
{
	s->stats.cost += cost;
	tp->cost += cost;
	s->deficit -= cost;
}

/** Charge @p qp and its share with @p cost. */
static inline void
share_charge(struct qp *qp, uint32_t cost)
{
	share_charge_only(qp->tp, qp->share, cost);
	qp->sched.deficit -= (int32_t)cost;
}

/** Account for what the share has sent, if it has a rate. */
void share_rate_charge(struct share *s, uint64_t bytes, uint64_t packets, uint64_t now_ns);
/** @return the time at which the share's rate lets it send again; 0: now. */
uint64_t share_rate_due(const struct share *s, uint64_t now_ns);

/** A QP begins to use @p s, or NULL: the transport's own. */
void share_enter(struct transport *tp, struct qp *qp, struct share *s);
/** It has ended. */
void share_leave(struct qp *qp);
/** Free @p s if it was destroyed, and neither a QP nor a copy uses it any more. */
void share_free_unused(struct transport *tp, struct share *s);

#endif /* UROCE_TP_SHARE_H */
