/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The simulator's only source of chance: splitmix64 streams that all come from one seed.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t s;
};

static inline uint64_t
rng_next(struct rng *r)
{
	uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/** A stream of its own for each purpose, so that one doesn't shift when another is used more. */
static inline struct rng
rng_stream(uint64_t seed, uint64_t stream)
{
	struct rng r = { .s = seed * UINT64_C(0xd1342543de82ef95) + stream };

	r.s = rng_next(&r);
	return r;
}

/** @return 0 to n - 1; n at least 1. */
static inline uint64_t
rng_below(struct rng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_next(r) * n) >> 64);
}

/** @return lo to hi. */
static inline uint64_t
rng_between(struct rng *r, uint64_t lo, uint64_t hi)
{
	return lo + rng_below(r, hi - lo + 1);
}

/** @return true @p ppm times in a million. */
static inline bool
rng_chance(struct rng *r, uint32_t ppm)
{
	return rng_below(r, 1000000) < ppm;
}

/** @return true once in @p n times. */
static inline bool
rng_one_in(struct rng *r, uint64_t n)
{
	return rng_below(r, n) == 0;
}

#endif /* SIM_RNG_H */
