/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Loops that run engines, and what they do when there is no work: spin, yield the core, or sleep until something happens.
 *
 * A loop sleeps in an epoll. Before it sleeps it says so (ring_db.hot of each session, struct engine.sleeping), so that whoever
 * gives it work wakes it by an eventfd. Only ports that can't wake anybody make it look at them by a timer.
 *
 * Any other loop has one thread, and learns from the effect of a yield how long to spin:
 *
 *   no context switch   no thread waits for the core: spin for long before the next yield
 *   a switch            another thread ran and gave the core back: yield early and often
 *   a long absence      another thread runs and never yields: nap instead of yielding; a thread that wakes up goes first
 *
 * A loop that is given its CPUs (engine_config.nb_cpus) is for machines with few cores, where programs that poll need the
 * cores as much as the engines do. It has a thread on each; one at a time runs the engines. A client wakes the thread on
 * its own CPU, which takes a few microseconds, while to wake a thread on another busy CPU can take fifty in a virtual
 * machine; the thread runs the engines until they are idle and goes back to sleep, and the client goes on. If fewer
 * programs are active than there are CPUs, a thread on a CPU that no program needs spins instead.
 *
 * The engines tell their clients when several of them are active on the same CPU (ring_db.crowded): programs that poll in
 * vain then yield their cores.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_pause.h>

#include "base/slice.h"
#include "engine/loop_priv.h"

enum {
	SHARED_SPIN_TURNS = 8,       /**< idle turns before a yield, on a shared core */
	YIELDS_PER_LOOK = 16,        /**< yields between two reads of the number of context switches, each a system call */
	HOG_NS = 300000,             /**< if a yield takes longer, the other thread doesn't yield */
	HOG_NAPS = 500,              /**< naps before a yield is tried again */
	TIMER_SLACK_NS = 1,          /**< Linux's default of 50 us is longer than the naps */
	ACTIVE_NS = 5000000,         /**< a program that has posted within this time is active */
	COUNT_NS = 1000000,          /**< between two counts of the active programs */
	SPIN_NS = 50000,             /**< a thread of several spins for this long after the last work; a program on its CPU waits meanwhile */
	SHARED_NS = 20000,           /**< if a yield takes longer, another thread needs the CPU that we spin on */
	NO_SPIN_NS = 10000000,       /**< after that nobody spins for this long */
	COLD_NS = 1000000,           /**< after a sleep of this length other CPUs may be halted, and waking a program takes long */
	TELL_ROUNDS = 2,             /**< completion events wait for so many rounds while there is work */
	TELL_LATER_ROUNDS = 8,       /**< and for so many while the runner tries to give place to another thread */
};

/** What a loop does after a turn. */
enum action { SPIN, YIELD, NAP, REST };

/** @return involuntary context switches of this thread: a yield after which another thread ran is one. */
static uint64_t
switches(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) == 0 ? (uint64_t)u.ru_nivcsw : 0;
}

static void
set_crowded(struct engine_loop *l, bool crowded)
{
	for (unsigned int i = 0; i < l->n; i++)
		l->engines[i]->crowded = crowded;
}

/** Learn from a yield that took @p ns. */
static void
yield_learn(struct engine_loop *l, uint64_t ns)
{
	uint64_t n;

	if (ns > HOG_NS) {
		l->hog = HOG_NAPS;
		l->shared = true;
		set_crowded(l, true);
	}
	if (++l->yields % YIELDS_PER_LOOK != 0)
		return;
	n = switches();
	l->shared = n != l->switches;
	l->switches = n;
	set_crowded(l, l->shared);
}

/** Count the active programs, which ring for each post (no_watch): is there a CPU to spin on? */
static void
count_active(struct engine_loop *l, uint64_t now_ns)
{
	uint32_t n = 0, on_cpu[ENGINE_CPUS_MAX] = { 0 };
	bool crowded = false;

	l->counted_ns = now_ns;
	for (unsigned int i = 0; i < l->n; i++)
		sessions_active(l->engines[i], now_ns - ACTIVE_NS, on_cpu);
	for (unsigned int i = 0; i < l->nb_threads; i++) {
		n += on_cpu[i];
		crowded |= on_cpu[i] > 1;
	}
	l->may_spin = n < l->nb_threads && now_ns >= l->no_spin_ns;
	set_crowded(l, crowded);
}

/** What to do after a turn without work, in a loop that has its core to itself or shares it without knowing with whom. */
static enum action
action_alone(struct engine_loop *l, uint64_t now_ns)
{
	if (l->idle_turns < (l->shared ? SHARED_SPIN_TURNS : ENGINE_SPIN_TURNS))
		return SPIN;
	if (now_ns - l->last_work_ns >= ENGINE_AWAKE_NS)
		return REST;
	if (l->hog == 0)
		return YIELD;
	l->hog--;
	return NAP;
}

