/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to DPDK's telemetry of this process. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal.h>

#include "control/observe/telemetry_socket_priv.h"

enum {
	GREETING_BYTES = 1024,
	GREETING_MS = 2000,
	NAMES = 10, /**< with --in-memory several processes share a folder: the second has dpdk_telemetry.v2:1 and so on */
};

/** @return true if the greeting on @p fd is that of this process. */
static bool
is_own(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char text[GREETING_BYTES];
	const char *pid;
	ssize_t n;

	if (poll(&p, 1, GREETING_MS) != 1)
		return false;
	n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
	if (n <= 0)
		return false;
	text[n] = '\0';
	pid = strstr(text, "\"pid\":");
	return pid != NULL && strtol(pid + strlen("\"pid\":"), NULL, 10) == (long)getpid();
}

/** @return a connection to @p path, or -1. */
static int
connect_to(const struct sockaddr_un *sa)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 && is_own(fd))
		return fd;
	close(fd);
	return -1;
}

bool
tel_upstream_open(struct tel_upstream *u)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char suffix[4] = "";

	*u = (struct tel_upstream){ .fd = -1 };
	for (unsigned int i = 0; i < NAMES && u->fd < 0; i++) {
		if (i > 0)
			snprintf(suffix, sizeof(suffix), ":%u", i);
		if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/dpdk_telemetry.v2%s", rte_eal_get_runtime_dir(), suffix) >=
		    sizeof(sa.sun_path))
			return false;
		u->fd = connect_to(&sa);
	}
	return u->fd >= 0;
}

void
tel_upstream_close(struct tel_upstream *u)
{
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

bool
tel_upstream_ask(struct tel_upstream *u, const char *command)
{
	size_t n = strlen(command);

	return u->fd >= 0 && u->stale == 0 && send(u->fd, command, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

ssize_t
tel_upstream_take(struct tel_upstream *u, char *buf, size_t bytes)
{
	ssize_t n = recv(u->fd, buf, bytes - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		tel_upstream_close(u);
		return -1;
	}
	buf[n] = '\0';
	if (u->stale == 0)
		return n;
	u->stale--;
	return 0;
}
