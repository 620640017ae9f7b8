/* SPDX-License-Identifier: BSD-3-Clause */
/* Making ids, and counting their events. */
#include "rdmacm/rdmacm_priv.h"

#include <arpa/inet.h>

struct cmid *
cmid_new(struct cm_channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct cmid *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = &ch->ch;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->channel = ch;
	pthread_mutex_init(&id->lock, NULL);
	pthread_mutex_init(&id->members_lock, NULL);
	pthread_cond_init(&id->acked, NULL);
	return id;
}

void
cmid_free(struct cmid *id)
{
	pthread_mutex_destroy(&id->lock);
	pthread_mutex_destroy(&id->members_lock);
	pthread_cond_destroy(&id->acked);
	free(id->ep_attr);
	free(id->connect);
	free(id);
}

/** Don't write an address that hasn't changed: another thread may be reading it. */
static void
put_addr(const struct ctl_cm_addr *a, struct sockaddr_storage *to)
{
	struct sockaddr_storage new;

	cm_addr_put(a, &new);
	if (memcmp(&new, to, sizeof(new)) != 0)
		*to = new;
}

int
cmid_update(struct cmid *id, const struct ctl_cm_id_info *info)
{
	struct rdma_addr *addr = &id->id.route.addr;
	struct ibv_sa_path_rec *path = &id->path;
	int err;

	put_addr(&info->local, &addr->src_storage);
	put_addr(&info->remote, &addr->dst_storage);
	if (info->device == UINT32_MAX)
		return 0;
	memcpy(addr->addr.ibaddr.sgid.raw, info->sgid, 16);
	memcpy(addr->addr.ibaddr.dgid.raw, info->dgid, 16);
	addr->addr.ibaddr.pkey = htons((uint16_t)info->pkey);
	memcpy(path->sgid.raw, info->sgid, 16);
	memcpy(path->dgid.raw, info->dgid, 16);
	path->hop_limit = info->hop_limit;
	path->traffic_class = info->traffic_class;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = htons((uint16_t)info->pkey);
	path->mtu = info->path_mtu;
	path->packet_life_time = info->packet_life;
	if (id->dev)
		return 0;
	err = cm_device_get(id->channel, info->device, &id->dev);
	if (err) {
		id->dev = NULL;
		return err;
	}
	id->id.verbs = id->dev->verbs;
	id->id.pd = id->dev->pd;
	id->id.port_num = 1;
	id->initiator_depth = id->dev->max_initiator_depth;
	id->responder_resources = id->dev->max_responder_resources;
	return 0;
}

void
cmid_uncount(struct cmid *id)
{
	pthread_mutex_lock(&id->lock);
	UROCE_ASSERT(id->events > 0);
	if (--id->events == 0)
		pthread_cond_broadcast(&id->acked);
	pthread_mutex_unlock(&id->lock);
}

RDMACM_EXPORT int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cm_happening *h;

	if (!event)
		return cm_result(EINVAL);
	h = container_of(event, struct cm_happening, event);
	cmid_uncount(h->counted);
	free(h);
	return 0;
}

void
cmid_ack(struct cmid *id)
{
	if (!id->id.event)
		return;
	rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}
