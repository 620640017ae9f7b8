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
	YIELD_SKIPS = 64,       /**< calls of a thread that don't yield after that; to poll a CQ in vain for as long takes about 50 us */
};

/**
 * Yield the core, unless this thread has learned that the core then goes to a program that keeps it for a whole time slice, which is some
 * milliseconds. A yield says that we can wait; a thread that sleeps until it is woken, or goes on looking, is served sooner beside such a program.
 * @return false: didn't yield. Sleep until what is waited for happens, or look again.
 */
bool yield_core(void);

#endif /* UROCE_BASE_YIELD_H */
