/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Counters that one thread adds to, with plain stores of 64 bits, and others read meanwhile.
 */
#ifndef UROCE_COUNTER_H
#define UROCE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

/** @return a counter that another thread may be adding to: its value before or after that. Any thread. */
static inline uint64_t
counter_read(const uint64_t *counter)
{
	return atomic_load_explicit((const _Atomic uint64_t *)counter, memory_order_relaxed);
}

#endif /* UROCE_COUNTER_H */
