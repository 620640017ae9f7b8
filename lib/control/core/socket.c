/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket: bound under a temporary name, renamed when the daemon is ready. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/socket_path.h"
#include "control/core/control_priv.h"

enum { BACKLOG = 128 };

static void
temporary_name(const char *path, struct sockaddr_un *sa)
{
	sa->sun_family = AF_UNIX;
	snprintf(sa->sun_path, sizeof(sa->sun_path), "%.*s.%d", CONFIG_SOCKET_BYTES, path, (int)getpid());
}

/** @param fmt  Its only argument is strerror() of @p rc. @return @p rc. */
static int
fail(char *err, int rc, const char *fmt, const char *path)
{
	size_t n = snprintf(err, CONFIG_ERR_BYTES, "socket %s: ", path);

	snprintf(err + n, CONFIG_ERR_BYTES - n, fmt, strerror(rc));
	return rc;
}

/** Make sure that nobody listens at @p path, and remove a socket left there by a daemon that died. */
static int
clear_stale(const char *path, char *err)
{
	int rc;

	switch (socket_path_clear(path, SOCK_SEQPACKET, &rc)) {
	case SOCKET_PATH_FREE:
		return 0;
	case SOCKET_PATH_USED:
		return fail(err, EADDRINUSE,
			    "already in use by a running uroced; stop it or give another path by --socket", path);
	case SOCKET_PATH_OTHER:
		return fail(err, EADDRINUSE, "already in use by another program; give another path by --socket", path);
	case SOCKET_PATH_NO_SOCKET:
		return fail(err, EEXIST,
			    "something that is no socket is there; remove it or give another path by --socket", path);
	case SOCKET_PATH_STALE:
		return fail(err, rc, "a stale socket is there and cannot be removed: %s", path);
	default: /* SOCKET_PATH_UNKNOWN */
		return fail(err, rc, "cannot tell whether it is in use: %s; give another path by --socket", path);
	}
}

/** @return 0 if the socket can be created in the directory of @p path. */
static int
check_folder(const char *path, char *err)
{
	char folder[CONFIG_SOCKET_BYTES];
	int rc = socket_path_folder(path, folder, sizeof(folder));

	if (rc == ENOENT)
		return config_fail(err, rc,
				   "socket %s: folder %s does not exist; make it (mkdir -p %s) or give another path by --socket",
				   path, folder, folder);
	if (rc == EACCES)
		return config_fail(err, rc,
				   "socket %s: folder %s is not writable for this user; give a path by --socket that is", path,
				   folder);
	return rc;
}

/** Give the socket to the default group, if there is one and we may; say what holds otherwise. @param path,name  Temporary and real. */
static void
set_default_group(const char *path, const char *name, uint32_t mode)
{
	const struct group *g = getgrnam(CONFIG_DEFAULT_GROUP);
	const char *why = g == NULL ? "there is no group " CONFIG_DEFAULT_GROUP : NULL;
	struct stat st;

	if (g != NULL && chown(path, (uid_t)-1, g->gr_gid) != 0)
		why = "this user may not give it to group " CONFIG_DEFAULT_GROUP;
	/* The group doesn't matter if all may connect, or only the owner. */
	if (why == NULL || (mode & S_IWOTH) != 0 || (mode & S_IWGRP) == 0 || stat(path, &st) != 0)
		return;
	CTL_LOG(WARNING, "socket %s: %s: only user %u and group %u can connect; make the group (groupadd --system " CONFIG_DEFAULT_GROUP
		"), or set daemon.socket_group or daemon.socket_mode", name, why, (unsigned int)st.st_uid, (unsigned int)st.st_gid);
}

static int
set_owner(const char *path, const char *name, uint32_t mode, const char *group, char *err)
{
	struct group *g;
	char *end;
	gid_t gid;

	if (group[0] == '\0')
		set_default_group(path, name, mode);
	if (group[0] != '\0') {
		g = getgrnam(group);
		gid = g != NULL ? g->gr_gid : (gid_t)strtoul(group, &end, 10);
		if (g == NULL && *end != '\0')
			return config_fail(err, EINVAL, "daemon.socket_group = %s: no such group; see getent group", group);
		if (chown(path, (uid_t)-1, gid) != 0)
			return config_fail(err, errno, "daemon.socket_group = %s: cannot give it the socket: %s", group,
					   strerror(errno));
	}
	return chmod(path, mode) == 0 ? 0 : fail(err, errno, "cannot set its mode: %s", path);
}

int
control_socket_bind(const char *path, uint32_t mode, const char *group, int *fd, char *err)
{
	struct sockaddr_un sa;
	int rc = check_folder(path, err);

	if (rc == 0)
		rc = clear_stale(path, err);
	if (rc != 0)
		return rc;
	temporary_name(path, &sa);
	unlink(sa.sun_path);
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return fail(err, errno, "%s", path);
	if (bind(*fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
		rc = fail(err, errno, "cannot be bound: %s", path);
		close(*fd);
		return rc;
	}
	rc = set_owner(sa.sun_path, path, mode, group, err);
	if (rc == 0 && listen(*fd, BACKLOG) != 0)
		rc = fail(err, errno, "%s", path);
	if (rc != 0) {
		close(*fd);
		unlink(sa.sun_path);
	}
	return rc;
}

int
control_socket_publish(const char *path, char *err)
{
	struct sockaddr_un sa;
	int rc;

	temporary_name(path, &sa);
	/* Another daemon may have taken the name meanwhile: keep its socket. */
	if (renameat2(AT_FDCWD, sa.sun_path, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != EEXIST)
		return fail(err, errno, "cannot be renamed: %s", path);
	rc = clear_stale(path, err);
	if (rc == 0 && rename(sa.sun_path, path) != 0)
		rc = fail(err, errno, "cannot be renamed: %s", path);
	return rc;
}

void
control_socket_remove(const char *path)
{
	struct sockaddr_un sa;

	/* While the temporary name exists, a socket with the real name is another daemon's. */
	temporary_name(path, &sa);
	if (unlink(sa.sun_path) != 0)
		unlink(path);
}
