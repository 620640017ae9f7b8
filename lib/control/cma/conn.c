/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of ids: what a program asks for becomes calls into lib/cm, what lib/cm tells becomes events, and what was
 * negotiated becomes attributes of a QP.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include "control/cma/cma.h"
#include "control/core/quota.h"

/** Timeouts are codes of 5 bits; an ACK is there after two packet lives: one more than one of them. */
static uint8_t
ack_timeout_of(const struct cma_id *id)
{
	return id->ack_timeout_set ? id->ack_timeout : CMA_PACKET_LIFE + 1;
}

static void
way_of(const struct cma_id *id, struct cm_way *way)
{
	*way = (struct cm_way){
		.port = id->port->index,
		.pkey = id->port->conf.pkeys[0],
		.flow_label = id->flow_label,
		.traffic_class = id->tos,
		.hop_limit = CMA_HOP_LIMIT,
		.resolved = true,
	};
	memcpy(way->local_gid, net_gid(id->port, id->sgid_index), 16);
	memcpy(way->remote_gid, id->remote.gid, 16);
	memcpy(way->remote_mac, id->mac, 6);
	if (id->port->conf.vlan_id != 0)
		way->vlan_tci = (uint16_t)((id->tos >> 5) << 13 | id->port->conf.vlan_id);
}

/** The RDMA CM's header in front of the program's private data. */
static void
ip_hdr_of(const struct cma_id *id, uint8_t data[CM_IP_HDR_BYTES])
{
	struct cm_ip_hdr h = { .ip_version = (uint8_t)id->local.family, .port = id->local.port };
	uint32_t skip = id->local.family == 4 ? 12 : 0;

	memcpy(h.src + skip, id->local.gid + skip, 16 - skip);
	memcpy(h.dst + skip, id->remote.gid + skip, 16 - skip);
	cm_ip_hdr_put(&h, data);
}

/** The other way round. @return false: not from where it says it is. */
static bool
ip_hdr_take(struct cma_id *id, const struct cm_ip_hdr *h, const struct cm_way *way, uint64_t service_id)
{
	uint32_t skip = h->ip_version == 4 ? 12 : 0;

	/* Or an IPv6 address would pass for the IPv4 address in its last bytes, which the program may trust. */
	if (gid_is_v4(gid_at(way->remote_gid)) != (h->ip_version == 4) || gid_is_v4(gid_at(way->local_gid)) != (h->ip_version == 4))
		return false;
	if (memcmp(h->src + skip, way->remote_gid + skip, 16 - skip) != 0 ||
	    memcmp(h->dst + skip, way->local_gid + skip, 16 - skip) != 0)
		return false;
	id->local = (struct ctl_cm_addr){ .family = h->ip_version, .port = cm_service_port(service_id) };
	id->remote = (struct ctl_cm_addr){ .family = h->ip_version, .port = h->port };
	memcpy(id->local.gid, way->local_gid, 16);
	memcpy(id->remote.gid, way->remote_gid, 16);
	return true;
}

static uint64_t
node_guid(const struct cma_id *id)
{
	return port_guid(id->port);
}

/* ---- Listening ---- */
int
op_cm_listen(struct session *s, struct request *r)
{
	const struct ctl_cm_listen_req *q = &r->req->cm_listen;
	struct cma_id *id = cma_id_get(s, q->id, r);
	const struct ctl_cm_addr any = { .family = 4 };
	struct cm_listen_param p;
	int rc;

	if (id == NULL)
		return EINVAL;
	if (id->state == CMA_IDLE) {
		rc = cma_bind_id(id, &any, r);
		if (rc != 0)
			return rc;
	}
	if (id->state != CMA_BOUND)
		return req_fail(r, EINVAL, "this id can't listen: it has a destination, or listens already");
	/* Of two the more specific one would get what another user's wildcard is asked for (core/cma.c: rdma_listen()). */
	if (!cma_may_listen(id))
		return req_fail(r, EADDRINUSE, "another id listens on port %u", id->local.port);
	p = (struct cm_listen_param){
		.service_id = cm_service_id((enum cm_port_space)id->ps, id->local.port),
		.scope = !gid_is_zero(gid_at(id->local.gid)) ? CM_LISTEN_GID :
			 id->local.family == 4	      ? CM_LISTEN_ANY_IPV4 :
			 id->af_only		      ? CM_LISTEN_ANY_IPV6 :
							CM_LISTEN_ANY,
		.backlog = RTE_MIN(q->backlog, (uint32_t)CM_MAX_BACKLOG),
		.owner = id,
	};
	memcpy(p.gid, id->local.gid, 16);
	id->listener = cm_listen(s->control->cma->cm, &p);
	if (id->listener == NULL)
		return req_fail(r, errno, "cannot listen on port %u: %s", id->local.port, strerror(errno));
	id->state = CMA_LISTENING;
	cma_id_info(id, &r->rsp.cm_info);
	return 0;
}

