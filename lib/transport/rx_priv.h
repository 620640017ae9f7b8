/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a transport's turn (turn.c) has done on the receiving side (transport.c). Called on the engine's thread.
 */
#ifndef UROCE_TP_RX_H
#define UROCE_TP_RX_H

#include "transport/core/types_priv.h"

/** Give up copies whose time is over, and try those again that could not begin. */
void rx_run_copies(struct transport *tp);
/** Execute at most @p budget packets that wait for a turn of @p qp (core/rx_wait_priv.h). @return how many. */
uint32_t rx_run_waiting(struct transport *tp, struct qp *qp, uint32_t budget);
/** Execute all of them: what is done with @p qp next comes after what was received before. */
void rx_catch_up(struct transport *tp, struct qp *qp);
/** Pass a packet to its QP that can't wait for a turn, behind those that do. */
void rx_at_once(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p);
/** A valid packet for a number that no QP has. */
void rx_no_qp(struct transport *tp, uint16_t port, const struct wire_pkt *p);
/** Deliver all packets that wait to go by reference (core/local_priv.h). */
void rx_local(struct transport *tp);

#endif /* UROCE_TP_RX_H */
