/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of lib/cm: requests become new ids, everything else becomes an event of the id concerned. */
#include <rte_common.h>

#include "control/cma/cma_priv.h"

/** Take the addresses from the RDMA CM's header. @return false: they aren't those of the packet. */
static bool
ip_hdr_take(struct cma_id *id, const struct cm_ip_hdr *h, const struct cm_av *av, uint64_t service_id)
{
	bool v4 = h->ip_version == 4;
	bool src_ok = gid_equal(&h->src, &av->remote_gid) || (av->own && gid_is_loopback(&h->src));
	bool dst_ok = gid_equal(&h->dst, &av->local_gid) || (av->own && gid_is_loopback(&h->dst));

	/* With a mapped address in a header of version 6 an IPv4 peer could pass for an IPv6 one. */
	if (gid_is_v4(&h->src) != v4 || gid_is_v4(&h->dst) != v4 || !src_ok || !dst_ok)
		return false;
	id->local = (struct ctl_cm_addr){ .family = h->ip_version, .port = cm_service_port(service_id) };
	id->remote = (struct ctl_cm_addr){ .family = h->ip_version, .port = h->port };
	memcpy(id->local.gid, &h->dst, 16);
	memcpy(id->remote.gid, &h->src, 16);
	return true;
}

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

/** @return the type of the QP that a REQ asks for. */
static uint8_t
asked_type(const struct cm_req *req)
{
	return req->transport == CM_TRANSPORT_UC       ? UROCE_QPT_UC :
	       req->transport == CM_TRANSPORT_EXTENDED ? UROCE_QPT_XRC_RECV :
							 UROCE_QPT_RC;
}

/** Create an id for a connection request. @return NULL: reject the request, with *@p reason. */
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
	id->flow_label = ev->av->flow_label;
	id->ack_timeout = listener->ack_timeout;
	id->ack_timeout_set = listener->ack_timeout_set;
	memcpy(id->mac, ev->av->remote_mac, 6);
	id->port = cma_port_of(s->control, &ev->av->local_gid, &id->sgid_index);
	*reason = CM_REJ_INVALID_GID;
	if (id->port == NULL || !cm_ip_hdr_get(data, CM_IP_HDR_BYTES, &hdr) ||
	    !ip_hdr_take(id, &hdr, ev->av, service_id)) {
		cma_id_free(id);
		return NULL;
	}
	return id;
}

/**
 * Report a request to the listener's program.
 * @param data  The request's private data, @p bytes long, which begins with the RDMA CM's header.
 */
static void
announce(struct cma_id *id, struct cma_id *listener, struct ctl_cm_event *out, const uint8_t *data, uint32_t bytes)
{
	out->id = id->obj.handle;
	out->listener = listener->obj.handle;
	put_private(out, data + CM_IP_HDR_BYTES, bytes - CM_IP_HDR_BYTES);
	cma_id_info(id, &out->info);
	cma_id_asks(id, listener);
	cma_event_send(listener, out, id);
}

static void
on_request(struct cma *cma, const struct cm_event *ev)
{
	const struct cm_req *req = &ev->msg->req;
	struct cma_id *listener = ev->owner, *id;
	struct ctl_cm_event out = { .type = CTL_CM_EV_CONNECT_REQUEST };
	uint8_t type = asked_type(req);
	uint16_t reason;

	/* The program will create a QP of its listener's type (Linux, core/cma.c: cma_ib_check_req_qp_type()). */
	if (type != listener->qp_type) {
		refuse(cma, ev, CM_REJ_INVALID_TRANSPORT_TYPE);
		return;
	}
	id = request_id(listener, ev, req->private_data, req->service_id, &reason);
	if (id == NULL) {
		refuse(cma, ev, reason);
		return;
	}
	if (req->path_mtu > id->port->active_mtu || cma_id_start_psn(id, &(struct request){ 0 }) != 0) {
		reason = req->path_mtu > id->port->active_mtu ? CM_REJ_INVALID_MTU : CM_REJ_NO_RESOURCES;
		cma_id_free(id);
		refuse(cma, ev, reason);
		return;
	}
	id->conn = ev->conn;
	cm_conn_set_owner(ev->conn, id);
	id->qp_type = type;
	id->remote_qpn = req->qpn;
	id->sq_psn = req->starting_psn;
	/* The READs and atomics that the peer initiates are those we respond to, and the other way round. */
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->path_mtu = req->path_mtu;
	id->timeout = id->ack_timeout_set ? id->ack_timeout : req->primary.ack_timeout;
	id->tos = req->primary.traffic_class;
	/* Both directions of a connection use the same flow label, and so take the same path through the network. */
	id->flow_label = req->primary.flow_label;
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
	announce(id, listener, &out, req->private_data, CM_REQ_PRIVATE_BYTES);
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
	out.conn.qp_type = UROCE_QPT_UD;
	announce(id, listener, &out, req->private_data, CM_SIDR_REQ_PRIVATE_BYTES);
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
		cma_av(id, cma_peer_gid(id), &out.ah);
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
		/* The listener isn't an id's, so no program can accept the request. */
		cm_destroy(ev->conn, control_now_ns());
		return;
	}
	/*
	 * A program isn't told what becomes of a request that it hasn't accepted yet: its id has the listener's context, which it would take for
	 * a connection's. To accept it will fail (Linux, core/ucma.c: ucma_event_handler()).
	 */
	if (id->passive && !id->answered)
		return;
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
		/* MRA: the peer needs more time. Programs aren't told. */
		break;
	}
}
