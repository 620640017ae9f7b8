/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The watch over turns: a thread that looks several times a second whether an engine or the control thread has been in the same turn, or at the same
 * request, for longer than it should. It says so in the log, at most once a second, with the program that is being served, and counts
 * it. (The watchdog of systemd, app/uroced/notify.c, restarts a daemon that stays so.)
 *
 * Owns: struct stalls and the thread. It waits for nobody: if control_lock() is taken, it names the QP without its program.
 */
#ifndef UROCE_STALL_H
#define UROCE_STALL_H

#include <stdint.h>

#include "ring/abi.h"

enum {
	STALL_LOOK_MS = 250,
	STALL_MS = 1000, /**< what takes longer is a stall: thousands of times what a turn should take */
};

struct control;
struct stalls;

/** How often each was found to take long, once for each turn or request. */
struct stall_counts {
	uint64_t control, engines[UROCE_MAX_ENGINES];
};

/** [control] @return NULL if there is no memory or thread: nobody looks then. */
struct stalls *stalls_start(struct control *c);
/** [control] End the thread. NULL is ignored. */
void stalls_stop(struct stalls *w);
/** [any] */
struct stall_counts stalls_counts(struct stalls *w);

#endif /* UROCE_STALL_H */
