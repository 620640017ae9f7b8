/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Converting private anonymous memory into shared memory, in place, while the program runs.
 *
 * A range of whole pages is write-protected (userfaultfd), copied into the session's memfd, and the memfd is mapped
 * over it: the program sees the same bytes at the same addresses, and the daemon can map them too. A thread that writes
 * to the range meanwhile, in user or kernel mode, waits in the kernel until the new mapping is there; no store is lost.
 *
 * The calling thread converts a small range if its stack isn't in it. For a large range there is a thread of ours whose
 * stack is shared memory. So nothing that the work needs is write-protected by it; it allocates nothing and blocks all
 * signals.
 *
 * Converted memory stays converted, even after ibv_dereg_mr() and free(). For the program it is memory like any other,
 * except that fork() shares it (fork.c gives the child a copy) and that MADV_DONTNEED doesn't zero it. Offsets in the
 * memfd grow and are never reused, because mremap() may have moved what was there. mem_file_collect() frees memory of
 * the memfd that is no longer mapped.
 *
 * Not detected and not handled: pages that the kernel holds for others (with O_DIRECT or io_uring in progress on them),
 * which continue to use the old page; waiters on process-shared futexes in the range; mlock() and NUMA policy of the
 * range, which are not carried over; mremap() that makes converted memory more than twice as long, or that takes it
 * together with memory that isn't converted (EFAULT).
 *
 * Owns: the userfaultfd, the thread. One of each per process. Threads: any; one conversion at a time.
 */
#ifndef UROCE_CLIENT_CONVERT_H
#define UROCE_CLIENT_CONVERT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/maps.h"

/** Bytes [start, start + bytes) of a memfd. */
struct mem_extent {
	uint64_t start, bytes;
};

/** A session's memfd for converted memory. */
struct mem_file {
	int fd;
	uint32_t dev_major, dev_minor; /**< as shown in /proc/self/maps */
	uint64_t inode;
	uint64_t bytes;         /**< its size */
	uint64_t next;          /**< offset for the next conversion */
	uint64_t since_collect; /**< bytes converted since the last collection */
	uint64_t ranges_since_collect; /**< and ranges; those that were refused because there are too many mappings are counted too */
	uint64_t nb_mappings;      /**< of the process at the last collection */
	struct mem_extent *unused; /**< not mapped at the last collection */
	size_t nb_unused;
};

/** Collect after so much was converted, or after as many ranges as there are mappings to look at, within these limits. */
#define MEM_FILE_COLLECT_BYTES (UINT64_C(64) << 20)
#define MEM_FILE_COLLECT_LEAST_RANGES 256
#define MEM_FILE_COLLECT_MOST_RANGES 4096

/**
 * @param fd  The memfd; taken over if 0 is returned.
 * @return 0 or an errno value.
 */
int mem_file_init(struct mem_file *f, int fd, uint64_t bytes);
/** Close it. Converted memory remains as it is, and fork.c still recognises it. */
void mem_file_fini(struct mem_file *f);
/** @return true if a mapping is a shared mapping of this memfd. */
bool mem_file_is(const struct mem_file *f, const struct map_entry *e);

/**
 * Prepare the process for conversions. Further calls have no effect.
 * @param uffd_dev  Open /dev/userfaultfd, or -1 to use what the program has a right to: userfaultfd(2), or that device.
 *                  Remains the caller's.
 * @return 0, or an errno value: then memory is converted only while the process has no other thread that could write to it.
 */
int convert_setup(int uffd_dev);

/** @return whether nobody, the kernel included, can write to memory while it is converted. */
bool convert_is_protected(void);

/**
 * Convert [start, end): whole pages, private anonymous, readable, all of one mapping with protection @p prot.
 * Thread-safe.
 * @return 0, or an errno value; what was converted before stays so, the rest is unchanged. ENOSPC for a small range: the process has so many
 * mappings that it soon couldn't make others.
 */
int convert_range(struct mem_file *f, uint64_t start, uint64_t end, int prot);

/**
 * Map new memory of the memfd, zeroes, readable and writable; munmap() it at the end. Thread-safe.
 * @param bytes  Whole pages.
 * @return NULL: there is none left.
 */
void *mem_file_map(struct mem_file *f, uint64_t bytes);

/** Free memory of the memfd that was unmapped both at this collection and at the previous one. */
void mem_file_collect(struct mem_file *f);
/** @return whether it is time for that. */
bool mem_file_is_due(const struct mem_file *f);

/** @return bytes converted in this process so far, in all files. */
uint64_t convert_total(void);
/** Free nothing from now on: a child reads the parent's memfd. */
void convert_pin_files(void);

/* For fork.c. */
/** @return true if a mapping is of a memfd that was closed. */
bool convert_is_retired(const struct map_entry *e);
void convert_fork_lock(void);
void convert_fork_unlock(void);
/** In the child: the thread and the userfaultfd are the parent's. */
void convert_fork_child(void);

#endif /* UROCE_CLIENT_CONVERT_H */
