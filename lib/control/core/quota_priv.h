/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Limits for a program and a user: QPs, CQs, MRs, registered bytes, connections per second.
 *
 * Owns: struct user, one for each uid that has sessions (the uid of the socket's peer according to the kernel). The
 * limits come from the configuration (0: none) and don't apply to sessions of the process itself. A request beyond a
 * limit fails like one for lack of memory, and the log says who wanted too much and which key raises the limit. Called
 * by: obj, cma, control.c, session_end.c. Thread: control.
 */
#ifndef UROCE_QUOTA_H
#define UROCE_QUOTA_H

#include "control/core/session_priv.h"

struct user {
	LIST_ENTRY(user) link;
	uid_t uid;
	uint32_t sessions;
	uint32_t count[OBJ_TYPES];
	uint64_t registered;
	struct limit_rate connects;
	struct share_rate rates[CONFIG_MAX_SHARES]; /**< what the user may send by each section [share ...] */
	bool logged; /**< the log has said that the user has reached its limit of sessions */
};

/** Count a session of @p uid. @return its user, or NULL: no memory. */
struct user *quota_enter(struct control *c, uid_t uid);
/** Uncount a session; the user is freed with its last one. NULL is ignored. */
void quota_leave(struct user *u);
/** @return false if the user has too many sessions, counting the newest; this is logged once. */
bool quota_session(const struct control *c, struct user *u);
/**
 * Check whether @p s may have another object.
 * @param name  Of this type, in the plural.
 * @return 0, or ENOMEM, with @p r failed.
 */
int quota_object(struct session *s, enum obj_type type, const char *name, struct request *r);
/** Check whether @p s may register @p bytes in place of @p less. @return 0, or ENOMEM, with @p r failed. */
int quota_register(struct session *s, uint64_t bytes, uint64_t less, struct request *r);
/** Account for @p bytes that were registered, and @p less that were deregistered. */
void quota_registered(struct session *s, uint64_t bytes, uint64_t less);
/** Check whether @p s may connect now, and count it. @return 0, or EAGAIN, with @p r failed. */
int quota_connect(struct session *s, struct request *r);

#endif /* UROCE_QUOTA_H */
