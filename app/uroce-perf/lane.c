/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_lcore.h>

#include "lane.h"

enum { WATCH_EVERY = 1024, ALARM_WAIT_US = 10000 };

static uint64_t
thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool
lane_add(struct perf_lane *l, struct perf_host *h, unsigned int i, bool initiator, const _Atomic bool *stop)
{
	struct perf_end *e = host_add_end(h, i, initiator, rte_get_tsc_hz());

	*l = (struct perf_lane){ .engines = { h->engines[i] }, .nb_engines = 1, .ends = { e }, .nb_ends = 1, .stop = stop };
	return e != NULL;
}

/** @return the late turns so far. Those of engines in one loop coincide. */
static uint64_t
late_turns(const struct perf_lane *l)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < l->nb_engines; i++)
		most = RTE_MAX(most, engine_stats(l->engines[i])->late_turns);
	return most;
}

struct cores
lanes_cores(unsigned int n)
{
	struct cores c = { .pollers = n };
	unsigned int lcore = rte_get_main_lcore();
	rte_cpuset_t cpus, set;

	CPU_ZERO(&cpus);
	for (unsigned int i = 0; i < n; i++) {
		set = rte_lcore_cpuset(lcore);
		CPU_OR(&cpus, &cpus, &set);
		lcore = rte_get_next_lcore(i == 0 ? (unsigned int)-1 : lcore, 1, 0);
	}
	c.cpus = (unsigned int)CPU_COUNT(&cpus);
	return c;
}

int
lane_run(void *lane)
{
	struct perf_lane *l = lane;
	uint64_t cpu_begin = thread_cpu_ns(), late_begin, then, now;
	unsigned int turns = 0;

	for (unsigned int i = 0; i < l->nb_ends; i++)
		l->ends[i]->work->start(l->ends[i]);
	/* The first turn is late, because there was none during the set-up. */
	for (unsigned int i = 0; i < l->nb_engines; i++)
		engine_turn(l->engines[i]);
	late_begin = late_turns(l);
	then = rte_rdtsc();
	while (!atomic_load_explicit(l->stop, memory_order_relaxed)) {
		uint32_t work = 0;

		for (unsigned int i = 0; i < l->nb_engines; i++)
			work += engine_turn(l->engines[i]);
		for (unsigned int i = 0; i < l->nb_ends; i++)
			if (!atomic_load_explicit(&l->ends[i]->done, memory_order_relaxed))
				work += l->ends[i]->work->step(l->ends[i], then);
		now = rte_rdtsc();
		if (work > 0)
			l->busy_cycles += now - then;
		then = now;
		if (l->watch != NULL && ++turns % WATCH_EVERY == 0)
			l->watch(l->watch_arg);
	}
	l->cpu_ns = thread_cpu_ns() - cpu_begin;
	l->late_turns = late_turns(l) - late_begin;
	return 0;
}

bool
ends_done(struct perf_end *const *ends, unsigned int n)
{
	bool all = true;

	for (unsigned int i = 0; i < n; i++) {
		bool done = atomic_load_explicit(&ends[i]->done, memory_order_acquire);

		if (done && ends[i]->error[0] != '\0')
			return true;
		if (ends[i]->initiator && !done)
			all = false;
	}
	return all;
}

bool
check_end(const struct perf_end *e)
{
	if (e->error[0] == '\0')
		return true;
	fprintf(stderr, "uroce-perf: %s: %s\n", e->initiator ? "initiator" : "target", e->error);
	return false;
}

static void
alarm_went_off(void *arg)
{
	atomic_store((_Atomic bool *)arg, true);
}

void
interrupts_handled(void)
{
	static _Atomic bool through;

	atomic_store(&through, false);
	if (rte_eal_alarm_set(ALARM_WAIT_US, alarm_went_off, &through) == 0)
		while (!atomic_load(&through))
			usleep(ALARM_WAIT_US);
}
