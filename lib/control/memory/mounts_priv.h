/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a descriptor or mapping of a program is: asked of the kernel alone, never of the file system, which may be the
 * program's own (FUSE) and not answer.
 *
 * Owns: nothing. Called by: obj, shared.c. Thread: control, or any for what has no session.
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
 * @param proc  A process's directory in /proc, or -1.
 * @param dev  Of a file that is open meanwhile, so that the number can't be given to another file system.
 * @return true if /proc/PID/mountinfo, ours or that of @p proc, says that @p dev is of type @p type.
 */
bool mount_has_type(int proc, dev_t dev, const char *type);

/**
 * Check that @p mem is the file /proc/PID/mem of some process, opened for reading and writing. The kernel has then
 * checked that the program may access that process; whatever else it might be, we must not write to it with our rights.
 * @param proc  The root of the procfs that the program sees, or -1.
 * @param pid   Number of the process there.
 */
bool proc_mem_check(const struct session *s, int mem, int proc, uint32_t pid);
/**
 * Close at once, on any thread: nothing that a program does makes that wait, unlike the close of what else it may send.
 * @param fd  What proc_mem_check() has accepted as @c mem, or proc_is_root() with that.
 * @param uid  Unused; as copier_lane_open() wants it.
 */
void proc_close(int fd, uid_t uid);
/**
 * Other files of a procfs may not be closed at once: the last one that names a mount namespace ends that, with all file systems in it.
 * @return whether @p fd is the root of the procfs that has @p mem, which proc_mem_check() has accepted.
 */
bool proc_is_root(int mem, int fd);

#endif /* UROCE_MOUNTS_H */
