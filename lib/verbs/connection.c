/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection to uroced. */
#include "verbs/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/yield.h"

/*
 * Most replies arrive within this time. If the daemon runs on another core, waking a sleeping thread costs more than
 * spinning that long.
 */
#define CTL_SPIN_NS UINT64_C(50000)

void
client_complain(const char *fmt, ...)
{
	static _Atomic int lines;
	char text[640];
	va_list ap;
	int n;

	if (secure_getenv("UROCE_QUIET") || atomic_fetch_add(&lines, 1) >= CLIENT_MAX_COMPLAINTS)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)
		fprintf(stderr, "uroce: %s\n", text);
}

void
client_call_init(struct client_call *c, enum ctl_op op)
{
	memset(c, 0, sizeof(*c));
	c->req.magic = CTL_MAGIC;
	c->req.op = op;
}

void
client_call_close_fds(struct client_call *c, uint32_t from)
{
	while (c->nb_got > from)
		close(c->got[--c->nb_got]);
}

static int
ctl_send(int sock, const struct client_call *c)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * CTL_MAX_FDS)];
	} anc;
	struct iovec iov[2] = {
		{ .iov_base = (void *)&c->req, .iov_len = sizeof(c->req) },
		{ .iov_base = (void *)c->segs, .iov_len = c->nb_segs * sizeof(*c->segs) },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = c->nb_segs ? 2 : 1 };
	ssize_t n;

	if (c->nb_fds) {
		struct cmsghdr *h;

		memset(&anc, 0, sizeof(anc));
		msg.msg_control = &anc;
		msg.msg_controllen = CMSG_SPACE(c->nb_fds * sizeof(int));
		h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(c->nb_fds * sizeof(int));
		memcpy(CMSG_DATA(h), c->fds, c->nb_fds * sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? errno : 0;
}

static void
ctl_take_fds(struct msghdr *msg, struct client_call *c)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n && c->nb_got < CTL_MAX_FDS; i++)
			memcpy(&c->got[c->nb_got++], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
	}
}

uint64_t
client_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/** @return true: the answer to a request before this one, sent again by a daemon that followed one that crashed. */
static bool
is_of_another(const struct client_call *c)
{
	/* Daemons of before requests had numbers say 0. */
	return c->rsp.magic == CTL_MAGIC && c->rsp.number != 0 && c->rsp.number != c->req.number;
}

/** @return 0, EAGAIN (it was the answer to another request) or another errno value. */
static int
ctl_receive(int sock, struct client_call *c)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * CTL_MAX_FDS)];
	} anc;
	struct iovec iov = { .iov_base = &c->rsp, .iov_len = sizeof(c->rsp) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &anc,
		.msg_controllen = sizeof(anc),
	};
	uint64_t end_ns = client_now_ns() + CTL_SPIN_NS;
	int flags = MSG_DONTWAIT;
	bool reset = false;
	ssize_t n;

	for (;;) {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
		if (n >= 0)
			break;
		if (errno == EAGAIN && flags != 0) {
			/* The daemon may be running on this very core. Beside a program that never yields, this only looks again. */
			yield_core();
			if (client_now_ns() >= end_ns)
				flags = 0;
			continue;
		}
		/* A daemon that refuses us closes the connection before it reads our request: the kernel reports that
		 * before it delivers the reply. */
		if (errno == ECONNRESET && !reset)
			reset = true;
		else if (errno != EINTR)
			return errno;
	}
	ctl_take_fds(&msg, c);
	if (n == sizeof(c->rsp) && is_of_another(c)) {
		client_call_close_fds(c, 0);
		return EAGAIN;
	}
	if (n != sizeof(c->rsp) || c->rsp.magic != CTL_MAGIC || c->rsp.op != c->req.op || c->rsp.nb_fds != c->nb_got)
		return EPROTO;
	return 0;
}

/** Send and receive. @return 0, the daemon's error, or EIO: the connection is unusable. */
static int
exchange(int sock, struct client_call *c, bool *broken)
{
	static _Atomic uint64_t numbers;
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int err;

	c->req.number = atomic_fetch_add(&numbers, 1) + 1;
	err = ctl_send(sock, c);
	do {
		/* A signal may interrupt the call, but the reply must be read. */
		while (!err && c->wait && c->wait(&p, 1) < 0)
			err = errno == EINTR ? 0 : errno;
		if (err && err != EPIPE && err != ECONNRESET)
			break;
		err = ctl_receive(sock, c);
		if (err != EAGAIN)
			break;
		err = 0;
	} while (true);
	if (err) {
		client_call_close_fds(c, 0);
		*broken = true;
		return EIO;
	}
	if (c->rsp.status) {
		client_call_close_fds(c, 0);
		return c->rsp.status < 0 ? EIO : c->rsp.status;
	}
	return 0;
}

int
client_exchange(int sock, struct client_call *c, bool *broken)
{
	int before = errno, err = exchange(sock, c, broken);

	/*
	 * Don't change errno, like a successful system call: some programs read it after an end of file (rstream does).
	 */
	errno = before;
	return err;
}

const char *
client_socket_path(void)
{
	const char *path = secure_getenv("UROCE_SOCKET");

	return path && *path ? path : CTL_DEFAULT_SOCKET;
}

