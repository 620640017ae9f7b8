/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon goes, another one comes: XRC domains and targets, which sessions share. Each session has records of its openings, from the first of which a
 * domain is made again. A target's QP may be receiving into an SRQ of any session, so the QPs come behind all sessions.
 */
#include <stdio.h>

#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/obj/after_crash_priv.h"
#include "control/obj/identity_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/obj/own_address_priv.h"
#include "transport/record/record.h"

/* ---- Domains ---- */
struct xrcd_record {
	struct record_head head;
	uint64_t dev, ino;
	uint32_t handle, id, engine, shared;
	uint32_t fd, reserved;
};

int
obj_xrcd_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_xrcd *d = obj;
	const struct xrcd_record r = {
		.dev = d->xrcd->dev,
		.ino = d->xrcd->ino,
		.handle = d->obj.handle,
		.id = d->xrcd->id,
		.engine = d->xrcd->engine,
		.shared = d->xrcd->shared,
		.fd = stream_put_fd(o, d->fd),
	};

	stream_put(o, RECORD_OBJ_XRCD, &r, sizeof(r), NULL, 0);
	return 0;
}

/** Check what a record says of a domain, and that it is that of its file. */
static int
check_domain(struct session *s, const struct xrcd_record *from, int fd, const struct xrcd *x, struct request *r)
{
	struct xrcd file = { .port = s->port };
	int rc;

	if (from->id == 0 || from->engine >= s->control->s.nb_engines || from->shared > 1 || (fd >= 0) != (from->shared != 0))
		return req_fail(r, EINVAL, "XRC domain %#x: number %u, engine %u", from->handle, from->id, from->engine);
	if (x != NULL && (!x->shared || !from->shared || x->port != s->port || x->engine != from->engine || x->dev != from->dev || x->ino != from->ino))
		return req_fail(r, EEXIST, "XRC domain %#x: another one has its number, %u", from->handle, from->id);
	if (!from->shared)
		return 0;
	rc = xrcd_identify(fd, &file, r);
	if (rc == 0 && (file.dev != from->dev || file.ino != from->ino || xrcd_of_file(s->control, &file) != x))
		rc = req_fail(r, EINVAL, "XRC domain %#x: it is of another file", from->handle);
	return rc;
}

static int
restore_domain(struct session *s, const struct xrcd_record *from, int fd, struct request *r)
{
	struct control *c = s->control;
	struct xrcd *x = xrcd_of_id(c, from->id);
	struct obj_xrcd *d;
	int rc = check_domain(s, from, fd, x, r);

	if (rc != 0)
		return rc;
	d = obj_new_as(s, OBJ_XRCD, sizeof(*d), from->handle, r, &rc);
	if (d == NULL)
		return rc;
	if (x == NULL) {
		x = malloc(sizeof(*x));
		if (x == NULL) {
			obj_free(s, OBJ_XRCD, &d->obj);
			return req_fail(r, ENOMEM, "no memory for the XRC domain");
		}
		*x = (struct xrcd){ .port = s->port, .id = from->id, .engine = from->engine, .shared = from->shared != 0, .dev = from->dev,
				    .ino = from->ino };
		LIST_INSERT_HEAD(&c->xrcds, x, link);
	}
	xrcd_opened(d, x, fd);
	return 0;
}

int
obj_xrcd_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct xrcd_record *from;
	int rc = 0, fd;

	while (rc == 0 && (from = stream_next(in, RECORD_OBJ_XRCD, sizeof(*from))) != NULL) {
		fd = stream_take_fd(in, from->fd);
		rc = s->port != NULL ? restore_domain(s, from, fd, r) : req_fail(r, EINVAL, "XRC domain %#x: it has no device", from->handle);
		if (rc != 0 && fd >= 0)
			closer_close(fd, s->user->uid);
	}
	return rc;
}

/* ---- Openings of targets ---- */
struct xrc_opening_record {
	struct record_head head;
	struct gid peer_gid;
	uint64_t cookie;
	uint32_t handle, xrcd, target, qpn;
	uint32_t has_peer, peer_qpn, has_address, reserved;
};

