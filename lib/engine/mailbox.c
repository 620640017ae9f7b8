/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Messages to the engine, and waiting until they are done.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_pause.h>

#include "base/assert.h"
#include "base/tsan.h"
#include "base/yield.h"
#include "engine/engine_priv.h"

enum {
	CALL_SPINS = 100,            /**< polls before the caller of engine_call() yields its core */
	CALL_YIELDS = 20,            /**< yields before it sleeps: the engine may need this very core */
	CALL_SLEEP_NS = 1000000,     /**< after this time it checks whether the loop has ended */
};

static void
futex_wait(_Atomic uint32_t *word, uint32_t value, long timeout_ns)
{
	const struct timespec ts = { .tv_nsec = timeout_ns };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static void
futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

uint32_t
mailbox_run(struct engine *e, uint64_t now_ns)
{
	struct engine_msg *msgs[ENGINE_MAILBOX_BURST];
	unsigned int n, i;

	UROCE_ASSERT(atomic_load_explicit(&e->owner, memory_order_relaxed) == 1);
	if (rte_ring_empty(e->mailbox))
		return 0;
	n = rte_ring_dequeue_burst(e->mailbox, (void **)msgs, ENGINE_MAILBOX_BURST, NULL);
	tsan_acquire(e->mailbox);
	for (i = 0; i < n; i++) {
		struct engine_msg *m = msgs[i];

		m->rc = m->fn(e, m->arg, now_ns);
		/* From here on the message may be freed. Waking a futex that no longer exists is harmless. */
		if (atomic_exchange_explicit(&m->state, MSG_DONE, memory_order_acq_rel) == MSG_WAITED)
			futex_wake(&m->state);
	}
	e->stats.mailbox += n;
	transport_called(e->tp, now_ns);
	return n;
}

static void
mailbox_push(struct engine *e, struct engine_msg *msg)
{
	tsan_release(e->mailbox);
	while (rte_ring_enqueue(e->mailbox, msg) != 0) {
		/* The mailbox is full. If no thread is running the engine, empty it here. */
		if (engine_own(e)) {
			mailbox_run(e, engine_now(e));
			engine_disown(e);
		} else {
			sched_yield();
		}
	}
	engine_wake(e);
}

/** Do step @p round of waiting for @p msg. */
static void
call_wait(struct engine_msg *msg, unsigned int round)
{
	uint32_t queued = MSG_QUEUED;

	if (round < CALL_SPINS) {
		rte_pause();
		return;
	}
	if (round < CALL_SPINS + CALL_YIELDS && yield_core())
		return;
	atomic_compare_exchange_strong_explicit(&msg->state, &queued, MSG_WAITED, memory_order_acq_rel,
						memory_order_acquire);
	futex_wait(&msg->state, MSG_WAITED, CALL_SLEEP_NS);
}

int
engine_call(struct engine *e, int (*fn)(struct engine *e, void *arg, uint64_t now_ns), void *arg)
{
	struct engine_msg msg = { .fn = fn, .arg = arg, .state = MSG_QUEUED };
	unsigned int round;

	mailbox_push(e, &msg);
	for (round = 0; atomic_load_explicit(&msg.state, memory_order_acquire) != MSG_DONE; round++) {
		if (engine_own(e)) {
			mailbox_run(e, engine_now(e));
			engine_disown(e);
		} else {
			call_wait(&msg, round);
		}
	}
	return msg.rc;
}
