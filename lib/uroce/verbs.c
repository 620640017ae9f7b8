/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbs inside the process: lib/verbs's code with its connection to a control thread that may be nobody else's thread.
 */
#include "verbs/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/control.h"
#include "uroce/stack.h"

enum {
	WAIT_SPINS = 2000,  /**< turns in vain before a waiter sleeps between them */
	WAIT_SLEEP_MS = 1,
};

/**
 * poll() that drives what nobody drives: the thread that waits may be the only one that there is. With a thread for the control the
 * answer mostly comes without our help, so that one gets a moment first.
 */
static int
wait_driving(struct pollfd *fds, unsigned long n)
{
	unsigned int idle = stacks_have_thread() ? WAIT_SPINS : 0;
	int rc;

	for (;;) {
		rc = poll(fds, n, idle >= WAIT_SPINS ? WAIT_SLEEP_MS : 0);
		if (rc != 0)
			return rc;
		idle = stacks_turn() > 0 ? 0 : idle + 1;
	}
}

/** @return the devices of a stack, one per port, or NULL: no memory. stacks_lock held. */
static struct client_device *
devices_of(struct uroce *u)
{
	struct client_device *d = u->devices;
	const struct net_port *p;

	if (d != NULL)
		return d;
	d = calloc(u->nb_ports, sizeof(*d));
	for (uint16_t i = 0; d != NULL && i < u->nb_ports; i++) {
		p = u->ports[i];
		client_device_fill(&d[i], p->conf.name, p->netdev);
		d[i].used = true;
		d[i].index = i;
		d[i].guid = htobe64(control_port_guid(p));
	}
	u->devices = d;
	return d;
}

/** Open a device of ours. @return NULL with errno set. */
static struct ibv_context *
open_own(struct uroce *u, struct client_device *d)
{
	int fds[2], err;
	uint32_t nb;

	if (u->control == NULL || u->suspended) {
		errno = ESHUTDOWN;
		return NULL;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return NULL;
	err = control_adopt(u->control, fds[1]);
	if (err == 0)
		err = client_hello(fds[0], "this process", -1, wait_driving, &nb);
	if (err != 0) {
		close(fds[0]);
		errno = err;
		return NULL;
	}
	return client_open_session(d, fds[0], wait_driving);
}

struct ibv_context *
uroce_open_device(struct uroce *u, const char *name)
{
	struct client_device *d;

	pthread_mutex_lock(&stacks_lock);
	d = devices_of(u);
	pthread_mutex_unlock(&stacks_lock);
	if (d == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	for (uint16_t i = 0; i < u->nb_ports; i++)
		if (strcmp(u->ports[i]->conf.name, name) == 0)
			return open_own(u, &d[i]);
	errno = ENODEV;
	return NULL;
}

/* ---- What devlist.c is in libibverbs.so.1 ---- */

struct ibv_device **
ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = NULL;
	struct client_device *d;
	unsigned int n = 0;
	struct uroce *u;

	if (num_devices != NULL)
		*num_devices = 0;
	pthread_mutex_lock(&stacks_lock);
	TAILQ_FOREACH(u, &stacks, link)
		n += u->nb_ports;
	list = calloc(n + 1, sizeof(*list));
	n = 0;
	TAILQ_FOREACH(u, &stacks, link) {
		d = list != NULL ? devices_of(u) : NULL;
		for (uint16_t i = 0; d != NULL && i < u->nb_ports; i++)
			list[n++] = &d[i].dev;
	}
	pthread_mutex_unlock(&stacks_lock);
	if (list == NULL)
		errno = ENOMEM;
	else if (num_devices != NULL)
		*num_devices = (int)n;
	return list;
}

struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	struct client_device *d = (struct client_device *)device;
	struct uroce *u;

	pthread_mutex_lock(&stacks_lock);
	TAILQ_FOREACH(u, &stacks, link)
		if (u->devices != NULL && d >= (struct client_device *)u->devices &&
		    d < (struct client_device *)u->devices + u->nb_ports)
			break;
	pthread_mutex_unlock(&stacks_lock);
	if (u != NULL)
		return open_own(u, d);
	errno = ENODEV;
	return NULL;
}

/* Contexts here are of stacks of this process, which share what they like without. */
struct ibv_context *
ibv_import_device(int cmd_fd)
{
	errno = EOPNOTSUPP;
	return NULL;
}
