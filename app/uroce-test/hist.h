/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A histogram of times whose buckets grow with the value: 64 buckets for each power of two, so that the error of a
 * percentile is below 1.6 %, from a nanosecond to centuries, in 30 KiB.
 *
 * Threads: one adds; any may read at the same time. Each bucket is read atomically, but not all of them together.
 */
#ifndef UROCE_TEST_HIST_H
#define UROCE_TEST_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define HIST_SUB_BITS 6
enum {
	HIST_SUBS = 1 << HIST_SUB_BITS, /**< buckets for each power of two */
	HIST_CLASSES = (64 - HIST_SUB_BITS + 1) * HIST_SUBS,
};

struct hist {
	uint64_t n[HIST_CLASSES];
};

/** @return the bucket of @p value. Values below HIST_SUBS have a bucket each. */
static inline unsigned int
hist_class(uint64_t value)
{
	unsigned int shift;

	if (value < HIST_SUBS)
		return (unsigned int)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - HIST_SUB_BITS;
	return (shift + 1) * HIST_SUBS + (unsigned int)(value >> shift) - HIST_SUBS;
}

static inline void
hist_add(struct hist *h, uint64_t value)
{
	uint64_t *n = &h->n[hist_class(value)];

	atomic_store_explicit((_Atomic uint64_t *)n, *n + 1, memory_order_relaxed);
}

/** @return the middle of bucket @p i. */
uint64_t hist_value(unsigned int i);
/** Add the counts of @p from. */
void hist_merge(struct hist *to, const struct hist *from);
/** Subtract the counts of @p before. */
void hist_subtract(struct hist *from, const struct hist *before);
uint64_t hist_count(const struct hist *h);
/**
 * @param share  0 to 1: 0.99 for p99.
 * @return the value that this share of all values doesn't exceed; 0 if there are none.
 */
uint64_t hist_percentile(const struct hist *h, double share);

#endif /* UROCE_TEST_HIST_H */
