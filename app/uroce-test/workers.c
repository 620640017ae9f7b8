/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the worker lcores. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "hosts.h"
#include "uroce/stack.h"

enum {
	ENGINES_MAX = HOSTS_MAX * OPTIONS_MAX_ENGINES,
	SPIN_TURNS = 200,     /* idle turns before the thread yields its core */
	AWAKE_US = 2000,      /* no sleep until so long after the last work */
	SLEEP_US = 50,
};

struct worker {
	unsigned int lcore;
	struct {
		struct uroce *stack;
		unsigned int engine;
	} engines[ENGINES_MAX];
	unsigned int nb_engines;
	_Atomic(struct job *) jobs[WORKER_JOBS_MAX];
	_Atomic unsigned int nb_jobs; /* slots that were ever used */
	_Atomic uint64_t turns, busy;
} __rte_cache_aligned;

static struct worker workers[WORKERS_MAX];
static unsigned int nb_workers;
static atomic_bool stop;

unsigned int
workers_count(void)
{
	unsigned int lcore;

	if (nb_workers == 0)
		RTE_LCORE_FOREACH_WORKER(lcore)
			if (nb_workers < WORKERS_MAX)
				workers[nb_workers++].lcore = lcore;
	return nb_workers;
}

unsigned int
worker_lcore(unsigned int i)
{
	return workers[i].lcore;
}

void
worker_turns(unsigned int worker, uint64_t *turns, uint64_t *busy)
{
	*turns = atomic_load_explicit(&workers[worker].turns, memory_order_relaxed);
	*busy = atomic_load_explicit(&workers[worker].busy, memory_order_relaxed);
}

void
workers_cores(struct cores *c)
{
	rte_cpuset_t cpus, set;

	*c = (struct cores){ 0 };
	CPU_ZERO(&cpus);
	for (unsigned int i = 0; i < nb_workers; i++) {
		const struct worker *w = &workers[i];
		uint64_t late = 0;

		for (unsigned int k = 0; k < w->nb_engines; k++)
			late = RTE_MAX(late, engine_stats(w->engines[k].stack->engines[w->engines[k].engine])->late_turns);
		c->late_turns += late;
		c->pollers += w->nb_engines > 0;
		set = rte_lcore_cpuset(w->lcore);
		if (w->nb_engines > 0)
			CPU_OR(&cpus, &cpus, &set);
	}
	c->cpus = (unsigned int)CPU_COUNT(&cpus);
}

void
worker_add_engine(unsigned int worker, struct uroce *u, unsigned int engine)
{
	struct worker *w = &workers[worker];

	w->engines[w->nb_engines].stack = u;
	w->engines[w->nb_engines].engine = engine;
	w->nb_engines++;
}

int
worker_attach(unsigned int worker, struct job *job)
{
	for (unsigned int i = 0; i < WORKER_JOBS_MAX; i++)
		if (atomic_load(&workers[worker].jobs[i]) == NULL) {
			atomic_store(&workers[worker].jobs[i], job);
			if (i >= atomic_load(&workers[worker].nb_jobs))
				atomic_store(&workers[worker].nb_jobs, i + 1);
			return 0;
		}
	return -1;
}

void
worker_detach(unsigned int worker, struct job *job)
{
	struct worker *w = &workers[worker];
	uint64_t turns;

	for (unsigned int i = 0; i < WORKER_JOBS_MAX; i++)
		if (atomic_load(&w->jobs[i]) == job)
			atomic_store(&w->jobs[i], NULL);
	/* The loop may be in a turn that has still seen the job: wait until that turn ends. */
	turns = atomic_load(&w->turns);
	while (atomic_load(&w->turns) <= turns + 1 && !atomic_load(&stop))
		usleep(SLEEP_US);
}

static uint32_t
turn(struct worker *w)
{
	unsigned int jobs = atomic_load_explicit(&w->nb_jobs, memory_order_relaxed);
	uint32_t work = 0;
	int n;

	for (unsigned int i = 0; i < w->nb_engines; i++) {
		n = uroce_engine_poll(w->engines[i].stack, w->engines[i].engine);
		if (n > 0)
			work += (uint32_t)n;
	}
	for (unsigned int i = 0; i < jobs; i++) {
		struct job *job = atomic_load_explicit(&w->jobs[i], memory_order_acquire);

		if (job != NULL)
			work += job->step(job);
	}
	return work;
}

static int
run(void *arg)
{
	struct worker *w = arg;
	const uint64_t awake = rte_get_tsc_hz() / 1000000 * AWAKE_US;
	uint64_t last_work = rte_rdtsc();
	unsigned int idle = 0;

	/* The default timer slack of 50 us would make a sleep of 50 us take 100. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		atomic_store_explicit(&w->turns, atomic_load_explicit(&w->turns, memory_order_relaxed) + 1, memory_order_release);
		if (turn(w) > 0) {
			atomic_store_explicit(&w->busy, atomic_load_explicit(&w->busy, memory_order_relaxed) + 1,
					      memory_order_relaxed);
			last_work = rte_rdtsc();
			idle = 0;
		} else if (++idle < SPIN_TURNS) {
			rte_pause();
		} else if (rte_rdtsc() - last_work < awake) {
			sched_yield();
		} else {
			usleep(SLEEP_US);
		}
	}
	return 0;
}

int
workers_start(void)
{
	for (unsigned int i = 0; i < workers_count(); i++)
		if (rte_eal_remote_launch(run, &workers[i], workers[i].lcore) != 0) {
			fprintf(stderr, "uroce-test: lcore %u doesn't start\n", workers[i].lcore);
			return -1;
		}
	return 0;
}

void
workers_stop(void)
{
	atomic_store(&stop, true);
	rte_eal_mp_wait_lcore();
}