/** What to do after a turn of all engines that did @p work. */
static enum action
choose_action(struct engine_loop *l, unsigned int thread, uint32_t work)
{
	uint64_t now_ns = l->engines[0]->now_ns;

	if (l->policy == ENGINE_IDLE_POLL)
		return SPIN;
	if (l->by_turns && now_ns - l->counted_ns > COUNT_NS)
		count_active(l, now_ns);
	if (work > 0) {
		l->idle_turns = 0;
		l->nap_ns = ENGINE_SLEEP_MIN_NS;
		l->last_work_ns = now_ns;
		return SPIN;
	}
	l->idle_turns++;
	if (l->policy == ENGINE_IDLE_INTERRUPT)
		return REST;
	if (!l->by_turns)
		return action_alone(l, now_ns);
	if (!l->may_spin || thread != l->spinner || now_ns - l->last_work_ns >= SPIN_NS)
		return REST;
	return l->idle_turns % ENGINE_SPIN_TURNS == 0 ? YIELD : SPIN;
}

/** Have another thread of the loop come and spin, or end. */
static void
go(struct engine_loop *l, unsigned int thread)
{
	const uint64_t one = 1;

	while (write(l->go_fds[thread], &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/** Become the runner. @return false: another thread is. */
static bool
take(struct engine_loop *l)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(&l->running, &nobody, 1);
}

static uint64_t
clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/**
 * Yield the core. A loop that takes turns with programs counts as asleep meanwhile: if the kernel gives this core to another thread for long, a client
 * on another core wakes the loop's thread there and needn't wait.
 * @return false: another thread is the runner now.
 */
static bool
yield(struct engine_loop *l)
{
	uint64_t before = clock_now(), ns = UINT64_MAX, took;

	if (!l->by_turns) {
		sched_yield();
		yield_learn(l, clock_now() - before);
		return true;
	}
	if (!loop_rest_for_long(l, &ns))
		return true;
	atomic_store(&l->running, 0);
	if (atomic_load(&l->again) == 0)
		sched_yield();
	took = clock_now() - before;
	if (!take(l))
		return false;
	loop_awake(l);
	if (took > SHARED_NS) {
		l->no_spin_ns = l->engines[0]->now_ns + NO_SPIN_NS;
		l->may_spin = false;
	}
	return true;
}

/** Give up the engines that were stopped. */
static void
leave(struct engine_loop *l)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < l->n; i++) {
		struct engine *e = l->engines[i];

		if (likely(atomic_load_explicit(&e->stop, memory_order_relaxed) == 0)) {
			l->engines[left++] = e;
			continue;
		}
		atomic_store_explicit(&e->stop, 0, memory_order_relaxed);
		e->looping = e->tells_later = false;
		transport_tell(e->tp);
		engine_disown(e);
	}
	l->n = left;
	if (left > 0)
		return;
	atomic_store(&l->ended, 1);
	for (unsigned int i = 0; i < l->nb_threads; i++)
		go(l, i);
}

static bool
is_untold(const struct engine_loop *l)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (transport_untold(l->engines[i]->tp))
			return true;
	return false;
}

/**
 * Raise completion events. After a long sleep they wait until what the engines have for each other is done: to wake a program takes 20 to 35 us
 * then, for its CPU is halted, and the acknowledgement of what it is told of takes one.
 * @param later  Another thread becomes the runner now, and raises them on a CPU that nobody needs.
 */
static void
tell(struct engine_loop *l, uint32_t work, bool later)
{
	uint32_t most = l->slept_ns < COLD_NS ? 0 : later ? TELL_LATER_ROUNDS : work > 0 ? TELL_ROUNDS : 0;

	if (likely(!is_untold(l)) || l->untold_rounds++ < most)
		return;
	l->untold_rounds = 0;
	l->slept_ns = 0;
	for (unsigned int i = 0; i < l->n; i++)
		transport_tell(l->engines[i]->tp);
}

/**
 * [runner] Run turns until there is nothing to do.
 * @param kicked  The thread was woken by a client or the control thread on its CPU, which goes on when it sleeps.
 * @param hand_on  Gets true if another thread shall spin: l->spinner.
 * @return how long to sleep, UINT64_MAX: until something happens.
 */
static uint64_t
run(struct engine_loop *l, unsigned int thread, bool kicked, bool *hand_on)
{
	uint64_t ns = UINT64_MAX;

	loop_awake(l);
	if (kicked && thread == l->spinner)
		l->spinner = (thread + 1) % l->nb_threads;
	for (;;) {
		enum action action;
		uint32_t work = 0;

		if (unlikely(atomic_load_explicit(&l->again, memory_order_relaxed) != 0)) {
			atomic_store(&l->again, 0);
			for (unsigned int i = 0; i < l->n; i++)
				sessions_kicked(l->engines[i]);
		}
		leave(l);
		if (l->n == 0)
			return UINT64_MAX;
		for (unsigned int i = 0; i < l->n; i++)
			work += engine_run_turn(l->engines[i]);
		action = choose_action(l, thread, work);
		*hand_on = action == REST && l->may_spin && thread != l->spinner;
		if (l->n > 1)
			tell(l, work, *hand_on);
		switch (action) {
		case SPIN:
			if (work == 0)
				rte_pause();
			break;
		case YIELD:
			if (!yield(l))
				return 0;
			break;
		case NAP:
			ns = ENGINE_SLEEP_MIN_NS;
			if (loop_rest(l, &ns, false))
				return ns;
			break;
		case REST:
			if (loop_rest_for_long(l, &ns))
				return ns;
			/* For example the port takes no packets: others may use the core meanwhile. */
			if (l->nb_threads == 1)
				sched_yield();
			break;
		}
	}
}

