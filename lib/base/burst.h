/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A limit per second: for lines of the log, say, of which peers or programs could cause any number.
 *
 * Owns: nothing; the user has the struct and passes the time. Called by: lib/engine, lib/control.
 * Thread: the caller's.
 */
#ifndef UROCE_BURST_H
#define UROCE_BURST_H

#include <stdbool.h>
#include <stdint.h>

/** Zeroed: nothing so far. */
struct burst {
	uint64_t second; /**< the second of the clock that the counts are of */
	uint32_t taken;
	uint64_t refused;
};

/** Begin the count of a new second. @return how many were refused in the last one; 0 too if it isn't over. */
static inline uint64_t
burst_over(struct burst *b, uint64_t now_ns)
{
	uint64_t refused = 0;

	if (now_ns / 1000000000 != b->second) {
		refused = b->refused;
		*b = (struct burst){ .second = now_ns / 1000000000 };
	}
	return refused;
}

/** Take one of @p per_second, after burst_over(). @return false: none is left, count it as refused. */
static inline bool
burst_take(struct burst *b, uint32_t per_second)
{
	if (b->taken >= per_second) {
		b->refused++;
		return false;
	}
	b->taken++;
	return true;
}

#endif /* UROCE_BURST_H */
