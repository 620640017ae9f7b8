/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A loop that runs engines: what loop.c, which decides what to do after a turn, and loop_sleep.c, which falls asleep and wakes up, share.
 *
 * Called by: one of the loop's threads at a time, the runner; [any] by any of them.
 */
#ifndef UROCE_ENGINE_LOOP_PRIV_H
#define UROCE_ENGINE_LOOP_PRIV_H

#include "engine/engine_priv.h"

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
	uint64_t slept_ns;           /**< how long the last sleep was; 0: events were raised since */
	uint32_t untold_rounds;      /**< rounds for which completion events have waited */

	_Alignas(RTE_CACHE_LINE_SIZE) _Atomic uint32_t running; /**< 1: a thread is the runner */
	_Atomic uint32_t again;      /**< a thread was woken while another was the runner */
	_Atomic uint32_t ended;
};

/* loop_sleep.c */
/** End the sleep. It counts as idle time, and not as time in which ports took no packets. */
void loop_awake(struct engine_loop *l);
/**
 * Fall asleep, if there is nothing to do.
 * @param ns  The longest time to sleep; gets how long it may be. UINT64_MAX: until something happens.
 * @param kicks  Programs that post end the sleep. Not for naps: it would cost them a system call, and they needn't wait for long.
 * @return false: there is something to do, or soon.
 */
bool loop_rest(struct engine_loop *l, uint64_t *ns, bool kicks);
/** Fall asleep until something happens, or for longer and longer naps if ports must be looked at. @return as loop_rest(). */
bool loop_rest_for_long(struct engine_loop *l, uint64_t *ns);

#endif /* UROCE_ENGINE_LOOP_PRIV_H */
