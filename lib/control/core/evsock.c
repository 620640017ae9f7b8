/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/evsock_priv.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

int
evsock_pair(int *ours, int *theirs)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return errno;
	if (shutdown(fds[0], SHUT_RD) != 0) {
		int rc = errno;

		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	*ours = fds[0];
	*theirs = fds[1];
	evsock_make_room(*ours, EVSOCK_RECORDS);
	return 0;
}

void
evsock_make_room(int ours, uint32_t records)
{
	int bytes = (int)(records * EVSOCK_RECORD_BYTES);

	/* The kernel doubles the number. */
	if (setsockopt(ours, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

bool
evsock_send(int ours, const void *record, size_t bytes)
{
	return send(ours, record, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

int
evsock_unread(int ours)
{
	int bytes;

	return ioctl(ours, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}
