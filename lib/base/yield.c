/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/yield.h"

#include <sched.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

static _Thread_local unsigned int skips;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

bool
yield_core(void)
{
	uint64_t begin_ns;

	if (skips > 0) {
		skips--;
		return false;
	}
	begin_ns = now_ns();
	sched_yield();
	if (now_ns() - begin_ns > YIELD_LONG_NS)
		skips = YIELD_SKIPS;
	return true;
}
