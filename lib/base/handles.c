/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/handles.h"
#include "base/mix.h"

#define INDEX_MASK ((1u << HANDLES_INDEX_BITS) - 1)
#define GEN_MASK (UINT32_MAX >> HANDLES_INDEX_BITS)
#define FIRST_SIZE 16u

void
handles_init(struct handles *h, uint64_t seed)
{
	*h = (struct handles){ .first_free = HANDLE_NONE, .seed = seed };
}

void
handles_fini(struct handles *h)
{
	free(h->slots);
	handles_init(h, h->seed);
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
			.gen = h->seed != 0 ? (uint32_t)mix64(h->seed + i * MIX_STEP) & GEN_MASK : 0,
			.next_free = i + 1 < size ? i + 1 : HANDLE_NONE,
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
	slot->gen = (slot->gen + 1) & GEN_MASK;
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
