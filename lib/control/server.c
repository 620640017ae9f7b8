/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the control thread, and requests: received, checked, dispatched, answered. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control_priv.h"
#include "sigbus.h"

RTE_LOG_REGISTER(control_logtype, uroce.control, INFO);

enum {
	EPOLL_BATCH = 64,
	MAX_SEGS_BYTES = CTL_SEGS_PER_MSG * sizeof(struct ctl_seg),
	RX_BYTES = CTL_REQ_BYTES + MAX_SEGS_BYTES,
	ACCEPT_BURST = 16,
};

/** What a request may be and who handles it. A handler returns 0, an errno value, or EINPROGRESS: it will answer later. */
struct op {
	const char *name;
	int (*fn)(struct session *s, struct request *r);
	bool device;      /**< needs an open device */
	uint8_t max_fds;
};

static int
unsupported(struct session *s, struct request *r)
{
	return req_fail(r, EOPNOTSUPP, "not supported by this version of uroced");
}

static const struct op ops[CTL_OPS] = {
	[CTL_HELLO] = { "HELLO", op_hello, false, 1 },
	[CTL_DEVICE_GET] = { "DEVICE_GET", op_device_get, false, 0 },
	[CTL_DEVICE_OPEN] = { "DEVICE_OPEN", op_device_open, false, 1 },
	[CTL_DEVICE_QUERY] = { "DEVICE_QUERY", op_device_query, true, 0 },
	[CTL_PORT_QUERY] = { "PORT_QUERY", op_port_query, true, 0 },
	[CTL_GID_TABLE] = { "GID_TABLE", op_gid_table, true, 0 },
	[CTL_PD_ALLOC] = { "PD_ALLOC", op_pd_alloc, true, 0 },
	[CTL_PD_FREE] = { "PD_FREE", op_pd_free, true, 0 },
	[CTL_MR_REG] = { "MR_REG", op_mr_reg, true, 0 },
	[CTL_MR_SEGS] = { "MR_SEGS", op_mr_segs, true, 0 },
	[CTL_MR_DEREG] = { "MR_DEREG", op_mr_dereg, true, 0 },
	[CTL_CQ_CREATE] = { "CQ_CREATE", op_cq_create, true, 1 },
	[CTL_CQ_RESIZE] = { "CQ_RESIZE", unsupported, true, 0 },
	[CTL_CQ_MODIFY] = { "CQ_MODIFY", unsupported, true, 0 },
	[CTL_CQ_DESTROY] = { "CQ_DESTROY", op_cq_destroy, true, 0 },
	[CTL_SRQ_CREATE] = { "SRQ_CREATE", op_srq_create, true, 0 },
	[CTL_SRQ_MODIFY] = { "SRQ_MODIFY", op_srq_modify, true, 0 },
	[CTL_SRQ_QUERY] = { "SRQ_QUERY", op_srq_query, true, 0 },
	[CTL_SRQ_DESTROY] = { "SRQ_DESTROY", op_srq_destroy, true, 0 },
	[CTL_QP_CREATE] = { "QP_CREATE", op_qp_create, true, 0 },
	[CTL_QP_MODIFY] = { "QP_MODIFY", op_qp_modify, true, 0 },
	[CTL_QP_QUERY] = { "QP_QUERY", op_qp_query, true, 0 },
	[CTL_QP_DESTROY] = { "QP_DESTROY", op_qp_destroy, true, 0 },
	[CTL_AH_CREATE] = { "AH_CREATE", op_ah_create, true, 0 },
	[CTL_AH_DESTROY] = { "AH_DESTROY", op_ah_destroy, true, 0 },
	[CTL_MCAST_ATTACH] = { "MCAST_ATTACH", unsupported, true, 0 },
	[CTL_MCAST_DETACH] = { "MCAST_DETACH", unsupported, true, 0 },
};

uint64_t
control_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int
control_watch(struct control *c, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	return epoll_ctl(c->epfd, EPOLL_CTL_ADD, w->fd, &ev) == 0 ? 0 : errno;
}

