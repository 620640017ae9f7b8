/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: the only place that writes CQEs, and completion events.
 */
#include "base/mark.h"
#include "transport/core/async_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/qp_error_priv.h"

#define CQ_PROD_ONE UINT64_C(2) /* of struct cq.prod, whose bit 0 names the ring */

int
cq_create(const struct cq_params *p, struct cq **out)
{
	struct cq *cq = calloc(1, sizeof(*cq));

	if (cq == NULL)
		return ENOMEM;
	cq->rings[0] = (struct cq_ring){ p->ring, p->stamps };
	cq->shared = p->shared;
	cq->channel = p->channel;
	cq->number = p->number;
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
		if (unlikely(tp->nb_touched >= tp->c.limits.touched_cqs)) {
			MARK_UNIT("more CQs get completions in a turn than can wait for its end", "unit/transport/limits");
			cq_flush_touched(tp);
		}
		UROCE_ASSERT(tp->nb_touched < TP_TOUCHED_CQS);
		tp->touched[tp->nb_touched++] = cq;
	}
	*flags |= solicited ? TP_TOUCHED | TP_TOUCHED_SOLICITED : TP_TOUCHED;
}

void
cq_shown(struct transport *tp, struct cq *cq, uint8_t flags)
{
	cq_touch(tp, cq, (flags & TP_TOUCHED_SOLICITED) != 0);
}

/*
 * The CQ has overrun and gets no more CQEs (11.6.3.1): tell the client by flag and event, once. @p qp goes to ERR now,
 * other QPs of the CQ when they next complete a WQE.
 */
static void
cq_fail(struct transport *tp, struct cq *cq, struct qp *qp)
{
	if (!atomic_exchange(&cq->overrun, true)) {
		if (likely(tp->journal == NULL))
			atomic_store_explicit(&cq->shared->overrun, 1, memory_order_release);
		else
			journal_overrun(tp, cq);
		tp->counters.cq_overrun++;
		tp_event(tp, UROCE_EVENT_CQ_ERR, JOURNAL_OF_CQ, cq->number, cq->cookie, cq->owner);
		diag_note(tp, qp, QP_EV_OVERRUN, 0, 0, qp->req.psn_una);
		if (likely(tp->journal == NULL))
			cq_touch(tp, cq, true);
	}
	qp_error(tp, qp, UROCE_EVENT_QP_FATAL, TP_BECAUSE(CQ, 0));
}

static inline uint32_t
prod_counter(uint64_t prod)
{
	return (uint32_t)(prod >> 1);
}

/* Take the next slot. @return false: the ring is full of unpolled CQEs. */
static inline bool
cq_reserve(struct cq *cq, uint32_t *n, const struct cq_ring **ring)
{
	uint32_t cons;
	uint64_t at;

	if (unlikely(atomic_load_explicit(&cq->overrun, memory_order_relaxed)))
		return false;
	/* Acquire, to see the ring that bit 0 selects. */
	if (cq->multi) {
		at = atomic_fetch_add_explicit(&cq->prod, CQ_PROD_ONE, memory_order_acquire);
	} else {
		at = atomic_load_explicit(&cq->prod, memory_order_acquire);
		atomic_store_explicit(&cq->prod, at + CQ_PROD_ONE, memory_order_relaxed);
	}
	*n = prod_counter(at);
	*ring = &cq->rings[at & 1];
	/* Acquire and release: another engine may have asked the client. */
	if (likely(*n - atomic_load_explicit(&cq->cons, memory_order_acquire) <= (*ring)->ring.mask))
		return true;
	/* Acquire: the client has read what it polled before the slot is written again. */
	cons = atomic_load_explicit(&cq->shared->cons, memory_order_acquire);
	atomic_store_explicit(&cq->cons, cons, memory_order_release);
	return *n - cons <= (*ring)->ring.mask;
}

uint32_t
cq_resize(struct cq *cq, const struct ring *ring, uint64_t *stamps)
{
	cq->rings[~atomic_load_explicit(&cq->prod, memory_order_relaxed) & 1] = (struct cq_ring){ *ring, stamps };
	return prod_counter(atomic_fetch_xor_explicit(&cq->prod, 1, memory_order_release));
}

