/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of QPs, shared by all engines. A QP number has the slot in its low bits and a generation above, so that a
 * number is reused as late as possible. Readers take no lock; a QP's memory outlives its entry by a grace period.
 */
#include "base/container_of.h"
#include "transport/core/qp_table_priv.h"
#include "transport/core/time_wait_priv.h"

enum { QPN_BITS = 24, QPN_FIRST = 2 /* 0 and 1 are management QPs */ };

static void
qp_free(struct qp *qp)
{
	free(qp->resp.res);
	free(qp->req.cc);
	free(qp->path.alt);
	free(qp);
}

static void
destroyed_free(struct deferred *d)
{
	qp_free(container_of(d, struct qp, deferred));
}

struct qp_table *
qp_table_create(uint32_t max_qp, struct rte_rcu_qsbr *qsbr, const struct secret *secret)
{
	struct qp_table *t;

	if (max_qp == 0 || max_qp > UROCE_MAX_QP) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t) + gen_table_bytes(max_qp));
	if (t == NULL)
		return NULL;
	rte_spinlock_init(&t->lock);
	t->destroyed = (struct deferred_list){ .qsbr = qsbr, .free = destroyed_free };
	t->time_wait = time_wait_create();
	if (gen_table_init(&t->numbers, max_qp, secret) != 0 || t->time_wait == NULL) {
		qp_table_destroy(t);
		errno = ENOMEM;
		return NULL;
	}
	return t;
}

void
qp_table_destroy(struct qp_table *t)
{
	if (t == NULL)
		return;
	deferred_free_all(&t->destroyed);
	gen_table_fini(&t->numbers);
	free(t->time_wait);
	free(t);
}

struct time_wait_table *
qp_table_time_wait(struct qp_table *t)
{
	return t->time_wait;
}

uint32_t
qp_table_count(const struct qp_table *t)
{
	return gen_table_count(&t->numbers);
}

uint32_t
qp_table_slots(const struct qp_table *t)
{
	return t->numbers.size;
}

struct qp *
qp_table_at(const struct qp_table *t, uint32_t slot)
{
	return gen_table_get(&t->numbers, slot);
}

struct qp *
qp_table_get(const struct qp_table *t, uint32_t qpn)
{
	return qp_table_find(t, qpn);
}

void
qp_table_prefetch(const struct qp_table *t, uint32_t qpn)
{
	gen_table_prefetch(&t->numbers, qpn & t->numbers.slot_mask);
}

const struct qp *
qp_table_guess(const struct qp_table *t, uint32_t qpn)
{
	return gen_table_get(&t->numbers, qpn & t->numbers.slot_mask);
}

int
qp_table_add(struct qp_table *t, struct qp *qp)
{
	int rc = ENOMEM;
	uint32_t slot;

	rte_spinlock_lock(&t->lock);
	deferred_reap(&t->destroyed);
	if (gen_table_full(&t->numbers))
		goto out;
	slot = gen_table_take(&t->numbers);
	do {
		qp->qpn = (gen_table_next(&t->numbers, slot) << t->numbers.slot_bits | slot) & ((UINT32_C(1) << QPN_BITS) - 1);
	} while (qp->qpn < QPN_FIRST || qp->qpn == WIRE_QPN_MULTICAST);
	gen_table_publish(&t->numbers, slot, qp);
	rc = 0;
out:
	rte_spinlock_unlock(&t->lock);
	return rc;
}

int
qp_table_add_as(struct qp_table *t, struct qp *qp, uint32_t qpn)
{
	uint32_t slot = qpn & t->numbers.slot_mask;
	int rc = EEXIST;

	if (qpn < QPN_FIRST || qpn >= WIRE_QPN_MULTICAST || slot >= t->numbers.size)
		return EINVAL;
	rte_spinlock_lock(&t->lock);
	deferred_reap(&t->destroyed);
	if (gen_table_take_as(&t->numbers, slot, qpn >> t->numbers.slot_bits)) {
		qp->qpn = qpn;
		gen_table_publish(&t->numbers, slot, qp);
		rc = 0;
	}
	rte_spinlock_unlock(&t->lock);
	return rc;
}

void
qp_table_remove(struct qp_table *t, struct qp *qp)
{
	uint32_t slot = qp->qpn & t->numbers.slot_mask;

	rte_spinlock_lock(&t->lock);
	gen_table_publish(&t->numbers, slot, NULL);
	gen_table_give(&t->numbers, slot);
	deferred_free(&t->destroyed, &qp->deferred);
	rte_spinlock_unlock(&t->lock);
}
