/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Yielding the core to a thread that is expected to do something soon. Thread: any.
 */
#ifndef UROCE_BASE_YIELD_H
#define UROCE_BASE_YIELD_H

#include <stdbool.h>

enum {
	YIELD_LONG_NS = 300000, /**< a yield that takes longer went to a thread that doesn't yield */
	YIELD_SKIPS = 64,       /**< so many calls of the same thread don't yield after that: while it polls a CQ in vain, about 50 us */
};

/**
 * Yield the core, unless this thread has learned that the core then goes to a program that keeps it for a whole time slice, which is some
 * milliseconds. Beside such a program a thread that sleeps until it is woken, or goes on looking, learns sooner that what it waits for has happened.
 * @return false: it did not yield. Sleep until what is waited for happens, or look again.
 */
bool yield_core(void);

#endif /* UROCE_BASE_YIELD_H */
