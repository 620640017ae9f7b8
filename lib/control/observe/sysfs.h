/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The files that programs look for in /sys/class/infiniband and /dev/infiniband, as plain files next to the
 * socket: FILE.sys/sys/class/infiniband and FILE.sys/dev/infiniband for socket FILE. lib/verbs/sysfs_paths.c redirects
 * programs that run under uroce-run --sysfs.
 *
 * Owns: that directory, from the socket's publication to its removal. If it can't be written the log has a warning
 * only, since most programs don't need it. Called by: lib/uroce, events.c. Thread: control.
 */
#ifndef UROCE_SYSFS_H
#define UROCE_SYSFS_H

#include <stdint.h>
#include <sys/types.h>

struct control;

/** Write the files of all ports, and remove what an earlier daemon left there. */
void sysfs_write(struct control *c);
/** Write the files that depend on the link of port @p port. */
void sysfs_write_link(const struct control *c, uint16_t port);
/** Write those of some GIDs of port @p port. @param indices  A bit for each. */
void sysfs_write_gids(const struct control *c, uint16_t port, uint32_t indices);
/** Remove all files, if they were written. */
void sysfs_remove(struct control *c);
/** Let @p uid and @p gid write the files that depend on links and addresses: the control thread will be that user. */
void sysfs_give(const struct control *c, uid_t uid, gid_t gid);
/**
 * [any] Remove folder @p name below @p at and all that is in it, without following links: whoever may write in there can't lead us elsewhere.
 * @return 0 or an errno value.
 */
int sysfs_remove_tree(int at, const char *name);

#endif /* UROCE_SYSFS_H */
