/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC domains and their target QPs, which programs share. A session's obj_xrcd is one opening of a struct xrcd, and its
 * obj_qp of type XRC_RECV one opening of a struct xrc_target. Either is destroyed when its last opening is closed, in
 * whichever program.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/obj/identity_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"

/* ---- Domains ---- */
/**
 * Identify the file through which the domain is shared. Only the kernel is asked, not its file system, which may be the
 * program's own and never answer. A descriptor opened with O_PATH is refused, because nobody has checked that the
 * program may open the file. Errors are those of Linux's ib_uverbs_open_xrcd().
 */
int
xrcd_identify(int fd, struct xrcd *x, struct request *r)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx st;

	if (flags < 0 || (flags & O_PATH))
		return req_fail(r, EBADF, "the descriptor of an XRC domain must be of an open file");
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) != 0)
		return req_fail(r, errno, "the file of an XRC domain can't be identified");
	x->shared = true;
	x->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	x->ino = st.stx_ino;
	return 0;
}

struct xrcd *
xrcd_of_file(struct control *c, const struct xrcd *like)
{
	struct xrcd *x;

	LIST_FOREACH(x, &c->xrcds, link) {
		if (x->shared && x->port == like->port && x->dev == like->dev && x->ino == like->ino)
			return x;
	}
	return NULL;
}

struct xrcd *
xrcd_of_id(struct control *c, uint32_t id)
{
	struct xrcd *x;

	LIST_FOREACH(x, &c->xrcds, link) {
		if (x->id == id)
			return x;
	}
	return NULL;
}

static struct xrcd *
new_domain(struct control *c, const struct xrcd *like)
{
	struct xrcd *x = malloc(sizeof(*x));

	if (x == NULL)
		return NULL;
	*x = *like;
	LIST_INIT(&x->targets);
	LIST_INIT(&x->srqs);
	x->looked = 0;
	/* 0 means no domain. Those of the daemon before have kept their numbers. */
	do
		c->next_xrcd++;
	while (c->next_xrcd == 0 || xrcd_of_id(c, c->next_xrcd) != NULL);
	x->id = c->next_xrcd;
	/* All SRQs and targets of a domain are on one engine, so that packets don't have to change engines. */
	x->engine = c->next_engine++ % c->s.nb_engines;
	LIST_INSERT_HEAD(&c->xrcds, x, link);
	return x;
}

void
xrcd_opened(struct obj_xrcd *o, struct xrcd *x, int fd)
{
	x->opens++;
	o->xrcd = x;
	/*
	 * While a descriptor is open, the inode number can't be reused for another file. Each opening keeps the
	 * descriptor of its own program, so that the file locks of a program that has ended are released.
	 */
	o->fd = fd;
}

int
op_xrcd_open(struct session *s, struct request *r)
{
	uint32_t oflags = r->req->xrcd_open.oflags;
	struct xrcd like = { .port = s->port }, *x = NULL;
	struct obj_xrcd *o;
	int rc;

	if (r->nb_fds == 1) {
		rc = xrcd_identify(r->fds[0], &like, r);
		if (rc != 0)
			return rc;
		x = xrcd_of_file(s->control, &like);
		if (x == NULL && !(oflags & O_CREAT))
			return req_fail(r, EAGAIN, "the file has no XRC domain yet; O_CREAT makes one");
		if (x != NULL && (oflags & O_EXCL))
			return req_fail(r, EINVAL, "O_EXCL: the file has an XRC domain already");
	}
	o = obj_new(s, OBJ_XRCD, sizeof(*o), r, &rc);
	if (o == NULL)
		return rc;
	if (x == NULL)
		x = new_domain(s->control, &like);
	if (x == NULL) {
		obj_free(s, OBJ_XRCD, &o->obj);
		return req_fail(r, ENOMEM, "no memory for the XRC domain");
	}
	xrcd_opened(o, x, r->nb_fds == 1 ? r->fds[0] : -1);
	if (r->nb_fds == 1)
		r->fds[0] = -1;
	r->rsp.handle.handle = o->obj.handle;
	return 0;
}

