/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory windows: keys by which peers reach a part of an MR, bound and invalidated by work requests.
 *
 * Owns: struct mw. The control thread allocates and frees windows; engines bind, invalidate and look them up, each
 * within the turn in which it found the window in the key table. A window is in the same table as MRs but has the key
 * MR_KEY_NONE there, so that a look-up of a local key never finds one.
 *
 * An engine may read a window while another one changes it, guarded by a sequence counter that is odd during a change.
 * A reader doesn't wait: during the change the old key is becoming stale and no peer knows the new one yet, so refusing
 * access is right. A writer waits for the few stores of another change.
 *
 * A bound window keeps its MR: mr_retire() fails until the window is bound elsewhere, invalidated or freed.
 *
 * Threads: functions marked [control] by the control thread only, [engine] by any engine lcore.
 */
#ifndef UROCE_MW_H
#define UROCE_MW_H

#include "mem/mem.h"

/** enum ibv_mw_type. */
enum mw_type {
	MW_TYPE_1 = 1, /**< usable by all QPs of the PD */
	MW_TYPE_2 = 2, /**< 2B: usable only by the QP that bound it, which must be in the window's PD */
};

/** The access that a window can grant to a peer. */
#define MW_ACCESS_KNOWN \
	(UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_ZERO_BASED)

/** The parameters of a bind in a WQE. */
struct mw_bind {
	uint32_t key;    /**< the window's index and the new low byte */
	uint32_t lkey;   /**< of the MR; ignored if length is 0 */
	uint64_t addr;   /**< address in the MR, as in WRs */
	uint64_t length; /**< 0: unbind, type 1 only */
	uint32_t access; /**< of MW_ACCESS_KNOWN */
};

struct mw;

/**
 * [control] Allocate and publish a window that isn't bound.
 * @return 0; EINVAL (@p type); ENOMEM (no memory or no key left).
 */
int mw_create(struct mr_table *t, uint32_t pd, enum mw_type type, struct mw **out);
/** [control] Unpublish windows, wait until no engine can use them, release their MRs, free them. */
void mw_destroy_bulk(struct mr_table *t, struct mw **mws, uint32_t n);
/** A window, as it is written down for another table. */
struct mw_state {
	uint64_t addr, length;
	uint32_t type, pd, key; /**< key: the current one */
	uint32_t mr_key;        /**< 0: it isn't bound; else the MR, and for whom */
	uint32_t access, qpn;
};
/** [control, engines stopped] */
void mw_save(const struct mw *mw, struct mw_state *to);
/**
 * [control, engines stopped] Make a window as it was in another table, after its MR.
 * @return 0; EINVAL (it can't have been so); EEXIST (the key's index is in use); ENOMEM.
 */
int mw_restore(struct mr_table *t, const struct mw_state *from, struct mw **out);
/** @return the size of the memory for mw_keep(). */
size_t mw_notes_bytes(const struct mr_table *t);
/**
 * [control] Keep the state of each window in memory that may outlive the process, where mw_noted() finds it after `kill -9`. Called before the first window is made.
 * @param notes  mw_notes_bytes() of zeros, as long as the table lives, aligned to 8; what isn't used isn't touched.
 */
void mw_keep(struct mr_table *t, void *notes);
/**
 * Find the window that had the index of @p key in such memory, which nobody writes any more.
 * @return false: there was none.
 */
bool mw_noted(const void *notes, size_t bytes, uint32_t key, struct mw_state *to);
/** @return the window's current key. */
uint32_t mw_key(const struct mw *mw);

/**
 * [engine] Bind a window for QP @p qpn of @p pd. Accesses checked from now on see the new binding.
 * @return false: refused, nothing was changed.
 */
bool mw_bind(const struct mr_table *t, const struct mw_bind *b, uint32_t pd, uint32_t qpn);
/**
 * [engine] Invalidate a bound type 2 window for its QP: by LOCAL_INV, or by SEND_WITH_INV of the peer.
 * @return false: @p key is not the key of such a window.
 */
bool mw_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn);

/** [engine] mr_check_remote() for a key that isn't an MR's. */
struct mr *mw_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint32_t access, uint64_t *va,
		    uint64_t len);

/**
 * [engine] mr_check() for an access by the peer of QP @p qpn, whose key may be that of a window.
 * @param va  The address that the peer gave; becomes the address in the returned MR.
 * @return the MR, or the MR of the window; NULL: access is refused.
 */
static inline struct mr *
mr_check_remote(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint32_t access, uint64_t *va,
		uint64_t len)
{
	struct mr *mr = mr_check(t, key, pd, access, *va, len);
	uint64_t at = *va;

	if (__builtin_expect(mr != NULL, 1))
		return mr;
	/* Only a copy is handed on, so that *va can stay in a register. */
	mr = mw_check(t, key, pd, qpn, access, &at, len);
	*va = at;
	return mr;
}

#endif /* UROCE_MW_H */
