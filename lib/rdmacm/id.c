/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: made, bound, moved between channels, given options, destroyed. */
#include "rdmacm/rdmacm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/** An address that is known already isn't written again: another thread may be reading it. */
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
cmid_ack(struct cmid *id)
{
	if (!id->id.event)
		return;
	rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}

int
cmid_complete(struct cmid *id, bool sync, int err)
{
	if (err || !sync)
		return cm_result(err);
	cmid_ack(id);
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -1;
	if (!id->id.event->status)
		return 0;
	if (id->id.event->event == RDMA_CM_EVENT_REJECTED)
		return cm_result(ECONNREFUSED);
	return cm_result(id->id.event->status < 0 ? -id->id.event->status : EIO);
}

static int
create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps,
       enum ibv_qp_type type)
{
	bool sync = !channel;
	struct client_call c;
	struct cmid *id;
	int err;

	if (sync)
		channel = rdma_create_event_channel();
	if (!channel)
		return errno;
	id = cmid_new(to_channel(channel), context, ps, type);
	err = ENOMEM;
	if (!id)
		goto fail;
	id->sync = sync;
	client_call_init(&c, CTL_CM_CREATE_ID);
	c.req.cm_create.ps = ps;
	c.req.cm_create.qp_type = type;
	err = cm_call(id->channel, &c);
	if (err)
		goto fail;
	id->handle = c.rsp.handle.handle;
	err = cm_enter(id->channel, id);
	if (err) {
		cm_call_destroy(id->channel, id->handle, 0);
		goto fail;
	}
	*out = &id->id;
	return 0;
fail:
	if (id)
		cmid_free(id);
	if (sync)
		rdma_destroy_event_channel(channel);
	return err;
}

RDMACM_EXPORT int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	enum ibv_qp_type type = ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;

	return cm_result(create(channel, id, context, ps, type));
}

RDMACM_EXPORT int
rdma_destroy_id(struct rdma_cm_id *rid)
{
	struct cmid *id = to_cmid(rid);
	uint32_t taken;

	pthread_mutex_lock(&id->lock);
	taken = id->taken;
	pthread_mutex_unlock(&id->lock);
	cm_call_destroy(id->channel, id->handle, taken);
	cm_leave(id->channel, id);
	cmid_ack(id);
	/* What another thread was given it may still look at. */
	pthread_mutex_lock(&id->lock);
	while (id->events)
		pthread_cond_wait(&id->acked, &id->lock);
	pthread_mutex_unlock(&id->lock);
	cmid_leave_all(id);
	if (id->sync)
		rdma_destroy_event_channel(rid->channel);
	cmid_free(id);
	return 0;
}

RDMACM_EXPORT int
rdma_bind_addr(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	struct cmid *id = to_cmid(rid);
	struct client_call c;
	int err;

	if (!addr)
		return cm_result(EINVAL);
	client_call_init(&c, CTL_CM_BIND);
	c.req.cm_bind.id = id->handle;
	err = cm_addr_of(addr, &c.req.cm_bind.addr);
	/* Programs try address after address: that one isn't ours is no news to the user. */
	c.quiet = true;
	if (!err)
		err = cm_call(id->channel, &c);
	if (err == EADDRNOTAVAIL)
		err = ENODEV;
	return cm_result(err ? err : cmid_update(id, &c.rsp.cm_info));
}

RDMACM_EXPORT int
rdma_migrate_id(struct rdma_cm_id *rid, struct rdma_event_channel *channel)
{
	struct cmid *id = to_cmid(rid);
	struct cm_channel *from = id->channel;
	bool sync = !channel;
	int err;

	if (id->sync && sync)
		return cm_result(EINVAL);
	if (sync)
		channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	cm_leave(from, id);
	err = cm_take_over(to_channel(channel), id);
	if (id->channel == from) {
		cm_enter(from, id);
		if (sync)
			rdma_destroy_event_channel(channel);
		return cm_result(err);
	}
	rid->channel = channel;
	if (id->sync) {
		cmid_ack(id);
		rdma_destroy_event_channel(&from->ch);
	}
	id->sync = sync;
	return cm_result(err);
}

RDMACM_EXPORT int
rdma_set_option(struct rdma_cm_id *rid, int level, int optname, void *optval, size_t optlen)
{
	static const struct {
		size_t bytes;
		uint32_t option;
	} options[] = {
		[RDMA_OPTION_ID_TOS] = { sizeof(uint8_t), CTL_CM_OPT_TOS },
		[RDMA_OPTION_ID_REUSEADDR] = { sizeof(int), CTL_CM_OPT_REUSEADDR },
		[RDMA_OPTION_ID_AFONLY] = { sizeof(int), CTL_CM_OPT_AFONLY },
		[RDMA_OPTION_ID_ACK_TIMEOUT] = { sizeof(uint8_t), CTL_CM_OPT_ACK_TIMEOUT },
	};
	struct cmid *id = to_cmid(rid);
	struct client_call c;
	int value;

	if (level != RDMA_OPTION_ID || optname < 0 || optname >= (int)(sizeof(options) / sizeof(options[0])))
		return cm_result(ENOSYS);
	if (!optval || optlen != options[optname].bytes)
		return cm_result(EINVAL);
	if (optlen == sizeof(int))
		memcpy(&value, optval, sizeof(value));
	else
		value = *(const uint8_t *)optval;
	client_call_init(&c, CTL_CM_SET_OPTION);
	c.req.cm_option.id = id->handle;
	c.req.cm_option.option = options[optname].option;
	c.req.cm_option.value = (uint32_t)value;
	return cm_result(cm_call(id->channel, &c));
}

static __be16
port_of(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port :
	       sa->sa_family == AF_INET	 ? ((const struct sockaddr_in *)(const void *)sa)->sin_port :
					   0;
}

RDMACM_EXPORT __be16
rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

RDMACM_EXPORT __be16
rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}

/* ---- Endpoints ---- */
static int
ep_active(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct cmid *own = to_cmid(id);

	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, CMID_RESOLVE_MS) ||
	    rdma_resolve_route(id, CMID_RESOLVE_MS))
		return -1;
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr))
			return -1;
	}
	if (res->ai_connect_len) {
		own->connect = malloc(res->ai_connect_len);
		if (!own->connect)
			return cm_result(ENOMEM);
		memcpy(own->connect, res->ai_connect, res->ai_connect_len);
		own->connect_len = res->ai_connect_len;
	}
	return 0;
}

static int
ep_passive(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct cmid *own = to_cmid(id);

	if (rdma_bind_addr(id, res->ai_src_addr))
		return -1;
	if (!attr)
		return 0;
	own->ep_attr = malloc(sizeof(*attr));
	if (!own->ep_attr)
		return cm_result(ENOMEM);
	*own->ep_attr = *attr;
	own->ep_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	if (pd)
		id->pd = pd;
	return 0;
}

RDMACM_EXPORT int
rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int err = create(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space, (enum ibv_qp_type)res->ai_qp_type);

	if (err)
		return cm_result(err);
	if (res->ai_flags & RAI_PASSIVE ? ep_passive(id, res, pd, attr) : ep_active(id, res, pd, attr)) {
		err = errno;
		rdma_destroy_ep(id);
		return cm_result(err);
	}
	*out = id;
	return 0;
}

RDMACM_EXPORT void
rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
