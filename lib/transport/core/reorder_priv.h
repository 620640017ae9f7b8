/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Reorder buffers: request packets that arrived beyond a gap, held until the gap is filled.
 *
 * Owns: what the pools reorders and reorder_pkts lend to QPs. A QP has a buffer (rcv.reorder) only while it holds a
 * packet. Called by the responder, and where a connection ends, on the QP's engine.
 */
#ifndef UROCE_TP_REORDER_H
#define UROCE_TP_REORDER_H

#include "transport/core/sack_format_priv.h"

/** Which PSNs beyond the gap are held, and in which items of the pool. */
struct tp_reorder {
	uint64_t map[SACK_WORDS];
	uint32_t nb;                /**< number of packets held */
	uint32_t base;              /**< no packet before this PSN is held */
	uint16_t held[TP_SACK_SPAN]; /**< by PSN modulo the span: the packet's index in its pool */
};

/** A held packet: a copy from the BTH on, so that the port's mbuf can be freed. */
struct tp_reorder_pkt {
	struct wire_pkt p;
	uint8_t bytes[WIRE_MAX_FRAME_BYTES];
};

/** @return whether the packet of @p psn, which is not before epsn, is held. */
static inline bool
reorder_has(const struct qp *qp, uint32_t psn)
{
	return qp->rcv.reorder != NULL && wire_psn_diff(psn, qp->rcv.epsn) < TP_SACK_SPAN && sack_bit(qp->rcv.reorder->map, psn);
}
/**
 * Hold a copy of @p p, which isn't held yet.
 * @return false if its PSN is beyond the span, or no room is left for this QP.
 */
bool reorder_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/**
 * Call when epsn has moved: drops what is held before epsn, and returns the buffer if nothing is left in it.
 * @return the packet with PSN epsn if it is held, else NULL. It stays held.
 */
const struct wire_pkt *reorder_next(struct transport *tp, struct qp *qp);
/** Drop the packet of @p psn, which is held. */
void reorder_drop(struct transport *tp, struct qp *qp, uint32_t psn);
/** Drop all held packets and return the buffer: the connection is over. */
void reorder_return(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_REORDER_H */
