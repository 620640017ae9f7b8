/* SPDX-License-Identifier: BSD-3-Clause */
/* A process gives the programs that it serves to another one: uroce_suspend(), uroce_resume(), and what uroced does the same way. */
#include "uroce/suspend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>

#include "uroce/talk.h"

enum {
	SETTLE_MS = 3000, /* for requests that are under way; longer than any of them may take */
	COPY_MS = 2500,   /* for copies of memory that isn't mapped: a copy may take 2 s */
	LAST_PACKETS_US = 2000,
	CLOSING_TURNS = 100, /* of a device of this process that was closed just now */
};

struct process_record {
	struct record_head head;
	uint32_t nb_stacks, reserved;
	char version[64];
};

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- The process that goes ---- */
void
suspend_put_process(struct stream_out *o, unsigned int nb_stacks)
{
	struct process_record r = { .nb_stacks = nb_stacks };

	snprintf(r.version, sizeof(r.version), "%s", UROCE_VERSION);
	stream_put(o, RECORD_PROCESS, &r, sizeof(r), NULL, 0);
}

/** Give turns to engines of @p u that no thread is in. */
static void
turn_engines(struct uroce *u)
{
	for (unsigned int i = 0; i < u->nb_engines; i++)
		if (atomic_load(&u->running[i]) == 0)
			engine_turn(u->engines[i]);
}

/** Let the engines send what the end of a session has given them to say. */
static void
send_last_packets(struct uroce *u)
{
	usleep(LAST_PACKETS_US);
	turn_engines(u);
}

void
suspend_settle(struct uroce *const *of, unsigned int n)
{
	uint64_t until = now_ms() + SETTLE_MS;
	unsigned int busy = n;

	for (unsigned int i = 0; i < n; i++)
		control_hold(of[i]->control, true);
	while (busy > 0 && now_ms() < until) {
		busy = 0;
		for (unsigned int i = 0; i < n; i++) {
			control_turn(of[i]->control, 0);
			turn_engines(of[i]);
			busy += !control_is_settled(of[i]->control);
		}
	}
	for (unsigned int i = 0; i < n; i++)
		if (control_end_unsaved(of[i]->control) > 0)
			send_last_packets(of[i]);
}

static void
hold_copies(struct uroce *const *of, unsigned int n, bool hold)
{
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int e = 0; e < of[i]->nb_engines; e++)
			engine_hold_copies(of[i]->engines[e], hold);
}

/** Write everything down. @return as control_save(). */
static int
save(struct uroce *const *of, unsigned int n, struct stream_out *o)
{
	struct handover_counts counts = { 0 };
	const struct record_head end = { 0 };
	int rc = 0;

	suspend_put_process(o, n);
	for (unsigned int i = 0; i < n && rc == 0; i++)
		rc = control_save(of[i]->control, o, &counts);
	stream_put(o, RECORD_END, &end, sizeof(end), NULL, 0);
	return rc == 0 && o->failed ? ENOMEM : rc;
}

int
suspend_save(struct uroce *const *of, unsigned int n, struct stream_out *o)
{
	uint64_t until = now_ms() + COPY_MS;
	int rc;

	/* QPs can be saved only while nothing is copied for them. If new copies began all the time, that moment might never come. */
	hold_copies(of, n, true);
	/* What the engines have said last. */
	for (unsigned int i = 0; i < n; i++)
		control_turn(of[i]->control, 0);
	while ((rc = save(of, n, o)) == EBUSY && now_ms() < until) {
		stream_free(o);
		for (unsigned int i = 0; i < n; i++)
			turn_engines(of[i]);
	}
	return rc;
}

const char *
suspend_why(int rc)
{
	return rc == EBUSY ? "memory of programs is being copied, and that doesn't end" : strerror(rc);
}

void
suspend_undo(struct uroce *const *of, unsigned int n)
{
	hold_copies(of, n, false);
	for (unsigned int i = 0; i < n; i++)
		control_hold(of[i]->control, false);
}

