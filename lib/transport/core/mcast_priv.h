/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Multicast groups, as engines see them. Owns: the table of groups (transport.h), which the control thread writes and engines read under
 * RCU. Called by transport.c for what arrives and by the sender of datagrams, on their engine.
 */
#ifndef UROCE_TP_MCAST_H
#define UROCE_TP_MCAST_H

#include "transport/core/types_priv.h"

/** Takes a packet that is for @p qp, which is this transport's. */
typedef void mcast_deliver(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p);
/** A packet for the multicast QPN whose ICRC is good: @p deliver it to each member on this engine, a copy of it to those on others. */
void mcast_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p, mcast_deliver *deliver);
/** @p qp has sent this to a group: copies for members on this host. */
void mcast_loop(struct transport *tp, const struct qp *qp, const struct rte_mbuf *sent);

#endif /* UROCE_TP_MCAST_H */
