/* SPDX-License-Identifier: BSD-3-Clause */
/* sd_notify(3) is one datagram, and sd_listen_fds(3) three variables, so that libsystemd is not needed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/notify.h"

enum {
	TIMES_PER_DEADLINE = 3,
	ALIVE_MS_MAX = 60000,
	BARRIER_MS = 5000,
	LISTEN_FDS_START = 3, /* SD_LISTEN_FDS_START */
};

/** @return a socket connected to the service manager, or -1: there is none, or it doesn't listen. */
static int
connect_manager(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n = path != NULL ? strlen(path) : 0;
	int fd;

	if (n < 2 || n >= sizeof(sa.sun_path) || (path[0] != '/' && path[0] != '@'))
		return -1;
	memcpy(sa.sun_path, path, n);
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = '\0'; /* an abstract socket */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/** @param passed  A descriptor that goes with it, or -1. @return whether it was sent */
static bool
tell_with(const char *text, int passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} space = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd = connect_manager();
	struct cmsghdr *h;
	bool sent;

	if (fd < 0)
		return false;
	if (passed >= 0) {
		msg.msg_control = space.bytes;
		msg.msg_controllen = sizeof(space.bytes);
		h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &passed, sizeof(int));
	}
	sent = sendmsg(fd, &msg, MSG_NOSIGNAL) >= 0;
	close(fd);
	return sent;
}

static void
tell(const char *text)
{
	tell_with(text, -1);
}

bool
notify_is_heard(void)
{
	int fd = connect_manager();

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/** Wait until the service manager has dealt with what it was told (sd_notify_barrier(3)): it closes the descriptor then. */
static int
wait_dealt_with(void)
{
	struct pollfd p = { 0 };
	int ends[2], rc = ETIMEDOUT;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return errno;
	if (!tell_with("BARRIER=1", ends[1]))
		rc = ENOTCONN;
	close(ends[1]);
	p.fd = ends[0];
	if (rc == ETIMEDOUT && poll(&p, 1, BARRIER_MS) == 1 && (p.revents & POLLHUP) != 0)
		rc = 0;
	close(ends[0]);
	return rc;
}

int
notify_store(int fd, const char *name)
{
	char text[64];

	/* FDPOLL=0 (systemd 246): a socket whose other end is closed would not be kept, whatever is in its queue. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return tell_with(text, fd) ? wait_dealt_with() : ENOTCONN;
}

int
notify_stored(const char *name)
{
	const char *n = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID"), *names = getenv("LISTEN_FDNAMES");
	int fd = -1;

	if (n == NULL || names == NULL || pid == NULL || strtol(pid, NULL, 10) != getpid())
		return -1;
	for (int i = 0; i < (int)strtol(n, NULL, 10) && *names != '\0'; i++) {
		size_t length = strcspn(names, ":");

		if (fcntl(LISTEN_FDS_START + i, F_SETFD, FD_CLOEXEC) == 0 && length == strlen(name) && strncmp(names, name, length) == 0)
			fd = LISTEN_FDS_START + i;
		names += length + (names[length] == ':');
	}
	return fd;
}

void
notify_forget(const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	tell(text);
}

void
notify_ready(void)
{
	tell("READY=1");
}

void
notify_stopping(void)
{
	tell("STOPPING=1");
}

void
notify_successor(pid_t pid)
{
	char text[32];

	snprintf(text, sizeof(text), "MAINPID=%d", (int)pid);
	tell(text);
}

void
notify_alive(void)
{
	tell("WATCHDOG=1");
}

uint32_t
notify_alive_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long ms = usec != NULL ? strtoull(usec, NULL, 10) / 1000 / TIMES_PER_DEADLINE : 0;

	if (usec == NULL || (pid != NULL && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return ms < 1 ? 1 : ms > ALIVE_MS_MAX ? ALIVE_MS_MAX : (uint32_t)ms;
}
