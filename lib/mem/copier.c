/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/copier.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_pause.h>

#include "base/assert.h"
#include "base/slice.h"

/** What the lanes of a user have in common. */
struct copier_user {
	struct copier_user *next;
	uid_t uid;
	unsigned int nb_lanes;
	pthread_mutex_t rmw; /**< held while an atomic is made: two programs of a user may have the same memory */
};

struct copier_lane {
	struct copier_user *user;
	int fd;
	uid_t uid;
	void (*close_fd)(int fd, uid_t uid);
	_Atomic(struct mem_job *) jobs;  /**< handed over, the newest first */
	_Atomic uint32_t nb_jobs;        /**< not given back */
	_Atomic uint32_t refs;           /**< the session, each job, and the threads' list */
	_Atomic uint32_t scheduled;      /**< 1: on the threads' list, or being served */
	_Atomic uint32_t epoch;          /**< one more with each cut */
	_Atomic uint64_t changing;       /**< epoch << 1 | 1 of the job that is changing memory; 0: none is */
	struct copier_lane *next;        /**< on the threads' list */
};

/** A place for a thread. Its stack is ours: the C library keeps those that it made, one for each thread there ever was. */
struct worker {
	pthread_t thread;
	enum { WORKER_NONE, WORKER_RUNS, WORKER_ENDED /**< to be joined */ } state;
	bool busy;
	uid_t uid; /**< busy: for whom */
};

static _Atomic(struct copier_lane *) ready; /* lanes with jobs, the newest first; engines put them here */
static _Atomic uint32_t ready_seq;          /* one more with each; threads sleep on it */
static _Atomic uint32_t nb_asleep;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows; no engine ever takes it */
static struct worker workers[COPIER_MAX_THREADS];
static char stacks[COPIER_MAX_THREADS][COPIER_STACK_BYTES] __attribute__((aligned(4096)));
static struct copier_lane *first, **last = &first; /* lanes with jobs, the oldest first */
static unsigned int nb_threads, nb_idle, nb_lanes;
static struct copier_user *users;

/* ---- Lanes ---- */
/** @return the user, with one lane more; NULL: no memory. Called with the lock held, as user_put() is. */
static struct copier_user *
user_get(uid_t uid)
{
	struct copier_user *u = users;

	while (u != NULL && u->uid != uid)
		u = u->next;
	if (u == NULL) {
		u = calloc(1, sizeof(*u));
		if (u == NULL)
			return NULL;
		u->uid = uid;
		pthread_mutex_init(&u->rmw, NULL);
		u->next = users;
		users = u;
	}
	u->nb_lanes++;
	return u;
}

static void
user_put(struct copier_user *u)
{
	struct copier_user **at = &users;

	if (--u->nb_lanes > 0)
		return;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	pthread_mutex_destroy(&u->rmw);
	free(u);
}

static void
lane_put(struct copier_lane *lane)
{
	if (atomic_fetch_sub(&lane->refs, 1) > 1)
		return;
	pthread_mutex_lock(&lock);
	user_put(lane->user);
	pthread_mutex_unlock(&lock);
	lane->close_fd(lane->fd, lane->uid);
	free(lane);
}

static void
wake_one(void)
{
	atomic_fetch_add(&ready_seq, 1);
	if (atomic_load(&nb_asleep) != 0)
		syscall(SYS_futex, &ready_seq, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool
copier_submit(struct copier_lane *lane, struct mem_job *job, uint32_t left)
{
	uint32_t most = left < COPIER_LANE_JOBS ? left : COPIER_LANE_JOBS;

	if (atomic_fetch_add(&lane->nb_jobs, 1) >= most) {
		atomic_fetch_sub(&lane->nb_jobs, 1);
		return false;
	}
	job->lane = lane;
	job->fd = lane->fd;
	job->epoch = atomic_load(&lane->epoch);
	atomic_fetch_add(&lane->refs, 1);
	job->next = atomic_load(&lane->jobs);
	while (!atomic_compare_exchange_weak(&lane->jobs, &job->next, job))
		;
	if (atomic_exchange(&lane->scheduled, 1) != 0)
		return true;
	atomic_fetch_add(&lane->refs, 1);
	lane->next = atomic_load(&ready);
	while (!atomic_compare_exchange_weak(&ready, &lane->next, lane))
		;
	wake_one();
	return true;
}

uint32_t
copier_cut(struct copier_lane *lane)
{
	return atomic_fetch_add(&lane->epoch, 1) + 1;
}

bool
copier_cut_done(const struct copier_lane *lane, uint32_t ticket)
{
	uint64_t changing = atomic_load(&lane->changing);

	return changing == 0 || (int32_t)((uint32_t)(changing >> 1) - ticket) >= 0;
}

/* ---- Threads ---- */
/**
 * Whoever cuts changes the epoch and then looks whether a job is changing memory; here it is the other way round. So a job that a cut has
 * not seen has seen the cut.
 */
static void
run(struct copier_lane *lane, struct mem_job *job)
{
	if (job->op == MEM_JOB_READ) {
		mem_job_run(job);
		return;
	}
	if (job->op != MEM_JOB_WRITE)
		pthread_mutex_lock(&lane->user->rmw);
	atomic_store(&lane->changing, (uint64_t)job->epoch << 1 | 1);
	if (atomic_load(&lane->epoch) == job->epoch)
		mem_job_run(job);
	else
		job->rc = ECANCELED;
	atomic_store(&lane->changing, 0);
	if (job->op != MEM_JOB_WRITE)
		pthread_mutex_unlock(&lane->user->rmw);
}

/** Run the lane's jobs. @return true if it has more of them. */
static bool
serve(struct copier_lane *lane)
{
	struct mem_job *newest = atomic_exchange(&lane->jobs, NULL), *job = NULL, *next;

	while (newest != NULL) {
		next = newest->next;
		newest->next = job;
		job = newest;
		newest = next;
	}
	for (; job != NULL; job = next) {
		next = job->next;
		run(lane, job);
		atomic_fetch_sub(&lane->nb_jobs, 1);
		job->done(job);
		lane_put(lane);
	}
	atomic_store(&lane->scheduled, 0);
	return atomic_load(&lane->jobs) != NULL && atomic_exchange(&lane->scheduled, 1) == 0;
}

static void
enqueue(struct copier_lane *lane)
{
	lane->next = NULL;
	*last = lane;
	last = &lane->next;
}

static unsigned int
threads_of(uid_t uid)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < COPIER_MAX_THREADS; i++)
		n += workers[i].busy && workers[i].uid == uid;
	return n;
}

