/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs are made: at a program's request, or as they were in the daemon before. */
#include <rte_common.h>

#include "control/core/quota_priv.h"
#include "control/obj/after_crash_priv.h"
#include "control/obj/identity_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/obj/own_address_priv.h"
#include "transport/record/record.h"

/** What engine_call() passes to the functions that make a QP on its engine. */
struct make_args {
	struct qp_params params;
	struct engine_session *es; /* NULL: its doorbell is another engine's */
	uint32_t slot;
	const struct qp_record *from; /* NULL: it is a new one */
	uint32_t room;
	struct qp *qp;
	const char *why;
};

static int
make_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct make_args *a = arg;
	int rc = a->from == NULL ? qp_create(engine_transport(e), &a->params, &a->qp) :
				   qp_restore(engine_transport(e), a->from, a->room, &a->params, now_ns, &a->qp, &a->why);

	if (rc == 0 && a->es != NULL)
		engine_session_set_qp(a->es, a->slot, a->qp);
	return rc;
}

/** @return true if the QP is to have an RQ of its own. */
static bool
has_rq(const struct ctl_qp_create_req *q)
{
	return q->srq == HANDLE_NONE && q->type != UROCE_QPT_XRC_SEND;
}

static int
check_cap(struct request *r)
{
	const struct ctl_qp_create_req *q = &r->req->qp_create;
	const struct uroce_qp_cap *cap = &q->cap;

	if (cap->max_send_wr > UROCE_MAX_QP_WR || (has_rq(q) && cap->max_recv_wr > UROCE_MAX_QP_WR))
		return req_fail(r, EINVAL, "max_send_wr %u, max_recv_wr %u: must be at most %u", cap->max_send_wr,
				cap->max_recv_wr, UROCE_MAX_QP_WR);
	if (cap->max_send_sge > UROCE_MAX_SGE || (has_rq(q) && cap->max_recv_sge > UROCE_MAX_SGE))
		return req_fail(r, EINVAL, "max_send_sge %u, max_recv_sge %u: must be at most %u", cap->max_send_sge,
				cap->max_recv_sge, UROCE_MAX_SGE);
	if (cap->max_inline_data > UROCE_MAX_INLINE)
		return req_fail(r, EINVAL, "max_inline_data %u: must be at most %u", cap->max_inline_data,
				UROCE_MAX_INLINE);
	if (q->type != UROCE_QPT_RC && q->type != UROCE_QPT_UC && q->type != UROCE_QPT_UD &&
	    q->type != UROCE_QPT_XRC_SEND)
		return req_fail(r, EOPNOTSUPP, "QP type %u is not supported", q->type);
	return 0;
}

/** Find the objects that the request names. */
static int
find_parts(struct session *s, struct request *r, struct obj_qp *parts)
{
	const struct ctl_qp_create_req *q = &r->req->qp_create;

	parts->pd = obj_get(s, OBJ_PD, q->pd, r);
	if (parts->pd == NULL)
		return EINVAL;
	parts->send_cq = obj_get(s, OBJ_CQ, q->send_cq, r);
	if (parts->send_cq == NULL)
		return EINVAL;
	parts->recv_cq = NULL;
	parts->srq = NULL;
	if (q->type == UROCE_QPT_XRC_SEND)
		return check_cap(r);
	parts->recv_cq = obj_get(s, OBJ_CQ, q->recv_cq, r);
	if (parts->recv_cq == NULL)
		return EINVAL;
	if (q->srq != HANDLE_NONE) {
		parts->srq = obj_get(s, OBJ_SRQ, q->srq, r);
		if (parts->srq == NULL)
			return EINVAL;
		if (parts->srq->xrcd != NULL)
			return req_fail(r, EINVAL, "an XRC SRQ is no QP's own");
	}
	return check_cap(r);
}

/** The rings of a QP: orders, strides and offsets in its block. */
struct layout {
	uint32_t sq_order, sq_shift, rq_order, rq_shift;
	uint64_t sq_offset, sq_bytes, rq_offset, rq_bytes;
	struct uroce_qp_cap cap;
};

static void
lay_out(const struct ctl_qp_create_req *q, struct layout *l)
{
	uint32_t room;

	*l = (struct layout){ .cap = q->cap };
	l->sq_order = order_of(q->cap.max_send_wr);
	l->sq_shift = order_of(ring_sq_stride(q->cap.max_send_sge, q->cap.max_inline_data));
	l->cap.max_send_wr = 1u << l->sq_order;
	/* The size of a slot is a power of two; grant whatever fits. */
	room = (1u << l->sq_shift) - sizeof(struct ring_sq_wqe);
	l->cap.max_inline_data = RTE_MIN(room, (uint32_t)UROCE_MAX_INLINE);
	l->sq_bytes = UINT64_C(1) << (l->sq_order + l->sq_shift);
	l->sq_offset = sizeof(struct ring_qp_shared);
	l->rq_offset = l->sq_offset + l->sq_bytes;
	if (!has_rq(q)) {
		l->cap.max_recv_wr = l->cap.max_recv_sge = 0;
		return;
	}
	l->rq_order = order_of(q->cap.max_recv_wr);
	l->rq_shift = order_of(ring_rq_stride(q->cap.max_recv_sge));
	l->cap.max_recv_wr = 1u << l->rq_order;
	l->rq_bytes = UINT64_C(1) << (l->rq_order + l->rq_shift);
}

