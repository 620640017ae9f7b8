/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's process. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "broker_priv.h"
#include "control/observe/sysfs.h"
#include "net/net.h"
#include "sandbox.h"

enum { STACK_BYTES = 256 << 10 };

#define CAP_BIT(cap) (1ull << (cap))
/* Since Linux 5.9; before, CAP_SYS_ADMIN is needed in its place. */
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/** What is to be removed at the end, and what it was when the daemon named it. */
struct doomed {
	char path[BROKER_PATH_BYTES];
	dev_t dev;
	ino_t ino;
	mode_t type;
	bool unless_crashed;
};

struct xdp {
	uint32_t ifindex, program;
};

/** The socket of a stack, and the threads that answer what it asks. One is always idle, unless there are as many as questions. */
struct line {
	int sock;
	_Atomic unsigned int idle, threads;
};

static struct {
	bool sealed;
	bool ended; /**< the daemon has said that it ends */
	struct doomed paths[BROKER_PATHS_MAX];
	unsigned int nb_paths;
	struct xdp xdps[BROKER_XDP_MAX];
	unsigned int nb_xdps;
	struct line lines[BROKER_LINES_MAX];
	unsigned int nb_lines;
} self;

static int
forget_path(const char *path)
{
	for (unsigned int i = 0; i < self.nb_paths; i++)
		if (strncmp(self.paths[i].path, path, BROKER_PATH_BYTES) == 0)
			self.paths[i].path[0] = '\0'; /* the name of nothing */
	return 0;
}

static int
remember_path(const char *path, bool unless_crashed)
{
	struct doomed *d = &self.paths[self.nb_paths];
	struct stat st;

	if (self.nb_paths == BROKER_PATHS_MAX)
		return ENOSPC;
	if (memchr(path, '\0', BROKER_PATH_BYTES) == NULL || path[0] != '/')
		return EINVAL;
	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : errno;
	if (!S_ISSOCK(st.st_mode) && !S_ISDIR(st.st_mode))
		return EINVAL;
	*d = (struct doomed){ .dev = st.st_dev, .ino = st.st_ino, .type = st.st_mode & S_IFMT, .unless_crashed = unless_crashed };
	strcpy(d->path, path);
	self.nb_paths++;
	return 0;
}

static int
remember_xdp(uint32_t ifindex)
{
	uint32_t program = net_xdp_program(ifindex);

	if (self.nb_xdps == BROKER_XDP_MAX)
		return ENOSPC;
	if (program != 0)
		self.xdps[self.nb_xdps++] = (struct xdp){ ifindex, program };
	return 0;
}

static unsigned long long
capabilities(void)
{
	unsigned long long caps = CAP_BIT(CAP_SYS_PTRACE) | CAP_BIT(CAP_DAC_OVERRIDE);
	bool known = prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE, 0, 0, 0) >= 0;

	caps |= known ? CAP_BIT(CAP_CHECKPOINT_RESTORE) : CAP_BIT(CAP_SYS_ADMIN);
	if (self.nb_xdps > 0)
		caps |= CAP_BIT(CAP_NET_ADMIN);
	/* Root's files in folders with the sticky bit, such as /tmp. */
	if (self.nb_paths > 0)
		caps |= CAP_BIT(CAP_FOWNER);
	return caps;
}

static void *answer_questions(void *arg);

/**
 * Start another thread for a stack, with little memory. If that fails, those that are there go on.
 * @return 0 or an errno value.
 */
static int
add_thread(struct line *l)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (atomic_fetch_add(&l->threads, 1) >= SHARED_ASKED) {
		atomic_fetch_sub(&l->threads, 1);
		return EAGAIN;
	}
	atomic_fetch_add(&l->idle, 1);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&thread, &attr, answer_questions, l);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		atomic_fetch_sub(&l->idle, 1);
		atomic_fetch_sub(&l->threads, 1);
	}
	return rc;
}

/** @param fd  The broker's from now on, if this succeeds. */
static int
add_line(int *fd)
{
	if (self.nb_lines == BROKER_LINES_MAX)
		return ENOSPC;
	self.lines[self.nb_lines++].sock = *fd;
	*fd = -1;
	return 0;
}

static int
seal(const struct broker_req *q)
{
	int rc;

	shared_prepare();
	rc = identity_take_keeping(&q->seal.id, capabilities());
	if (rc == 0)
		rc = sandbox_enter(q->seal.confined ? SANDBOX_BROKER : SANDBOX_NONE);
	self.sealed = rc == 0;
	/* Not before: a thread has the rights that its creator has. */
	for (unsigned int i = 0; i < self.nb_lines && rc == 0; i++)
		rc = add_thread(&self.lines[i]);
	return rc;
}

/** The process at the other end of the socket @p sock. @return 0 with two descriptors, or an errno value. */
static int
open_process(int sock, int *fds)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		return errno;
	/* Of a process that this namespace doesn't see, the number is 0; SO_PEERCRED of a listening socket is ours. */
	if (cred.pid <= 0)
		return ESRCH;
	shared_process(cred.pid, &fds[0], &fds[1]);
	if (fds[0] >= 0 && fds[1] >= 0)
		return 0;
	if (fds[0] >= 0)
		close(fds[0]);
	return EACCES;
}