/* ---- Connecting ---- */
static int
start_psn(struct cma_id *id, struct request *r)
{
	if (getentropy(&id->rq_psn, sizeof(id->rq_psn)) != 0)
		return req_fail(r, EIO, "no random numbers");
	id->rq_psn &= WIRE_PSN_MASK;
	return 0;
}

static enum cm_transport
transport_of(const struct cma_id *id)
{
	return id->qp_type == UROCE_QPT_UC	 ? CM_TRANSPORT_UC :
	       id->qp_type == UROCE_QPT_XRC_SEND ? CM_TRANSPORT_EXTENDED :
						   CM_TRANSPORT_RC;
}

static int
connect_rc(struct cma_id *id, const struct ctl_cm_connect_req *q, uint8_t *data, struct request *r)
{
	struct cm_connect_param p = {
		.service_id = cm_service_id((enum cm_port_space)id->ps, id->remote.port),
		.ca_guid = node_guid(id),
		.qpn = q->param.qp_num,
		.starting_psn = id->rq_psn,
		.transport = transport_of(id),
		.responder_resources = q->param.responder_resources,
		.initiator_depth = q->param.initiator_depth,
		.retry_count = q->param.retry_count & 7,
		.rnr_retry_count = q->param.rnr_retry_count & 7,
		.path_mtu = (uint8_t)id->port->active_mtu,
		.packet_life = CMA_PACKET_LIFE,
		.ack_timeout = ack_timeout_of(id),
		.remote_response_timeout = CMA_RESPONSE_TIMEOUT,
		.local_response_timeout = CMA_RESPONSE_TIMEOUT,
		.max_cm_retries = CMA_RETRIES,
		.flow_control = q->param.flow_control != 0,
		.srq = q->param.srq != 0,
		.private_data = { data, CM_IP_HDR_BYTES + q->param.private_len },
		.owner = id,
	};

	way_of(id, &p.way);
	id->conn = cm_connect(id->session->control->cma->cm, &p, control_now_ns());
	return id->conn != NULL ? 0 : req_fail(r, errno, "cannot connect: %s", strerror(errno));
}

static int
connect_ud(struct cma_id *id, const struct ctl_cm_connect_req *q, uint8_t *data, struct request *r)
{
	struct cm_sidr_param p = {
		.service_id = cm_service_id((enum cm_port_space)id->ps, id->remote.port),
		.timeout_ns = cm_time_ns(CMA_RESPONSE_TIMEOUT),
		.max_retries = CMA_SIDR_RETRIES,
		.private_data = { data, CM_IP_HDR_BYTES + q->param.private_len },
		.owner = id,
	};

	way_of(id, &p.way);
	id->conn = cm_sidr_request(id->session->control->cma->cm, &p, control_now_ns());
	return id->conn != NULL ? 0 : req_fail(r, errno, "cannot connect: %s", strerror(errno));
}