static void
fill_reply(struct session *s, struct request *r, const struct obj_qp *qp, const struct layout *l)
{
	struct ctl_qp_create_rsp *rsp = &r->rsp.qp_create;

	obj_announce(s, r, &qp->block, &rsp->seg);
	rsp->handle = qp->obj.handle;
	rsp->qpn = qp_num(qp->qp);
	rsp->engine = qp->engine;
	rsp->db_slot = DB_SLOT(qp->db_slot);
	rsp->sq_order = l->sq_order;
	rsp->sq_shift = l->sq_shift;
	rsp->rq_order = l->rq_order;
	rsp->rq_shift = l->rq_shift;
	rsp->cap = l->cap;
	rsp->sq = area_of(&qp->block, l->sq_offset, l->sq_bytes);
	rsp->rq = area_of(&qp->block, l->rq_offset, l->rq_bytes);
	rsp->shared = area_of(&qp->block, 0, sizeof(struct ring_qp_shared));
}

/** Fill in what the QP is made of; the object has its block and parts already. */
static void
fill_args(struct session *s, const struct obj_qp *qp, const struct layout *l, struct make_args *a)
{
	const struct ctl_qp_create_req *q = &qp->made_as;

	*a = (struct make_args){
		.params = {
			.type = q->type,
			.pd = qp->pd->id,
			.send_cq = qp->send_cq->cq,
			.recv_cq = qp->recv_cq != NULL ? qp->recv_cq->cq : NULL,
			.srq = qp->srq != NULL ? qp->srq->srq : NULL,
			.sq_sig_all = q->sq_sig_all != 0,
			.cap = l->cap,
			.sq = { .base = qp->block.addr + l->sq_offset, RING_SIZE(l->sq_order, l->sq_shift) },
			.shared = (void *)qp->block.addr,
			.port = s->port->index,
			.max_mtu = s->port->active_mtu,
			.cookie = q->cookie,
			.owner = session_owner(s),
			.share = engine_session_share(s->engine_sessions[qp->engine]),
		},
		.es = qp->home == qp->engine ? s->engine_sessions[qp->engine] : NULL,
		.slot = DB_SLOT(qp->db_slot),
	};
	if (l->rq_bytes > 0)
		a->params.rq = (struct ring){
			.base = qp->block.addr + l->rq_offset,
			RING_SIZE(l->rq_order, l->rq_shift),
		};
}

/** Create the QP on its engine. */
static int
create(struct session *s, struct request *r, struct obj_qp *qp, const struct layout *l)
{
	struct make_args a;
	int rc;

	fill_args(s, qp, l, &a);
	rc = engine_call(s->control->s.engines[qp->engine], make_on_engine, &a);
	if (rc == EINVAL)
		return req_fail(r, EOPNOTSUPP, "QP type %u is not supported", qp->made_as.type);
	if (rc != 0)
		return req_fail(r, rc, "no memory for the QP");
	qp->qp = a.qp;
	qp->qpn = qp_num(a.qp);
	return 0;
}

void
obj_qp_use_parts(struct obj_qp *qp, int n)
{
	qp->pd->obj.users += n;
	qp->send_cq->obj.users += n;
	if (qp->recv_cq != NULL)
		qp->recv_cq->obj.users += n;
	if (qp->srq == NULL)
		return;
	qp->srq->obj.users += n;
	if (n > 0)
		LIST_INSERT_HEAD(&qp->srq->qps, qp, srq_link);
	else
		LIST_REMOVE(qp, srq_link);
}

/** The object is made: it gets its parts. */
static void
begin(struct session *s, struct obj_qp *qp, struct obj_qp *parts, const struct ctl_qp_create_req *made_as)
{
	parts->obj = qp->obj;
	*qp = *parts;
	qp->made_as = *made_as;
	qp->type = made_as->type;
	qp->session = s;
	LIST_INIT(&qp->groups);
}

/** Move a new QP to INIT, if that is possible; the program learns why not when it tries it. */
static void
init(struct session *s, struct obj_qp *qp)
{
	const struct uroce_qp_attr attr = { .port_num = 1, .qkey = CTL_CM_UDP_QKEY };
	uint32_t mask = UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | (qp->type == UROCE_QPT_UD ? UROCE_QP_QKEY : UROCE_QP_ACCESS_FLAGS);

	(void)obj_qp_modify(s, qp, UROCE_QPS_INIT, &attr, mask, &(struct request){ 0 });
}

