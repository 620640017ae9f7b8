/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels, ids and their connections, of a daemon that goes, for the one that comes. The records of a channel: RECORD_CM_CHANNEL, RECORD_CM_ID
 * for each id (with RECORD_CM_CONN behind it if it has a connection), RECORD_CM_EVENT for each event that may be unread, the oldest first.
 *
 * Connections without an id, which repeat an answer to their peers or wait until their QP's number may be used again, are forgotten. A peer whose
 * DREQ was answered by a DREP that got lost repeats it and gets another DREP.
 */
#include <unistd.h>

#include "control/cma/cma_priv.h"
#include "control/cma/gsi_priv.h"

/** No time: the id isn't resolving. */
#define NO_TIME UINT64_MAX
/** Transactions that a daemon may have begun since it last wrote down how many. */
enum { TIDS_LOST = 1 << 24 };

struct channel_record {
	struct record_head head;
	uint64_t token;
	uint32_t fd, tid;
	int32_t record_cost;
	uint32_t last_event; /**< number of the last one */
};

struct group_record {
	struct gid mgid;
	uint32_t handle, reserved;
};

/** Behind it: its groups. */
struct id_record {
	struct record_head head;
	struct ctl_cm_addr local, remote;
	uint64_t resolving_ns; /**< until it gives up, or NO_TIME */
	uint32_t handle, ps, state, port; /**< port: UINT32_MAX: none */
	uint32_t backlog, nb_requests;    /**< of a listener */
	uint32_t asked, request_no;       /**< asked: of a request's id: the handle of its listener in this session, or HANDLE_NONE */
	uint32_t waits_at;                /**< handle of the listener in whose backlog its connection is, or HANDLE_NONE */
	uint32_t flow_label, qpn, remote_qpn, remote_qkey, rq_psn, sq_psn;
	uint32_t nb_groups;
	uint8_t qp_type, sgid_index, mac[6];
	uint8_t reuse, af_only, ack_timeout_set, tos, ack_timeout, bound, passive, answered, disconnected;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, path_mtu, timeout;
	uint8_t has_conn;
};

/** Behind it: the event. */
struct event_record {
	struct record_head head;
	uint32_t id, request; /**< handles in this session, or HANDLE_NONE */
	uint32_t sent, bytes;
};

static uint32_t
handle_in(const struct session *s, const struct cma_id *id)
{
	return id != NULL && id->session == s ? id->obj.handle : HANDLE_NONE;
}

/* ---- The daemon that goes ---- */
static int
save_id(struct session *s, const struct cma_id *id, uint64_t now_ns, struct stream_out *o)
{
	const struct cm_listener *waits = id->conn != NULL ? cm_conn_listener(id->conn) : NULL;
	const struct cma_group *g;
	struct group_record *groups;
	struct id_record r = {
		.local = id->local,
		.remote = id->remote,
		.resolving_ns = id->state != CMA_RESOLVING ? NO_TIME : id->deadline_ns > now_ns ? id->deadline_ns - now_ns : 0,
		.handle = id->obj.handle,
		.ps = id->ps,
		.state = id->state,
		.port = id->port != NULL ? id->port->index : UINT32_MAX,
		.backlog = id->listener != NULL ? cm_listener_backlog(id->listener) : 0,
		.nb_requests = id->nb_requests,
		.asked = handle_in(s, id->asked),
		.request_no = id->request_no,
		/* A listener's owner is its id, which `asked` is too as long as both exist. */
		.waits_at = waits != NULL && id->asked != NULL && id->asked->listener == waits ? handle_in(s, id->asked) : HANDLE_NONE,
		.flow_label = id->flow_label,
		.qpn = id->qpn,
		.remote_qpn = id->remote_qpn,
		.remote_qkey = id->remote_qkey,
		.rq_psn = id->rq_psn,
		.sq_psn = id->sq_psn,
		.qp_type = id->qp_type,
		.sgid_index = id->sgid_index,
		.reuse = id->reuse,
		.af_only = id->af_only,
		.ack_timeout_set = id->ack_timeout_set,
		.tos = id->tos,
		.ack_timeout = id->ack_timeout,
		.bound = id->bind != NULL,
		.passive = id->passive,
		.answered = id->answered,
		.disconnected = id->disconnected,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.retry_count = id->retry_count,
		.rnr_retry_count = id->rnr_retry_count,
		.path_mtu = id->path_mtu,
		.timeout = id->timeout,
		.has_conn = id->conn != NULL,
	};
	struct cm_conn_record *to;

	memcpy(r.mac, id->mac, sizeof(r.mac));
	LIST_FOREACH(g, &id->groups, link)
		r.nb_groups++;
	groups = calloc(r.nb_groups + 1, sizeof(*groups));
	if (groups == NULL)
		return ENOMEM;
	r.nb_groups = 0;
	LIST_FOREACH(g, &id->groups, link)
		groups[r.nb_groups++] = (struct group_record){ .mgid = g->mgid, .handle = g->obj.handle };
	stream_put(o, RECORD_CM_ID, &r, sizeof(r), groups, r.nb_groups * sizeof(*groups));
	free(groups);
	to = id->conn != NULL ? stream_reserve(o, sizeof(*to)) : NULL;
	if (to != NULL)
		cm_conn_save(id->conn, now_ns, to);
	return 0;
}