void
control_unwatch(struct control *c, struct watch *w)
{
	epoll_ctl(c->epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

int
req_fail(struct request *r, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->message, sizeof(r->message), fmt, ap);
	va_end(ap);
	return err;
}

void
req_send_fd(struct request *r, int fd, bool close_it)
{
	r->out_fds[r->rsp.nb_fds] = fd;
	r->out_close[r->rsp.nb_fds] = close_it;
	r->rsp.nb_fds++;
}

void
session_pause(struct session *s, bool pause)
{
	/* Without EPOLLIN the end of the connection still shows as EPOLLHUP or EPOLLRDHUP. */
	struct epoll_event ev = { .events = EPOLLRDHUP | (pause ? 0 : EPOLLIN), .data.ptr = &s->sock };

	epoll_ctl(s->control->epfd, EPOLL_CTL_MOD, s->sock.fd, &ev);
}

/** Send a reply with its descriptors. @return 0 or an errno value. */
static int
send_reply(int sock, const struct ctl_rsp *rsp, const int *fds, uint32_t nb_fds)
{
	char space[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)rsp, .iov_len = sizeof(*rsp) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (nb_fds > 0) {
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, nb_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*rsp) ? 0 : errno;
}

void
session_reply(struct session *s, struct request *r, int status)
{
	uint32_t i, nb_fds = r->rsp.nb_fds;
	int rc;

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
		/* One that sends requests without reading the answers, or is gone already. */
		session_close(s, rc == EAGAIN ? "it doesn't read replies" : NULL);
	else if (status == EPROTO)
		session_close(s, "it has another version of the protocol");
}

/** Check the form of a request of @p n bytes. @return 0, EINVAL, or EPROTO: another version. */
static int
check_form(struct session *s, struct request *r, size_t n, bool cut)
{
	const struct ctl_req *q = r->req;
	size_t want = CTL_REQ_BYTES;
	uint32_t in_msg = 0;

	if (n < offsetof(struct ctl_req, hello) + sizeof(uint32_t) || q->magic != CTL_MAGIC)
		return req_fail(r, EINVAL, "not a request of uroce's control protocol");
	/* Before the size: another version's requests may have another. */
	if (q->op == CTL_HELLO && q->hello.abi_version != UROCE_ABI_VERSION)
		return EPROTO;
	if (cut || n < CTL_REQ_BYTES)
		return req_fail(r, EINVAL, "request of %zu bytes: must be %zu and the segments", n, CTL_REQ_BYTES);
	if (q->op >= CTL_OPS || ops[q->op].fn == NULL)
		return req_fail(r, EINVAL, "unknown request %u", q->op);
	if (q->op == CTL_MR_REG)
		in_msg = q->mr_reg.nb_in_msg;
	else if (q->op == CTL_MR_SEGS)
		in_msg = q->mr_segs.nb_in_msg;
	if (in_msg > CTL_SEGS_PER_MSG)
		return req_fail(r, EINVAL, "%s with %u segments: must be at most %u", ops[q->op].name, in_msg, CTL_SEGS_PER_MSG);
	want += in_msg * sizeof(struct ctl_seg);
	if (n != want)
		return req_fail(r, EINVAL, "%s of %zu bytes: must be %zu", ops[q->op].name, n, want);
	r->segs = (const void *)((const char *)q + CTL_REQ_BYTES);
	r->nb_segs = in_msg;
	if (r->nb_fds > ops[q->op].max_fds)
		return req_fail(r, EINVAL, "%s with %u descriptors: at most %u", ops[q->op].name, r->nb_fds,
				ops[q->op].max_fds);
	if (!s->hello && q->op != CTL_HELLO)
		return req_fail(r, EINVAL, "%s before HELLO", ops[q->op].name);
	if (ops[q->op].device && s->port == NULL)
		return req_fail(r, EINVAL, "%s before DEVICE_OPEN", ops[q->op].name);
	return 0;
}

/** Collect the descriptors of a message. @return false: more than there may be. */
static bool
take_fds(struct msghdr *msg, struct request *r)
{
	struct cmsghdr *cmsg;
	size_t n;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(r->fds, CMSG_DATA(cmsg), n * sizeof(int));
		r->nb_fds = (uint32_t)n;
	}
	/* The kernel has closed those that didn't fit. */
	return (msg->msg_flags & MSG_CTRUNC) == 0;
}

static void
handle_request(struct session *s, struct msghdr *msg, size_t n)
{
	struct request r = { .req = (const void *)s->control->rx };
	uint32_t i;
	int rc;

	if (!take_fds(msg, &r))
		rc = req_fail(&r, EINVAL, "more than %d descriptors in one request", CTL_MAX_FDS);
	else
		rc = check_form(s, &r, n, msg->msg_flags & MSG_TRUNC);
	if (rc == 0)
		rc = ops[r.req->op].fn(s, &r);
	else if (rc == EPROTO)
		r.rsp.hello.abi_version = UROCE_ABI_VERSION;
	if (rc == EPROTO)
		snprintf(r.rsp.hello.version, sizeof(r.rsp.hello.version), "%s", UROCE_VERSION);
	for (i = 0; i < r.nb_fds; i++) {
		if (r.fds[i] >= 0)
			close(r.fds[i]);
	}
	if (rc != EINPROGRESS && !s->closing)
		session_reply(s, &r, rc);
}

