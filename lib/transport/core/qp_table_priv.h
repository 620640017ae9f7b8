/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The table of QPs: entering and leaving it (looking up: transport.h).
 *
 * Owns: the QP numbers, and the memory of QPs that have left the table until no engine can see them any more. Called on the QP's
 * engine.
 */
#ifndef UROCE_TP_QP_TABLE_H
#define UROCE_TP_QP_TABLE_H

#include "transport/core/types_priv.h"

/** @return 0 or ENOMEM. Sets qpn and slot. */
int qp_table_add(struct qp_table *t, struct qp *qp);
/** Unpublish; the memory is freed after the grace period. */
void qp_table_remove(struct qp_table *t, struct qp *qp);
/** What the QPs that are gone still answer. */
struct time_wait_table *qp_table_time_wait(struct qp_table *t);

#endif /* UROCE_TP_QP_TABLE_H */
