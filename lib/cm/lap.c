/* SPDX-License-Identifier: BSD-3-Clause */
/* LAP and APR: another path for an existing connection. The owner answers a LAP; we never send one. */
#include "cm/cm_priv.h"

static void
answer(struct cm_msg *out, const struct cm_msg *lap, uint8_t status)
{
	cm_msg_init(out, CM_ATTR_APR, lap->hdr.tid);
	out->apr.local_comm_id = lap->lap.remote_comm_id;
	out->apr.remote_comm_id = lap->lap.local_comm_id;
	out->apr.status = status;
}

/* Pass a LAP to the owner. One that was answered before gets the same answer, which is all that c->out holds here. */
static void
lap_to_owner(struct cm_conn *c, const struct cm_av *av, const struct cm_msg *m, struct cm_event *ev)
{
	/* It knows the connection. */
	stale_answered(c);
	if (c->lap_pending) {
		CM_COUNT(c->cm, rx_duplicate);
		return;
	}
	if (conn_out_attr(c) == CM_ATTR_APR && c->tid == m->hdr.tid) {
		conn_resend(c);
		return;
	}
	c->lap_pending = true;
	c->tid = m->hdr.tid;
	cm_event_set_msg(ev, CM_EV_LAP, c, av, m);
}

void
handle_lap(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, av, m->lap.remote_comm_id, m->lap.local_comm_id);
	uint8_t status = CM_APR_UNSUPPORTED;
	struct cm_msg out;

	if (c != NULL && c->state != CM_ESTABLISHED) {
		CM_COUNT(cm, rx_wrong_state);
		return;
	}
	if (c == NULL)
		status = CM_APR_INVALID_COMM_ID;
	else if (c->qpn != m->lap.remote_qpn)
		status = CM_APR_INVALID_QPN;
	else if (c->passive) {
		lap_to_owner(c, av, m, ev);
		return;
	}
	CM_COUNT(cm, apr_refused);
	answer(&out, m, status);
	cm_send_msg(cm, av, &out);
}

int
cm_apr(struct cm_conn *c, uint8_t status, struct cm_private info, struct cm_private private_data)
{
	struct cm_msg m;

	if (c->state != CM_ESTABLISHED || !c->lap_pending)
		return EINVAL;
	if (!cm_private_ok(&info, CM_ARI_BYTES) || !cm_private_ok(&private_data, CM_APR_PRIVATE_BYTES))
		return EINVAL;
	c->lap_pending = false;
	/* The REP by which the peer is asked whether it knows the connection is overwritten. */
	stale_stop(c);
	if (status == CM_APR_SUCCESS)
		CM_COUNT(c->cm, apr_loaded);
	else
		CM_COUNT(c->cm, apr_refused);
	cm_msg_init(&m, CM_ATTR_APR, c->tid);
	m.apr.local_comm_id = c->local_id;
	m.apr.remote_comm_id = c->remote_id;
	m.apr.status = status;
	m.apr.info_bytes = (uint8_t)info.len_bytes;
	cm_private_put(&info, m.apr.info);
	cm_private_put(&private_data, m.apr.private_data);
	conn_send(c, &m);
	return 0;
}

void
handle_apr(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	if (conn_find(cm, av, m->apr.remote_comm_id, m->apr.local_comm_id) == NULL)
		CM_COUNT(cm, rx_unknown_id);
	else
		CM_COUNT(cm, rx_wrong_state);
}
