/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * procmem: pass off another file of procfs, whose writing has effects with the writer's rights, as the memory of a process.
 */
#include "raw.h"
#include "stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static void
must_be_refused(const char *what, const char *path, int proc)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), sock = raw_connect();

	if (fd < 0)
		attack_skip(path);
	if (raw_hello(sock, fd, proc) != EINVAL) {
		printf("%s was accepted\n", what);
		exit(1);
	}
	close(fd);
	close(sock);
}

int
main(void)
{
	int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), dir;
	char folder[] = "/tmp/uroce-mem-XXXXXX", path[64];

	if (mkdtemp(folder) == NULL)
		attack_die(folder);
	enter_namespaces();
	if (mount("none", folder, "tmpfs", 0, NULL) != 0)
		attack_skip("tmpfs");
	snprintf(path, sizeof(path), "%s/1", folder);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/1/mem", folder);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	if (mount("/proc/sys/kernel/ns_last_pid", path, NULL, MS_BIND, NULL) != 0)
		attack_skip("ns_last_pid");
	dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must_be_refused("a bind mount", path, -1);
	must_be_refused("a bind mount beside the real /proc", path, proc);
	must_be_refused("a bind mount below a folder", path, dir);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)getpid());
	if (mount("/proc/sys/kernel/ns_last_pid", path, NULL, MS_BIND, NULL) != 0)
		attack_skip(path);
	must_be_refused("a bind mount over the real file", path, proc);
	attack_begun();
	pause();
}
