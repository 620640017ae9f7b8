/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/copier.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
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
	unsigned int nb_threads; /**< that serve a lane of his */
	bool queued;             /**< in the queue of users: a lane of his waits, and he may have one thread more */
	TAILQ_ENTRY(copier_user) link;
	STAILQ_HEAD(, copier_lane) lanes; /**< those that wait for a thread, the one that waits for longest first */
};

struct copier_lane {
	struct copier_user *user;
	int fd;
	uid_t uid;
	void (*close_fd)(int fd, uid_t uid);
	_Atomic(struct mem_job *) jobs;  /**< handed over, the newest first */
	_Atomic(struct mem_job *) behind; /**< taken by the thread that serves the lane, but not begun; the oldest first */
	_Atomic uint32_t nb_jobs;        /**< not given back */
	_Atomic uint32_t submitted;      /**< jobs handed over so far */
	_Atomic uint32_t returned;       /**< jobs given back so far, behind done() */
	_Atomic bool closed;             /**< the session has ended: no job begins */
	_Atomic uint32_t refs;           /**< the session, each job, and the threads' queues */
	_Atomic uint32_t scheduled;      /**< 1: in the threads' queues, or being served */
	_Atomic uint32_t epoch;          /**< one more with each cut */
	_Atomic uint64_t changing;       /**< epoch << 1 | 1 of the job that is changing memory; 0: none is */
	struct copier_lane *next;        /**< in ready */
	STAILQ_ENTRY(copier_lane) link;  /**< in its user's lanes */
};

/** A place for a thread. Its stack is ours: the C library keeps those that it made, one for each thread there ever was. */
struct worker {
	struct worker *next;
	pthread_t thread;
	enum { WORKER_NONE, WORKER_RUNS, WORKER_ENDED /**< to be joined */ } state;
	void *stack; /**< NULL: none yet */
};

