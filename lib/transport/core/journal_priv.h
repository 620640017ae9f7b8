/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The writing side of a journal: what has changed in a turn, and what waits to be shown. journal/journal.h says what journals are for.
 *
 * Whoever changes a QP calls journal_touch(), before or after, but before the step is over: a step is a batch of packets, a QP's part of a turn, a timer, a request. Between two steps
 * journal_room() may end the turn, when its lists are full. So within a step nothing may be shown.
 *
 * Owns: struct tp_journal of a transport, struct tp_journal_qp of a QP. Called on the engine, except as said.
 */
#ifndef UROCE_TP_JOURNAL_H
#define UROCE_TP_JOURNAL_H

#include "transport/core/journal_format_priv.h"
#include "transport/core/types_priv.h"
#include "wire/wire.h"

/** What was done for a QP in a turn that didn't count. Its packets and WQEs come again, and it isn't done again. */
struct tp_kept {
	bool placed, local;
	uint32_t placed_to;          /**< bytes of WRITEs and invalidations of packets before this PSN */
	uint32_t local_to;           /**< binds and local invalidations of WQEs before this counter */
	uint32_t nb;
	struct {
		uint64_t old;
		uint32_t psn;
	} atomics[UROCE_MAX_RD_ATOMIC];
};

/** A QP in a journal. It outlives the QP until its end counts. */
struct tp_journal_qp {
	struct tp_journal *journal;
	struct journal_notes *slot;
	struct qp *qp;               /**< NULL: destroyed, or at another engine */
	struct tp_kept *kept;        /**< or NULL */
	_Atomic uint64_t *placed;    /**< slot->placed; NULL: packets of its service don't come again, or `kept` may say what becomes of them */
	uint64_t tag;                /**< of the copy that counts, or 0 */
	uint32_t n;                  /**< of the slot */
	uint32_t state_shown;        /**< what shared->state says */
	uint32_t cold, cold_of[2];   /**< numbers that change with what seldom changes, now and in both copies */
	uint8_t state;               /**< enum journal_state */
	uint8_t copy;                /**< the copy that counts */
	bool counts;                 /**< one of them does */
	_Atomic bool moved;          /**< by the engine at which it has arrived */
	SLIST_ENTRY(tp_journal_qp) leaving_link;
};

/** Something to be shown, beside its journal_item. */
struct tp_told {
	struct cq *cq;
	void *what;                  /**< CQE: ctl of the first slot; EVENT: the owner */
	uint64_t cookie;
	uint8_t kind, type;          /**< enum journal_item_kind; CQE: TP_TOUCHED_*; EVENT: enum uroce_event */
	uint8_t more;                /**< CQE: slots that follow */
};

enum { TP_JOURNAL_NO_COPY = 2 };

struct tp_journal {
	struct journal_head *head;
	struct journal_list *list;
	struct journal_srq *srqs;
	_Atomic uint64_t *owed;      /**< per CQ */
	uint8_t *counters, *slots;   /**< in the memory, too: struct journal_counters, struct journal_slot */
	uint64_t turn;               /**< that is being made, */
	uint64_t tag, note_zero;     /**< its tag, and its note of value 0 */
	uint64_t atomic_seed;        /**< journal_atomic_seed() */
	struct journal_atomic *atomic; /**< the next one in the list */
	const struct journal_atomic *atomics_room; /**< once it is beyond this one, a turn ends at the next step */
	union {
		struct {
			uint32_t nb_dirty, nb_items;
		};
		uint64_t changed;    /**< 0: nothing to write down or to show, but SRQs */
	};
	uint32_t nb_srqs, nb_slots;
	uint32_t epsn_at;            /**< where an image of a QP has rcv.epsn */
	uint32_t room;               /**< with so many items a turn ends at the next step */
	struct tp_told *told;
	const _Atomic uint64_t *run_next; /**< the CQE that would lengthen the last item, or NULL; how many it has is written when it ends */
	const _Atomic uint64_t *run_end; /**< with that one it can't */
	struct tp_journal_qp **dirty;
	struct tp_journal_dirty_srq {
		struct srq *srq;     /**< NULL: destroyed */
		uint32_t number;
	} *dirty_srqs;
	uint8_t *srq_copy;           /**< per SRQ: the copy that counts, or TP_JOURNAL_NO_COPY */
	uint32_t *free_slots, nb_free;
	uint8_t *slot_copy;          /**< per slot that is free: the copy that counts, or TP_JOURNAL_NO_COPY */
	uint64_t counters_ns;        /**< when counters are written again */
	uint8_t counters_copy;
	SLIST_HEAD(, tp_journal_qp) leaving; /**< QPs that have left; slots of those that have arrived elsewhere are free again */
	void (*commit)(struct transport *tp);
	/** Called before and after each store that matters to whoever reads the journal after a kill; NULL: nobody wants to know. */
	void (*step)(void *arg);
	void *step_arg;
};

