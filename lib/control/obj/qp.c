/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include <rte_common.h>

#include "control/obj/identity_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"

#define QKEY_CONTROLLED UINT32_C(0x80000000)
#define MIG_REARM 1 /* IBV_MIG_REARM */
#define DB_SLOT(handle) ((handle) & ((1u << HANDLES_INDEX_BITS) - 1))

/** What engine_call() passes to the functions that run on the QP's engine. */
struct qp_args {
	struct qp_params params;
	struct engine_session *es;
	uint32_t slot;
	struct qp *qp;
	const struct uroce_qp_attr *attr;
	uint32_t mask;
	const struct tp_path *path, *alt;
	struct uroce_qp_attr out;
};

static int
create_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct qp_args *a = arg;
	int rc = qp_create(engine_transport(e), &a->params, &a->qp);

	if (rc == 0)
		engine_session_set_qp(a->es, a->slot, a->qp);
	return rc;
}

static int
modify_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct qp_args *a = arg;

	return qp_modify_paths(engine_transport(e), a->qp, a->attr, a->mask, a->path, a->alt, now_ns);
}

static int
query_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct qp_args *a = arg;

	qp_query(a->qp, &a->out);
	return 0;
}

/** QPs of one engine that are destroyed by one message. */
struct destroy_args {
	struct engine_session *es;
	uint32_t n;
	uint32_t slot[CONTROL_DESTROY_BURST];
	struct qp *qp[CONTROL_DESTROY_BURST];
};

static int
destroy_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct destroy_args *a = arg;

	for (uint32_t i = 0; i < a->n; i++) {
		engine_session_set_qp(a->es, a->slot[i], NULL);
		qp_destroy(engine_transport(e), a->qp[i]);
	}
	return 0;
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

/** Create the QP on its engine; the object has its block and parts already. */
static int
create(struct session *s, struct request *r, struct obj_qp *qp, const struct layout *l)
{
	const struct ctl_qp_create_req *q = &r->req->qp_create;
	struct qp_args a = {
		.params = {
			.type = q->type,
			.pd = qp->pd->id,
			.send_cq = qp->send_cq->cq,
			.recv_cq = qp->recv_cq != NULL ? qp->recv_cq->cq : NULL,
			.srq = qp->srq != NULL ? qp->srq->srq : NULL,
			.sq_sig_all = q->sq_sig_all != 0,
			.cap = l->cap,
			.sq = { .base = qp->block.addr + l->sq_offset, .order = l->sq_order, .shift = l->sq_shift },
			.shared = (void *)qp->block.addr,
			.port = s->port->index,
			.max_mtu = s->port->active_mtu,
			.cookie = q->cookie,
			.owner = session_owner(s),
			.share = engine_session_share(s->engine_sessions[qp->engine]),
		},
		.es = s->engine_sessions[qp->engine],
		.slot = DB_SLOT(qp->db_slot),
	};
	int rc;

	if (l->rq_bytes > 0)
		a.params.rq = (struct ring){
			.base = qp->block.addr + l->rq_offset,
			.order = l->rq_order,
			.shift = l->rq_shift,
		};
	rc = engine_call(s->control->s.engines[qp->engine], create_on_engine, &a);
	if (rc == EINVAL)
		return req_fail(r, EOPNOTSUPP, "QP type %u is not supported", q->type);
	if (rc != 0)
		return req_fail(r, rc, "no memory for the QP");
	qp->qp = a.qp;
	return 0;
}

