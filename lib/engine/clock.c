/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine's clock: CLOCK_MONOTONIC, computed from the TSC. */
#include <time.h>

#include "engine/engine_priv.h"

enum {
	TRIM_FIRST = 100,      /* the clock is first corrected after 1/100 s, then less and less often */
	TRIM_SLOPPY = 100000,  /* a read of the kernel's clock that takes longer than 1/100000 s is ignored */
	STEP_NS = 10000000,    /* if the clock is behind by more than this, it steps forward */
};

void
clock_init(struct engine *e)
{
	struct engine_clock *c = &e->clock;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	c->base_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	c->base_tsc = rte_rdtsc();
	c->mult = (uint64_t)(((unsigned __int128)1000000000 << 32) / rte_get_tsc_hz());
	c->seen_ns = c->base_ns;
	c->seen_tsc = c->base_tsc;
	c->trim_cycles = rte_get_tsc_hz() / TRIM_FIRST;
	engine_now(e);
}

static inline uint64_t
clock_at(const struct engine_clock *c, uint64_t tsc)
{
	return c->base_ns + (uint64_t)((unsigned __int128)(tsc - c->base_tsc) * c->mult >> 32);
}

/*
 * Compare the clock with the kernel's. From tsc on it runs at the kernel's rate, corrected so that the present error is
 * gone at the next comparison.
 */
static __attribute__((noinline)) void
clock_trim(struct engine_clock *c, uint64_t tsc)
{
	uint64_t hz = rte_get_tsc_hz(), before, after, at, ns;
	struct timespec ts;
	int64_t error;
	double rate;

	before = rte_rdtsc();
	clock_gettime(CLOCK_MONOTONIC, &ts);
	after = rte_rdtsc();
	ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	at = before + (after - before) / 2;
	c->base_ns = clock_at(c, tsc);
	c->base_tsc = tsc;
	/* The thread was preempted between the reads, so the comparison is worthless. */
	if (after - before > hz / TRIM_SLOPPY || at <= c->seen_tsc || ns <= c->seen_ns)
		return;
	c->trim_cycles = RTE_MIN(2 * c->trim_cycles, hz);
	rate = (double)(ns - c->seen_ns) / (double)(at - c->seen_tsc);
	c->seen_ns = ns;
	c->seen_tsc = at;
	error = (int64_t)(ns - clock_at(c, at));
	if (error > STEP_NS) {
		c->base_ns += (uint64_t)error;
		error = 0;
	}
	/* At least half the kernel's rate, or the clock might stand still. */
	c->mult = (uint64_t)(RTE_MAX(rate + (double)error / (double)c->trim_cycles, rate / 2) * 0x1p32);
}

uint64_t
clock_read(void *engine)
{
	const struct engine *e = engine;

	return clock_at(&e->clock, RTE_MAX(rte_rdtsc(), e->tsc));
}

uint64_t
engine_now(struct engine *e)
{
	uint64_t tsc = rte_rdtsc(), ns;

	/* After the thread has moved to a core whose TSC is behind, time must not go back. */
	if (tsc < e->tsc)
		tsc = e->tsc;
	ns = clock_at(&e->clock, tsc);
	if (unlikely(tsc - e->clock.base_tsc > e->clock.trim_cycles))
		clock_trim(&e->clock, tsc);
	e->tsc = tsc;
	e->now_ns = ns;
	return ns;
}
