/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: how they come and go, what they know, what the program may set; groups that UD ids have joined. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/cma/cma.h"
#include "control/core/quota.h"

struct cma *
cma_create(struct control *c, struct cm *cm)
{
	struct cma *cma = calloc(1, sizeof(*cma));

	if (cma == NULL)
		return NULL;
	cma->control = c;
	cma->cm = cm;
	TAILQ_INIT(&cma->resolving);
	return cma;
}

void
cma_destroy(struct cma *cma)
{
	free(cma);
}

struct cma_id *
cma_id_new(struct session *s, uint32_t ps, uint8_t qp_type, struct request *r, int *rc)
{
	struct request nobody = { 0 };
	struct cma_id *id;

	if (r == NULL)
		r = &nobody;
	if (s->tab[OBJ_CM_ID].used >= CTL_CM_MAX_IDS) {
		*rc = req_fail(r, ENOMEM, "this event channel has %d ids already", CTL_CM_MAX_IDS);
		return NULL;
	}
	id = obj_new(s, OBJ_CM_ID, sizeof(*id), r, rc);
	if (id == NULL)
		return NULL;
	id->session = s;
	id->ps = ps;
	id->qp_type = qp_type;
	LIST_INIT(&id->groups);
	LIST_INIT(&id->requests);
	TAILQ_INIT(&id->events);
	return id;
}

static void
group_free(struct cma_group *g)
{
	LIST_REMOVE(g, link);
	obj_free(g->id->session, OBJ_CM_GROUP, &g->obj);
}

void
cma_id_asks(struct cma_id *id, struct cma_id *listener)
{
	id->asked = listener;
	id->request_no = ++listener->nb_requests;
	LIST_INSERT_HEAD(&listener->requests, id, asked_link);
}

static void
forget_listener(struct cma_id *id)
{
	if (id->asked == NULL)
		return;
	LIST_REMOVE(id, asked_link);
	id->asked = NULL;
}

/** Refuse who asked behind the first @p taken, which are the program's: nobody will ever read of them. */
static void
refuse_unread(struct cma_id *listener, uint32_t taken)
{
	struct cma_id *id, *next;

	for (id = LIST_FIRST(&listener->requests); id != NULL; id = next) {
		next = LIST_NEXT(id, asked_link);
		/* An id that is elsewhere has been read, whatever the client says. */
		if (id->request_no > taken && id->session == listener->session)
			cma_id_free(id);
		else
			forget_listener(id);
	}
}

void
cma_id_free(struct cma_id *id)
{
	struct session *s = id->session;
	struct cm *cm = s->control->cma->cm;

	cma_resolve_stop(id);
	cma_lap_stop(id);
	forget_listener(id);
	while (!LIST_EMPTY(&id->requests))
		forget_listener(LIST_FIRST(&id->requests));
	if (id->listener != NULL)
		cm_unlisten(cm, id->listener);
	if (id->conn != NULL)
		cm_destroy(id->conn, control_now_ns());
	while (!LIST_EMPTY(&id->groups))
		group_free(LIST_FIRST(&id->groups));
	cma_unbind(id);
	cma_event_forget(id);
	obj_free(s, OBJ_CM_ID, &id->obj);
}

int
cma_id_move(struct cma_id *id, struct session *to)
{
	struct session *from = id->session;
	uint32_t handle;

	handle = handles_add(&to->tab[OBJ_CM_ID], id);
	if (handle == HANDLE_NONE)
		return ENOMEM;
	handles_remove(&from->tab[OBJ_CM_ID], id->obj.handle);
	from->user->count[OBJ_CM_ID]--;
	to->user->count[OBJ_CM_ID]++;
	if (id->state == CMA_RESOLVING) {
		from->cma->nb_resolving--;
		to->cma->nb_resolving++;
	}
	id->obj.handle = handle;
	id->session = to;
	return 0;
}

