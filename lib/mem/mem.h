/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory regions: keys, access checks, address translation, and copying bytes to and from a program's memory. Memory
 * windows are in mw.h.
 *
 * Owns: the key table and the MRs in it. The control thread creates and destroys them; engines look them up and copy
 * under RCU (each engine reports a quiescent state every turn), so a pointer from mr_get() is valid until the end of
 * the engine's turn and no longer. mr_destroy() returns after the grace period: then no engine uses the region, its
 * keys are stale, and the program may unmap the memory.
 *
 * An MR is a list of segments in ascending address order without gaps. A segment is either mapped into this process
 * (host pointer) or remote. A remote one is accessed by pread and pwrite on the program's /proc/PID/mem. The program
 * opened that descriptor itself, so it remains bound to that program's memory even if its pid is reused. A null MR has no
 * segments: it reads as zeros and drops what is written, at any address.
 *
 * Threads: functions marked [control] by the control thread only, [engine] by any engine lcore.
 */
#ifndef UROCE_MEM_H
#define UROCE_MEM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/gen_table.h"
#include "base/rcu.h"
#include "ring/abi.h"

/** Gives access to the remote segments of a session. Must outlive all MRs that refer to it. */
struct mem_owner {
	struct copier_lane *lane; /**< who copies (copier.h); NULL: nobody does */
	int mem_fd;      /**< /proc/PID/mem of the program, or -1 */
	_Atomic uint32_t dead; /**< set when an access failed, because the program has ended or unmapped its memory */
};

/** One piece of an MR. */
struct mem_seg {
	uint64_t va;     /**< in the program's address space */
	uint64_t length; /**< bytes */
	uint8_t *host;   /**< its mapping here, or NULL: remote */
};

/** A key that no MR can have: its index is beyond every table. In the table it marks memory windows (mw.h). */
#define MR_KEY_NONE UINT32_MAX
/** mr.nb_windows of an MR to which no window may be bound any more. */
#define MR_RETIRED UINT32_MAX

/** A memory region. Read-only once published, except for nb_windows. */
struct mr {
	uint32_t key;     /**< lkey and rkey: index << 8 | variant */
	uint32_t pd;
	uint32_t access;  /**< UROCE_ACCESS_* */
	uint32_t nb_segs;
	uint64_t iova;    /**< address that WRs and peers use for the first byte */
	uint64_t length;
	uint64_t addr;    /**< the program's own address of the first byte */
	uint8_t *host;    /**< the first byte, if the whole region is mapped in one piece, else NULL */
	struct mem_owner *owner;
	struct mem_seg *segs;
	/** Called after the grace period by mr_destroy(); may be NULL. */
	void (*release)(struct mr *mr, void *arg);
	void *release_arg;
	_Atomic uint32_t nb_windows; /**< number of windows bound to it; MR_RETIRED: no window may be bound */
	bool null;        /**< there is no memory; length is the largest there is, host is NULL */
};

/** Maps keys to MRs. Engines only call gen_table_get(); the control thread does the rest. */
struct mw_note;
struct mr_table {
	struct rte_rcu_qsbr *qsbr;
	struct mw_note *notes; /**< mw_keep(), or NULL */
	struct gen_table keys; /**< MRs and windows by index; the low byte of a key is the low byte of its generation */
};

/**
 * [control] Create a key table.
 * @param max_mr  Limit for the number of MRs, at most UROCE_MAX_MR.
 * @param qsbr  The RCU variable that engines report to; NULL for a single-threaded user (tests, simulation).
 * @param secret  Makes keys random, see gen_table_init(); NULL: they begin at 1.
 * @return the table, or NULL with errno set.
 */
struct mr_table *mr_table_create(uint32_t max_mr, struct rte_rcu_qsbr *qsbr, const struct secret *secret);
/** [control] Free the table, which must have no MRs left. */
void mr_table_destroy(struct mr_table *t);
/** [control] @return the number of MRs and windows in the table. */
uint32_t mr_table_count(const struct mr_table *t);

/** Parameters of mr_create(). */
struct mr_params {
	uint32_t pd;
	uint32_t access;
	uint64_t addr, length, iova;
	const struct mem_seg *segs; /**< copied */
	uint32_t nb_segs;           /**< 0 only if length is 0 */
	struct mem_owner *owner;
	void (*release)(struct mr *mr, void *arg);
	void *release_arg;
	struct mr *replaces;        /**< the new MR takes over this one's key; NULL: it gets a new key */
	uint32_t key;               /**< that the MR had in another table; 0: it gets a new one, or that of @c replaces */
	bool null;                  /**< a null MR: access is UROCE_ACCESS_LOCAL_WRITE, and only pd counts beside */
};
/**
 * [control] Check, create and publish an MR. If it replaces another one, that is released before this returns.
 * @return 0; EINVAL (segments don't cover the range exactly, range wraps, unknown access bits, remote write or atomic
 * without local write, a null MR with anything else); ENOMEM (no key left: table full); EEXIST (the key is in use, or can't be one); EBUSY (windows are bound to the MR to be replaced, which
 * remains).
 */
