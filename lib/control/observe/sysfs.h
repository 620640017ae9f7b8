/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What programs look for below /sys/class/infiniband and in /dev/infiniband, as plain files beside the socket: FILE.sys/sys/class/infiniband
 * and FILE.sys/dev/infiniband for socket FILE. lib/verbs/sysfs_paths.c leads programs there that are told to look.
 *
 * Owns: that folder, as long as the socket has its name. A folder that can't be written is a warning, since most programs don't need it.
 * Thread: control.
 */
#ifndef UROCE_SYSFS_H
#define UROCE_SYSFS_H

#include <stdint.h>

struct control;

/** Write the files of all ports; whatever an earlier daemon left there goes. */
void sysfs_write(struct control *c);
/** Write what hangs on the link of port @p port. */
void sysfs_write_link(const struct control *c, uint16_t port);
/** Remove them all, if they were written. */
void sysfs_remove(struct control *c);

#endif /* UROCE_SYSFS_H */
