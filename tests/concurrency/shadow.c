/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The race detector: when each thread last accessed each byte, in which way, by the vector clocks of memory.c. And memory of an execution,
 * whose use after explore_free() counts as a race with the thread that freed it.
 */
#include <string.h>

#include "explore_priv.h"

enum {
	CELLS = 1 << 14, /* of eight bytes */
	ARENA_BYTES = 1 << 16,
};

struct cell {
	uintptr_t addr;
	uint32_t execution;
	uint16_t at[ACCESS_KINDS][EXPLORE_THREADS][8];
};

static struct cell cells[CELLS];
static uint32_t execution;
/* An arena for each thread, so that the others' order doesn't change addresses. */
static _Alignas(64) uint8_t arena[EXPLORE_THREADS + 1][ARENA_BYTES];
static size_t used[EXPLORE_THREADS + 1];

void
shadow_reset(void)
{
	execution++;
	for (unsigned int i = 0; i <= EXPLORE_THREADS; i++) {
		memset(arena[i], 0, used[i]);
		used[i] = 0;
	}
}

static struct cell *
find(uintptr_t addr)
{
	size_t i = addr * UINT64_C(0x9e3779b97f4a7c15) >> 50;

	for (unsigned int tries = 0; tries < CELLS; tries++, i = (i + 1) % CELLS) {
		if (cells[i].execution != execution) {
			memset(&cells[i], 0, sizeof(cells[i]));
			cells[i].addr = addr;
			cells[i].execution = execution;
			return &cells[i];
		}
		if (cells[i].addr == addr)
			return &cells[i];
	}
	explore_fail("more than %d words are accessed: CELLS", CELLS);
}

static bool
conflict(enum access a, enum access b)
{
	if (a == PLAIN_WRITE || b == PLAIN_WRITE)
		return true;
	return (a == PLAIN_READ && b == ATOMIC_WRITE) || (a == ATOMIC_WRITE && b == PLAIN_READ);
}

static void
check(const struct cell *c, unsigned int byte, unsigned int me, const struct view *now, enum access kind)
{
	static const char *const names[] = { "plain read", "plain write", "atomic read", "atomic write" };

	for (unsigned int k = 0; k < ACCESS_KINDS; k++) {
		if (!conflict(kind, (enum access)k))
			continue;
		for (unsigned int t = 0; t < EXPLORE_THREADS; t++)
			if (t != me && c->at[k][t][byte] > now->clock[t])
				explore_fail("race: %s by thread %u and %s by thread %u of the byte at %p", names[k], t, names[kind], me,
					     (void *)(c->addr + byte));
	}
}

void
shadow_access(uintptr_t addr, size_t n, enum access kind)
{
	unsigned int me = explore_thread();
	const struct view *now = memory_view(me);

	for (uintptr_t a = addr; a < addr + n;) {
		struct cell *c = find(a & ~(uintptr_t)7);

		do {
			unsigned int byte = a & 7;

			if (c->at[kind][me][byte] != now->clock[me]) {
				check(c, byte, me, now, kind);
				c->at[kind][me][byte] = now->clock[me];
			}
		} while ((++a & 7) != 0 && a < addr + n);
	}
}

void *
explore_alloc(size_t bytes)
{
	unsigned int i = explore_running() ? explore_thread() : EXPLORE_THREADS;
	size_t *sizes;

	/* The size lies before the block. */
	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes + 64 > ARENA_BYTES - used[i])
		return NULL;
	sizes = (size_t *)(void *)&arena[i][used[i]];
	*sizes = bytes;
	used[i] += bytes + 64;
	return (uint8_t *)sizes + 64;
}

void
explore_free(void *p)
{
	if (p != NULL && explore_running())
		shadow_access((uintptr_t)p, *(size_t *)(void *)((uint8_t *)p - 64), PLAIN_WRITE);
}
