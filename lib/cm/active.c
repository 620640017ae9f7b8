/* SPDX-License-Identifier: BSD-3-Clause */
/* The connecting end: sends a REQ, receives a REP, sends an RTU. */
#include "base/mark.h"
#include "cm/cm_priv.h"

/* ---- REQ ---- */
static bool
transport_ok(enum cm_transport t)
{
	return t == CM_TRANSPORT_RC || t == CM_TRANSPORT_UC || t == CM_TRANSPORT_EXTENDED;
}

static bool
param_ok(const struct cm_connect_param *p)
{
	return cm_private_ok(&p->private_data, CM_REQ_PRIVATE_BYTES) && p->qpn >= CM_MIN_QPN && p->qpn < CM_QPN_MASK &&
	       transport_ok(p->transport) && p->path_mtu > 0 && p->path_mtu <= CM_MAX_MTU_CODE && p->retry_count <= 7 && p->rnr_retry_count <= 7 &&
	       p->max_cm_retries <= 15 && p->packet_life <= CM_MAX_PACKET_LIFE && p->ack_timeout <= 31 &&
	       p->remote_response_timeout <= CM_MAX_RESPONSE_TIMEOUT &&
	       p->local_response_timeout <= CM_MAX_RESPONSE_TIMEOUT;
}

static void
fill_path(struct cm_path *path, const struct cm_connect_param *p, uint8_t ack_timeout)
{
	path->local_lid = path->remote_lid = CM_LID_PERMISSIVE;
	path->local_gid = p->av.local_gid;
	path->remote_gid = p->av.remote_gid;
	path->flow_label = p->av.flow_label;
	path->traffic_class = p->av.traffic_class;
	path->hop_limit = p->av.hop_limit;
	path->packet_rate = p->packet_rate;
	path->ack_timeout = ack_timeout;
}

static void
fill_req(struct cm_msg *m, const struct cm_conn *c, const struct cm_connect_param *p, uint8_t ack_timeout)
{
	struct cm_req *r = &m->req;

	cm_msg_init(m, CM_ATTR_REQ, conn_own_tid(c));
	r->local_comm_id = c->local_id;
	r->service_id = p->service_id;
	r->ca_guid = p->ca_guid;
	r->qkey = p->qkey;
	r->qpn = p->qpn;
	r->initiator_depth = p->initiator_depth;
	r->remote_response_timeout = p->remote_response_timeout;
	r->transport = p->transport;
	r->flow_control = p->flow_control;
	r->starting_psn = p->starting_psn;
	r->local_response_timeout = p->local_response_timeout;
	r->pkey = p->av.pkey;
	r->path_mtu = p->path_mtu;
	r->max_cm_retries = p->max_cm_retries;
	if (c->xrc) {
		/*
		 * An initiator QP answers no requests, and its target sends none, so the REQ says no more (Linux:
		 * cm_format_req()).
		 */
		r->ext_transport = CM_EXT_TRANSPORT_XRC;
	} else {
		r->responder_resources = p->responder_resources;
		r->retry_count = p->retry_count;
		r->rnr_retry_count = p->rnr_retry_count;
		r->srq = p->srq;
	}
	fill_path(&r->primary, p, ack_timeout);
	cm_private_put(&p->private_data, r->private_data);
}

static void
take_times(struct cm_conn *c, const struct cm_connect_param *p, uint8_t ack_timeout)
{
	uint8_t wait = cm_at_most(ack_timeout, CM_MAX_TIMEWAIT);

	c->life_ns = cm_time_ns(p->packet_life);
	c->interval_ns = cm_time_ns(p->remote_response_timeout) + 2 * c->life_ns;
	if (c->interval_ns < CM_MIN_INTERVAL_NS)
		c->interval_ns = CM_MIN_INTERVAL_NS;
	c->timewait_ns = cm_time_ns(wait < CM_MIN_TIMEWAIT ? CM_MIN_TIMEWAIT : wait);
	c->max_retries = p->max_cm_retries;
}

struct cm_conn *
cm_connect(struct cm *cm, const struct cm_connect_param *p, uint64_t now_ns)
{
	uint8_t ack_timeout = p->ack_timeout != 0 ? p->ack_timeout : p->packet_life + 1;
	struct cm_conn *c;
	struct cm_key key;
	struct cm_msg m;

	if (!param_ok(p))
		return cm_null(EINVAL);
	c = conn_new(cm, &p->av);
	if (c == NULL)
		return NULL;
	c->owner = p->owner;
	c->qpn = p->qpn;
	c->service_id = p->service_id;
	c->ca_guid = p->ca_guid;
	c->peer_to_peer = p->peer_to_peer;
	c->xrc = p->transport == CM_TRANSPORT_EXTENDED;
	take_times(c, p, ack_timeout);
	if (p->peer_to_peer) {
		key = cm_key(CM_KEY_PEER2PEER, &c->av.remote_gid, c->service_id, 0);
		table_add(cm, &c->by_request, &key);
	}
	fill_req(&m, c, p, ack_timeout);
	conn_set_state(c, CM_REQ_SENT);
	conn_send_reliably(c, &m, now_ns);
	return c;
}

