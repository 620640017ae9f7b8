/* SPDX-License-Identifier: BSD-3-Clause */
/* sd_notify(3) is one datagram, so that libsystemd is not needed. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"

enum {
	TIMES_PER_DEADLINE = 3,
	ALIVE_MS_MAX = 60000,
};

static void
tell(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n = path != NULL ? strlen(path) : 0;
	int fd;

	if (n < 2 || n >= sizeof(sa.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sa.sun_path, path, n);
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = '\0'; /* an abstract socket */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	close(fd);
}

void
notify_ready(void)
{
	tell("READY=1");
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