/** @return true: whoever asked has gone. */
static bool
has_gone(int sock)
{
	struct pollfd p = { .fd = sock };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

int
suspend_asked(void *arg, int sock)
{
	struct uroce *u = arg;
	int before = atomic_load(&u->asked), fd;

	if (before >= 0 && !has_gone(before))
		return EBUSY;
	fd = fcntl(sock, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	atomic_store(&u->asked, fd);
	if (before >= 0)
		close(before);
	u->asked_for(u->asked_arg);
	return 0;
}

/** @return true: the process has no other stack. */
static bool
is_alone(const struct uroce *u)
{
	bool alone;

	pthread_mutex_lock(&stacks_lock);
	alone = TAILQ_FIRST(&stacks) == u && TAILQ_NEXT(u, link) == NULL;
	pthread_mutex_unlock(&stacks_lock);
	return alone;
}

/** @return true: a device of @p u is open in this process. [nobody drives the control] */
static bool
has_own(struct uroce *u)
{
	for (unsigned int i = 0; i < CLOSING_TURNS && control_has_own(u->control); i++) {
		control_turn(u->control, 0);
		turn_engines(u);
	}
	return control_has_own(u->control);
}

/** @return @p rc, for the caller to return. */
static int
refuse(char *err, int rc, const char *why)
{
	snprintf(err, UROCE_ERR_BYTES, "%s", why);
	return rc;
}

/** @return 0 if @p u can be suspended now, else a negative errno value with a message. */
static int
check_suspend(struct uroce *u, char *err)
{
	if (u->control == NULL || u->suspended)
		return refuse(err, -ESHUTDOWN, "the stack is shut down, or suspended");
	if (atomic_load(&u->asked) < 0)
		return refuse(err, -EAGAIN, "nobody has asked for its programs");
	if (!is_alone(u))
		return refuse(err, -EOPNOTSUPP, "the process has other stacks, which would end with it: only a process with one can be replaced");
	if (atomic_load(&u->driver) != DRIVER_NONE)
		return refuse(err, -EBUSY, "a thread drives its control: uroce_control_stop()");
	for (unsigned int i = 0; i < u->nb_engines; i++)
		if (atomic_load(&u->running[i]) != 0)
			return refuse(err, -EBUSY, "a thread runs an engine of it: uroce_engine_stop()");
	return has_own(u) ? refuse(err, -EBUSY, "a device of it is open in this process: ibv_close_device()") : 0;
}

static void
end_asking(struct uroce *u)
{
	close(atomic_exchange(&u->asked, -1));
}

int
uroce_suspend(struct uroce *u, char *err)
{
	char text[TALK_TEXT_BYTES] = "";
	struct stream_out o = { 0 };
	int rc = check_suspend(u, err), sock = atomic_load(&u->asked);

	if (rc == -ESHUTDOWN || rc == -EAGAIN)
		return rc;
	if (rc != 0) {
		talk_refuse(sock, -rc, err);
		end_asking(u);
		return rc;
	}
	suspend_settle(&u, 1);
	rc = suspend_save(&u, 1, &o);
	if (rc == 0)
		rc = talk_send(sock, &o, text);
	else
		snprintf(text, sizeof(text), "%s", suspend_why(rc));
	if (rc == 0) {
		/* Nobody turns its engines any more: programs and the other process use what they did. */
		u->suspended = true;
		for (unsigned int i = 0; i < u->nb_engines; i++)
			atomic_store(&u->running[i], 1);
		stack_leave(u);
	} else {
		suspend_undo(&u, 1);
		snprintf(err, UROCE_ERR_BYTES, "the other process didn't take over: %s. This one goes on", text);
	}
	stream_free(&o);
	/* If it has taken over: it is told of our end by a pidfd. */
	end_asking(u);
	return -rc;
}

/* ---- The process that comes ---- */
int
suspend_check(struct stream_in *in, const struct uroced_config *confs, unsigned int n, unsigned int nb_engines, unsigned int nb_cpus, char *text)
{
	const struct process_record *r = stream_next(in, RECORD_PROCESS, sizeof(*r));
	size_t begin = in->at;
	char err[CONFIG_ERR_BYTES];
	int rc = 0;

	if (r == NULL)
		rc = config_fail(err, EINVAL, "its records are of another version than this one's (%s)", UROCE_VERSION);
	else if (r->nb_stacks != n)
		rc = config_fail(err, EINVAL, "it has %u hosts in one process, this one %u: give the same --config", r->nb_stacks, n);
	for (unsigned int i = 0; i < n && rc == 0; i++)
		rc = handover_check(in, &confs[i], nb_engines, nb_cpus, err);
	in->at = begin;
	if (rc == 0)
		return 0;
	/* It goes into a message of a fixed size. */
	snprintf(text, TALK_TEXT_BYTES, "%.*s", TALK_TEXT_BYTES - 1, err);
	return -1;
}

/** Have the process that serves @p u's socket give its programs. @return 0: it has ended; -1 with a message. */
static int
take_programs(const struct uroce *u, struct stream_in *in, char *err)
{
	char text[TALK_TEXT_BYTES];
	struct talk t;

	if (talk_ask(u->conf.socket, &t, in, text) != 0) {
		snprintf(err, UROCE_ERR_BYTES, "%s", text);
		return -1;
	}
	if (suspend_check(in, &u->conf, 1, u->nb_engines, 0, text) != 0) {
		talk_reply(&t, EINVAL, text);
		snprintf(err, UROCE_ERR_BYTES, "the daemon at %s goes on: %s", u->conf.socket, text);
		return -1;
	}
	if (talk_reply(&t, 0, "") == 0)
		return 0;
	snprintf(err, UROCE_ERR_BYTES, "the daemon at %s has handed its programs over, but doesn't end", u->conf.socket);
	return -1;
}

/** Attach the ports and make everything anew. @return 0, or -1 with a message. */
static int
go_on(struct uroce *u, const struct uroce_params *p, struct stream_in *in, int (*attach)(void *), void *arg, char *err)
{
	const struct stack_host host = { .resumes = true, .resume = in };
	int rc = attach != NULL ? attach(arg) : 0;

	if (rc == 0)
		return stack_open(u, p, &host, err);
	snprintf(err, UROCE_ERR_BYTES, "the application can't attach its ports: %s; the programs that it has taken over end", strerror(abs(rc)));
	return -1;
}

struct uroce *
uroce_resume(const struct uroce_params *p, int (*attach)(void *arg), void *arg, char *err)
{
	const struct stack_host host = { .resumes = true };
	struct stream_in in = { 0 };
	struct uroce *u;
	int rc;

	if (!p->serve) {
		snprintf(err, UROCE_ERR_BYTES, "a stack that doesn't serve programs can't take any over: set uroce_params.serve");
		return NULL;
	}
	u = stack_prepare(p, NULL, -1, &host, err);
	if (u == NULL)
		return NULL;
	rc = take_programs(u, &in, err);
	if (rc == 0)
		rc = go_on(u, p, &in, attach, arg, err);
	talk_free(&in);
	if (rc == 0)
		return u;
	uroce_destroy(u);
	return NULL;
}
