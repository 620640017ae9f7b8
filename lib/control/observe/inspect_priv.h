/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What inspect.c and inspect_qp.c share: references to objects, valid while control_lock() is held; and the functions
 * that the rest of lib/control uses.
 *
 * Thread: any that holds control_lock().
 */
#ifndef UROCE_INSPECT_PRIV_H
#define UROCE_INSPECT_PRIV_H

#include "control/core/session_priv.h"
#include "control/observe/inspect.h"

struct inspect_ref {
	uint64_t number;
	struct session *session;
	void *obj;
};
struct inspect_refs {
	struct inspect_ref *ref; /**< freed by the caller */
	uint32_t n, room;
	uint32_t all; /**< how many there are */
};

/**
 * Find objects: the first @p most of them, in ascending order; if memory runs out, not all of them.
 * Pages of a long list cost no more than a look at each object that is left: only those of the page are sorted.
 */
void inspect_find(struct control *c, enum inspect_kind kind, const struct inspect_filter *f, uint32_t most, struct inspect_refs *r);
/** @return the QP, CQ or MR with that number, or NULL. @param owner  Receives its session. */
void *inspect_find_one(struct control *c, enum inspect_kind kind, uint64_t number, struct session **owner);

/** Measure the load of the engines since the last call. */
void inspect_tick(struct control *c);

#endif /* UROCE_INSPECT_PRIV_H */
