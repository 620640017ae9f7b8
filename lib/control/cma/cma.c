/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, configuring, moving and destroying ids at a program's request. */
#include "control/cma/cma_priv.h"
#include "control/obj/identity_priv.h"

/**
 * [control.peer_agreed] A REP of the peer names its QP in answer to a REQ that named ours, and a REQ that is being accepted names the
 * peer's QP.
 */
static bool
peer_agreed(struct control *c, const struct session *s, uint32_t qpn, const struct gid *gid, uint32_t peer_qpn)
{
	const struct session *t;
	const struct cma_id *id;

	TAILQ_FOREACH(t, &c->sessions, link) {
		if (t->cma == NULL || t->user != s->user)
			continue;
		for (uint32_t pos = 0; (id = handles_next(&t->tab[OBJ_CM_ID], &pos)) != NULL;) {
			if (id->conn != NULL && id->remote_qpn == peer_qpn && gid_equal(cma_peer_gid(id), gid) &&
			    (id->passive || id->qpn == qpn) && cm_conn_agreed(id->conn))
				return true;
		}
	}
	return false;
}

bool
cma_qp_failed(struct cma *cma, const struct cma_id *id)
{
	return identity_qp_failed(cma->control, id->session->user, id->qpn);
}

struct cma *
cma_create(struct control *c, struct cm *cm)
{
	struct cma *cma = calloc(1, sizeof(*cma));

	if (cma == NULL)
		return NULL;
	cma->control = c;
	cma->cm = cm;
	TAILQ_INIT(&cma->resolving);
	c->peer_agreed = peer_agreed;
	return cma;
}

void
cma_destroy(struct cma *cma)
{
	free(cma);
}

void
cma_id_free(struct cma_id *id)
{
	struct session *s = id->session;
	struct cm *cm = s->control->cma->cm;

	cma_resolve_stop(id);
	cma_lap_stop(id);
	cma_id_forget_listener(id);
	while (!LIST_EMPTY(&id->requests))
		cma_id_forget_listener(LIST_FIRST(&id->requests));
	if (id->listener != NULL)
		cm_unlisten(cm, id->listener);
	if (id->conn != NULL)
		cm_destroy(id->conn, control_now_ns());
	while (!LIST_EMPTY(&id->groups))
		cma_group_free(LIST_FIRST(&id->groups));
	cma_unbind(id);
	cma_event_forget(id);
	obj_free(s, OBJ_CM_ID, &id->obj);
}

/** Refuse the requests after the first @p taken: the program has not read their events and never will. */
static void
refuse_unread(struct cma_id *listener, uint32_t taken)
{
	struct cma_id *id, *next;

	for (id = LIST_FIRST(&listener->requests); id != NULL; id = next) {
		next = LIST_NEXT(id, asked_link);
		/* If an id is in another session its event was read, whatever the client says. */
		if (id->request_no > taken && id->session == listener->session)
			cma_id_free(id);
		else
			cma_id_forget_listener(id);
	}
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
	struct cma_id *id = r->obj;

	refuse_unread(id, r->req->cm_destroy.taken);
	cma_id_free(id);
	return 0;
}

int
op_cm_query(struct session *s, struct request *r)
{
	struct cma_id *id = r->obj;

	cma_id_info(id, &r->rsp.cm_info);
	return 0;
}

int
op_cm_set_option(struct session *s, struct request *r)
{
	const struct ctl_cm_option_req *q = &r->req->cm_option;
	struct cma_id *id = r->obj;

	switch (q->option) {
	case CTL_CM_OPT_TOS:
		if (q->value > UINT8_MAX)
			return req_fail(r, EINVAL, "TOS %u: must be 0 to 255", q->value);
		id->tos = (uint8_t)q->value;
		return 0;
	case CTL_CM_OPT_REUSEADDR:
	case CTL_CM_OPT_AFONLY:
		if (id->state != CMA_IDLE)
			return req_fail(r, EINVAL, "this id has an address already");
		*(q->option == CTL_CM_OPT_REUSEADDR ? &id->reuse : &id->af_only) = q->value != 0;
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

static struct session *
find_token(struct control *c, uint64_t token)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link) {
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

void
cma_session_end(struct session *s)
{
	struct cma_id *id;

	if (s->cma == NULL)
		return;
	for (uint32_t pos = 0; (id = handles_next(&s->tab[OBJ_CM_ID], &pos)) != NULL;)
		cma_id_free(id);
	cma_channel_end(s);
}

void
cma_device_gone(struct control *c, const struct net_port *port)
{
	struct session *s;
	struct cma_id *id;

	TAILQ_FOREACH(s, &c->sessions, link) {
		if (s->cma == NULL)
			continue;
		for (uint32_t pos = 0; (id = handles_next(&s->tab[OBJ_CM_ID], &pos)) != NULL;)
			if (id->port == port && cma_event_room(s))
				cma_event(id, CTL_CM_EV_DEVICE_REMOVAL, 0);
	}
}
