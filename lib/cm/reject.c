/* SPDX-License-Identifier: BSD-3-Clause */
/* REJ: sent by us and received. */
#include "cm/cm_priv.h"
#include "wire/wire.h"

#define GUID_BYTES 8

void
reject_stateless(struct cm *cm, const struct cm_av *av, uint64_t tid, struct cm_rej *rej)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_REJ, tid);
	m.rej = *rej;
	cm_send_msg(cm, av, &m);
}

void
reject_send(struct cm_conn *c, enum cm_msg_of of, uint16_t reason, const struct cm_private *ari,
	    const struct cm_private *private_data)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_REJ, of == CM_MSG_OF_OTHER ? conn_own_tid(c) : c->tid);
	/* The sender of a REQ that gets no other answer never learns our ID, so leave it out, as Linux does. */
	m.rej.local_comm_id = c->state == CM_REQ_RCVD ? 0 : c->local_id;
	m.rej.remote_comm_id = c->remote_id;
	m.rej.msg_rejected = of;
	m.rej.reason = reason;
	m.rej.ari_bytes = (uint8_t)ari->len_bytes;
	cm_private_put(ari, m.rej.ari);
	cm_private_put(private_data, m.rej.private_data);
	conn_send(c, &m);
}

void
reject_send_timeout(struct cm_conn *c)
{
	static const struct cm_private none;
	uint8_t guid[GUID_BYTES];
	struct cm_private ari = { guid, sizeof(guid) };

	wire_put64(guid, c->ca_guid);
	reject_send(c, CM_MSG_OF_OTHER, CM_REJ_TIMEOUT, &ari, &none);
}

void
reject_and_end(struct cm_conn *c, uint16_t reason, const struct cm_private *ari, const struct cm_private *private_data,
	       uint64_t now_ns)
{
	bool of_req = c->state == CM_REQ_RCVD || c->state == CM_MRA_REQ_SENT;
	bool of_rep = c->state == CM_REP_RCVD || c->state == CM_MRA_REP_SENT;

	reject_send(c, of_req ? CM_MSG_OF_REQ : of_rep ? CM_MSG_OF_REP : CM_MSG_OF_OTHER, reason, ari, private_data);
	conn_enter_timewait(c, now_ns);
	if (!of_req)
		return;
	CM_COUNT(c->cm, rej_owner);
	/*
	 * The peer may request the same QP again at once, so forget the QP. Keep only the answer, in case the REQ is
	 * repeated.
	 */
	table_del(&c->by_qpn);
	conn_timer(c, now_ns + c->kept_ns);
}

int
cm_reject(struct cm_conn *c, uint16_t reason, struct cm_private ari, struct cm_private private_data, uint64_t now_ns)
{
	if (!cm_private_ok(&ari, CM_ARI_BYTES) || !cm_private_ok(&private_data, CM_REJ_PRIVATE_BYTES))
		return EINVAL;
	switch (c->state) {
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		reject_and_end(c, reason, &ari, &private_data, now_ns);
		return 0;
	default:
		return EINVAL;
	}
}

/* Find the connection of a REJ: by our ID, or, if the sender never learned that, by the ID and CA GUID of its REQ. */
static struct cm_conn *
find_rejected(struct cm *cm, const struct cm_av *av, const struct cm_rej *rej)
{
	struct cm_node *n;
	struct cm_key key;
	struct cm_conn *c;

	if (rej->remote_comm_id != 0) {
		c = id_find(cm, rej->remote_comm_id);
		/* The sender of a REJ for a REQ may have no ID. */
		return conn_find(cm, av, rej->remote_comm_id,
				 c != NULL && rej->local_comm_id == 0 ? c->remote_id : rej->local_comm_id);
	}
	if (rej->reason != CM_REJ_TIMEOUT || rej->ari_bytes < GUID_BYTES)
		return NULL;
	key = cm_key(CM_KEY_REQ, &av->remote_gid, wire_get64(rej->ari), rej->local_comm_id);
	n = table_find(cm, &key);
	if (n == NULL)
		return NULL;
	c = container_of(n, struct cm_conn, by_request);
	return conn_find(cm, av, c->local_id, c->remote_id);
}

static void
rejected(struct cm_conn *c, const struct cm_av *av, const struct cm_msg *m, struct cm_event *ev)
{
	cm_event_set_msg(ev, CM_EV_REJECTED, c, av, m);
	ev->reason = m->rej.reason;
}

void
handle_rej(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = find_rejected(cm, av, &m->rej);
	bool probed;

	if (c == NULL) {
		CM_COUNT(cm, rx_unknown_id);
		return;
	}
	/* A copy of our REQ was refused before another one was accepted, and the REJ is late. */
	if (m->rej.msg_rejected == CM_MSG_OF_REQ && !c->passive && c->remote_id != 0) {
		CM_COUNT(cm, rx_wrong_state);
		return;
	}
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		/* Stale: the peer has a connection with our QP number that it believes to be alive (12.9.8.3.1). */
		if (m->rej.reason == CM_REJ_STALE_CONN)
			conn_enter_timewait(c, now_ns);
		else
			conn_set_state(c, CM_IDLE);
		rejected(c, av, m, ev);
		break;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
		conn_set_state(c, CM_IDLE);
		rejected(c, av, m, ev);
		break;
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
		conn_enter_timewait(c, now_ns);
		rejected(c, av, m, ev);
		break;
	case CM_ESTABLISHED:
		probed = c->probing && m->rej.reason == CM_REJ_INVALID_COMM_ID;
		conn_enter_timewait(c, now_ns);
		if (!probed) {
			rejected(c, av, m, ev);
			break;
		}
		/* The peer has forgotten the connection: stale.c. */
		CM_COUNT(cm, stale_ended);
		CM_COUNT(cm, disconnected);
		cm_event_set_msg(ev, CM_EV_DISCONNECTED, c, av, m);
		break;
	case CM_DREQ_SENT:
		conn_enter_timewait(c, now_ns);
		CM_COUNT(cm, disconnected);
		cm_event_set_msg(ev, CM_EV_DISCONNECTED, c, av, m);
		break;
	default:
		CM_COUNT(cm, rx_wrong_state);
	}
}