int
op_cm_connect(struct session *s, struct request *r)
{
	const struct ctl_cm_connect_req *q = &r->req->cm_connect;
	struct cma_id *id = cma_id_get(s, q->id, r);
	uint8_t data[CM_SIDR_REQ_PRIVATE_BYTES];
	uint32_t room;
	int rc;

	if (id == NULL)
		return EINVAL;
	if (id->state != CMA_ROUTED)
		return req_fail(r, EINVAL, "resolve address and route first");
	if (id->qp_type == UROCE_QPT_XRC_RECV)
		return req_fail(r, EINVAL, "an XRC target can't connect: its initiator does");
	room = (cma_is_ud(id) ? CM_SIDR_REQ_PRIVATE_BYTES : CM_REQ_PRIVATE_BYTES) - CM_IP_HDR_BYTES;
	if (q->param.private_len > room)
		return req_fail(r, EINVAL, "%u bytes of private data: at most %u", q->param.private_len, room);
	if (q->param.qp_num > CMA_QPN_MASK || (!cma_is_ud(id) && q->param.qp_num < 2))
		return req_fail(r, EINVAL, "no QP has number %#x", q->param.qp_num);
	rc = cma_event_want_room(s, r);
	if (rc == 0)
		rc = quota_connect(s, r);
	if (rc == 0)
		rc = start_psn(id, r);
	if (rc != 0)
		return rc;
	ip_hdr_of(id, data);
	memcpy(data + CM_IP_HDR_BYTES, q->private_data, q->param.private_len);
	rc = cma_is_ud(id) ? connect_ud(id, q, data, r) : connect_rc(id, q, data, r);
	if (rc != 0)
		return rc;
	id->qpn = q->param.qp_num;
	id->responder_resources = q->param.responder_resources;
	id->initiator_depth = q->param.initiator_depth;
	id->retry_count = q->param.retry_count & 7;
	id->rnr_retry_count = q->param.rnr_retry_count & 7;
	id->path_mtu = (uint8_t)id->port->active_mtu;
	id->timeout = ack_timeout_of(id);
	id->state = CMA_CONNECTION;
	return 0;
}

/** The id has a connection. */
static struct cma_id *
get_conn(struct session *s, uint32_t handle, struct request *r)
{
	struct cma_id *id = cma_id_get(s, handle, r);

	if (id != NULL && id->conn == NULL) {
		req_fail(r, EINVAL, "this id has no connection, nor a request for one");
		return NULL;
	}
	return id;
}

static int
accept_ud(struct cma_id *id, const struct ctl_cm_connect_req *q)
{
	struct cm_sidr_reply_param p = {
		.status = CM_SIDR_SUCCESS,
		.qpn = q->param.qp_num,
		.qkey = q->param.qkey != 0 ? q->param.qkey : CMA_UDP_QKEY,
		.private_data = { q->private_data, q->param.private_len },
	};

	return cm_sidr_reply(id->conn, &p, control_now_ns());
}

static int
accept_rc(struct cma_id *id, const struct ctl_cm_connect_req *q)
{
	struct cm_accept_param p = {
		.ca_guid = node_guid(id),
		.qpn = q->param.qp_num,
		.starting_psn = id->rq_psn,
		.responder_resources = q->param.responder_resources,
		.initiator_depth = q->param.initiator_depth,
		.target_ack_delay = CMA_TARGET_ACK_DELAY,
		.rnr_retry_count = q->param.rnr_retry_count & 7,
		.flow_control = q->param.flow_control != 0,
		.srq = q->param.srq != 0,
		.private_data = { q->private_data, q->param.private_len },
	};

	id->responder_resources = q->param.responder_resources;
	id->initiator_depth = q->param.initiator_depth;
	return cm_accept(id->conn, &p, control_now_ns());
}

