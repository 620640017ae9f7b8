/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tell the CPU that this thread waits for another. Where there is DPDK, use rte_pause().
 *
 * Thread: any.
 */
#ifndef UROCE_PAUSE_H
#define UROCE_PAUSE_H

static inline void
cpu_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	/* YIELD does nothing on most Arm cores; ISB lets the others go on. */
	__asm__ volatile("isb" : : : "memory");
#else
	__asm__ volatile("" : : : "memory");
#endif
}

#endif /* UROCE_PAUSE_H */
