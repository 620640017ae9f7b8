/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wheel.h"

#include <string.h>

#define WHEEL_TICK_MAX ((UINT64_C(1) << (64 - WHEEL_TICK_SHIFT)) - 1)

void
wheel_init(struct wheel *w, uint64_t now_ns)
{
	memset(w, 0, sizeof(*w));
	w->tick = now_ns >> WHEEL_TICK_SHIFT;
}

static void
wheel_link(struct wheel_entry **head, struct wheel_entry *e)
{
	e->next = *head;
	if (e->next != NULL)
		e->next->pprev = &e->next;
	e->pprev = head;
	*head = e;
}

/* @return the first tick that is not before @p ns: a timer is never early. */
static uint64_t
tick_of(uint64_t ns)
{
	uint64_t tick = (ns >> WHEEL_TICK_SHIFT) + ((ns & ((1u << WHEEL_TICK_SHIFT) - 1)) != 0);

	return tick > WHEEL_TICK_MAX ? WHEEL_TICK_MAX : tick;
}

/* Put e, whose tick isn't before the wheel's, where it belongs seen from the wheel's position. */
static void
wheel_place(struct wheel *w, struct wheel_entry *e)
{
	uint64_t diff = e->tick ^ w->tick;

	e->level = diff == 0 ? 0 : (63 - __builtin_clzll(diff)) / WHEEL_SLOT_SHIFT;
	e->slot = e->tick >> (e->level * WHEEL_SLOT_SHIFT) & (WHEEL_SLOTS - 1);
	w->occupied[e->level] |= UINT64_C(1) << e->slot;
	wheel_link(&w->slots[e->level][e->slot], e);
}

void
wheel_add(struct wheel *w, struct wheel_entry *e, uint64_t expiry_ns)
{
	wheel_del(w, e);
	e->tick = tick_of(expiry_ns);
	if (e->tick < w->tick)
		e->tick = w->tick;
	wheel_place(w, e);
}

void
wheel_del(struct wheel *w, struct wheel_entry *e)
{
	if (e->pprev == NULL)
		return;
	*e->pprev = e->next;
	if (e->next != NULL)
		e->next->pprev = e->pprev;
	e->pprev = NULL;
	/* Also right for an entry that is firing: its slot was emptied, or has got others since. */
	if (w->slots[e->level][e->slot] == NULL)
		w->occupied[e->level] &= ~(UINT64_C(1) << e->slot);
}

/* Put e off until it is really due. @return false: it isn't needed any more. */
static bool
put_off(const struct wheel *w, struct wheel_entry *e)
{
	uint64_t due_ns, tick;

	if (w->due_ns == NULL)
		return true;
	due_ns = w->due_ns(e);
	tick = tick_of(due_ns);
	if (tick > e->tick)
		e->tick = tick;
	return due_ns != 0;
}

/* Empty one slot: what is due goes to the firing list, the rest down to a lower level, or where it is due. */
static void
wheel_empty_slot(struct wheel *w, unsigned int level, unsigned int slot)
{
	struct wheel_entry *e = w->slots[level][slot], *next;

	w->slots[level][slot] = NULL;
	w->occupied[level] &= ~(UINT64_C(1) << slot);
	for (; e != NULL; e = next) {
		next = e->next;
		if (!put_off(w, e))
			e->pprev = NULL;
		else if (e->tick <= w->tick)
			wheel_link(&w->firing, e);
		else
			wheel_place(w, e);
	}
}

/* Move the position to tick and collect what is due. */
static void
wheel_turn(struct wheel *w, uint64_t tick)
{
	uint64_t from = w->tick, to = tick, bits;
	unsigned int level;

	w->tick = tick;
	for (level = 0; level < WHEEL_LEVELS; level++) {
		bits = w->occupied[level];
		/* Slots behind the new position: all of them if a higher digit changed too. */
		if (from >> WHEEL_SLOT_SHIFT == to >> WHEEL_SLOT_SHIFT)
			bits &= UINT64_MAX >> (WHEEL_SLOTS - 1 - (to & (WHEEL_SLOTS - 1)));
		for (; bits != 0; bits &= bits - 1)
			wheel_empty_slot(w, level, __builtin_ctzll(bits));
		from >>= WHEEL_SLOT_SHIFT;
		to >>= WHEEL_SLOT_SHIFT;
		if (from == to)
			break;
	}
}

uint32_t
wheel_advance(struct wheel *w, uint64_t now_ns, wheel_fn fn, void *arg)
{
	uint64_t tick = now_ns >> WHEEL_TICK_SHIFT;
	struct wheel_entry *e;
	uint32_t n = 0;

	if (tick < w->tick)
		tick = w->tick;
	if (tick == w->tick && (w->occupied[0] >> (tick & (WHEEL_SLOTS - 1)) & 1) == 0)
		return 0;
	wheel_turn(w, tick);
	while ((e = w->firing) != NULL) {
		wheel_del(w, e);
		fn(e, arg);
		n++;
	}
	return n;
}

uint64_t
wheel_next(const struct wheel *w)
{
	unsigned int level, shift;

	for (level = 0; level < WHEEL_LEVELS; level++) {
		if (w->occupied[level] == 0)
			continue;
		shift = level * WHEEL_SLOT_SHIFT;
		return ((w->tick >> shift & ~(uint64_t)(WHEEL_SLOTS - 1)) | __builtin_ctzll(w->occupied[level]))
		       << shift << WHEEL_TICK_SHIFT;
	}
	return UINT64_MAX;
}
