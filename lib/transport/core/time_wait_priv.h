/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Time wait: for a while after a QP was destroyed, duplicates of requests it had executed are still acknowledged on its
 * behalf.
 *
 * Owns: struct time_wait_table, one for all engines, with a lock of its own. Called when a QP is destroyed and for packets for unknown
 * QPs.
 */
#ifndef UROCE_TP_TIME_WAIT_H
#define UROCE_TP_TIME_WAIT_H

#include "transport/core/types_priv.h"

/** [control] Create the table of destroyed QPs, shared by all engines. @return NULL: no memory. */
struct time_wait_table *time_wait_create(void);
/** [control, or the QP's engine] Remember @p qp, which is about to be destroyed. */
void time_wait_add(struct time_wait_table *t, struct transport *tp, const struct qp *qp);
/**
 * [any engine] Handle a valid packet for a number that no QP has.
 * @return true if it is a duplicate of a request that a destroyed QP had executed; it is acknowledged if the peer asked
 * for that.
 */
bool time_wait_rx(struct time_wait_table *t, struct transport *tp, uint16_t port, const struct wire_pkt *p);

#endif /* UROCE_TP_TIME_WAIT_H */
