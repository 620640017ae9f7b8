/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC (9.2.8, A17.9.1): CRC-32 of IEEE 802.3, bit-reflected, over everything in the packet
 * that no switch or router may change.
 *
 * ISA-L does the long stretches. Headers and small payloads go by carry-less multiplication right here: what is masked
 * is or-ed into the vectors when they are loaded, so nothing is copied, and a small packet needs one pass without a call.
 */
#include <isa-l/crc.h>

#include "base/isal.h"
#include "wire/wire.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/** BTH byte 4 holds FECN, BECN and reserved bits. */
#define BTH_OFF_VARIANT 4
/** Stretches behind the headers that are worth a call of ISA-L. */
#define ISAL_WORTH_BYTES 128
#define BLOCK_BYTES 16

#define V4_HDRS (WIRE_IPV4_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES)
#define V6_HDRS (WIRE_IPV6_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES)

/** Ones where a header is masked. The rest, zero, lets a block of 16 begin anywhere in the headers. */
static const uint8_t mask_v4[V4_HDRS + BLOCK_BYTES] = {
	[1] = 0xff,                            /* TOS */
	[8] = 0xff,                            /* TTL */
	[10] = 0xff, [11] = 0xff,              /* header checksum */
	[26] = 0xff, [27] = 0xff,              /* UDP checksum */
	[28 + BTH_OFF_VARIANT] = 0xff,
};
static const uint8_t mask_v6[V6_HDRS + BLOCK_BYTES] = {
	[0] = 0x0f, [1] = 0xff, [2] = 0xff, [3] = 0xff, /* traffic class, flow label */
	[7] = 0xff,                                     /* hop limit */
	[46] = 0xff, [47] = 0xff,                       /* UDP checksum */
	[48 + BTH_OFF_VARIANT] = 0xff,
};
static const uint8_t mask_bth[WIRE_BTH_BYTES + BLOCK_BYTES] = { [BTH_OFF_VARIANT] = 0xff };

uint32_t
wire_crc(uint32_t state, const void *data, size_t len)
{
	/* ISA-L complements the register before and after, as gzip does. */
	state = ~crc32_gzip_refl(~state, data, len);
	isal_crc_done(len);
	return state;
}

/** Any length, any processor. */
static uint32_t
crc_masked_generic(uint32_t state, const uint8_t *p, size_t len, const uint8_t *mask, size_t mask_len)
{
	uint8_t masked[V6_HDRS];

	for (size_t i = 0; i < mask_len; i++)
		masked[i] = p[i] | mask[i];
	state = wire_crc(state, masked, mask_len);
	return len > mask_len ? wire_crc(state, p + mask_len, len - mask_len) : state;
}

#if defined(__x86_64__)
/*
 * Constants for the reflected polynomial 0xedb88320 (folding: Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction"): x^(128+32) and x^(128-32) modulo P; P itself, and its inverse modulo x^64.
 */
#define FOLD_LOW 0x1751997d0LL
#define FOLD_HIGH 0x0ccaa009eLL
#define POLY 0x1db710641LL
#define POLY_INVERSE ((long long)0xb4e5b025f7011641ULL)

#define CLMUL __attribute__((target("pclmul,sse4.1"), always_inline)) static inline

/** Multiply @p acc by x^128. */
CLMUL __m128i
fold(__m128i acc)
{
	const __m128i k = _mm_set_epi64x(FOLD_HIGH, FOLD_LOW);

	return _mm_xor_si128(_mm_clmulepi64_si128(acc, k, 0x00), _mm_clmulepi64_si128(acc, k, 0x11));
}

/** 128 bits down to the 32 of the register: fold to 96, then add the multiple of P that clears the first 64 of them. */
CLMUL uint32_t
reduce(__m128i acc)
{
	const __m128i k = _mm_set_epi64x(FOLD_HIGH, 0), p = _mm_set_epi64x(POLY, POLY_INVERSE);
	__m128i q;

	acc = _mm_xor_si128(_mm_srli_si128(acc, 8), _mm_clmulepi64_si128(acc, k, 0x10));
	q = _mm_clmulepi64_si128(acc, p, 0x00);
	q = _mm_clmulepi64_si128(q, p, 0x10);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(acc, q), 2);
}

CLMUL __m128i
load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

/**
 * Zeros in front of a message change nothing once the register is zero, so the odd bytes go into the first block,
 * shifted to its end, and all others are full. A register that isn't zero is xor-ed onto the first four bytes.
 *
 * @param len  At least one block and @p mask_len, and a multiple of 4.
 */