void
obj_xrcd_destroy(struct session *s, struct obj_xrcd *o)
{
	struct xrcd *x = o->xrcd;

	if (--x->opens == 0) {
		LIST_REMOVE(x, link);
		free(x);
	}
	if (o->fd >= 0)
		closer_close(o->fd, s->user->uid);
	obj_free(s, OBJ_XRCD, &o->obj);
}

int
op_xrcd_close(struct session *s, struct request *r)
{
	struct obj_xrcd *o = r->obj;

	if (o->obj.users > 0)
		return req_fail(r, EBUSY, "%u QPs and SRQs use the XRC domain; destroy them first", o->obj.users);
	obj_xrcd_destroy(s, o);
	return 0;
}

/* ---- SRQ numbers ---- */
enum { SRQN_INDEX_BITS = 16, SRQN_GEN_BITS = 8 };

/** @return the number of the SRQ with handle @p h in control.srqns; 0: the handle is beyond the numbers. */
static uint32_t
srqn_of(uint32_t h)
{
	uint32_t i = h & ((1u << HANDLES_INDEX_BITS) - 1);

	return i >= 1u << SRQN_INDEX_BITS ? 0 : (h >> HANDLES_INDEX_BITS & ((1u << SRQN_GEN_BITS) - 1)) << SRQN_INDEX_BITS | i;
}

uint32_t
srqn_new(struct control *c, struct obj_srq *srq)
{
	uint32_t h = handles_add(&c->srqns, srq);

	if (h == HANDLE_NONE)
		return 0;
	if (srqn_of(h) == 0) {
		handles_remove(&c->srqns, h);
		return 0;
	}
	srq->srqn_handle = h;
	return srqn_of(h);
}

uint32_t
srqn_take(struct control *c, struct obj_srq *srq, uint32_t handle)
{
	if (srqn_of(handle) == 0 || !handles_add_as(&c->srqns, srq, handle))
		return 0;
	srq->srqn_handle = handle;
	return srqn_of(handle);
}

void
srqn_free(struct control *c, struct obj_srq *srq)
{
	handles_remove(&c->srqns, srq->srqn_handle);
}

/* ---- Target QPs ---- */
struct target_args {
	struct qp_params params;
	struct qp *qp;
};

static int
create_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct target_args *a = arg;

	return qp_create(engine_transport(e), &a->params, &a->qp);
}

static int
destroy_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	qp_destroy(engine_transport(e), arg);
	return 0;
}

struct xrc_target *
xrc_target_alloc(void)
{
	struct xrc_target *t = aligned_alloc(RING_CACHE_LINE, (sizeof(*t) + RING_CACHE_LINE - 1) / RING_CACHE_LINE * RING_CACHE_LINE);

	if (t == NULL)
		return NULL;
	memset(t, 0, sizeof(*t));
	LIST_INIT(&t->openings);
	return t;
}

struct qp_params
xrc_target_params(struct xrc_target *t, const struct xrcd *x)
{
	return (struct qp_params){
		.type = UROCE_QPT_XRC_RECV,
		.xrcd = x->id,
		.shared = &t->shared,
		.port = x->port->index,
		.max_mtu = x->port->active_mtu,
		.cookie = t->cookie,
		.owner = XRC_TARGET_OWNER,
		/* It may outlive the session, and has no share of it but that of the transport, with all other targets. */
		.share = NULL,
	};
}

void
xrc_target_end(struct control *c, const struct xrcd *x, struct xrc_target *t)
{
	engine_call(c->s.engines[x->engine], destroy_on_engine, t->qp);
	t->qp = NULL;
}

