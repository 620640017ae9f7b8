/* SPDX-License-Identifier: BSD-3-Clause */
/* Service ID resolution: finds the QP and Q_Key that serve a service ID over UD (12.11). */
#include "cm/cm_priv.h"

#define MIN_TIMEOUT_NS UINT64_C(1000000)

/* ---- The requesting end ---- */
struct cm_conn *
cm_sidr_request(struct cm *cm, const struct cm_sidr_param *p, uint64_t now_ns)
{
	struct cm_conn *c;
	struct cm_msg m;

	if (!cm_private_ok(&p->private_data, CM_SIDR_REQ_PRIVATE_BYTES) || p->timeout_ns < MIN_TIMEOUT_NS ||
	    p->timeout_ns > cm_time_ns(CM_MAX_SERVICE_TIMEOUT))
		return cm_null(EINVAL);
	c = conn_new(cm, &p->av);
	if (c == NULL)
		return NULL;
	c->owner = p->owner;
	c->service_id = p->service_id;
	c->interval_ns = p->timeout_ns;
	c->max_retries = p->max_retries;
	cm_msg_init(&m, CM_ATTR_SIDR_REQ, conn_own_tid(c));
	m.sidr_req.request_id = c->local_id;
	m.sidr_req.pkey = p->av.pkey;
	m.sidr_req.service_id = p->service_id;
	cm_private_put(&p->private_data, m.sidr_req.private_data);
	conn_set_state(c, CM_SIDR_REQ_SENT);
	conn_send_reliably(c, &m, now_ns);
	return c;
}

void
handle_sidr_rep(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, av, m->sidr_rep.request_id, 0);

	if (c == NULL) {
		CM_COUNT(cm, rx_unknown_id);
		return;
	}
	if (c->state != CM_SIDR_REQ_SENT) {
		CM_COUNT(cm, rx_wrong_state);
		return;
	}
	conn_set_state(c, CM_IDLE);
	cm_event_set_msg(ev, CM_EV_SIDR_RESPONSE, c, av, m);
}

/* ---- The answering end ---- */
void
sidr_send_reply(struct cm_conn *c, const struct cm_sidr_reply_param *p, uint64_t now_ns)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_SIDR_REP, c->tid);
	m.sidr_rep.request_id = c->remote_id;
	m.sidr_rep.status = p->status;
	m.sidr_rep.info_bytes = (uint8_t)p->info.len_bytes;
	m.sidr_rep.qpn = p->qpn;
	m.sidr_rep.service_id = c->service_id;
	m.sidr_rep.qkey = p->qkey;
	cm_private_put(&p->info, m.sidr_rep.info);
	cm_private_put(&p->private_data, m.sidr_rep.private_data);
	conn_send(c, &m);
	conn_set_state(c, CM_SIDR_REP_SENT);
	conn_timer(c, now_ns + CM_SIDR_KEPT_NS);
}

int
cm_sidr_reply(struct cm_conn *c, const struct cm_sidr_reply_param *p, uint64_t now_ns)
{
	if (c->state != CM_SIDR_REQ_RCVD || p->qpn > CM_QPN_MASK || (unsigned int)p->status > UINT8_MAX ||
	    !cm_private_ok(&p->info, CM_ARI_BYTES) || !cm_private_ok(&p->private_data, CM_SIDR_REP_PRIVATE_BYTES))
		return EINVAL;
	sidr_send_reply(c, p, now_ns);
	return 0;
}

static void
refuse(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, enum cm_sidr_status status)
{
	struct cm_msg out;

	CM_COUNT(cm, sidr_refused);
	cm_msg_init(&out, CM_ATTR_SIDR_REP, m->hdr.tid);
	out.sidr_rep.request_id = m->sidr_req.request_id;
	out.sidr_rep.status = status;
	out.sidr_rep.service_id = m->sidr_req.service_id;
	cm_send_msg(cm, av, &out);
}

/* Repeat the answer to a repeated SIDR_REQ. Only the requesting end repeats messages. */
static void
repeated_sidr_req(struct cm_conn *c, uint64_t now_ns)
{
	CM_COUNT(c->cm, sidr_req_duplicate);
	if (c->state != CM_SIDR_REP_SENT) {
		CM_COUNT(c->cm, rx_duplicate);
		return;
	}
	conn_resend(c);
	conn_timer(c, now_ns + CM_SIDR_KEPT_NS);
}

void
handle_sidr_req(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	const struct cm_sidr_req *r = &m->sidr_req;
	struct cm_key key = cm_key(CM_KEY_SIDR, &av->remote_gid, r->service_id, r->request_id);
	struct cm_node *seen = table_find(cm, &key);
	struct cm_listener *l;
	struct cm_conn *c;

	if (r->request_id == 0) {
		CM_COUNT(cm, rx_bad_field);
		return;
	}
	if (seen != NULL) {
		repeated_sidr_req(container_of(seen, struct cm_conn, by_request), now_ns);
		return;
	}
	l = listener_find(cm, r->service_id, av, r->private_data, CM_SIDR_REQ_PRIVATE_BYTES);
	if (l == NULL || !request_ip_hdr_ok(r->service_id, r->private_data, CM_SIDR_REQ_PRIVATE_BYTES)) {
		refuse(cm, av, m, l == NULL ? CM_SIDR_UNSUPPORTED : CM_SIDR_REJECT);
		return;
	}
	c = listener_admit(cm, l, av);
	if (c == NULL) {
		refuse(cm, av, m, CM_SIDR_REJECT);
		return;
	}
	c->passive = true;
	c->remote_id = r->request_id;
	c->service_id = r->service_id;
	c->tid = m->hdr.tid;
	table_add(cm, &c->by_request, &key);
	conn_set_state(c, CM_SIDR_REQ_RCVD);
	cm_event_set_msg(ev, CM_EV_SIDR_REQUEST, c, av, m);
	ev->listener = l;
	ev->owner = l->owner;
}
