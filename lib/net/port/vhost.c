/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The socket of net_vhost, by which a virtual machine and the PMD meet. Either of the two makes it: the PMD by default, the virtual machine with devarg
 * client=1. The PMD says nothing of what is wrong with it, and cuts off a path that is too long.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_log.h>

#include "base/socket_path.h"
#include "net/port/pmd_priv.h"

static const char *const names[] = { "net_vhost", "eth_vhost" };

bool
vhost_has_name(const char *vdev)
{
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(vdev, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

void
vhost_log_less(void)
{
	int type = rte_log_register("lib.vhost.config");

	/* A hundred lines for each start of a virtual machine; whoever wants them gives EAL --log-level=lib.vhost.config:debug. */
	if (type >= 0 && rte_log_get_level((uint32_t)type) == (int)RTE_LOG_INFO)
		rte_log_set_level((uint32_t)type, RTE_LOG_NOTICE);
}

/** See to it that the PMD can make its socket. */
static int
check_place(const char *path, char *err, size_t err_bytes)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int rc = socket_path_folder(path, folder, sizeof(folder));

	if (rc == ENOENT)
		snprintf(err, err_bytes, "devarg iface=%s: there is no folder %s; make it (mkdir -p %s), or name another one", path, folder, folder);
	else if (rc != 0)
		snprintf(err, err_bytes,
			 "devarg iface=%s: user %u can't make a socket in %s; give that user the folder, name another one, or have the virtual machine "
			 "make the socket (client=1)",
			 path, (unsigned int)geteuid(), folder);
	return rc == 0 ? 0 : EINVAL;
}

/** See to it that nothing is in the socket's place. */
static int
clear_place(const char *path, char *err, size_t err_bytes)
{
	int rc;

	/* Of another type than the PMD's, so that whoever listens doesn't take us for a virtual machine. */
	switch (socket_path_clear(path, SOCK_SEQPACKET, &rc)) {
	case SOCKET_PATH_FREE:
		return 0;
	case SOCKET_PATH_USED:
	case SOCKET_PATH_OTHER:
		snprintf(err, err_bytes,
			 "devarg iface=%s: another program listens there; name another socket, or add client=1 if it is the virtual machine's", path);
		return EINVAL;
	case SOCKET_PATH_NO_SOCKET:
		snprintf(err, err_bytes, "devarg iface=%s: something that is no socket is there; remove it, or name another path", path);
		return EINVAL;
	case SOCKET_PATH_STALE:
		snprintf(err, err_bytes, "devarg iface=%s: a socket at which nobody listens is there, and user %u can't remove it (%s); remove it", path,
			 (unsigned int)geteuid(), strerror(rc));
		return EINVAL;
	default: /* SOCKET_PATH_UNKNOWN */
		snprintf(err, err_bytes, "devarg iface=%s: it can't be told whether it is in use: %s; remove it, or name another path", path, strerror(rc));
		return EINVAL;
	}
}

int
vhost_check_socket(const char *path, bool client, char *err, size_t err_bytes)
{
	const size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (path == NULL || path[0] == '\0') {
		snprintf(err, err_bytes, "devarg iface is missing; it names the socket at which the virtual machine is met: iface=/run/uroce/vm1.sock");
		return EINVAL;
	}
	if (strlen(path) > most) {
		snprintf(err, err_bytes, "devarg iface=%s is longer than %zu characters, the most that the path of a socket can have", path, most);
		return EINVAL;
	}
	if (client)
		return 0; /* it may be made later */
	if (check_place(path, err, err_bytes) != 0)
		return EINVAL;
	return clear_place(path, err, err_bytes);
}
