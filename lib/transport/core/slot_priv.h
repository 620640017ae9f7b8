/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Slots of posted WQEs. The client can write them at any time, so each value is read once, and that copy is both
 * checked and used. Owns nothing. Called on the QP's engine.
 */
#ifndef UROCE_TP_SLOT_H
#define UROCE_TP_SLOT_H

#include "transport/core/types_priv.h"

/** @return the enum tp_vendor_err that says why mr_check() for writing refused an SGE. */
static inline uint8_t
lkey_verr(const struct transport *tp, uint32_t lkey, uint32_t pd, uint64_t va, uint32_t len)
{
	return mr_check(tp->c.sh.mrs, lkey, pd, 0, va, len) != NULL ? TP_VERR_LACCESS : TP_VERR_LKEY;
}

/* ---- Receives ---- */
/** @return the bytes that the SGEs of @p w have room for, at most UROCE_MAX_MSG_BYTES. */
uint64_t rwqe_room(const struct tp_rwqe *w);
/** Set up @p w for the WQE in slot @p counter, which has @p nb_sge SGEs at @p sge. */
void rwqe_begin(struct tp_rwqe *w, const struct ring *r, uint32_t counter, const struct ring_sge *sge, uint32_t nb_sge);
/** @return the number of SGEs of a posted receive. */
static inline uint32_t
rwqe_nb_sge(const struct ring_rq_wqe *slot, uint32_t max_sge)
{
	union ring_rq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_acquire) };

	/*
	 * The client library never posts more than max_sge; a client that writes more into the slot gets an empty
	 * buffer.
	 */
	return ctl.num_sge <= max_sge ? ctl.num_sge : 0;
}

#endif /* UROCE_TP_SLOT_H */
