/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the control thread is doing, for whoever finds that it takes long (observe/stall_priv.h).
 *
 * Owns: struct serving. Called by control.c, dispatch.c and session_end.c. Thread: control; serving_look() any.
 */
#ifndef UROCE_CONTROL_SERVING_PRIV_H
#define UROCE_CONTROL_SERVING_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring/ctl.h"

struct session;

struct serving {
	pthread_mutex_t lock;   /**< of what follows, held for a moment only */
	uint64_t since_ns;      /**< when it began; 0: the thread waits for something to do */
	uint64_t session;       /**< whom it serves; 0: nobody in particular */
	pid_t pid;
	uid_t uid;
	char program[CTL_NAME_BYTES];
	char what[32];          /**< the request's name, or what else */
};

/** A turn begins or, @p what NULL, ends. */
void serving_turn(struct serving *v, const char *what, uint64_t now_ns);
/** Something is done for @p s. */
void serving_session(struct serving *v, const struct session *s, const char *what, uint64_t now_ns);
/** @return a copy. */
struct serving serving_look(struct serving *v);

#endif /* UROCE_CONTROL_SERVING_PRIV_H */
