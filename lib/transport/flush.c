/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushing: in ERR and SQE, posted WQEs complete with UROCE_WC_WR_FLUSH_ERR.
 */
#include "transport/core/async_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/flush_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/resp/recv_priv.h"

/* @return false: no WQE is left. */
static bool
flush_one_send(struct transport *tp, struct qp *qp)
{
	struct tp_cqe e = { .status = UROCE_WC_WR_FLUSH_ERR };
	const struct ring_sq_wqe *slot;
	union ring_sq_ctl ctl;
	uint8_t opcode;

	if (qp->req.sq_tail != qp->req.sq.counter) {
		const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);

		e.wr_id = w->wr_id;
		opcode = w->opcode;
	} else {
		if (!ring_sq_ready(&qp->req.sq, qp->req.sq.counter))
			return false;
		slot = ring_slot(&qp->req.sq, qp->req.sq.counter++);
		ctl.word = atomic_load_explicit(&slot->ctl, memory_order_relaxed);
		e.wr_id = slot->wr_id;
		opcode = ctl.opcode;
	}
	e.opcode = opcode < UROCE_WR_OPS ? tp_req_ops[opcode].wc : UROCE_WC_SEND;
	e.ctl = ring_cqe_ctl_make((uint16_t)qp->req.sq_tail++, 0, 0, 0, 0, 0);
	qp->req.sq_cur = qp->req.sq_tail;
	cq_push(tp, qp->send_cq, qp, &e);
	return true;
}

/* All of a queue may be flushed in one go. */
static void
flushed(struct transport *tp, struct qp *qp)
{
	if (unlikely(tp->journal != NULL))
		journal_stepped(tp, qp);
}

uint32_t
qp_flush_run(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0;

	/* The copy that runs writes to a buffer that the program would get back. */
	if (copy_stalled(qp) && qp_does(qp, QP_FLUSHES_RQ))
		return 0;
	while (work < budget && flush_one_send(tp, qp)) {
		work++;
		flushed(tp, qp);
	}
	if (!qp_does(qp, QP_FLUSHES_RQ))
		return work;
	while (work < budget && recv_flush_one(tp, qp)) {
		work++;
		flushed(tp, qp);
	}
	/* The QP will take no more WQEs from its SRQ (10.2.9.4), so the program can destroy it without losing one. */
	if (work < budget && (qp->rcv.srq != NULL || qp->type == UROCE_QPT_XRC_RECV) && !qp->rcv.last_wqe_event) {
		qp->rcv.last_wqe_event = true;
		qp_event(tp, UROCE_EVENT_QP_LAST_WQE_REACHED, qp);
	}
	return work;
}
