/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Received packets that wait for their QP's turn.
 *
 * What is received is paid for by the share of its QP, as what is sent is. A share that has used up its deficit while others want turns doesn't get more by having
 * its peers send: its packets wait, each behind the others of its QP, and the QP executes them in the turns of its share before it sends. Responses are not
 * paid for (a READ is when it is asked for, and an ACK is one packet), and wait only behind what came before them.
 *
 * If the others want no turns but receive, too, there are rounds: each share that receives gets a quantum in a round, and the next round begins when all of them
 * have used theirs. Packets wait only of a share that is ahead of the others by TP_RX_LEAD quanta. So shares that are sent the same wait for nothing.
 *
 * A packet that waits keeps its mbuf, so there are few: an item of a pool for each. If a share has as many as it may, the next packet takes the place of the oldest
 * one of its QP, which is executed at once. Nothing is dropped.
 *
 * Owns: the queue in struct qp_sched. Called on the QP's engine.
 */
#ifndef UROCE_TP_RX_WAIT_H
#define UROCE_TP_RX_WAIT_H

#include "transport/core/qp_states_priv.h"

/** What isn't paid for when it is received. */
enum { RX_FREE = WIRE_F_RESPONSE | WIRE_F_CNP | WIRE_F_SACK };

/** A packet that waits. */
struct tp_rx_wait {
	struct tp_rx_wait *next; /**< of the last one: the first */
	struct wire_pkt p;   /**< as parsed; points into the mbuf */
	struct rte_mbuf *m;
	uint16_t port;
};

/** @return whether packets wait for a turn of @p qp. */
static inline bool
rx_waits(const struct qp *qp)
{
	return qp->sched.rx_wait != 0;
}

/** Another share than before pays for what was received: @p s. */
void rx_other_pays(struct transport *tp, struct share *s);
/** @return whether a packet for @p qp, whose share has used up its deficit or which has packets that wait, has to wait. */
bool rx_must_wait(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Have a packet wait, behind the others of @p qp. Takes ownership of @p m. @return false: the share has as many as it may, and @p m is the caller's. */
bool rx_wait_add(struct transport *tp, struct qp *qp, uint16_t port, struct rte_mbuf *m, const struct wire_pkt *p);
/** Take the oldest packet, to be given back with rx_wait_end(). @return NULL: there is none. */
struct tp_rx_wait *rx_wait_take(struct transport *tp, struct qp *qp);
/** A taken packet was executed. */
void rx_wait_end(struct transport *tp, struct qp *qp, struct tp_rx_wait *w);
/** Drop all: @p qp ends, or is saved. */
void rx_wait_drop(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_RX_WAIT_H */
