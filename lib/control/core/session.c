/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: beginning, replying, closing. session_end.c destroys their objects. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/core/quota_priv.h"
#include "control/core/session_priv.h"

void *
session_owner(const struct session *s)
{
	return (void *)(uintptr_t)s->id;
}

struct session *
session_find(struct control *c, uint64_t id)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link) {
		if (s->id == id)
			return s;
	}
	return NULL;
}

/** @return the directory of process @p pid in /proc (O_PATH), or -1. This asks the process nothing. */
static int
open_process(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

struct session *
session_new(struct control *c, int fd, bool own)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (s == NULL)
		return NULL;
	s->control = c;
	s->sock.fd = fd;
	s->own = own;
	s->id = ++c->next_session;
	s->async.sock.fd = s->proc_fd = s->maps_fd = s->mem_fd = s->owner.mem_fd = s->db_fd = s->db_sigbus_id = -1;
	for (int i = 0; i < CTL_MAX_KICKS; i++)
		s->kick_fds[i] = -1;
	for (int i = 0; i < OBJ_TYPES; i++)
		handles_init(&s->tab[i], NULL);
	for (int i = 0; i < UROCE_MAX_ENGINES; i++)
		handles_init(&s->db_slots[i], NULL);
	LIST_INIT(&s->views);
	snprintf(s->program, sizeof(s->program), "?");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
		s->pid = cred.pid;
		s->uid = cred.uid;
		/* The directory stays that of this process, even if its number is reused. */
		s->proc_fd = open_process(cred.pid);
	}
	s->begun_ns = control_now_ns();
	s->user = quota_enter(c, s->uid);
	if (s->user == NULL) {
		if (s->proc_fd >= 0)
			close(s->proc_fd);
		free(s);
		return NULL;
	}
	saved_owner_init(&s->saved, s);
	s->record = saved_new(c, &s->saved, SAVED_SESSION, s);
	TAILQ_INSERT_TAIL(&c->sessions, s, link);
	if (!own)
		TAILQ_INSERT_TAIL(&c->strangers, s, stranger);
	c->nb_sessions++;
	return s;
}

void
session_greeted(struct session *s)
{
	UROCE_ASSERT(!s->hello);
	s->hello = true;
	saved_touch(s->control, s->record);
	if (!s->own)
		TAILQ_REMOVE(&s->control->strangers, s, stranger);
}

uint64_t
sessions_close_strangers(struct control *c, uint64_t now_ns)
{
	struct session *s;
	uint64_t until_ns;

	while ((s = TAILQ_FIRST(&c->strangers)) != NULL) {
		until_ns = s->begun_ns + (uint64_t)c->s.conf->hello_timeout * 1000000000;
		if (until_ns > now_ns)
			return until_ns;
		c->hello_timeouts++;
		session_close(s, "no HELLO within daemon.hello_timeout");
	}
	return UINT64_MAX;
}

void
sessions_log_ended(struct control *c)
{
	uint64_t more = burst_over(&c->ends, control_now_ns());

	if (more > 0)
		CTL_LOG(INFO, "%lu more sessions ended", (unsigned long)more);
}

/** Log a line per ended session, at most CONTROL_LOG_BURST a second. */
static void
log_end(struct session *s, const char *why)
{
	struct control *c = s->control;
	uint32_t left = 0;

	for (int i = 0; i < OBJ_TYPES; i++)
		left += s->tab[i].used;
	if (!s->hello || (why == NULL && left == 0)) {
		CTL_LOG(DEBUG, "session of %s (pid %d) ended", s->program, (int)s->pid);
		return;
	}
	sessions_log_ended(c);
	if (!burst_take(&c->ends, CONTROL_LOG_BURST))
		return;
	CTL_LOG(INFO, "session of %s (pid %d, uid %u) ended: %s; freed %u QPs, %u CQs, %u SRQs, %u MRs, %u PDs",
		s->program, (int)s->pid, (unsigned int)s->uid, why != NULL ? why : "it went away with objects open",
		s->tab[OBJ_QP].used, s->tab[OBJ_CQ].used, s->tab[OBJ_SRQ].used, s->tab[OBJ_MR].used,
		s->tab[OBJ_PD].used);
}

void
session_close(struct session *s, const char *why)
{
	struct control *c = s->control;

	if (s->closing)
		return;
	UROCE_ASSERT(c->nb_sessions > 0);
	s->closing = true;
	log_end(s, why);
	if (!s->hello && !s->own)
		TAILQ_REMOVE(&c->strangers, s, stranger);
	control_unwatch(c, &s->sock);
	TAILQ_REMOVE(&c->sessions, s, link);
	TAILQ_INSERT_TAIL(&c->closed, s, link);
}

bool
session_is_settled(const struct session *s)
{
	return !s->pending.active && s->settling == NULL && s->question.kind == QUESTION_NONE && s->map_files == NULL;
}

void
session_pause(struct session *s, bool pause)
{
	/* Without EPOLLIN, the end of the connection is still reported as EPOLLHUP or EPOLLRDHUP. */
	struct epoll_event ev = { .events = EPOLLRDHUP | (pause || s->control->held_ns != 0 ? 0 : EPOLLIN), .data.ptr = &s->sock };

	epoll_ctl(s->control->epfd, EPOLL_CTL_MOD, s->sock.fd, &ev);
}

void
session_reply(struct session *s, struct request *r, int status)
{
	uint32_t i, nb_fds = r->rsp.nb_fds;
	int rc;

	UROCE_ASSERT(!s->closing && status != EINPROGRESS);
	r->rsp.magic = CTL_MAGIC;
	r->rsp.number = r->req->number;
	r->rsp.op = r->req->op;
	r->rsp.status = status;
	if (status != 0 && status != EPROTO) {
		memset(r->rsp.space, 0, sizeof(r->rsp.space));
		memcpy(r->rsp.message, r->message, sizeof(r->rsp.message));
		r->rsp.nb_fds = 0;
	}
	saving_answer(s, r);
	rc = send_reply(s->sock.fd, &r->rsp, r->out_fds, r->rsp.nb_fds);
	session_consume(s);
	for (i = 0; i < nb_fds; i++) {
		if (r->out_close[i])
			close(r->out_fds[i]);
	}
	if (rc != 0)
		/* EAGAIN: the program sends requests without reading the replies. Otherwise it has gone away. */
		session_close(s, rc == EAGAIN ? "it doesn't read replies" : NULL);
	else if (status == EPROTO)
		session_close(s, "it has another version of the protocol");
}

void
session_consume(struct session *s)
{
	if (!s->queued)
		return;
	recv(s->sock.fd, NULL, 0, MSG_DONTWAIT | MSG_TRUNC);
	s->queued = false;
}

void
session_answer_forget(struct session *s)
{
	struct session_answer *a = &s->answer;

	if (!a->restored)
		return;
	for (uint32_t i = 0; i < a->rsp.nb_fds; i++)
		if (a->fds[i] >= 0)
			close(a->fds[i]);
	a->restored = false;
}

bool
session_answer_again(struct session *s, const struct ctl_req *q)
{
	struct session_answer *a = &s->answer;
	int rc;

	if (!a->restored || q->number == 0 || q->number != a->rsp.number)
		return false;
	rc = send_reply(s->sock.fd, &a->rsp, a->fds, a->rsp.nb_fds);
	session_consume(s);
	if (rc != 0)
		session_close(s, rc == EAGAIN ? "it doesn't read replies" : NULL);
	return true;
}
