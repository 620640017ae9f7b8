/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/socket_path.h"

/** @return 0: somebody accepts; or an errno value. */
static int
try_connect(const char *path, int type)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd, rc;

	if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path) >= sizeof(sa.sun_path))
		return ENAMETOOLONG;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	rc = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 ? 0 : errno;
	close(fd);
	return rc;
}

enum socket_path
socket_path_clear(const char *path, int type, int *err)
{
	struct stat st;

	*err = 0;
	if (lstat(path, &st) != 0) {
		*err = errno;
		return errno == ENOENT ? SOCKET_PATH_FREE : SOCKET_PATH_UNKNOWN;
	}
	if (!S_ISSOCK(st.st_mode))
		return SOCKET_PATH_NO_SOCKET;
	*err = try_connect(path, type);
	if (*err == 0 || *err == EAGAIN)
		return SOCKET_PATH_USED;
	if (*err == EPROTOTYPE)
		return SOCKET_PATH_OTHER;
	if (*err != ECONNREFUSED)
		return SOCKET_PATH_UNKNOWN;
	if (unlink(path) == 0 || errno == ENOENT)
		return SOCKET_PATH_FREE;
	*err = errno;
	return SOCKET_PATH_STALE;
}

int
socket_path_folder(const char *path, char *folder, size_t bytes)
{
	const char *slash = strrchr(path, '/');
	int n = slash == NULL || slash == path ? 1 : (int)(slash - path);
	struct stat st;

	if ((size_t)snprintf(folder, bytes, "%.*s", n, slash == NULL ? "." : path) >= bytes)
		return ENAMETOOLONG;
	if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
		return ENOENT;
	return access(folder, W_OK | X_OK) == 0 ? 0 : EACCES;
}
