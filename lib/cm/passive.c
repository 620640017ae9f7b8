/* SPDX-License-Identifier: BSD-3-Clause */
/* The accepting end: receives a REQ, sends a REP, receives an RTU. */
#include "base/mark.h"
#include "cm/cm_priv.h"

/* ---- REQ ---- */
static void
refuse(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, struct cm_rej *rej, uint16_t reason)
{
	rej->remote_comm_id = m->req.local_comm_id;
	rej->msg_rejected = CM_MSG_OF_REQ;
	rej->reason = reason;
	reject_stateless(cm, av, m->hdr.tid, rej);
}

/* Handle a repeated REQ (12.9.8.2): repeat the answer that it got. */
static void
repeated_req(struct cm_conn *c, const struct cm_msg *m, uint64_t now_ns)
{
	struct cm *cm = c->cm;
	struct cm_rej rej = { .local_comm_id = c->local_id };

	CM_COUNT(cm, req_duplicate);
	switch (c->state) {
	case CM_MRA_REQ_SENT:
	case CM_REP_SENT:
		conn_resend(c);
		break;
	case CM_TIMEWAIT:
		if (conn_out_attr(c) == CM_ATTR_REJ) {
			conn_resend(c);
			if (c->by_qpn.pprev == NULL)
				conn_timer(c, now_ns + c->kept_ns);
			break;
		}
		/* fallthrough */
	case CM_DREQ_SENT:
		CM_COUNT(cm, rej_stale);
		refuse(cm, &c->av, m, &rej, CM_REJ_STALE_CONN);
		break;
	default: /* the owner hasn't decided yet, or the peer has progressed beyond this REQ */
		CM_COUNT(cm, rx_duplicate);
	}
}

static bool
is_xrc(const struct cm_req *r)
{
	return r->transport == CM_TRANSPORT_EXTENDED && r->ext_transport == CM_EXT_TRANSPORT_XRC;
}

/*
 * @return 0 if this CM can serve the request, else the reason to refuse it; rej gets the additional information for it.
 */
static uint16_t
check_req(const struct cm_av *av, const struct cm_req *r, struct cm_rej *rej)
{
	if (r->transport != CM_TRANSPORT_RC && r->transport != CM_TRANSPORT_UC && !is_xrc(r))
		return CM_REJ_INVALID_TRANSPORT_TYPE;
	if (r->path_mtu == 0 || r->path_mtu > CM_MAX_MTU_CODE) {
		rej->ari_bytes = 1;
		rej->ari[0] = CM_MAX_MTU_CODE << 4; /* 12.6.7.2: the acceptable MTU, in the upper four bits */
		return CM_REJ_INVALID_MTU;
	}
	/* A path that leads elsewhere would make our QP send to a third party. */
	if (!gid_equal(&r->primary.remote_gid, &av->local_gid) || !gid_equal(&r->primary.local_gid, &av->remote_gid)) {
		rej->ari_bytes = sizeof(av->local_gid);
		memcpy(rej->ari, &av->local_gid, sizeof(av->local_gid));
		return CM_REJ_INVALID_GID;
	}
	if (!request_ip_hdr_ok(r->service_id, r->private_data, CM_REQ_PRIVATE_BYTES))
		return CM_REJ_CONSUMER_DEFINED;
	return 0;
}

/* Take over the times in the REQ. */
static void
take_times(struct cm_conn *c, const struct cm_req *r)
{
	uint8_t ack = cm_at_most(r->primary.ack_timeout, CM_MAX_TIMEWAIT);
	uint64_t response_ns = cm_time_ns(cm_at_most(r->local_response_timeout, CM_MAX_RESPONSE_TIMEOUT));
	uint64_t request_ns = cm_time_ns(cm_at_most(r->remote_response_timeout, CM_MAX_RESPONSE_TIMEOUT));

	/* The ACK timeout includes the packet life time twice. */
	c->life_ns = cm_time_ns(ack) / 2;
	c->interval_ns = response_ns + 2 * c->life_ns;
	if (c->interval_ns < CM_MIN_INTERVAL_NS)
		c->interval_ns = CM_MIN_INTERVAL_NS;
	c->timewait_ns = cm_time_ns(ack < CM_MIN_TIMEWAIT ? CM_MIN_TIMEWAIT : ack);
	c->kept_ns = 2 * (request_ns + 2 * c->life_ns) + c->timewait_ns;
	c->max_retries = r->max_cm_retries;
}