int mr_create(struct mr_table *t, const struct mr_params *p, struct mr **out);
/**
 * [control] Call before mr_destroy() if windows may be bound: keeps further windows from being bound.
 * @return false: a window is bound, the MR must remain.
 */
bool mr_retire(struct mr *mr);
/** [control] Unpublish an MR, wait until no engine can use it, release it. No window may be bound to it. */
void mr_destroy(struct mr_table *t, struct mr *mr);
/** [control] As mr_destroy(), for several MRs with a single grace period. */
void mr_destroy_bulk(struct mr_table *t, struct mr **mrs, uint32_t n);

/**
 * [engine] Find the MR of a key. The pointer is valid until the engine's next quiescent state.
 * @return NULL if the key is unknown or stale.
 */
static inline struct mr *
mr_get(const struct mr_table *t, uint32_t key)
{
	struct mr *mr = gen_table_get(&t->keys, key >> 8);

	if (__builtin_expect(mr == NULL || mr->key != key, 0))
		return NULL;
	return mr;
}

/**
 * [engine] mr_get() and all checks: PD, access bits, [va, va + len) inside the region without wrap.
 * @param access  Bits that must all be granted (0: local read).
 * @param len  May be 0; va must still be inside or at the end.
 * @return the MR or NULL.
 */
static inline struct mr *
mr_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t access, uint64_t va, uint64_t len)
{
	struct mr *mr = mr_get(t, key);
	uint64_t off;

	if (mr == NULL || mr->pd != pd || (mr->access & access) != access)
		return NULL;
	/* An address below the region gives an offset beyond its end: iova + length doesn't wrap. */
	off = va - mr->iova;
	if (off > mr->length || len > mr->length - off)
		return mr->null ? mr : NULL; /* where there is no memory, no address is wrong, not even beyond 2^64 */
	return mr;
}

/** Largest copy that is done without calling memcpy(). */
#define MEM_COPY_INLINE_BYTES 64

/**
 * Copy bytes. Small sizes are copied without a call, as two pieces of fixed size that overlap in the middle. An aligned 8-byte copy is
 * always one load and one store of 8 bytes. Regions of a program that overlap, between which it has bytes moved by a QP of this host, get some
 * mixture of what was there before, as from a NIC.
 */
static inline void
mem_copy(void *dst, const void *src, size_t len)
{
	uint8_t *d = dst;
	const uint8_t *s = src;

	if (len == 8) {
		memmove(d, s, 8);
	} else if (__builtin_expect(len > MEM_COPY_INLINE_BYTES, 0)) {
		/* With glibc the same code as memcpy(), which isn't defined for regions that overlap. */
		memmove(d, s, len);
	} else if (len >= 32) {
		memmove(d, s, 16);
		memmove(d + 16, s + 16, 16);
		memmove(d + len - 32, s + len - 32, 16);
		memmove(d + len - 16, s + len - 16, 16);
	} else if (len >= 16) {
		memmove(d, s, 16);
		memmove(d + len - 16, s + len - 16, 16);
	} else if (len > 8) {
		memmove(d, s, 8);
		memmove(d + len - 8, s + len - 8, 8);
	} else if (len >= 4) {
		memmove(d, s, 4);
		memmove(d + len - 4, s + len - 4, 4);
	} else if (len >= 2) {
		memmove(d, s, 2);
		memmove(d + len - 2, s + len - 2, 2);
	} else if (len == 1) {
		*d = *s;
	}
}

/**
 * @return how many of the last bytes before @p end can be written by one store: the largest power of two, at most 8, to
 * which @p end is aligned and which isn't larger than @p len (not 0).
 */
static inline size_t
mem_tail_bytes(uintptr_t end, size_t len)
{
	size_t tail = (size_t)1 << __builtin_ctzll(end | 8);

	while (tail > len)
		tail >>= 1;
	return tail;
}

/**
 * Copy into memory that a program polls: the tail is written last, by one store with release order. Nothing outside
 * [dst, dst + len) is written.
 */
