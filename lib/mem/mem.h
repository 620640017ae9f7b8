/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory regions: keys, access checks, address translation, and the copying of bytes into and out of
 * a program's memory.
 *
 * Owns: the key table and the MRs in it. The control thread creates and destroys; engines look up and copy
 * under RCU (each engine reports a quiescent state every turn), so a pointer that mr_get() gave is good
 * until the end of the engine's turn and never longer. mr_destroy() returns after the grace period: no engine
 * uses the region any more, its keys are stale, and the program may unmap the memory.
 *
 * An MR is a list of segments in ascending address order without gaps. A segment is mapped into this
 * process (host pointer) or remote: reached by pread and pwrite on the program's /proc/PID/mem, whose descriptor the
 * program opened itself, so that it stays bound to that program's memory even if its pid is used again.
 *
 * Threads: functions marked [control] by the control thread only, [engine] by any engine lcore.
 */
#ifndef UROCE_MEM_H
#define UROCE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

struct rte_rcu_qsbr;

/** Where a remote segment's bytes are. One per session; 0 references from MRs when it is destroyed. */
struct mem_owner {
	int mem_fd;      /**< /proc/PID/mem of the program, or -1 */
	uint32_t dead;   /**< set (relaxed atomic) when an access failed because the program is gone or unmapped its memory */
};

/** One piece of an MR. */
struct mem_seg {
	uint64_t va;     /**< in the program's address space */
	uint64_t length; /**< bytes */
	uint8_t *host;   /**< where it is mapped here, or NULL: remote */
};

/** A memory region (or, later, a window onto one). Read-only once published. */
struct mr {
	uint32_t key;     /**< lkey and rkey: index << 8 | variant */
	uint32_t pd;
	uint32_t access;  /**< UROCE_ACCESS_* */
	uint32_t nb_segs;
	uint64_t iova;    /**< address that WRs and peers use for the first byte */
	uint64_t length;
	uint64_t addr;    /**< the program's own address of the first byte */
	uint8_t *host;    /**< if the whole region is mapped in one piece: its first byte, else NULL */
	struct mem_owner *owner;
	struct mem_seg *segs;
	void (*release)(struct mr *mr, void *arg); /**< called at the end of mr_destroy(), after the grace period; may be NULL */
	void *release_arg;
};

struct mr_table;

/**
 * [control] Create a key table.
 * @param max_mr  Most MRs at once, at most UROCE_MAX_MR.
 * @param qsbr  What engines report to; NULL for a single-threaded user (tests, simulation).
 * @return the table, or NULL with errno set.
 */
struct mr_table *mr_table_create(uint32_t max_mr, struct rte_rcu_qsbr *qsbr);
/** [control] All MRs must be gone. */
void mr_table_destroy(struct mr_table *t);
/** [control] @return MRs in the table. */
uint32_t mr_table_count(const struct mr_table *t);

/** What mr_create() needs to know. */
struct mr_params {
	uint32_t pd;
	uint32_t access;
	uint64_t addr, length, iova;
	const struct mem_seg *segs; /**< copied */
	uint32_t nb_segs;           /**< 0 only if length is 0 */
	struct mem_owner *owner;
	void (*release)(struct mr *mr, void *arg);
	void *release_arg;
};
/**
 * [control] Check, create and publish an MR.
 * @return 0; EINVAL (segments don't cover the range exactly, range wraps, unknown access bits, remote write or
 * atomic without local write); ENOMEM (no key left: table full).
 */
int mr_create(struct mr_table *t, const struct mr_params *p, struct mr **out);
/** [control] Unpublish, wait until no engine can use it, release. */
void mr_destroy(struct mr_table *t, struct mr *mr);
/**
 * [control] Like mr_destroy() for many, with one grace period.
 */
void mr_destroy_bulk(struct mr_table *t, struct mr **mrs, uint32_t n);

/**
 * [engine] Find the MR of a key. The pointer is good until the engine's next quiescent state.
 * @return NULL if the key is unknown or stale.
 */
struct mr *mr_get(const struct mr_table *t, uint32_t key);

/**
 * [engine] mr_get() and all checks: PD, access bits, [va, va + len) inside the region without wrap.
 * @param access  Bits that must all be granted (0: local read).
 * @param len  May be 0; va must still be inside or at the end.
 * @return the MR or NULL.
 */
struct mr *mr_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t access, uint64_t va, uint64_t len);

/**
 * [engine] Copy @p len bytes at @p va of the region, which mr_check() has approved, to @p dst.
 * @return 0, or EFAULT if the program's memory is gone.
 */
int mr_read(struct mr *mr, uint64_t va, void *dst, size_t len);

/**
 * [engine] Copy @p len bytes from @p src to @p va of the region.
 * The last up to eight bytes become visible after all others (programs poll the last byte): release order.
 * @return 0, or EFAULT.
 */
int mr_write(struct mr *mr, uint64_t va, const void *src, size_t len);

/** Atomic operations of mr_atomic(). */
enum mr_atomic_op { MR_CMP_SWAP, MR_FETCH_ADD };
/**
 * [engine] 64-bit atomic at @p va (8-byte aligned, checked by the caller), in host byte order.
 * On mapped memory a locked instruction, atomic against every CPU; on remote memory atomic among engines.
 * @param arg1  CMP_SWAP: compare; FETCH_ADD: addend.
 * @param arg2  CMP_SWAP: swap.
 * @param old  Gets the value before.
 * @return 0, or EFAULT.
 */
int mr_atomic(struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old);

#endif /* UROCE_MEM_H */
