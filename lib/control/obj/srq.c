/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/obj/after_crash_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "transport/record/record.h"

enum { SRQ_ATTR_MAX_WR = 1, SRQ_ATTR_LIMIT = 2 }; /* enum ibv_srq_attr_mask */

struct create_args {
	struct srq_params params;
	struct srq *srq;
};

static int
create_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct create_args *a = arg;

	return srq_create(engine_transport(e), &a->params, &a->srq);
}

static int
destroy_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	return srq_destroy(engine_transport(e), arg);
}

struct limit_args {
	struct srq *srq;
	bool set;
	uint32_t limit;
};

/** Set or get the limit. */
static int
limit_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct limit_args *a = arg;

	if (a->set)
		srq_set_limit(a->srq, a->limit);
	else
		a->limit = srq_limit(a->srq);
	return 0;
}

static int
check(struct request *r)
{
	const struct ctl_srq_create_req *q = &r->req->srq_create;

	if (q->max_wr == 0 || q->max_wr > UROCE_MAX_QP_WR)
		return req_fail(r, EINVAL, "SRQ of %u WRs: must be 1 to %u", q->max_wr, UROCE_MAX_QP_WR);
	if (q->max_sge > UROCE_MAX_SGE)
		return req_fail(r, EINVAL, "SRQ with %u SGEs per WR: must be at most %u", q->max_sge, UROCE_MAX_SGE);
	if (q->limit > q->max_wr)
		return req_fail(r, EINVAL, "SRQ limit %u: must be at most max_wr, %u", q->limit, q->max_wr);
	return 0;
}

static void
use_parts(struct obj_srq *srq, int n)
{
	srq->pd->obj.users += n;
	if (srq->xrcd == NULL)
		return;
	srq->xrcd->obj.users += n;
	srq->cq->obj.users += n;
	if (n > 0)
		LIST_INSERT_HEAD(&srq->xrcd->xrcd->srqs, srq, domain_link);
	else
		LIST_REMOVE(srq, domain_link);
}

/** Find the domain and CQ of an XRC SRQ. */
static int
find_xrc(struct session *s, struct request *r, struct obj_xrcd **xrcd, struct obj_cq **cq)
{
	const struct ctl_srq_create_req *q = &r->req->srq_create;

	*xrcd = NULL;
	*cq = NULL;
	if (q->is_xrc == 0)
		return 0;
	*xrcd = obj_get(s, OBJ_XRCD, q->xrcd, r);
	if (*xrcd != NULL)
		*cq = obj_get(s, OBJ_CQ, q->cq, r);
	return *cq != NULL ? 0 : EINVAL;
}

/** Choose the SRQ's engine. An XRC SRQ gets that of its domain, and a number, domain and CQ. */
static int
place(struct session *s, struct request *r, struct obj_srq *srq, struct srq_params *p)
{
	struct control *c = s->control;

	if (srq->xrcd == NULL) {
		srq->engine = c->next_engine++ % c->s.nb_engines;
		return 0;
	}
	srq->engine = srq->xrcd->xrcd->engine;
	p->xrcd = srq->xrcd->xrcd->id;
	p->cq = srq->cq->cq;
	p->srqn = srqn_new(c, srq);
	return p->srqn != 0 ? 0 : req_fail(r, ENOMEM, "no number left for the SRQ");
}

static void
fill_reply(struct session *s, struct request *r, const struct obj_srq *srq, const struct srq_params *p)
{
	struct ctl_srq_create_rsp *rsp = &r->rsp.srq_create;

	obj_announce(s, r, &srq->block, &rsp->seg);
	rsp->handle = srq->obj.handle;
	rsp->srqn = p->srqn;
	rsp->order = p->ring.order;
	rsp->shift = p->ring.shift;
	rsp->max_sge = srq->max_sge;
	rsp->shared = area_of(&srq->block, 0, sizeof(struct ring_srq_shared));
	rsp->ring = area_of(&srq->block, sizeof(struct ring_srq_shared), UINT64_C(1) << (p->ring.order + p->ring.shift));
}