/** @param journal  A constant: whether the transport has one. */
static __rte_always_inline void
push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e, bool journal)
{
	union ring_cqe_ctl ctl = e->ctl;
	const struct cq_ring *ring;
	struct ring_cqe *slot;
	uint8_t phase;
	uint32_t n;

	if (unlikely(!cq_reserve(cq, &n, &ring))) {
		cq_fail(tp, cq, qp);
		return;
	}
	slot = ring_slot(&ring->ring, n);
	slot->wr_id = e->wr_id;
	slot->byte_len = e->byte_len;
	slot->imm = e->imm;
	slot->qpn_status = qp->qpn | (uint32_t)e->status << 24;
	slot->src_qp_opcode = e->src_qp | (uint32_t)e->opcode << 24;
	if (unlikely(ring->stamps != NULL))
		ring->stamps[n & ring->ring.mask] =
			tp->c.stamp_ns != NULL ? tp->c.stamp_ns(tp->c.arg) : tp->now_ns;
	phase = ring_phase(n, ring->ring.order);
	/* With a journal it isn't shown yet. */
	if (journal)
		phase ^= RING_PHASES;
	atomic_store_explicit(&slot->ctl, ring_with_phase(ctl.word, phase), memory_order_release);
	if (unlikely(e->status != UROCE_WC_SUCCESS)) {
		if (e->status == UROCE_WC_WR_FLUSH_ERR)
			tp->counters.cqe_flush_error++;
		else if (ctl.is_recv)
			tp->counters.resp_cqe_error++;
		else
			tp->counters.req_cqe_error++;
	}
	if (journal)
		journal_cqe(tp, cq, qp, &slot->ctl, n, ring->ring.order);
	if (cq->channel < 0)
		return;
	/* Errors count as solicited (11.4.2.2). */
	if (journal)
		journal_cqe_wakes(tp, ctl.solicited || e->status != UROCE_WC_SUCCESS);
	else
		cq_touch(tp, cq, ctl.solicited || e->status != UROCE_WC_SUCCESS);
}

void
cq_push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e)
{
	if (unlikely(tp->journal != NULL))
		push(tp, cq, qp, e, true);
	else
		push(tp, cq, qp, e, false);
}

/* @return false: the event has been sent already, or the client hasn't armed the CQ for it. */
static bool
cq_wants(const struct cq *cq, uint8_t flags)
{
	uint32_t arm = ring_arm(atomic_load_explicit(&cq->shared->arm, memory_order_relaxed));

	if (arm == RING_ARM_NONE || cq->channel < 0)
		return false;
	return arm == RING_ARM_ANY || (arm == RING_ARM_SOLICITED && (flags & TP_TOUCHED_SOLICITED) != 0);
}

bool
cq_owes_events(const struct cq *cq)
{
	return atomic_load_explicit(&cq->owed, memory_order_acquire) != 0;
}

static void
owed_list(struct transport *tp, struct cq *cq)
{
	cq->owed_by = tp->c.engine;
	TAILQ_INSERT_TAIL(&tp->owed, cq, owed_link);
	tp->nb_owed++;
	tp->owed_next_ns = RTE_MIN(tp->owed_next_ns, tp->now_ns + TP_OWED_RETRY_NS);
}

static void
owed_unlist(struct transport *tp, struct cq *cq)
{
	TAILQ_REMOVE(&tp->owed, cq, owed_link);
	if (--tp->nb_owed == 0)
		tp->owed_next_ns = UINT64_MAX;
}

static bool
notify(struct transport *tp, const struct cq *cq)
{
	bool sent = tp->c.notify == NULL || tp->c.notify(tp->c.arg, cq->channel, cq->cookie);

	tp->counters.cq_events += sent;
	return sent;
}

/* Tell the client, now or when its channel has room. Each event is told once: the client counts them. */
static void
tell(struct transport *tp, struct cq *cq)
{
	if (likely(notify(tp, cq)))
		return;
	tp->counters.cq_events_delayed++;
	if (atomic_fetch_add(&cq->owed, 1) == 0)
		owed_list(tp, cq);
	journal_owed(tp, cq);
}

void
cq_tell(struct transport *tp)
{
	for (uint32_t i = 0; i < tp->nb_untold; i++)
		tell(tp, tp->untold[i]);
	tp->nb_untold = 0;
}

static void
cq_send_event(struct transport *tp, struct cq *cq)
{
	/* With a journal at once: what is raised and perhaps not told when the daemon is killed is told again by the next one, which should be rare. */
	if (!tp->c.tell_later || tp->journal != NULL) {
		tell(tp, cq);
		return;
	}
	if (unlikely(tp->nb_untold >= tp->c.limits.touched_cqs)) {
		MARK_UNIT("more events are raised in a turn than can wait for its end", "unit/transport/limits");
		cq_tell(tp);
	}
	tp->untold[tp->nb_untold++] = cq;
}

/*
 * Try again, in turn, so that a client that reads nothing delays its own events only. The list is left before the count
 * is: another engine that then finds it 0 puts the CQ into its own.
 */