int
obj_xrc_opening_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_qp *qp = obj;
	struct xrc_opening_record r;

	if (qp->target == NULL)
		return 0;
	r = (struct xrc_opening_record){
		.peer_gid = qp->peer_gid,
		.cookie = qp->cookie,
		.handle = qp->obj.handle,
		.xrcd = qp->xrcd->obj.handle,
		.target = (uint32_t)qp->target->cookie,
		.qpn = qp->qpn,
		.has_peer = qp->has_peer,
		.peer_qpn = qp->peer_qpn,
		.has_address = qp->gids != 0,
	};
	stream_put(o, RECORD_OBJ_XRC_OPENING, &r, sizeof(r), NULL, 0);
	return 0;
}

static bool
is_of_domain(const struct xrc_target *t, const struct xrcd *x)
{
	const struct xrc_target *other;

	LIST_FOREACH(other, &x->targets, link) {
		if (other == t)
			return true;
	}
	return false;
}

/** @return the target with that handle, which is new if no other session has it; NULL: no memory, or its place is taken. */
static struct xrc_target *
target_as(struct control *c, struct xrcd *x, uint32_t handle)
{
	struct xrc_target *t = handles_get(&c->targets, handle);

	if (t != NULL)
		return t;
	t = xrc_target_alloc();
	if (t == NULL)
		return NULL;
	t->cookie = handle;
	if (!handles_add_as(&c->targets, t, handle)) {
		free(t);
		return NULL;
	}
	LIST_INSERT_HEAD(&x->targets, t, link);
	t->saved = saved_new(c, &c->saving.stack, SAVED_XRC_TARGET, t);
	return t;
}

static int
restore_opening(struct session *s, const struct xrc_opening_record *from, struct request *r)
{
	struct obj_xrcd *d = obj_get(s, OBJ_XRCD, from->xrcd, r);
	struct xrc_target *t;
	struct obj_qp *qp;
	int rc;

	if (d == NULL)
		return EINVAL;
	t = handles_get(&s->control->targets, from->target);
	/* One that is whole is not of these records. */
	if (t != NULL && (t->qp != NULL || !is_of_domain(t, d->xrcd) || LIST_FIRST(&t->openings)->qpn != from->qpn))
		return req_fail(r, EINVAL, "QP %#x: it is another XRC target than others have", from->handle);
	qp = obj_new_as(s, OBJ_QP, sizeof(*qp), from->handle, r, &rc);
	if (qp == NULL)
		return rc;
	t = target_as(s->control, d->xrcd, from->target);
	if (t == NULL) {
		obj_free(s, OBJ_QP, &qp->obj);
		return req_fail(r, ENOMEM, "no memory for the QP, or another one has its place");
	}
	xrc_target_opened(s, qp, d, t, from->cookie);
	qp->qpn = from->qpn;
	qp->gids = from->has_address != 0;
	if (from->has_peer)
		identity_connected(s, qp, &from->peer_gid, from->peer_qpn);
	return 0;
}

int
obj_xrc_openings_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct xrc_opening_record *from;
	int rc = 0;

	while (rc == 0 && (from = stream_next(in, RECORD_OBJ_XRC_OPENING, sizeof(*from))) != NULL)
		rc = restore_opening(s, from, r);
	return rc;
}

/* ---- Targets ---- */
/** Behind it: the record of its QP. */
struct xrc_target_record {
	struct record_head head;
	uint32_t target, pkey_index;
};

int
xrc_target_save(struct session *s, void *target, struct stream_out *o)
{
	const struct xrc_target *t = target;
	const struct xrc_target_record r = { .target = (uint32_t)t->cookie, .pkey_index = t->pkey_index };
	const struct obj_qp *qp = LIST_FIRST(&t->openings);

	/* It is being made. */
	if (qp == NULL || t->qp == NULL)
		return 0;
	stream_put(o, RECORD_XRC_TARGET, &r, sizeof(r), NULL, 0);
	return obj_qp_save_state(qp->session->control->s.engines[qp->xrcd->xrcd->engine], t->qp, o);
}

