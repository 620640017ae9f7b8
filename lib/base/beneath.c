/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 256 };

static bool
mount_of(int fd, uint64_t *id, mode_t *mode)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID | STATX_TYPE, &st) != 0)
		return false;
	if (!(st.stx_mask & STATX_MNT_ID)) {
		errno = ENOSYS;
		return false;
	}
	*id = st.stx_mnt_id;
	*mode = st.stx_mode;
	return true;
}

static void
close_keeping_errno(int fd)
{
	int rc = errno;

	close(fd);
	errno = rc;
}

/** Open @p name in the directory @p up, which is closed. @param mount  The one that it must be in. @param mode  Of @p up, then of what was opened. */
static int
step_down(int up, const char *name, uint64_t mount, mode_t *mode)
{
	uint64_t here;
	int fd = -1;

	if (S_ISLNK(*mode))
		errno = ELOOP;
	else if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		errno = EINVAL;
	else
		fd = openat(up, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	close_keeping_errno(up);
	if (fd < 0)
		return -1;
	if (mount_of(fd, &here, mode)) {
		if (here == mount)
			return fd;
		errno = EXDEV;
	}
	close_keeping_errno(fd);
	return -1;
}

int
open_beneath(int dir, const char *path)
{
	char names[NAME_BYTES], *rest, *name;
	uint64_t mount;
	mode_t mode;
	int fd;

	if (strlen(path) >= sizeof(names)) {
		errno = EINVAL;
		return -1;
	}
	strcpy(names, path);
	if (!mount_of(dir, &mount, &mode) || (fd = fcntl(dir, F_DUPFD_CLOEXEC, 0)) < 0)
		return -1;
	for (name = strtok_r(names, "/", &rest); name != NULL && fd >= 0; name = strtok_r(NULL, "/", &rest))
		fd = step_down(fd, name, mount, &mode);
	return fd;
}
