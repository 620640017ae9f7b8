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
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_dirs.h"

enum { CLEANED_MAX = 4096 /* folders that are removed at once */ };

/* Open a folder of @p parent, which must not be a link to another place. @return NULL: there is none. */
static DIR *
open_dir(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir == NULL && fd >= 0)
		close(fd);
	return dir;
}

/* Remove the files of @p dir, and it. */
static void
empty_and_remove(int parent, const char *name, DIR *dir)
{
	const struct dirent *d;

	while ((d = readdir(dir)) != NULL)
		unlinkat(dirfd(dir), d->d_name, 0);
	unlinkat(parent, name, AT_REMOVEDIR);
}

void
own_dir_remove(const char *path)
{
	DIR *dir = open_dir(AT_FDCWD, path);

	if (dir == NULL)
		return;
	empty_and_remove(AT_FDCWD, path, dir);
	closedir(dir);
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
is_locked(DIR *dir)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	bool locked;
	int fd;

	fd = openat(dirfd(dir), "config", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno != ENOENT;
	locked = fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
	close(fd);
	return locked;
}

/* Where others can make folders, as perhaps in /tmp, nothing is removed. */
static bool
is_ours_alone(DIR *dir)
{
	struct stat st;

	return fstat(dirfd(dir), &st) == 0 && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void
own_dirs_clean(const char *path, const char *prefix)
{
	const char *slash = strrchr(path, '/');
	const struct dirent *d;
	char parent[PATH_MAX];
	DIR *dir, *other;

	if (slash == NULL || (size_t)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path) >= sizeof(parent))
		return;
	dir = open_dir(AT_FDCWD, parent);
	if (dir == NULL)
		return;
	for (unsigned int n = 0; is_ours_alone(dir) && n < CLEANED_MAX && (d = readdir(dir)) != NULL;) {
		if (!is_of_the_dead(d->d_name, prefix) || (other = open_dir(dirfd(dir), d->d_name)) == NULL)
			continue;
		if (!is_locked(other)) {
			empty_and_remove(dirfd(dir), d->d_name, other);
			n++;
		}
		closedir(other);
	}
	closedir(dir);
}
