/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/handles.h"

#define INDEX_MASK ((1u << HANDLES_INDEX_BITS) - 1)
#define GEN_MASK (UINT32_MAX >> HANDLES_INDEX_BITS)
#define FIRST_SIZE 16u
enum { HALF_BITS = 4, HALF_MASK = (1 << HALF_BITS) - 1, ROUNDS = 4 };

void
handles_init(struct handles *h, const struct secret *secret)
{
	*h = (struct handles){ .first_free = HANDLE_NONE, .random = secret != NULL };
	if (secret != NULL)
		h->secret = *secret;
}

void
handles_fini(struct handles *h)
{
	struct secret secret = h->secret;

	free(h->slots);
	handles_init(h, h->random ? &secret : NULL);
}

/**
 * @return the generation of the object number @p n in slot @p i. With a secret its low byte is a permutation of that of n, another one
 * for each slot (a Feistel network): it can't be guessed, and doesn't come again before the other 255 were used.
 */
static uint32_t
generation(const struct handles *h, uint32_t i, uint32_t n)
{
	uint32_t left = n >> HALF_BITS & HALF_MASK, right = n & HALF_MASK, was;

	if (!h->random)
		return n & GEN_MASK;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		was = right;
		right = left ^ ((uint32_t)secret_hash(h->secret.key, round << 40 | (uint64_t)right << 32 | i) & HALF_MASK);
		left = was;
	}
	return (n & GEN_MASK & ~0xffu) | left << HALF_BITS | right;
}

static int
grow(struct handles *h)
{
	uint32_t size = h->size == 0 ? FIRST_SIZE : h->size * 2, i;
	struct handle_slot *slots;

	if (size > HANDLES_MAX)
		size = HANDLES_MAX;
	if (size == h->size)
		return -1;
	slots = realloc(h->slots, size * sizeof(*slots));
	if (slots == NULL)
		return -1;
	for (i = h->size; i < size; i++)
		slots[i] = (struct handle_slot){
			.gen = generation(h, i, 0),
			.next_free = i + 1 < size ? i + 1 : h->first_free,
		};
	h->first_free = h->size;
	h->slots = slots;
	h->size = size;
	return 0;
}

uint32_t
handles_add(struct handles *h, void *obj)
{
	struct handle_slot *slot;
	uint32_t i;

	if (h->first_free == HANDLE_NONE && grow(h) != 0)
		return HANDLE_NONE;
	i = h->first_free;
	slot = &h->slots[i];
	h->first_free = slot->next_free;
	slot->obj = obj;
	h->used++;
	return slot->gen << HANDLES_INDEX_BITS | i;
}

/** Take slot @p i out of the list of free ones. @return false: it isn't there. */
static bool
unlink_free(struct handles *h, uint32_t i)
{
	uint32_t *link = &h->first_free;

	/* Handles that are entered in the order of their slots are found at its beginning. */
	while (*link != i && *link != HANDLE_NONE)
		link = &h->slots[*link].next_free;
	if (*link != i)
		return false;
	*link = h->slots[i].next_free;
	return true;
}

bool
handles_add_as(struct handles *h, void *obj, uint32_t handle)
{
	uint32_t i = handle & INDEX_MASK;
	struct handle_slot *slot;

	if (i >= HANDLES_MAX)
		return false;
	while (i >= h->size)
		if (grow(h) != 0)
			return false;
	if (!unlink_free(h, i))
		return false;
	slot = &h->slots[i];
	slot->obj = obj;
	slot->gen = handle >> HANDLES_INDEX_BITS;
	/* Without a secret the next generation is another one. With one, the old handle comes again once in 256 objects of this slot. */
	slot->used = slot->gen;
	h->used++;
	return true;
}

void *
handles_get(const struct handles *h, uint32_t handle)
{
	uint32_t i = handle & INDEX_MASK;

	if (i >= h->size || h->slots[i].gen != handle >> HANDLES_INDEX_BITS)
		return NULL;
	return h->slots[i].obj;
}

void
handles_remove(struct handles *h, uint32_t handle)
{
	uint32_t i = handle & INDEX_MASK;
	struct handle_slot *slot = &h->slots[i];

	UROCE_ASSERT(handles_get(h, handle) != NULL);
	slot->obj = NULL;
	slot->gen = generation(h, i, ++slot->used);
	slot->next_free = h->first_free;
	h->first_free = i;
	h->used--;
}

void *
handles_next(const struct handles *h, uint32_t *pos)
{
	while (*pos < h->size) {
		void *obj = h->slots[(*pos)++].obj;

		if (obj != NULL)
			return obj;
	}
	return NULL;
}
