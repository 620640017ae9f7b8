/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The requester: sends what is posted, packet by packet. Called by the transport's turn, on the QP's engine.
 *
 *   requester.c   decides what may be sent next and accounts for it: admit(), build, account()
 *   wqe.c         work requests: opcodes, fetching and checking
 *   build.c       makes a packet from (QP, WQE, PSN); changes nothing
 *   completer.c   takes responses: ack.c makes progress of them, complete.c writes CQEs
 *   loss.c        loss recovery; cwnd.c the congestion window; scoreboard.c and sack*.c selective repeat
 */
#ifndef UROCE_REQ_REQUESTER_H
#define UROCE_REQ_REQUESTER_H

#include "transport/core/types_priv.h"

/** RESET: forget the connection. What was lent has been given back, and the timer is stopped. */
void requester_reset(struct qp *qp);
/** A connection begins, or goes on after SQE: the first PSN that is sent is @p psn. */
void requester_start(struct qp *qp, uint32_t psn);
/** Send what may be sent. @return packets sent and WQEs done. */
uint32_t requester_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** @return true if there is something to send and nothing of the peer's to wait for. */
bool requester_pending(const struct qp *qp);
/** A response packet, admitted. */
void completer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

#endif /* UROCE_REQ_REQUESTER_H */
