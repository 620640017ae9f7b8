/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as records, for the CM of another process. */
#include "cm/cm_priv.h"

#define PSN_MASK UINT32_C(0xffffff)
/* Longer than any timer here runs. */
#define TIMER_NS_MAX UINT64_C(600000000000)

void
cm_conn_save(const struct cm_conn *c, uint64_t now_ns, struct cm_conn_record *to)
{
	const struct cm_key *key = &c->by_request.key;
	uint64_t due_ns = wheel_due_ns(&c->timer);

	memset(to, 0, sizeof(*to));
	to->service_id = c->service_id;
	to->ca_guid = c->ca_guid;
	to->remote_guid = c->remote_guid;
	to->tid = c->tid;
	to->interval_ns = c->interval_ns;
	to->life_ns = c->life_ns;
	to->timewait_ns = c->timewait_ns;
	to->kept_ns = c->kept_ns;
	to->timer_ns = !wheel_pending(&c->timer) || c->probing ? UINT64_MAX : due_ns > now_ns ? due_ns - now_ns : 0;
	if (c->by_request.pprev != NULL) {
		to->request_kind = key->kind;
		to->request_num = key->num;
		to->request_id = key->id;
	}
	to->local_id = c->local_id;
	to->remote_id = c->remote_id;
	to->qpn = c->qpn;
	to->remote_qpn = c->remote_qpn;
	to->local_gid = c->av.local_gid;
	to->remote_gid = c->av.remote_gid;
	to->flow_label = c->av.flow_label;
	to->port = c->av.port;
	to->pkey = c->av.pkey;
	to->vlan_tci = c->av.vlan_tci;
	to->traffic_class = c->av.traffic_class;
	to->hop_limit = c->av.hop_limit;
	to->resolved = c->av.resolved;
	memcpy(to->remote_mac, c->av.remote_mac, sizeof(to->remote_mac));
	to->state = (uint8_t)c->state;
	to->passive = c->passive;
	to->peer_to_peer = c->peer_to_peer;
	to->xrc = c->xrc;
	to->alternate = c->alternate;
	to->retries_left = c->retries_left;
	to->max_retries = c->max_retries;
	to->has_peer = c->peer != NULL;
	to->pending = c->listener != NULL;
	to->by_qpn = c->by_qpn.pprev != NULL;
	memcpy(to->out, c->out, sizeof(to->out));
	record_seal(to, RECORD_CM_CONN, CM_CONN_RECORD_VERSION, sizeof(*to));
}

static const char *
check(const struct cm_conn_record *r, uint32_t room, uint16_t nb_ports)
{
	const char *wrong = record_check(r, room, RECORD_CM_CONN, CM_CONN_RECORD_VERSION, sizeof(*r));

	if (wrong != NULL)
		return wrong;
	if (r->head.size != sizeof(*r))
		return "size: isn't that of a connection's record";
	if (r->state >= CM_NB_STATES)
		return "state: there is no such state";
	if (r->port >= nb_ports)
		return "port: there is no such port";
	if (r->qpn > PSN_MASK || r->remote_qpn > PSN_MASK)
		return "qpn: must have 24 bits, as remote_qpn";
	if (r->local_id == 0)
		return "local_id: must not be 0";
	if (r->request_kind != 0 && r->request_kind != CM_KEY_REQ && r->request_kind != CM_KEY_SIDR && r->request_kind != CM_KEY_PEER2PEER)
		return "request_kind: there is no such request";
	if (r->state == CM_IDLE && (r->request_kind != 0 || r->by_qpn != 0 || r->has_peer != 0 || r->timer_ns != UINT64_MAX))
		return "state: an idle connection is in no table";
	if (r->timer_ns != UINT64_MAX && r->timer_ns > TIMER_NS_MAX)
		return "timer_ns: is longer than any timer runs";
	if (r->interval_ns > TIMER_NS_MAX || r->life_ns > TIMER_NS_MAX || r->timewait_ns > TIMER_NS_MAX || r->kept_ns > TIMER_NS_MAX)
		return "interval_ns: is longer than any timer runs, or another one of them";
	if (r->passive > 1 || r->peer_to_peer > 1 || r->xrc > 1 || r->alternate > 1 || r->resolved > 1 || r->has_peer > 1 || r->pending > 1 ||
	    r->by_qpn > 1)
		return "passive: must be 0 or 1, as all that are true or not";
	return NULL;
}

