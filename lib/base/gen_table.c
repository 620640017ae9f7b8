/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/gen_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mix.h"

int
gen_table_init(struct gen_table *t, uint32_t size, uint64_t seed)
{
	t->size = t->nb_free = size;
	while ((UINT32_C(1) << t->slot_bits) < size)
		t->slot_bits++;
	t->slot_mask = (UINT32_C(1) << t->slot_bits) - 1;
	t->free_ring = calloc(size, sizeof(*t->free_ring));
	t->generation = calloc(size, sizeof(*t->generation));
	if (t->free_ring == NULL || t->generation == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		t->free_ring[i] = i;
	if (seed == 0)
		return 0;
	for (uint32_t i = 0; i < size; i++)
		t->generation[i] = (uint32_t)mix64(seed += MIX_STEP);
	/* In turn from there on, so that the slots in use lie together. */
	t->free_head = (uint32_t)(mix64(seed + MIX_STEP) % size);
	return 0;
}

void
gen_table_fini(struct gen_table *t)
{
	free(t->free_ring);
	free(t->generation);
}

uint32_t
gen_table_take(struct gen_table *t)
{
	uint32_t slot = t->free_ring[t->free_head];

	UROCE_ASSERT(t->nb_free != 0 && gen_table_get(t, slot) == NULL);
	t->free_head = t->free_head + 1 == t->size ? 0 : t->free_head + 1;
	t->nb_free--;
	return slot;
}

void
gen_table_give(struct gen_table *t, uint32_t slot)
{
	uint32_t tail = t->free_head + t->nb_free;

	UROCE_ASSERT(t->nb_free < t->size && gen_table_get(t, slot) == NULL);
	t->free_ring[tail >= t->size ? tail - t->size : tail] = slot;
	t->nb_free++;
}