/* The reason is printed once per process, because programs list devices repeatedly. */
static bool
was_explained(void)
{
	static _Atomic int said;

	return atomic_exchange(&said, 1);
}

static void
explain_connect(const char *path, int err)
{
	struct stat st;
	struct group gr, *found = NULL;
	char buf[1024];

	if (was_explained())
		return;
	switch (err) {
	case ENOENT:
	case ECONNREFUSED:
		client_complain("no daemon at %s: start uroced, or set UROCE_SOCKET to its socket", path);
		break;
	case EACCES:
	case EPERM:
		if (!stat(path, &st))
			getgrgid_r(st.st_gid, &gr, buf, sizeof(buf), &found);
		if (found)
			client_complain("no permission to use %s: it takes membership of group %s (mode %04o; socket_group and socket_mode in uroced.conf)",
					path, found->gr_name, st.st_mode & 07777);
		else
			client_complain("no permission to use %s: socket_group and socket_mode in uroced.conf say who may", path);
		break;
	case ENAMETOOLONG:
		client_complain("socket path %s: longer than the %zu bytes that a unix socket's may have", path,
				sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
		break;
	default:
		client_complain("can't connect to %s: %s", path, strerror(err));
		break;
	}
}

static int
connect_to(const char *path, int *out)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int sock, err;

	if (strlcpy(sa.sun_path, path, sizeof(sa.sun_path)) >= sizeof(sa.sun_path))
		return ENAMETOOLONG;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return errno;
	/* The kernel chooses a name, by which the daemon knows the socket if we pass it to a program that shall import this context. */
	(void)bind(sock, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t));
	while (connect(sock, (struct sockaddr *)&sa, sizeof(sa))) {
		if (errno == EINTR)
			continue;
		err = errno;
		close(sock);
		return err;
	}
	*out = sock;
	return 0;
}

static void
explain_refusal(const char *path, const struct client_call *c, int err, bool broken)
{
	const struct ctl_hello_rsp *r = &c->rsp.hello;

	if (was_explained())
		return;
	if (err == EPROTO)
		client_complain("uroced at %s is %.*s and speaks ABI version %u, this library (%s) version %u: "
				"install the same release of both",
				path, (int)sizeof(r->version), r->version, r->abi_version, UROCE_VERSION,
				UROCE_ABI_VERSION);
	else if (broken)
		client_complain("uroced at %s closed the connection without an answer", path);
	else
		client_complain("uroced at %s refused: %.*s", path, (int)sizeof(c->rsp.message), c->rsp.message);
}

/** Give the daemon access to our memory, as long as this address space exists. */
static int
send_memory(int sock, int mem_fd, struct client_call *c, bool *broken)
{
	int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), err;

	client_call_init(c, CTL_MEMORY);
	c->req.memory.pid = getpid();
	c->fds[0] = mem_fd;
	c->fds[1] = proc;
	c->nb_fds = proc >= 0 ? 2 : 1;
	err = client_exchange(sock, c, broken);
	client_call_close_fds(c, 0);
	if (proc >= 0)
		close(proc);
	return err;
}

int
client_hello(int sock, const char *path, int mem_fd, client_wait_fn wait, uint32_t *nb_devices)
{
	struct client_call c;
	bool broken = false;
	int err;

	client_call_init(&c, CTL_HELLO);
	c.req.hello.abi_version = UROCE_ABI_VERSION;
	c.req.hello.pid = getpid();
	strlcpy(c.req.hello.program, program_invocation_short_name, sizeof(c.req.hello.program));
	c.wait = wait;
	err = client_exchange(sock, &c, &broken);
	client_call_close_fds(&c, 0);
	if (!err && c.rsp.hello.abi_version != UROCE_ABI_VERSION)
		err = EPROTO;
	*nb_devices = c.rsp.hello.nb_devices;
	if (!err && mem_fd >= 0)
		err = send_memory(sock, mem_fd, &c, &broken);
	if (err)
		explain_refusal(path, &c, err, broken);
	return err;
}

/* With this descriptor the daemon accesses memory that it can't map, for as long as this address space exists. */
static int
say_hello(int sock, const char *path, uint32_t *nb_devices)
{
	int mem, err;

	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (mem < 0) {
		err = errno;
		if (!was_explained())
			client_complain("can't open /proc/self/mem: %s; the program must be dumpable "
					"(prctl PR_SET_DUMPABLE)",
					strerror(err));
		return err;
	}
	err = client_hello(sock, path, mem, NULL, nb_devices);
	close(mem);
	return err;
}

int
client_connect(const char *path, int *sock, uint32_t *nb_devices)
{
	int err = connect_to(path, sock);

	if (err) {
		explain_connect(path, err);
		return err;
	}
	err = say_hello(*sock, path, nb_devices);
	if (err)
		close(*sock);
	return err;
}

int
client_device_get(int sock, uint32_t index, struct ctl_device_get_rsp *out)
{
	struct client_call c;
	bool broken = false;
	int err;

	client_call_init(&c, CTL_DEVICE_GET);
	c.req.device_get.index = index;
	err = client_exchange(sock, &c, &broken);
	client_call_close_fds(&c, 0);
	if (err)
		return err;
	*out = c.rsp.device_get;
	out->name[sizeof(out->name) - 1] = 0;
	out->netdev[sizeof(out->netdev) - 1] = 0;
	return 0;
}
