/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat, the requester's side: SACKs, responses that arrive beyond a gap, and retransmission of what was lost.
 * Called on the QP's engine. The protocol is in core/sack_format_priv.h.
 */
#ifndef UROCE_REQ_SACK_H
#define UROCE_REQ_SACK_H

#include "transport/core/types_priv.h"

/** A packet of a SACK's opcode for @p qp, whatever its service and state. */
void sack_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Send what was lost again. @return packets sent. */
uint32_t sack_resend(struct transport *tp, struct qp *qp, uint32_t budget);

/* ---- sack_read.c: READs and atomics ---- */
/** A response behind one that is missing. @return false: it can't be placed, everything has to be asked for again. */
bool sack_response_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Everything up to @p psn was executed, but a response before it is missing. @return false: as above. */
bool sack_ack_rx(struct transport *tp, struct qp *qp, uint32_t psn);
/** psn_una may have reached what was placed, or acknowledged, behind a gap: complete it. */
void sack_advance(struct transport *tp, struct qp *qp);

#endif /* UROCE_REQ_SACK_H */