/** A point at which tests kill the transport. */
static inline void
journal_step(const struct tp_journal *j)
{
#ifdef UROCE_ASSERTIONS
	if (j->step != NULL)
		j->step(j->step_arg);
#else
	(void)j;
#endif
}

/** End the turn: what was done counts and is shown. Nothing without a journal. */
static inline void
journal_commit(struct transport *tp)
{
	const struct tp_journal *j = tp->journal;

	if (unlikely(j != NULL) && (j->changed | j->nb_srqs) != 0)
		j->commit(tp);
	/* Each atomic changes a QP, so they needn't be looked at. */
	UROCE_ASSERT(j == NULL || j->atomic == j->list->atomics);
}

/** What changes of @p q is written down at the end of the turn. Once in a turn. */
void journal_dirty(struct tp_journal_qp *q);
/** @p qp changes in this step. */
static inline void
journal_touch(struct qp *qp)
{
	if (unlikely(qp->sched.unnoted))
		journal_dirty(qp->journal);
}

/** What seldom changes of @p qp has changed: attributes, addresses. */
static inline void
journal_cold(struct qp *qp)
{
	if (unlikely(qp->journal != NULL)) {
		qp->journal->cold++;
		journal_touch(qp);
	}
}

/** Between two steps: if there may be no room for another one, end the turn. */
static inline void
journal_room(struct transport *tp)
{
	const struct tp_journal *j = tp->journal;

	if (unlikely(j->nb_items >= j->room || j->atomic > j->atomics_room))
		j->commit(tp);
}

/** A step that was for @p qp is over. Not for a transport without a journal. */
void journal_stepped(struct transport *tp, struct qp *qp);

/* ---- What is to be shown ---- */
enum { JOURNAL_CTL_STEP = sizeof(struct ring_cqe) / sizeof(uint64_t) }; /**< from the ctl of a CQE to that of the next one */
/** A new item for a CQE, which others may follow. */
void journal_cqe_item(struct transport *tp, struct cq *cq, _Atomic uint64_t *ctl, uint32_t counter, uint32_t order);
/** No CQE will lengthen the last item any more. */
static inline void
journal_run_ends(struct tp_journal *j)
{
	if (j->run_next == NULL)
		return;
	j->told[j->nb_items - 1].more = (uint8_t)((j->run_next - (const _Atomic uint64_t *)j->told[j->nb_items - 1].what) / JOURNAL_CTL_STEP - 1);
	j->run_next = NULL;
}
/** A CQE of @p qp was written, with its slot's phase still the former one. */
static inline void
journal_cqe(struct transport *tp, struct cq *cq, struct qp *qp, _Atomic uint64_t *ctl, uint32_t counter, uint32_t order)
{
	struct tp_journal *j = tp->journal;

	journal_touch(qp);
	/* Mostly it is the next one in the ring. */
	if (unlikely(ctl != j->run_next))
		journal_cqe_item(tp, cq, ctl, counter, order);
	else
		j->run_next = ctl + JOURNAL_CTL_STEP;
	if (unlikely(j->run_next == j->run_end))
		journal_run_ends(j);
	journal_step(j);
}
/** Its CQ has a channel. */
static inline void
journal_cqe_wakes(struct transport *tp, bool solicited)
{
	struct tp_journal *j = tp->journal;

	if (solicited)
		j->told[j->nb_items - 1].type |= TP_TOUCHED_SOLICITED;
}

/** @p cq has overrun. */
void journal_overrun(struct transport *tp, struct cq *cq);
void journal_event(struct transport *tp, enum uroce_event type, uint8_t of, uint32_t number, uint64_t cookie, void *owner);
/** A receive was taken from @p srq for @p qp, or its limit was set (@p qp NULL). */
void journal_srq_changed(struct transport *tp, struct srq *srq, struct qp *qp);
/** The number of events of @p cq for which its channel has no room. */
void journal_owed(struct transport *tp, const struct cq *cq);

