/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a descriptor or mapping of a program is: asked of the kernel alone, never of the file system, which may be the
 * program's own (FUSE) and not answer.
 *
 * Owns: nothing. Called by: obj, memmap.c. Thread: control.
 */
#ifndef UROCE_MOUNTS_H
#define UROCE_MOUNTS_H

#include "control/core/session_priv.h"

/** Two descriptors with the same dev and ino are of one file, as long as one of them is open. */
struct file_id {
	dev_t dev;
	ino_t ino;
	mode_t mode; /**< its type; the rest is what the file system last said */
};

/** @param name  Below @p fd, or "" for @p fd itself. Links are not followed. @return false: there is no such file. */
bool file_identify(int fd, const char *name, struct file_id *id);

/**
 * @param dev  Of a file that is open meanwhile, so that the number can't be given to another file system.
 * @return true if /proc/PID/mountinfo, ours or that of the session's process, says that @p dev is of type @p type.
 */
bool mount_has_type(const struct session *s, dev_t dev, const char *type);

/**
 * Check that @p mem is the file /proc/PID/mem of some process, opened for reading and writing. The kernel has then
 * checked that the program may access that process; whatever else it might be, we must not write to it with our rights.
 * @param proc  The root of the procfs that the program sees, or -1.
 * @param pid   Number of the process there.
 */
bool proc_mem_check(const struct session *s, int mem, int proc, uint32_t pid);

#endif /* UROCE_MOUNTS_H */
