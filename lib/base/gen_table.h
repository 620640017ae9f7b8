/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A table of slots with generations: objects that are named by a number of which one part is the slot and the other the slot's generation.
 * A slot that becomes free rests while others are used, and its next object has another generation, so an old number stays invalid for
 * long.
 *
 * With a secret, slots and generations are random: who knows numbers, even many, can't tell those of others from them. The next slot is one of
 * the half of the free ones that has rested longest. Without a secret it is the one that has rested longest, and generations count.
 *
 * Owns: the slots, their generations, and the order in which free slots are used. How a number is made of slot and generation is the
 * user's matter, and so is the check that the object in a slot is the one with the number: objects know their numbers.
 *
 * Threads: gen_table_get() any; everything else one at a time. Readers take no lock; an object that was unpublished lives on until
 * they have had a quiescent state (base/rcu.h).
 */
#ifndef UROCE_GEN_TABLE_H
#define UROCE_GEN_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"

/** The last member of its user's struct, which is allocated with gen_table_bytes() more. */
struct gen_table {
	uint32_t size;
	uint32_t slot_mask;   /**< of the slot in a number, if it is in the low bits */
	uint32_t slot_bits;
	uint32_t nb_free, free_head;
	uint32_t *free_ring;  /**< free slots, the one that has been free for longest first */
	uint32_t *where;      /**< by slot: its place in free_ring, if it is free; NULL: hardly anybody has asked for a certain slot yet */
	uint32_t searches;    /**< for certain slots, without it */
	uint32_t *generation; /**< by slot: what gen_table_next() gives next; with a secret, what it gave last */
	bool random;          /**< there is a secret */
	struct secret secret;
	_Atomic(void *) slots[];
};

static inline size_t
gen_table_bytes(uint32_t size)
{
	return size * sizeof(((struct gen_table *)NULL)->slots[0]);
}

/**
 * Make a table of @p size empty slots of zeroed memory.
 * @param secret  Is copied. The tables of a process that has ended are forgotten, but its peers still know its numbers and may even
 * send to them; they must not come again soon. NULL: slots and generations begin at 0, as tests want them.
 * @return 0 or ENOMEM; gen_table_fini() is right after either.
 */
int gen_table_init(struct gen_table *t, uint32_t size, const struct secret *secret);
void gen_table_fini(struct gen_table *t);

/** @return slots in use. */
static inline uint32_t
gen_table_count(const struct gen_table *t)
{
	return t->size - t->nb_free;
}

/** @return true if no slot is free. */
static inline bool
gen_table_full(const struct gen_table *t)
{
	return t->nb_free == 0;
}

/** Take a free slot; there must be one. */
uint32_t gen_table_take(struct gen_table *t);
/**
 * Take slot @p slot for an object that has had a number with @p generation in another table. After some calls one takes a
 * while in a large table, which then needs four bytes more for each slot, and further ones are quick.
 * @return false: there is no such slot, it is in use, or there is no memory.
 */
bool gen_table_take_as(struct gen_table *t, uint32_t slot, uint32_t generation);
/**
 * @return the slot's next generation. Without a secret it is another one with every call until it wraps; with one, its low byte is another
 * than that of the last.
 */
uint32_t gen_table_next(struct gen_table *t, uint32_t slot);
/** Give a slot back, which has been unpublished. */
void gen_table_give(struct gen_table *t, uint32_t slot);

/** Let readers find @p obj, whole as it is now; NULL: nothing any more. */
static inline void
gen_table_publish(struct gen_table *t, uint32_t slot, void *obj)
{
	atomic_store_explicit(&t->slots[slot], obj, memory_order_release);
}

/** [any thread] Fetch @p slot from memory, for gen_table_get() soon. */
static inline void
gen_table_prefetch(const struct gen_table *t, uint32_t slot)
{
	if (__builtin_expect(slot < t->size, 1))
		__builtin_prefetch(&t->slots[slot]);
}

/** [any thread] @return the object in @p slot, or NULL. Good until the reader's next quiescent state. */
static inline void *
gen_table_get(const struct gen_table *t, uint32_t slot)
{
	if (__builtin_expect(slot >= t->size, 0))
		return NULL;
	return atomic_load_explicit(&t->slots[slot], memory_order_acquire);
}

#endif /* UROCE_GEN_TABLE_H */
