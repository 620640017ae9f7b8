/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Access to a program's memory by system calls on its /proc/PID/mem. They may block for as long as a page fault there does.
 * Included only in lib/mem. Thread: any that may block.
 */
#ifndef UROCE_MEM_REMOTE_PRIV_H
#define UROCE_MEM_REMOTE_PRIV_H

#include <stddef.h>
#include <stdint.h>

/** @return 0, or EFAULT: the memory isn't there. */
int remote_read(int fd, uint64_t va, uint8_t *dst, size_t len);
int remote_write(int fd, uint64_t va, const uint8_t *src, size_t len);
/**
 * Write the end of a transfer, @p len not 0: by two system calls, because the kernel doesn't define the order within one.
 * @return as remote_write().
 */
int remote_write_tail_last(int fd, uint64_t va, const uint8_t *src, size_t len);

#endif /* UROCE_MEM_REMOTE_PRIV_H */
