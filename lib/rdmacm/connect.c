/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolving, listening, connecting, accepting, disconnecting. */
#include "rdmacm/rdmacm_priv.h"

RDMACM_EXPORT int
rdma_resolve_addr(struct rdma_cm_id *rid, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms)
{
	struct cmid *id = to_cmid(rid);
	struct sockaddr_storage before = rid->route.addr.dst_storage;
	bool sync = id->sync;
	struct client_call c;
	int err;

	if (!dst_addr || timeout_ms < 0)
		return cm_result(EINVAL);
	client_call_init(&c, CTL_CM_RESOLVE_ADDR);
	c.req.cm_resolve_addr.id = id->handle;
	c.req.cm_resolve_addr.timeout_ms = (uint32_t)timeout_ms;
	err = cm_addr_of(src_addr, &c.req.cm_resolve_addr.src);
	if (!err)
		err = cm_addr_of(dst_addr, &c.req.cm_resolve_addr.dst);
	if (err)
		return cm_result(err);
	memcpy(&rid->route.addr.dst_storage, dst_addr, cm_sockaddr_len(dst_addr));
	err = cm_call(id->channel, &c);
	/* The request was refused, so no event comes and no other thread reads the address. */
	if (err)
		rid->route.addr.dst_storage = before;
	return cmid_complete(id, sync, err);
}

RDMACM_EXPORT int
rdma_resolve_route(struct rdma_cm_id *rid, int timeout_ms)
{
	struct cmid *id = to_cmid(rid);
	bool sync = id->sync;
	struct client_call c;

	client_call_init(&c, CTL_CM_RESOLVE_ROUTE);
	c.req.cm_resolve_route.id = id->handle;
	c.req.cm_resolve_route.timeout_ms = (uint32_t)timeout_ms;
	return cmid_complete(id, sync, cm_call(id->channel, &c));
}

RDMACM_EXPORT int
rdma_listen(struct rdma_cm_id *rid, int backlog)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct cmid *id = to_cmid(rid);
	struct client_call c;

	/* The address must be set before the first request arrives. */
	if (rid->route.addr.src_addr.sa_family == AF_UNSPEC && rdma_bind_addr(rid, (struct sockaddr *)&any))
		return -1;
	client_call_init(&c, CTL_CM_LISTEN);
	c.req.cm_listen.id = id->handle;
	c.req.cm_listen.backlog = backlog > 0 ? (uint32_t)backlog : 0;
	return cm_result(cm_call(id->channel, &c));
}

/* ---- Connection parameters ---- */
/** @p out is what the program asks for, or @p most if it asks for the maximum (@p all) or for nothing. */
static int
depth(uint8_t asked, uint8_t all, uint8_t most, uint8_t *out)
{
	if (asked != all && asked > most)
		return EINVAL;
	*out = asked == all ? most : asked;
	return 0;
}

static int
take_param(struct cmid *id, const struct rdma_conn_param *p)
{
	int err;

	if (!p || id->id.qp_type == IBV_QPT_UD || !id->dev)
		return 0;
	err = depth(p->initiator_depth, RDMA_MAX_INIT_DEPTH, id->dev->max_initiator_depth, &id->initiator_depth);
	if (!err)
		err = depth(p->responder_resources, RDMA_MAX_RESP_RES, id->dev->max_responder_resources,
			    &id->responder_resources);
	return err;
}

static int
fill(struct cmid *id, const struct rdma_conn_param *p, struct ctl_cm_connect_req *q)
{
	size_t len = id->connect_len + (p ? p->private_data_len : 0);

	q->id = id->handle;
	q->param.responder_resources = id->responder_resources;
	q->param.initiator_depth = id->initiator_depth;
	q->param.flow_control = p ? p->flow_control : 1;
	q->param.retry_count = p ? p->retry_count : 7;
	q->param.rnr_retry_count = p ? p->rnr_retry_count : 7;
	q->param.qp_type = (uint8_t)id->id.qp_type;
	if (id->id.qp) {
		q->param.qp_num = id->id.qp->qp_num;
		q->param.srq = id->id.qp->srq != NULL;
	} else if (p) {
		q->param.qp_num = p->qp_num;
		q->param.srq = p->srq;
	}
	if (len > sizeof(q->private_data))
		return EINVAL;
	if (id->connect_len)
		memcpy(q->private_data, id->connect, id->connect_len);
	if (p && p->private_data_len)
		memcpy(q->private_data + id->connect_len, p->private_data, p->private_data_len);
	q->param.private_len = (uint8_t)len;
	return 0;
}