static inline void
mem_copy_tail_last(void *dst, const void *src, size_t len)
{
	uint8_t *d = dst;
	const uint8_t *s = src;
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;
	size_t tail, body;

	if (len == 0)
		return;
	tail = __builtin_expect(len == 8 && (uintptr_t)d % 8 == 0, 1) ? 8 : mem_tail_bytes((uintptr_t)d + len, len);
	body = len - tail;
	if (body > 0)
		mem_copy(d, s, body);
	d += body;
	s += body;
	switch (tail) {
	case 8:
		memcpy(&v64, s, 8);
		atomic_store_explicit((_Atomic uint64_t *)d, v64, memory_order_release);
		break;
	case 4:
		memcpy(&v32, s, 4);
		atomic_store_explicit((_Atomic uint32_t *)d, v32, memory_order_release);
		break;
	case 2:
		memcpy(&v16, s, 2);
		atomic_store_explicit((_Atomic uint16_t *)d, v16, memory_order_release);
		break;
	default:
		atomic_store_explicit((_Atomic uint8_t *)d, *s, memory_order_release);
		break;
	}
}

/**
 * [engine] @return whether any byte of [va, va + len), which mr_check() has approved, is in a remote segment. Then mr_read(), mr_write()
 * and mr_atomic() make system calls that the program can make last for ever; job.h says what to do instead.
 */
bool mr_is_remote(const struct mr *mr, uint64_t va, uint64_t len);
/** [engine] mr_read() for a region that isn't mapped in one piece. */
int mr_read_segs(struct mr *mr, uint64_t va, void *dst, size_t len);
/** [engine] mr_write() for a region that isn't mapped in one piece. */
int mr_write_segs(struct mr *mr, uint64_t va, const void *src, size_t len);

/**
 * [engine] Copy @p len bytes at @p va of the region, which mr_check() has approved, to @p dst.
 * @return 0, or EFAULT if the program's memory is no longer there.
 */
static inline int
mr_read(struct mr *mr, uint64_t va, void *dst, size_t len)
{
	if (__builtin_expect(mr->host == NULL, 0))
		return mr_read_segs(mr, va, dst, len);
	mem_copy(dst, mr->host + (va - mr->iova), len);
	return 0;
}

/**
 * [engine] Copy @p len bytes from @p src to @p va of the region, which mr_check() has approved. The last bytes, up to
 * eight, become visible after all others (release order), because programs poll the last byte.
 * @return 0, or EFAULT.
 */
static inline int
mr_write(struct mr *mr, uint64_t va, const void *src, size_t len)
{
	if (__builtin_expect(mr->host == NULL, 0))
		return mr_write_segs(mr, va, src, len);
	mem_copy_tail_last(mr->host + (va - mr->iova), src, len);
	return 0;
}

/** Atomic operations of mr_atomic(). */
enum mr_atomic_op { MR_CMP_SWAP, MR_FETCH_ADD };

/** @param word  The word at @p va, which mr_check() has approved. @return whether the region is mapped in one piece and the word is aligned in memory. */
static inline bool
mr_word(const struct mr *mr, uint64_t va, _Atomic uint64_t **word)
{
	uintptr_t at = (uintptr_t)mr->host + (va - mr->iova);

	*word = (_Atomic uint64_t *)at;
	return mr->host != NULL && at % sizeof(uint64_t) == 0;
}

/** mr_atomic() on a word that is mapped and aligned. */
static inline void
mem_atomic(_Atomic uint64_t *p, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old)
{
	if (op == MR_FETCH_ADD) {
		*old = atomic_fetch_add(p, arg1);
		return;
	}
	*old = arg1;
	/* If the exchange fails, *old becomes the current value; otherwise it is the compared value, which was the current one. */
	atomic_compare_exchange_strong(p, old, arg2);
}

/** The same, if @p va is such a word. @return false: it isn't, and nothing was done. */
static inline bool
mr_atomic_mapped(const struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old)
{
	_Atomic uint64_t *p;

	if (__builtin_expect(!mr_word(mr, va, &p), 0))
		return false;
	mem_atomic(p, op, arg1, arg2, old);
	return true;
}

/**
 * [engine] 64-bit atomic at @p va (8-byte aligned, checked by the caller), in host byte order. On mapped memory it is a
 * locked instruction, atomic with respect to every CPU; on remote memory it is atomic among engines only. The latter
 * also applies if the operand is unaligned in memory, because the iova isn't congruent to the program's address: a
 * locked instruction across a cache line would stall every core of the machine.
 * @param arg1  CMP_SWAP: compare; FETCH_ADD: addend.
 * @param arg2  CMP_SWAP: swap.
 * @param old  Receives the previous value.
 * @return 0, or EFAULT.
 */
int mr_atomic(struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old);

#endif /* UROCE_MEM_H */
