/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of ids: turns a program's requests into calls of lib/cm. */
#include <rte_common.h>

#include "control/cma/cma_priv.h"
#include "control/core/quota_priv.h"
#include "control/obj/identity_priv.h"

/**
 * Timeouts have 5 bits and are powers of 2. An ACK takes up to two packet life times, so one more than their exponent.
 */
static uint8_t
ack_timeout_of(const struct cma_id *id)
{
	return id->ack_timeout_set ? id->ack_timeout : CMA_PACKET_LIFE + 1;
}

static void
id_av(const struct cma_id *id, struct cm_av *av)
{
	const struct net_addr *own = net_addr_find(id->port, cma_own_gid(id));

	*av = (struct cm_av){
		.local_gid = *cma_own_gid(id),
		.remote_gid = *cma_peer_gid(id),
		.port = id->port->index,
		.pkey = id->port->conf.pkeys[0],
		.flow_label = id->flow_label,
		.traffic_class = id->tos,
		.hop_limit = CMA_HOP_LIMIT,
		.resolved = true,
	};
	memcpy(av->remote_mac, id->mac, 6);
	if (own != NULL && own->vlan != 0)
		av->vlan_tci = (uint16_t)((id->tos >> 5) << 13 | own->vlan);
}

/** Build the RDMA CM's header, which precedes the program's private data. */
static void
ip_hdr_of(const struct cma_id *id, uint8_t data[CM_IP_HDR_BYTES])
{
	const struct cm_ip_hdr h = {
		.ip_version = (uint8_t)id->local.family,
		.port = id->local.port,
		.src = *gid_at(id->local.gid),
		.dst = *gid_at(id->remote.gid),
	};

	cm_ip_hdr_put(&h, data);
}

/* ---- Listening ---- */
int
cma_listen(struct cma_id *id, uint32_t backlog)
{
	const struct cm_listen_param p = {
		.service_id = cm_service_id((enum cm_port_space)id->ps, id->local.port),
		.scope = !gid_is_zero(gid_at(id->local.gid)) ? CM_LISTEN_GID :
			 id->local.family == 4	      ? CM_LISTEN_ANY_IPV4 :
			 id->af_only		      ? CM_LISTEN_ANY_IPV6 :
							CM_LISTEN_ANY,
		.gid = *gid_at(id->local.gid),
		.backlog = RTE_MIN(backlog, (uint32_t)CM_MAX_BACKLOG),
		.owner = id,
	};

	id->listener = cm_listen(id->session->control->cma->cm, &p);
	if (id->listener == NULL)
		return errno;
	id->state = CMA_LISTENING;
	return 0;
}

int
op_cm_listen(struct session *s, struct request *r)
{
	const struct ctl_cm_listen_req *q = &r->req->cm_listen;
	struct cma_id *id = r->obj;
	const struct ctl_cm_addr any = { .family = 4 };
	int rc;

	if (id->state == CMA_IDLE) {
		rc = cma_bind_id(id, &any, r);
		if (rc != 0)
			return rc;
	}
	if (id->state != CMA_BOUND)
		return req_fail(r, EINVAL, "this id can't listen: it has a destination, or listens already");
	/*
	 * Of two listeners on one port, the one with the more specific address would get requests meant for the other,
	 * which may be another user's.
	 */
	rc = cma_may_listen(id);
	if (rc != 0)
		return req_fail(r, rc, "another id listens on port %u", id->local.port);
	rc = cma_listen(id, q->backlog);
	if (rc != 0)
		return req_fail(r, rc, "cannot listen on port %u: %s", id->local.port, strerror(rc));
	cma_id_info(id, &r->rsp.cm_info);
	return 0;
}

/* ---- Connecting ---- */
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
		.ca_guid = control_port_guid(id->port),
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

	id_av(id, &p.av);
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

	id_av(id, &p.av);
	id->conn = cm_sidr_request(id->session->control->cma->cm, &p, control_now_ns());
	return id->conn != NULL ? 0 : req_fail(r, errno, "cannot connect: %s", strerror(errno));
}

/** Check that the QP that a request names is one of its user's. A peer would take the connection of its owner for stale. */
static int
check_qpn(struct session *s, uint32_t qpn, struct request *r)
{
	struct control *c = s->control;

	if (s->own || identity_owns_qp(c, s->user, qpn))
		return 0;
	c->refused_qpns++;
	return req_fail(r, EINVAL, "this user has no QP with number %#x", qpn);
}

int
op_cm_connect(struct session *s, struct request *r)
{
	const struct ctl_cm_connect_req *q = &r->req->cm_connect;
	struct cma_id *id = r->obj;
	uint8_t data[CM_SIDR_REQ_PRIVATE_BYTES];
	uint32_t room;
	int rc;

	if (id->state != CMA_ROUTED)
		return req_fail(r, EINVAL, "resolve address and route first");
	if (id->qp_type == UROCE_QPT_XRC_RECV)
		return req_fail(r, EINVAL, "an XRC target can't connect: its initiator does");
	room = (cma_is_ud(id) ? CM_SIDR_REQ_PRIVATE_BYTES : CM_REQ_PRIVATE_BYTES) - CM_IP_HDR_BYTES;
	if (q->param.private_len > room)
		return req_fail(r, EINVAL, "%u bytes of private data: at most %u", q->param.private_len, room);
	if (q->param.qp_num > CMA_QPN_MASK || (!cma_is_ud(id) && q->param.qp_num < 2))
		return req_fail(r, EINVAL, "no QP has number %#x", q->param.qp_num);
	rc = cma_is_ud(id) ? 0 : check_qpn(s, q->param.qp_num, r);
	if (rc == 0)
		rc = cma_event_want_room(s, r);
	if (rc == 0)
		rc = quota_connect(s, r);
	if (rc == 0)
		rc = cma_id_start_psn(id, r);
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

/** @return the id, which has a connection, or NULL, with @p r failed. */
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
		.qkey = q->param.qkey != 0 ? q->param.qkey : CTL_CM_UDP_QKEY,
		.private_data = { q->private_data, q->param.private_len },
	};

	return cm_sidr_reply(id->conn, &p, control_now_ns());
}

static int
accept_rc(struct cma_id *id, const struct ctl_cm_connect_req *q)
{
	struct cm_accept_param p = {
		.ca_guid = control_port_guid(id->port),
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
	rc = check_qpn(s, q->param.qp_num, r);
	if (rc != 0)
		return rc;
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
	/* If either end has disconnected already, there is nothing to do. */
	if (rc != 0 && !id->disconnected)
		return req_fail(r, rc, "this id is not connected");
	return 0;
}