static void
on_session(struct watch *w, uint32_t events)
{
	struct session *s = (void *)((char *)w - offsetof(struct session, sock));
	char space[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = s->control->rx, .iov_len = RX_BYTES };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space),
	};
	ssize_t n;

	if (s->closing)
		return;
	if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) {
		session_close(s, NULL);
		return;
	}
	n = recvmsg(s->sock.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0)
		handle_request(s, &msg, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		session_close(s, NULL);
}

static void
on_kick(struct watch *w, uint32_t events)
{
	struct session *s = (void *)((char *)w - offsetof(struct session, kick));
	unsigned int i;
	uint64_t n;

	if (s->closing || read(w->fd, &n, sizeof(n)) != sizeof(n))
		return;
	for (i = 0; i < s->control->s.nb_engines; i++)
		engine_session_kick(s->control->s.engines[i], s->engine_sessions[i]);
}

/** Say why to somebody whose session there is no room for; its HELLO is in the socket or will get a reset. */
static void
refuse(int fd, const struct control *c)
{
	struct ctl_rsp rsp = { .magic = CTL_MAGIC, .op = CTL_HELLO, .status = EMFILE };

	snprintf(rsp.message, sizeof(rsp.message), "uroced has %u sessions already; raise daemon.max_sessions (at most %d)",
		 c->nb_sessions, UROCE_MAX_SESSIONS);
	send_reply(fd, &rsp, NULL, 0);
	close(fd);
}

static void
on_listen(struct watch *w, uint32_t events)
{
	struct control *c = (void *)((char *)w - offsetof(struct control, listen));
	struct session *s;
	unsigned int i;
	int fd;

	for (i = 0; i < ACCEPT_BURST; i++) {
		fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (c->nb_sessions >= c->s.conf->max_sessions) {
			refuse(fd, c);
			continue;
		}
		s = session_create(c, fd);
		if (s == NULL) {
			CTL_LOG(ERR, "no memory for a session");
			close(fd);
			continue;
		}
		s->sock.fn = on_session;
		s->kick.fn = on_kick;
		if (control_watch(c, &s->sock, EPOLLIN | EPOLLRDHUP) != 0)
			session_close(s, "it can't be watched");
	}
}

/** A page of a program's memory went away, or somebody wants the loop to end. */
static void
on_wake(struct watch *w, uint32_t events)
{
	struct control *c = (void *)((char *)w - offsetof(struct control, wake));
	struct session *s, *next;
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) != sizeof(n))
		return;
	for (s = TAILQ_FIRST(&c->sessions); s != NULL; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->victim)
			session_close(s, "it took away memory that it had registered");
	}
}

static void
on_signal(struct watch *w, uint32_t events)
{
	struct control *c = (void *)((char *)w - offsetof(struct control, signals));
	struct signalfd_siginfo info;

	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	CTL_LOG(INFO, "signal %u, shutting down", info.ssi_signo);
	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
}

void
control_run(struct control *c)
{
	struct epoll_event ev[EPOLL_BATCH];
	struct watch *w;
	int i, n;

	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		n = epoll_wait(c->epfd, ev, EPOLL_BATCH, events_poll(c));
		for (i = 0; i < n; i++) {
			w = ev[i].data.ptr;
			w->fn(w, ev[i].events);
		}
		sessions_reap(c);
	}
}

void
control_stop(struct control *c)
{
	uint64_t one = 1;

	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
	if (write(c->wake.fd, &one, sizeof(one)) != sizeof(one))
		return; /* full, so it is awake already */
}

/** Can we open what programs have mapped? Tried out on a mapping of our own. */
static bool
probe_privilege(void)
{
	const size_t bytes = 4096;
	bool ok = false;
	char path[96];
	void *p;
	int fd, fd2;

	fd = memfd_create("uroce-probe", MFD_CLOEXEC);
	if (fd < 0)
		return false;
	if (ftruncate(fd, (off_t)bytes) == 0) {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)p, (unsigned long)p + bytes);
			fd2 = open(path, O_RDWR | O_CLOEXEC);
			ok = fd2 >= 0;
			if (ok)
				close(fd2);
			munmap(p, bytes);
		}
	}
	close(fd);
	return ok;
}