static void
run_owed(struct transport *tp)
{
	struct cq *cq;

	for (uint32_t i = RTE_MIN(tp->nb_owed, (uint32_t)tp->c.limits.owed_burst); i > 0; i--) {
		cq = TAILQ_FIRST(&tp->owed);
		owed_unlist(tp, cq);
		if (!notify(tp, cq) || atomic_fetch_sub(&cq->owed, 1) > 1)
			owed_list(tp, cq);
		journal_owed(tp, cq);
	}
	if (tp->nb_owed != 0)
		tp->owed_next_ns = tp->now_ns + TP_OWED_RETRY_NS;
}

void
cq_drop_owed(struct transport *tp, struct cq *cq)
{
	uint32_t i = 0;

	cq_tell(tp);
	/* One that was restored and never used may be waiting for the end of the first turn. */
	while (i < tp->nb_touched && tp->touched[i] != cq)
		i++;
	if (i < tp->nb_touched) {
		cq->touched[tp->c.engine] = 0;
		tp->touched[i] = tp->touched[--tp->nb_touched];
	}
	if (!cq_owes_events(cq) || cq->owed_by != tp->c.engine)
		return;
	owed_unlist(tp, cq);
	atomic_store_explicit(&cq->owed, 0, memory_order_release);
	journal_owed(tp, cq);
}

/*
 * @return the counter of the first CQE that isn't written yet. Another engine may have taken a slot and be about to write it: for that CQE
 * the event that is raised now tells nothing, and that engine raises the next. So each CQE is looked at once, for the price of an event.
 */
static uint32_t
first_unwritten(const struct cq *cq)
{
	uint64_t prod = atomic_load_explicit(&cq->prod, memory_order_acquire);
	const struct ring *ring = &cq->rings[prod & 1].ring;
	uint32_t end = prod_counter(prod), n = atomic_load_explicit(&cq->reported, memory_order_relaxed);
	uint32_t cons = atomic_load_explicit(&cq->shared->cons, memory_order_acquire);
	union ring_cqe_ctl ctl;

	if (!cq->multi)
		return end;
	/* What was polled was written; its slots may have others by now. */
	if ((int32_t)(cons - n) > 0 && (int32_t)(end - cons) >= 0)
		n = cons;
	while (n != end && ring_cq_ready(ring, n, &ctl))
		n++;
	return n;
}

static void
cq_raise(struct transport *tp, struct cq *cq)
{
	uint32_t arm = atomic_load_explicit(&cq->shared->arm, memory_order_acquire);
	uint32_t written;

	/*
	 * Of several engines, the one that swaps it raises the event. The client may have begun to watch the CQ itself. Or it has had events
	 * for all that is written, and has armed the CQ for the next.
	 */
	do {
		if (ring_arm(arm) == RING_ARM_NONE || ring_arm(arm) == RING_ARM_WATCHED)
			return;
		written = first_unwritten(cq);
		if (written == atomic_load_explicit(&cq->reported, memory_order_relaxed) ||
		    written == atomic_load_explicit(&cq->shared->seen, memory_order_relaxed))
			return;
	} while (!atomic_compare_exchange_weak(&cq->shared->arm, &arm, ring_arm_as(arm, RING_ARM_NONE)));
	atomic_store_explicit(&cq->reported, written, memory_order_relaxed);
	atomic_store_explicit(&cq->shared->reported, written, memory_order_release);
	cq_send_event(tp, cq);
}

/*
 * Moderation: hold an event back until there are enough completions, or some time has passed since the first.
 * @return false: it isn't held back.
 */
static __attribute__((noinline)) bool
cq_defer(struct transport *tp, struct cq *cq, uint32_t moderation, uint8_t flags)
{
	uint32_t count = moderation >> 16, us = moderation & UINT16_MAX, i;
	uint32_t pending = prod_counter(atomic_load_explicit(&cq->prod, memory_order_relaxed)) -
			   atomic_load_explicit(&cq->reported, memory_order_relaxed);

	if (atomic_load_explicit(&cq->overrun, memory_order_relaxed) || (count != 0 && pending >= count))
		return false;
	for (i = 0; i < tp->nb_deferred; i++) {
		if (tp->deferred[i].cq == cq) {
			tp->deferred[i].flags |= flags;
			return true;
		}
	}
	if (tp->nb_deferred >= tp->c.limits.deferred_cqs) {
		MARK_UNIT("no more events can be held back by moderation", "unit/transport/limits");
		return false;
	}
	UROCE_ASSERT(tp->nb_deferred < TP_DEFERRED_CQS);
	tp->deferred[tp->nb_deferred] = (struct cq_deferred){ cq, us != 0 ? tp->now_ns + us * UINT64_C(1000) : UINT64_MAX, flags };
	tp->deferred_next_ns = RTE_MIN(tp->deferred_next_ns, tp->deferred[tp->nb_deferred].due_ns);
	tp->nb_deferred++;
	return true;
}

