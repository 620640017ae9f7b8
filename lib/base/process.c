/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

enum { THREAD_EXITING = 0x4 }; /* linux/sched.h, PF_EXITING */

int
process_number(int pidfd)
{
	char path[64], line[128];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	f = fopen(path, "re");
	while (f != NULL && pid == 0 && fgets(line, sizeof(line), f) != NULL)
		sscanf(line, "Pid: %d", &pid);
	if (f != NULL)
		fclose(f);
	return pid > 0 ? pid : 0;
}

/** @param tasks  /proc/PID/task. @return whether thread @p id is in do_exit() or has left it (proc(5), /proc/pid/stat). */
static bool
thread_ends(int tasks, const char *id)
{
	char path[64], text[512], *name_end, state;
	unsigned int flags;
	ssize_t n;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/stat", id) >= sizeof(path))
		return false;
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		n = errno == ESRCH ? 0 : -1;
	close(fd);
	if (n <= 0)
		return n == 0;
	text[n] = '\0';
	/* The name may have any characters. */
	name_end = strrchr(text, ')');
	if (name_end == NULL || sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return false;
	return state == 'Z' || state == 'X' || (flags & THREAD_EXITING) != 0;
}

static bool
all_threads_end(int pid)
{
	const struct dirent *d;
	bool ends = true;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (dir == NULL)
		return false;
	while (ends && (d = readdir(dir)) != NULL)
		if (d->d_name[0] != '.')
			ends = thread_ends(dirfd(dir), d->d_name);
	closedir(dir);
	return ends;
}

enum process_state
process_state(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int pid = process_number(pidfd);
	bool ends = pid != 0 && all_threads_end(pid);

	/* Only now: the number may have been another process's while we looked, if this one is gone. */
	if (poll(&p, 1, 0) == 1)
		return PROCESS_GONE;
	return ends ? PROCESS_ENDS : PROCESS_RUNS;
}
