/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Copiers: threads that run the jobs of job.h, which may block in a page fault of a program for as long as the program likes.
 *
 * Each session has a lane. The jobs of a lane run one after the other, in the order in which they were handed over. Of a user's lanes one at a time
 * makes an atomic, so that atomics are atomic among all programs of a user. (Not among users: one whose page fault never ends would stop them all.)
 *
 * Users take turns, and so do the lanes of a user. A user has at most COPIER_USER_THREADS threads at a time, and there is always one more
 * that waits for work. So a program that never lets a page fault end has one thread for as long as it lives, its user may get one more, and
 * nobody else waits, however many such users there are. Handing over a job takes no lock.
 *
 * Owns: the lanes and the threads. Each function says which thread may call it.
 */
#ifndef UROCE_MEM_COPIER_H
#define UROCE_MEM_COPIER_H

#include <sys/types.h>

#include "mem/job.h"

enum {
	COPIER_IDLE_THREADS = 4,       /**< threads without work that are kept */
	COPIER_USER_THREADS = 2,       /**< for all lanes of a user */
	COPIER_STACK_BYTES = 64 << 10, /**< of a thread */
	COPIER_LANE_JOBS = 64,         /**< jobs of a lane that have not been given back */
	COPIER_SPIN_NS = 20000,        /**< a thread without work polls for this long before it sleeps */
};

struct copier_lane;

/**
 * [control] Open a lane.
 * @param fd  /proc/PID/mem of the program; the lane's from now on.
 * @param uid  The user to whom threads are charged.
 * @param close_fd  Closes @p fd when the last job has come back, on any thread; must not block.
 * @return NULL: no memory; @p fd remains the caller's.
 */
struct copier_lane *copier_lane_open(int fd, uid_t uid, void (*close_fd)(int fd, uid_t uid));
/** [control] The session ends: jobs that have not begun are given back now (ECANCELED); the lane is freed when the last one has come back. */
void copier_lane_close(struct copier_lane *lane);

/**
 * [engine] Hand over a job. Its done() is called later, on a copier's thread, and must not block.
 * @return false: the session has too many already; try again later.
 */
bool copier_submit(struct copier_lane *lane, struct mem_job *job);

/** [control] @return how many jobs have been handed over so far. */
uint32_t copier_submitted(const struct copier_lane *lane);
/** [control] @return whether so many jobs have been given back. */
bool copier_returned(const struct copier_lane *lane, uint32_t n);
/**
 * [control] Cut what was handed over before: after a grace period of RCU, nothing that engines began with an MR or QP that is gone begins.
 * Only what changes memory is cut. The engines look again at what was cut: it may still be permitted.
 * @return a ticket for copier_cut_done().
 */
uint32_t copier_cut(struct copier_lane *lane);
/** [control] @return false: a job that changes memory began before the cut, and has not ended yet. */
bool copier_cut_done(const struct copier_lane *lane, uint32_t ticket);

/** [any] @return threads that are busy now. */
unsigned int copier_busy(void);

#endif /* UROCE_MEM_COPIER_H */