static _Atomic(struct copier_lane *) ready; /* lanes with jobs, the newest first; engines put them here */
static _Atomic uint32_t ready_seq;          /* one more with each; threads sleep on it */
static _Atomic uint32_t nb_asleep;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows; no engine ever takes it */
static struct worker *workers;                           /* never freed; as many as threads there were at a time */
static TAILQ_HEAD(, copier_user) queue = TAILQ_HEAD_INITIALIZER(queue); /* users who wait for a thread */
static unsigned int nb_threads, nb_idle, nb_busy, nb_lanes;
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
		STAILQ_INIT(&u->lanes);
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
	UROCE_ASSERT(!u->queued && u->nb_threads == 0);
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
copier_submit(struct copier_lane *lane, struct mem_job *job)
{
	if (atomic_fetch_add(&lane->nb_jobs, 1) >= COPIER_LANE_JOBS) {
		atomic_fetch_sub(&lane->nb_jobs, 1);
		return false;
	}
	atomic_fetch_add(&lane->submitted, 1);
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

uint32_t
copier_submitted(const struct copier_lane *lane)
{
	return atomic_load(&lane->submitted);
}

bool
copier_returned(const struct copier_lane *lane, uint32_t n)
{
	return (int32_t)(atomic_load(&lane->returned) - n) >= 0;
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

/** @return the list in the other order. */
static struct mem_job *
turned(struct mem_job *newest)
{
	struct mem_job *oldest = NULL, *next;

	for (; newest != NULL; newest = next) {
		next = newest->next;
		newest->next = oldest;
		oldest = newest;
	}
	return oldest;
}

static void
give_back(struct copier_lane *lane, struct mem_job *job)
{
	atomic_fetch_sub(&lane->nb_jobs, 1);
	job->done(job);
	atomic_fetch_add(&lane->returned, 1);
	lane_put(lane);
}

/** Give jobs back that have not begun and never will. */
static void
give_back_all(struct copier_lane *lane, struct mem_job *job)
{
	struct mem_job *next;

	for (; job != NULL; job = next) {
		next = job->next;
		job->rc = ECANCELED;
		give_back(lane, job);
	}
}

/** Run the lane's jobs. @return true if it has more of them. */
static bool
serve(struct copier_lane *lane)
{
	struct mem_job *job = turned(atomic_exchange(&lane->jobs, NULL));

	while (job != NULL) {
		/* While one runs, which may take for ever, whoever closes the lane gives back the others. */
		atomic_store(&lane->behind, job->next);
		if (atomic_load(&lane->closed))
			job->rc = ECANCELED;
		else
			run(lane, job);
		give_back(lane, job);
		job = atomic_exchange(&lane->behind, NULL);
	}
	atomic_store(&lane->scheduled, 0);
	return atomic_load(&lane->jobs) != NULL && atomic_exchange(&lane->scheduled, 1) == 0;
}

/** A user goes to the end of the queue if a lane of his waits and he may have one thread more. */
static void
user_queue(struct copier_user *u)
{
	if (u->queued || STAILQ_EMPTY(&u->lanes) || u->nb_threads >= COPIER_USER_THREADS)
		return;
	u->queued = true;
	TAILQ_INSERT_TAIL(&queue, u, link);
}

static void
enqueue(struct copier_lane *lane)
{
	STAILQ_INSERT_TAIL(&lane->user->lanes, lane, link);
	user_queue(lane->user);
}

/** Queue the lanes that engines have made ready. */
static void
take_ready(void)
{
	struct copier_lane *newest = atomic_exchange(&ready, NULL), *oldest = NULL, *next;

	for (; newest != NULL; newest = next) {
		next = newest->next;
		newest->next = oldest;
		oldest = newest;
	}
	for (; oldest != NULL; oldest = next) {
		next = oldest->next;
		enqueue(oldest);
	}
}

/** Begin to serve the lane that has waited for longest, of the user whose turn it is. @return NULL: there is none. */
static struct copier_lane *
take(void)
{
	struct copier_user *u;
	struct copier_lane *lane;

	take_ready();
	u = TAILQ_FIRST(&queue);
	if (u == NULL)
		return NULL;
	TAILQ_REMOVE(&queue, u, link);
	u->queued = false;
	lane = STAILQ_FIRST(&u->lanes);
	STAILQ_REMOVE_HEAD(&u->lanes, link);
	u->nb_threads++;
	nb_busy++;
	user_queue(u);
	return lane;
}

/** The thread is through with it. @param more  It has more jobs. */
static void
leave(struct copier_lane *lane, bool more)
{
	UROCE_ASSERT(lane->user->nb_threads > 0 && nb_busy > 0);
	lane->user->nb_threads--;
	nb_busy--;
	if (more)
		enqueue(lane);
	user_queue(lane->user);
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

/** @return whether a thread without work ends: nobody has a lane, or enough others are waiting. */
static bool
is_superfluous(void)
{
	return (nb_lanes == 0 && TAILQ_EMPTY(&queue)) || nb_idle >= COPIER_IDLE_THREADS;
}

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
			if (is_superfluous())
				break;
			nb_idle++;
			pthread_mutex_unlock(&lock);
			rest(seq);
			pthread_mutex_lock(&lock);
			nb_idle--;
			continue;
		}
		if (nb_idle == 0)
			start_thread();
		pthread_mutex_unlock(&lock);
		more = serve(lane);
		pthread_mutex_lock(&lock);
		leave(lane, more);
		if (!more) {
			pthread_mutex_unlock(&lock);
			lane_put(lane);
			pthread_mutex_lock(&lock);
		}
	}
	nb_threads--;
	self->state = WORKER_ENDED;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/** @return a place without a thread, with a stack; NULL: no memory. */
static struct worker *
worker_get(void)
{
	struct worker *w = workers;
	void *stack;

	while (w != NULL && w->state == WORKER_RUNS)
		w = w->next;
	if (w == NULL) {
		w = calloc(1, sizeof(*w));
		if (w == NULL)
			return NULL;
		w->next = workers;
		workers = w;
	}
	if (w->stack == NULL) {
		stack = mmap(NULL, COPIER_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		if (stack == MAP_FAILED)
			return NULL;
		w->stack = stack;
	}
	if (w->state == WORKER_ENDED)
		pthread_join(w->thread, NULL);
	w->state = WORKER_NONE;
	return w;
}

/** The threads block signals, which the control thread handles. Without a thread more, those that there are do the work. */
static void
start_thread(void)
{
	struct worker *w = worker_get();
	sigset_t all, before;
	pthread_attr_t attr;

	if (w == NULL)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, w->stack, COPIER_STACK_BYTES);
	sigfillset(&all);
	/* By this one uroced takes the capabilities from each thread (app/uroced/identity.c); a daemon that resumes has this thread before. */
	sigdelset(&all, SIGRTMAX);
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
	atomic_store(&lane->closed, true);
	give_back_all(lane, atomic_exchange(&lane->behind, NULL));
	give_back_all(lane, turned(atomic_exchange(&lane->jobs, NULL)));
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
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = nb_busy;
	pthread_mutex_unlock(&lock);
	return n;
}
