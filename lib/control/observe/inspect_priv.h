/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What inspect.c and inspect_qp.c share: references to objects, good as long as control_lock() is held. And what the rest of
 * lib/control needs of them.
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
	struct inspect_ref *ref; /**< the caller's to free */
	uint32_t n, room;
};

/** Find objects, ascending; with too little memory not all of them. */
void inspect_find(struct control *c, enum inspect_kind kind, const struct inspect_filter *f, struct inspect_refs *r);
/** @return the object with that number (of QPs, CQs, MRs), or NULL. @param owner  Gets its session. */
void *inspect_find_one(struct control *c, enum inspect_kind kind, uint64_t number, struct session **owner);

/** Note how busy engines have been since the last call. */
void inspect_tick(struct control *c);

#endif /* UROCE_INSPECT_PRIV_H */