int
op_qp_create(struct session *s, struct request *r)
{
	struct control *c = s->control;
	struct obj_qp parts = { 0 }, *qp;
	struct layout l;
	int rc;

	if (r->req->qp_create.type == UROCE_QPT_XRC_RECV)
		return op_xrc_target_create(s, r);
	rc = find_parts(s, r, &parts);
	if (rc != 0)
		return rc;
	qp = obj_new(s, OBJ_QP, sizeof(*qp), r, &rc);
	if (qp == NULL)
		return rc;
	begin(s, qp, &parts, &r->req->qp_create);
	/* An SRQ belongs to one engine, and so do the QPs that use it. */
	qp->engine = qp->home = qp->srq != NULL ? qp->srq->engine : c->next_engine++ % c->s.nb_engines;
	lay_out(&r->req->qp_create, &l);
	qp->db_slot = handles_add(&s->db_slots[qp->engine], qp);
	if (qp->db_slot == HANDLE_NONE || DB_SLOT(qp->db_slot) >= RING_DB_SLOTS) {
		rc = req_fail(r, ENOMEM, "no doorbell for another QP");
		goto fail_obj;
	}
	rc = obj_ring_alloc(s, sizeof(struct ring_qp_shared) + l.sq_bytes + l.rq_bytes, "QP", &qp->block, r);
	if (rc != 0)
		goto fail_slot;
	rc = create(s, r, qp, &l);
	if (rc != 0)
		goto fail_block;
	obj_qp_use_parts(qp, 1);
	fill_reply(s, r, qp, &l);
	if (r->req->qp_create.in_init != 0)
		init(s, qp);
	return 0;
fail_block:
	obj_ring_free(s, &qp->block);
fail_slot:
	handles_remove(&s->db_slots[qp->home], qp->db_slot);
fail_obj:
	obj_free(s, OBJ_QP, &qp->obj);
	return rc;
}

/* ---- A daemon goes, another one comes ---- */
/** Behind it: its groups; then its own record. */
struct obj_qp_record {
	struct record_head head;
	struct block_record block;
	struct gid peer_gid;
	struct ctl_qp_create_req made_as;
	uint32_t handle, engine, db_slot, pkey_index;
	uint32_t has_peer, peer_qpn;
	uint32_t nb_groups;
	uint32_t elsewhere; /**< 0: `engine` is the engine of its doorbell; else that one's number plus one */
};

struct save_args {
	struct qp *qp;
	struct stream_out *o;
};

static int
save_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	const struct save_args *a = arg;
	uint32_t bytes = qp_record_bytes(a->qp);
	void *to = stream_reserve(a->o, bytes);

	return to != NULL ? qp_save(engine_transport(e), a->qp, to, bytes) : ENOMEM;
}

int
obj_qp_save_state(struct engine *e, struct qp *qp, struct stream_out *o)
{
	struct save_args a = { .qp = qp, .o = o };

	return engine_call(e, save_on_engine, &a);
}

int
obj_qp_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_qp *qp = obj;
	struct obj_qp_record r = {
		.block = block_save(&qp->block),
		.peer_gid = qp->peer_gid,
		.made_as = qp->made_as,
		.handle = qp->obj.handle,
		.engine = qp->engine,
		.db_slot = qp->db_slot,
		.pkey_index = qp->pkey_index,
		.has_peer = qp->has_peer,
		.peer_qpn = qp->peer_qpn,
		.nb_groups = obj_mcast_look(qp, NULL),
		.elsewhere = qp->home != qp->engine ? qp->home + 1 : 0,
	};
	struct gid *groups;

	if (qp->target != NULL)
		return 0;
	groups = calloc(r.nb_groups + 1, sizeof(*groups));
	if (groups == NULL)
		return ENOMEM;
	obj_mcast_look(qp, groups);
	stream_put(o, RECORD_OBJ_QP, &r, sizeof(r), groups, r.nb_groups * sizeof(*groups));
	free(groups);
	return obj_qp_save_state(s->control->s.engines[qp->engine], qp->qp, o);
}

static int
unmake_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	qp_destroy(engine_transport(e), arg);
	return 0;
}

