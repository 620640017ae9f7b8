/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory windows: keys by which peers reach a part of an MR, bound and invalidated by work requests.
 *
 * Owns: struct mw. The control thread allocates and frees windows; engines bind, invalidate and look them up, each in
 * the turn in which it found the window in the key table. A window lies in the same table as MRs but carries
 * MR_KEY_NONE there, so that no look-up of a local key ever finds one.
 *
 * An engine may read a window while another changes it: there is a sequence counter, odd during a change. A reader doesn't
 * wait: while a window changes, its old key goes stale and no peer knows the new one yet, so refusing is right.
 * A writer waits for the few stores of another change.
 *
 * A bound window holds its MR: mr_retire() fails until the window is bound elsewhere, invalidated or freed.
 *
 * Threads: functions marked [control] by the control thread only, [engine] by any engine lcore.
 */
#ifndef UROCE_MW_H
#define UROCE_MW_H

#include "mem/mem.h"

/** enum ibv_mw_type. */
enum mw_type {
	MW_TYPE_1 = 1, /**< for all QPs of the PD */
	MW_TYPE_2 = 2, /**< 2B: for the QP that bound it, of which the PD is the window's too */
};

/** What a peer may be granted through a window. */
#define MW_ACCESS_KNOWN \
	(UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_ZERO_BASED)

/** A bind, as a WQE asks for it. */
struct mw_bind {
	uint32_t key;    /**< the window's index and the new low byte */
	uint32_t lkey;   /**< of the MR; not looked at with length 0 */
	uint64_t addr;   /**< as WRs address the MR */
	uint64_t length; /**< 0: unbind, type 1 only */
	uint32_t access; /**< of MW_ACCESS_KNOWN */
};

struct mw;

/**
 * [control] Allocate and publish a window that opens nothing.
 * @return 0; EINVAL (@p type); ENOMEM (no memory or no key left).
 */
int mw_create(struct mr_table *t, uint32_t pd, enum mw_type type, struct mw **out);
/** [control] Unpublish, wait until no engine can use them, let go of their MRs, free. */
void mw_destroy_bulk(struct mr_table *t, struct mw **mws, uint32_t n);
/** @return the window's key as it is now. */
uint32_t mw_key(const struct mw *mw);

/**
 * [engine] Bind a window, for QP @p qpn of @p pd. Accesses that are looked up from here on see the new binding.
 * @return false: refused, nothing has changed.
 */
bool mw_bind(const struct mr_table *t, const struct mw_bind *b, uint32_t pd, uint32_t qpn);
/**
 * [engine] Invalidate a bound type 2 window, for its QP: LOCAL_INV there, SEND_WITH_INV from its peer.
 * @return false: @p key is no such window's.
 */
bool mw_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn);

/** [engine] mr_check_remote() of a key that isn't an MR's. */
struct mr *mw_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint32_t access, uint64_t *va,
		    uint64_t len);

/**
 * [engine] mr_check() for what a peer asks of QP @p qpn: its key may be a window's.
 * @param va  The address as the peer gave it; afterwards the address in the MR that is returned.
 * @return the MR, also of a window, or NULL.
 */
static inline struct mr *
mr_check_remote(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint32_t access, uint64_t *va,
		uint64_t len)
{
	struct mr *mr = mr_check(t, key, pd, access, *va, len);

	if (__builtin_expect(mr != NULL, 1))
		return mr;
	return mw_check(t, key, pd, qpn, access, va, len);
}

#endif /* UROCE_MW_H */
