/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation, states, destruction. Posting is in post.c and qp_wr.c. */
#include "verbs/client_priv.h"

#include "verbs/ah_attr.h"
#include "verbs/attr_copy.h"

static struct client_qp *
qp_alloc(struct ibv_pd *pd)
{
	struct client_memory memory;
	struct client_qp *qp = client_object_alloc(pd, CLIENT_RESOURCE_QP, sizeof(*qp), &memory);

	if (!qp)
		return NULL;
	qp->memory = memory;
	pthread_mutex_init(&qp->qp.qp_base.mutex, NULL);
	pthread_cond_init(&qp->qp.qp_base.cond, NULL);
	return qp;
}

static void
qp_free(struct client_qp *qp)
{
	pthread_mutex_destroy(&qp->qp.qp_base.mutex);
	pthread_cond_destroy(&qp->qp.qp_base.cond);
	client_object_free(qp, qp->memory);
}

static void
cap_to_abi(struct uroce_qp_cap *to, const struct ibv_qp_cap *from)
{
	*to = (struct uroce_qp_cap){ from->max_send_wr, from->max_recv_wr, from->max_send_sge, from->max_recv_sge,
				     from->max_inline_data };
}

static void
cap_from_abi(struct ibv_qp_cap *to, const struct uroce_qp_cap *from)
{
	*to = (struct ibv_qp_cap){ from->max_send_wr, from->max_recv_wr, from->max_send_sge, from->max_recv_sge,
				   from->max_inline_data };
}

static int
map_ring(struct client_ctx *ctx, struct ring *r, const struct ctl_area *a, uint32_t order, uint32_t shift)
{
	if (!a->length)
		return 0;
	if (order > 31 || shift > 31)
		return EPROTO;
	ring_set_slots(r, client_area(ctx, a, (size_t)1 << (order + shift)), order, shift);
	return r->base ? 0 : EPROTO;
}

/* Posting relies on these values, so they are checked against the rings once. */
static int
check_caps(const struct client_qp *qp)
{
	const struct uroce_qp_cap *cap = &qp->cap;

	if (qp->sq.base && (cap->max_send_wr > 1u << qp->sq.order || cap->max_send_sge > UROCE_MAX_SGE ||
			    cap->max_inline_data > UINT16_MAX ||
			    ring_sq_stride(cap->max_send_sge, cap->max_inline_data) > 1u << qp->sq.shift))
		return EPROTO;
	if (qp->rq.base && (cap->max_recv_wr > 1u << qp->rq.order || cap->max_recv_sge > UROCE_MAX_SGE ||
			    ring_rq_stride(cap->max_recv_sge) > 1u << qp->rq.shift))
		return EPROTO;
	return 0;
}

/* ctl_lock held. */
static int
qp_adopt_rings(struct client_ctx *ctx, struct client_qp *qp, const struct ctl_qp_create_rsp *r)
{
	int err = map_ring(ctx, &qp->sq, &r->sq, r->sq_order, r->sq_shift);

	if (!err)
		err = map_ring(ctx, &qp->rq, &r->rq, r->rq_order, r->rq_shift);
	if (err)
		return err;
	qp->shared = client_area(ctx, &r->shared, sizeof(*qp->shared));
	if (!qp->shared || r->engine >= ctx->nb_engines || r->db_slot >= RING_DB_SLOTS)
		return EPROTO;
	qp->db = (struct ring_db *)(ctx->doorbells + r->engine * ctx->db_stride);
	qp->db_slot = r->db_slot;
	qp->cap = r->cap;
	qp->sq_max = qp->sq.base ? r->cap.max_send_wr : 0;
	qp->rq_max = qp->rq.base ? r->cap.max_recv_wr : 0;
	return check_caps(qp);
}

static int
qp_adopt(struct client_ctx *ctx, struct client_qp *qp, const struct ctl_qp_create_rsp *r)
{
	int err;

	/* Used by a QP without queues, so that posting finds the state RESET. */
	static struct ring_qp_shared no_queues;

	qp->qp.qp_base.handle = r->handle;
	qp->qp.qp_base.qp_num = r->qpn;
	if (qp->qp.qp_base.qp_type != IBV_QPT_XRC_RECV) {
		err = qp_adopt_rings(ctx, qp, r);
		if (!err && atomic_load_explicit(&qp->shared->state, memory_order_relaxed) == UROCE_QPS_INIT)
			qp->qp.qp_base.state = IBV_QPS_INIT;
		return err;
	}
	qp->shared = &no_queues;
	return 0;
}

