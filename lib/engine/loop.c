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
#include "engine/engine_priv.h"

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
};

/** What a loop does after a turn. */
enum action { SPIN, YIELD, NAP, REST };

struct engine_loop {
	struct engine *engines[ENGINE_LOOP_MAX];
	struct engine *first;        /**< whose kicks are all engines' */
	unsigned int n;              /**< [runner] engines that are not stopped */
	enum engine_idle policy;
	unsigned int nb_threads;
	bool by_turns;               /**< the threads take turns with the programs on their CPUs: engine_config.nb_cpus */
	int go_fds[ENGINE_CPUS_MAX]; /**< for each thread; written by another one: come and spin */

	/* [runner] */
	bool begun;
	uint64_t last_work_ns;
	uint64_t nap_ns;             /**< length of the next nap */
	uint32_t idle_turns;         /**< since the last work */
	uint32_t yields;
	uint32_t hog;                /**< naps left during which we assume that a yield would cost a whole time slice */
	bool shared;                 /**< another thread wants this core */
	uint64_t switches;           /**< the thread's context switches when last read */
	unsigned int spinner;        /**< the thread that may spin */
	bool may_spin;
	uint64_t counted_ns;         /**< when active programs were last counted */
	uint64_t no_spin_ns;         /**< nobody spins until then */

	_Alignas(RTE_CACHE_LINE_SIZE) _Atomic uint32_t running; /**< 1: a thread is the runner */
	_Atomic uint32_t again;      /**< a thread was woken while another was the runner */
	_Atomic uint32_t ended;
};

/** @return true if there is something to do that doesn't depend on time or ports. */
static bool
has_work(const struct engine *e)
{
	return atomic_load_explicit(&e->stop, memory_order_relaxed) != 0 || !rte_ring_empty(e->mailbox) ||
	       !rte_ring_empty(e->send) || !rte_ring_empty(e->handoff) || !rte_ring_empty(e->kicks) ||
	       atomic_load_explicit(&e->copied, memory_order_relaxed) != NULL || sessions_rung(e);
}

/** @return for how long nothing is due, at most @p max_ns. */
static uint64_t
time_left(const struct engine_loop *l, uint64_t max_ns)
{
	uint64_t left = max_ns;

	for (unsigned int i = 0; i < l->n; i++) {
		const struct engine *e = l->engines[i];
		uint64_t next = transport_next_timeout(e->tp);

		if (next <= e->now_ns)
			return 0;
		if (next != UINT64_MAX)
			left = RTE_MIN(left, next - e->now_ns);
	}
	return left;
}

/** From here on everybody who gives the engines work wakes a thread; programs only if @p kicks. */
static void
fall_asleep(struct engine_loop *l, bool kicks)
{
	for (unsigned int i = 0; i < l->n; i++) {
		struct engine *e = l->engines[i];

		if (e->c.sh.qsbr != NULL)
			rte_rcu_qsbr_thread_offline(e->c.sh.qsbr, e->c.id);
		atomic_store_explicit(&e->sleeping, 1, memory_order_relaxed);
		if (kicks)
			sessions_arm(e, true);
	}
	/* Either the giver sees that we sleep and kicks, or we see what it gave (Dekker). */
	atomic_thread_fence(memory_order_seq_cst);
}

/** End the sleep. It counts as idle time, and not as time in which ports took no packets. */
static void
awake(struct engine_loop *l)
{
	for (unsigned int i = 0; i < l->n; i++) {
		struct engine *e = l->engines[i];
		uint64_t tsc = e->tsc, ns = e->now_ns;

		atomic_store_explicit(&e->sleeping, 0, memory_order_relaxed);
		io_disarm(e);
		sessions_arm(e, false);
		if (e->c.sh.qsbr != NULL)
			rte_rcu_qsbr_thread_online(e->c.sh.qsbr, e->c.id);
		io_was_away(e, engine_now(e) - ns);
		e->stats.idle_cycles += e->tsc - tsc;
		sessions_kicked(e);
	}
}

/** @return true if packets may arrive at some port without waking anybody. */
static bool
must_poll(const struct engine_loop *l)
{
	for (unsigned int i = 0; i < l->n; i++) {
		const struct engine *e = l->engines[i];
		uint32_t waking = e->waking & atomic_load_explicit(&e->proven, memory_order_relaxed);

		for (uint16_t p = 0; p < e->c.nb_ports; p++)
			if ((!atomic_load_explicit(&e->c.ports[p]->joined, memory_order_relaxed) && ((waking | e->paused) >> p & 1) == 0) ||
			    atomic_load_explicit(&e->c.ports[p]->impaired, memory_order_relaxed))
				return true;
	}
	return false;
}

/**
 * Fall asleep, if there is nothing to do.
 * @param ns  The longest time to sleep; gets how long it may be. UINT64_MAX: until something happens.
 * @param kicks  Programs that post end the sleep. Not for naps: it would cost them a system call, and they needn't wait for long.
 * @return false: there is something to do, or soon.
 */
static bool
rest(struct engine_loop *l, uint64_t *ns, bool kicks)
{
	*ns = time_left(l, *ns);
	if (*ns == 0)
		return false;
	fall_asleep(l, kicks);
	for (unsigned int i = 0; i < l->n; i++) {
		if (has_work(l->engines[i]) || !io_arm(l->engines[i])) {
			awake(l);
			return false;
		}
	}
	l->engines[0]->stats.sleeps++;
	return true;
}

/** Fall asleep until something happens, or for longer and longer naps if ports must be looked at. */
static bool
rest_for_long(struct engine_loop *l, uint64_t *ns)
{
	bool poll = must_poll(l), kicks = !poll || l->by_turns || l->policy == ENGINE_IDLE_INTERRUPT;

	/* Programs that shall kick must ring first: their SQs aren't watched any more. */
	for (unsigned int i = 0; i < l->n && kicks; i++)
		if (!transport_rest(l->engines[i]->tp))
			return false;
	*ns = poll ? l->nap_ns : UINT64_MAX;
	if (!rest(l, ns, kicks))
		return false;
	if (poll)
		l->nap_ns = RTE_MIN(l->nap_ns * 2, (uint64_t)ENGINE_SLEEP_MAX_NS);
	return true;
}

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
	if (!rest_for_long(l, &ns))
		return true;
	atomic_store(&l->running, 0);
	if (atomic_load(&l->again) == 0)
		sched_yield();
	took = clock_now() - before;
	if (!take(l))
		return false;
	awake(l);
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
		e->looping = false;
		engine_disown(e);
	}
	l->n = left;
	if (left > 0)
		return;
	atomic_store(&l->ended, 1);
	for (unsigned int i = 0; i < l->nb_threads; i++)
		go(l, i);
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

	awake(l);
	if (kicked && thread == l->spinner)
		l->spinner = (thread + 1) % l->nb_threads;
	for (;;) {
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
		switch (choose_action(l, thread, work)) {
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
			if (rest(l, &ns, false))
				return ns;
			break;
		case REST:
			*hand_on = l->may_spin && thread != l->spinner;
			if (rest_for_long(l, &ns))
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
