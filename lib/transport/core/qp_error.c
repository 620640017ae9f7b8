/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stopping a QP: the only place that moves a QP to ERR or SQE.
 */
#include "transport/core/async_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/lend_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/sched_priv.h"

void
qp_stop_watching(struct qp *qp, bool rq)
{
	qp->sched.watched = false;
	shared_store(&qp->shared->sq_watch, 0);
	if (rq)
		shared_store(&qp->shared->rq_watch, 0);
	atomic_thread_fence(memory_order_seq_cst);
}

void
qp_stop_timer(struct transport *tp, struct qp *qp)
{
	wheel_del(&tp->wheel, &qp->loss.timer);
	qp->loss.deadline_ns = 0;
	qp->loss.rnr_wait = false;
}

void
qp_error(struct transport *tp, struct qp *qp, int event, struct tp_because because)
{
	if (qp->state == UROCE_QPS_ERR)
		return;
	qp_set_state(qp, UROCE_QPS_ERR);
	diag_failed(tp, qp, because);
	qp_stop_watching(qp, true);
	qp_stop_timer(tp, qp);
	copy_stop(tp, qp);
	scoreboard_return(tp, qp);
	reorder_return(tp, qp);
	/* A NAK that refuses a request is still sent, after the responses to earlier requests. */
	if (qp->resp.reply != TP_REPLY_FATAL) {
		qp->resp.reply = TP_REPLY_NONE;
		qp->resp.pending = 0;
		responder_return_reads(tp, qp);
	}
	if (event >= 0)
		qp_event(tp, (enum uroce_event)event, qp);
	qp_activate(tp, qp);
}

void
qp_send_error(struct transport *tp, struct qp *qp, struct tp_because because)
{
	if (qp->state == UROCE_QPS_ERR)
		return;
	qp_set_state(qp, UROCE_QPS_SQE);
	diag_failed(tp, qp, because);
	qp_stop_watching(qp, false);
	qp_activate(tp, qp);
}

void
qp_check_drained(struct transport *tp, struct qp *qp)
{
	if (qp->state != UROCE_QPS_SQD || qp->req.sqd_event || qp->req.sq_tail != qp->req.sq.counter)
		return;
	qp->req.sqd_event = true;
	if (qp->attr.en_sqd_async_notify)
		qp_event(tp, UROCE_EVENT_SQ_DRAINED, qp);
}