static void
use_parts(struct obj_qp *qp, int n)
{
	qp->pd->obj.users += n;
	qp->send_cq->obj.users += n;
	if (qp->recv_cq != NULL)
		qp->recv_cq->obj.users += n;
	if (qp->srq != NULL)
		qp->srq->obj.users += n;
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
	parts.obj = qp->obj;
	*qp = parts;
	qp->type = r->req->qp_create.type;
	qp->session = s;
	qp->pkey_index = 0;
	LIST_INIT(&qp->groups);
	qp->qp = NULL;
	/* An SRQ belongs to one engine, and so do the QPs that use it. */
	qp->engine = qp->srq != NULL ? qp->srq->engine : c->next_engine++ % c->s.nb_engines;
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
	use_parts(qp, 1);
	fill_reply(s, r, qp, &l);
	return 0;
fail_block:
	obj_ring_free(s, &qp->block);
fail_slot:
	handles_remove(&s->db_slots[qp->engine], qp->db_slot);
fail_obj:
	obj_free(s, OBJ_QP, &qp->obj);
	return rc;
}

/** @return the P_Key index; all sessions that have an XRC target open share it. */
static uint16_t *
pkey_index_of(struct obj_qp *qp)
{
	return qp->target != NULL ? &qp->target->pkey_index : &qp->pkey_index;
}

/** @return true if the request gives a connected QP the address of its peer. */
static bool
names_peer(const struct obj_qp *qp, uint32_t mask)
{
	return (mask & UROCE_QP_AV) && qp->type != UROCE_QPT_UD;
}

/** @return the number of the peer's QP. */
static uint32_t
peer_qpn(const struct obj_qp *qp, const struct ctl_qp_modify_req *q)
{
	return q->mask & UROCE_QP_DEST_QPN ? q->attr.dest_qp_num : qp->peer_qpn;
}

/** Check that the peers which a request names aren't connected to another user's QPs. */
static int
check_peers(struct session *s, struct request *r, const struct obj_qp *qp)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	int rc = 0;

	if (names_peer(qp, q->mask))
		rc = identity_check_peer(s, qp, gid_at(q->attr.ah.dgid), peer_qpn(qp, q));
	if (rc == 0 && (q->mask & UROCE_QP_ALT_PATH))
		rc = identity_check_peer(s, qp, gid_at(q->attr.alt_ah.dgid), peer_qpn(qp, q));
	if (rc != 0)
		return req_fail(r, rc, "modify QP %#x: another user of this host is connected to QP %#x of that peer",
				qp_num(qp->qp), peer_qpn(qp, q));
	return 0;
}

static int
modify(struct session *s, struct request *r, struct obj_qp *qp, const struct tp_path *path, const struct tp_path *alt)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	struct qp_args a = { .qp = qp->qp, .attr = &q->attr, .mask = q->mask, .path = path, .alt = alt };
	int rc = engine_call(s->control->s.engines[qp->engine], modify_on_engine, &a);

	if (rc != 0)
		/*
		 * The request was checked before, so the QP's state has changed since, or path migration doesn't allow
		 * it: only the engine knows the migration state.
		 */
		return req_fail(r, rc, "the QP is in state %s%s", qp_state_name(qp_state(qp->qp)),
				q->mask & (UROCE_QP_PATH_MIG_STATE | UROCE_QP_ALT_PATH) ?
					", or has no alternate path, or is ARMED, or that path doesn't fit its port" : "");
	if (q->mask & UROCE_QP_PKEY_INDEX)
		*pkey_index_of(qp) = q->attr.pkey_index;
	if (names_peer(qp, q->mask))
		identity_connected(s, qp, gid_at(q->attr.ah.dgid), peer_qpn(qp, q));
	else if ((q->mask & UROCE_QP_STATE) && q->attr.qp_state == UROCE_QPS_RESET)
		identity_disconnected(qp);
	return 0;
}

static int
check_pkey(struct session *s, struct request *r, struct obj_qp *qp, uint32_t index)
{
	if (index < UROCE_MAX_PKEYS && s->port->conf.pkeys[index] != 0)
		return 0;
	return req_fail(r, EINVAL, "modify QP %#x: P_Key index %u is not in use", qp_num(qp->qp), index);
}

/** Keep the reason why a modify failed, for inspect_qp(). @param text  NULL: it succeeded. */
static void
keep_note(struct obj_qp *qp, const char *text)
{
	free(qp->note);
	qp->note = text != NULL ? strdup(text) : NULL;
}