int
xrc_targets_save(struct control *c, struct stream_out *o)
{
	const struct xrcd *x;
	struct xrc_target *t;
	int rc = 0;

	LIST_FOREACH(x, &c->xrcds, link) {
		LIST_FOREACH(t, &x->targets, link) {
			rc = xrc_target_save(NULL, t, o);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

struct restore_args {
	struct qp_params params;
	const struct qp_record *from;
	uint32_t room;
	struct qp *qp;
	const char *why;
};

static int
restore_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct restore_args *a = arg;

	return qp_restore(engine_transport(e), a->from, a->room, &a->params, now_ns, &a->qp, &a->why);
}

/** @return NULL, or why the target can't be made. */
static const char *
restore_target(struct control *c, const struct xrc_target_record *from, struct xrc_target *t, struct stream_in *in)
{
	const struct xrcd *x = LIST_FIRST(&t->openings)->xrcd->xrcd;
	struct restore_args a = { .why = "its record is missing" };
	union after_crash_record now;
	bool lost = false, done = false;
	struct obj_qp *o;
	uint16_t gids;

	if (t->qp != NULL || from->pkey_index >= UROCE_MAX_PKEYS)
		return "its P_Key index is none, or it is there twice";
	a.params = xrc_target_params(t, x);
	a.from = stream_kind(in) == RECORD_QP ? stream_foreign(in, &a.room) : NULL;
	if (a.from != NULL && c->s.crashed_ns != 0 && after_crash_qp(c, NULL, a.from, a.room, &a.params, &now, &done, &lost)) {
		a.from = &now.qp.fixed;
		a.room = sizeof(now);
	}
	if (a.from == NULL || engine_call(c->s.engines[x->engine], restore_on_engine, &a) != 0)
		return a.why;
	t->qp = a.qp;
	t->pkey_index = (uint16_t)from->pkey_index;
	if (qp_num(t->qp) != LIST_FIRST(&t->openings)->qpn) {
		xrc_target_end(c, x, t);
		return "its QP number is another one than its programs have";
	}
	LIST_FOREACH(o, &t->openings, opening) {
		o->qp = t->qp;
		gids = (uint16_t)own_address_resumed_qp(o->session, t->qp);
		o->gids = o->gids != 0 ? gids : 0;
		/* Whoever of them it was. */
		o->done = done;
		if (lost)
			after_crash_tell(o->session, qp_type_name(UROCE_QPT_XRC_RECV), o->qpn, o->cookie);
	}
	return NULL;
}

/** End the sessions that have @p t open. */
static void
end_users(const struct xrc_target *t, struct handover_counts *n)
{
	const struct obj_qp *o;
	char why[80];

	LIST_FOREACH(o, &t->openings, opening) {
		if (o->session->closing)
			continue;
		snprintf(why, sizeof(why), "it can't be taken over: XRC target %#x can't", o->qpn);
		session_close(o->session, why);
		n->sessions--;
		n->qps -= o->session->tab[OBJ_QP].used;
		n->refused++;
	}
}

void
xrc_targets_restore(struct control *c, struct stream_in *in, struct handover_counts *n)
{
	const struct xrc_target_record *from;
	const struct xrc_target *t;
	const struct xrcd *x;
	const char *why;
	uint32_t room;

	while ((from = stream_next(in, RECORD_XRC_TARGET, sizeof(*from))) != NULL) {
		struct xrc_target *to = handles_get(&c->targets, from->target);

		/* Without an opening nobody has it. */
		why = to != NULL ? restore_target(c, from, to, in) : NULL;
		if (why != NULL)
			CTL_LOG(ERR, "XRC target %#x can't be taken over: %s", LIST_FIRST(&to->openings)->qpn, why);
		while (stream_kind(in) == RECORD_QP && stream_foreign(in, &room) != NULL)
			;
	}
	LIST_FOREACH(x, &c->xrcds, link) {
		LIST_FOREACH(t, &x->targets, link) {
			if (t->qp == NULL)
				end_users(t, n);
		}
	}
}
