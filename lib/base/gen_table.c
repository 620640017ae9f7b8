/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/gen_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"

enum { SEARCHES = 16 }; /* so many take less time than to find out where all slots are */

static void
put(struct gen_table *t, uint32_t at, uint32_t slot)
{
	t->free_ring[at] = slot;
	if (t->where != NULL)
		t->where[slot] = at;
}

static void
swap(struct gen_table *t, uint32_t a, uint32_t b)
{
	uint32_t slot = t->free_ring[a];

	put(t, a, t->free_ring[b]);
	put(t, b, slot);
}

/** @return the place in the ring of the free slot that is @p n behind the head. */
static uint32_t
place(const struct gen_table *t, uint32_t n)
{
	uint32_t i = t->free_head + n;

	return i >= t->size ? i - t->size : i;
}

/** Bring the slots into a random order. Half a number is enough for each of them, and this is a part of the time that programs wait for a new daemon. */
static void
shuffle(struct gen_table *t)
{
	uint64_t random = 0;

	for (uint32_t i = t->size - 1, left = 0; i > 0; i--) {
		random = left == 0 ? secret_next(&t->secret) : random >> 32;
		left = left == 0;
		swap(t, i, (uint32_t)((random & UINT32_MAX) * (i + 1) >> 32));
	}
}

int
gen_table_init(struct gen_table *t, uint32_t size, const struct secret *secret)
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
	if (secret == NULL)
		return 0;
	t->random = true;
	t->secret = *secret;
	shuffle(t);
	return 0;
}

void
gen_table_fini(struct gen_table *t)
{
	free(t->free_ring);
	free(t->where);
	free(t->generation);
}

uint32_t
gen_table_take(struct gen_table *t)
{
	uint32_t slot;

	UROCE_ASSERT(t->nb_free != 0);
	if (t->random)
		swap(t, t->free_head, place(t, (uint32_t)(secret_next(&t->secret) % ((t->nb_free + 1) / 2))));
	slot = t->free_ring[t->free_head];
	UROCE_ASSERT(gen_table_get(t, slot) == NULL);
	t->free_head = place(t, 1);
	t->nb_free--;
	return slot;
}

/** @return whether where[] is there. */
static bool
know_where(struct gen_table *t)
{
	if (t->where != NULL)
		return true;
	t->where = calloc(t->size, sizeof(*t->where));
	for (uint32_t n = 0; n < t->nb_free && t->where != NULL; n++)
		t->where[t->free_ring[place(t, n)]] = place(t, n);
	return t->where != NULL;
}

/** @return the place in the ring of @p slot; UINT32_MAX: it isn't free. */
static uint32_t
search(const struct gen_table *t, uint32_t slot)
{
	uint32_t behind = t->size - t->free_head, last = t->nb_free < behind ? t->nb_free : behind;

	for (uint32_t i = 0; i < last; i++)
		if (t->free_ring[t->free_head + i] == slot)
			return t->free_head + i;
	for (uint32_t i = 0; i < t->nb_free - last; i++)
		if (t->free_ring[i] == slot)
			return i;
	return UINT32_MAX;
}

/** The same. */
static uint32_t
look_up(struct gen_table *t, uint32_t slot)
{
	uint32_t at, n;

	if (t->where == NULL && t->searches < SEARCHES) {
		t->searches++;
		return search(t, slot);
	}
	if (!know_where(t))
		return UINT32_MAX;
	at = t->where[slot];
	n = at + (at < t->free_head ? t->size : 0) - t->free_head;
	return n < t->nb_free && t->free_ring[at] == slot ? at : UINT32_MAX;
}

bool
gen_table_take_as(struct gen_table *t, uint32_t slot, uint32_t generation)
{
	uint32_t at = slot < t->size ? look_up(t, slot) : UINT32_MAX;

	if (at == UINT32_MAX)
		return false;
	swap(t, t->free_head, at);
	t->free_head = place(t, 1);
	t->nb_free--;
	/* The next object's number is another one, as gen_table_next() promises. */
	t->generation[slot] = t->random ? generation : generation + 1;
	return true;
}

void
gen_table_give(struct gen_table *t, uint32_t slot)
{
	UROCE_ASSERT(t->nb_free < t->size && gen_table_get(t, slot) == NULL);
	put(t, place(t, t->nb_free), slot);
	t->nb_free++;
}

uint32_t
gen_table_next(struct gen_table *t, uint32_t slot)
{
	uint32_t last = t->generation[slot];

	if (!t->random)
		return t->generation[slot]++;
	do
		t->generation[slot] = (uint32_t)secret_next(&t->secret);
	while ((uint8_t)t->generation[slot] == (uint8_t)last);
	return t->generation[slot];
}
