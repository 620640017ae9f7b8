/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Receive WQEs of every QP type: taking them from RQ or SRQ, filling, completing and flushing them.
 *
 * Owns: the receive WQE in use of each QP (rcv.rwqe). Called by the receiving side, on the QP's engine.
 */
#ifndef UROCE_TP_RECV_H
#define UROCE_TP_RECV_H

#include "transport/core/types_priv.h"

/** Take the next receive WQE of RQ or SRQ into qp->rcv.rwqe. @return false: none is posted. */
bool recv_take(struct transport *tp, struct qp *qp);
/**
 * Copy bytes into the receive WQE's buffers.
 * @return enum uroce_wc_status, *@p verr has the enum tp_vendor_err; or COPY_LATER: nothing has changed.
 */
uint8_t recv_place(struct transport *tp, struct qp *qp, const uint8_t *data, uint32_t len, uint8_t *verr);
/** Complete the receive WQE. @p p: the last packet of the message, for the immediate and the solicited bit. */
void recv_complete(struct transport *tp, struct qp *qp, uint8_t opcode, const struct wire_pkt *p);
void recv_fail(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);
/** Flush one receive WQE. @return false: there is none left. */
bool recv_flush_one(struct transport *tp, struct qp *qp);
/** @return the credit count field of an AETH: how many receives are posted (9.7.7.2.1). */
uint8_t recv_credit_code(struct qp *qp);
/** Drop the receive WQE in use, if there is one, without a CQE. */
void recv_drop(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_RECV_H */
