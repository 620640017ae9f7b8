/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The user as whom the daemon runs once everything that needs root is done.
 *
 * Owns nothing. Called by: main.c, broker.c. Thread: main.
 */
#ifndef UROCED_IDENTITY_H
#define UROCED_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define IDENTITY_DEFAULT_USER "uroce"

struct identity {
	bool drop;     /**< there is something to give up: to be root, or as another user capabilities that a service manager gave */
	bool change;   /**< the daemon becomes this user; else it is this user already */
	char name[64]; /**< of the user, for its groups; only with change */
	uid_t uid;
	gid_t gid;
};

/**
 * Find out who the daemon will be.
 * @param user  daemon.user: a name or number; "": IDENTITY_DEFAULT_USER if there is such a user.
 * @param err  Gets what was wrong, or if 0 is returned what the administrator should know, or "".
 * @return 0; -1: there is no such user, or only root could become that user.
 */
int identity_find(const char *user, struct identity *id, char *err, size_t err_bytes);

/**
 * Become that user in all threads of the process, with no capability left. Needs /proc.
 * @return 0 or an errno value.
 */
int identity_take(const struct identity *id);

/**
 * Become that user in a process that has one thread, but keep some capabilities, which nothing that it executes would have.
 * @param caps  A bit per capability, 1 << CAP_...; those that the process hasn't got are left out.
 * @return 0 or an errno value.
 */
int identity_take_keeping(const struct identity *id, unsigned long long caps);

#endif /* UROCED_IDENTITY_H */
