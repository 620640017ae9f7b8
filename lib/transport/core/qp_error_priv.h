/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Stopping a QP: after an error, at the program's request, or because its SQ has drained.
 *
 * Owns: the QP's state, with qp_set_state(). Going to ERR only changes the state, returns what was lent to the QP and
 * wakes it; its queues are flushed in its next turns. So qp_error() may be called from anywhere, even while completions
 * are being written. Called on the QP's engine.
 */
#ifndef UROCE_TP_QP_ERROR_H
#define UROCE_TP_QP_ERROR_H

#include "transport/core/event_log_priv.h"
#include "transport/core/journal_priv.h"

static inline void
shared_store(_Atomic uint32_t *p, uint32_t v)
{
	atomic_store_explicit(p, v, memory_order_release);
}

/** The only function that changes a QP's state. */
static inline void
qp_set_state(struct qp *qp, enum uroce_qp_state s)
{
	qp->state = s;
	if (likely(qp->journal == NULL))
		shared_store(&qp->shared->state, s);
	else
		journal_touch(qp);
}

/** Move to ERR. @p event: the enum uroce_event to raise, or -1 for none. Does nothing if the QP is in ERR already. */
void qp_error(struct transport *tp, struct qp *qp, int event, struct tp_because because);
/** A send of a UC or UD QP failed: move to SQE. */
void qp_send_error(struct transport *tp, struct qp *qp, struct tp_because because);
/**
 * Stop watching the SQ, and with @p rq the RQ: from now on the client must ring the doorbell for what it posts. What it
 * posted before it could see this is found in the QP's next turn.
 */
void qp_stop_watching(struct qp *qp, bool rq);
/** Stop the timer of loss recovery; an RNR wait ends too. */
void qp_stop_timer(struct transport *tp, struct qp *qp);
/** If the QP is in SQD and nothing is in flight any more, raise SQ_DRAINED, once. */
void qp_check_drained(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_QP_ERROR_H */
