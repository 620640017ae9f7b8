/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A peer's WRITEs and atomics go to a program's memory, and the journal, if there is one, notes that. Owns nothing. Called on the engine.
 */
#ifndef UROCE_TP_JOURNAL_PLACE_H
#define UROCE_TP_JOURNAL_PLACE_H

#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_priv.h"

/** journal_place() for a QP with a journal whose packets need not come again, are executed elsewhere, or were executed in a turn that didn't count. */
int journal_place_else(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len);
/** As copy_place() for packet @p psn, the expected one, unless its bytes are in place from a turn that didn't count. */
static inline int
journal_place(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	const struct tp_journal_qp *q = qp->journal;
	int rc;

	if (likely(q == NULL))
		return copy_place(tp, qp, mr, va, data, len);
	if (unlikely(qp->copy != NULL || q->placed == NULL))
		return journal_place_else(tp, qp, psn, mr, va, data, len);
	journal_step(q->journal);
	rc = copy_place(tp, qp, mr, va, data, len);
	if (likely(rc == 0))
		journal_note_at(q, q->placed, psn);
	return rc;
}

/** journal_atomic() where memory isn't mapped, somebody else has just changed the word, or the atomic may have been executed in a turn that didn't count. */
int journal_atomic_else(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
			uint64_t *old);
/**
 * As copy_atomic() for packet @p psn, the expected one, unless it has been executed. For QPs with a journal.
 *
 * The note says what memory will be, so the atomic is executed as a swap of exactly what was read. So after a kill at any point either the note is done, or
 * memory tells.
 */
static inline int
journal_atomic(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
	       uint64_t *old)
{
	struct tp_journal *j = qp->journal->journal;
	struct journal_atomic *a = j->atomic;
	_Atomic uint64_t *w;
	uint64_t was, becomes;
	int rc;

	if (likely(mr_word(mr, va, &w) && qp->journal->kept == NULL)) {
		was = atomic_load_explicit(w, memory_order_relaxed);
		becomes = op == MR_FETCH_ADD ? was + arg1 : was == arg1 ? arg2 : was;
		journal_note_atomic(j, a, qp->qpn, psn, mr->key, va, was, becomes);
		*old = was;
		if (likely(atomic_compare_exchange_strong(w, &was, becomes))) {
			journal_noted_atomic(j, a);
			return 0;
		}
		/* Somebody else has changed it. What the note says now may be there by chance. */
		journal_unnote_atomic(j);
	}
	/* Not *old itself, so that it can stay in a register. */
	was = 0;
	rc = journal_atomic_else(tp, qp, psn, mr, va, op, arg1, arg2, &was);
	*old = was;
	return rc;
}

/**
 * @return whether the bytes of packet @p psn are in place from a turn that didn't count, so that it doesn't matter that its key is gone: a later packet of
 * that turn may have invalidated it.
 */
static inline bool
journal_needs_no_key(const struct qp *qp, uint32_t psn)
{
	return qp->service == WIRE_RC && (qp->copy == NULL || qp->copy->mode == COPY_EXECUTE) && journal_was_placed(qp, psn);
}

#endif /* UROCE_TP_JOURNAL_PLACE_H */
