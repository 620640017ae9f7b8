/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The requester: sends posted WQEs, packet by packet. Called in the transport's turns, on the QP's engine.
 *
 *   requester.c   decides what may be sent next, has it built and accounts for it: admit(), build, account()
 *   send_queue.c  work requests: opcodes, fetching and checking
 *   build.c       builds a packet from (QP, WQE, PSN); changes nothing
 *   completer.c   handles responses: ack.c turns them into progress, complete.c writes CQEs
 *   loss.c        loss recovery; cc/cwnd.c the congestion window; scoreboard.c and sack*.c selective repeat
 */
#ifndef UROCE_REQ_REQUESTER_H
#define UROCE_REQ_REQUESTER_H

#include "transport/core/qp_states_priv.h"

/** The QP goes to RESET: forget the connection. Lent memory must have been returned and the timer stopped. */
void requester_reset(struct qp *qp);
/** A connection begins, or goes on after SQE; @p psn is the first PSN to send. */
void requester_start(struct qp *qp, uint32_t psn);
/** Send what may be sent. @return packets sent plus WQEs completed without a packet. */
uint32_t requester_run(struct transport *tp, struct qp *qp, uint32_t budget);
/**
 * As requester_run(), for a QP that is about to move (qp_sched.drains): what was sent may be sent again, but nothing new is sent. Only one packet more
 * is, if the last one may not have asked for an ACK.
 */
uint32_t requester_drain(struct transport *tp, struct qp *qp, uint32_t budget);
/** @return whether nothing is in flight that will be acknowledged. After an RNR NAK nothing is: the peer drops it all, up to the packet that is sent again first. */
static inline bool
requester_is_drained(const struct qp *qp)
{
	return qp->service != WIRE_RC || !qp_sends(qp) || qp->req.psn_una == qp->req.psn_max || qp->loss.rnr_wait;
}
/** @return true if there is something to send that doesn't have to wait for an event. */
bool requester_pending(const struct qp *qp);
/** Handle a response packet that has passed the checks. */
void completer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

#endif /* UROCE_REQ_REQUESTER_H */
