/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The path to the peer, and the alternate path (path migration).
 *
 * Owns: struct qp_path of each QP. Called when a QP is modified, for received packets, and when retries are used up; on
 * the QP's engine.
 */
#ifndef UROCE_TP_PATH_H
#define UROCE_TP_PATH_H

#include "transport/core/types_priv.h"

/** Build the header template for packets along @p path. Congestion control must have been attached before, and path_follow_mtu() follows. */
void path_build_template(struct qp *qp, const struct tp_path *path);
/** Use @p path from now on. Allocates nothing. */
void qp_use_path(struct transport *tp, struct qp *qp, const struct tp_path *path);

/** Heed the MTU of the QP's port: its path, its path MTU or the port's MTU has changed, or it has come to transport @p tp. */
void path_follow_mtu(const struct transport *tp, struct qp *qp);

/** The QP goes to RESET: forget its peer. */
void path_reset(struct qp *qp);

/* ---- migration.c ---- */
/** Load an alternate path. @return 0 or ENOMEM. */
int migration_load(struct qp *qp, const struct tp_path *path);
/** @return whether path_mig_state may be set to @p to. @p loading: the same request loads an alternate path. */
bool migration_may(const struct qp *qp, uint32_t to, bool loading);
void migration_set(struct transport *tp, struct qp *qp, uint32_t to);
void migration_reset(struct qp *qp);
/** Change to the alternate path. @return false if the QP isn't ARMED. */
bool migration_go(struct transport *tp, struct qp *qp);
/** Handle the MigReq bit of a packet for a QP that is REARM or ARMED. @return false: drop the packet. */
bool migration_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

#endif /* UROCE_TP_PATH_H */