/** @return true if a hugepage of 2 MiB can be had now. */
static bool
probe_hugepages(void)
{
	void *p = mmap(NULL, SHM_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26 /* MAP_HUGE_2MB */, -1, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, SHM_SEGMENT_BYTES);
	return true;
}

static int
open_watches(struct control *c, int listen_fd)
{
	sigset_t set;
	unsigned int i;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	c->epfd = epoll_create1(EPOLL_CLOEXEC);
	c->wake = (struct watch){ on_wake, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	c->signals = (struct watch){ on_signal, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) };
	c->listen = (struct watch){ on_listen, listen_fd };
	if (c->epfd < 0 || c->wake.fd < 0 || c->signals.fd < 0)
		return errno;
	rc = sigbus_install(c->wake.fd);
	if (rc == 0)
		rc = control_watch(c, &c->wake, EPOLLIN);
	if (rc == 0)
		rc = control_watch(c, &c->signals, EPOLLIN);
	if (rc == 0)
		rc = control_watch(c, &c->listen, EPOLLIN);
	for (i = 0; i < c->s.nb_engines && rc == 0; i++) {
		c->engines[i] = (struct engine_watch){
			.watch = { events_engine, engine_event_fd(c->s.engines[i]) },
			.control = c,
			.engine = c->s.engines[i],
		};
		rc = control_watch(c, &c->engines[i].watch, EPOLLIN);
	}
	return rc;
}

struct control *
control_create(const struct control_setup *setup, int listen_fd, char *err)
{
	const struct uroced_config *conf = setup->conf;
	struct control *c = calloc(1, sizeof(*c));
	int rc = ENOMEM;

	if (c == NULL)
		goto fail;
	c->s = *setup;
	c->epfd = c->wake.fd = c->signals.fd = c->listen.fd = c->uffd = -1;
	TAILQ_INIT(&c->sessions);
	TAILQ_INIT(&c->closed);
	handles_init(&c->pd_ids);
	/* PD 0 is nobody's. */
	if (handles_add(&c->pd_ids, c) == HANDLE_NONE)
		goto fail;
	c->rx = malloc(RX_BYTES);
	if (c->rx == NULL)
		goto fail;
	c->limit[OBJ_PD] = conf->max_pd;
	c->limit[OBJ_MR] = conf->max_mr;
	c->limit[OBJ_CQ] = conf->max_cq;
	c->limit[OBJ_SRQ] = conf->max_srq;
	c->limit[OBJ_QP] = conf->max_qp;
	c->limit[OBJ_AH] = conf->max_ah;
	c->uffd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	c->privileged = probe_privilege();
	c->hugepages = probe_hugepages();
	rc = open_watches(c, listen_fd);
	if (rc != 0)
		goto fail;
	events_start(c);
	CTL_LOG(INFO, "memory of programs: %s, %s; rings in %s", c->uffd >= 0 ? "converted in place" : "no /dev/userfaultfd",
		c->privileged ? "shared memory mapped" : "shared memory copied by the kernel",
		c->hugepages ? "hugepages" : "ordinary pages");
	return c;
fail:
	snprintf(err, CONFIG_ERR_BYTES, "cannot start the control thread: %s", strerror(rc));
	if (c != NULL)
		control_destroy(c);
	return NULL;
}

void
control_destroy(struct control *c)
{
	struct session *s;
	unsigned int i;

	while ((s = TAILQ_FIRST(&c->sessions)) != NULL)
		session_close(s, "uroced shuts down");
	sessions_reap(c);
	for (i = 0; i < c->s.nb_ports; i++)
		net_port_set_sender(c->s.ports[i], NULL, NULL, NULL);
	if (c->listen.fd >= 0)
		close(c->listen.fd);
	if (c->wake.fd >= 0)
		close(c->wake.fd);
	if (c->signals.fd >= 0)
		close(c->signals.fd);
	if (c->uffd >= 0)
		close(c->uffd);
	if (c->epfd >= 0)
		close(c->epfd);
	handles_fini(&c->pd_ids);
	free(c->rx);
	free(c);
}

void
control_counts(const struct control *c, struct control_counts *out)
{
	*out = (struct control_counts){
		.sessions = c->nb_sessions,
		.pds = c->count[OBJ_PD],
		.mrs = c->count[OBJ_MR],
		.cqs = c->count[OBJ_CQ],
		.srqs = c->count[OBJ_SRQ],
		.qps = c->count[OBJ_QP],
		.ahs = c->count[OBJ_AH],
	};
}
