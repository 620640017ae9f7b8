/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/objtab.h"

#include <stdlib.h>

enum { OBJTAB_FIRST_SLOTS = 64 };

void
objtab_init(struct objtab *t)
{
	pthread_mutex_init(&t->mutex, NULL);
	t->slots = NULL;
	t->nb_slots = 0;
	t->first_free = 0;
}

void
objtab_fini(struct objtab *t)
{
	free(t->slots);
	pthread_mutex_destroy(&t->mutex);
}

static int
objtab_grow(struct objtab *t)
{
	uint32_t n = t->nb_slots ? t->nb_slots * 2 : OBJTAB_FIRST_SLOTS;
	struct objtab_slot *slots = realloc(t->slots, n * sizeof(*slots));

	if (!slots)
		return -1;
	for (uint32_t i = t->nb_slots; i < n; i++)
		slots[i] = (struct objtab_slot){ .next_free = i + 1 < n ? i + 2 : 0 };
	t->first_free = t->nb_slots + 1;
	t->slots = slots;
	t->nb_slots = n;
	return 0;
}

uint64_t
objtab_add(struct objtab *t, void *obj)
{
	uint64_t cookie = UINT64_MAX;

	pthread_mutex_lock(&t->mutex);
	if (t->first_free || !objtab_grow(t)) {
		uint32_t i = t->first_free - 1;

		t->first_free = t->slots[i].next_free;
		t->slots[i].obj = obj;
		cookie = (uint64_t)t->slots[i].generation << 32 | i;
	}
	pthread_mutex_unlock(&t->mutex);
	return cookie;
}

void *
objtab_get(const struct objtab *t, uint64_t cookie)
{
	uint32_t i = (uint32_t)cookie;

	if (i >= t->nb_slots || t->slots[i].generation != cookie >> 32)
		return NULL;
	return t->slots[i].obj;
}

void
objtab_remove(struct objtab *t, uint64_t cookie)
{
	uint32_t i = (uint32_t)cookie;

	pthread_mutex_lock(&t->mutex);
	if (objtab_get(t, cookie)) {
		t->slots[i].obj = NULL;
		t->slots[i].generation++;
		t->slots[i].next_free = t->first_free;
		t->first_free = i + 1;
	}
	pthread_mutex_unlock(&t->mutex);
}