int
op_srq_create(struct session *s, struct request *r)
{
	const struct ctl_srq_create_req *q = &r->req->srq_create;
	struct control *c = s->control;
	struct create_args a = { 0 };
	struct obj_xrcd *xrcd;
	struct obj_srq *srq;
	struct obj_pd *pd;
	struct obj_cq *cq;
	uint32_t order, shift;
	int rc;

	pd = obj_get(s, OBJ_PD, q->pd, r);
	if (pd == NULL)
		return EINVAL;
	rc = check(r);
	if (rc == 0)
		rc = find_xrc(s, r, &xrcd, &cq);
	if (rc != 0)
		return rc;
	srq = obj_new(s, OBJ_SRQ, sizeof(*srq), r, &rc);
	if (srq == NULL)
		return rc;
	order = order_of(q->max_wr);
	shift = order_of(ring_rq_stride(q->max_sge));
	rc = obj_ring_alloc(s, sizeof(struct ring_srq_shared) + (UINT64_C(1) << (order + shift)), "SRQ", &srq->block, r);
	if (rc != 0)
		goto fail_obj;
	srq->xrcd = xrcd;
	srq->cq = cq;
	srq->max_wr = 1u << order;
	srq->max_sge = q->max_sge;
	srq->cookie = q->cookie;
	a.params = (struct srq_params){
		.ring = { .base = srq->block.addr + sizeof(struct ring_srq_shared), RING_SIZE(order, shift) },
		.shared = (void *)srq->block.addr,
		.pd = pd->id,
		.max_sge = q->max_sge,
		.limit = q->limit,
		.cookie = q->cookie,
		.owner = session_owner(s),
		.number = obj_number(&srq->obj),
	};
	rc = place(s, r, srq, &a.params);
	if (rc != 0)
		goto fail_block;
	rc = engine_call(c->s.engines[srq->engine], create_on_engine, &a);
	if (rc != 0) {
		req_fail(r, rc, "no memory for the SRQ");
		goto fail_number;
	}
	srq->srq = a.srq;
	srq->pd = pd;
	use_parts(srq, 1);
	fill_reply(s, r, srq, &a.params);
	return 0;
fail_number:
	if (srq->xrcd != NULL)
		srqn_free(c, srq);
fail_block:
	obj_ring_free(s, &srq->block);
fail_obj:
	obj_free(s, OBJ_SRQ, &srq->obj);
	return rc;
}

int
op_srq_modify(struct session *s, struct request *r)
{
	const struct ctl_srq_modify_req *q = &r->req->srq_modify;
	struct obj_srq *srq = r->obj;
	struct limit_args a;

	if (q->mask & ~(uint32_t)(SRQ_ATTR_MAX_WR | SRQ_ATTR_LIMIT))
		return req_fail(r, EINVAL, "SRQ attributes %#x: must be IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT", q->mask);
	if (q->mask & SRQ_ATTR_MAX_WR)
		return req_fail(r, EOPNOTSUPP, "an SRQ can't be resized");
	if (q->mask & SRQ_ATTR_LIMIT) {
		if (q->limit > srq->max_wr)
			return req_fail(r, EINVAL, "SRQ limit %u: must be at most max_wr, %u", q->limit, srq->max_wr);
		a = (struct limit_args){ srq->srq, true, q->limit };
		engine_call(s->control->s.engines[srq->engine], limit_on_engine, &a);
	}
	return 0;
}

int
op_srq_query(struct session *s, struct request *r)
{
	struct obj_srq *srq = r->obj;
	struct limit_args a;

	a = (struct limit_args){ .srq = srq->srq };
	engine_call(s->control->s.engines[srq->engine], limit_on_engine, &a);
	r->rsp.srq_query.max_wr = srq->max_wr;
	r->rsp.srq_query.max_sge = srq->max_sge;
	r->rsp.srq_query.limit = a.limit;
	return 0;
}

int
obj_srq_destroy(struct session *s, struct obj_srq *srq)
{
	int rc = engine_call(s->control->s.engines[srq->engine], destroy_on_engine, srq->srq);

	if (rc != 0)
		return rc;
	if (srq->xrcd != NULL)
		srqn_free(s->control, srq);
	use_parts(srq, -1);
	obj_ring_free(s, &srq->block);
	obj_free(s, OBJ_SRQ, &srq->obj);
	return 0;
}

int
op_srq_destroy(struct session *s, struct request *r)
{
	struct obj_srq *srq = r->obj;
	int rc;

	if (srq->obj.users > 0)
		return req_fail(r, EBUSY, "%u QPs use the SRQ; destroy them first", srq->obj.users);
	rc = obj_srq_destroy(s, srq);
	return rc == 0 ? 0 : req_fail(r, rc, "the SRQ is in use");
}

/* ---- A daemon goes, another one comes ---- */
struct obj_srq_record {
	struct record_head head;
	uint64_t cookie;
	uint32_t handle, pd, engine, max_wr, max_sge;
	uint32_t journaled; /* its number in journals plus one; 0: none */
	struct block_record block;
	/* Since version 2. */
	uint32_t is_xrc, xrcd, cq, srqn_handle; /**< is_xrc 0: the others say nothing */
};
static_assert(offsetof(struct obj_srq_record, is_xrc) == 72, "the size in version 1, as in stream.c");

struct save_args {
	struct srq *srq;
	struct srq_record *to;
};

static int
save_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	const struct save_args *a = arg;

	srq_save(a->srq, a->to);
	return 0;
}

int
obj_srq_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_srq *srq = obj;
	struct obj_srq_record r = {
		.cookie = srq->cookie,
		.handle = srq->obj.handle,
		.pd = srq->pd->obj.handle,
		.engine = srq->engine,
		.max_wr = srq->max_wr,
		.max_sge = srq->max_sge,
		.journaled = obj_number(&srq->obj) + 1,
		.block = block_save(&srq->block),
	};
	struct save_args a = { .srq = srq->srq };

	if (srq->xrcd != NULL) {
		r.is_xrc = 1;
		r.xrcd = srq->xrcd->obj.handle;
		r.cq = srq->cq->obj.handle;
		r.srqn_handle = srq->srqn_handle;
	}
	stream_put(o, RECORD_OBJ_SRQ, &r, sizeof(r), NULL, 0);
	a.to = stream_reserve(o, sizeof(*a.to));
	return a.to != NULL ? engine_call(s->control->s.engines[srq->engine], save_on_engine, &a) : ENOMEM;
}