/** [request_resume_fn] Start again: the MAC address of this path is known now, that of the other one may not be. */
static int
modify_resumed(struct session *s, struct request *r, int rc, const uint8_t mac[6])
{
	struct obj_qp *qp = handles_get(&s->tab[OBJ_QP], r->req->qp_modify.handle);

	if (rc == 0) {
		/* The QP may have been destroyed in the meantime. */
		r->obj = obj_get(s, OBJ_QP, r->req->qp_modify.handle, r);
		return r->obj != NULL ? op_qp_modify(s, r) : EINVAL;
	}
	if (qp != NULL)
		keep_note(qp, r->message);
	return rc;
}

/** Find the paths that a request names. @return as path_resolve(); after EINPROGRESS the request is handled again. */
static int
find_paths(struct session *s, struct request *r, struct obj_qp *qp, struct tp_path *path, struct tp_path *alt)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	uint8_t mac[6];
	uint32_t pkey;
	int rc;

	if (q->mask & UROCE_QP_AV) {
		rc = path_resolve(s, r, &q->attr.ah, modify_resumed, mac);
		if (rc != 0)
			return rc;
		pkey = q->mask & UROCE_QP_PKEY_INDEX ? q->attr.pkey_index : *pkey_index_of(qp);
		path_make(s, &q->attr.ah, mac, s->port->conf.pkeys[pkey], path);
	}
	if (q->mask & UROCE_QP_ALT_PATH) {
		rc = path_resolve(s, r, &q->attr.alt_ah, modify_resumed, mac);
		if (rc != 0)
			return rc;
		path_make(s, &q->attr.alt_ah, mac, s->port->conf.pkeys[q->attr.alt_pkey_index], alt);
	}
	return 0;
}

/** op_qp_modify() for a QP that exists. */
static int
check_and_modify(struct session *s, struct request *r, struct obj_qp *qp)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	struct tp_path path, alt;
	const char *why = "";
	int rc = qp_modify_check(qp->type, qp_state(qp->qp), &q->attr, q->mask, s->port->active_mtu, &why);

	if (rc != 0)
		return req_fail(r, rc, "modify QP %#x, %s: %s", qp_num(qp->qp), qp_state_name(qp_state(qp->qp)), why);
	if (q->mask & UROCE_QP_PKEY_INDEX)
		rc = check_pkey(s, r, qp, q->attr.pkey_index);
	if (rc == 0 && (q->mask & UROCE_QP_ALT_PATH))
		rc = check_pkey(s, r, qp, q->attr.alt_pkey_index);
	if (rc != 0)
		return rc;
	/* 10.2.5: only privileged programs may use a controlled Q_Key (highest bit set), like that of QP 1. */
	if ((q->mask & UROCE_QP_QKEY) && (q->attr.qkey & QKEY_CONTROLLED) && s->uid != 0 && s->uid != geteuid())
		return req_fail(r, EPERM, "modify QP %#x: Q_Key %#x is for root only: bit 31 is set", qp_num(qp->qp),
				q->attr.qkey);
	if ((q->mask & UROCE_QP_PORT) && q->attr.port_num != 1)
		return req_fail(r, EINVAL, "modify QP %#x: port %u: must be 1", qp_num(qp->qp), q->attr.port_num);
	rc = find_paths(s, r, qp, &path, &alt);
	/* Last, since other requests may have been handled while a path was being resolved. */
	if (rc == 0)
		rc = check_peers(s, r, qp);
	if (rc != 0)
		return rc;
	return modify(s, r, qp, q->mask & UROCE_QP_AV ? &path : NULL, q->mask & UROCE_QP_ALT_PATH ? &alt : NULL);
}

