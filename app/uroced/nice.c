/* SPDX-License-Identifier: BSD-3-Clause */
/* --nice: the share of its CPUs that the daemon gets beside programs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nice.h"

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
