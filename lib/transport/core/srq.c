/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. A WQE is copied and its slot returned when it is taken, since an SRQ's receives complete in
 * any order.
 */
#include "base/mark.h"
#include "transport/core/async_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/slot_priv.h"
#include "transport/core/srq_priv.h"

int
srq_create(struct transport *tp, const struct srq_params *p, struct srq **out)
{
	struct srq *srq;

	if (p->xrcd != 0 && (p->cq == NULL || p->srqn == 0 || p->srqn > WIRE_PSN_MASK))
		return EINVAL;
	if (tp->journal != NULL && (p->number >= tp->c.journal_limits.srqs || (p->xrcd != 0 && p->cq->number >= tp->c.journal_limits.cqs)))
		return EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (srq == NULL)
		return ENOMEM;
	srq->tp = tp;
	srq->ring = p->ring;
	srq->shared = p->shared;
	srq->pd = p->pd;
	srq->max_sge = p->max_sge;
	srq->limit = p->limit;
	srq->cookie = p->cookie;
	srq->owner = p->owner;
	srq->number = p->number;
	if (p->xrcd != 0) {
		srq->xrcd = p->xrcd;
		srq->srqn = p->srqn;
		srq->cq = p->cq;
		atomic_fetch_add(&srq->cq->users, 1);
		LIST_INSERT_HEAD(&tp->xrc_srqs[srq_bucket(srq->srqn)], srq, link);
	}
	journal_srq_enter(tp, srq);
	journal_commit(tp);
	*out = srq;
	return 0;
}

void
srq_set_limit(struct srq *srq, uint32_t limit)
{
	srq->limit = limit;
	journal_srq_changed(srq->tp, srq, NULL);
	journal_commit(srq->tp);
}

uint32_t
srq_limit(const struct srq *srq)
{
	return srq->limit;
}

int
srq_destroy(struct transport *tp, struct srq *srq)
{
	UROCE_ASSERT(srq->tp == tp);
	if (srq->xrcd == 0) {
		if (srq->users != 0)
			return EBUSY;
		journal_srq_leave(tp, srq);
		free(srq);
		return 0;
	}
	journal_srq_leave(tp, srq);
	LIST_REMOVE(srq, link);
	atomic_fetch_sub(&srq->cq->users, 1);
	srq->gone = true;
	if (srq->users == 0)
		free(srq);
	return 0;
}

void
srq_release(struct srq *srq)
{
	if (--srq->users == 0 && srq->gone)
		free(srq);
}

void
srq_leave(struct srq *srq, struct transport *tp)
{
	UROCE_ASSERT(srq->tp == tp && !srq->gone);
	journal_srq_depart(tp, srq);
	srq->tp = NULL;
	if (srq->xrcd != 0)
		LIST_REMOVE(srq, link);
}

void
srq_arrive(struct srq *srq, struct transport *tp)
{
	UROCE_ASSERT(srq->tp == NULL);
	srq->tp = tp;
	if (srq->xrcd != 0)
		LIST_INSERT_HEAD(&tp->xrc_srqs[srq_bucket(srq->srqn)], srq, link);
	journal_srq_enter(tp, srq);
}

/*
 * Raise the event if fewer than limit WQEs are left (10.2.9.2), once; that disarms it. WQEs are posted in order, so at
 * least limit WQEs are left exactly if the limit-th from here is posted.
 */
static void
srq_check_limit(struct transport *tp, struct srq *srq)
{
	if (srq->limit <= UINT32_C(1) << srq->ring.order &&
	    ring_rq_ready(&srq->ring, srq->ring.counter + srq->limit - 1))
		return;
	srq->limit = 0;
	tp_event(tp, UROCE_EVENT_SRQ_LIMIT_REACHED, JOURNAL_OF_SRQ, srq->number, srq->cookie, srq->owner);
}

bool
srq_take(struct transport *tp, struct qp *qp, struct tp_rwqe *w)
{
	struct srq *srq = qp->rcv.srq;
	struct ring_sge *copy = &w->own_sge;
	const struct ring_rq_wqe *slot;
	uint32_t nb_sge;

	/* Receives are taken by one engine at a time. */
	UROCE_ASSERT(srq->tp == tp);
	if (!ring_rq_ready(&srq->ring, srq->ring.counter))
		return false;
	slot = ring_slot(&srq->ring, srq->ring.counter);
	nb_sge = rwqe_nb_sge(slot, srq->max_sge);
	if (nb_sge > 1) {
		/* With no block left, act as if no receive were posted. Blocks come back when messages end. */
		copy = share_take(tp, qp, TP_POOL_SGES, &tp->sge_blocks);
		if (unlikely(copy == NULL)) {
			MARK_UNIT("the pool of SGE blocks is empty", "unit/transport/qp_idle");
			tp->counters.srq_no_sges++;
			return false;
		}
	}
	for (uint32_t i = 0; i < nb_sge; i++)
		copy[i] = wqe_get_sge(&slot->sge[i]);
	rwqe_begin(w, &srq->ring, srq->ring.counter, copy, nb_sge);
	w->borrowed = nb_sge > 1;
	srq->ring.counter++;
	if (likely(tp->journal == NULL))
		atomic_store_explicit(&srq->shared->head, srq->ring.counter, memory_order_release);
	else
		journal_srq_changed(tp, srq, qp);
	if (srq->limit != 0)
		srq_check_limit(tp, srq);
	return true;
}