/* ---- Notes: for QPs with a journal ---- */
/** The list has @p n atomics. Who reads that comes after a kill, so it is the compiler that must keep the order. */
static inline void
journal_count_atomics(const struct tp_journal *j, uint32_t n)
{
	atomic_signal_fence(memory_order_seq_cst);
	j->list->nb_atomics = journal_number(n);
	atomic_signal_fence(memory_order_seq_cst);
}

/** It has one more. */
static inline void
journal_count_atomic(const struct tp_journal *j)
{
	atomic_signal_fence(memory_order_seq_cst);
	j->list->nb_atomics += JOURNAL_NUMBER_NEXT;
	atomic_signal_fence(memory_order_seq_cst);
}

/** An atomic is about to be executed. @param a  j->atomic. */
static inline void
journal_note_atomic(const struct tp_journal *j, struct journal_atomic *a, uint32_t qpn, uint32_t psn, uint32_t key, uint64_t va, uint64_t before,
		    uint64_t after)
{
	UROCE_ASSERT(a < &j->list->atomics[JOURNAL_ATOMICS]);
	a->before = before;
	a->after = after;
	a->va = va;
	a->key = key;
	a->qpn = qpn;
	a->begun = psn;
	a->check = journal_atomic_sum(before, after, va, (uint64_t)key << 32 | qpn, psn, j->atomic_seed);
	journal_count_atomic(j);
	journal_step(j);
}
/** It wasn't. */
static inline void
journal_unnote_atomic(struct tp_journal *j)
{
	journal_count_atomics(j, (uint32_t)(j->atomic - j->list->atomics));
}
/** It was. */
static inline void
journal_noted_atomic(struct tp_journal *j, struct journal_atomic *a)
{
	journal_step(j);
	atomic_store_explicit(&a->done, JOURNAL_DONE, memory_order_release);
	j->atomic = a + 1;
	journal_step(j);
}
/** An atomic of packet @p psn goes to a copier: have it noted what becomes of it. */
void journal_away_begins(struct qp *qp, uint32_t psn, const struct mr *mr, uint64_t va, struct mem_job *job);
/** @return whether what packet @p psn changes, bytes or a key that it invalidates, was done in a turn that didn't count. */
bool journal_was_placed(const struct qp *qp, uint32_t psn);
/** It is done now, or the bytes of the packet are in place. @param placed  The note of @p q. */
static inline void
journal_note_at(const struct tp_journal_qp *q, _Atomic uint64_t *placed, uint32_t psn)
{
	atomic_store_explicit(placed, journal_note_of(q->journal->note_zero, (psn + 1) & WIRE_PSN_MASK), memory_order_release);
	journal_step(q->journal);
}
/** The same, if there is a journal. */
static inline void
journal_note_placed(struct qp *qp, uint32_t psn)
{
	if (unlikely(qp->journal != NULL))
		journal_note_at(qp->journal, &qp->journal->slot->placed, psn);
}
/** @return whether the local WQE @p counter was executed in a turn that didn't count. */
bool journal_local_before(const struct qp *qp, uint32_t counter);
/** It is executed now. */
void journal_note_local(struct qp *qp, uint32_t counter);
/** `kept` of @p qp is another one. */
static inline void
journal_kept_set(const struct qp *qp, struct tp_kept *kept)
{
	struct tp_journal_qp *q = qp->journal;

	q->kept = kept;
	q->placed = kept == NULL && qp->service == WIRE_RC ? &q->slot->placed : NULL;
}
/** Forget what is behind the QP by now, or all of it. */
void journal_forget_kept(struct qp *qp, bool all);

/* ---- SRQs come and go. For QPs: journal/journal_priv.h ---- */
void journal_srq_enter(struct transport *tp, struct srq *srq);
void journal_srq_leave(struct transport *tp, struct srq *srq);
/** @p srq leaves for another engine. */
void journal_srq_depart(struct transport *from, struct srq *srq);
/** [engine that it has arrived at, whose journal counts it] @param from  Its former engine. */
void journal_srq_arrived(struct transport *from, const struct srq *srq);

#endif /* UROCE_TP_JOURNAL_H */
