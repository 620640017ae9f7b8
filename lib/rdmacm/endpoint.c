/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: ids that are made and connected in one call, whose operations wait for their events. */
#include "rdmacm/rdmacm_priv.h"

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
	int err = cmid_create(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space, (enum ibv_qp_type)res->ai_qp_type);

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

RDMACM_EXPORT int
rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct cmid *l = to_cmid(listen);
	struct rdma_cm_event *event;
	struct ibv_qp_init_attr attr;
	int err = 0;

	if (!l->sync)
		return cm_result(EINVAL);
	cmid_ack(l);
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->status || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		err = event->status < 0 ? -event->status : EINVAL;
		rdma_ack_cm_event(event);
		return cm_result(err);
	}
	if (l->ep_attr) {
		attr = *l->ep_attr;
		if (rdma_create_qp(event->id, listen->pd, &attr)) {
			err = errno;
			*out = event->id;
			rdma_reject(event->id, NULL, 0);
			rdma_ack_cm_event(event);
			rdma_destroy_id(*out);
			*out = NULL;
			return cm_result(err);
		}
	}
	*out = event->id;
	(*out)->event = event;
	return 0;
}
