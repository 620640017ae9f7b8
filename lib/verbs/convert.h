/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Turning private anonymous memory into shared memory, in place, under a running program.
 *
 * A range of whole pages is write-protected (userfaultfd), copied into the session's memfd, and the memfd is mapped
 * over it: the program sees the same bytes at the same addresses, the daemon can map them too. Who writes meanwhile, in
 * user or kernel mode, waits in the kernel until the new mapping is there; no store is lost.
 *
 * A small range is converted by the calling thread, if its stack isn't in it; a large one by a thread of ours whose stack is
 * shared memory. So nothing that the work touches is write-protected by itself; it allocates nothing and blocks all signals.
 *
 * What is converted stays so, also after ibv_dereg_mr() and free(): to the program it is memory like any other, except
 * that fork() shares it (fork.c gives the child a copy) and that MADV_DONTNEED doesn't zero it. Offsets in the memfd
 * grow and are never used again: mremap() may have moved what once was there. Memory of the memfd that nothing maps any
 * more is given back by mem_file_collect().
 *
 * Not seen and not handled: pages that the kernel holds for others (O_DIRECT or io_uring under way on them), which go
 * on into the old page; waiters on process-shared futexes that lie in the range; mlock() and NUMA policy of the range,
 * which are not carried over; mremap() that makes converted memory more than twice as long, or that takes it together
 * with what wasn't converted (EFAULT).
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

/** Bytes in [start, start + bytes) of a memfd. */
struct mem_extent {
	uint64_t start, bytes;
};

/** A session's memfd for converted memory. */
struct mem_file {
	int fd;
	uint32_t dev_major, dev_minor; /**< what /proc/self/maps shows of it */
	uint64_t inode;
	uint64_t bytes;         /**< its size */
	uint64_t next;          /**< offset for the next conversion */
	uint64_t since_collect; /**< converted since the last look for garbage */
	uint32_t ranges_since_collect;
	struct mem_extent *unused; /**< not mapped at the last look */
	size_t nb_unused;
};

/** Look for garbage each time so much was converted. */
#define MEM_FILE_COLLECT_BYTES (UINT64_C(64) << 20)
#define MEM_FILE_COLLECT_RANGES 256

/**
 * @param fd  The memfd; taken over if 0 is returned.
 * @return 0 or an errno value.
 */
int mem_file_init(struct mem_file *f, int fd, uint64_t bytes);
/** Close it. Memory that was converted stays as it is; fork goes on knowing it. */
void mem_file_fini(struct mem_file *f);
/** True if a mapping is of this memfd, shared. */
bool mem_file_is(const struct mem_file *f, const struct map_entry *e);

/**
 * Make the process able to convert. Later calls change nothing.
 * @param uffd_dev  Open /dev/userfaultfd, or -1 to use userfaultfd(2) (root, tests). Stays the caller's.
 * @return 0, or an errno value: memory must be reached otherwise then.
 */
int convert_setup(int uffd_dev);

/**
 * Convert [start, end): whole pages, private anonymous, readable, all of one mapping of protection @p prot.
 * Thread-safe. @return 0, or an errno value; what was converted until then stays so, the rest is as it was.
 */
int convert_range(struct mem_file *f, uint64_t start, uint64_t end, int prot);

/** Give back memory of the memfd that was unmapped at this look and at the one before. */
void mem_file_collect(struct mem_file *f);

/** Bytes converted in this process so far, in all files. */
uint64_t convert_total(void);
/** From now on nothing is given back: a child reads the parent's memfd. */
void convert_pin_files(void);

/* For fork.c. */
/** True if a mapping is of a memfd that was closed. */
bool convert_is_retired(const struct map_entry *e);
void convert_fork_lock(void);
void convert_fork_unlock(void);
/** In the child: thread and userfaultfd are the parent's. */
void convert_fork_child(void);

#endif /* UROCE_CLIENT_CONVERT_H */
