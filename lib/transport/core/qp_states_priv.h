/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a QP may do in each state (11.2.5, figure 124 of the specification), like ib_rvt_state_ops in Linux's rdmavt.
 * The legal transitions are in qp_state.c. Owns nothing. Called on the QP's engine.
 */
#ifndef UROCE_TP_QP_STATES_H
#define UROCE_TP_QP_STATES_H

#include "transport/core/types_priv.h"

enum {
	QP_CONNECTED = 1 << 0,  /**< it has a path to its peer, and an expected PSN */
	QP_RECEIVES = 1 << 1,   /**< it accepts requests */
	QP_HAS_SENT = 1 << 2,   /**< its own first PSN is set */
	QP_SENDS = 1 << 3,      /**< it sends and resends WQEs already begun, and accepts responses */
	QP_FETCHES = 1 << 4,    /**< it begins posted WQEs */
	QP_FLUSHES_SQ = 1 << 5, /**< posted WQEs complete with UROCE_WC_WR_FLUSH_ERR */
	QP_FLUSHES_RQ = 1 << 6, /**< posted receives complete with UROCE_WC_WR_FLUSH_ERR */
};

static const uint8_t qp_state_ops[UROCE_QPS_STATES] = {
	[UROCE_QPS_RESET] = 0,
	[UROCE_QPS_INIT] = 0,
	[UROCE_QPS_RTR] = QP_CONNECTED | QP_RECEIVES,
	[UROCE_QPS_RTS] = QP_CONNECTED | QP_RECEIVES | QP_HAS_SENT | QP_SENDS | QP_FETCHES,
	[UROCE_QPS_SQD] = QP_CONNECTED | QP_RECEIVES | QP_HAS_SENT | QP_SENDS,
	[UROCE_QPS_SQE] = QP_CONNECTED | QP_RECEIVES | QP_HAS_SENT | QP_FLUSHES_SQ,
	[UROCE_QPS_ERR] = QP_CONNECTED | QP_HAS_SENT | QP_FLUSHES_SQ | QP_FLUSHES_RQ,
};

/** @return the service of QPs of this type: XRC follows RC's rules. */
static inline uint8_t
qp_service(enum uroce_qp_type type)
{
	return type == UROCE_QPT_UC ? WIRE_UC : type == UROCE_QPT_UD ? WIRE_UD : WIRE_RC;
}

/** @return whether the QP's state allows any of @p ops. */
static inline bool
qp_does(const struct qp *qp, uint8_t ops)
{
	return (qp_state_ops[qp->state] & ops) != 0;
}

/** @return whether the QP accepts requests. An XRC initiator's QP never does. */
static inline bool
qp_receives(const struct qp *qp)
{
	return qp_does(qp, QP_RECEIVES) && qp->type != UROCE_QPT_XRC_SEND;
}

static inline bool
qp_sends(const struct qp *qp)
{
	return qp_does(qp, QP_SENDS);
}

#endif /* UROCE_TP_QP_STATES_H */