struct cma_id *
cma_id_get(struct session *s, uint32_t handle, struct request *r)
{
	if (s->cma == NULL) {
		req_fail(r, EINVAL, "this session has no event channel: CM_OPEN first");
		return NULL;
	}
	return obj_get(s, OBJ_CM_ID, handle, r);
}

void
cma_id_info(const struct cma_id *id, struct ctl_cm_id_info *info)
{
	*info = (struct ctl_cm_id_info){
		.local = id->local,
		.remote = id->remote,
		.device = id->port != NULL ? id->port->index : UINT32_MAX,
		.pkey = id->port != NULL ? id->port->conf.pkeys[0] : 0,
		.sgid_index = id->sgid_index,
		.hop_limit = CMA_HOP_LIMIT,
		.traffic_class = id->tos,
		.packet_life = CMA_PACKET_LIFE,
	};
	if (id->port != NULL) {
		info->path_mtu = (uint8_t)id->port->active_mtu;
		memcpy(info->sgid, net_gid(id->port, id->sgid_index), 16);
	}
	memcpy(info->dgid, id->remote.gid, 16);
}

int
op_cm_create_id(struct session *s, struct request *r)
{
	const struct ctl_cm_create_req *q = &r->req->cm_create;
	struct cma_id *id;
	int rc = 0;

	if (s->cma == NULL)
		return req_fail(r, EINVAL, "this session has no event channel: CM_OPEN first");
	if (q->ps != CTL_CM_PS_TCP && q->ps != CTL_CM_PS_UDP && q->ps != CTL_CM_PS_IB && q->ps != CTL_CM_PS_IPOIB)
		return req_fail(r, EPROTONOSUPPORT, "port space %#x: must be TCP, UDP, IB or IPOIB", q->ps);
	if (q->qp_type != UROCE_QPT_RC && q->qp_type != UROCE_QPT_UC && q->qp_type != UROCE_QPT_UD &&
	    q->qp_type != UROCE_QPT_XRC_SEND && q->qp_type != UROCE_QPT_XRC_RECV)
		return req_fail(r, EINVAL, "QP type %u can't be connected", q->qp_type);
	id = cma_id_new(s, q->ps, (uint8_t)q->qp_type, r, &rc);
	if (id == NULL)
		return rc;
	r->rsp.handle.handle = id->obj.handle;
	return 0;
}

int
op_cm_destroy_id(struct session *s, struct request *r)
{
	struct cma_id *id = cma_id_get(s, r->req->cm_destroy.id, r);

	if (id == NULL)
		return EINVAL;
	refuse_unread(id, r->req->cm_destroy.taken);
	cma_id_free(id);
	return 0;
}

int
op_cm_query(struct session *s, struct request *r)
{
	struct cma_id *id = cma_id_get(s, r->req->handle.handle, r);

	if (id == NULL)
		return EINVAL;
	cma_id_info(id, &r->rsp.cm_info);
	return 0;
}

int
op_cm_set_option(struct session *s, struct request *r)
{
	const struct ctl_cm_option_req *q = &r->req->cm_option;
	struct cma_id *id = cma_id_get(s, q->id, r);

	if (id == NULL)
		return EINVAL;
	switch (q->option) {
	case CTL_CM_OPT_TOS:
		if (q->value > UINT8_MAX)
			return req_fail(r, EINVAL, "TOS %u: must be 0 to 255", q->value);
		id->tos = (uint8_t)q->value;
		return 0;
	case CTL_CM_OPT_REUSEADDR:
		if (id->state != CMA_IDLE)
			return req_fail(r, EINVAL, "this id has an address already");
		id->reuse = q->value != 0;
		return 0;
	case CTL_CM_OPT_AFONLY:
		if (id->state != CMA_IDLE)
			return req_fail(r, EINVAL, "this id has an address already");
		id->af_only = q->value != 0;
		return 0;
	case CTL_CM_OPT_ACK_TIMEOUT:
		if (q->value > 31)
			return req_fail(r, EINVAL, "ACK timeout %u: must be 0 to 31", q->value);
		id->ack_timeout = (uint8_t)q->value;
		id->ack_timeout_set = true;
		return 0;
	default:
		return req_fail(r, ENOSYS, "unknown option %u", q->option);
	}
}

