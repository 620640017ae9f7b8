/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: the one place that writes a CQE, and completion events.
 */
#include <unistd.h>

#include "ctl.h"
#include "tp_internal.h"

int
cq_create(const struct cq_params *p, struct cq **out)
{
	struct cq *cq = calloc(1, sizeof(*cq));

	if (cq == NULL)
		return ENOMEM;
	cq->ring = p->ring;
	cq->shared = p->shared;
	cq->channel_fd = p->channel_fd;
	cq->cookie = p->cookie;
	cq->owner = p->owner;
	cq->multi = p->multi;
	*out = cq;
	return 0;
}

void
cq_destroy(struct cq *cq)
{
	free(cq);
}

uint32_t
cq_users(const struct cq *cq)
{
	return atomic_load_explicit(&cq->users, memory_order_acquire);
}

static void
cq_touch(struct transport *tp, struct cq *cq, bool solicited)
{
	uint8_t *flags = &cq->touched[tp->c.engine];

	if (*flags == 0) {
		if (unlikely(tp->nb_touched == TP_TOUCHED_CQS))
			cq_flush_touched(tp);
		tp->touched[tp->nb_touched++] = cq;
	}
	*flags |= solicited ? TP_TOUCHED | TP_TOUCHED_SOLICITED : TP_TOUCHED;
}

/*
 * No further CQE comes (11.6.3.1): tell the client by flag and event, once. The QP at hand goes to ERR now, others that
 * use the CQ when they complete something.
 */
static void
cq_fail(struct transport *tp, struct cq *cq, struct qp *qp)
{
	if (!atomic_exchange(&cq->overrun, true)) {
		atomic_store_explicit(&cq->shared->overrun, 1, memory_order_release);
		tp->counters.cq_overrun++;
		tp_event(tp, UROCE_EVENT_CQ_ERR, cq->cookie, cq->owner);
		cq_touch(tp, cq, true);
	}
	qp_error(tp, qp, UROCE_EVENT_QP_FATAL);
}

/* Take the next slot. @return false: the client hasn't polled what is there. */
static inline bool
cq_reserve(struct cq *cq, uint32_t *n)
{
	uint32_t size = UINT32_C(1) << cq->ring.order, cons;

	if (unlikely(atomic_load_explicit(&cq->overrun, memory_order_relaxed)))
		return false;
	if (cq->multi) {
		*n = atomic_fetch_add_explicit(&cq->prod, 1, memory_order_relaxed);
	} else {
		*n = atomic_load_explicit(&cq->prod, memory_order_relaxed);
		atomic_store_explicit(&cq->prod, *n + 1, memory_order_relaxed);
	}
	if (likely(*n - atomic_load_explicit(&cq->cons, memory_order_relaxed) < size))
		return true;
	/* Acquire: what the client polled it has read, before the slot is written again. */
	cons = atomic_load_explicit(&cq->shared->cons, memory_order_acquire);
	atomic_store_explicit(&cq->cons, cons, memory_order_relaxed);
	return *n - cons < size;
}

void
cq_push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e)
{
	union ring_cqe_ctl ctl = e->ctl;
	struct ring_cqe *slot;
	uint32_t n;

	if (unlikely(!cq_reserve(cq, &n))) {
		cq_fail(tp, cq, qp);
		return;
	}
	slot = ring_slot(&cq->ring, n);
	slot->wr_id = e->wr_id;
	slot->byte_len = e->byte_len;
	slot->imm = e->imm;
	slot->qpn = qp->qpn;
	slot->status = e->status;
	slot->src_qp = e->src_qp;
	slot->opcode = e->opcode;
	ctl.phase = ring_phase(n, cq->ring.order);
	atomic_store_explicit(&slot->ctl, ctl.word, memory_order_release);
	if (unlikely(e->status != UROCE_WC_SUCCESS)) {
		if (e->status == UROCE_WC_WR_FLUSH_ERR)
			tp->counters.cqe_flush_error++;
		else if (ctl.is_recv)
			tp->counters.resp_cqe_error++;
		else
			tp->counters.req_cqe_error++;
	}
	/* Errors count as solicited (11.4.2.2). */
	if (cq->channel_fd >= 0)
		cq_touch(tp, cq, ctl.solicited || e->status != UROCE_WC_SUCCESS);
}

static void
cq_notify(struct transport *tp, struct cq *cq, uint8_t touched)
{
	struct ctl_comp_event ev = { .cookie = cq->cookie };
	uint32_t arm = atomic_load_explicit(&cq->shared->arm, memory_order_relaxed);

	if (arm == RING_ARM_NONE || cq->channel_fd < 0)
		return;
	if (arm != RING_ARM_ANY && (touched & TP_TOUCHED_SOLICITED) == 0)
		return;
	/* Of several engines, whoever swaps it sends the event. */
	if (atomic_exchange(&cq->shared->arm, RING_ARM_NONE) == RING_ARM_NONE)
		return;
	atomic_store_explicit(&cq->shared->reported, atomic_load_explicit(&cq->prod, memory_order_relaxed),
			      memory_order_release);
	if (write(cq->channel_fd, &ev, sizeof(ev)) == (ssize_t)sizeof(ev))
		tp->counters.cq_events++;
	else
		tp->counters.cq_events_lost++;
}

void
cq_flush_touched(struct transport *tp)
{
	/* CQEs before arms: the other half of the client's arm, fence, look for a CQE. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < tp->nb_touched; i++) {
		struct cq *cq = tp->touched[i];
		uint8_t flags = cq->touched[tp->c.engine];

		cq->touched[tp->c.engine] = 0;
		cq_notify(tp, cq, flags);
	}
	tp->nb_touched = 0;
}
