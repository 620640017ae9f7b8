/* SPDX-License-Identifier: BSD-3-Clause */
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stuck.h"

enum { MAX_FDS = 253 };

int
raw_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = getenv("UROCE_SOCKET");
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path != NULL ? path : CTL_DEFAULT_SOCKET);
	if (sock < 0 || connect(sock, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		attack_die(sa.sun_path);
	return sock;
}

static int
send_message(int sock, struct msghdr *msg, const int *fds, unsigned int nb_fds, int flags)
{
	char space[CMSG_SPACE(MAX_FDS * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct cmsghdr *h;

	if (nb_fds > 0) {
		msg->msg_control = space;
		msg->msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		h = CMSG_FIRSTHDR(msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(h), fds, nb_fds * sizeof(int));
	}
	return sendmsg(sock, msg, MSG_NOSIGNAL | flags) < 0 ? errno : 0;
}

int
raw_send(int sock, const struct ctl_req *q, const void *more, size_t bytes, const int *fds, unsigned int nb_fds)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)q, sizeof(*q) }, { (void *)(uintptr_t)more, bytes } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = bytes > 0 ? 2 : 1 };

	return send_message(sock, &msg, fds, nb_fds, 0);
}

int
raw_send_bytes(int sock, const void *bytes, size_t n, const int *fds, unsigned int nb_fds)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return send_message(sock, &msg, fds, nb_fds, MSG_DONTWAIT);
}

int
raw_receive(int sock, struct ctl_rsp *r, int *fds, unsigned int max)
{
	char space[CMSG_SPACE(MAX_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { r, sizeof(*r) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *h;
	int got[MAX_FDS];

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*r))
		return EIO;
	h = CMSG_FIRSTHDR(&msg);
	if (h != NULL && h->cmsg_type == SCM_RIGHTS) {
		unsigned int n = (unsigned int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		memcpy(got, CMSG_DATA(h), n * sizeof(int));
		for (unsigned int i = 0; i < n; i++) {
			if (i < max)
				fds[i] = got[i];
			else
				close(got[i]);
		}
	}
	return r->status;
}

int
raw_call(int sock, const struct ctl_req *q, const int *fds, unsigned int nb_fds, struct ctl_rsp *r)
{
	int rc = raw_send(sock, q, NULL, 0, fds, nb_fds);

	return rc != 0 ? rc : raw_receive(sock, r, NULL, 0);
}

int
raw_hello(int sock, int mem, int proc)
{
	struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_HELLO,
			     .hello = { .abi_version = UROCE_ABI_VERSION, .pid = (uint32_t)getpid(), .program = "hostile" } };
	int fds[2] = { mem, proc }, rc;
	struct ctl_rsp r;

	rc = raw_call(sock, &q, NULL, 0, &r);
	if (rc != 0 || mem < 0)
		return rc;
	q = (struct ctl_req){ .magic = CTL_MAGIC, .op = CTL_MEMORY, .memory = { .pid = (uint32_t)getpid() } };
	return raw_call(sock, &q, fds, proc < 0 ? 1 : 2, &r);
}

int
raw_try_open(struct ctl_rsp *r)
{
	struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_DEVICE_OPEN };
	int sock = raw_connect(), mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), proc = open("/proc", O_PATH | O_CLOEXEC);

	if (raw_hello(sock, mem, proc) != 0 || raw_call(sock, &q, NULL, 0, r) != 0) {
		close(sock);
		sock = -1;
	}
	close(mem);
	close(proc);
	return sock;
}

int
raw_open(struct ctl_rsp *r)
{
	int sock = raw_try_open(r);

	if (sock < 0)
		attack_die("no session");
	return sock;
}
