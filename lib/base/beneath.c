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

/** Close @p fd, but keep errno. @return -1 */
static int
fail(int fd)
{
	int rc = errno;

	close(fd);
	errno = rc;
	return -1;
}

int
open_beneath(int dir, const char *path)
{
	char names[NAME_BYTES], *rest, *name;
	uint64_t mount, here;
	mode_t mode;
	int fd;

	if (strlen(path) >= sizeof(names)) {
		errno = EINVAL;
		return -1;
	}
	strcpy(names, path);
	if (!mount_of(dir, &mount, &mode) || (fd = fcntl(dir, F_DUPFD_CLOEXEC, 0)) < 0)
		return -1;
	for (name = strtok_r(names, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
		int up = fd;

		if (S_ISLNK(mode) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			errno = S_ISLNK(mode) ? ELOOP : EINVAL;
			return fail(up);
		}
		fd = openat(up, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		fail(up);
		if (fd < 0)
			return -1;
		if (!mount_of(fd, &here, &mode))
			return fail(fd);
		if (here != mount) {
			errno = EXDEV;
			return fail(fd);
		}
	}
	return fd;
}
