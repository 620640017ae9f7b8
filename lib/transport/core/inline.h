/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What every packet goes through, inline for that: building one, reading a posted slot, checks of addresses, P_Keys and
 * states. Included by tp_internal.h; nobody else does.
 */
#ifndef UROCE_TP_INLINE_H
#define UROCE_TP_INLINE_H

#include "transport/core/internal.h"

/* ---- Posted slots ---- */
/** Read an SGE from a slot once: what is checked is what is used, whatever the client writes meanwhile. */
static inline struct ring_sge
sge_snapshot(const struct ring_sge *s)
{
	return (struct ring_sge){
		.addr = *(const volatile uint64_t *)&s->addr,
		.length = *(const volatile uint32_t *)&s->length,
		.lkey = *(const volatile uint32_t *)&s->lkey,
	};
}

/** The first SGE, or inline byte, of an SQ slot. */
static inline const struct ring_sge *
slot_sges(const struct ring_sq_wqe *slot, uint8_t opcode)
{
	const uint8_t *p = (const uint8_t *)(slot + 1);

	return (const void *)(p + (ring_op_has_operands(opcode) ? sizeof(struct ring_atomic) : 0));
}

/** Why mr_check() for writing refused an SGE. @return enum tp_vendor_err. */
static inline uint8_t
lkey_verr(const struct transport *tp, uint32_t lkey, uint32_t pd, uint64_t va, uint32_t len)
{
	return mr_check(tp->c.mrs, lkey, pd, 0, va, len) != NULL ? TP_VERR_LACCESS : TP_VERR_LKEY;
}

static inline uint8_t
wqe_error(struct tp_swqe *w, uint8_t status, uint8_t verr)
{
	w->status = status;
	w->verr = verr;
	return status;
}

static inline struct tp_swqe *
qp_inflight(struct qp *qp, uint32_t counter)
{
	return &qp->req.inflight[counter & qp->req.inflight_mask];
}

#endif /* UROCE_TP_INLINE_H */