int
op_cm_accept(struct session *s, struct request *r)
{
	const struct ctl_cm_connect_req *q = &r->req->cm_connect;
	struct cma_id *id = get_conn(s, q->id, r);
	uint32_t room;
	int rc;

	if (id == NULL)
		return EINVAL;
	room = !cma_is_ud(id) ? CM_REP_PRIVATE_BYTES : CM_SIDR_REP_PRIVATE_BYTES;
	if (q->param.private_len > room)
		return req_fail(r, EINVAL, "%u bytes of private data: at most %u", q->param.private_len, room);
	if (!id->passive) {
		rc = cm_rtu(id->conn, (struct cm_private){ q->private_data, q->param.private_len }, control_now_ns());
		return rc == 0 ? 0 : req_fail(r, rc, "there is no reply to accept");
	}
	if (q->param.qp_num > CMA_QPN_MASK || q->param.qp_num < 2)
		return req_fail(r, EINVAL, "no QP has number %#x", q->param.qp_num);
	id->qpn = q->param.qp_num;
	rc = cma_is_ud(id) ? accept_ud(id, q) : accept_rc(id, q);
	if (rc != 0)
		return req_fail(r, rc, "there is no request to accept");
	id->answered = true;
	return 0;
}

int
op_cm_reject(struct session *s, struct request *r)
{
	const struct ctl_cm_reject_req *q = &r->req->cm_reject;
	struct cma_id *id = get_conn(s, q->id, r);
	struct cm_private data = { q->private_data, q->private_len };
	struct cm_sidr_reply_param sidr = { .status = CM_SIDR_REJECT, .private_data = data };
	int rc;

	if (id == NULL)
		return EINVAL;
	if (q->private_len > (cma_is_ud(id) ? CM_SIDR_REP_PRIVATE_BYTES : CM_REJ_PRIVATE_BYTES))
		return req_fail(r, EINVAL, "%u bytes of private data: too many", q->private_len);
	rc = cma_is_ud(id) ? cm_sidr_reply(id->conn, &sidr, control_now_ns()) :
			     cm_reject(id->conn, q->reason != 0 ? q->reason : CM_REJ_CONSUMER_DEFINED,
				       (struct cm_private){ 0 }, data, control_now_ns());
	return rc == 0 ? 0 : req_fail(r, rc, "there is nothing to reject");
}

int
op_cm_establish(struct session *s, struct request *r)
{
	struct cma_id *id = get_conn(s, r->req->handle.handle, r);
	int rc;

	if (id == NULL)
		return EINVAL;
	rc = cm_establish(id->conn, control_now_ns());
	return rc == 0 || rc == EISCONN ? 0 : req_fail(r, rc, "this id does not wait for an RTU");
}

int
op_cm_disconnect(struct session *s, struct request *r)
{
	struct cma_id *id = get_conn(s, r->req->handle.handle, r);
	int rc;

	if (id == NULL)
		return EINVAL;
	if (cma_is_ud(id))
		return req_fail(r, EINVAL, "UD has no connection to end");
	rc = cm_disconnect(id->conn, (struct cm_private){ 0 }, control_now_ns());
	/* Ended already, by either end: as good as done. */
	if (rc != 0 && !id->disconnected)
		return req_fail(r, rc, "this id is not connected");
	return 0;
}

/* ---- What a QP gets (core/cm.c: cm_init_qp_*_attr) ---- */
static uint32_t
access_of(const struct cma_id *id)
{
	return UROCE_ACCESS_REMOTE_WRITE |
	       (id->responder_resources > 0 ? UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC : 0);
}

static void
attr_init(const struct cma_id *id, struct ctl_cm_qp_attr_rsp *a)
{
	a->mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT;
	a->attr.port_num = 1;
	if (cma_is_ud(id)) {
		a->mask |= UROCE_QP_QKEY;
		a->attr.qkey = CMA_UDP_QKEY;
		return;
	}
	a->mask |= UROCE_QP_ACCESS_FLAGS;
	if (id->conn == NULL)
		return;
	a->attr.qp_access_flags = access_of(id);
}

/** @return the mask. */
static uint32_t
attr_rts(const struct cma_id *id, struct ctl_cm_qp_attr_rsp *a)
{
	const uint32_t mask = UROCE_QP_STATE | UROCE_QP_SQ_PSN;

	a->attr.sq_psn = id->sq_psn;
	if (id->qp_type == UROCE_QPT_UC || cma_is_ud(id))
		return mask;
	a->attr.timeout = id->timeout;
	if (id->qp_type == UROCE_QPT_XRC_RECV)
		return mask | UROCE_QP_TIMEOUT;
	a->attr.retry_cnt = id->retry_count;
	a->attr.rnr_retry = id->rnr_retry_count;
	a->attr.max_rd_atomic = id->initiator_depth;
	return mask | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC;
}

