/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What one program and one user may have: QPs, CQs, MRs, registered bytes, connections per second.
 *
 * Owns: struct user, one for each uid that has sessions (the uid of the socket's peer, as the kernel says it). The
 * limits are those of the configuration, where 0 is none, and don't hold for sessions of the process itself. A
 * request beyond a limit fails like one for which there is no memory, and the log says who wanted too much and which
 * key allows more. Called by: obj, cma, control.c, session_end.c. Thread: control.
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
	bool logged; /**< the log has said that it has as many sessions as it may */
};

/** Count a session of @p uid. @return the user, or NULL: no memory. */
struct user *quota_enter(struct control *c, uid_t uid);
/** Uncount a session; the user is freed with the last one. NULL: does nothing. */
void quota_leave(struct user *u);
/** @return false: the user has too many sessions, the last one included; the log says so once. */
bool quota_session(const struct control *c, struct user *u);
/** May @p s have another object? @param name  Of such objects. @return 0 or ENOMEM with the request failed. */
int quota_object(struct session *s, enum obj_type type, const char *name, struct request *r);
/** May @p s register @p bytes more in place of @p less? @return 0 or ENOMEM with the request failed. */
int quota_register(struct session *s, uint64_t bytes, uint64_t less, struct request *r);
/** Count @p bytes that were registered, and @p less that were deregistered. */
void quota_registered(struct session *s, uint64_t bytes, uint64_t less);
/** May @p s ask for a connection now? Counts it. @return 0 or EAGAIN with the request failed. */
int quota_connect(struct session *s, struct request *r);

#endif /* UROCE_QUOTA_H */
