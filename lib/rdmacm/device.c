/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: opened once per process, with a protection domain for programs that don't pass one. */
#include "rdmacm/rdmacm_priv.h"

#include <fcntl.h>

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_device devices[UROCE_MAX_PORTS];

/*
 * The contexts of a parent are of no use to the child. It opens the devices again and leaves the parent's contexts and
 * descriptors alone. The lock may be held by a thread of the parent, which doesn't exist in the child.
 */
static void
fork_child(void)
{
	pthread_mutex_init(&devices_lock, NULL);
	memset(devices, 0, sizeof(devices));
}

static void
register_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

static uint8_t
at_most_255(int n)
{
	return (uint8_t)(n > 255 ? 255 : n);
}

static int
open_verbs(struct cm_device *dev, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr attr;
	int err = ENODEV;

	if (!list)
		return errno;
	for (struct ibv_device **d = list; *d && !dev->verbs; d++) {
		if (!strcmp(ibv_get_device_name(*d), name))
			dev->verbs = ibv_open_device(*d);
	}
	ibv_free_device_list(list);
	if (!dev->verbs)
		return err;
	err = ibv_query_device(dev->verbs, &attr);
	if (!err) {
		dev->pd = ibv_alloc_pd(dev->verbs);
		err = dev->pd ? 0 : errno;
	}
	if (err) {
		ibv_close_device(dev->verbs);
		dev->verbs = NULL;
		return err;
	}
	dev->max_initiator_depth = at_most_255(attr.max_qp_init_rd_atom);
	dev->max_responder_resources = at_most_255(attr.max_qp_rd_atom);
	return 0;
}

/* Open the device that libibverbs has under this name; it asks the same daemon. */
static int
get_locked(struct cm_channel *ch, uint32_t index, struct cm_device **out)
{
	struct ctl_device_get_rsp info;
	struct cm_device *dev;
	int err = 0;

	if (index >= UROCE_MAX_PORTS)
		return ENODEV;
	dev = &devices[index];
	if (!dev->verbs) {
		pthread_mutex_lock(&ch->lock);
		err = client_device_get(ch->sock, index, &info);
		pthread_mutex_unlock(&ch->lock);
		if (!err)
			err = open_verbs(dev, info.name);
	}
	*out = dev;
	return err;
}

int
cm_device_get(struct cm_channel *ch, uint32_t index, struct cm_device **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err;

	pthread_once(&once, register_fork);
	pthread_mutex_lock(&devices_lock);
	err = get_locked(ch, index, out);
	pthread_mutex_unlock(&devices_lock);
	return err;
}

int
cm_device_xrcd(struct cm_device *dev, struct ibv_xrcd **out)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	int err = 0;

	pthread_mutex_lock(&devices_lock);
	if (!dev->xrcd) {
		dev->xrcd = ibv_open_xrcd(dev->verbs, &attr);
		err = dev->xrcd ? 0 : errno;
	}
	*out = dev->xrcd;
	pthread_mutex_unlock(&devices_lock);
	return err;
}

RDMACM_EXPORT struct ibv_context **
rdma_get_devices(int *num_devices)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_context **list = NULL;
	struct cm_device *dev;
	int n = 0;

	if (channel)
		list = calloc(UROCE_MAX_PORTS + 1, sizeof(*list));
	for (uint32_t i = 0; list && i < UROCE_MAX_PORTS && !cm_device_get(to_channel(channel), i, &dev); i++)
		list[n++] = dev->verbs;
	if (num_devices)
		*num_devices = n;
	if (channel)
		rdma_destroy_event_channel(channel);
	return list;
}

RDMACM_EXPORT void
rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