/** Take the lane that has waited for longest, of those whose user has a thread left. @return NULL: there is none. */
static struct copier_lane *
take(void)
{
	struct copier_lane *newest = atomic_exchange(&ready, NULL), *order = NULL, *next, **at;

	for (; newest != NULL; newest = next) {
		next = newest->next;
		newest->next = order;
		order = newest;
	}
	for (; order != NULL; order = next) {
		next = order->next;
		enqueue(order);
	}
	for (at = &first; *at != NULL; at = &(*at)->next) {
		struct copier_lane *lane = *at;

		if (threads_of(lane->uid) >= COPIER_USER_THREADS)
			continue;
		*at = lane->next;
		if (last == &lane->next)
			last = at;
		return lane;
	}
	return NULL;
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/** Wait until a lane gets jobs after @p seq was read. */
static void
rest(uint32_t seq)
{
	uint64_t until = now_ns() + COPIER_SPIN_NS;

	do {
		if (atomic_load(&ready_seq) != seq)
			return;
		for (unsigned int i = 0; i < 16; i++)
			rte_pause();
	} while (now_ns() < until);
	atomic_fetch_add(&nb_asleep, 1);
	syscall(SYS_futex, &ready_seq, FUTEX_WAIT_PRIVATE, seq, NULL, NULL, 0);
	atomic_fetch_sub(&nb_asleep, 1);
}

static void start_thread(void);

/** While a thread serves a lane, another one waits for the next. */
static void *
work(void *arg)
{
	struct worker *self = arg;
	struct copier_lane *lane;
	uint32_t seq;
	bool more;

	/* Engines wait for us, and programs that poll shall not keep us from running for their time slices. */
	slice_set(SLICE_SHORT_NS);
	pthread_mutex_lock(&lock);
	for (;;) {
		seq = atomic_load(&ready_seq);
		lane = take();
		if (lane == NULL) {
			if (nb_lanes == 0 && first == NULL)
				break;
			nb_idle++;
			pthread_mutex_unlock(&lock);
			rest(seq);
			pthread_mutex_lock(&lock);
			nb_idle--;
			continue;
		}
		self->busy = true;
		self->uid = lane->uid;
		if (nb_idle == 0)
			start_thread();
		pthread_mutex_unlock(&lock);
		more = serve(lane);
		if (!more)
			lane_put(lane);
		pthread_mutex_lock(&lock);
		self->busy = false;
		if (more)
			enqueue(lane);
	}
	nb_threads--;
	self->state = WORKER_ENDED;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/** The threads block signals, which the control thread handles. Without a thread more, those that there are do the work. */
static void
start_thread(void)
{
	struct worker *w = NULL;
	sigset_t all, before;
	pthread_attr_t attr;

	for (unsigned int i = 0; i < COPIER_MAX_THREADS && w == NULL; i++)
		if (workers[i].state != WORKER_RUNS)
			w = &workers[i];
	if (w == NULL)
		return;
	if (w->state == WORKER_ENDED)
		pthread_join(w->thread, NULL);
	w->state = WORKER_NONE;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stacks[w - workers], COPIER_STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&w->thread, &attr, work, w) == 0) {
		w->state = WORKER_RUNS;
		nb_threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

struct copier_lane *
copier_lane_open(int fd, uid_t uid, void (*close_fd)(int fd, uid_t uid))
{
	struct copier_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return NULL;
	lane->fd = fd;
	lane->uid = uid;
	lane->close_fd = close_fd;
	atomic_store(&lane->refs, 1);
	pthread_mutex_lock(&lock);
	lane->user = user_get(uid);
	if (lane->user == NULL) {
		pthread_mutex_unlock(&lock);
		free(lane);
		return NULL;
	}
	nb_lanes++;
	if (nb_threads == 0)
		start_thread();
	pthread_mutex_unlock(&lock);
	return lane;
}

void
copier_lane_close(struct copier_lane *lane)
{
	bool none;

	copier_cut(lane);
	pthread_mutex_lock(&lock);
	none = --nb_lanes == 0;
	pthread_mutex_unlock(&lock);
	lane_put(lane);
	/* Without lanes the threads end. */
	if (none) {
		atomic_fetch_add(&ready_seq, 1);
		syscall(SYS_futex, &ready_seq, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
}

unsigned int
copier_busy(void)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < COPIER_MAX_THREADS; i++)
		n += workers[i].busy;
	pthread_mutex_unlock(&lock);
	return n;
}
