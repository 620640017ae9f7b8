/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: states, sending, timers, and kept answers. */
#include "base/mark.h"
#include "base/assert.h"
#include "cm/cm_priv.h"
#include "wire/wire.h"

#define TO(s) (UINT32_C(1) << CM_##s)

/* The states that may follow each state (12.9.7), and what a connection opened by another end counts as in it. */
static const struct {
	const char *name;
	uint32_t next;
	bool pending;   /* waits for the owner's answer, and is in its listener's backlog */
	bool half_open; /* not established yet */
} states[CM_NB_STATES] = {
	[CM_IDLE] = { "IDLE", TO(REQ_SENT) | TO(REQ_RCVD) | TO(SIDR_REQ_SENT) | TO(SIDR_REQ_RCVD), false, false },
	/* To REQ_RCVD: this end becomes the passive one of a peer-to-peer pair. */
	[CM_REQ_SENT] = { "REQ_SENT", TO(MRA_REQ_RCVD) | TO(REP_RCVD) | TO(REQ_RCVD) | TO(TIMEWAIT) | TO(IDLE),
			  false, false },
	[CM_MRA_REQ_RCVD] = { "MRA_REQ_RCVD", TO(REP_RCVD) | TO(REQ_RCVD) | TO(TIMEWAIT) | TO(IDLE), false, false },
	[CM_REQ_RCVD] = { "REQ_RCVD", TO(MRA_REQ_SENT) | TO(REP_SENT) | TO(TIMEWAIT) | TO(IDLE), true, true },
	[CM_MRA_REQ_SENT] = { "MRA_REQ_SENT", TO(REP_SENT) | TO(TIMEWAIT) | TO(IDLE), true, true },
	/* To DREQ_SENT: the owner left before the RTU came. */
	[CM_REP_SENT] = { "REP_SENT", TO(MRA_REP_RCVD) | TO(ESTABLISHED) | TO(DREQ_SENT) | TO(DREQ_RCVD) | TO(TIMEWAIT),
			  false, true },
	[CM_MRA_REP_RCVD] = { "MRA_REP_RCVD", TO(ESTABLISHED) | TO(DREQ_SENT) | TO(DREQ_RCVD) | TO(TIMEWAIT),
			      false, true },
	[CM_REP_RCVD] = { "REP_RCVD", TO(MRA_REP_SENT) | TO(ESTABLISHED) | TO(DREQ_RCVD) | TO(TIMEWAIT), false, false },
	[CM_MRA_REP_SENT] = { "MRA_REP_SENT", TO(ESTABLISHED) | TO(DREQ_RCVD) | TO(TIMEWAIT), false, false },
	[CM_ESTABLISHED] = { "ESTABLISHED", TO(DREQ_SENT) | TO(DREQ_RCVD) | TO(TIMEWAIT), false, false },
	[CM_DREQ_SENT] = { "DREQ_SENT", TO(TIMEWAIT), false, false },
	[CM_DREQ_RCVD] = { "DREQ_RCVD", TO(TIMEWAIT), false, false },
	[CM_TIMEWAIT] = { "TIMEWAIT", TO(IDLE), false, false },
	[CM_SIDR_REQ_SENT] = { "SIDR_REQ_SENT", TO(IDLE), false, false },
	[CM_SIDR_REQ_RCVD] = { "SIDR_REQ_RCVD", TO(SIDR_REP_SENT) | TO(IDLE), true, true },
	[CM_SIDR_REP_SENT] = { "SIDR_REP_SENT", TO(IDLE), false, false },
};

const char *
cm_state_name(enum cm_state s)
{
	return (unsigned int)s < CM_NB_STATES ? states[s].name : "unknown";
}

/* ---- Life ---- */
struct cm_conn *
conn_new(struct cm *cm, const struct cm_av *av)
{
	struct cm_conn *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	/* Drop an answer that is kept only for repetition, to make room. */
	if (!id_take(cm, c) && !(conn_evict(cm) && id_take(cm, c))) {
		free(c);
		return cm_null(ENOSPC);
	}
	c->cm = cm;
	c->av = *av;
	cm_list_init(&c->pending);
	cm_list_init(&c->kept);
	return c;
}

void
conn_free(struct cm_conn *c)
{
	struct cm *cm = c->cm;

	UROCE_ASSERT(c->state == CM_IDLE && !wheel_pending(&c->timer));
	if (!cm_list_empty(&c->kept)) {
		cm_list_del(&c->kept);
		cm->nb_kept--;
	}
	id_release(cm, c);
	free(c);
}

bool
conn_reap(struct cm_conn *c)
{
	if (!c->orphan || c->state != CM_IDLE)
		return false;
	conn_free(c);
	return true;
}

/* For a destroyed connection there is nobody to notify; free it if this was its last event. */
void
cm_event_deliver(struct cm *cm, const struct cm_event *ev)
{
	if (ev->type == CM_NB_EVENTS)
		return;
	if (ev->conn->orphan)
		conn_reap(ev->conn);
	else
		cm->cfg.ops.event(cm->cfg.arg, ev);
}

void
conn_count(struct cm_conn *c)
{
	bool half_open = c->passive && states[c->state].half_open;

	if (half_open == c->counted)
		return;
	c->cm->nb_half_open += half_open ? 1 : -1;
	c->counted = half_open;
}