/** @return a new target in @p x, or NULL, with the request failed. */
static struct xrc_target *
new_target(struct session *s, struct request *r, struct xrcd *x)
{
	struct control *c = s->control;
	struct xrc_target *t = xrc_target_alloc();
	struct target_args a;
	int rc = ENOMEM;

	if (t == NULL)
		goto fail;
	t->cookie = handles_add(&c->targets, t);
	if (t->cookie == HANDLE_NONE)
		goto fail;
	a.params = xrc_target_params(t, x);
	rc = engine_call(c->s.engines[x->engine], create_on_engine, &a);
	if (rc != 0)
		goto fail_cookie;
	t->qp = a.qp;
	LIST_INSERT_HEAD(&x->targets, t, link);
	t->saved = saved_new(s->control, &s->control->saving.stack, SAVED_XRC_TARGET, t);
	return t;
fail_cookie:
	handles_remove(&c->targets, t->cookie);
fail:
	free(t);
	req_fail(r, rc, "no memory for the QP");
	return NULL;
}

void
xrc_target_opened(struct session *s, struct obj_qp *qp, struct obj_xrcd *d, struct xrc_target *t, uint64_t cookie)
{
	qp->type = UROCE_QPT_XRC_RECV;
	qp->session = s;
	qp->xrcd = d;
	qp->target = t;
	qp->engine = d->xrcd->engine;
	qp->cookie = cookie;
	LIST_INSERT_HEAD(&t->openings, qp, opening);
	d->obj.users++;
}

/** Create an opening of @p t for the session. @p t NULL: of a new target. */
static int
open_target(struct session *s, struct request *r, struct obj_xrcd *d, struct xrc_target *t, uint64_t cookie)
{
	struct obj_qp *qp;
	int rc;

	/* The object comes first, because its limits are checked before those of the engine. */
	qp = obj_new(s, OBJ_QP, sizeof(*qp), r, &rc);
	if (qp == NULL)
		return rc;
	if (t == NULL)
		t = new_target(s, r, d->xrcd);
	if (t == NULL) {
		obj_free(s, OBJ_QP, &qp->obj);
		return ENOMEM;
	}
	xrc_target_opened(s, qp, d, t, cookie);
	qp->qp = t->qp;
	qp->qpn = qp_num(t->qp);
	r->rsp.qp_create = (struct ctl_qp_create_rsp){ .handle = qp->obj.handle, .qpn = qp->qpn };
	return 0;
}

int
op_xrc_target_create(struct session *s, struct request *r)
{
	const struct ctl_qp_create_req *q = &r->req->qp_create;
	struct obj_xrcd *d = obj_get(s, OBJ_XRCD, q->xrcd, r);

	return d != NULL ? open_target(s, r, d, NULL, q->cookie) : EINVAL;
}

int
op_qp_open(struct session *s, struct request *r)
{
	const struct ctl_qp_open_req *q = &r->req->qp_open;
	struct obj_xrcd *d = obj_get(s, OBJ_XRCD, q->xrcd, r);
	struct xrc_target *t;

	if (d == NULL)
		return EINVAL;
	LIST_FOREACH(t, &d->xrcd->targets, link) {
		if (qp_num(t->qp) == q->qpn)
			break;
	}
	if (t == NULL || q->type != UROCE_QPT_XRC_RECV)
		return req_fail(r, EINVAL, "the XRC domain has no QP %#x of type %u", q->qpn, q->type);
	return open_target(s, r, d, t, q->cookie);
}

void
obj_xrc_target_close(struct session *s, struct obj_qp *qp)
{
	struct control *c = s->control;
	struct xrc_target *t = qp->target;

	identity_disconnected(qp);
	LIST_REMOVE(qp, opening);
	if (LIST_EMPTY(&t->openings)) {
		/* It has none if it couldn't be made as it was in the daemon before. */
		if (t->qp != NULL)
			xrc_target_end(c, qp->xrcd->xrcd, t);
		LIST_REMOVE(t, link);
		saved_end(c, &t->saved);
		handles_remove(&c->targets, (uint32_t)t->cookie);
		free(t);
	}
	qp->xrcd->obj.users--;
	free(qp->note);
	obj_free(s, OBJ_QP, &qp->obj);
}
