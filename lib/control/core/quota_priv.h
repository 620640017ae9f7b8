/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a program and a user may have at most: the kinds of CONFIG_QUOTAS, sessions, connections per second.
 *
 * Owns: struct user, one for each user that has sessions. A user is the uid of the socket's peer according to the kernel; if that
 * is one of somebody's subordinate ids, it is his (subuid_priv.h). Limits come from the configuration (0: none). Those of a
 * user don't apply to root, unless daemon.limit_root is on; none apply to sessions of the process itself. A request beyond a
 * limit fails like one for lack of memory; its message and the log name the key that raises the limit. Called by: all of
 * lib/control. Thread: control, or another one that holds control_lock().
 */
#ifndef UROCE_QUOTA_H
#define UROCE_QUOTA_H

#include "control/core/session_priv.h"

/** What a user has of a kind never exceeds this, also where there is no limit. So no sum wraps. */
#define QUOTA_MOST ((uint64_t)INT64_MAX)

struct user {
	LIST_ENTRY(user) link;
	uid_t uid;
	uint32_t sessions;
	uint64_t used[QUOTAS];
	uint32_t opening; /**< files open for MRs that are being made */
	struct limit_rate connects;
	uint32_t logged;     /**< a bit for each kind of which the log has said that the user has reached its limit */
	bool logged_session; /**< the same for sessions */
	struct share_group groups[UROCE_MAX_ENGINES]; /**< of its sessions' shares, for each engine */
	struct share_rate rates[CONFIG_MAX_SHARES]; /**< what the user may send by each section [share ...] */
};

/** Count a session of @p uid. @return its user, or NULL: no memory. */
struct user *quota_enter(struct control *c, uid_t uid);
/** Uncount a session; the user is freed with its last one. NULL is ignored. */
void quota_leave(struct user *u);
/**
 * Check whether the user of @p s, its newest session, may have one more, and charge what it costs the daemon.
 * @return 0, or EMFILE, with @p r failed.
 */
int quota_session(struct session *s, struct request *r);
/**
 * Charge @p s with @p n of a kind, in pieces or bytes.
 * @param r  Fails if that is too much; may be NULL.
 * @return 0, or ENOMEM: nothing was charged.
 */
int quota_take(struct session *s, enum quota kind, uint64_t n, struct request *r);
/** Charge without a check: for what can't be refused any more. */
void quota_charge(struct session *s, enum quota kind, uint64_t n);
/** Give back what was charged. */
void quota_give(struct session *s, enum quota kind, uint64_t n);
/** @return true if quota_take() of @p n would succeed. */
bool quota_fits(const struct session *s, enum quota kind, uint64_t n);
/** Move what was charged to @p from to @p to, without a check. */
void quota_move(struct session *from, struct session *to, enum quota kind, uint64_t n);
/** @return the configuration key of a kind without its prefix session_ or user_. */
const char *quota_key(enum quota kind);
/** Check whether @p s may connect now, and count it. @return 0, or EAGAIN, with @p r failed. */
int quota_connect(struct session *s, struct request *r);

#endif /* UROCE_QUOTA_H */
