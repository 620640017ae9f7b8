/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's side of the broker: starting it, asking it, ending it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker_priv.h"

enum {
	ANSWER_MS = 2000,
	END_STEP_US = 1000,
	END_STEPS = 2000,
};

long
broker_receive(int sock, void *data, size_t bytes, int *fds, unsigned int *nb_fds)
{
	char space[CMSG_SPACE(SHARED_BATCH * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE(*nb_fds * sizeof(int)) };
	unsigned int n = 0;
	ssize_t got;

	do
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	for (struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL; c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	}
	*nb_fds = n;
	return got > 0 && (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? -1 : (long)got;
}

int
broker_send(int sock, const void *data, size_t bytes, const int *fds, unsigned int nb_fds)
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
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : errno;
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
	pthread_mutex_init(&b->lock, NULL);
	b->sock = sock[0];
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

/** Without an answer in time the broker is given up: a later answer would be taken for that to another question. */
static void
give_up(struct broker *b, const char *why)
{
	fprintf(stderr, "uroced: the broker %s: shared memory of programs is copied by the kernel from now on\n", why);
	close(b->sock);
	b->sock = -1;
}

/** @return the number of @p fds received, or -1. */
static int
exchange(struct broker *b, const struct broker_req *q, const int *send_fds, unsigned int nb_send, struct broker_rsp *r, int *fds)
{
	struct pollfd p = { .fd = b->sock, .events = POLLIN };
	unsigned int nb = SHARED_BATCH;
	int rc = -1;

	if (broker_send(b->sock, q, sizeof(*q), send_fds, nb_send) != 0) {
		/* ETOOMANYREFS, ENOMEM: this question failed, nothing was sent. */
		if (errno == EPIPE || errno == ECONNRESET)
			give_up(b, "has ended");
		return -1;
	}
	do
		rc = poll(&p, 1, ANSWER_MS);
	while (rc < 0 && errno == EINTR);
	if (rc != 1) {
		give_up(b, "doesn't answer");
		return -1;
	}
	if (broker_receive(b->sock, r, sizeof(*r), fds, &nb) == (long)sizeof(*r) && r->nb_fds == nb)
		return (int)nb;
	for (unsigned int i = 0; i < nb; i++)
		close(fds[i]);
	give_up(b, "has ended");
	return -1;
}

/** Ask the broker. @return the number of @p fds received, or -1: there is no answer. */
static int
ask(struct broker *b, const struct broker_req *q, const int *send_fds, unsigned int nb_send, struct broker_rsp *r, int *fds)
{
	int nb = -1;

	pthread_mutex_lock(&b->lock);
	if (b->sock >= 0)
		nb = exchange(b, q, send_fds, nb_send, r, fds);
	pthread_mutex_unlock(&b->lock);
	return nb;
}

/** A question without descriptors in it or its answer. @return 0 or an errno value. */
static int
tell(struct broker *b, const struct broker_req *q)
{
	int fds[SHARED_BATCH], nb;
	struct broker_rsp r;

	nb = ask(b, q, NULL, 0, &r, fds);
	for (int i = 0; i < nb; i++)
		close(fds[i]);
	return nb < 0 ? EPIPE : r.rc;
}

int
broker_remove_at_end(struct broker *b, const char *path)
{
	struct broker_req q = { .op = BROKER_REMOVE };

	if (strlen(path) >= sizeof(q.path))
		return ENAMETOOLONG;
	strcpy(q.path, path);
	return tell(b, &q);
}

int
broker_detach_at_end(struct broker *b, uint32_t ifindex)
{
	struct broker_req q = { .op = BROKER_DETACH, .ifindex = ifindex };

	return tell(b, &q);
}

int
broker_seal(struct broker *b, const struct identity *id, bool confined)
{
	struct broker_req q = { .op = BROKER_SEAL, .seal = { .id = *id, .confined = confined } };

	return tell(b, &q);
}

static void
ask_process(void *arg, int sock, pid_t pid, int *dir, int *maps)
{
	struct broker_req q = { .op = BROKER_PROCESS };
	int fds[SHARED_BATCH], nb;
	struct broker_rsp r;

	*dir = -1;
	if (maps != NULL)
		*maps = -1;
	nb = ask(arg, &q, &sock, 1, &r, fds);
	if (nb == 2) {
		*dir = fds[0];
		if (maps != NULL)
			*maps = fds[1];
		else
			close(fds[1]);
		return;
	}
	for (int i = 0; i < nb; i++)
		close(fds[i]);
	/* Its directory is open to everybody, its mappings are not. */
	shared_process(pid, dir, NULL);
}

static void
ask_open(void *arg, int dir, int maps, const struct shared_range *ranges, unsigned int n, struct shared_file *out)
{
	struct broker_req q = { .op = BROKER_OPEN, .n = n };
	int fds[SHARED_BATCH], send_fds[BROKER_REQUEST_FDS] = { dir, maps }, nb;
	bool used[SHARED_BATCH] = { false };
	struct broker_rsp r;

	memcpy(q.ranges, ranges, n * sizeof(*ranges));
	nb = ask(arg, &q, send_fds, BROKER_REQUEST_FDS, &r, fds);
	for (unsigned int i = 0; i < n; i++) {
		int at = nb < 0 ? -1 : r.files[i].fd;

		out[i] = (struct shared_file){ .fd = -1, .status = SHARED_NO_ANSWER };
		if (nb < 0 || r.rc != 0)
			continue;
		out[i] = r.files[i];
		out[i].fd = -1;
		if (out[i].status != SHARED_OK)
			continue;
		if (at >= 0 && at < nb && !used[at]) {
			used[at] = true;
			out[i].fd = fds[at];
		} else {
			out[i].status = SHARED_NO_ANSWER;
		}
	}
	for (int i = 0; i < nb; i++)
		if (!used[i])
			close(fds[i]);
}

struct shared_ops
broker_ops(struct broker *b)
{
	struct shared_ops ops = shared_ops_own();

	/* What this process, root still, may do now, the broker may do then. */
	return (struct shared_ops){ .process = ask_process, .open = ask_open, .arg = b, .privileged = ops.privileged };
}

void
broker_end(struct broker *b)
{
	if (b == NULL)
		return;
	if (b->sock >= 0) {
		shutdown(b->sock, SHUT_RDWR);
		close(b->sock);
	}
	for (unsigned int i = 0; i < END_STEPS && waitpid(b->pid, NULL, WNOHANG) == 0; i++)
		usleep(END_STEP_US);
	pthread_mutex_destroy(&b->lock);
	free(b);
}
