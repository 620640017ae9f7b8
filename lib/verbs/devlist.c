/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the daemon and listing its devices. */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <unistd.h>

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct client_device devices[UROCE_MAX_PORTS];

/* In a forked child, the lock may be held by a thread of the parent, which doesn't exist here. */
static void
fork_child(void)
{
	pthread_mutex_init(&devices_lock, NULL);
}

static void
register_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

/* @return the entry with this name and socket, or a free one. */
static struct client_device *
device_slot(const char *name, const char *path)
{
	struct client_device *unused = NULL;

	for (int i = 0; i < UROCE_MAX_PORTS; i++) {
		struct client_device *d = &devices[i];

		if (d->used && !strcmp(d->dev.name, name) && !strcmp(d->socket_path, path))
			return d;
		if (!d->used && !unused)
			unused = d;
	}
	return unused;
}

static struct client_device *
device_enter(const struct ctl_device_get_rsp *r, uint32_t index, const char *path)
{
	struct client_device *d = device_slot(r->name, path);

	if (!d)
		return NULL;
	d->index = index;
	d->guid = r->node_guid;
	if (d->used)
		return d;
	client_device_fill(d, r->name, r->netdev);
	strlcpy(d->socket_path, path, sizeof(d->socket_path));
	d->used = true;
	return d;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

CLIENT_EXPORT struct ibv_device **
ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list;
	const char *path = client_socket_path();
	uint32_t nb = 0, n = 0;
	int sock;

	pthread_once(&once, register_fork);
	if (num_devices)
		*num_devices = 0;
	list = calloc(UROCE_MAX_PORTS + 1, sizeof(*list));
	if (!list)
		return client_null(ENOMEM);
	if (client_connect(path, &sock, &nb)) {
		errno = 0;
		return list;
	}
	pthread_mutex_lock(&devices_lock);
	for (uint32_t i = 0; i < nb && n < UROCE_MAX_PORTS; i++) {
		struct ctl_device_get_rsp r;
		struct client_device *d;

		int err = client_device_get(sock, i, &r);

		/* Its device is not there at present; it is no device as long as that is so. */
		if (err == ENODEV)
			continue;
		if (err)
			break;
		d = device_enter(&r, i, path);
		if (d)
			list[n++] = &d->dev;
	}
	pthread_mutex_unlock(&devices_lock);
	close(sock);
	if (num_devices)
		*num_devices = n;
	return list;
}

CLIENT_EXPORT struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	struct client_device *d = (struct client_device *)device;
	struct ctl_device_get_rsp r;
	uint32_t nb;
	int sock, err;

	err = client_connect(d->socket_path, &sock, &nb);
	if (!err) {
		/* The daemon may have been restarted since the list was made. */
		err = client_device_get(sock, d->index, &r);
		if (!err && strcmp(r.name, d->dev.name))
			err = ENODEV;
		if (!err)
			return client_open_session(d, sock, NULL);
		close(sock);
	}
	return client_null(err);
}

/* Show the daemon another session's socket. @return 0 or an errno value. */
static int
show_socket(int sock, int cmd_fd, uint32_t *index)
{
	struct client_call c;
	bool broken = false;
	int err;

	client_call_init(&c, CTL_DEVICE_IMPORT);
	c.fds[0] = cmd_fd;
	c.nb_fds = 1;
	err = client_exchange(sock, &c, &broken);
	client_call_close_fds(&c, 0);
	*index = c.rsp.handle.handle;
	return err;
}

/* A session of our own, which may share objects with the one of @cmd_fd. The descriptor is the context's from now on, and keeps that one alive. */
CLIENT_EXPORT struct ibv_context *
ibv_import_device(int cmd_fd)
{
	const char *path = client_socket_path();
	struct client_device *d = NULL;
	struct ctl_device_get_rsp r;
	struct ibv_context *context;
	uint32_t nb, index;
	int sock, err;

	pthread_once(&once, register_fork);
	if (fcntl(cmd_fd, F_GETFD) < 0)
		return client_null(EBADF);
	err = client_connect(path, &sock, &nb);
	if (err)
		return client_null(err);
	err = show_socket(sock, cmd_fd, &index);
	if (!err)
		err = client_device_get(sock, index, &r);
	if (!err) {
		pthread_mutex_lock(&devices_lock);
		d = device_enter(&r, index, path);
		pthread_mutex_unlock(&devices_lock);
		err = d ? 0 : ENOMEM;
	}
	if (err) {
		close(sock);
		return client_null(err);
	}
	context = client_open_session(d, sock, NULL);
	if (context)
		to_ctx(context)->imported_fd = cmd_fd;
	return context;
}
