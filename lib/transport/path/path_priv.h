/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The path to the peer, and the alternate one.
 *
 * Owns: struct qp_path of each QP. Called by who modifies a QP, for received packets, and when retries are used up; on the QP's
 * engine.
 */
#ifndef UROCE_TP_PATH_H
#define UROCE_TP_PATH_H

#include "transport/core/types_priv.h"

/** The header template of packets that go along @p path. Congestion control must have been attached before. */
void path_build_template(struct qp *qp, const struct tp_path *path);
/** Send by @p path from now on. No allocation if the QP has a struct cc or needs none. */
void qp_use_path(struct transport *tp, struct qp *qp, const struct tp_path *path);

/** RESET: forget the peer. */
void path_reset(struct qp *qp);

/* ---- migration.c ---- */
/** An alternate path. @return 0 or ENOMEM. */
int migration_load(struct qp *qp, const struct tp_path *path);
/** May path_mig_state be set to @p to? @p loading: an alternate path comes with it. */
bool migration_may(const struct qp *qp, uint32_t to, bool loading);
void migration_set(struct transport *tp, struct qp *qp, uint32_t to);
void migration_reset(struct qp *qp);
/** Change to the alternate path. @return false: there is none to change to. */
bool migration_go(struct transport *tp, struct qp *qp);
/** A packet for a QP that is REARM or ARMED. @return false: drop it. */
bool migration_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

#endif /* UROCE_TP_PATH_H */
