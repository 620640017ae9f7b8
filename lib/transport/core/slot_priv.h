/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Posted slots, which the client can write at any time: what is read once is what is checked and used. Owns nothing. Called on the
 * QP's engine.
 */
#ifndef UROCE_TP_SLOT_H
#define UROCE_TP_SLOT_H

#include "transport/core/types_priv.h"

/** Why mr_check() for writing refused an SGE. @return enum tp_vendor_err. */
static inline uint8_t
lkey_verr(const struct transport *tp, uint32_t lkey, uint32_t pd, uint64_t va, uint32_t len)
{
	return mr_check(tp->c.sh.mrs, lkey, pd, 0, va, len) != NULL ? TP_VERR_LACCESS : TP_VERR_LKEY;
}

/* ---- Receives ---- */
/** @return bytes that its SGEs have room for, at most UROCE_MAX_MSG_BYTES. */
uint64_t rwqe_room(const struct tp_rwqe *w);
/** Begin to use the slot of @p counter, which has @p nb_sge SGEs at @p sge. */
void rwqe_begin(struct tp_rwqe *w, const struct ring *r, uint32_t counter, const struct ring_sge *sge, uint32_t nb_sge);
/** SGEs of a posted receive. */
static inline uint32_t
rwqe_nb_sge(const struct ring_rq_wqe *slot, uint32_t max_sge)
{
	union ring_rq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_acquire) };

	/* The client library refuses to post more than max_sge; who writes it to the slot gets an empty buffer. */
	return ctl.num_sge <= max_sge ? ctl.num_sge : 0;
}

#endif /* UROCE_TP_SLOT_H */
