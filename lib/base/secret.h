/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Numbers that nobody can compute who doesn't have the secret, however many of them he knows: SipHash-2-4 (Aumasson and
 * Bernstein, 2012) of 1, 2, 3 and so on.
 *
 * Where numbers are to differ but may be known, mix.h is cheaper. A process fills its secret by getrandom(); tests and the
 * simulator choose it, and get the same numbers in each run.
 *
 * Owns: struct secret, its user's. Thread: one at a time.
 */
#ifndef UROCE_SECRET_H
#define UROCE_SECRET_H

#include <stdint.h>

struct secret {
	uint64_t key[2];
	uint64_t drawn; /**< numbers so far */
};

static inline uint64_t
secret_rotate(uint64_t x, unsigned int by)
{
	return x << by | x >> (64 - by);
}

static inline void
secret_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = secret_rotate(v[1], 13) ^ v[0];
	v[0] = secret_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = secret_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = secret_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = secret_rotate(v[1], 17) ^ v[2];
	v[2] = secret_rotate(v[2], 32);
}

/** @return SipHash-2-4 of the eight bytes of @p word, the lowest first. */
static inline uint64_t
secret_hash(const uint64_t key[2], uint64_t word)
{
	const uint64_t words[2] = { word, UINT64_C(8) << 56 /* the length */ };
	uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
			  key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573) };

	for (unsigned int i = 0; i < 2; i++) {
		v[3] ^= words[i];
		secret_round(v);
		secret_round(v);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	for (unsigned int i = 0; i < 4; i++)
		secret_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/** @return the next number. */
static inline uint64_t
secret_next(struct secret *s)
{
	return secret_hash(s->key, ++s->drawn);
}

/** @return a secret of its own for one of several users of @p s. */
static inline struct secret
secret_derive(struct secret *s)
{
	struct secret of;

	of.key[0] = secret_next(s);
	of.key[1] = secret_next(s);
	of.drawn = 0;
	return of;
}

#endif /* UROCE_SECRET_H */
