/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A lock for queues: uncontended it is one exchange and one store, and it never sleeps in the kernel.
 *
 * Thread: any.
 */
#ifndef UROCE_CLIENT_LOCK_H
#define UROCE_CLIENT_LOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/pause.h"

enum { CLIENT_SPINS = 1000 }; /**< tries before the thread yields its core */

struct client_lock {
	_Atomic uint32_t held;
};

static inline void
client_lock(struct client_lock *l)
{
	unsigned int spins = 0;

	while (__builtin_expect(atomic_exchange_explicit(&l->held, 1, memory_order_acquire), 0)) {
		while (atomic_load_explicit(&l->held, memory_order_relaxed)) {
			/* The holder may have been preempted on this very core. */
			if (++spins % CLIENT_SPINS == 0)
				sched_yield();
			else
				cpu_pause();
		}
	}
}

static inline void
client_unlock(struct client_lock *l)
{
	atomic_store_explicit(&l->held, 0, memory_order_release);
}

#endif /* UROCE_CLIENT_LOCK_H */