void
conn_set_state(struct cm_conn *c, enum cm_state s)
{
	UROCE_ASSERT(states[c->state].next >> s & 1);
	c->state = s;
	c->probing = false;
	/* Only while it waits for its answer can a REQ become one half of a peer-to-peer pair. */
	if (c->by_request.key.kind == CM_KEY_PEER2PEER && s != CM_REQ_SENT && s != CM_MRA_REQ_RCVD)
		table_del(&c->by_request);
	conn_count(c);
	if (c->listener != NULL && !states[s].pending) {
		cm_list_del(&c->pending);
		c->listener->nb_pending--;
		c->listener = NULL;
	}
	if (s != CM_IDLE)
		return;
	conn_timer_stop(c);
	table_del(&c->by_request);
	table_del(&c->by_qpn);
	peer_release(c);
}

struct cm_conn *
conn_find(struct cm *cm, const struct cm_av *av, uint32_t local_id, uint32_t remote_id)
{
	struct cm_conn *c = id_find(cm, local_id);

	/* An ID alone proves nothing: the message must be from the connection's peer, to the connection's address. */
	if (c == NULL || c->state == CM_IDLE || c->av.port != av->port || !gid_equal(&c->av.remote_gid, &av->remote_gid) ||
	    !gid_equal(&c->av.local_gid, &av->local_gid))
		return NULL;
	return c->remote_id == 0 || c->remote_id == remote_id ? c : NULL;
}

/* ---- The peer's QP ---- */
void
conn_set_remote_qpn(struct cm_conn *c, uint64_t ca_guid, uint32_t qpn)
{
	struct cm_key key = cm_key(CM_KEY_QPN, &c->av.remote_gid, ca_guid, qpn);

	c->remote_guid = ca_guid;
	c->remote_qpn = qpn;
	table_add(c->cm, &c->by_qpn, &key);
}

struct cm_conn *
conn_stale(const struct cm *cm, const struct cm_av *av, uint64_t ca_guid, uint32_t qpn)
{
	struct cm_key key = cm_key(CM_KEY_QPN, &av->remote_gid, ca_guid, qpn);
	struct cm_node *n = table_find(cm, &key);

	return n == NULL ? NULL : container_of(n, struct cm_conn, by_qpn);
}

/* ---- Sending ---- */
uint16_t
conn_out_attr(const struct cm_conn *c)
{
	return wire_get16(c->out + 16);
}

uint64_t
conn_own_tid(const struct cm_conn *c)
{
	return (uint64_t)c->cm->tid_hi << 32 | c->local_id;
}

void
conn_send(struct cm_conn *c, const struct cm_msg *m)
{
	cm_mad_encode(m, c->out);
	cm_send(c->cm, &c->av, c->out);
}

void
conn_resend(struct cm_conn *c)
{
	CM_COUNT(c->cm, retransmissions);
	cm_send(c->cm, &c->av, c->out);
}

void
conn_send_reliably(struct cm_conn *c, const struct cm_msg *m, uint64_t now_ns)
{
	c->retries_left = c->max_retries;
	conn_send(c, m);
	conn_timer(c, now_ns + c->interval_ns);
}

/* ---- Timers ---- */
void
conn_timer(struct cm_conn *c, uint64_t expiry_ns)
{
	if (!wheel_pending(&c->timer))
		c->cm->nb_timers++;
	wheel_add(&c->cm->wheel, &c->timer, expiry_ns);
}

void
conn_timer_stop(struct cm_conn *c)
{
	if (!wheel_pending(&c->timer))
		return;
	wheel_del(&c->cm->wheel, &c->timer);
	c->cm->nb_timers--;
}

void
conn_enter_timewait(struct cm_conn *c, uint64_t now_ns)
{
	conn_set_state(c, CM_TIMEWAIT);
	conn_timer(c, now_ns + c->timewait_ns);
}

/* ---- Answers that are kept ---- */
void
conn_keep(struct cm_conn *c)
{
	struct cm *cm = c->cm;

	peer_release(c);
	cm_list_append(&cm->kept, &c->kept);
	if (++cm->nb_kept > cm->cfg.max_kept)
		conn_evict(cm);
}

bool
conn_evict(struct cm *cm)
{
	struct cm_conn *c;

	if (cm_list_empty(&cm->kept))
		return false;
	c = container_of(cm->kept.next, struct cm_conn, kept);
	MARK_UNIT("an answer that was kept makes room for a new one", "unit/cm/limits");
	CM_COUNT(cm, kept_evicted);
	conn_set_state(c, CM_IDLE);
	conn_free(c);
	return true;
}

/* ---- For the owner ---- */
bool
cm_conn_agreed(const struct cm_conn *c)
{
	switch (c->state) {
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
	case CM_ESTABLISHED:
		return true;
	default:
		return false;
	}
}

enum cm_state
cm_conn_state(const struct cm_conn *c)
{
	return c->state;
}

uint32_t
cm_conn_local_id(const struct cm_conn *c)
{
	return c->local_id;
}

uint32_t
cm_conn_remote_id(const struct cm_conn *c)
{
	return c->remote_id;
}

const struct cm_av *
cm_conn_av(const struct cm_conn *c)
{
	return &c->av;
}

void
cm_conn_set_owner(struct cm_conn *c, void *owner)
{
	c->owner = owner;
}
