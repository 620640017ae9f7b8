/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

enum { IPV4_ICMP = 28, IPV6_ICMP = 48, ROCE_MTU_MAX = 4096, ROCE_MTU_MIN = 256 };

int
roce_mtu(int bytes)
{
	int n = ROCE_MTU_MAX;

	while (n > ROCE_MTU_MIN && n + ROCE_HEADERS > bytes)
		n /= 2;
	return n;
}

enum path
path_carries(const char *peer, const char *interface, int bytes)
{
	posix_spawn_file_actions_t quiet;
	char size[16];
	char *args[] = { (char[]){ "ping" }, (char[]){ "-c1" }, (char[]){ "-W1" }, (char[]){ "-Mdo" }, (char[]){ "-s" }, size,
			 (char *)(uintptr_t)peer, interface != NULL ? (char[]){ "-I" } : NULL, (char *)(uintptr_t)interface, NULL };
	int status = -1, rc;
	pid_t pid;

	snprintf(size, sizeof(size), "%d", bytes - (strchr(peer, ':') != NULL ? IPV6_ICMP : IPV4_ICMP));
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(&pid, "ping", &quiet, NULL, args, environ);
	posix_spawn_file_actions_destroy(&quiet);
	if (rc != 0)
		return PATH_UNKNOWN;
	waitpid(pid, &status, 0);
	return status == 0 ? PATH_YES : PATH_NO;
}
