/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The idle policy: what an engine does after a turn without work.
 *
 * Spinning is best if the core is ours alone. If another thread wants it, that is most likely the very program that we
 * serve, polling a CQ, and every turn that we spin delays it. So the adaptive policy learns from the effect of a yield:
 *
 *   no context switch   no thread waits for the core: spin for long before the next yield
 *   a switch            another thread ran and gave the core back: yield early and often
 *   a long absence      another thread runs and never yields: nap instead of yielding; a thread that wakes up goes first
 *
 * The engine tells its clients what it learns (ring_db.crowded): programs that poll in vain then yield their cores, to
 * this engine or to the peer's.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <rte_pause.h>

#include "engine/engine_priv.h"

enum {
	SHARED_SPIN_TURNS = 8,       /**< idle turns before a yield, on a shared core */
	YIELDS_PER_LOOK = 16,        /**< yields between two reads of the number of context switches, each a system call */
	HOG_NS = 300000,             /**< if a yield takes longer, the other thread doesn't yield */
	HOG_NAPS = 500,              /**< naps before a yield is tried again */
	TIMER_SLACK_NS = 1,          /**< Linux's default of 50 us is longer than the naps */
};

void
idle_init(struct engine *e)
{
	uint64_t hz = rte_get_tsc_hz();

	e->idler = (struct engine_idler){
		.sleep_ns = ENGINE_SLEEP_MIN_NS,
		.last_work_ns = e->now_ns,
		.hog_cycles = hz * HOG_NS / 1000000000,
	};
}

/** @return true if there is something to do that depends on neither time nor ports. */
static bool
has_work(const struct engine *e)
{
	return atomic_load_explicit(&e->stop, memory_order_relaxed) != 0 || !rte_ring_empty(e->mailbox) ||
	       !rte_ring_empty(e->send) || !rte_ring_empty(e->handoff) || sessions_rung(e);
}

/** Sleep until kicked, at most @p ns. */
static void
sleep_kicked(struct engine *e, uint64_t ns)
{
	const struct timespec ts = { .tv_nsec = (long)ns };
	struct pollfd pfd = { .fd = e->kick_fd, .events = POLLIN };
	uint64_t n;

	if (ppoll(&pfd, 1, &ts, NULL) > 0)
		while (read(e->kick_fd, &n, sizeof(n)) < 0 && errno == EINTR)
			;
	e->stats.sleeps++;
}

/** @return false if there was no time to sleep, because something is due or waiting. */
static bool
idle_sleep(struct engine *e, uint64_t max_ns)
{
	uint64_t next = transport_next_timeout(e->tp), ns = max_ns;
	bool slept = false;

	if (next <= e->now_ns)
		return false;
	if (next - e->now_ns < ns)
		ns = next - e->now_ns;
	if (e->c.sh.qsbr != NULL)
		rte_rcu_qsbr_thread_offline(e->c.sh.qsbr, e->c.id);
	/* Either the sender sees that we sleep and kicks, or we see what it sent (Dekker). */
	atomic_store_explicit(&e->sleeping, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (!has_work(e)) {
		sleep_kicked(e, ns);
		slept = true;
	}
	atomic_store_explicit(&e->sleeping, 0, memory_order_relaxed);
	if (e->c.sh.qsbr != NULL)
		rte_rcu_qsbr_thread_online(e->c.sh.qsbr, e->c.id);
	return slept;
}

/** @return the thread's involuntary context switches. A yield after which another thread ran counts as one. */
static uint64_t
switches(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) == 0 ? (uint64_t)u.ru_nivcsw : 0;
}

/** Learn from the last yield. @p cycles: duration of it and the following turn. */
static void
yield_learn(struct engine_idler *d, uint64_t cycles)
{
	uint64_t n;

	d->yielded = false;
	if (cycles > d->hog_cycles) {
		d->hog = HOG_NAPS;
		d->shared = true;
		d->crowded = true;
	}
	if (++d->yields % YIELDS_PER_LOOK != 0)
		return;
	n = switches();
	d->shared = n != d->switches;
	d->switches = n;
	d->crowded = d->shared;
}

/** Yield the core for a moment. */
static void
idle_yield(struct engine *e)
{
	struct engine_idler *d = &e->idler;

	if (d->hog > 0 && idle_sleep(e, ENGINE_SLEEP_MIN_NS)) {
		d->hog--;
		return;
	}
	sched_yield();
	d->yielded = true;
}

void
idle_turn(struct engine *e, uint32_t work, uint64_t cycles)
{
	struct engine_idler *d = &e->idler;

	if (e->c.idle == ENGINE_IDLE_POLL)
		return;
	if (d->yielded)
		yield_learn(d, cycles);
	if (work > 0) {
		d->idle_turns = 0;
		d->sleep_ns = ENGINE_SLEEP_MIN_NS;
		d->last_work_ns = e->now_ns;
		return;
	}
	if (++d->idle_turns < (d->shared ? SHARED_SPIN_TURNS : ENGINE_SPIN_TURNS)) {
		rte_pause();
		return;
	}
	if (e->now_ns - d->last_work_ns < ENGINE_AWAKE_NS) {
		idle_yield(e);
		return;
	}
	if (!idle_sleep(e, d->sleep_ns)) {
		idle_yield(e);
		return;
	}
	d->sleep_ns = d->sleep_ns * 2 < ENGINE_SLEEP_MAX_NS ? d->sleep_ns * 2 : ENGINE_SLEEP_MAX_NS;
}

void
idle_thread_begin(struct engine *e, struct idle_thread *t)
{
	t->timer_slack_ns = -1;
	if (e->c.idle == ENGINE_IDLE_POLL)
		return;
	t->timer_slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
}

void
idle_thread_end(struct engine *e, const struct idle_thread *t)
{
	if (t->timer_slack_ns >= 0)
		prctl(PR_SET_TIMERSLACK, t->timer_slack_ns, 0, 0, 0);
}
