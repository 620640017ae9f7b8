/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Time wait: for a while after a QP is destroyed, duplicates of what it has executed are acknowledged in its place.
 *
 * Owns: struct time_wait_table, one for all engines, with a lock of its own. Called when a QP is destroyed and for packets for unknown
 * QPs.
 */
#ifndef UROCE_TP_TIME_WAIT_H
#define UROCE_TP_TIME_WAIT_H

#include "transport/core/types_priv.h"

/** [control] The QPs of a table that are gone and still acknowledge duplicates, for all engines. @return NULL: no memory. */
struct time_wait_table *time_wait_create(void);
/** [control, or its engine] @p qp is about to be destroyed. */
void time_wait_add(struct time_wait_table *t, struct transport *tp, const struct qp *qp);
/**
 * [any engine] A packet, good in itself, for a number that no QP has.
 * @return true: it is a duplicate of what a QP has executed that is gone; acknowledged if the peer asked for that.
 */
bool time_wait_rx(struct time_wait_table *t, struct transport *tp, uint16_t port, const struct wire_pkt *p);

#endif /* UROCE_TP_TIME_WAIT_H */
