/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Multicast groups as engines use them. Owns: the table of groups (transport.h), which the control thread writes and
 * engines read under RCU. Called on the engine: by transport.c for received packets, by build_ud.c for sent ones.
 */
#ifndef UROCE_TP_MCAST_H
#define UROCE_TP_MCAST_H

#include "transport/core/types_priv.h"

/** Delivers a packet to @p qp, which belongs to @p tp. */
typedef void mcast_deliver(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p);
/**
 * A packet for the multicast QPN with a good ICRC: @p deliver it to each member on this engine, and hand copies to the
 * engines of the other members.
 */
void mcast_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p, mcast_deliver *deliver);
/** @p qp has sent this packet to a multicast group: loop a copy back if the group has members on this host. */
void mcast_loop(struct transport *tp, const struct qp *qp, const struct rte_mbuf *sent);

#endif /* UROCE_TP_MCAST_H */