/** Take the communication ID that the connection had. @return false: it is in use, or beyond the table. */
static bool
id_take_as(struct cm *cm, struct cm_conn *c, uint32_t local_id)
{
	uint32_t mixed = local_id ^ cm->id_key, slot = mixed & cm->ids.slot_mask;

	if (!gen_table_take_as(&cm->ids, slot, mixed >> cm->ids.slot_bits))
		return false;
	c->local_id = local_id;
	gen_table_publish(&cm->ids, slot, c);
	return true;
}

static struct cm_av
av_of(const struct cm_conn_record *r)
{
	struct cm_av av = {
		.local_gid = r->local_gid,
		.remote_gid = r->remote_gid,
		.port = r->port,
		.pkey = r->pkey,
		.flow_label = r->flow_label,
		.traffic_class = r->traffic_class,
		.hop_limit = r->hop_limit,
		.resolved = r->resolved,
		.vlan_tci = r->vlan_tci,
	};

	memcpy(av.remote_mac, r->remote_mac, sizeof(av.remote_mac));
	return av;
}

/** Enter the connection into the tables and lists that it was in. @return 0, EDQUOT or ENOMEM. */
static int
enter(struct cm *cm, struct cm_conn *c, const struct cm_conn_record *r, struct cm_listener *listener, uint64_t now_ns)
{
	struct cm_key key;
	int rc = r->has_peer ? peer_take(cm, c) : 0;

	if (rc != 0)
		return rc;
	if (r->request_kind != 0) {
		key = cm_key((enum cm_key_kind)r->request_kind, &c->av.remote_gid, r->request_num, r->request_id);
		table_add(cm, &c->by_request, &key);
	}
	if (r->by_qpn)
		conn_set_remote_qpn(c, r->remote_guid, r->remote_qpn);
	if (r->pending && listener != NULL) {
		c->listener = listener;
		listener->nb_pending++;
		cm_list_append(&listener->pending, &c->pending);
	}
	conn_count(c);
	if (r->timer_ns != UINT64_MAX)
		conn_timer(c, now_ns + r->timer_ns);
	return 0;
}

struct cm_conn *
cm_conn_restore(struct cm *cm, const struct cm_conn_record *r, uint32_t room, struct cm_listener *listener, uint16_t nb_ports, void *owner,
		uint64_t now_ns, const char **why)
{
	struct cm_conn *c;
	int rc;

	*why = check(r, room, nb_ports);
	if (*why != NULL)
		return cm_null(EINVAL);
	*why = "local_id: there is no memory for another connection, or a limit is reached";
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return cm_null(ENOMEM);
	c->cm = cm;
	c->owner = owner;
	c->av = av_of(r);
	cm_list_init(&c->pending);
	cm_list_init(&c->kept);
	if (!id_take_as(cm, c, r->local_id)) {
		free(c);
		*why = "local_id: another connection has it";
		return cm_null(EEXIST);
	}
	c->remote_id = r->remote_id;
	c->qpn = r->qpn;
	c->remote_qpn = r->remote_qpn;
	c->service_id = r->service_id;
	c->ca_guid = r->ca_guid;
	c->remote_guid = r->remote_guid;
	c->tid = r->tid;
	c->interval_ns = r->interval_ns;
	c->life_ns = r->life_ns;
	c->timewait_ns = r->timewait_ns;
	c->kept_ns = r->kept_ns;
	c->passive = r->passive;
	c->peer_to_peer = r->peer_to_peer;
	c->xrc = r->xrc;
	c->alternate = r->alternate;
	c->retries_left = r->retries_left;
	c->max_retries = r->max_retries;
	memcpy(c->out, r->out, sizeof(c->out));
	c->state = (enum cm_state)r->state;
	rc = enter(cm, c, r, listener, now_ns);
	if (rc != 0) {
		c->state = CM_IDLE;
		conn_free(c);
		return cm_null(rc);
	}
	return c;
}

uint32_t
cm_tid(const struct cm *cm)
{
	return cm->tid_hi;
}

void
cm_set_tid(struct cm *cm, uint32_t tid)
{
	cm->tid_hi = tid;
}

uint32_t
cm_listener_backlog(const struct cm_listener *l)
{
	return l->backlog;
}

struct cm_listener *
cm_conn_listener(const struct cm_conn *c)
{
	return c->listener;
}