int
obj_qp_load_alternate(struct session *s, struct obj_qp *qp, const struct uroce_ah_attr *ah, uint8_t timeout,
		      const uint8_t mac[6])
{
	const struct uroce_qp_attr attr = { .alt_ah = *ah, .alt_timeout = timeout, .alt_port_num = 1,
					    .path_mig_state = MIG_REARM };
	const uint32_t mask = UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE;
	struct tp_path alt;
	struct qp_args a = { .qp = qp->qp, .attr = &attr, .mask = mask, .alt = &alt };
	const char *why;
	int rc = qp_modify_check(qp->type, qp_state(qp->qp), &attr, mask, s->port->active_mtu, &why);

	if (rc == 0)
		rc = identity_check_peer(s, qp, gid_at(ah->dgid), qp->peer_qpn);
	if (rc != 0)
		return rc;
	path_make(s, ah, mac, s->port->conf.pkeys[attr.alt_pkey_index], &alt);
	return engine_call(s->control->s.engines[qp->engine], modify_on_engine, &a);
}

int
op_qp_modify(struct session *s, struct request *r)
{
	struct obj_qp *qp = r->obj;
	int rc;

	rc = check_and_modify(s, r, qp);
	if (rc != EINPROGRESS)
		keep_note(qp, rc != 0 ? r->message : NULL);
	return rc;
}

int
op_qp_query(struct session *s, struct request *r)
{
	struct obj_qp *qp = r->obj;
	struct qp_args a = { 0 };

	a.qp = qp->qp;
	engine_call(s->control->s.engines[qp->engine], query_on_engine, &a);
	r->rsp.qp_query.attr = a.out;
	return 0;
}

/** Free what the control thread has of a QP, after its engine has destroyed it. */
static void
forget(struct session *s, struct obj_qp *qp)
{
	identity_disconnected(qp);
	use_parts(qp, -1);
	handles_remove(&s->db_slots[qp->engine], qp->db_slot);
	obj_ring_free(s, &qp->block);
	free(qp->note);
	obj_free(s, OBJ_QP, &qp->obj);
}

int
op_qp_destroy(struct session *s, struct request *r)
{
	struct obj_qp *qp = r->obj;
	struct destroy_args a;

	if (qp->target != NULL) {
		obj_xrc_target_close(s, qp);
		return 0;
	}
	/* As in Linux's uverbs: the program must detach it first. */
	if (!LIST_EMPTY(&qp->groups))
		return req_fail(r, EBUSY, "QP %#x is attached to a multicast group", qp_num(qp->qp));
	if (qp->type == UROCE_QPT_UD && obj_qp_send_posted(s, qp))
		return EALREADY;
	a.es = s->engine_sessions[qp->engine];
	a.n = 1;
	a.slot[0] = DB_SLOT(qp->db_slot);
	a.qp[0] = qp->qp;
	engine_call(s->control->s.engines[qp->engine], destroy_on_engine, &a);
	forget(s, qp);
	return 0;
}

void
obj_qp_destroy_all(struct session *s)
{
	struct obj_qp *batch[CONTROL_DESTROY_BURST], *qp;
	struct destroy_args a;
	uint32_t pos, i;

	for (unsigned int engine = 0; engine < s->control->s.nb_engines; engine++) {
		a.es = s->engine_sessions[engine];
		a.n = 0;
		pos = 0;
		do {
			qp = handles_next(&s->db_slots[engine], &pos);
			if (qp != NULL) {
				obj_mcast_detach_all(s, qp);
				batch[a.n] = qp;
				a.slot[a.n] = DB_SLOT(qp->db_slot);
				a.qp[a.n++] = qp->qp;
			}
			if (a.n == 0 || (qp != NULL && a.n < CONTROL_DESTROY_BURST))
				continue;
			engine_call(s->control->s.engines[engine], destroy_on_engine, &a);
			for (i = 0; i < a.n; i++)
				forget(s, batch[i]);
			a.n = 0;
		} while (qp != NULL);
	}
	/* XRC targets have no doorbells. */
	for (pos = 0; (qp = handles_next(&s->tab[OBJ_QP], &pos)) != NULL;)
		obj_xrc_target_close(s, qp);
}
