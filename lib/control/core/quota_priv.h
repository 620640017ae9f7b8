/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What one program and one user may have: QPs, CQs, MRs, registered bytes, connections per second.
 *
 * Owns: struct user, one for each uid that has sessions (that of the socket's peer, which the kernel vouches for). Limits
 * stand in the configuration, 0 is none, and hold for everybody alike but for an application that has the stack in itself;
 * they come before those of the whole daemon. What is refused fails as it would where memory is short, and the log says who
 * wanted too much and which key allows more. Called by: lib/control. Thread: control.
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
	bool told; /**< the log has said that it has as many sessions as it may */
};

/** @return the user, one session more, or NULL: no memory. */
struct user *quota_enter(struct control *c, uid_t uid);
/** A session less. */
void quota_leave(struct user *u);
/** May this user have the session that it has entered with? If not the log says so, once. */
bool quota_session(const struct control *c, struct user *u);
/** May @p s have another object? @param name  Of such objects. @return 0 or ENOMEM with the request failed. */
int quota_object(struct session *s, enum obj_type type, const char *name, struct request *r);
/** May @p s register @p bytes more, when @p less go? @return 0 or ENOMEM with the request failed. */
int quota_register(struct session *s, uint64_t bytes, uint64_t less, struct request *r);
/** It did, or let go of some. */
void quota_registered(struct session *s, uint64_t bytes, uint64_t less);
/** May @p s ask for a connection now? Counts it. @return 0 or EAGAIN with the request failed. */
int quota_connect(struct session *s, struct request *r);

#endif /* UROCE_QUOTA_H */