/* Do CTL_QP_CREATE or CTL_QP_OPEN, which is filled in already. */
static int
qp_call(struct client_ctx *ctx, struct client_qp *qp, struct client_call *c)
{
	int err;

	if (ctx->foreign)
		return EIO;
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, c);
	if (!err) {
		err = client_segment_add(ctx, &c->rsp.qp_create.seg, c);
		if (!err)
			err = qp_adopt(ctx, qp, &c->rsp.qp_create);
		if (err == EPROTO)
			client_complain("ibv_create_qp: uroced's answer makes no sense");
		if (err)
			client_give_back(ctx, CTL_QP_DESTROY, c->rsp.qp_create.handle);
	}
	pthread_mutex_unlock(&ctx->ctl_lock);
	client_call_close_fds(c, 0);
	return err;
}

static void
fill_request(struct client_call *c, const struct client_qp *qp, const struct ibv_qp_init_attr *attr,
	     struct ibv_xrcd *xrcd)
{
	const struct ibv_qp *q = &qp->qp.qp_base;

	client_call_init(c, CTL_QP_CREATE);
	c->req.qp_create = (struct ctl_qp_create_req){
		.cookie = qp->cookie,
		.type = attr->qp_type,
		.pd = q->pd ? q->pd->handle : 0,
		.send_cq = q->send_cq ? q->send_cq->handle : 0,
		.recv_cq = q->recv_cq ? q->recv_cq->handle : 0,
		.srq = q->srq ? q->srq->handle : UINT32_MAX,
		.sq_sig_all = attr->sq_sig_all != 0,
		.xrcd = xrcd ? to_xrcd(xrcd)->handle : 0,
	};
	cap_to_abi(&c->req.qp_create.cap, &attr->cap);
}

/* An XRC QP has only a send side or only a receive side. */
static int
check_init(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, const struct ibv_xrcd *xrcd)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return xrcd ? 0 : EINVAL;
	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC && attr->qp_type != IBV_QPT_UD &&
	    attr->qp_type != IBV_QPT_XRC_SEND)
		return EOPNOTSUPP;
	if (!pd || (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND))
		return EINVAL;
	if (!attr->send_cq || attr->cap.max_send_wr > UROCE_MAX_QP_WR ||
	    attr->cap.max_recv_wr > UROCE_MAX_QP_WR || attr->cap.max_send_sge > UROCE_MAX_SGE ||
	    attr->cap.max_recv_sge > UROCE_MAX_SGE || attr->cap.max_inline_data > UROCE_MAX_INLINE)
		return EINVAL;
	return 0;
}

static void
qp_fill(struct client_qp *qp, struct ibv_context *context, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *q = &qp->qp.qp_base;

	q->context = context;
	q->qp_context = attr->qp_context;
	if (attr->qp_type != IBV_QPT_XRC_RECV) {
		q->pd = pd;
		q->send_cq = attr->send_cq;
		qp->bounce = ((const struct client_pd *)pd)->bounce;
	}
	if (attr->qp_type != IBV_QPT_XRC_RECV && attr->qp_type != IBV_QPT_XRC_SEND) {
		q->recv_cq = attr->recv_cq;
		q->srq = attr->srq;
	}
	q->state = IBV_QPS_RESET;
	q->qp_type = attr->qp_type;
	qp->ctx = to_ctx(context);
	qp->type_bit = 1u << attr->qp_type;
	qp->sq_sig_all = attr->sq_sig_all;
}

/* Get the CQs whose locks protect the QP's completions and its entry in ctx->qps. @return false: there are none. */
static bool
qp_cqs(const struct client_qp *qp, struct client_cq **s, struct client_cq **r)
{
	const struct ibv_qp *q = &qp->qp.qp_base;

	*s = to_cq(q->send_cq);
	*r = q->recv_cq ? to_cq(q->recv_cq) : *s;
	return *s != NULL;
}

/*
 * Enter the QP into the table, so that its completions are found by its number. An XRC_RECV QP has no completions, and
 * other programs may have it open.
 */
