/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. Posting is in post.c. */
#include "verbs/client_priv.h"

static void
srq_free(struct client_srq *srq)
{
	pthread_mutex_destroy(&srq->srq.mutex);
	pthread_cond_destroy(&srq->srq.cond);
	client_object_free(srq, srq->memory);
}

/* ctl_lock held. */
static int
srq_adopt(struct client_ctx *ctx, struct client_srq *srq, struct client_call *c)
{
	const struct ctl_srq_create_rsp *r = &c->rsp.srq_create;
	int err = client_segment_add(ctx, &r->seg, c);

	if (err)
		return err;
	if (r->order > 31 || r->shift > 31)
		return EPROTO;
	ring_set_slots(&srq->ring, client_area(ctx, &r->ring, (size_t)1 << (r->order + r->shift)), r->order, r->shift);
	srq->shared = client_area(ctx, &r->shared, sizeof(*srq->shared));
	return srq->ring.base && srq->shared ? 0 : EPROTO;
}

static int
srq_request(struct client_ctx *ctx, struct client_srq *srq, struct ibv_srq_attr *attr, const struct client_xrcd *xrcd)
{
	const struct ctl_srq_create_rsp *r;
	struct client_call c;
	int err;

	if (ctx->foreign)
		return EIO;
	client_call_init(&c, CTL_SRQ_CREATE);
	c.req.srq_create = (struct ctl_srq_create_req){
		.cookie = srq->cookie,
		.pd = srq->srq.pd->handle,
		.max_wr = attr->max_wr,
		.max_sge = attr->max_sge,
	};
	if (xrcd) {
		c.req.srq_create.is_xrc = 1;
		c.req.srq_create.xrcd = xrcd->handle;
		c.req.srq_create.cq = srq->cq->cq.handle;
	}
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, &c);
	r = &c.rsp.srq_create;
	if (!err) {
		err = srq_adopt(ctx, srq, &c);
		if (err)
			client_give_back(ctx, CTL_SRQ_DESTROY, r->handle);
	}
	pthread_mutex_unlock(&ctx->ctl_lock);
	client_call_close_fds(&c, 0);
	if (err)
		return err;
	srq->srq.handle = r->handle;
	srq->srqn = r->srqn;
	srq->max_sge = r->max_sge;
	srq->max_wr = 1u << r->order;
	attr->max_wr = srq->max_wr;
	attr->max_sge = r->max_sge;
	return 0;
}

static struct ibv_srq *
srq_new(struct ibv_pd *pd, struct ibv_srq_init_attr *init, const struct client_xrcd *xrcd, struct client_cq *cq)
{
	struct client_ctx *ctx = to_ctx(pd->context);
	struct client_memory memory;
	struct client_srq *srq = client_object_alloc(pd, CLIENT_RESOURCE_SRQ, sizeof(*srq), &memory);
	int err;

	if (!srq)
		return client_null(ENOMEM);
	srq->memory = memory;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	srq->srq.context = pd->context;
	srq->srq.srq_context = init->srq_context;
	srq->srq.pd = pd;
	srq->cq = cq;
	srq->cookie = objtab_add(&ctx->objs, srq);
	err = srq->cookie == UINT64_MAX ? ENOMEM : srq_request(ctx, srq, &init->attr, xrcd);
	if (err) {
		objtab_remove(&to_ctx(srq->srq.context)->objs, srq->cookie);
		srq_free(srq);
		return client_null(err);
	}
	return &srq->srq;
}

CLIENT_EXPORT struct ibv_srq *
ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	/* ibv_create_srq_ex() of verbs.h passes its argument on unchecked. */
	if (!pd)
		return client_null(EINVAL);
	return srq_new(pd, init, NULL, NULL);
}

struct ibv_srq *
client_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t xrc_parts = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	/* The extended struct begins with the plain one. */
	struct ibv_srq_init_attr *plain = (struct ibv_srq_init_attr *)attr;

	if ((type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) ||
	    (attr->comp_mask & ~(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | xrc_parts)))
		return client_null(EOPNOTSUPP);
	/* A basic SRQ needs neither domain nor CQ: as with NICs (rdma-core, providers/mlx5/verbs.c), they are not looked at. */
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd ||
	    (type == IBV_SRQT_XRC && ((attr->comp_mask & xrc_parts) != xrc_parts || !attr->xrcd || !attr->cq)))
		return client_null(EINVAL);
	if (type == IBV_SRQT_XRC)
		return srq_new(attr->pd, plain, to_xrcd(attr->xrcd), to_cq(attr->cq));
	return srq_new(attr->pd, plain, NULL, NULL);
}

int
client_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	if (!to_srq(srq)->srqn)
		return EINVAL;
	*num = to_srq(srq)->srqn;
	return 0;
}

CLIENT_EXPORT int
ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct client_call c;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	client_call_init(&c, CTL_SRQ_MODIFY);
	c.req.srq_modify = (struct ctl_srq_modify_req){
		.handle = srq->handle, .mask = mask, .max_wr = attr->max_wr, .limit = attr->srq_limit
	};
	return client_call(to_ctx(srq->context), &c);
}

CLIENT_EXPORT int
ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct client_call c;
	int err;

	client_call_init(&c, CTL_SRQ_QUERY);
	c.req.handle.handle = srq->handle;
	err = client_call(to_ctx(srq->context), &c);
	if (err)
		return err;
	attr->max_wr = c.rsp.srq_query.max_wr;
	attr->max_sge = c.rsp.srq_query.max_sge;
	attr->srq_limit = c.rsp.srq_query.limit;
	return 0;
}

CLIENT_EXPORT int
ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct client_srq *srq = to_srq(ibsrq);
	int err = client_destroy_handle(to_ctx(ibsrq->context), CTL_SRQ_DESTROY, ibsrq->handle);

	if (err)
		return err;
	if (srq->cq)
		client_cq_forget_srq(srq->cq, srq->srqn);
	objtab_remove(&to_ctx(srq->srq.context)->objs, srq->cookie);
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != srq->events_reported)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	srq_free(srq);
	return 0;
}
