/* SPDX-License-Identifier: BSD-3-Clause */
/* Used by all parts of an engine: ownership, waking, rings. Calls no other part. */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include <rte_malloc.h>

#include "base/assert.h"
#include "engine/engine_priv.h"

bool
engine_own(struct engine *e)
{
	uint32_t nobody = 0;

	if (atomic_load_explicit(&e->owner, memory_order_relaxed) != 0 ||
	    !atomic_compare_exchange_strong_explicit(&e->owner, &nobody, 1, memory_order_acquire, memory_order_relaxed))
		return false;
	if (e->c.sh.qsbr != NULL)
		rte_rcu_qsbr_thread_online(e->c.sh.qsbr, e->c.id);
	return true;
}

void
engine_disown(struct engine *e)
{
	UROCE_ASSERT(atomic_load_explicit(&e->owner, memory_order_relaxed) == 1);
	if (e->c.sh.qsbr != NULL)
		rte_rcu_qsbr_thread_offline(e->c.sh.qsbr, e->c.id);
	atomic_store_explicit(&e->owner, 0, memory_order_release);
}

/** @return which of the engine's CPUs this thread is on; 0 if on none of them. */
static unsigned int
cpu_here(const struct engine *e)
{
	int cpu = e->c.nb_cpus > 1 ? sched_getcpu() : 0;

	for (unsigned int i = 1; i < e->c.nb_cpus; i++)
		if (e->c.cpus[i] == cpu)
			return i;
	return 0;
}

void
engine_wake(struct engine *e)
{
	const uint64_t one = 1;
	uint32_t yes = 1;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&e->sleeping, memory_order_relaxed) == 0 ||
	    !atomic_compare_exchange_strong(&e->sleeping, &yes, 0))
		return;
	while (write(e->kick_fds[cpu_here(e)], &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

struct rte_ring *
engine_ring(const char *what, unsigned int entries, int socket_id, unsigned int flags)
{
	unsigned int size = (flags & RING_F_EXACT_SZ) != 0 ? rte_align32pow2(entries + 1) : entries;
	ssize_t bytes = rte_ring_get_memsize(size);
	struct rte_ring *r;
	int rc;

	if (bytes < 0) {
		errno = (int)-bytes;
		return NULL;
	}
	r = rte_zmalloc_socket(what, (size_t)bytes, RTE_CACHE_LINE_SIZE, socket_id);
	if (r == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	rc = rte_ring_init(r, what, entries, flags);
	if (rc != 0) {
		rte_free(r);
		errno = -rc;
		return NULL;
	}
	return r;
}