/* @return TP_TOUCHED_* of the event held back for @p cq; 0: there is none. */
static __attribute__((noinline)) uint8_t
deferred_flags(const struct transport *tp, const struct cq *cq)
{
	for (uint32_t i = 0; i < tp->nb_deferred; i++) {
		if (tp->deferred[i].cq == cq)
			return tp->deferred[i].flags;
	}
	return 0;
}

static void
cq_notify(struct transport *tp, struct cq *cq, uint8_t flags)
{
	uint32_t moderation = atomic_load_explicit(&cq->moderation, memory_order_relaxed);

	/* This completion, even if it isn't solicited, may be the last of those that the event held back waits for. */
	if (unlikely(tp->nb_deferred != 0))
		flags |= deferred_flags(tp, cq);
	if (!cq_wants(cq, flags))
		return;
	if (unlikely(moderation != 0)) {
		if (cq_defer(tp, cq, moderation, flags))
			return;
		/* The event held back is raised now, together with this one. */
		cq_release_deferred(tp, cq, false);
	}
	cq_raise(tp, cq);
}

/* @return false: another engine has raised an event since the last completion. */
static bool
cq_has_news(const struct cq *cq)
{
	return prod_counter(atomic_load_explicit(&cq->prod, memory_order_relaxed)) !=
	       atomic_load_explicit(&cq->reported, memory_order_relaxed);
}

void
cq_run_deferred(struct transport *tp)
{
	struct cq_deferred *h;
	uint32_t i;

	if (tp->now_ns >= tp->owed_next_ns)
		run_owed(tp);
	if (tp->now_ns < tp->deferred_next_ns)
		return;
	tp->deferred_next_ns = UINT64_MAX;
	for (i = 0; i < tp->nb_deferred;) {
		h = &tp->deferred[i];
		if (tp->now_ns < h->due_ns) {
			tp->deferred_next_ns = RTE_MIN(tp->deferred_next_ns, h->due_ns);
			i++;
			continue;
		}
		if (cq_wants(h->cq, h->flags) && cq_has_news(h->cq))
			cq_raise(tp, h->cq);
		*h = tp->deferred[--tp->nb_deferred];
	}
}

uint8_t
cq_held(const struct transport *tp, const struct cq *cq)
{
	return cq->channel < 0 ? 0 : deferred_flags(tp, cq) | cq->touched[tp->c.engine];
}

void
cq_tell_again(struct transport *tp, struct cq *cq, uint8_t held, uint32_t owed)
{
	uint32_t moderation = atomic_load_explicit(&cq->moderation, memory_order_relaxed);

	if (held != 0 && (moderation == 0 || !cq_defer(tp, cq, moderation, held)))
		cq_touch(tp, cq, (held & TP_TOUCHED_SOLICITED) != 0);
	if (owed == 0)
		return;
	atomic_store_explicit(&cq->owed, owed, memory_order_release);
	owed_list(tp, cq);
	journal_owed(tp, cq);
}

void
cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us)
{
	atomic_store_explicit(&cq->moderation, (uint32_t)count << 16 | period_us, memory_order_relaxed);
}

void
cq_release_deferred(struct transport *tp, struct cq *cq, bool raise)
{
	uint32_t i;

	/* An event tells of completions that are shown. */
	if (raise)
		journal_commit(tp);
	for (i = 0; i < tp->nb_deferred; i++) {
		if (tp->deferred[i].cq != cq)
			continue;
		if (raise && cq_wants(cq, tp->deferred[i].flags))
			cq_raise(tp, cq);
		tp->deferred[i] = tp->deferred[--tp->nb_deferred];
		/* While nothing is held back this time isn't updated, so reset it for the next event. */
		if (tp->nb_deferred == 0)
			tp->deferred_next_ns = UINT64_MAX;
		return;
	}
}

void
cq_flush_touched(struct transport *tp)
{
	/*
	 * The CQEs must be visible before the arms are read. The client does the same the other way round: arm, fence,
	 * look for a CQE.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < tp->nb_touched; i++) {
		struct cq *cq = tp->touched[i];
		uint8_t flags = cq->touched[tp->c.engine];

		cq->touched[tp->c.engine] = 0;
		cq_notify(tp, cq, flags);
	}
	tp->nb_touched = 0;
}