RDMACM_EXPORT int
rdma_connect(struct rdma_cm_id *rid, struct rdma_conn_param *conn_param)
{
	struct cmid *id = to_cmid(rid);
	int err = take_param(id, conn_param);
	bool sync = id->sync;
	struct client_call c;

	client_call_init(&c, CTL_CM_CONNECT);
	if (!err)
		err = fill(id, conn_param, &c.req.cm_connect);
	free(id->connect);
	id->connect = NULL;
	id->connect_len = 0;
	if (!err)
		err = cm_call(id->channel, &c);
	return cmid_complete(id, sync, err);
}

RDMACM_EXPORT int
rdma_establish(struct rdma_cm_id *rid)
{
	struct cmid *id = to_cmid(rid);

	/* Send the RTU; for an id with a QP this was done when the reply was read. */
	return cm_result(rid->qp ? EINVAL : cm_call_handle(id->channel, CTL_CM_ACCEPT, id->handle));
}

RDMACM_EXPORT int
rdma_accept(struct rdma_cm_id *rid, struct rdma_conn_param *conn_param)
{
	struct cmid *id = to_cmid(rid);
	bool ud = rid->qp_type == IBV_QPT_UD, sync = id->sync;
	struct client_call c;
	int err;

	/* Without parameters use what the peer offered in its request. */
	err = take_param(id, conn_param);
	client_call_init(&c, CTL_CM_ACCEPT);
	if (!err)
		err = fill(id, conn_param, &c.req.cm_connect);
	if (err)
		return cm_result(err);
	err = rid->qp && !ud ? cmid_accept_qp(id, &c) : cm_call(id->channel, &c);
	/* A UD id gets no event for this. */
	return ud ? cm_result(err) : cmid_complete(id, sync, err);
}

static int
reject(struct rdma_cm_id *rid, const void *data, uint8_t len, uint16_t reason)
{
	struct cmid *id = to_cmid(rid);
	struct client_call c;

	client_call_init(&c, CTL_CM_REJECT);
	if (len > sizeof(c.req.cm_reject.private_data))
		return EINVAL;
	c.req.cm_reject.id = id->handle;
	c.req.cm_reject.reason = reason;
	c.req.cm_reject.private_len = len;
	if (len)
		memcpy(c.req.cm_reject.private_data, data, len);
	return cm_call(id->channel, &c);
}

enum { REJ_DEFAULT = 0, REJ_VENDOR_OPTION = 35 /**< table 109 of the specification */ };

RDMACM_EXPORT int
rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return cm_result(reject(id, private_data, private_data_len, REJ_DEFAULT));
}

RDMACM_EXPORT int
rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return cm_result(reject(id, private_data, private_data_len, REJ_VENDOR_OPTION));
}

RDMACM_EXPORT int
rdma_notify(struct rdma_cm_id *rid, enum ibv_event_type event)
{
	struct cmid *id = to_cmid(rid);

	if (event == IBV_EVENT_PATH_MIG)
		return 0;
	if (event != IBV_EVENT_COMM_EST)
		return cm_result(EINVAL);
	return cm_result(cm_call_handle(id->channel, CTL_CM_ESTABLISH, id->handle));
}

RDMACM_EXPORT int
rdma_disconnect(struct rdma_cm_id *rid)
{
	struct cmid *id = to_cmid(rid);
	/* If the peer disconnected first, the event was returned already and no other comes. */
	bool waits = id->sync && !id->disconnected;

	return cmid_complete(id, waits,
			     rid->qp ? cmid_disconnect_qp(id) : cm_call_handle(id->channel, CTL_CM_DISCONNECT, id->handle));
}

/* ---- Enhanced connection establishment: vendors' options, of which UROCE has none ---- */
RDMACM_EXPORT int
rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return cm_result(!ece || ece->vendor_id || ece->options || ece->comp_mask ? EOPNOTSUPP : 0);
}

RDMACM_EXPORT int
rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id->qp || !ece)
		return cm_result(EINVAL);
	memset(ece, 0, sizeof(*ece));
	return 0;
}
