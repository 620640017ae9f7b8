/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * So many of something in a second and no more: lines of the log that somebody else decides the number of.
 *
 * Owns: nothing; who limits something has the struct and says what time it is. Called by: lib/engine, lib/control.
 * Thread: the caller's.
 */
#ifndef UROCE_BURST_H
#define UROCE_BURST_H

#include <stdbool.h>
#include <stdint.h>

/** Zeroed: nothing so far. */
struct burst {
	uint64_t second; /**< of the clock, in which these were: */
	uint32_t taken;
	uint64_t refused;
};

/** @return the number refused in a second that is over, once; 0: it isn't over, or none were. */
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

/** May there be another? Ask burst_over() first. */
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
