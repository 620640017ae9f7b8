/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of AHs, shared by all engines. A handle is what a WQE carries, so it may be anything: index
 * in the low bits, a generation above, and the PD that must be the QP's.
 */
#include <rte_rcu_qsbr.h>
#include "transport/core/ah.h"


enum { AH_INDEX_BITS = 16 };
static_assert(UROCE_MAX_AH <= 1 << AH_INDEX_BITS, "the index fits its bits");

struct ah_table {
	struct rte_rcu_qsbr *qsbr;
	uint32_t size, count;
	uint32_t nb_free, free_head;
	uint32_t *free_ring;    /* slots, the one that has been free for longest first */
	uint16_t *generation;   /* of the next AH in a slot, never 0 */
	struct tp_ah *zombies;
	_Atomic(struct tp_ah *) slots[];
};

struct ah_table *
ah_table_create(uint32_t max_ah, struct rte_rcu_qsbr *qsbr)
{
	struct ah_table *t;

	if (max_ah == 0 || max_ah > UROCE_MAX_AH) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t) + max_ah * sizeof(t->slots[0]));
	if (t == NULL)
		return NULL;
	t->free_ring = calloc(max_ah, sizeof(*t->free_ring));
	t->generation = calloc(max_ah, sizeof(*t->generation));
	if (t->free_ring == NULL || t->generation == NULL) {
		ah_table_destroy(t);
		errno = ENOMEM;
		return NULL;
	}
	t->qsbr = qsbr;
	t->size = max_ah;
	t->nb_free = max_ah;
	for (uint32_t i = 0; i < max_ah; i++) {
		t->free_ring[i] = i;
		t->generation[i] = 1;
	}
	return t;
}

/* Free what no engine can see any more. */
static void
reap(struct ah_table *t, bool all)
{
	struct tp_ah **pp = &t->zombies, *ah;

	while ((ah = *pp) != NULL) {
		if (all || t->qsbr == NULL || rte_rcu_qsbr_check(t->qsbr, ah->zombie_token, false) == 1) {
			*pp = ah->zombie_next;
			free(ah);
		} else {
			pp = &ah->zombie_next;
		}
	}
}

void
ah_table_destroy(struct ah_table *t)
{
	if (t == NULL)
		return;
	reap(t, true);
	free(t->free_ring);
	free(t->generation);
	free(t);
}

uint32_t
ah_table_count(const struct ah_table *t)
{
	return t->count;
}

const struct tp_ah *
ah_get(const struct ah_table *t, uint32_t handle, uint32_t pd)
{
	uint32_t slot = handle & ((1 << AH_INDEX_BITS) - 1);
	const struct tp_ah *ah;

	if (t == NULL || slot >= t->size)
		return NULL;
	ah = atomic_load_explicit(&t->slots[slot], memory_order_acquire);
	return ah != NULL && ah->handle == handle && ah->pd == pd ? ah : NULL;
}

int
ah_create(struct ah_table *t, uint32_t pd, const struct tp_path *path, uint32_t *handle)
{
	struct tp_ah *ah;
	uint32_t slot;

	reap(t, false);
	if (t->nb_free == 0)
		return ENOMEM;
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL)
		return ENOMEM;
	slot = t->free_ring[t->free_head];
	t->free_head = t->free_head + 1 == t->size ? 0 : t->free_head + 1;
	t->nb_free--;
	t->count++;
	ah->handle = (uint32_t)t->generation[slot] << AH_INDEX_BITS | slot;
	if (++t->generation[slot] == 0)
		t->generation[slot] = 1;
	ah->pd = pd;
	ah->path = *path;
	wire_tmpl_build(&ah->tmpl, &path->addr);
	*handle = ah->handle;
	atomic_store_explicit(&t->slots[slot], ah, memory_order_release);
	return 0;
}

int
ah_destroy(struct ah_table *t, uint32_t handle)
{
	uint32_t slot = handle & ((1 << AH_INDEX_BITS) - 1), tail;
	struct tp_ah *ah;

	if (slot >= t->size)
		return EINVAL;
	ah = atomic_load_explicit(&t->slots[slot], memory_order_relaxed);
	if (ah == NULL || ah->handle != handle)
		return EINVAL;
	atomic_store_explicit(&t->slots[slot], NULL, memory_order_release);
	tail = t->free_head + t->nb_free;
	t->free_ring[tail >= t->size ? tail - t->size : tail] = slot;
	t->nb_free++;
	t->count--;
	if (t->qsbr != NULL)
		ah->zombie_token = rte_rcu_qsbr_start(t->qsbr);
	ah->zombie_next = t->zombies;
	t->zombies = ah;
	reap(t, false);
	return 0;
}
