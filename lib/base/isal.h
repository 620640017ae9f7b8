/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What must be done after a call of ISA-L.
 *
 * Owns: nothing. Called by: lib/base, lib/wire. Thread: any.
 */
#ifndef UROCE_ISAL_H
#define UROCE_ISAL_H

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/** From this many bytes on ISA-L 2.30 computes CRCs with 512-bit registers. */
#define ISAL_WIDE_BYTES 256

#if defined(__x86_64__)
__attribute__((target("avx"))) static inline void
isal_clear_upper_halves(void)
{
	_mm256_zeroupper();
}
#endif

/**
 * A CRC of @p bytes was computed. ISA-L 2.30 leaves the upper halves of the vector registers in use, and SSE code after it then runs some 140 ns slower (Sapphire Rapids)
 * until somebody clears them.
 */
static inline void
isal_crc_done(size_t bytes)
{
#if defined(__x86_64__)
	if (bytes >= ISAL_WIDE_BYTES && __builtin_cpu_supports("avx"))
		isal_clear_upper_halves();
#else
	(void)bytes;
#endif
}

#endif /* UROCE_ISAL_H */
