/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What ThreadSanitizer is told about the order that DPDK's rings and ports give. It doesn't see it by itself: producers of RTS rings
 * store 64 bits, of which consumers load 32; a producer that waits for another one passes its order on by a relaxed load; drivers
 * are not compiled with the sanitizer. Nothing in any other build.
 */
#ifndef UROCE_BASE_TSAN_H
#define UROCE_BASE_TSAN_H

#ifdef UROCE_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);

/** [any] Before an object is put into @p ring, or packets are given to a port. */
static inline void
tsan_release(void *ring)
{
	__tsan_release(ring);
}

/** [any] After objects were taken out of @p ring, or packets came from a port. */
static inline void
tsan_acquire(void *ring)
{
	__tsan_acquire(ring);
}
#else
static inline void
tsan_release(void *ring)
{
	(void)ring;
}

static inline void
tsan_acquire(void *ring)
{
	(void)ring;
}
#endif

#endif /* UROCE_BASE_TSAN_H */
