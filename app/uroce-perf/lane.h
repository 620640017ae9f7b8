/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The loop of an lcore: turns of its engines, if it has any, and steps of its workloads.
 */
#ifndef UROCE_PERF_LANE_H
#define UROCE_PERF_LANE_H

#include <stdatomic.h>

#include "end.h"
#include "host.h"

struct perf_lane {
	struct engine *engines[PERF_ENDS_PER_ENGINE]; /**< usually one */
	unsigned int nb_engines;
	struct perf_end *ends[PERF_ENDS_PER_ENGINE];
	unsigned int nb_ends;
	const _Atomic bool *stop;
	/** Called from time to time, if not NULL: may set *stop. */
	void (*watch)(void *arg);
	void *watch_arg;
	/* Results. */
	uint64_t busy_cycles;
	uint64_t cpu_ns;               /**< CPU time of the thread */
	uint64_t late_turns;           /**< of its engines, which are late together */
};

/**
 * Make the end of engine @p i of @p h, and the lane that runs both until *@p stop.
 * @return false with a message printed.
 */
bool lane_add(struct perf_lane *l, struct perf_host *h, unsigned int i, bool initiator, const _Atomic bool *stop);

/** @return the CPUs of the main lcore and the first @p n - 1 others, which poll. The caller adds the lanes' late turns. */
struct cores lanes_cores(unsigned int n);

/** Run until *stop. Signature of rte_eal_remote_launch(). @return 0. */
int lane_run(void *lane);

/**
 * Set *@p stop if all initiators among @p ends are done or one has failed.
 * @return true if it was set.
 */
bool ends_done(struct perf_end *const *ends, unsigned int n);

/* ---- Arrangements: each of these functions runs the test and prints its results. @return exit status. ---- */
int run_pair(const struct perf_opts *o);
int run_tcp(const struct perf_opts *o);
/** State shared with the program's process, which is forked before EAL is initialised. */
struct shm_control;
struct shm_control *shm_prepare(const struct perf_opts *o);
int run_shm(const struct perf_opts *o, struct shm_control *c);

/**
 * Print the error of an end.
 * @return false if it has one.
 */
bool check_end(const struct perf_end *e);

/**
 * Wait until EAL's interrupt thread has run all alarms that are due now: memif uses alarms to handle a disconnected
 * peer.
 */
void interrupts_handled(void);

#endif /* UROCE_PERF_LANE_H */
