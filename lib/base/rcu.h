/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory that engines read without a lock, freed after a grace period: when every engine has reported a quiescent state since the
 * memory was unpublished.
 *
 * Owns: what was given to deferred_free() and is not freed yet. Thread: one at a time, the writer's; the readers are those that
 * report to the rte_rcu_qsbr.
 *
 * rte_rcu_qsbr_dq of DPDK is not used: its queue has a fixed size, and an enqueue fails when that is full, but destroying an object must
 * not fail and must not wait. It is also a named ring in EAL's memory, which tests and the simulator do without.
 */
#ifndef UROCE_RCU_H
#define UROCE_RCU_H

#include <stdint.h>

struct rte_rcu_qsbr;

/** Lies inside an object that is freed this way. */
struct deferred {
	struct deferred *next;
	uint64_t token; /**< of the grace period */
};

/** Unpublished objects of one kind, the oldest first. */
struct deferred_list {
	struct rte_rcu_qsbr *qsbr; /**< NULL: there are no concurrent readers */
	void (*free)(struct deferred *d);
	struct deferred *first, *last;
};

/**
 * Wait until every engine that reports to @p qsbr has had a quiescent state since now. Gives the core away while it waits, since an
 * engine may need it. @p qsbr NULL: nothing to wait for.
 */
void rcu_wait(struct rte_rcu_qsbr *qsbr);

/** Free the object of @p d, which no reader finds any more, after a grace period; and those whose grace period is over. */
void deferred_free(struct deferred_list *l, struct deferred *d);
/** Free the objects whose grace period is over. */
void deferred_reap(struct deferred_list *l);
/** Free all objects at once: there are no readers any more. */
void deferred_free_all(struct deferred_list *l);

#endif /* UROCE_RCU_H */
