/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Receive WQEs of every QP type: taken from the RQ or SRQ, filled, completed and flushed.
 *
 * Owns: the QP's receive WQE in use (rcv.rwqe). Called by the receiving side, on the QP's engine.
 */
#ifndef UROCE_TP_RECV_H
#define UROCE_TP_RECV_H

#include "transport/core/types_priv.h"

/** Take the next receive WQE of RQ or SRQ into qp->rcv.rwqe. @return false: none posted. */
bool recv_take(struct transport *tp, struct qp *qp);
/** Put bytes into the receive WQE. @return status; *@p verr says more. */
uint8_t recv_place(struct transport *tp, struct qp *qp, const uint8_t *data, uint32_t len, uint8_t *verr);
/** Complete the receive WQE. @p p: the message's last packet, or NULL without immediate and solicited bit. */
void recv_complete(struct transport *tp, struct qp *qp, uint8_t opcode, const struct wire_pkt *p);
void recv_fail(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);
/** Flush one receive WQE of an RQ. @return false: nothing left. */
bool recv_flush_one(struct transport *tp, struct qp *qp);
/** @return the low bits of an AETH that acknowledges: receives that are posted (9.7.7.2.1). */
uint8_t recv_credit_code(struct qp *qp);
/** The receive WQE in use, if there is one, is done with. */
void recv_drop(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_RECV_H */
