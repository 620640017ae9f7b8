/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Opening a file below a directory that isn't ours: no link leads elsewhere, and no other file system is in between.
 *
 * openat2() does the same in one call, but a filter of system calls can't see its arguments, so systemd (RestrictSUIDSGID=) and others refuse it.
 */
#ifndef UROCE_BENEATH_H
#define UROCE_BENEATH_H

/**
 * Open @p path, below @p dir and in the same mount, for what *at() functions do (O_PATH): nothing is asked of the file's file system.
 * @param dir   A directory.
 * @param path  Relative, at most 255 bytes, without "." and "..".
 * @return a descriptor, or -1 with errno: ELOOP (a link above the last name), EXDEV (a mount), EINVAL (such a @p path), ENOSYS (Linux before 5.8), and those of openat().
 *         If the last name is a link, the descriptor is the link itself.
 */
int open_beneath(int dir, const char *path);

#endif /* UROCE_BENEATH_H */