/** Take doorbell and queues of a QP, and make it on its engine. */
static int
make_again(struct session *s, const struct obj_qp_record *from, struct obj_qp *qp, struct stream_in *in, struct request *r)
{
	const bool crashed = s->control->s.crashed_ns != 0;
	const struct qp_record *saved;
	union after_crash_record now;
	struct make_args a;
	bool lost = false;
	struct layout l;
	uint32_t room;
	int rc;

	lay_out(&qp->made_as, &l);
	/* An SRQ belongs to one engine, and so do the QPs that use it. */
	if (qp->srq != NULL && qp->srq->engine != qp->engine)
		return req_fail(r, EINVAL, "its SRQ is engine %u's", qp->srq->engine);
	if (qp->engine >= s->control->s.nb_engines || qp->home >= s->control->s.nb_engines || DB_SLOT(from->db_slot) >= RING_DB_SLOTS ||
	    !handles_add_as(&s->db_slots[qp->home], qp, from->db_slot))
		return req_fail(r, EINVAL, "engine %u hasn't doorbell %#x", qp->home, from->db_slot);
	qp->db_slot = from->db_slot;
	rc = obj_ring_take(s, &from->block, &qp->block, r);
	if (rc != 0)
		goto fail_slot;
	fill_args(s, qp, &l, &a);
	a.from = saved = stream_foreign(in, &room);
	a.room = room;
	a.why = "its record is missing";
	rc = EINVAL;
	if (saved != NULL && crashed && after_crash_qp(s->control, qp, saved, room, &a.params, &now, &qp->done, &lost)) {
		a.from = &now.qp.fixed;
		a.room = sizeof(now);
	}
	if (qp->block.bytes < sizeof(struct ring_qp_shared) + l.sq_bytes + l.rq_bytes)
		a.why = "its rings aren't in its block";
	else if (saved != NULL)
		rc = engine_call(s->control->s.engines[qp->engine], make_on_engine, &a);
	if (rc == EINVAL && a.from == &now.qp.fixed && !lost) {
		/* Most likely it isn't what the program has in its SQ. */
		lost = true;
		if (after_crash_qp(s->control, qp, saved, room, &a.params, &now, &qp->done, &lost))
			rc = engine_call(s->control->s.engines[qp->engine], make_on_engine, &a);
	}
	if (rc != 0) {
		req_fail(r, rc, "%s", a.why);
		goto fail_block;
	}
	if (qp->home != qp->engine) {
		rc = engine_session_set_elsewhere(s->control->s.engines[qp->home], s->engine_sessions[qp->home], DB_SLOT(qp->db_slot), a.qp);
		if (rc != 0)
			goto fail_qp;
		s->qps_moved = true;
	}
	qp->qp = a.qp;
	qp->qpn = qp_num(a.qp);
	if (lost)
		after_crash_tell(s, qp_type_name(qp->type), qp->qpn, qp->made_as.cookie);
	return 0;
fail_qp:
	req_fail(r, rc, "no memory for its doorbell");
	engine_call(s->control->s.engines[qp->engine], unmake_on_engine, a.qp);
fail_block:
	obj_ring_free(s, &qp->block);
fail_slot:
	handles_remove(&s->db_slots[qp->home], qp->db_slot);
	return rc;
}

static int
restore(struct session *s, const struct obj_qp_record *from, struct stream_in *in, struct request *r)
{
	const struct gid *groups = (const void *)(from + 1);
	const struct ctl_req req = { .qp_create = from->made_as };
	struct request made = { .req = &req };
	struct obj_qp parts = { 0 }, *qp;
	int rc;

	if (from->nb_groups > stream_tail(from, sizeof(*from)) / sizeof(*groups) || from->pkey_index >= UROCE_MAX_PKEYS)
		return req_fail(r, EINVAL, "QP %#x: its record has %u groups, P_Key index %u", from->handle, from->nb_groups, from->pkey_index);
	rc = find_parts(s, &made, &parts);
	if (rc != 0)
		return req_fail(r, rc, "QP %#x: %s", from->handle, made.message);
	qp = obj_new_as(s, OBJ_QP, sizeof(*qp), from->handle, r, &rc);
	if (qp == NULL)
		return rc;
	begin(s, qp, &parts, &from->made_as);
	qp->engine = from->engine;
	qp->home = from->elsewhere != 0 ? from->elsewhere - 1 : from->engine;
	qp->pkey_index = (uint16_t)from->pkey_index;
	rc = make_again(s, from, qp, in, &made);
	if (rc != 0) {
		obj_free(s, OBJ_QP, &qp->obj);
		return req_fail(r, rc, "QP %#x: %s", from->handle, made.message);
	}
	obj_qp_use_parts(qp, 1);
	qp->gids = (uint16_t)own_address_resumed_qp(s, qp->qp);
	if (from->has_peer)
		identity_connected(s, qp, &from->peer_gid, from->peer_qpn);
	for (uint32_t i = 0; i < from->nb_groups && rc == 0; i++)
		rc = obj_mcast_attach(s, qp, &groups[i], r);
	return rc;
}

int
obj_qp_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct obj_qp_record *from;
	int rc = 0;

	while (rc == 0 && (from = stream_next(in, RECORD_OBJ_QP, sizeof(*from))) != NULL)
		rc = restore(s, from, in, r);
	return rc;
}
