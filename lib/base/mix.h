/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Numbers that look random, from a seed: the output function of splitmix64 (Steele, Lea and Flood, 2014).
 *
 * Owns nothing. Thread: any.
 */
#ifndef UROCE_MIX_H
#define UROCE_MIX_H

#include <stdint.h>

/** Add it to a seed for each further number of a sequence. */
#define MIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/** @return another number for each @p z; every bit of it depends on every bit of @p z. */
static inline uint64_t
mix64(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif /* UROCE_MIX_H */
