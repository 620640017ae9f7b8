/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "keeper_talk.h"

enum { SEND_MS = 1000, SEND_BYTES = 4 << 20 };

union control_space {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(KEEPER_BATCH * sizeof(int))];
};

int
keeper_say(int sock, const struct keeper_req *q, int fd)
{
	union control_space space = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)q, .iov_len = sizeof(*q) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd p = { .fd = sock, .events = POLLOUT };
	struct cmsghdr *h;

	if (fd >= 0) {
		msg.msg_control = space.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int));
		h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(int));
	}
	for (unsigned int tries = 0; sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0; tries++) {
		/* ETOOMANYREFS: an ordinary user has only so many descriptors on their way. The keeper waits for nobody, so this takes no time. */
		if (errno == ETOOMANYREFS && tries < SEND_MS)
			usleep(1000);
		else if (errno != EINTR && (errno != EAGAIN || poll(&p, 1, SEND_MS) <= 0))
			return errno;
	}
	return 0;
}

ssize_t
keeper_hear(int sock, void *data, size_t bytes, int *fds, uint32_t *nb)
{
	union control_space space;
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof(space.bytes) };
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;
	int rc;

	*nb = 0;
	do
		rc = poll(&p, 1, KEEPER_ANSWER_MS);
	while (rc < 0 && errno == EINTR);
	if (rc == 0)
		errno = ETIMEDOUT;
	n = rc <= 0 ? -1 : recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	for (struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL; h != NULL; h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		*nb = (uint32_t)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(h), *nb * sizeof(int));
	}
	return n;
}

int
keeper_connect(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const int bytes = SEND_BYTES;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path) >= sizeof(sa.sun_path))
		errno = ENAMETOOLONG;
	else if (sock >= 0 && connect(sock, (struct sockaddr *)&sa, sizeof(sa)) == 0) {
		setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
		return sock;
	}
	if (sock >= 0)
		close(sock);
	return -1;
}