CLMUL uint32_t
crc_blocks(uint32_t state, const uint8_t *p, size_t len, const uint8_t *mask, size_t mask_len)
{
	/* A shuffle from here + n moves the first n bytes to the end and clears the rest. */
	static const uint8_t shift[2 * BLOCK_BYTES] = {
		0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	};
	size_t off = ((len - 1) & (BLOCK_BYTES - 1)) + 1;
	__m128i acc;

	acc = _mm_xor_si128(_mm_or_si128(load(p), load(mask)), _mm_cvtsi32_si128((int)state));
	acc = _mm_shuffle_epi8(acc, load(shift + off));
	for (; off < mask_len; off += BLOCK_BYTES)
		acc = _mm_xor_si128(fold(acc), _mm_or_si128(load(p + off), load(mask + off)));
	if (len - off >= ISAL_WORTH_BYTES)
		return wire_crc(reduce(acc), p + off, len - off);
	for (; off < len; off += BLOCK_BYTES)
		acc = _mm_xor_si128(fold(acc), load(p + off));
	return reduce(acc);
}

/* Each kind of headers has a function of its own, for which the compiler knows where the mask ends. */
#define CRC_CLMUL(name, mask, mask_len) \
	__attribute__((target("pclmul,sse4.1"))) static uint32_t name(uint32_t state, const uint8_t *p, size_t len) \
	{ \
		return crc_blocks(state, p, len, mask, mask_len); \
	}
CRC_CLMUL(crc_clmul_v4, mask_v4, V4_HDRS)
CRC_CLMUL(crc_clmul_v4_lower, mask_v4, V4_HDRS - WIRE_BTH_BYTES)
CRC_CLMUL(crc_clmul_v6, mask_v6, V6_HDRS)
CRC_CLMUL(crc_clmul_v6_lower, mask_v6, V6_HDRS - WIRE_BTH_BYTES)
CRC_CLMUL(crc_clmul_bth, mask_bth, WIRE_BTH_BYTES)
#define CRC_USE_CLMUL(len) __builtin_expect(__builtin_cpu_supports("pclmul") && (len) >= BLOCK_BYTES && ((len) & 3) == 0, 1)
#define CRC_MASKED(kind, state, p, len, mask, mask_len) \
	(CRC_USE_CLMUL(len) ? crc_clmul_##kind(state, p, len) : crc_masked_generic(state, p, len, mask, mask_len))
#else
#define CRC_MASKED(kind, state, p, len, mask, mask_len) crc_masked_generic(state, p, len, mask, mask_len)
#endif

#if defined(__x86_64__)
/* A packet that ends with its BTH is shorter than a block. The lengths of all are multiples of 4. */
__attribute__((target("pclmul,sse4.1"))) static void
seal_clmul(struct wire_sealer *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		uint8_t *bth = s->later[i].bth;
		uint32_t len = s->later[i].len;

		wire_put_icrc(bth + len, __builtin_expect(len >= BLOCK_BYTES, 1) ?
						 crc_blocks(s->later[i].state, bth, len, mask_bth, WIRE_BTH_BYTES) :
						 crc_masked_generic(s->later[i].state, bth, len, mask_bth, WIRE_BTH_BYTES));
	}
	s->n = 0;
}
#endif

void
wire_seal_flush(struct wire_sealer *s)
{
#if defined(__x86_64__)
	if (__builtin_expect(__builtin_cpu_supports("pclmul"), 1)) {
		seal_clmul(s);
		return;
	}
#endif
	for (uint32_t i = 0; i < s->n; i++)
		wire_put_icrc(s->later[i].bth + s->later[i].len, wire_icrc_transport(s->later[i].state, s->later[i].bth, s->later[i].len));
	s->n = 0;
}

uint32_t
wire_icrc_lower(const uint8_t *l3, unsigned int ip_version)
{
	const size_t v4 = V4_HDRS - WIRE_BTH_BYTES, v6 = V6_HDRS - WIRE_BTH_BYTES;

	if (ip_version == 4)
		return CRC_MASKED(v4_lower, WIRE_ICRC_SEED, l3, v4, mask_v4, v4);
	return CRC_MASKED(v6_lower, WIRE_ICRC_SEED, l3, v6, mask_v6, v6);
}

uint32_t
wire_icrc_transport(uint32_t state, const uint8_t *bth, size_t len)
{
	return CRC_MASKED(bth, state, bth, len, mask_bth, WIRE_BTH_BYTES);
}

uint32_t
wire_icrc_packet(const uint8_t *l3, unsigned int ip_version, size_t len)
{
	if (ip_version == 4)
		return CRC_MASKED(v4, WIRE_ICRC_SEED, l3, len, mask_v4, V4_HDRS);
	return CRC_MASKED(v6, WIRE_ICRC_SEED, l3, len, mask_v6, V6_HDRS);
}

uint32_t
wire_icrc_headers(const uint8_t *l3, unsigned int ip_version)
{
	return wire_icrc_packet(l3, ip_version, ip_version == 4 ? V4_HDRS : V6_HDRS);
}