static void
attr_rtr(const struct cma_id *id, struct ctl_cm_qp_attr_rsp *a)
{
	a->mask = UROCE_QP_STATE;
	a->rts_mask = attr_rts(id, a);
	if (cma_is_ud(id))
		return;
	a->mask |= UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN;
	cma_av(id, id->remote.gid, &a->attr.ah);
	a->attr.qp_access_flags = access_of(id);
	a->attr.path_mtu = id->path_mtu;
	a->attr.dest_qp_num = id->remote_qpn;
	a->attr.rq_psn = id->rq_psn;
	if (id->qp_type == UROCE_QPT_RC || id->qp_type == UROCE_QPT_XRC_RECV) {
		a->mask |= UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
		a->attr.max_dest_rd_atomic = id->responder_resources;
		a->attr.min_rnr_timer = 0;
	}
}


int
op_cm_qp_attr(struct session *s, struct request *r)
{
	const struct ctl_cm_qp_attr_req *q = &r->req->cm_qp_attr;
	struct ctl_cm_qp_attr_rsp *a = &r->rsp.cm_qp_attr;
	struct cma_id *id = cma_id_get(s, q->id, r);

	if (id == NULL)
		return EINVAL;
	if (id->port == NULL)
		return req_fail(r, EINVAL, "this id has no device yet");
	if (q->state != UROCE_QPS_INIT && !cma_is_ud(id) && id->conn == NULL)
		return req_fail(r, EINVAL, "this id has no connection yet");
	if (q->state == UROCE_QPS_INIT)
		attr_init(id, a);
	else if (q->state == UROCE_QPS_RTR)
		attr_rtr(id, a);
	else if (q->state == UROCE_QPS_RTS)
		a->mask = attr_rts(id, a);
	else
		return req_fail(r, EINVAL, "state %u: must be INIT, RTR or RTS", q->state);
	a->attr.qp_state = q->state;
	return 0;
}

/* ---- What lib/cm tells ---- */
static void
put_private(struct ctl_cm_event *ev, const uint8_t *data, uint32_t len)
{
	ev->conn.private_len = (uint8_t)RTE_MIN(len, (uint32_t)UINT8_MAX);
	memcpy(ev->private_data, data, ev->conn.private_len);
}

static void
refuse(struct cma *cma, const struct cm_event *ev, uint16_t reason)
{
	const struct cm_sidr_reply_param sidr = { .status = CM_SIDR_REJECT };
	uint64_t now = control_now_ns();

	if (ev->type == CM_EV_SIDR_REQUEST)
		cm_sidr_reply(ev->conn, &sidr, now);
	else
		cm_reject(ev->conn, reason, (struct cm_private){ 0 }, (struct cm_private){ 0 }, now);
	cm_destroy(ev->conn, now);
}

/** The type of the QP that a REQ asks for. */
static uint8_t
asked_type(const struct cm_req *req)
{
	return req->transport == CM_TRANSPORT_UC       ? UROCE_QPT_UC :
	       req->transport == CM_TRANSPORT_EXTENDED ? UROCE_QPT_XRC_RECV :
							 UROCE_QPT_RC;
}