struct restore_args {
	const struct srq_record *from;
	uint32_t room;
	struct srq_params params;
	struct srq *srq;
	const char *why;
};

static int
restore_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct restore_args *a = arg;

	return srq_restore(engine_transport(e), a->from, a->room, &a->params, &a->srq, &a->why);
}

/** Find the domain and CQ of an XRC SRQ, and give it the number that it had. */
static int
restore_xrc(struct session *s, const struct obj_srq_record *from, struct obj_srq *srq, struct srq_params *p, struct request *r)
{
	struct obj_xrcd *xrcd;
	struct obj_cq *cq;

	if (!from->is_xrc)
		return 0;
	xrcd = obj_get(s, OBJ_XRCD, from->xrcd, r);
	cq = xrcd != NULL ? obj_get(s, OBJ_CQ, from->cq, r) : NULL;
	if (cq == NULL)
		return EINVAL;
	if (xrcd->xrcd->engine != from->engine)
		return req_fail(r, EINVAL, "SRQ %#x: its XRC domain is engine %u's", from->handle, xrcd->xrcd->engine);
	p->srqn = srqn_take(s->control, srq, from->srqn_handle);
	if (p->srqn == 0)
		return req_fail(r, EEXIST, "SRQ %#x: its number is taken, or none", from->handle);
	srq->xrcd = xrcd;
	srq->cq = cq;
	p->xrcd = xrcd->xrcd->id;
	p->cq = cq->cq;
	return 0;
}

static int
restore(struct session *s, const struct obj_srq_record *from, struct stream_in *in, struct request *r)
{
	struct obj_pd *pd = obj_get(s, OBJ_PD, from->pd, r);
	struct restore_args a = { .why = "its record is missing" };
	union after_crash_record now;
	struct obj_srq *srq;
	uint32_t order, shift;
	int rc;

	if (pd == NULL)
		return EINVAL;
	if (from->engine >= s->control->s.nb_engines || from->max_wr == 0 || from->max_wr > UROCE_MAX_QP_WR || from->max_sge > UROCE_MAX_SGE)
		return req_fail(r, EINVAL, "SRQ %#x: engine %u, %u WRs of %u SGEs are beyond the limits", from->handle, from->engine, from->max_wr,
				from->max_sge);
	srq = obj_new_as(s, OBJ_SRQ, sizeof(*srq), from->handle, r, &rc);
	if (srq == NULL)
		return rc;
	order = order_of(from->max_wr);
	shift = order_of(ring_rq_stride(from->max_sge));
	rc = obj_ring_take(s, &from->block, &srq->block, r);
	if (rc == 0 && srq->block.bytes < sizeof(struct ring_srq_shared) + (UINT64_C(1) << (order + shift)))
		rc = req_fail(r, EINVAL, "SRQ %#x: its ring isn't in its block", from->handle);
	if (rc != 0)
		goto fail;
	srq->engine = from->engine;
	srq->pd = pd;
	srq->max_wr = from->max_wr;
	srq->max_sge = from->max_sge;
	srq->cookie = from->cookie;
	a.params = (struct srq_params){
		.ring = { .base = srq->block.addr + sizeof(struct ring_srq_shared), RING_SIZE(order, shift) },
		.shared = (void *)srq->block.addr,
		.pd = pd->id,
		.max_sge = srq->max_sge,
		.cookie = srq->cookie,
		.owner = session_owner(s),
		.number = obj_number(&srq->obj),
	};
	rc = restore_xrc(s, from, srq, &a.params, r);
	if (rc != 0)
		goto fail;
	a.from = stream_foreign(in, &a.room);
	srq->was_journaled = from->journaled;
	if (a.from != NULL && s->control->s.crashed_ns != 0 && after_crash_srq(s->control, srq, a.from, a.room, &a.params, &now.srq))
		a.from = &now.srq;
	rc = a.from != NULL ? engine_call(s->control->s.engines[srq->engine], restore_on_engine, &a) : EINVAL;
	if (rc != 0) {
		req_fail(r, rc, "SRQ %#x: %s", from->handle, a.why);
		goto fail;
	}
	srq->srq = a.srq;
	use_parts(srq, 1);
	return 0;
fail:
	if (srq->xrcd != NULL)
		srqn_free(s->control, srq);
	if (srq->block.addr != NULL)
		obj_ring_free(s, &srq->block);
	obj_free(s, OBJ_SRQ, &srq->obj);
	return rc;
}

int
obj_srq_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct obj_srq_record *from;
	int rc = 0;

	while (rc == 0 && (from = stream_next(in, RECORD_OBJ_SRQ, sizeof(*from))) != NULL)
		rc = restore(s, from, in, r);
	return rc;
}
