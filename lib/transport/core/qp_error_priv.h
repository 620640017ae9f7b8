/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs that stop: by an error, because the program says so, or because the SQ drains.
 *
 * Owns: the QP's state, with qp_set_state(). Moving to ERR only changes the state, gives back what was lent for packets and wakes the
 * QP; it is flushed in its turn. So qp_error() may be called from anywhere, also while completions are being written. Called on
 * the QP's engine.
 */
#ifndef UROCE_TP_QP_ERROR_H
#define UROCE_TP_QP_ERROR_H

#include "transport/core/event_log_priv.h"

static inline void
shared_store(_Atomic uint32_t *p, uint32_t v)
{
	atomic_store_explicit(p, v, memory_order_release);
}

/** The one place that changes a QP's state. */
static inline void
qp_set_state(struct qp *qp, enum uroce_qp_state s)
{
	qp->state = s;
	shared_store(&qp->shared->state, s);
}

/** Move to ERR; @p event: enum uroce_event or -1, none. Changes nothing if the QP is in ERR. */
void qp_error(struct transport *tp, struct qp *qp, int event, struct tp_because because);
/** Send error of a UC or UD QP: SQE. */
void qp_send_error(struct transport *tp, struct qp *qp, struct tp_because because);
/**
 * Let the client ring the doorbell for what it posts to the SQ, and with @p rq to the RQ, from here on. What it posted before it could
 * see this, the QP's next turn finds.
 */
void qp_stop_watching(struct qp *qp, bool rq);
/** Nothing that was sent is waited for any more. */
void qp_stop_timer(struct transport *tp, struct qp *qp);
/** In SQD with nothing left in flight: tell the program, once. */
void qp_check_drained(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_QP_ERROR_H */
