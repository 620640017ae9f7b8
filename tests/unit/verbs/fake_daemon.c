/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CQ_ORDER = 4, SHARED_OFFSET = 4096, SEGMENT_BYTES = 8192 };

static int
memory(size_t bytes)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, bytes))
		abort();
	return fd;
}

/* A socket for events: the end that sends, and the client's. */
static void
events(int *ours, int *theirs)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		abort();
	*ours = fds[0];
	*theirs = fds[1];
}

static int
receive(int sock, struct ctl_req *req, int *fds)
{
	char anc[CMSG_SPACE(sizeof(int) * CTL_MAX_FDS)] __attribute__((aligned(8)));
	struct iovec iov = { req, sizeof(*req) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = anc, .msg_controllen = sizeof(anc) };
	struct cmsghdr *h;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != sizeof(*req))
		return -1;
	h = CMSG_FIRSTHDR(&m);
	fds[0] = fds[1] = -1;
	if (h)
		memcpy(fds, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
	return 0;
}

static void
reply(struct fake_daemon *d, int sock, struct ctl_rsp *rsp, const int *fds, uint32_t n)
{
	char anc[CMSG_SPACE(sizeof(int) * CTL_MAX_FDS)] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { rsp, d->fault == FAKE_SHORT_REPLY ? sizeof(*rsp) / 2 : sizeof(*rsp) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	rsp->magic = d->fault == FAKE_WRONG_MAGIC ? 1 : CTL_MAGIC;
	rsp->nb_fds = n;
	if (d->fault == FAKE_WRONG_COUNT) {
		static const int extra[2] = { 0, 0 };

		fds = extra;
		n = 2;
	}
	if (n) {
		struct cmsghdr *h;

		m.msg_control = anc;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(h), fds, n * sizeof(int));
	}
	if (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		return;
}

static void
on_open(struct fake_daemon *d, int sock, struct ctl_rsp *rsp)
{
	int fds[4] = { eventfd(0, EFD_CLOEXEC), memory(sizeof(struct ring_db) * 2), memory(1 << 20) };

	events(&d->async_fd, &fds[3]);
	d->sock = sock;
	rsp->device_open = (struct ctl_device_open_rsp){
		.nb_engines = 1, .num_comp_vectors = 2, .mem_bytes = 1 << 20, .db_stride = sizeof(struct ring_db), .nb_kicks = 1
	};
	reply(d, sock, rsp, fds, 4);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

static void
on_channel(struct fake_daemon *d, int sock, struct ctl_rsp *rsp)
{
	int fds[2];

	events(&d->comp_fd, &fds[0]);
	fds[1] = d->comp_fd;
	reply(d, sock, rsp, fds, 2);
	close(fds[0]);
}

static void
on_cm_open(struct fake_daemon *d, int sock, const struct ctl_req *req, struct ctl_rsp *rsp)
{
	int ours, theirs;

	events(&ours, &theirs);
	d->on_request(req, rsp, ours);
	reply(d, sock, rsp, &theirs, 1);
	close(theirs);
}

static void
on_cq(struct fake_daemon *d, int sock, const struct ctl_req *req, struct ctl_rsp *rsp)
{
	static uint32_t segment, handle;
	bool is_new = !d->one_segment || !d->cqes;
	uint8_t *p = (uint8_t *)d->cqes;
	int fd = -1;

	if (is_new) {
		fd = memory(SEGMENT_BYTES);
		p = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	d->cq_cookie = req->cq_create.cookie;
	d->cqes = (struct ring_cqe *)p;
	d->cq_shared = (struct ring_cq_shared *)(p + SHARED_OFFSET);
	rsp->cq_create = (struct ctl_cq_create_rsp){
		.seg = { .segment_bytes = is_new ? SEGMENT_BYTES : 0, .segment = segment },
		.handle = handle++,
		.order = CQ_ORDER,
		.ring = { .segment = segment, .length = sizeof(struct ring_cqe) << CQ_ORDER },
		.shared = { .segment = segment, .offset = SHARED_OFFSET, .length = sizeof(struct ring_cq_shared) },
	};
	segment += !d->one_segment;
	reply(d, sock, rsp, &fd, is_new);
	if (is_new)
		close(fd);
}

static void
answer(struct fake_daemon *d, int sock, const struct ctl_req *req, const int *fds)
{
	struct ctl_rsp rsp = { .op = req->op };

	switch (req->op) {
	case CTL_HELLO:
		rsp.status = d->fault == FAKE_OTHER_ABI ? EPROTO : 0;
		rsp.hello.abi_version = UROCE_ABI_VERSION + (d->fault == FAKE_OTHER_ABI ? 41 : 0);
		rsp.hello.nb_devices = 1;
		strcpy(rsp.hello.version, "99.9");
		break;
	case CTL_MEMORY:
		close(fds[0]);
		close(fds[1]);
		break;
	case CTL_DEVICE_GET:
		strcpy(rsp.device_get.name, "uroce7");
		strcpy(rsp.device_get.netdev, "lo");
		break;
	case CTL_DEVICE_OPEN:
		on_open(d, sock, &rsp);
		return;
	case CTL_CHANNEL_CREATE:
		on_channel(d, sock, &rsp);
		return;
	case CTL_CM_OPEN:
		on_cm_open(d, sock, req, &rsp);
		return;
	case CTL_CQ_CREATE:
		on_cq(d, sock, req, &rsp);
		return;
	case CTL_PD_ALLOC:
		if (d->fault == FAKE_SILENT_ERROR) {
			rsp.status = ENOSPC;
			strcpy(rsp.message, "no room; raise the roof");
		}
		break;
	case CTL_MW_ALLOC:
		rsp.mw_alloc.rkey = 0x4711;
		break;
	default:
		break;
	}
	if (d->on_request)
		d->on_request(req, &rsp, fds[0]);
	reply(d, sock, &rsp, NULL, 0);
}

struct fake_session {
	struct fake_daemon *d;
	int sock;
};

static void *
session_thread(void *arg)
{
	struct fake_session s = *(struct fake_session *)arg;
	int fds[CTL_MAX_FDS];
	struct ctl_req req;

	free(arg);
	while (!receive(s.sock, &req, fds)) {
		if (s.d->fault == FAKE_HANGS_UP) {
			break;
		}
		if (s.d->fault == FAKE_LATE)
			usleep(1000);
		answer(s.d, s.sock, &req, fds);
	}
	close(s.sock);
	return NULL;
}

static void *
listen_thread(void *arg)
{
	struct fake_daemon *d = arg;
	int sock;

	while ((sock = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct fake_session *s = malloc(sizeof(*s));
		pthread_t t;

		*s = (struct fake_session){ d, sock };
		if (pthread_create(&t, NULL, session_thread, s))
			abort();
		pthread_detach(t);
	}
	return NULL;
}

void
fake_daemon_start(struct fake_daemon *d, enum fake_fault fault)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	memset(d, 0, sizeof(*d));
	d->fault = fault;
	d->sock = d->async_fd = d->comp_fd = -1;
	snprintf(d->path, sizeof(d->path), "/tmp/uroce-fake-%d.sock", (int)getpid());
	strcpy(sa.sun_path, d->path);
	unlink(d->path);
	d->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (d->listen_fd < 0 || bind(d->listen_fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(d->listen_fd, 8))
		abort();
	setenv("UROCE_SOCKET", d->path, 1);
	if (pthread_create(&d->thread, NULL, listen_thread, d))
		abort();
}

void
fake_daemon_die(struct fake_daemon *d)
{
	shutdown(d->sock, SHUT_RDWR);
	close(d->async_fd);
}
