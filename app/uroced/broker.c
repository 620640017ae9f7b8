/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's side of the broker: starting it, asking it, ending it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker_priv.h"

enum {
	ANSWER_MS = 2000,
	END_STEP_US = 200,
	END_STEPS = 10000,
};

long
broker_receive(int sock, int flags, void *data, size_t bytes, int *fds, unsigned int *nb_fds)
{
	char space[CMSG_SPACE(SHARED_BATCH * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE(*nb_fds * sizeof(int)) };
	unsigned int n = 0;
	ssize_t got;

	do
		got = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	for (struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL; c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	*nb_fds = n;
	if (got <= 0 || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return (long)got;
	errno = (msg.msg_flags & MSG_TRUNC) != 0 ? EMSGSIZE : EMFILE;
	return -1;
}

int
broker_send(int sock, int flags, const void *data, size_t bytes, const int *fds, unsigned int nb_fds)
{
	char space[CMSG_SPACE(SHARED_BATCH * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (nb_fds > 0) {
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nb_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, flags | MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : errno;
}

struct broker *
broker_start(void)
{
	struct broker *b = calloc(1, sizeof(*b));
	int sock[2];

	if (b == NULL)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) != 0) {
		free(b);
		return NULL;
	}
	b->sock = sock[0];
	for (unsigned int i = 0; i < BROKER_LINES_MAX; i++)
		b->lines[i].sock = -1;
	b->pid = fork();
	if (b->pid == 0) {
		close(sock[0]);
		broker_serve(sock[1]);
	}
	close(sock[1]);
	if (b->pid > 0)
		return b;
	close(sock[0]);
	free(b);
	return NULL;
}

/** Say something before the broker is sealed, and wait for the answer. @param fd  Goes with it, or -1. @return 0 or an errno value. */
static int
tell(struct broker *b, const struct broker_req *q, int fd)
{
	struct pollfd p = { .fd = b->sock, .events = POLLIN };
	unsigned int nb = 0;
	struct broker_rsp r;
	int rc;

	rc = broker_send(b->sock, 0, q, sizeof(*q), &fd, fd >= 0 ? 1 : 0);
	if (rc != 0)
		return rc;
	do
		rc = poll(&p, 1, ANSWER_MS);
	while (rc < 0 && errno == EINTR);
	if (rc != 1)
		return ETIMEDOUT;
	return broker_receive(b->sock, 0, &r, sizeof(r), NULL, &nb) == (long)sizeof(r) ? r.rc : EPIPE;
}

static int
remove_path(struct broker *b, const char *path, bool unless_crashed)
{
	struct broker_req q = { .op = BROKER_REMOVE, .n = unless_crashed };

	if (strlen(path) >= sizeof(q.path))
		return ENAMETOOLONG;
	strcpy(q.path, path);
	return tell(b, &q, -1);
}

int
broker_remove_at_end(struct broker *b, const char *path)
{
	return remove_path(b, path, false);
}

int
broker_remove_unless_crashed(struct broker *b, const char *path)
{
	return remove_path(b, path, true);
}

int
broker_keep(struct broker *b, const char *path)
{
	struct broker_req q = { .op = BROKER_KEEP };

	if (strlen(path) >= sizeof(q.path))
		return ENAMETOOLONG;
	strcpy(q.path, path);
	return tell(b, &q, -1);
}

int
broker_detach_at_end(struct broker *b, uint32_t ifindex)
{
	struct broker_req q = { .op = BROKER_DETACH, .ifindex = ifindex };

	return tell(b, &q, -1);
}

int
broker_seal(struct broker *b, const struct identity *id, bool confined)
{
	struct broker_req q = { .op = BROKER_SEAL, .seal = { .id = *id, .confined = confined } };

	return tell(b, &q, -1);
}

/** Errors of the socket that don't mean its end: this question has failed, and nothing was sent. */
static int
ask(const struct broker_line *l, const struct broker_req *q, const int *fds, unsigned int nb_fds)
{
	int rc = broker_send(l->sock, MSG_DONTWAIT, q, sizeof(*q), fds, nb_fds);

	return rc == ECONNRESET ? EPIPE : rc;
}

static int
ask_process(void *arg, uint64_t number, int sock)
{
	struct broker_req q = { .op = BROKER_PROCESS, .number = number };

	return ask(arg, &q, &sock, 1);
}

static int
ask_open(void *arg, uint64_t number, int dir, int maps, const struct shared_range *ranges, unsigned int n)
{
	struct broker_req q = { .op = BROKER_OPEN, .number = number, .n = n };
	const int fds[BROKER_REQUEST_FDS] = { dir, maps };

	memcpy(q.ranges, ranges, n * sizeof(*ranges));
	return ask(arg, &q, fds, BROKER_REQUEST_FDS);
}

/** Give each of the files its descriptor. @param used  Receives which of @p nb are taken. */
static void
take_files(struct shared_answer *a, const struct broker_rsp *r, const int *fds, unsigned int nb, bool *used)
{
	a->n = r->n <= SHARED_BATCH ? r->n : 0;
	for (uint32_t i = 0; i < a->n; i++) {
		int at = r->files[i].fd;

		a->files[i] = r->files[i];
		a->files[i].fd = -1;
		if (r->files[i].status != SHARED_OK)
			continue;
		if (at >= 0 && (unsigned int)at < nb && !used[at]) {
			used[at] = true;
			a->files[i].fd = fds[at];
		} else {
			a->files[i].status = SHARED_NO_ANSWER;
		}
	}
}

static int
answer(void *arg, struct shared_answer *a)
{
	const struct broker_line *l = arg;
	bool used[SHARED_BATCH] = { false };
	unsigned int nb = SHARED_BATCH;
	int fds[SHARED_BATCH];
	struct broker_rsp r;
	long got;

	got = broker_receive(l->sock, MSG_DONTWAIT, &r, sizeof(r), fds, &nb);
	if (got < 0 && errno == EAGAIN)
		return EAGAIN;
	if (got != (long)sizeof(r) && (got >= 0 || errno != EMFILE)) {
		for (unsigned int i = 0; i < nb; i++)
			close(fds[i]);
		return EPIPE;
	}
	*a = (struct shared_answer){ .number = r.number, .rc = got < 0 || r.nb_fds != nb ? EMFILE : r.rc, .dir = -1, .maps = -1 };
	if (a->rc == 0 && r.n == 0 && nb == 2) {
		a->dir = fds[0];
		a->maps = fds[1];
		used[0] = used[1] = true;
	} else if (a->rc == 0) {
		take_files(a, &r, fds, nb, used);
	}
	for (unsigned int i = 0; i < nb; i++)
		if (!used[i])
			close(fds[i]);
	return 0;
}

int
broker_ops(struct broker *b, struct shared_ops *ops)
{
	const struct shared_ops own = shared_ops_own();
	const struct broker_req q = { .op = BROKER_LINE };
	struct broker_line *l = b->lines;
	int sock[2], rc;

	while (l < &b->lines[BROKER_LINES_MAX] && l->sock >= 0)
		l++;
	if (l == &b->lines[BROKER_LINES_MAX])
		return ENOSPC;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) != 0)
		return errno;
	rc = tell(b, &q, sock[1]);
	close(sock[1]);
	if (rc != 0) {
		close(sock[0]);
		return rc;
	}
	l->sock = sock[0];
	/* What this process, root still, may do now, the broker may do then. */
	*ops = (struct shared_ops){
		.fd = l->sock, .ask_process = ask_process, .ask_open = ask_open, .answer = answer, .arg = l, .privileged = own.privileged
	};
	return 0;
}

void
broker_end(struct broker *b)
{
	const struct broker_req q = { .op = BROKER_END };

	if (b == NULL)
		return;
	(void)tell(b, &q, -1);
	shutdown(b->sock, SHUT_RDWR);
	close(b->sock);
	for (unsigned int i = 0; i < BROKER_LINES_MAX; i++)
		if (b->lines[i].sock >= 0)
			close(b->lines[i].sock);
	for (unsigned int i = 0; i < END_STEPS && waitpid(b->pid, NULL, WNOHANG) == 0; i++)
		usleep(END_STEP_US);
	free(b);
}
