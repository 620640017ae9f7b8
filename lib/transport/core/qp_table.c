/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of QPs, shared by all engines. Numbers: the slot in the low bits, a generation in the upper ones, so that
 * a number comes back as late as it can. Readers take no lock; a QP's memory outlives its entry by a grace period.
 */
#include <rte_rcu_qsbr.h>
#include <rte_spinlock.h>

#include "transport/core/internal.h"

enum { QPN_BITS = 24, QPN_FIRST = 2 /* 0 and 1 are management QPs */ };

struct qp_table {
	struct rte_rcu_qsbr *qsbr;
	rte_spinlock_t lock;     /* of everything below but slots: creation and destruction */
	uint32_t size, bits;     /* slots; bits of a slot number */
	uint32_t count;
	uint32_t nb_free, free_head;
	uint32_t *free_ring;     /* slots, the one that has been free for longest first */
	uint32_t *generation;
	struct qp *zombies;
	struct time_wait_table *parted;
	_Atomic(struct qp *) slots[];
};

struct qp_table *
qp_table_create(uint32_t max_qp, struct rte_rcu_qsbr *qsbr)
{
	struct qp_table *t;

	if (max_qp == 0 || max_qp > UROCE_MAX_QP) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t) + max_qp * sizeof(t->slots[0]));
	if (t == NULL)
		return NULL;
	t->free_ring = calloc(max_qp, sizeof(*t->free_ring));
	t->generation = calloc(max_qp, sizeof(*t->generation));
	t->parted = time_wait_create();
	if (t->free_ring == NULL || t->generation == NULL || t->parted == NULL) {
		qp_table_destroy(t);
		errno = ENOMEM;
		return NULL;
	}
	t->qsbr = qsbr;
	t->size = max_qp;
	t->nb_free = max_qp;
	while ((UINT32_C(1) << t->bits) < max_qp)
		t->bits++;
	for (uint32_t i = 0; i < max_qp; i++)
		t->free_ring[i] = i;
	rte_spinlock_init(&t->lock);
	return t;
}

/* Free the zombies whose grace period is over, all of them if nobody reads any more. */
static void
reap(struct qp_table *t, bool all)
{
	struct qp **pp = &t->zombies, *qp;

	while ((qp = *pp) != NULL) {
		if (all || t->qsbr == NULL || rte_rcu_qsbr_check(t->qsbr, qp->zombie_token, false) == 1) {
			*pp = qp->zombie_next;
			qp_free(qp);
		} else {
			pp = &qp->zombie_next;
		}
	}
}

void
qp_table_destroy(struct qp_table *t)
{
	if (t == NULL)
		return;
	reap(t, true);
	free(t->free_ring);
	free(t->generation);
	free(t->parted);
	free(t);
}

struct time_wait_table *
qp_table_time_wait(struct qp_table *t)
{
	return t->parted;
}

uint32_t
qp_table_count(const struct qp_table *t)
{
	return t->count;
}

struct qp *
qp_table_get(const struct qp_table *t, uint32_t qpn)
{
	uint32_t slot = qpn & ((UINT32_C(1) << t->bits) - 1);
	struct qp *qp;

	if (slot >= t->size)
		return NULL;
	qp = atomic_load_explicit(&t->slots[slot], memory_order_acquire);
	return qp != NULL && qp->qpn == qpn ? qp : NULL;
}

int
qp_table_add(struct qp_table *t, struct qp *qp)
{
	uint32_t slot, qpn;
	int rc = ENOMEM;

	rte_spinlock_lock(&t->lock);
	reap(t, false);
	if (t->nb_free == 0)
		goto out;
	slot = t->free_ring[t->free_head];
	t->free_head = t->free_head + 1 == t->size ? 0 : t->free_head + 1;
	t->nb_free--;
	do {
		qpn = (t->generation[slot]++ << t->bits | slot) & ((UINT32_C(1) << QPN_BITS) - 1);
	} while (qpn < QPN_FIRST || qpn == WIRE_QPN_MULTICAST);
	qp->slot = slot;
	qp->qpn = qpn;
	t->count++;
	atomic_store_explicit(&t->slots[slot], qp, memory_order_release);
	rc = 0;
out:
	rte_spinlock_unlock(&t->lock);
	return rc;
}

void
qp_table_remove(struct qp_table *t, struct qp *qp)
{
	uint32_t tail;

	rte_spinlock_lock(&t->lock);
	atomic_store_explicit(&t->slots[qp->slot], NULL, memory_order_release);
	tail = t->free_head + t->nb_free;
	t->free_ring[tail >= t->size ? tail - t->size : tail] = qp->slot;
	t->nb_free++;
	t->count--;
	if (t->qsbr != NULL)
		qp->zombie_token = rte_rcu_qsbr_start(t->qsbr);
	qp->zombie_next = t->zombies;
	t->zombies = qp;
	reap(t, false);
	rte_spinlock_unlock(&t->lock);
}
