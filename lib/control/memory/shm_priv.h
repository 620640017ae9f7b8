/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The memory of a session's queues: segments (sealed memfds), divided into blocks.
 *
 * Owns: struct shm, one per session. A segment is mapped by the daemon and by the program, and stays until the session
 * ends; blocks in it are allocated and freed. Small segments are in a hugepage if one is free; large ones use memory
 * only where it is touched. Called by: lib/control. Thread: control; the blocks' contents belong to the engines and the
 * program.
 */
#ifndef UROCE_SHM_H
#define UROCE_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SHM_ALIGN = 64,               /**< of a segment, unless a block is larger; the size of a hugepage */
	SHM_SEGMENT_BYTES = 2 << 20,  /**< of a segment, unless a block is larger; one hugepage */
	SHM_POPULATE_BYTES = 1 << 20, /**< blocks up to this size are touched when allocated, so that engines don't fault */
	SHM_PUNCH_BYTES = 64 << 10,   /**< freed blocks of this size or more return their pages */
	SHM_MAX_SEGMENTS = 4096,
};

struct shm;

/** A block; zeroed when allocated. */
struct shm_block {
	uint32_t segment;
	uint64_t offset;
	uint64_t bytes;
	uint8_t *addr;
};

/**
 * @param max_bytes  Limit for all segments together.
 * @param hugepages  Try to use hugepages.
 * @param victim  Set to 1 if a page can't be provided (memory/sigbus_priv.h).
 * @return NULL with errno set.
 */
struct shm *shm_create(uint64_t max_bytes, bool hugepages, _Atomic uint32_t *victim);
/** Unmap everything; no engine may use a block any more. */
void shm_destroy(struct shm *m);

/** Allocate a block. @return 0; ENOMEM (limit reached, no memory). */
int shm_alloc(struct shm *m, uint64_t bytes, struct shm_block *b);
/** Free a block. A segment that was never announced is unmapped with its last block. */
void shm_free(struct shm *m, const struct shm_block *b);

/**
 * Announce the segment of @p b to the program, once.
 * @param bytes  Receives the segment's size.
 * @return a descriptor of the segment, which the caller sends; -1: it was announced before.
 */
int shm_announce(struct shm *m, const struct shm_block *b, uint64_t *bytes);
/** The same for one that was announced, and not to the program: the daemon before was killed. @return the descriptor. */
int shm_announce_again(const struct shm *m, const struct shm_block *b, uint64_t *bytes);

/** @return how many segments are announced, each of which has a descriptor. @param m  May be NULL. */
uint32_t shm_segments(const struct shm *m);

/** A segment, as the next daemon takes it over. */
struct shm_segment {
	uint32_t number;
	bool huge;
	uint64_t bytes;
	int fd;
};
/** Walk through the announced segments. @param i  0 at first. @return false: there are no more. */
bool shm_segment_look(const struct shm *m, uint32_t *i, struct shm_segment *out);
/** Map a segment of the daemon before, all of it free. @return 0, and @p from->fd is @p m's; ENOMEM; EINVAL: it isn't one. */
int shm_segment_take(struct shm *m, const struct shm_segment *from);
/** Take a block that is in use, contents and all, of a segment from shm_segment_take(). @return 0; EINVAL: there is no such block; ENOMEM. */
int shm_take(struct shm *m, uint32_t segment, uint64_t offset, uint64_t bytes, struct shm_block *b);

/** @return bytes in allocated blocks. */
uint64_t shm_used(const struct shm *m);

/**
 * Create a memfd of @p bytes, sealed so that its size can't change.
 * @param flags  For memfd_create(), in addition to MFD_CLOEXEC and MFD_ALLOW_SEALING.
 * @return its descriptor, or -1 with errno set.
 */
int shm_memfd(const char *name, uint64_t bytes, unsigned int flags);

#endif /* UROCE_SHM_H */
