/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Handles: numbers for objects, given to programs that aren't trusted.
 *
 * Owns: struct handles, a growing table. A handle is an index with a generation above it, so that a handle that was removed
 * doesn't find the object that took its place. Called by: lib/control. Thread: the owner's.
 */
#ifndef UROCE_HANDLES_H
#define UROCE_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"

enum {
	HANDLES_INDEX_BITS = 20,
	HANDLES_MAX = (1 << HANDLES_INDEX_BITS) - 1, /**< most objects; keeps UINT32_MAX free for "none" */
};
#define HANDLE_NONE UINT32_MAX

struct handle_slot {
	void *obj; /**< NULL: free */
	uint32_t gen;
	uint32_t used; /**< objects that it had before */
	uint32_t next_free; /**< index, if free */
};

struct handles {
	struct handle_slot *slots;
	uint32_t size;
	uint32_t used;
	uint32_t first_free; /**< HANDLE_NONE: none */
	struct secret secret;
	bool random; /**< there is a secret */
};

/**
 * Make a table without objects.
 * @param secret  Makes the low bytes of generations random, for numbers that peers get to know; is copied. NULL: generations count from 0.
 */
void handles_init(struct handles *h, const struct secret *secret);
/** Free the table; what it points to is the caller's. */
void handles_fini(struct handles *h);
/** Enter @p obj. @return its handle, or HANDLE_NONE: no memory or too many. */
uint32_t handles_add(struct handles *h, void *obj);
/**
 * Enter @p obj under a handle that it had in another table.
 * @return false: the handle's place is taken, there is no such place, or no memory.
 */
bool handles_add_as(struct handles *h, void *obj, uint32_t handle);
/** @return the object of a handle, NULL if there is none (any more). */
void *handles_get(const struct handles *h, uint32_t handle);
/** Remove a handle that handles_get() knows. */
void handles_remove(struct handles *h, uint32_t handle);
/** Walk: @return the next object from index *@p pos on, NULL at the end; *@p pos becomes the index behind it. */
void *handles_next(const struct handles *h, uint32_t *pos);

#endif /* UROCE_HANDLES_H */
