/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: creating, binding, moving between channels, setting options, destroying. */
#include "rdmacm/rdmacm_priv.h"

int
cmid_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps,
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

	return cm_result(cmid_create(channel, id, context, ps, type));
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
	/* Another thread may still be using events of this id. */
	pthread_mutex_lock(&id->lock);
	while (id->events)
		pthread_cond_wait(&id->acked, &id->lock);
	pthread_mutex_unlock(&id->lock);
	cmid_leave_all(id);
	if (id->sync)
		rdma_destroy_event_channel(rid->channel);
	else
		cm_forget_records(id->channel);
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
	/* Programs try one address after the other, so no message is printed for an address that no device has. */
	c.quiet = true;
	if (!err)
		err = cm_call(id->channel, &c);
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
	} else {
		cm_forget_records(from);
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