static void
open_files(const struct broker_req *q, const int *in, struct broker_rsp *r, int *out)
{
	if (q->n == 0 || q->n > SHARED_BATCH || !shared_is_process(in[0], in[1]))
		return;
	r->rc = 0;
	r->n = q->n;
	shared_open(in[0], in[1], q->ranges, q->n, r->files);
	for (uint32_t i = 0; i < q->n; i++) {
		if (r->files[i].status != SHARED_OK)
			continue;
		out[r->nb_fds] = r->files[i].fd;
		r->files[i].fd = (int)r->nb_fds++;
	}
}

/** Execute what the daemon says before it becomes an ordinary user. @param in  Its @p nb_in descriptors; -1 in the place of one that is kept. */
static int
execute(const struct broker_req *q, int *in, unsigned int nb_in)
{
	if (q->op == BROKER_KEEP && nb_in == 0)
		return forget_path(q->path);
	if (q->op == BROKER_END && nb_in == 0) {
		self.ended = true;
		return 0;
	}
	if (self.sealed || nb_in != (q->op == BROKER_LINE ? 1 : 0))
		return EPERM;
	switch ((enum broker_op)q->op) {
	case BROKER_REMOVE:
		return remember_path(q->path, q->n != 0);
	case BROKER_DETACH:
		return remember_xdp(q->ifindex);
	case BROKER_LINE:
		return add_line(in);
	case BROKER_SEAL:
		return seal(q);
	case BROKER_KEEP:
	case BROKER_END:
	case BROKER_PROCESS:
	case BROKER_OPEN:
		break;
	}
	return EINVAL;
}

/** Answer a question. @param in  Its @p nb_in descriptors. @param out  Receives r->nb_fds descriptors. */
static void
answer(const struct broker_req *q, const int *in, unsigned int nb_in, struct broker_rsp *r, int *out)
{
	r->rc = EINVAL;
	if (q->op == BROKER_PROCESS && nb_in == 1) {
		r->rc = open_process(in[0], out);
		r->nb_fds = r->rc == 0 ? 2 : 0;
	} else if (q->op == BROKER_OPEN && nb_in == BROKER_REQUEST_FDS) {
		open_files(q, in, r, out);
	}
}

static void
close_all(const int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void *
answer_questions(void *arg)
{
	int in[SHARED_BATCH], out[SHARED_BATCH];
	struct line *l = arg;
	struct broker_req q = { 0 };
	struct broker_rsp r;
	unsigned int nb_in;
	long n;

	for (;;) {
		nb_in = BROKER_REQUEST_FDS;
		n = broker_receive(l->sock, 0, &q, sizeof(q), in, &nb_in);
		if (n == 0 || (n < 0 && errno != EMFILE && errno != EMSGSIZE))
			return NULL;
		/* The next question must not wait for the program that this one is about. */
		if (atomic_fetch_sub(&l->idle, 1) == 1)
			add_thread(l);
		r = (struct broker_rsp){ .number = q.number, .rc = EINVAL };
		if (n == (long)sizeof(q))
			answer(&q, in, nb_in, &r, out);
		close_all(in, nb_in);
		/* An idle thread before the daemon can ask again: so there are never more threads than questions and one. */
		atomic_fetch_add(&l->idle, 1);
		n = broker_send(l->sock, 0, &r, sizeof(r), out, r.nb_fds);
		close_all(out, r.nb_fds);
		if (n != 0)
			return NULL;
	}
}

static void
clean_up(void)
{
	struct stat st;

	for (unsigned int i = 0; i < self.nb_paths; i++) {
		const struct doomed *d = &self.paths[i];

		if (d->unless_crashed && !self.ended)
			continue;
		/* Another daemon may have taken the name meanwhile. */
		if (lstat(d->path, &st) != 0 || st.st_dev != d->dev || st.st_ino != d->ino || (st.st_mode & S_IFMT) != d->type)
			continue;
		if (S_ISDIR(d->type))
			sysfs_remove_tree(AT_FDCWD, d->path);
		else
			unlink(d->path);
	}
	for (unsigned int i = 0; i < self.nb_xdps; i++)
		net_xdp_detach(self.xdps[i].ifindex, self.xdps[i].program);
}

/** Signals of a terminal or a service manager are for the daemon, whose end we must see. */
static void
prepare(int sock)
{
	static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE };
	int null;

	for (unsigned int i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, "uroced-broker", 0, 0, 0);
	/* stderr stays. */
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(null, STDOUT_FILENO);
	dup2(sock, STDIN_FILENO);
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
}

void
broker_serve(int sock)
{
	static struct broker_req q;
	static struct broker_rsp r;
	int in[SHARED_BATCH];
	unsigned int nb_in;
	long n;

	prepare(sock);
	for (;;) {
		nb_in = BROKER_REQUEST_FDS;
		n = broker_receive(STDIN_FILENO, 0, &q, sizeof(q), in, &nb_in);
		if (n == 0)
			break;
		r = (struct broker_rsp){ .rc = EINVAL };
		if (n == (long)sizeof(q))
			r.rc = execute(&q, in, nb_in);
		close_all(in, nb_in);
		if (broker_send(STDIN_FILENO, 0, &r, sizeof(r), NULL, 0) != 0)
			break;
	}
	clean_up();
	/* With the threads that a program still keeps waiting. */
	_exit(EXIT_SUCCESS);
}
