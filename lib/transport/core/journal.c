/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a turn notes in the journal while it is made.
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_place_priv.h"
#include "wire/wire.h"

static void
store(_Atomic uint64_t *at, uint64_t word)
{
	atomic_store_explicit(at, word, memory_order_release);
}

void
journal_dirty(struct tp_journal_qp *q)
{
	if (q->qp != NULL)
		q->qp->sched.unnoted = false;
	q->journal->dirty[q->journal->nb_dirty++] = q;
}

void
journal_stepped(struct transport *tp, struct qp *qp)
{
	journal_touch(qp);
	journal_room(tp);
}

/* ---- What is to be shown ---- */
static inline struct tp_told *
item(struct tp_journal *j, uint8_t kind, uint32_t number, uint32_t counter, uint8_t type, uint8_t of, uint8_t order)
{
	struct journal_item *i = &j->list->items[j->nb_items];
	struct tp_told *t = &j->told[j->nb_items];

	UROCE_ASSERT(j->nb_items < JOURNAL_ITEMS);
	journal_run_ends(j);
	j->nb_items++;
	i->number = number;
	i->counter = counter;
	i->kind = kind;
	i->type = type;
	i->of = of;
	i->order = order;
	t->kind = kind;
	t->type = type;
	t->more = 0;
	journal_step(j);
	return t;
}

void
journal_cqe_item(struct transport *tp, struct cq *cq, _Atomic uint64_t *ctl, uint32_t counter, uint32_t order)
{
	struct tp_journal *j = tp->journal;
	struct tp_told *t = item(j, JOURNAL_ITEM_CQE, cq->number, counter, 0, 0, (uint8_t)order);
	uint32_t size = UINT32_C(1) << order;

	t->type = TP_TOUCHED;
	t->cq = cq;
	t->what = ctl;
	j->run_next = ctl + JOURNAL_CTL_STEP;
	/* Others follow in this lap. */
	j->run_end = ctl + (1 + RTE_MIN((uint32_t)UINT8_MAX, size - 1 - (counter & (size - 1)))) * JOURNAL_CTL_STEP;
}

void
journal_overrun(struct transport *tp, struct cq *cq)
{
	item(tp->journal, JOURNAL_ITEM_OVERRUN, cq->number, 0, 0, 0, 0)->cq = cq;
}

void
journal_event(struct transport *tp, enum uroce_event type, uint8_t of, uint32_t number, uint64_t cookie, void *owner)
{
	struct tp_told *t = item(tp->journal, JOURNAL_ITEM_EVENT, number, 0, (uint8_t)type, of, 0);

	t->what = owner;
	t->cookie = cookie;
}

void
journal_owed(struct transport *tp, const struct cq *cq)
{
	if (tp->journal != NULL && cq->owed_by == tp->c.engine)
		store(&tp->journal->owed[cq->number], journal_number(atomic_load_explicit(&cq->owed, memory_order_relaxed)));
}

/* ---- What has changed the memory of programs ---- */
/* @return whether @p psn is before @p to. */
static bool
psn_before(uint32_t psn, uint32_t to)
{
	return wire_psn_diff(psn, to) < 0;
}

bool
journal_was_placed(const struct qp *qp, uint32_t psn)
{
	const struct tp_kept *k = qp->journal != NULL ? qp->journal->kept : NULL;

	return unlikely(k != NULL) && k->placed && psn_before(psn, k->placed_to);
}

int
journal_place_else(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	int rc;

	/* A packet that is only planned isn't executed; of UC none comes again. */
	if ((qp->copy != NULL && qp->copy->mode != COPY_EXECUTE) || qp->service != WIRE_RC)
		return copy_place(tp, qp, mr, va, data, len);
	if (unlikely(qp->journal->kept != NULL) && journal_was_placed(qp, psn)) {
		MARK("the bytes of a WRITE are in place from a turn that didn't count");
		return 0;
	}
	journal_step(qp->journal->journal);
	rc = copy_place(tp, qp, mr, va, data, len);
	if (likely(rc == 0))
		journal_note_placed(qp, psn);
	return rc;
}

static bool
atomic_before(const struct qp *qp, uint32_t psn, uint64_t *old)
{
	const struct tp_kept *k = qp->journal->kept;

	for (uint32_t i = 0; k != NULL && i < k->nb; i++) {
		if (k->atomics[i].psn != psn)
			continue;
		*old = k->atomics[i].old;
		return true;
	}
	return false;
}

/* Of memory that isn't mapped, or not aligned, or that others change meanwhile. */
static int
noted_atomic(struct tp_journal *j, const struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
	     uint64_t *old)
{
	struct journal_atomic *a = j->atomic;
	uint64_t was;
	int rc = mr_read(mr, va, &was, sizeof(was));

	while (rc == 0) {
		uint64_t becomes = op == MR_FETCH_ADD ? was + arg1 : was == arg1 ? arg2 : was;

		journal_note_atomic(j, a, qp->qpn, psn, mr->key, va, was, becomes);
		rc = mr_atomic(mr, va, MR_CMP_SWAP, was, becomes, old);
		if (rc == 0 && *old == was) {
			journal_noted_atomic(j, a);
			return 0;
		}
		journal_unnote_atomic(j);
		was = *old;
	}
	return rc;
}