static void
qp_publish(struct client_qp *qp)
{
	struct client_cq *s, *r;

	if (!qp_cqs(qp, &s, &r))
		return;
	client_cq_lock_two(s, r);
	atomic_store_explicit(&qp->ctx->qps[qp->qp.qp_base.qp_num & (CLIENT_QPN_SLOTS - 1)], qp, memory_order_relaxed);
	client_cq_unlock_two(s, r);
}

static struct ibv_qp *
qp_new(struct ibv_context *context, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, struct ibv_xrcd *xrcd,
       const uint64_t *ops, bool in_init)
{
	struct client_ctx *ctx = to_ctx(context);
	struct client_qp *qp = NULL;
	struct client_call c;
	int err = check_init(pd, attr, xrcd);

	if (err)
		goto fail;
	qp = qp_alloc(pd);
	if (!qp) {
		err = ENOMEM;
		goto fail;
	}
	qp_fill(qp, context, pd, attr);
	if (ops) {
		err = client_qp_set_builders(qp, attr->qp_type, *ops);
		if (err)
			goto free_qp;
	}
	qp->cookie = objtab_add(&ctx->objs, qp);
	fill_request(&c, qp, attr, xrcd);
	c.req.qp_create.in_init = in_init;
	err = qp->cookie == UINT64_MAX ? ENOMEM : qp_call(ctx, qp, &c);
	if (err)
		goto forget;
	cap_from_abi(&attr->cap, &qp->cap);
	qp_publish(qp);
	if (qp->bounce)
		atomic_fetch_add(&qp->bounce->qps, 1);
	return &qp->qp.qp_base;
forget:
	objtab_remove(&qp->ctx->objs, qp->cookie);
free_qp:
	qp_free(qp);
fail:
	return client_null(err);
}

CLIENT_EXPORT struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return qp_new(pd->context, pd, attr, NULL, NULL, false);
}

struct ibv_qp *
client_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t served = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				IBV_QP_INIT_ATTR_XRCD;
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	struct ibv_xrcd *xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	uint32_t flags = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
	bool with_ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if ((attr->comp_mask & ~served) || (flags & ~(uint32_t)CLIENT_CREATE_IN_INIT))
		return client_null(EOPNOTSUPP);
	/* The extended struct begins with the plain one. */
	return qp_new(context, pd, (struct ibv_qp_init_attr *)attr, xrcd, with_ops ? &attr->send_ops_flags : NULL, flags != 0);
}

struct ibv_qp *
client_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_XRC_RECV };
	struct client_ctx *ctx = to_ctx(context);
	struct client_qp *qp;
	struct client_call c;
	int err = EINVAL;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		err = EOPNOTSUPP;
	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED || (attr->comp_mask & needed) != needed || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV)
		goto fail;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		init.qp_context = attr->qp_context;
	err = ENOMEM;
	qp = qp_alloc(NULL);
	if (!qp)
		goto fail;
	qp_fill(qp, context, NULL, &init);
	qp->cookie = objtab_add(&ctx->objs, qp);
	client_call_init(&c, CTL_QP_OPEN);
	c.req.qp_open = (struct ctl_qp_open_req){ .cookie = qp->cookie, .xrcd = to_xrcd(attr->xrcd)->handle,
						  .qpn = attr->qp_num, .type = attr->qp_type };
	if (qp->cookie != UINT64_MAX)
		err = qp_call(ctx, qp, &c);
	if (!err)
		return &qp->qp.qp_base;
	objtab_remove(&qp->ctx->objs, qp->cookie);
	qp_free(qp);
fail:
	return client_null(err);
}

static void
attr_to_abi(struct uroce_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	memset(to, 0, sizeof(*to));
	ATTR_COPY_QP(to, from);
	cap_to_abi(&to->cap, &from->cap);
	ah_attr_to_abi(&to->ah, &from->ah_attr);
	ah_attr_to_abi(&to->alt_ah, &from->alt_ah_attr);
	/* The newest member, for which older programs have no room. */
	if (mask & IBV_QP_RATE_LIMIT)
		to->rate_limit = from->rate_limit;
}

static void
attr_from_abi(struct ibv_qp_attr *to, const struct uroce_qp_attr *from)
{
	ATTR_COPY_QP(to, from);
	cap_from_abi(&to->cap, &from->cap);
	ah_attr_from_abi(&to->ah_attr, &from->ah);
	ah_attr_from_abi(&to->alt_ah_attr, &from->alt_ah);
}

