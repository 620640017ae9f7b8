/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat, the requester's side: SACKs, responses that arrive beyond a gap, and retransmission of lost
 * packets. Called on the QP's engine. The protocol is described in core/sack_format_priv.h.
 */
#ifndef UROCE_REQ_SACK_H
#define UROCE_REQ_SACK_H

#include "transport/core/sack_format_priv.h"

/** Handle a packet with a SACK's opcode; checks that the QP's service and state fit. */
void sack_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Resend lost packets. @return packets sent. */
uint32_t sack_resend(struct transport *tp, struct qp *qp, uint32_t budget);

/* ---- sack_read.c: READs and atomics ---- */
/** @return whether a response that isn't the next one bears this connection's mark; if not, it is counted. */
static inline bool
sack_marked(struct transport *tp, const struct qp *qp, const struct wire_pkt *p)
{
	if (p->bth.mark == sack_mark(qp->req.sack_nonce))
		return true;
	tp->counters.rx_sack_unmarked += qp->req.sack_peer;
	return false;
}
/** Place a response that arrived while an earlier one is missing. @return false: it can't be placed, go back N. */
bool sack_response_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** The peer has executed everything up to @p psn, but an earlier response is missing. @return false: go back N. */
bool sack_ack_rx(struct transport *tp, struct qp *qp, uint32_t psn);
/**
 * psn_una may have reached responses that were placed beyond the gap, or requests acknowledged there: complete them.
 */
void sack_advance(struct transport *tp, struct qp *qp);

#endif /* UROCE_REQ_SACK_H */