int
cma_event_save(struct session *s, void *event, struct stream_out *o)
{
	const struct cma_kept *k = event;
	const struct event_record r = { .id = handle_in(s, k->id), .request = handle_in(s, k->request), .sent = k->sent, .bytes = k->bytes };

	stream_put(o, RECORD_CM_EVENT, &r, sizeof(r), k->event, k->bytes);
	return 0;
}

static void
save_events(struct session *s, struct cma_events *events, struct stream_out *o)
{
	struct cma_kept *k;

	TAILQ_FOREACH(k, events, link)
		cma_event_save(s, k, o);
}

int
cma_channel_save(struct session *s, void *channel, struct stream_out *o)
{
	const struct cma_session *cs = channel;
	const struct channel_record r = {
		.token = cs->token,
		.fd = stream_put_fd(o, cs->sock.fd),
		.tid = cm_tid(gsi_cm(s->control->gsi)),
		.record_cost = cs->record_cost,
		.last_event = cs->last_event,
	};

	stream_put(o, RECORD_CM_CHANNEL, &r, sizeof(r), NULL, 0);
	return 0;
}

int
cma_listener_save(struct session *s, void *id, struct stream_out *o)
{
	return ((const struct cma_id *)id)->listener != NULL ? save_id(s, id, control_now_ns(), o) : 0;
}

int
cma_id_save(struct session *s, void *id, struct stream_out *o)
{
	return ((const struct cma_id *)id)->listener == NULL ? save_id(s, id, control_now_ns(), o) : 0;
}

int
cma_save(struct session *s, struct stream_out *o)
{
	struct cma_session *cs = s->cma;
	struct cma_id *id;
	int rc;

	if (cs == NULL)
		return 0;
	rc = cma_channel_save(s, cs, o);
	/* Listeners first: the ids of requests to them refer to them. */
	for (uint32_t pos = 0; rc == 0 && (id = handles_next(&s->tab[OBJ_CM_ID], &pos)) != NULL;)
		rc = cma_listener_save(s, id, o);
	for (uint32_t pos = 0; rc == 0 && (id = handles_next(&s->tab[OBJ_CM_ID], &pos)) != NULL;)
		rc = cma_id_save(s, id, o);
	save_events(s, &cs->sent, o);
	save_events(s, &cs->queue, o);
	return rc;
}

/* ---- The daemon that comes ---- */
static int
check_id(const struct session *s, const struct id_record *from, struct request *r)
{
	if (from->nb_groups > stream_tail(from, sizeof(*from)) / sizeof(struct group_record))
		return req_fail(r, EINVAL, "id %#x: %u groups aren't in its record", from->handle, from->nb_groups);
	if (from->state > CMA_CONNECTION || (from->port >= s->control->s.nb_ports && from->port != UINT32_MAX))
		return req_fail(r, EINVAL, "id %#x: state %u, port %u", from->handle, from->state, from->port);
	/* Without a port an id is bound to the wildcard address, or to none. */
	if (from->port == UINT32_MAX && (from->state > CMA_BOUND && from->state != CMA_LISTENING))
		return req_fail(r, EINVAL, "id %#x: in state %u it has a port", from->handle, from->state);
	if (from->state != CMA_IDLE && from->state != CMA_CONNECTION && !from->bound)
		return req_fail(r, EINVAL, "id %#x: in state %u it is bound", from->handle, from->state);
	if ((from->state == CMA_RESOLVING) != (from->resolving_ns != NO_TIME) || (from->has_conn && from->state != CMA_CONNECTION) ||
	    from->sgid_index >= UROCE_MAX_GIDS)
		return req_fail(r, EINVAL, "id %#x: its state %u doesn't go with the rest of its record", from->handle, from->state);
	return 0;
}

static void
fill_id(struct cma_id *id, const struct id_record *from)
{
	id->local = from->local;
	id->remote = from->remote;
	id->port = from->port != UINT32_MAX ? id->session->control->s.ports[from->port] : NULL;
	id->sgid_index = from->sgid_index;
	memcpy(id->mac, from->mac, sizeof(id->mac));
	id->reuse = from->reuse != 0;
	id->af_only = from->af_only != 0;
	id->ack_timeout_set = from->ack_timeout_set != 0;
	id->tos = from->tos;
	id->ack_timeout = from->ack_timeout;
	id->flow_label = from->flow_label;
	id->nb_requests = from->nb_requests;
	id->request_no = from->request_no;
	id->passive = from->passive != 0;
	id->answered = from->answered != 0;
	id->disconnected = from->disconnected != 0;
	id->qpn = from->qpn;
	id->remote_qpn = from->remote_qpn;
	id->remote_qkey = from->remote_qkey;
	id->rq_psn = from->rq_psn;
	id->sq_psn = from->sq_psn;
	id->responder_resources = from->responder_resources;
	id->initiator_depth = from->initiator_depth;
	id->retry_count = from->retry_count;
	id->rnr_retry_count = from->rnr_retry_count;
	id->path_mtu = from->path_mtu;
	id->timeout = from->timeout;
}