/** An id for a request that came, or NULL with *@p reason. */
static struct cma_id *
request_id(struct cma_id *listener, const struct cm_event *ev, const uint8_t *data, uint64_t service_id,
	   uint16_t *reason)
{
	struct session *s = listener->session;
	struct cm_ip_hdr hdr;
	struct cma_id *id;
	int rc;

	*reason = CM_REJ_NO_RESOURCES;
	if (s->closing || !cma_event_room(s))
		return NULL;
	id = cma_id_new(s, listener->ps, listener->qp_type, NULL, &rc);
	if (id == NULL)
		return NULL;
	id->passive = true;
	id->state = CMA_CONNECTION;
	id->tos = listener->tos;
	id->flow_label = ev->way->flow_label;
	id->ack_timeout = listener->ack_timeout;
	id->ack_timeout_set = listener->ack_timeout_set;
	memcpy(id->mac, ev->way->remote_mac, 6);
	id->port = cma_port_of(s->control, ev->way->local_gid, &id->sgid_index);
	*reason = CM_REJ_INVALID_GID;
	if (id->port == NULL || !cm_ip_hdr_get(data, CM_IP_HDR_BYTES, &hdr) ||
	    !ip_hdr_take(id, &hdr, ev->way, service_id)) {
		cma_id_free(id);
		return NULL;
	}
	return id;
}

static void
on_request(struct cma *cma, const struct cm_event *ev)
{
	const struct cm_req *req = &ev->msg->req;
	struct cma_id *listener = ev->owner, *id;
	struct ctl_cm_event out = { .type = CTL_CM_EV_CONNECT_REQUEST };
	uint8_t type = asked_type(req);
	uint16_t reason;

	/* The program makes the QP that its listener is for (core/cma.c: cma_ib_check_req_qp_type()). */
	if (type != listener->qp_type) {
		refuse(cma, ev, CM_REJ_INVALID_TRANSPORT_TYPE);
		return;
	}
	id = request_id(listener, ev, req->private_data, req->service_id, &reason);
	if (id != NULL && req->path_mtu > id->port->active_mtu) {
		reason = CM_REJ_INVALID_MTU;
		cma_id_free(id);
		id = NULL;
	}
	if (id != NULL && start_psn(id, &(struct request){ 0 }) != 0) {
		reason = CM_REJ_NO_RESOURCES;
		cma_id_free(id);
		id = NULL;
	}
	if (id == NULL) {
		refuse(cma, ev, reason);
		return;
	}
	id->conn = ev->conn;
	id->qp_type = type;
	cm_conn_set_owner(ev->conn, id);
	id->remote_qpn = req->qpn;
	id->sq_psn = req->starting_psn;
	/* Theirs and ours, the other way round. */
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->path_mtu = req->path_mtu;
	id->timeout = id->ack_timeout_set ? id->ack_timeout : req->primary.ack_timeout;
	id->tos = req->primary.traffic_class;
	/* Both directions of a connection take one way through the network. */
	id->flow_label = req->primary.flow_label;
	out.id = id->obj.handle;
	out.listener = listener->obj.handle;
	out.conn = (struct ctl_cm_conn_param){
		.qp_num = req->qpn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.flow_control = req->flow_control,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		.srq = req->srq,
		.qp_type = type,
	};
	put_private(&out, req->private_data + CM_IP_HDR_BYTES, CM_REQ_PRIVATE_BYTES - CM_IP_HDR_BYTES);
	cma_id_info(id, &out.info);
	cma_id_asks(id, listener);
	cma_event_send(listener, &out, id);
}

static void
on_sidr_request(struct cma *cma, const struct cm_event *ev)
{
	const struct cm_sidr_req *req = &ev->msg->sidr_req;
	struct cma_id *listener = ev->owner, *id;
	struct ctl_cm_event out = { .type = CTL_CM_EV_CONNECT_REQUEST };
	uint16_t reason = CM_REJ_INVALID_TRANSPORT_TYPE;

	id = !cma_is_ud(listener) ? NULL :
				    request_id(listener, ev, req->private_data, req->service_id, &reason);
	if (id == NULL) {
		refuse(cma, ev, reason);
		return;
	}
	id->conn = ev->conn;
	cm_conn_set_owner(ev->conn, id);
	out.id = id->obj.handle;
	out.listener = listener->obj.handle;
	out.conn.qp_type = UROCE_QPT_UD;
	put_private(&out, req->private_data + CM_IP_HDR_BYTES, CM_SIDR_REQ_PRIVATE_BYTES - CM_IP_HDR_BYTES);
	cma_id_info(id, &out.info);
	cma_id_asks(id, listener);
	cma_event_send(listener, &out, id);
}