static void
take_req(struct cm_conn *c, const struct cm_av *av, const struct cm_msg *m)
{
	struct cm_key key = cm_key(CM_KEY_REQ, &av->remote_gid, m->req.ca_guid, m->req.local_comm_id);

	c->passive = true;
	c->av = *av;
	c->remote_id = m->req.local_comm_id;
	c->tid = m->hdr.tid;
	c->xrc = is_xrc(&m->req);
	c->alternate = m->req.alternate.local_lid != 0;
	take_times(c, &m->req);
	table_add(c->cm, &c->by_request, &key);
	conn_set_remote_qpn(c, m->req.ca_guid, m->req.qpn);
	conn_timer_stop(c);
	conn_set_state(c, CM_REQ_RCVD);
}

/* @return our own REQ to the same service at the same address, if it is one half of a peer-to-peer pair. */
static struct cm_conn *
find_peer_to_peer(const struct cm *cm, const struct cm_av *av, const struct cm_req *r)
{
	struct cm_key key = cm_key(CM_KEY_PEER2PEER, &av->remote_gid, r->service_id, 0);
	struct cm_node *n = table_find(cm, &key);
	struct cm_conn *c = n == NULL ? NULL : container_of(n, struct cm_conn, by_request);

	if (c == NULL || !gid_equal(&c->av.local_gid, &av->local_gid))
		return NULL;
	return c;
}

/* 12.10.4: if two ends connect to each other, the one with the larger CA GUID, then the larger QPN, remains active. */
static bool
stays_active(const struct cm_conn *c, const struct cm_req *r)
{
	return c->ca_guid != r->ca_guid ? c->ca_guid > r->ca_guid : c->qpn > r->qpn;
}

static void
stale(struct cm *cm, struct cm_conn *old, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns)
{
	struct cm_rej rej = { 0 };

	MARK_UNIT("a REQ names the QP of another connection", "unit/cm/reject");
	CM_COUNT(cm, rej_stale);
	refuse(cm, av, m, &rej, CM_REJ_STALE_CONN);
	stale_conn(old, now_ns);
}

static void
request_event(struct cm_conn *c, struct cm_listener *l, const struct cm_av *av, const struct cm_msg *m,
	      struct cm_event *ev)
{
	cm_event_set_msg(ev, CM_EV_REQUEST, c, av, m);
	ev->listener = l;
	if (l != NULL)
		ev->owner = l->owner;
}