/* ---- REP ---- */
/* Reject a REP that answers no REQ of ours, so that its sender doesn't wait for an RTU (12.9.8.5). */
static void
refuse_unknown_rep(struct cm *cm, const struct cm_av *av, const struct cm_msg *m)
{
	struct cm_rej rej = {
		.local_comm_id = m->rep.remote_comm_id,
		.remote_comm_id = m->rep.local_comm_id,
		.msg_rejected = CM_MSG_OF_REP,
		.reason = CM_REJ_INVALID_COMM_ID,
	};

	MARK("a REP answers no REQ of ours");
	CM_COUNT(cm, rej_unknown_id);
	reject_stateless(cm, av, m->hdr.tid, &rej);
}

static void
repeated_rep(struct cm_conn *c)
{
	uint16_t out = conn_out_attr(c);

	CM_COUNT(c->cm, rep_duplicate);
	switch (c->state) {
	case CM_MRA_REP_SENT:
		MARK("a REP is repeated after it was answered by an MRA");
		conn_resend(c);
		break;
	case CM_ESTABLISHED:
	case CM_TIMEWAIT:
		/* After an RTU or REJ, repeat it; after a DREQ or DREP the REP doesn't matter any more. */
		if (out == CM_ATTR_RTU || out == CM_ATTR_REJ) {
			MARK_IF(out == CM_ATTR_RTU, "the RTU was lost, and the REP comes again");
			MARK_IF(out == CM_ATTR_REJ, "the REJ of a REP was lost, and the REP comes again");
			conn_resend(c);
			break;
		}
		/* fallthrough */
	default:
		CM_COUNT(c->cm, rx_duplicate);
	}
}

static void
stale_rep(struct cm_conn *c, struct cm_conn *old, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns,
	  struct cm_event *ev)
{
	static const struct cm_private none;

	MARK_UNIT("a REP names the QP of another connection", "unit/cm/reject");
	CM_COUNT(c->cm, rej_stale);
	reject_send(c, CM_MSG_OF_REP, CM_REJ_STALE_CONN, &none, &none);
	conn_enter_timewait(c, now_ns);
	stale_conn(old, now_ns);
	cm_event_set_msg(ev, CM_EV_REJECTED, c, av, m);
	ev->reason = CM_REJ_STALE_CONN;
	ev->local = true;
}

void
handle_rep(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, av, m->rep.remote_comm_id, m->rep.local_comm_id), *old;
	uint32_t qpn;

	if (c == NULL || c->passive) {
		refuse_unknown_rep(cm, av, m);
		return;
	}
	if (c->state != CM_REQ_SENT && c->state != CM_MRA_REQ_RCVD) {
		repeated_rep(c);
		return;
	}
	qpn = c->xrc ? m->rep.local_eecn : m->rep.qpn;
	if (m->rep.local_comm_id == 0 || qpn < CM_MIN_QPN || qpn == CM_QPN_MASK) {
		CM_COUNT(cm, rx_bad_field);
		return;
	}
	c->remote_id = m->rep.local_comm_id;
	c->tid = m->hdr.tid;
	conn_timer_stop(c);
	old = conn_stale(cm, av, m->rep.ca_guid, qpn);
	if (old != NULL) {
		stale_rep(c, old, av, m, now_ns, ev);
		return;
	}
	conn_set_remote_qpn(c, m->rep.ca_guid, qpn);
	conn_set_state(c, CM_REP_RCVD);
	cm_event_set_msg(ev, CM_EV_RESPONSE, c, av, m);
}

/* ---- RTU ---- */
int
cm_rtu(struct cm_conn *c, struct cm_private private_data, uint64_t now_ns)
{
	struct cm_msg m;

	if (c->state != CM_REP_RCVD && c->state != CM_MRA_REP_SENT)
		return EINVAL;
	if (!cm_private_ok(&private_data, CM_RTU_PRIVATE_BYTES))
		return EINVAL;
	cm_msg_init(&m, CM_ATTR_RTU, c->tid);
	m.rtu.local_comm_id = c->local_id;
	m.rtu.remote_comm_id = c->remote_id;
	cm_private_put(&private_data, m.rtu.private_data);
	conn_send(c, &m);
	conn_set_state(c, CM_ESTABLISHED);
	CM_COUNT(c->cm, established);
	return 0;
}
