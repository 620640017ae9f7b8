/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Receiving for the services without acknowledgements: UC, UD, and the GSI.
 *
 * Owns nothing; UC and UD QPs use struct qp_receiver. Called by transport.c, on the QP's engine.
 */
#ifndef UROCE_TP_SVC_H
#define UROCE_TP_SVC_H

#include "transport/core/types_priv.h"

/* ---- uc.c, ud.c ---- */
/** Handle a packet for a UC or UD QP that has passed the checks. */
void uc_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void ud_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** @return whether a datagram has the Q_Key and the length that @p qp takes. */
bool ud_wanted(const struct qp *qp, const struct wire_pkt *p);
/** Put a datagram, with its L3 header in front, where the receive that was taken for it says. @return as recv_place(). */
uint8_t ud_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p, uint8_t *verr);

/* ---- gsi.c ---- */
/** Handle a packet for QP 1 with a good ICRC. */
void gsi_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p);

#endif /* UROCE_TP_SVC_H */