/* Make sure that no completion of this QP is returned any more. */
static void
drop_completions(struct client_qp *qp, bool and_qp)
{
	struct client_qp *mine = qp;
	struct ibv_qp *q = &qp->qp.qp_base;
	struct client_cq *s, *r;

	if (!qp_cqs(qp, &s, &r))
		return;
	client_cq_lock_two(s, r);
	client_cq_forget(s, qp);
	if (r != s)
		client_cq_forget(r, qp);
	/* The daemon has freed the number, so another thread's new QP may be in this slot already. */
	if (and_qp)
		atomic_compare_exchange_strong_explicit(&qp->ctx->qps[q->qp_num & (CLIENT_QPN_SLOTS - 1)], &mine, NULL,
							memory_order_relaxed, memory_order_relaxed);
	client_cq_unlock_two(s, r);
}

/* The engine has dropped what was posted, up to our counters. Counters are not reset, so that phases remain right. */
static void
after_reset(struct client_qp *qp)
{
	client_lock(&qp->sq_lock);
	client_lock(&qp->rq_lock);
	drop_completions(qp, false);
	client_bounce_drop(qp);
	qp->sq_tail_seen = qp->sq.counter;
	qp->rq_tail_seen = qp->rq.counter;
	atomic_store(&qp->sq_tail, qp->sq.counter);
	atomic_store(&qp->rq_tail, qp->rq.counter);
	client_unlock(&qp->rq_lock);
	client_unlock(&qp->sq_lock);
}

/*
 * Attributes for the side that an XRC QP doesn't have are ignored, as in Linux (uverbs_cmd.c, modify_qp_mask()):
 * perftest sets all those of an RC QP.
 */
static uint32_t
served_mask(const struct ibv_qp *qp, uint32_t mask)
{
	if (qp->qp_type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (qp->qp_type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

CLIENT_EXPORT int
ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct client_qp *qp = to_qp(ibqp);
	struct client_call c;
	int err;

	client_call_init(&c, CTL_QP_MODIFY);
	c.req.qp_modify.handle = ibqp->handle;
	c.req.qp_modify.mask = served_mask(ibqp, mask);
	attr_to_abi(&c.req.qp_modify.attr, attr, mask);
	err = client_call(qp->ctx, &c);
	if (err)
		return err;
	if (mask & IBV_QP_STATE) {
		ibqp->state = attr->qp_state;
		if (attr->qp_state == IBV_QPS_RESET)
			after_reset(qp);
	}
	return 0;
}

CLIENT_EXPORT int
ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct client_qp *qp = to_qp(ibqp);
	struct client_call c;
	int err;

	client_call_init(&c, CTL_QP_QUERY);
	c.req.handle.handle = ibqp->handle;
	err = client_call(qp->ctx, &c);
	if (err)
		return err;
	attr_from_abi(attr, &c.rsp.qp_query.attr);
	if (mask & IBV_QP_RATE_LIMIT)
		attr->rate_limit = c.rsp.qp_query.attr.rate_limit;
	cap_from_abi(&attr->cap, &qp->cap);
	ibqp->state = attr->qp_state;
	if (init) {
		*init = (struct ibv_qp_init_attr){
			.qp_context = ibqp->qp_context,
			.send_cq = ibqp->send_cq,
			.recv_cq = ibqp->recv_cq,
			.srq = ibqp->srq,
			.cap = attr->cap,
			.qp_type = ibqp->qp_type,
			.sq_sig_all = qp->sq_sig_all,
		};
	}
	return 0;
}

CLIENT_EXPORT int
ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct client_qp *qp = to_qp(ibqp);
	int err = client_destroy_handle(qp->ctx, CTL_QP_DESTROY, ibqp->handle);

	if (err)
		return err;
	drop_completions(qp, true);
	client_bounce_drop(qp);
	if (qp->bounce)
		atomic_fetch_sub(&qp->bounce->qps, 1);
	objtab_remove(&qp->ctx->objs, qp->cookie);
	/* The program may not have acknowledged events that it got: man ibv_get_async_event. */
	pthread_mutex_lock(&ibqp->mutex);
	while (ibqp->events_completed != qp->events_reported)
		pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
	pthread_mutex_unlock(&ibqp->mutex);
	qp_free(qp);
	return 0;
}