/** Be the runner, unless another thread is. @return as run(). */
static uint64_t
serve(struct engine_loop *l, unsigned int thread, bool kicked)
{
	uint64_t ns;

	do {
		unsigned int spinner;
		bool hand_on = false;

		if (!take(l)) {
			/* Either the runner sees this before it sleeps, or it has stopped being the runner. */
			atomic_store(&l->again, 1);
			if (!take(l))
				return UINT64_MAX;
		}
		ns = run(l, thread, kicked, &hand_on);
		if (ns == 0)
			return UINT64_MAX; /* another thread took over in yield() */
		/* From then on the next runner may choose another one. */
		spinner = l->spinner;
		atomic_store(&l->running, 0);
		if (hand_on)
			go(l, spinner);
	} while (atomic_load(&l->again) != 0 && atomic_load(&l->ended) == 0);
	return ns;
}

/** Sleep for at most @p ns, and take the kicks that ended it. @return true if there were any. */
static bool
wait_kicked(struct engine_loop *l, unsigned int thread, uint64_t ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };

	return kicks_take(l->first, thread, ns == UINT64_MAX ? NULL : &ts);
}

/** Become the owner of all engines. */
static void
begin(struct engine_loop *l)
{
	if (!take(l))
		return;
	for (unsigned int i = 0; i < l->n && !l->begun; i++) {
		struct engine *e = l->engines[i];

		engine_own_wait(e);
		engine_now(e);
		e->worked = false;
		e->looping = true;
		e->tells_later = l->n > 1;
	}
	l->begun = true;
	l->last_work_ns = l->engines[0]->now_ns;
	atomic_store(&l->running, 0);
}

void
engine_loop_run(struct engine_loop *l, unsigned int thread)
{
	int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	bool kicked = false;
	uint64_t ns, slice = 0;

	if (l->policy != ENGINE_IDLE_POLL) {
		prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
		slice = slice_set(SLICE_SHORT_NS);
	}
	begin(l);
	while (atomic_load(&l->ended) == 0) {
		ns = serve(l, thread, kicked);
		if (atomic_load(&l->ended) == 0)
			kicked = wait_kicked(l, thread, ns);
	}
	prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
	slice_set(slice);
}

void
engine_loop_destroy(struct engine_loop *l)
{
	if (l == NULL)
		return;
	for (unsigned int i = 0; i < l->nb_threads; i++)
		if (l->go_fds[i] >= 0)
			close(l->go_fds[i]);
	free(l);
}

/** @return 0 or an errno value. */
static int
watch(struct engine_loop *l, unsigned int thread)
{
	l->go_fds[thread] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return l->go_fds[thread] >= 0 ? kicks_watch_loop(l->first, thread, l->go_fds[thread]) : errno;
}

struct engine_loop *
engine_loop_create(struct engine *const *engines, unsigned int n)
{
	struct engine_loop *l;
	int rc = 0;

	if (n == 0 || n > ENGINE_LOOP_MAX) {
		errno = EINVAL;
		return NULL;
	}
	l = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*l));
	if (l == NULL)
		return NULL;
	*l = (struct engine_loop){
		.n = n,
		.first = engines[0],
		.policy = engines[0]->c.idle,
		.nb_threads = engine_cpus(engines[0]),
		.by_turns = engines[0]->c.nb_cpus > 0,
		.nap_ns = ENGINE_SLEEP_MIN_NS,
	};
	for (unsigned int i = 0; i < l->nb_threads; i++)
		l->go_fds[i] = -1;
	for (unsigned int i = 0; i < n && rc == 0; i++) {
		l->engines[i] = engines[i];
		rc = kicks_share(engines[i], engines[0]);
	}
	for (unsigned int i = 0; i < l->nb_threads && rc == 0; i++)
		rc = watch(l, i);
	if (rc == 0)
		return l;
	engine_loop_destroy(l);
	errno = rc;
	return NULL;
}

int
engine_loop(void *engine)
{
	struct engine *e = engine;
	struct engine_loop *l = engine_loop_create(&e, 1);

	if (l == NULL)
		return errno;
	engine_loop_run(l, 0);
	engine_loop_destroy(l);
	return 0;
}
