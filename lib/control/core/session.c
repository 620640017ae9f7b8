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

struct session *
session_new(struct control *c, int fd)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ucred cred;
	socklen_t len = sizeof(cred);
	char path[32];

	if (s == NULL)
		return NULL;
	s->control = c;
	s->sock.fd = fd;
	s->id = ++c->next_session;
	s->async.sock.fd = s->proc_fd = s->maps_fd = s->mem_fd = s->owner.mem_fd = s->db_sigbus_id = -1;
	for (int i = 0; i < CTL_MAX_KICKS; i++)
		s->kick_fds[i] = -1;
	for (int i = 0; i < OBJ_TYPES; i++)
		handles_init(&s->tab[i], 0);
	for (int i = 0; i < UROCE_MAX_ENGINES; i++)
		handles_init(&s->db_slots[i], 0);
	LIST_INIT(&s->views);
	snprintf(s->program, sizeof(s->program), "?");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
		s->pid = cred.pid;
		s->uid = cred.uid;
		/* The directory stays that of this process, even if its number is reused. */
		snprintf(path, sizeof(path), "/proc/%d", (int)cred.pid);
		s->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (s->proc_fd >= 0 && c->privileged)
			s->maps_fd = openat(s->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	}
	s->user = quota_enter(c, s->uid);
	if (s->user == NULL) {
		if (s->maps_fd >= 0)
			close(s->maps_fd);
		if (s->proc_fd >= 0)
			close(s->proc_fd);
		free(s);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&c->sessions, s, link);
	c->nb_sessions++;
	return s;
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
	control_unwatch(c, &s->sock);
	TAILQ_REMOVE(&c->sessions, s, link);
	TAILQ_INSERT_TAIL(&c->closed, s, link);
}

void
session_pause(struct session *s, bool pause)
{
	/* Without EPOLLIN, the end of the connection is still reported as EPOLLHUP or EPOLLRDHUP. */
	struct epoll_event ev = { .events = EPOLLRDHUP | (pause ? 0 : EPOLLIN), .data.ptr = &s->sock };

	epoll_ctl(s->control->epfd, EPOLL_CTL_MOD, s->sock.fd, &ev);
}

void
session_reply(struct session *s, struct request *r, int status)
{
	uint32_t i, nb_fds = r->rsp.nb_fds;
	int rc;

	UROCE_ASSERT(!s->closing && status != EINPROGRESS);
	r->rsp.magic = CTL_MAGIC;
	r->rsp.op = r->req->op;
	r->rsp.status = status;
	if (status != 0 && status != EPROTO) {
		memset(r->rsp.space, 0, sizeof(r->rsp.space));
		memcpy(r->rsp.message, r->message, sizeof(r->rsp.message));
		r->rsp.nb_fds = 0;
	}
	rc = send_reply(s->sock.fd, &r->rsp, r->out_fds, r->rsp.nb_fds);
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
