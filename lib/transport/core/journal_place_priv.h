/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Bytes of a peer's WRITEs go to a program's memory, and the journal, if there is one, notes that they are there. Owns nothing. Called on the engine.
 */
#ifndef UROCE_TP_JOURNAL_PLACE_H
#define UROCE_TP_JOURNAL_PLACE_H

#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_priv.h"

/** As copy_place() for packet @p psn, the expected one, unless its bytes are in place from a turn that didn't count. */
static inline int
journal_place(struct transport *tp, struct qp *qp, uint32_t psn, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	int rc;

	if (likely(qp->journal == NULL))
		return copy_place(tp, qp, mr, va, data, len);
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
