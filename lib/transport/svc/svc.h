/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What is received without a connection's reliability: UC, UD, multicast, and the GSI.
 *
 * Owns: the multicast table (transport.h); UC and UD QPs use struct qp_receiver. Called by transport.c, and mcast_loop() by the sender of
 * datagrams; on the QP's engine.
 */
#ifndef UROCE_TP_SVC_H
#define UROCE_TP_SVC_H

#include "transport/core/types.h"

/* ---- uc.c, ud.c ---- */
/** A packet, admitted, of a UC or UD QP. */
void uc_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void ud_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- mcast.c ---- */
/** Takes a packet that is for @p qp, which is this transport's. */
typedef void mcast_deliver(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p);
/** A packet for the multicast QPN whose ICRC is good: @p deliver it to each member on this engine, a copy of it to those on others. */
void mcast_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p, mcast_deliver *deliver);
/** @p qp has sent this to a group: copies for members on this host. */
void mcast_loop(struct transport *tp, const struct qp *qp, const struct rte_mbuf *sent);

/* ---- gsi.c ---- */
/** A packet for QP 1 whose ICRC is good. */
void gsi_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p);

#endif /* UROCE_TP_SVC_H */
