/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Adding QPs to the table of QPs and removing them (for look-ups see transport.h).
 *
 * Owns: the QP numbers, and the memory of removed QPs until no engine can see them any more. Called on the QP's engine.
 */
#ifndef UROCE_TP_QP_TABLE_H
#define UROCE_TP_QP_TABLE_H

#include <rte_spinlock.h>

#include "base/gen_table.h"
#include "transport/core/types_priv.h"

struct qp_table {
	rte_spinlock_t lock; /**< protects all below except the slots of numbers; taken by creation and destruction */
	struct deferred_list destroyed;
	struct time_wait_table *time_wait;
	struct gen_table numbers;
};

/** As qp_table_get() (transport.h), inline: for what is looked up for each packet. */
static inline struct qp *
qp_table_find(const struct qp_table *t, uint32_t qpn)
{
	struct qp *qp = gen_table_get(&t->numbers, qpn & t->numbers.slot_mask);

	return qp != NULL && qp->qpn == qpn ? qp : NULL;
}

/** Give @p qp a number (qp->qpn) and publish it. @return 0 or ENOMEM. */
int qp_table_add(struct qp_table *t, struct qp *qp);
/**
 * As qp_table_add(), under the number @p qpn, which it has had in another table of the same size.
 * @return 0; EEXIST (the number is in use); EINVAL (no QP of this table can have it).
 */
int qp_table_add_as(struct qp_table *t, struct qp *qp, uint32_t qpn);
/** Remove @p qp from the table; its memory is freed after a grace period. */
void qp_table_remove(struct qp_table *t, struct qp *qp);
/** @return the QP in @p slot, or NULL; as qp_table_get(). */
struct qp *qp_table_at(const struct qp_table *t, uint32_t slot);
/** Fetch the slot of number @p qpn from memory. */
void qp_table_prefetch(const struct qp_table *t, uint32_t qpn);
/** @return the QP in the slot of number @p qpn, which may have another number, or NULL. It is not looked at. */
const struct qp *qp_table_guess(const struct qp_table *t, uint32_t qpn);
/** @return the table of destroyed QPs in time wait. */
struct time_wait_table *qp_table_time_wait(struct qp_table *t);

#endif /* UROCE_TP_QP_TABLE_H */
