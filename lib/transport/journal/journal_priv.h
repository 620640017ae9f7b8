/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A journal begins and ends; QPs come and go in it. core/journal_priv.h has what is noted in between.
 *
 * Called on the engine, except as said.
 */
#ifndef UROCE_TP_JOURNAL_PRIV_H
#define UROCE_TP_JOURNAL_PRIV_H

#include "transport/core/journal_priv.h"
#include "transport/record/record.h"

/** [control] Begin the journal of a new transport, if it keeps one. @return 0; EINVAL: the memory or the limits are wrong; ENOMEM. */
int journal_create(struct transport *tp);
/** [control] The memory stays as it is. */
void journal_destroy(struct transport *tp);

/** @return ENOMEM; 0, also without a journal. */
int journal_enter(struct transport *tp, struct qp *qp);
/** @p qp is about to be freed. */
void journal_leave(struct transport *tp, struct qp *qp);
/** @p qp leaves for another engine. @return what journal_arrived() gets, or NULL. */
struct tp_journal_qp *journal_depart(struct transport *from, struct qp *qp);
/** @return an entry for journal_arrive(), or NULL. Free it if it isn't used. */
struct tp_journal_qp *journal_entry(void);
/** @p qp arrives. @param entry  Now the journal's. @param from  What journal_depart() returned. */
void journal_arrive(struct transport *to, struct qp *qp, struct tp_journal_qp *entry, struct tp_journal_qp *from);
/** [engine that it has arrived at, whose journal counts it] The former journal need not know it any more. @param q  Or NULL. */
void journal_arrived(struct tp_journal_qp *q);
/** Have a QP that is being restored keep what its record says. @return false: no memory. */
bool journal_keep(struct qp *qp, const struct qp_record *r, const struct qp_record_kept *kept);

#endif /* UROCE_TP_JOURNAL_PRIV_H */