static void
on_response(struct cma_id *id, const struct cm_rep *rep)
{
	struct ctl_cm_event out = { .id = id->obj.handle, .type = CTL_CM_EV_CONNECT_RESPONSE };

	id->answered = true;
	id->remote_qpn = id->qp_type == UROCE_QPT_XRC_SEND ? rep->local_eecn : rep->qpn;
	id->sq_psn = rep->starting_psn;
	id->responder_resources = rep->initiator_depth;
	id->initiator_depth = rep->responder_resources;
	id->rnr_retry_count = rep->rnr_retry_count;
	out.conn = (struct ctl_cm_conn_param){
		.qp_num = id->remote_qpn,
		.qkey = rep->qkey,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.flow_control = rep->flow_control,
		.rnr_retry_count = rep->rnr_retry_count,
		.srq = rep->srq,
	};
	put_private(&out, rep->private_data, CM_REP_PRIVATE_BYTES);
	cma_event_send(id, &out, NULL);
}

static void
on_sidr_response(struct cma_id *id, const struct cm_sidr_rep *rep)
{
	struct ctl_cm_event out = { .id = id->obj.handle, .type = CTL_CM_EV_UNREACHABLE, .status = rep->status };

	if (rep->status == CM_SIDR_SUCCESS) {
		id->remote_qpn = rep->qpn;
		id->remote_qkey = rep->qkey;
		out.type = CTL_CM_EV_ESTABLISHED;
		out.conn.qp_num = rep->qpn;
		out.conn.qkey = rep->qkey;
		cma_av(id, id->remote.gid, &out.ah);
	}
	put_private(&out, rep->private_data, CM_SIDR_REP_PRIVATE_BYTES);
	cma_event_send(id, &out, NULL);
}

static void
on_rejected(struct cma_id *id, const struct cm_event *ev)
{
	struct ctl_cm_event out = { .id = id->obj.handle, .type = CTL_CM_EV_REJECTED, .status = ev->reason };

	if (ev->msg != NULL && ev->msg->hdr.attr_id == CM_ATTR_REJ)
		put_private(&out, ev->msg->rej.private_data, CM_REJ_PRIVATE_BYTES);
	cma_event_send(id, &out, NULL);
}

static void
on_disconnect(struct cma_id *id)
{
	if (id->disconnected)
		return;
	id->disconnected = true;
	cma_event(id, CTL_CM_EV_DISCONNECTED, 0);
}

void
cma_cm_event(struct cma *cma, const struct cm_event *ev)
{
	struct cma_id *id = ev->owner;

	if (id == NULL) {
		/* Of nobody's listener: there is none to give it to. */
		cm_destroy(ev->conn, control_now_ns());
		return;
	}
	switch (ev->type) {
	case CM_EV_REQUEST:
		on_request(cma, ev);
		break;
	case CM_EV_SIDR_REQUEST:
		on_sidr_request(cma, ev);
		break;
	case CM_EV_RESPONSE:
		on_response(id, &ev->msg->rep);
		break;
	case CM_EV_SIDR_RESPONSE:
		on_sidr_response(id, &ev->msg->sidr_rep);
		break;
	case CM_EV_ESTABLISHED:
		cma_event(id, CTL_CM_EV_ESTABLISHED, 0);
		break;
	case CM_EV_REJECTED:
		on_rejected(id, ev);
		break;
	case CM_EV_UNREACHABLE:
		cma_event(id, CTL_CM_EV_UNREACHABLE, -ETIMEDOUT);
		break;
	case CM_EV_LAP:
		cma_lap(id, &ev->msg->lap);
		break;
	case CM_EV_DISCONNECT:
	case CM_EV_DISCONNECTED:
		on_disconnect(id);
		break;
	case CM_EV_TIMEWAIT_EXIT:
		if (id->disconnected)
			cma_event(id, CTL_CM_EV_TIMEWAIT_EXIT, 0);
		break;
	default:
		/* MRA: the peer needs longer, which is no news to a program. */
		break;
	}
}