static int
restore_groups(struct cma_id *id, const struct id_record *from, struct request *r)
{
	const struct group_record *g = (const void *)(from + 1);
	struct cma_group *group;
	int rc;

	for (uint32_t i = 0; i < from->nb_groups; i++, g++) {
		group = obj_new_as(id->session, OBJ_CM_GROUP, sizeof(*group), g->handle, r, &rc);
		if (group == NULL)
			return rc;
		group->id = id;
		group->mgid = g->mgid;
		LIST_INSERT_HEAD(&id->groups, group, link);
	}
	return 0;
}

static int
restore_conn(struct cma_id *id, const struct id_record *from, struct stream_in *in, struct request *r)
{
	struct session *s = id->session;
	const struct cma_id *at = from->waits_at != HANDLE_NONE ? handles_get(&s->tab[OBJ_CM_ID], from->waits_at) : NULL;
	uint32_t room = 0;
	const struct cm_conn_record *record = stream_kind(in) == RECORD_CM_CONN ? stream_foreign(in, &room) : NULL;
	const char *why;

	if (record == NULL)
		return req_fail(r, EINVAL, "id %#x: the record of its connection is missing", from->handle);
	id->conn = cm_conn_restore(gsi_cm(s->control->gsi), record, room, at != NULL ? at->listener : NULL, s->control->s.nb_ports, id,
				   control_now_ns(), &why);
	return id->conn != NULL ? 0 : req_fail(r, errno, "id %#x: %s", from->handle, why);
}

static int
restore_id(struct session *s, const struct id_record *from, struct stream_in *in, struct request *r)
{
	struct cma_id *id, *listener;
	int rc = check_id(s, from, r);

	if (rc != 0)
		return rc;
	id = cma_id_new_as(s, from->ps, from->qp_type, from->handle, r, &rc);
	if (id == NULL)
		return rc;
	fill_id(id, from);
	/* What is unfinished must not look like anything else when the session ends. */
	id->state = from->state == CMA_RESOLVING || from->state == CMA_LISTENING ? CMA_BOUND : (enum cma_state)from->state;
	rc = from->bound ? cma_bind_take(id) : 0;
	if (rc == 0 && from->state == CMA_LISTENING)
		rc = cma_listen(id, from->backlog);
	if (rc != 0)
		return req_fail(r, rc, "id %#x can't have its port %u again: %s", from->handle, from->local.port, strerror(rc));
	rc = restore_groups(id, from, r);
	if (rc == 0 && from->has_conn)
		rc = restore_conn(id, from, in, r);
	if (rc != 0)
		return rc;
	listener = from->asked != HANDLE_NONE ? handles_get(&s->tab[OBJ_CM_ID], from->asked) : NULL;
	if (listener != NULL && listener != id)
		cma_id_asked(id, listener);
	if (from->state == CMA_RESOLVING) {
		id->deadline_ns = control_now_ns() + from->resolving_ns;
		cma_resolve_begin(id, control_now_ns());
	}
	return 0;
}

static int
restore_event(struct session *s, const struct event_record *from, struct request *r)
{
	struct cma_id *id = from->id != HANDLE_NONE ? handles_get(&s->tab[OBJ_CM_ID], from->id) : NULL;
	struct cma_id *request = from->request != HANDLE_NONE ? handles_get(&s->tab[OBJ_CM_ID], from->request) : NULL;

	if (from->bytes > stream_tail(from, sizeof(*from)) || from->bytes > sizeof(struct ctl_cm_event))
		return req_fail(r, EINVAL, "an event of %u bytes isn't in its record", from->bytes);
	if (request != NULL && request->brought_by != NULL)
		return req_fail(r, EINVAL, "two events announce id %#x", from->request);
	return cma_event_take(s, id, id != NULL ? request : NULL, from->sent != 0, from + 1, from->bytes) == 0 ?
		       0 : req_fail(r, ENOMEM, "no memory for an event");
}

int
cma_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct channel_record *from = stream_next(in, RECORD_CM_CHANNEL, sizeof(*from));
	const struct event_record *event;
	const struct id_record *id;
	int fd, rc;

	if (from == NULL)
		return 0;
	fd = stream_take_fd(in, from->fd);
	rc = fd < 0 || from->record_cost <= 0 ? req_fail(r, EINVAL, "its event channel has no socket") :
						cma_channel_take(s, fd, from->record_cost, from->token, r);
	if (rc != 0) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	s->cma->last_event = from->last_event;
	/* After a crash it is that of some time before. */
	cm_set_tid(gsi_cm(s->control->gsi), from->tid + (s->control->s.crashed_ns != 0 ? TIDS_LOST : 0));
	while (rc == 0 && (id = stream_next(in, RECORD_CM_ID, sizeof(*id))) != NULL)
		rc = restore_id(s, id, in, r);
	while (rc == 0 && (event = stream_next(in, RECORD_CM_EVENT, sizeof(*event))) != NULL)
		rc = restore_event(s, event, r);
	return rc;
}
