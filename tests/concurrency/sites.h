/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Included before each production file that the explorer compiles (gcc -include). The compiler's -fsanitize=thread turns atomic operations
 * and accesses to memory into calls of the explorer (memory.c); this file adds the source text of each atomic operation, by which
 * mutations name it, and leads what waits, copies or asserts to the explorer.
 */
#ifndef EXPLORE_SITES_H
#define EXPLORE_SITES_H

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_atomic.h>
#include <rte_pause.h>
#include <rte_spinlock.h>

#include "base/assert.h"
#include "base/yield.h"
#include "explore.h"

/* DPDK has an instruction where the explorer needs the compiler's builtin. */
#define rte_atomic_thread_fence(mo) __atomic_thread_fence(mo)

#define rte_pause() explore_yield()
/* It reads volatile words of the ring, which the explorer would take for plain accesses. */
#include <rte_ring.h>
static inline int
explore_ring_empty(const struct rte_ring *r)
{
	return __atomic_load_n(&r->prod.tail, __ATOMIC_RELAXED) == __atomic_load_n(&r->cons.tail, __ATOMIC_RELAXED);
}
#define rte_ring_empty(r) explore_ring_empty(r)
#define sched_yield() explore_yield()
static inline bool
explore_yield_core(void)
{
	explore_yield();
	return true;
}
#define yield_core() explore_yield_core()
#define __builtin_ia32_pause() explore_yield()

#define memcpy(to, from, n) explore_memcpy((to), (from), (n))
/* Nothing overlaps in these cases. */
#define memmove(to, from, n) explore_memcpy((to), (from), (n))

/* Memory that is the same in each execution, and whose use after free() is found. */
#define write(fd, p, n) explore_write((fd), (p), (n))
#define calloc(n, bytes) explore_alloc((n) * (bytes))
#define free explore_free

#undef UROCE_ASSERT
#define UROCE_ASSERT(cond) ((cond) ? (void)0 : explore_fail("%s(): assertion failed: %s", __func__, #cond))

#define SITE(text) explore_site(__func__, text)

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_xor_explicit
#undef atomic_thread_fence

/* As in <stdatomic.h> of gcc. The arguments are evaluated before the site is noted, since they may have sites themselves. */
#define EXPLORE_LOAD(p, mo, text)                                            \
	__extension__({                                                      \
		__auto_type p_ = (p);                                        \
		__typeof__((void)0, *p_) v_;                                 \
		SITE(text);                                                  \
		__atomic_load(p_, &v_, mo);                                  \
		v_;                                                          \
	})
#define EXPLORE_STORE(p, v, mo, text)                                        \
	__extension__({                                                      \
		__auto_type p_ = (p);                                        \
		__typeof__((void)0, *p_) v_ = (v);                           \
		SITE(text);                                                  \
		__atomic_store(p_, &v_, mo);                                 \
	})
#define EXPLORE_EXCHANGE(p, v, mo, text)                                     \
	__extension__({                                                      \
		__auto_type p_ = (p);                                        \
		__typeof__((void)0, *p_) v_ = (v), old_;                     \
		SITE(text);                                                  \
		__atomic_exchange(p_, &v_, &old_, mo);                       \
		old_;                                                        \
	})
#define EXPLORE_CAS(p, e, v, weak, ok, failed, text)                         \
	__extension__({                                                      \
		__auto_type p_ = (p);                                        \
		__typeof__((void)0, *p_) v_ = (v);                           \
		SITE(text);                                                  \
		__atomic_compare_exchange(p_, (e), &v_, weak, ok, failed);   \
	})
#define EXPLORE_FETCH(op, p, v, mo, text)                                    \
	__extension__({                                                      \
		__auto_type p_ = (p);                                        \
		__auto_type v_ = (v);                                        \
		SITE(text);                                                  \
		__atomic_fetch_##op(p_, v_, mo);                             \
	})

#define atomic_load(p) EXPLORE_LOAD(p, __ATOMIC_SEQ_CST, "load " #p)
#define atomic_load_explicit(p, mo) EXPLORE_LOAD(p, mo, "load " #p ", " #mo)
#define atomic_store(p, v) EXPLORE_STORE(p, v, __ATOMIC_SEQ_CST, "store " #p)
#define atomic_store_explicit(p, v, mo) EXPLORE_STORE(p, v, mo, "store " #p ", " #mo)
#define atomic_exchange(p, v) EXPLORE_EXCHANGE(p, v, __ATOMIC_SEQ_CST, "exchange " #p)
#define atomic_exchange_explicit(p, v, mo) EXPLORE_EXCHANGE(p, v, mo, "exchange " #p ", " #mo)
#define atomic_compare_exchange_strong(p, e, v) EXPLORE_CAS(p, e, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST, "cas " #p)
#define atomic_compare_exchange_weak(p, e, v) EXPLORE_CAS(p, e, v, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST, "cas " #p)
#define atomic_compare_exchange_strong_explicit(p, e, v, ok, failed) EXPLORE_CAS(p, e, v, 0, ok, failed, "cas " #p ", " #ok)
#define atomic_compare_exchange_weak_explicit(p, e, v, ok, failed) EXPLORE_CAS(p, e, v, 1, ok, failed, "cas " #p ", " #ok)
#define atomic_fetch_add(p, v) EXPLORE_FETCH(add, p, v, __ATOMIC_SEQ_CST, "add " #p)
#define atomic_fetch_add_explicit(p, v, mo) EXPLORE_FETCH(add, p, v, mo, "add " #p ", " #mo)
#define atomic_fetch_sub(p, v) EXPLORE_FETCH(sub, p, v, __ATOMIC_SEQ_CST, "sub " #p)
#define atomic_fetch_sub_explicit(p, v, mo) EXPLORE_FETCH(sub, p, v, mo, "sub " #p ", " #mo)
#define atomic_fetch_or(p, v) EXPLORE_FETCH(or, p, v, __ATOMIC_SEQ_CST, "or " #p)
#define atomic_fetch_or_explicit(p, v, mo) EXPLORE_FETCH(or, p, v, mo, "or " #p ", " #mo)
#define atomic_fetch_xor_explicit(p, v, mo) EXPLORE_FETCH(xor, p, v, mo, "xor " #p ", " #mo)
#define atomic_thread_fence(mo) (SITE("fence"), __atomic_thread_fence(mo))

#endif /* EXPLORE_SITES_H */
