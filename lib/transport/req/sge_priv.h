/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The bytes of a posted work request: in the memory that its SGEs name, or inline in its slot. SGEs and keys are read
 * from the slot and checked at each use, so a client that rewrites a posted slot can change only its own message.
 * Called on the QP's engine.
 */
#ifndef UROCE_REQ_SGE_H
#define UROCE_REQ_SGE_H

#include "transport/core/types_priv.h"

struct tp_out;

/**
 * Gather @p len bytes at offset @p off of the message of WQE @p counter into @p dst.
 * @return 0; the error status, also stored in @p w; or COPY_LATER: they are being fetched, or there is no room for that now.
 */
uint8_t sq_gather(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t off, uint8_t *dst, uint32_t len);
/** As sq_gather(), for packet @p o, which goes by reference: its payload stays where it is, if it is in one mapped piece. */
uint8_t sq_payload(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t off, struct tp_out *o, uint32_t len);
/** Scatter response bytes at offset @p off of the message into the SGEs of WQE @p counter. @return 0, enum tp_vendor_err or COPY_LATER. */
uint8_t sq_scatter(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data, uint32_t len);
/**
 * @return whether an earlier READ or atomic in flight writes to the same memory as WQE @p counter. The bytes of the later one must
 * stay (10.8.3.3), so the two have to be placed in order.
 */
bool sq_read_overlaps(struct qp *qp, uint32_t counter);

#endif /* UROCE_REQ_SGE_H */
