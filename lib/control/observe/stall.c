/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/observe/stall_priv.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "control/core/control_priv.h"
#include "control/core/session_priv.h"
#include "engine/engine.h"
#include "transport/transport.h"

/** What was seen of an engine, or of the control thread. */
struct look {
	uint64_t mark;     /**< the number of its turn, or when what it does began */
	uint64_t since_ns; /**< when it was first seen at that; 0: it wasn't at anything */
	bool counted;
};

struct stalls {
	struct control *control;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	uint64_t said_ns;
	struct look of_control, of_engine[UROCE_MAX_ENGINES];
	struct stall_counts counts;
};

/** @return for how many ms the same has been going on, if that is worth saying; else 0. */
static uint64_t
too_long(struct look *l, bool busy, uint64_t mark, uint64_t now_ns, uint64_t *count)
{
	if (!busy || l->since_ns == 0 || l->mark != mark) {
		*l = (struct look){ .mark = mark, .since_ns = busy ? now_ns : 0 };
		return 0;
	}
	if (now_ns - l->since_ns < STALL_MS * UINT64_C(1000000))
		return 0;
	*count += !l->counted;
	l->counted = true;
	return (now_ns - l->since_ns) / 1000000;
}

/** @return true if a line may be written now. */
static bool
may_say(struct stalls *w, uint64_t now_ns)
{
	if (w->said_ns != 0 && now_ns - w->said_ns < UINT64_C(1000000000))
		return false;
	w->said_ns = now_ns;
	return true;
}

static void
look_at_control(struct stalls *w, uint64_t now_ns)
{
	struct serving v = serving_look(&w->control->serving);
	uint64_t ms = too_long(&w->of_control, v.since_ns != 0, v.since_ns, now_ns, &w->counts.control);

	if (ms == 0 || !may_say(w, now_ns))
		return;
	if (v.session == 0)
		CTL_LOG(WARNING, "the control thread has been busy with %s for %" PRIu64 " ms", v.what, ms);
	else
		CTL_LOG(WARNING, "the control thread has been busy with %s of %s (pid %d, uid %u) for %" PRIu64 " ms", v.what, v.program,
			(int)v.pid, (unsigned int)v.uid, ms);
}

/** QPs are destroyed by holders of the lock only, so the QP is still there if it is still being served. */
static void
say_engine(struct stalls *w, unsigned int id, uint64_t mark, uint64_t ms)
{
	struct control *c = w->control;
	const struct qp *qp = NULL;
	const struct session *s;
	uint64_t turns;

	if (pthread_mutex_trylock(&c->lock) != 0) {
		CTL_LOG(WARNING, "engine %u has been in one turn for %" PRIu64 " ms", id, ms);
		return;
	}
	if (!engine_in_turn(c->s.engines[id], &turns, &qp) || turns != mark) {
		control_unlock(c);
		return;
	}
	s = qp != NULL ? session_find(c, (uintptr_t)qp_owner(qp)) : NULL;
	if (qp == NULL)
		CTL_LOG(WARNING, "engine %u has been in one turn for %" PRIu64 " ms, serving no QP", id, ms);
	else if (s == NULL)
		CTL_LOG(WARNING, "engine %u has been in one turn for %" PRIu64 " ms, serving QP %#x of the daemon", id, ms, qp_num(qp));
	else
		CTL_LOG(WARNING, "engine %u has been in one turn for %" PRIu64 " ms, serving QP %#x of %s (pid %d, uid %u)", id, ms,
			qp_num(qp), s->program, (int)s->pid, (unsigned int)s->uid);
	control_unlock(c);
}

static void
look_at_engine(struct stalls *w, unsigned int id, uint64_t now_ns)
{
	const struct qp *qp;
	uint64_t turns, ms;
	bool busy = engine_in_turn(w->control->s.engines[id], &turns, &qp);

	ms = too_long(&w->of_engine[id], busy, turns, now_ns, &w->counts.engines[id]);
	if (ms != 0 && may_say(w, now_ns))
		say_engine(w, id, turns, ms);
}

static void *
run(void *arg)
{
	struct stalls *w = arg;
	struct timespec at;

	control_thread_signals();
	clock_gettime(CLOCK_MONOTONIC, &at);
	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		uint64_t now_ns = control_now_ns();

		look_at_control(w, now_ns);
		for (unsigned int i = 0; i < w->control->s.nb_engines; i++)
			look_at_engine(w, i, now_ns);
		now_ns = control_now_ns() + STALL_LOOK_MS * UINT64_C(1000000);
		at = (struct timespec){ .tv_sec = (time_t)(now_ns / 1000000000), .tv_nsec = (long)(now_ns % 1000000000) };
		pthread_cond_timedwait(&w->wake, &w->lock, &at);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct stalls *
stalls_start(struct control *c)
{
	struct stalls *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	sigset_t all, before;
	int rc;

	if (w == NULL)
		return NULL;
	w->control = c;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return w;
	CTL_LOG(WARNING, "nobody looks whether turns take long: no thread");
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

void
stalls_stop(struct stalls *w)
{
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

struct stall_counts
stalls_counts(struct stalls *w)
{
	struct stall_counts n = { 0 };

	if (w == NULL)
		return n;
	pthread_mutex_lock(&w->lock);
	n = w->counts;
	pthread_mutex_unlock(&w->lock);
	return n;
}