void
handle_req(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_key key = cm_key(CM_KEY_REQ, &av->remote_gid, m->req.ca_guid, m->req.local_comm_id);
	struct cm_node *seen = table_find(cm, &key);
	struct cm_rej rej = { 0 };
	struct cm_listener *l;
	struct cm_conn *c, *old;
	uint16_t reason;

	if (m->req.local_comm_id == 0 || m->req.qpn < CM_MIN_QPN || m->req.qpn == CM_QPN_MASK) {
		CM_COUNT(cm, rx_bad_field);
		return;
	}
	if (seen != NULL) {
		repeated_req(container_of(seen, struct cm_conn, by_request), m, now_ns);
		return;
	}
	reason = check_req(av, &m->req, &rej);
	if (reason != 0) {
		CM_COUNT(cm, rej_bad_request);
		refuse(cm, av, m, &rej, reason);
		return;
	}
	old = conn_stale(cm, av, m->req.ca_guid, m->req.qpn);
	if (old != NULL && old->remote_id == m->req.local_comm_id) {
		/* A late REQ of the passive end of a peer-to-peer pair, whose REP we have already received. */
		MARK_UNIT("the REQ of a peer-to-peer pair comes after the REP", "unit/cm/connect");
		CM_COUNT(cm, req_duplicate);
		CM_COUNT(cm, rx_duplicate);
		return;
	}
	if (old != NULL) {
		stale(cm, old, av, m, now_ns);
		return;
	}
	c = find_peer_to_peer(cm, av, &m->req);
	if (c != NULL && stays_active(c, &m->req)) {
		CM_COUNT(cm, rx_peer_active);
		return;
	}
	if (c != NULL) {
		take_req(c, av, m);
		request_event(c, NULL, av, m, ev);
		return;
	}
	l = listener_find(cm, m->req.service_id, av, m->req.private_data, CM_REQ_PRIVATE_BYTES);
	if (l == NULL) {
		CM_COUNT(cm, rej_no_listener);
		refuse(cm, av, m, &rej, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	c = listener_admit(cm, l, av);
	if (c == NULL) {
		refuse(cm, av, m, &rej, CM_REJ_NO_RESOURCES);
		return;
	}
	take_req(c, av, m);
	request_event(c, l, av, m, ev);
}

/* ---- REP ---- */
int
cm_accept(struct cm_conn *c, const struct cm_accept_param *p, uint64_t now_ns)
{
	struct cm_msg m;

	if (c->state != CM_REQ_RCVD && c->state != CM_MRA_REQ_SENT)
		return EINVAL;
	if (!cm_private_ok(&p->private_data, CM_REP_PRIVATE_BYTES) || p->qpn < CM_MIN_QPN || p->qpn >= CM_QPN_MASK)
		return EINVAL;
	c->qpn = p->qpn;
	c->ca_guid = p->ca_guid;
	cm_msg_init(&m, CM_ATTR_REP, c->tid);
	m.rep.local_comm_id = c->local_id;
	m.rep.remote_comm_id = c->remote_id;
	m.rep.qkey = p->qkey;
	m.rep.starting_psn = p->starting_psn;
	m.rep.responder_resources = p->responder_resources;
	if (c->xrc) {
		/* XRC: the target's QP number is in the field of the EE context (Linux: cm_format_rep()). */
		m.rep.local_eecn = p->qpn;
		m.rep.srq = 1;
	} else {
		m.rep.qpn = p->qpn;
		m.rep.initiator_depth = p->initiator_depth;
		m.rep.srq = p->srq;
	}
	m.rep.target_ack_delay = p->target_ack_delay;
	m.rep.failover = c->alternate ? CM_FAILOVER_NOT_SUPPORTED : CM_FAILOVER_ACCEPTED;
	m.rep.flow_control = p->flow_control;
	m.rep.rnr_retry_count = p->rnr_retry_count;
	m.rep.ca_guid = p->ca_guid;
	cm_private_put(&p->private_data, m.rep.private_data);
	conn_send_reliably(c, &m, now_ns);
	conn_set_state(c, CM_REP_SENT);
	return 0;
}

/* ---- RTU, and what replaces it ---- */
static void
established(struct cm_conn *c, struct cm_event *ev)
{
	conn_timer_stop(c);
	conn_set_state(c, CM_ESTABLISHED);
	CM_COUNT(c->cm, established);
	cm_event_set(ev, CM_EV_ESTABLISHED, c);
}

void
handle_rtu(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, av, m->rtu.remote_comm_id, m->rtu.local_comm_id);

	if (c == NULL) {
		CM_COUNT(cm, rx_unknown_id);
		return;
	}
	switch (c->state) {
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		established(c, ev);
		ev->msg = m;
		ev->av = av;
		break;
	case CM_ESTABLISHED:
		if (!stale_answered(c))
			CM_COUNT(cm, rx_duplicate);
		break;
	case CM_TIMEWAIT:
		/* The REP was withdrawn, and the REJ that said so may have been lost. */
		if (conn_out_attr(c) == CM_ATTR_REJ) {
			conn_resend(c);
			break;
		}
		/* fallthrough */
	default:
		CM_COUNT(cm, rx_wrong_state);
	}
}

int
cm_establish(struct cm_conn *c, uint64_t now_ns)
{
	struct cm_event ev = { .type = CM_NB_EVENTS };
	struct cm *cm = c->cm;

	if (c->state == CM_ESTABLISHED)
		return EISCONN;
	if (c->state != CM_REP_SENT && c->state != CM_MRA_REP_RCVD)
		return EINVAL;
	established(c, &ev);
	cm_event_deliver(cm, &ev);
	return 0;
}
