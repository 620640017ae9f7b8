/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own_dirs.h"

enum { CLEANED_MAX = 4096 /* folders that are removed at once */ };

void
own_dir_remove(const char *path)
{
	const struct dirent *d;
	DIR *dir = opendir(path);

	if (dir == NULL)
		return;
	while ((d = readdir(dir)) != NULL)
		unlinkat(dirfd(dir), d->d_name, 0);
	closedir(dir);
	rmdir(path);
}

/* Has @p name the form PREFIX and PID, of a process that isn't there? */
static bool
is_of_the_dead(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);
	char *end;
	long pid;

	if (strncmp(name, prefix, n) != 0 || name[n] < '1' || name[n] > '9')
		return false;
	pid = strtol(name + n, &end, 10);
	return *end == '\0' && pid <= INT_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* EAL locks a part of its configuration as long as it runs. */
static bool
is_locked(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char config[PATH_MAX];
	bool locked;
	int fd;

	if ((size_t)snprintf(config, sizeof(config), "%s/config", path) >= sizeof(config))
		return true;
	fd = open(config, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno != ENOENT;
	locked = fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
	close(fd);
	return locked;
}

void
own_dirs_clean(const char *path, const char *prefix)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX], other[PATH_MAX];
	const struct dirent *d;
	DIR *dir;

	if (slash == NULL || (size_t)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path) >= sizeof(parent))
		return;
	dir = opendir(parent);
	if (dir == NULL)
		return;
	for (unsigned int n = 0; n < CLEANED_MAX && (d = readdir(dir)) != NULL;) {
		if (!is_of_the_dead(d->d_name, prefix) || (size_t)snprintf(other, sizeof(other), "%s/%s", parent, d->d_name) >= sizeof(other))
			continue;
		if (!is_locked(other)) {
			own_dir_remove(other);
			n++;
		}
	}
	closedir(dir);
}
