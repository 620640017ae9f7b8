/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A pool of items of equal size: allocated once, lent and given back in O(1).
 *
 * Owns: the memory of its items. The item that was given back last is lent first, since the cache still has it. Free items
 * are linked through their own first bytes, so an item's content is undefined when it is lent; an item that has never been lent is
 * never touched and costs address space only.
 *
 * Thread: one at a time, the owner's.
 */
#ifndef UROCE_POOL_H
#define UROCE_POOL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/assert.h"

/** The head of a free item. */
struct pool_free {
	struct pool_free *next;
};

struct pool {
	struct pool_free *free; /**< items that were given back, the last one first */
	uint8_t *fresh;         /**< the first of the items that have never been lent */
	uint32_t left;          /**< free items, of both kinds */
	uint32_t item_bytes;
	void *mem;
	size_t mem_bytes;
};

/**
 * Allocate a pool of @p count items. The memory is the kernel's, not malloc's, which may write to it (mallopt(3), M_PERTURB).
 * @param item_bytes  A multiple of the size of a pointer.
 * @return 0 or ENOMEM; pool_fini() is right after either.
 */
static inline int
pool_init(struct pool *p, size_t item_bytes, uint32_t count)
{
	UROCE_ASSERT(item_bytes != 0 && item_bytes % sizeof(struct pool_free) == 0);
	*p = (struct pool){ .item_bytes = (uint32_t)item_bytes, .mem_bytes = item_bytes * (count != 0 ? count : 1) };
	p->mem = mmap(NULL, p->mem_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->mem == MAP_FAILED) {
		p->mem = NULL;
		return ENOMEM;
	}
	p->fresh = p->mem;
	p->left = count;
	return 0;
}

/** Free the pool and all its items, lent ones too. A zeroed pool is one without items. */
static inline void
pool_fini(struct pool *p)
{
	if (p->mem != NULL)
		munmap(p->mem, p->mem_bytes);
	*p = (struct pool){ 0 };
}

/** @return how many items are free. */
static inline uint32_t
pool_left(const struct pool *p)
{
	return p->left;
}

/** Lend an item. @return NULL: none is left. */
static inline void *
pool_get(struct pool *p)
{
	struct pool_free *item = p->free;

	if (__builtin_expect(p->left == 0, 0))
		return NULL;
	p->left--;
	if (item != NULL) {
		p->free = item->next;
		return item;
	}
	item = (struct pool_free *)(void *)p->fresh;
	p->fresh += p->item_bytes;
	return item;
}

/** Give back an item that pool_get() of this pool has lent. */
static inline void
pool_put(struct pool *p, void *item)
{
	struct pool_free *f = item;

	UROCE_ASSERT((uint8_t *)item >= (uint8_t *)p->mem && (uint8_t *)item < p->fresh);
	f->next = p->free;
	p->free = f;
	p->left++;
}

/**
 * The number of an item, and the item with a number: for lists that name items in fewer bytes than a pointer has.
 * @p type is the type of the pool's items.
 */
#define pool_index(p, type, item) ((uint32_t)((type *)(item) - (type *)(p)->mem))
#define pool_item(p, type, index) ((type *)(p)->mem + (index))

#endif /* UROCE_POOL_H */
