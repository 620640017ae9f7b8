/* SPDX-License-Identifier: BSD-3-Clause */
/* DREQ and DREP, initiated by either end or by both at once. */
#include "cm/cm_priv.h"

void
disconnect_send_dreq(struct cm_conn *c, const struct cm_private *private_data, uint64_t now_ns)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_DREQ, conn_own_tid(c));
	m.dreq.local_comm_id = c->local_id;
	m.dreq.remote_comm_id = c->remote_id;
	m.dreq.remote_qpn = c->remote_qpn;
	cm_private_put(private_data, m.dreq.private_data);
	conn_set_state(c, CM_DREQ_SENT);
	conn_send_reliably(c, &m, now_ns);
}

void
disconnect_send_drep(struct cm_conn *c, const struct cm_private *private_data)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_DREP, c->tid);
	m.drep.local_comm_id = c->local_id;
	m.drep.remote_comm_id = c->remote_id;
	cm_private_put(private_data, m.drep.private_data);
	conn_send(c, &m);
}

int
cm_disconnect(struct cm_conn *c, struct cm_private private_data, uint64_t now_ns)
{
	switch (c->state) {
	case CM_ESTABLISHED:
		if (!cm_private_ok(&private_data, CM_DREQ_PRIVATE_BYTES))
			return EINVAL;
		disconnect_send_dreq(c, &private_data, now_ns);
		return 0;
	case CM_DREQ_RCVD:
		if (!cm_private_ok(&private_data, CM_DREP_PRIVATE_BYTES))
			return EINVAL;
		disconnect_send_drep(c, &private_data);
		conn_enter_timewait(c, now_ns);
		return 0;
	default:
		return EINVAL;
	}
}

/* Answer a DREQ for a connection that we don't have: then it is disconnected (12.9.8.6). */
static void
answer_unknown_dreq(struct cm *cm, const struct cm_av *av, const struct cm_msg *m)
{
	struct cm_msg out;

	CM_COUNT(cm, drep_unknown_id);
	cm_msg_init(&out, CM_ATTR_DREP, m->hdr.tid);
	out.drep.local_comm_id = m->dreq.remote_comm_id;
	out.drep.remote_comm_id = m->dreq.local_comm_id;
	cm_send_msg(cm, av, &out);
}

static void
disconnected(struct cm_conn *c, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	conn_enter_timewait(c, now_ns);
	CM_COUNT(c->cm, disconnected);
	cm_event_set_msg(ev, CM_EV_DISCONNECTED, c, av, m);
}

void
handle_dreq(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	static const struct cm_private none;
	struct cm_conn *c = conn_find(cm, av, m->dreq.remote_comm_id, m->dreq.local_comm_id);

	if (c == NULL) {
		answer_unknown_dreq(cm, av, m);
		return;
	}
	if (c->qpn != m->dreq.remote_qpn) {
		CM_COUNT(cm, rx_wrong_qpn);
		return;
	}
	switch (c->state) {
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
	case CM_ESTABLISHED:
		c->tid = m->hdr.tid;
		conn_timer_stop(c);
		conn_set_state(c, CM_DREQ_RCVD);
		CM_COUNT(cm, disconnected);
		cm_event_set_msg(ev, CM_EV_DISCONNECT, c, av, m);
		break;
	case CM_DREQ_SENT:
		/* Both ends disconnect at once: each answers the other's DREQ. */
		c->tid = m->hdr.tid;
		disconnect_send_drep(c, &none);
		disconnected(c, av, m, now_ns, ev);
		break;
	case CM_TIMEWAIT:
		CM_COUNT(cm, dreq_duplicate);
		c->tid = m->hdr.tid;
		/* Whose REQ was rejected as stale, without a REP, learns the peer's ID only now. */
		if (c->remote_id == 0)
			c->remote_id = m->dreq.local_comm_id;
		if (conn_out_attr(c) == CM_ATTR_DREP)
			conn_resend(c);
		else
			disconnect_send_drep(c, &none);
		break;
	case CM_DREQ_RCVD:
		CM_COUNT(cm, dreq_duplicate);
		CM_COUNT(cm, rx_duplicate);
		break;
	default:
		CM_COUNT(cm, rx_wrong_state);
	}
}

void
handle_drep(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, av, m->drep.remote_comm_id, m->drep.local_comm_id);

	if (c == NULL) {
		CM_COUNT(cm, rx_unknown_id);
		return;
	}
	if (c->state != CM_DREQ_SENT) {
		CM_COUNT(cm, rx_wrong_state);
		return;
	}
	disconnected(c, av, m, now_ns, ev);
}
