/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: turning the socket's records into struct rdma_cm_event. */
#include "rdmacm/rdmacm_priv.h"

static void
put_private(struct cm_happening *h, const struct ctl_cm_event *r)
{
	uint8_t len = r->conn.private_len;

	memcpy(h->private_data, r->private_data, len);
	if (h->event.id->qp_type == IBV_QPT_UD) {
		h->event.param.ud.private_data = len ? h->private_data : NULL;
		h->event.param.ud.private_data_len = len;
	} else {
		h->event.param.conn.private_data = len ? h->private_data : NULL;
		h->event.param.conn.private_data_len = len;
	}
}

static void
put_param(struct cm_happening *h, const struct ctl_cm_event *r)
{
	struct rdma_conn_param *conn = &h->event.param.conn;
	struct rdma_ud_param *ud = &h->event.param.ud;

	if (h->event.id->qp_type == IBV_QPT_UD) {
		ud->qp_num = r->conn.qp_num;
		ud->qkey = r->conn.qkey;
		if (r->ah.is_global)
			cm_ah_attr(&r->ah, &ud->ah_attr);
	} else {
		conn->responder_resources = r->conn.responder_resources;
		conn->initiator_depth = r->conn.initiator_depth;
		conn->flow_control = r->conn.flow_control;
		conn->retry_count = r->conn.retry_count;
		conn->rnr_retry_count = r->conn.rnr_retry_count;
		conn->srq = r->conn.srq;
		conn->qp_num = r->conn.qp_num;
	}
	put_private(h, r);
}

static void
failed(struct cm_happening *h, enum rdma_cm_event_type type, int err)
{
	h->event.event = type;
	h->event.status = -err;
}

/** Make the id for a connection that a peer requests. */
static int
request(struct cmid *listener, const struct ctl_cm_event *r, struct cm_happening *h)
{
	struct cmid *id = cmid_new(listener->channel, listener->id.context, listener->id.ps, listener->id.qp_type);
	int err;

	if (!id)
		return ENOMEM;
	id->handle = r->id;
	if (r->conn.qp_type != IBV_QPT_UD)
		id->id.qp_type = (enum ibv_qp_type)r->conn.qp_type;
	err = cm_enter(listener->channel, id);
	if (err) {
		cmid_free(id);
		return err;
	}
	err = cmid_update(id, &r->info);
	if (!err && listener->sync && rdma_migrate_id(&id->id, NULL))
		err = errno;
	if (err) {
		rdma_destroy_id(&id->id);
		return err;
	}
	/* Limit the depths to what the peer supports. */
	if (r->conn.initiator_depth < id->initiator_depth)
		id->initiator_depth = r->conn.initiator_depth;
	if (r->conn.responder_resources < id->responder_resources)
		id->responder_resources = r->conn.responder_resources;
	h->event.id = &id->id;
	h->event.listen_id = &listener->id;
	put_param(h, r);
	return 0;
}

/** The reply has arrived: move the QP to RTS, then send the RTU. */
static void
response(struct cmid *id, struct cm_happening *h)
{
	struct client_call c;
	int err;

	if (!id->id.qp)
		return;
	client_call_init(&c, CTL_CM_ACCEPT);
	c.req.cm_connect.id = id->handle;
	c.req.cm_connect.param.responder_resources = RDMA_MAX_RESP_RES;
	c.req.cm_connect.param.initiator_depth = RDMA_MAX_INIT_DEPTH;
	err = cmid_accept_qp(id, &c);
	if (!err) {
		h->event.event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	cmid_qp_error(id);
	failed(h, RDMA_CM_EVENT_CONNECT_ERROR, err);
}

static void
fill(struct cmid *id, const struct ctl_cm_event *r, struct cm_happening *h)
{
	int err = 0;

	h->event.id = &id->id;
	put_param(h, r);
	switch (h->event.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = cmid_update(id, &r->info);
		if (err)
			failed(h, RDMA_CM_EVENT_ADDR_ERROR, err);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = cmid_update(id, &r->info);
		if (err)
			failed(h, RDMA_CM_EVENT_ROUTE_ERROR, err);
		id->id.route.path_rec = &id->path;
		id->id.route.num_paths = 1;
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		response(id, h);
		break;
	case RDMA_CM_EVENT_REJECTED:
		cmid_qp_error(id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		id->disconnected = true;
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		cmid_joined(id, r, h);
		break;
	default:
		break;
	}
}

RDMACM_EXPORT int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct cm_channel *ch;
	struct cm_happening *h;
	struct ctl_cm_event r;
	struct cmid *id;
	int err;

	if (!channel || !event)
		return cm_result(EINVAL);
	ch = to_channel(channel);
	h = calloc(1, sizeof(*h));
	if (!h)
		return cm_result(ENOMEM);
	for (;;) {
		err = cm_read_record(ch, &r);
		if (err) {
			free(h);
			return cm_result(err);
		}
		id = cm_find_counted(ch, r.type == CTL_CM_EV_CONNECT_REQUEST ? r.listener : r.id);
		if (!id) {
			/*
			 * The id was destroyed after its event had been written. If it was a listener, the request is
			 * rejected.
			 */
			if (r.type == CTL_CM_EV_CONNECT_REQUEST)
				cm_call_destroy(ch, r.id, 0);
			cm_read_done(ch);
			continue;
		}
		h->counted = id;
		h->event.event = (enum rdma_cm_event_type)r.type;
		h->event.status = r.status;
		if (r.type != CTL_CM_EV_CONNECT_REQUEST) {
			fill(id, &r, h);
			break;
		}
		pthread_mutex_lock(&id->lock);
		id->taken++;
		pthread_mutex_unlock(&id->lock);
		if (!request(id, &r, h))
			break;
		cm_call_destroy(ch, r.id, 0);
		cmid_uncount(id);
		cm_read_done(ch);
	}
	cm_read_done(ch);
	*event = &h->event;
	return 0;
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

RDMACM_EXPORT const char *
rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED",	  "RDMA_CM_EVENT_ADDR_ERROR",	    "RDMA_CM_EVENT_ROUTE_RESOLVED",
		"RDMA_CM_EVENT_ROUTE_ERROR",	  "RDMA_CM_EVENT_CONNECT_REQUEST",  "RDMA_CM_EVENT_CONNECT_RESPONSE",
		"RDMA_CM_EVENT_CONNECT_ERROR",	  "RDMA_CM_EVENT_UNREACHABLE",	    "RDMA_CM_EVENT_REJECTED",
		"RDMA_CM_EVENT_ESTABLISHED",	  "RDMA_CM_EVENT_DISCONNECTED",	    "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN",	  "RDMA_CM_EVENT_MULTICAST_ERROR",  "RDMA_CM_EVENT_ADDR_CHANGE",
		"RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return (size_t)event < sizeof(names) / sizeof(names[0]) ? names[event] : "UNKNOWN EVENT";
}