void
journal_away_begins(struct qp *qp, uint32_t psn, const struct mr *mr, uint64_t va, struct mem_job *job)
{
	struct tp_journal_qp *q = qp->journal;

	job->note = NULL;
	if (q == NULL)
		return;
	/* The one before counts, or is listed. */
	store(&q->slot->away.state, 0);
	q->slot->away_va = va;
	q->slot->away_key = mr->key;
	q->slot->away_check = journal_away_check(q->slot);
	job->note = &q->slot->away;
	job->note_begun = journal_away(psn, JOURNAL_AWAY_BEGUN);
	job->note_done = journal_away(psn, JOURNAL_AWAY_DONE);
}

/* An atomic that others have executed is executed in this turn. */
static void
away_ends(struct tp_journal *j, const struct qp *qp, uint32_t psn, uint64_t old)
{
	struct journal_atomic *a = j->atomic++;

	UROCE_ASSERT(a < &j->list->atomics[JOURNAL_ATOMICS]);
	*a = (struct journal_atomic){ .before = old, .after = old, .qpn = qp->qpn, .psn = psn, .done = JOURNAL_DONE };
	a->check = journal_atomic_check(a, j->turn);
	journal_count_atomic(j);
	journal_step(j);
}

int
journal_atomic_else(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
		    uint64_t *old)
{
	if (atomic_before(qp, psn, old)) {
		MARK("an atomic was executed in a turn that didn't count");
		return 0;
	}
	if (unlikely(mr->host == NULL) && tp->c.copy != NULL && mr_is_remote(mr, va, sizeof(uint64_t))) {
		int rc = copy_atomic(tp, qp, mr, va, op, arg1, arg2, old);

		if (rc == 0 && (qp->copy == NULL || qp->copy->mode == COPY_EXECUTE))
			away_ends(tp->journal, qp, psn, *old);
		return rc;
	}
	return noted_atomic(tp->journal, qp, psn, mr, va, op, arg1, arg2, old);
}

bool
journal_local_before(const struct qp *qp, uint32_t counter)
{
	const struct tp_kept *k = qp->journal != NULL ? qp->journal->kept : NULL;

	return unlikely(k != NULL) && k->local && (int32_t)(counter - k->local_to) < 0;
}

void
journal_note_local(struct qp *qp, uint32_t counter)
{
	struct tp_journal_qp *q = qp->journal;

	if (q == NULL)
		return;
	store(&q->slot->local, journal_note_of(q->journal->note_zero, counter + 1));
	journal_step(q->journal);
}

void
journal_forget_kept(struct qp *qp, bool all)
{
	struct tp_kept *k = qp->journal != NULL ? qp->journal->kept : NULL;
	uint32_t n = 0;

	if (k == NULL)
		return;
	k->placed &= !all && psn_before(qp->rcv.epsn, k->placed_to);
	k->local &= !all && (int32_t)(qp->req.sq_tail - k->local_to) < 0;
	for (uint32_t i = 0; i < k->nb && !all; i++)
		if (!psn_before(k->atomics[i].psn, qp->rcv.epsn))
			k->atomics[n++] = k->atomics[i];
	k->nb = n;
	if (k->placed || k->local || k->nb != 0)
		return;
	journal_kept_set(qp, NULL);
	free(k);
}

/* ---- SRQs ---- */
static void
srq_dirty(struct tp_journal *j, struct srq *srq, uint32_t number)
{
	UROCE_ASSERT(j->nb_srqs < 2 * j->head->srqs);
	j->dirty_srqs[j->nb_srqs++] = (struct tp_journal_dirty_srq){ .srq = srq, .number = number };
}

void
journal_srq_changed(struct transport *tp, struct srq *srq, struct qp *qp)
{
	struct tp_journal *j = tp->journal;

	if (j == NULL)
		return;
	if (!srq->dirty) {
		srq->dirty = true;
		srq_dirty(j, srq, srq->number);
	}
	if (qp != NULL)
		journal_touch(qp);
}

void
journal_srq_enter(struct transport *tp, struct srq *srq)
{
	struct tp_journal *j = tp->journal;
	struct journal_srq *e;

	if (j == NULL)
		return;
	e = &j->srqs[srq->number];
	srq->leaving = false;
	if (atomic_load_explicit(&e->moved, memory_order_acquire) != 0) {
		/* It has been here before. */
		store(&e->copy[0].tag, 0);
		store(&e->copy[1].tag, 0);
		store(&e->moved, 0);
		j->srq_copy[srq->number] = TP_JOURNAL_NO_COPY;
	}
	journal_srq_changed(tp, srq, NULL);
}

void
journal_srq_leave(struct transport *tp, struct srq *srq)
{
	if (tp->journal == NULL)
		return;
	/* What was taken in this turn counts before. */
	journal_commit(tp);
	srq_dirty(tp->journal, NULL, srq->number);
	journal_commit(tp);
}

void
journal_srq_depart(struct transport *from, struct srq *srq)
{
	srq->leaving = true;
	journal_srq_changed(from, srq, NULL);
}

void
journal_srq_arrived(struct transport *from, const struct srq *srq)
{
	if (from->journal != NULL)
		store(&from->journal->srqs[srq->number].moved, JOURNAL_MOVED);
}