/* ---- Groups. Membership on the network is the QP's that attaches; this tells the program how to get there. ---- */
static bool
is_multicast(const struct ctl_cm_addr *a)
{
	return a->family == 4 ? (a->gid[12] & 0xf0) == 0xe0 : a->family == 6 && a->gid[0] == 0xff;
}

int
op_cm_join(struct session *s, struct request *r)
{
	const struct ctl_cm_join_req *q = &r->req->cm_join;
	struct cma_id *id = cma_id_get(s, q->id, r);
	struct ctl_cm_event ev = { .type = CTL_CM_EV_MULTICAST_JOIN };
	struct cma_group *g;
	int rc = 0;

	if (id == NULL)
		return EINVAL;
	if (!cma_is_ud(id) || id->port == NULL)
		return req_fail(r, EINVAL, "to join a group an id needs the UDP port space and a local address");
	if (!is_multicast(&q->addr) || q->addr.family != id->local.family)
		return req_fail(r, EINVAL, "no multicast address of the id's family");
	LIST_FOREACH(g, &id->groups, link)
	{
		if (memcmp(g->mgid, q->addr.gid, 16) == 0)
			return req_fail(r, EADDRINUSE, "this id has joined that group already");
	}
	rc = cma_event_want_room(s, r);
	if (rc != 0)
		return rc;
	g = obj_new(s, OBJ_CM_GROUP, sizeof(*g), r, &rc);
	if (g == NULL)
		return rc;
	g->id = id;
	memcpy(g->mgid, q->addr.gid, 16);
	LIST_INSERT_HEAD(&id->groups, g, link);
	ev.id = id->obj.handle;
	ev.group = g->obj.handle;
	ev.conn.qp_num = 0xffffff;
	ev.conn.qkey = CMA_UDP_QKEY;
	cma_av(id, g->mgid, &ev.ah);
	r->rsp.handle.handle = g->obj.handle;
	cma_event_send(id, &ev, NULL);
	return 0;
}

int
op_cm_leave(struct session *s, struct request *r)
{
	struct cma_group *g = obj_get(s, OBJ_CM_GROUP, r->req->handle.handle, r);

	if (g == NULL)
		return EINVAL;
	group_free(g);
	return 0;
}

static struct session *
find_token(struct control *c, uint64_t token)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
	{
		if (s->cma != NULL && s->cma->token == token)
			return s;
	}
	return NULL;
}

int
op_cm_migrate(struct session *s, struct request *r)
{
	const struct ctl_cm_migrate_req *q = &r->req->cm_migrate;
	struct session *from = find_token(s->control, q->token);
	struct cma_id *id;

	if (s->cma == NULL || from == NULL)
		return req_fail(r, EINVAL, "no event channel has this token");
	id = obj_get(from, OBJ_CM_ID, q->id, r);
	if (id == NULL)
		return EINVAL;
	if (s == from) {
		r->rsp.handle.handle = id->obj.handle;
		return 0;
	}
	if (!LIST_EMPTY(&id->groups))
		return req_fail(r, EBUSY, "an id that has joined groups can't move");
	if (s->tab[OBJ_CM_ID].used + cma_event_requests(id) >= CTL_CM_MAX_IDS)
		return req_fail(r, ENOMEM, "the new event channel has %u of %d ids already", s->tab[OBJ_CM_ID].used,
				CTL_CM_MAX_IDS);
	if (cma_id_move(id, s) != 0)
		return req_fail(r, ENOMEM, "no memory for the id");
	r->rsp.handle.handle = id->obj.handle;
	cma_event_known(id);
	cma_event_move(id, from);
	return 0;
}
