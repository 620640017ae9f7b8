/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The responder's reorder buffer of selective repeat: packets that arrived beyond a gap. The protocol is in core/sack_format.h.
 */
#ifndef UROCE_SELECTIVE_H
#define UROCE_SELECTIVE_H

#include "transport/core/sack_format.h"

/** The responder's: which PSNs beyond the gap are held, and where. */
struct tp_reorder {
	uint64_t map[SACK_WORDS];
	uint32_t nb;
	uint32_t base;              /**< epsn as this knows it */
	uint16_t held[TP_SACK_SPAN];
};

/** A packet that is held: a copy from the BTH on, so the port's mbufs go back to where they are needed. */
struct tp_reorder_pkt {
	struct wire_pkt p;
	uint8_t bytes[WIRE_MAX_FRAME_BYTES];
};

/* ---- selective_rx.c: the responder ---- */
/** [control] @return 0 or ENOMEM. */
int selective_create(struct transport *tp);
void selective_destroy(struct transport *tp);
/** A duplicate WRITE. @return true if it was an offer, which has been taken. */
bool selective_offer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A request beyond a gap. @return false: it can't be held. */
bool selective_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** epsn has moved while packets are held: execute those that are next. */
void selective_drain(struct transport *tp, struct qp *qp);
/** @return false: no room to send it now. */
bool selective_send_sack(struct transport *tp, struct qp *qp);
/** The connection is over: give back what it holds. */
void selective_stop(struct transport *tp, struct qp *qp);

#endif /* UROCE_SELECTIVE_H */
