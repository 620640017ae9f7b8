/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Subordinate user ids: the ranges of /etc/subuid that a user may use in user namespaces (subuid(5)).
 *
 * A user can run programs under any of his subordinate ids (newuidmap, rootless containers). They are his, so limits count
 * them as him, or he would have as many shares as ids.
 *
 * Owns: struct subuids, a copy of the file; it is read when the daemon starts and on SIGHUP, since names have to be looked up,
 * which may take long. Called by: quota.c, control.c, reload.c. Thread: control.
 */
#ifndef UROCE_SUBUID_H
#define UROCE_SUBUID_H

#include <stdint.h>
#include <sys/types.h>

#define SUBUID_FILE "/etc/subuid"
enum { SUBUID_MAX = 65536 /**< ranges that are read at most */ };

struct subuids;

/**
 * Read @p path. Lines that aren't NAME:FIRST:COUNT, or whose user doesn't exist, are ignored, as newuidmap ignores them.
 * @return the ranges; NULL: there are none, or no memory.
 */
struct subuids *subuid_read(const char *path);
/** NULL is ignored. */
void subuid_free(struct subuids *s);
/** @return the user whose subordinate id @p uid is, or @p uid itself. @param s  NULL: there are no ranges. */
uid_t subuid_owner(const struct subuids *s, uid_t uid);

#endif /* UROCE_SUBUID_H */
