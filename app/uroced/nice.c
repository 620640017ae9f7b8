/* SPDX-License-Identifier: BSD-3-Clause */
/* --nice: the share of its CPUs that the daemon gets beside programs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_common.h>

#include "nice.h"

#define OWN_THREADS "/proc/self/task"

enum { NICE_FIRST = -20, NICE_LAST = 19 };

/** Linux may share a CPU first among sessions (setsid) and only then among their threads: sched(7), "The autogroup feature". */
static int
nice_autogroup(int nice)
{
	int fd, rc = 0;

	/* Otherwise it would be the share of the user's shell as well. */
	if (getsid(0) != getpid())
		return 0;
	fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : errno;
	if (dprintf(fd, "%d", nice) < 0)
		rc = errno;
	close(fd);
	return rc;
}

int
nice_process(int nice)
{
	/* Threads that are made later inherit it. */
	if (setpriority(PRIO_PROCESS, 0, nice) != 0)
		return errno;
	return nice_autogroup(nice);
}

/** @return the nice value of this session, or 0. */
static int
autogroup_nice(void)
{
	FILE *f = fopen("/proc/self/autogroup", "re");
	int nice = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%*s nice %d", &nice) != 1)
		nice = 0;
	fclose(f);
	return nice;
}

/** @param tasks  /proc/PID/task */
static void
nice_threads(const char *tasks, int nice)
{
	DIR *dir = opendir(tasks);
	const struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (d->d_name[0] != '.')
			setpriority(PRIO_PROCESS, (id_t)atoi(d->d_name), nice);
	if (dir != NULL)
		closedir(dir);
}

/** Of all threads: they wait for each other. */
static void
nice_all(int nice, int group)
{
	nice_threads(OWN_THREADS, nice);
	(void)nice_autogroup(group);
}

static struct {
	int nice, group;
} before;

void
nice_hurry(void)
{
	before.nice = getpriority(PRIO_PROCESS, 0);
	before.group = autogroup_nice();
	nice_all(NICE_FIRST, NICE_FIRST);
}

void
nice_calm_session(void)
{
	(void)nice_autogroup(before.group);
}

void
nice_calm(void)
{
	nice_threads(OWN_THREADS, before.nice);
}

void
nice_ending(int pid)
{
	char tasks[64];

	snprintf(tasks, sizeof(tasks), "/proc/%d/task", pid);
	nice_threads(tasks, RTE_MAX(getpriority(PRIO_PROCESS, (id_t)pid), 0));
}

void
nice_last(void)
{
	nice_all(NICE_LAST, NICE_LAST);
}
