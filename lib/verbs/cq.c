/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: creation, polling, arming, destruction. */
#include "verbs/client_priv.h"

#include <poll.h>
#include <unistd.h>

#include "base/yield.h"

/* Accesses a field of the ring that a thread may read without the lock. */
#define UNLOCKED(field) ((_Atomic(__typeof__(field)) *)&(field))

static struct client_cq *
cq_alloc(struct ibv_pd *pd)
{
	struct client_memory memory;
	struct client_cq *cq = client_object_alloc(pd, CLIENT_RESOURCE_CQ, sizeof(*cq), &memory);

	if (!cq)
		return NULL;
	cq->memory = memory;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	pthread_mutex_init(&cq->resize_mutex, NULL);
	return cq;
}

static void
cq_free(struct client_cq *cq)
{
	pthread_mutex_destroy(&cq->cq.mutex);
	pthread_cond_destroy(&cq->cq.cond);
	pthread_mutex_destroy(&cq->resize_mutex);
	client_object_free(cq, cq->memory);
}

/* Find a ring and its time stamps in the daemon's reply. ctl_lock held. */
static int
map_ring(const struct client_ctx *ctx, const struct ctl_area *ring, const struct ctl_area *stamps, uint32_t order,
	 bool with_stamps, struct ring *out, uint64_t **stamps_out)
{
	if (order > 31)
		return EPROTO;
	*out = (struct ring){ RING_SIZE(order, 5) /* 32-byte CQEs */ };
	out->base = client_area(ctx, ring, sizeof(struct ring_cqe) << order);
	*stamps_out = with_stamps ? client_area(ctx, stamps, sizeof(uint64_t) << order) : NULL;
	return out->base && (*stamps_out || !with_stamps) ? 0 : EPROTO;
}

/* ctl_lock held. */
static int
cq_adopt_areas(struct client_ctx *ctx, struct client_cq *cq, struct client_call *c, bool stamps)
{
	const struct ctl_cq_create_rsp *r = &c->rsp.cq_create;
	int err = client_segment_add(ctx, &r->seg, c);

	if (!err)
		err = map_ring(ctx, &r->ring, &r->stamps, r->order, stamps, &cq->ring, &cq->stamps);
	if (err)
		return err;
	cq->shared = client_area(ctx, &r->shared, sizeof(*cq->shared));
	return cq->shared ? 0 : EPROTO;
}

static int
cq_request(struct client_ctx *ctx, struct client_cq *cq, uint32_t cqe, uint32_t vector, bool stamps)
{
	struct client_channel *ch = (struct client_channel *)cq->cq.channel;
	const struct ctl_cq_create_rsp *r;
	struct client_call c;
	int err;

	client_call_init(&c, CTL_CQ_CREATE);
	c.req.cq_create = (struct ctl_cq_create_req){
		.cqe = cqe,
		.has_channel = ch != NULL,
		.comp_vector = vector,
		.stamps = stamps,
		.cookie = cq->cookie,
	};
	if (ch)
		c.req.cq_create.channel = ch->handle;
	if (ctx->foreign)
		return EIO;
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, &c);
	r = &c.rsp.cq_create;
	if (!err) {
		err = cq_adopt_areas(ctx, cq, &c, stamps);
		if (err)
			client_give_back(ctx, CTL_CQ_DESTROY, r->handle);
	}
	pthread_mutex_unlock(&ctx->ctl_lock);
	client_call_close_fds(&c, 0);
	if (err)
		return err;
	cq->cq.handle = r->handle;
	cq->cq.cqe = 1 << r->order;
	return 0;
}

struct client_cq *
client_cq_new(struct ibv_context *context, struct ibv_pd *pd, uint32_t cqe, void *cq_context,
	      struct ibv_comp_channel *channel, uint32_t vector, bool stamps)
{
	struct client_ctx *ctx = to_ctx(context);
	struct client_channel *ch = (struct client_channel *)channel;
	struct client_cq *cq;
	int err;

	if (!cqe || cqe > UROCE_MAX_CQE || vector >= (uint32_t)context->num_comp_vectors)
		return client_null(EINVAL);
	cq = cq_alloc(pd);
	if (!cq)
		return client_null(ENOMEM);
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cookie = objtab_add(&ctx->objs, cq);
	err = cq->cookie == UINT64_MAX ? ENOMEM : cq_request(ctx, cq, cqe, vector, stamps);
	if (err) {
		objtab_remove(&ctx->objs, cq->cookie);
		cq_free(cq);
		return client_null(err);
	}
	if (ch) {
		pthread_mutex_lock(&ch->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&ch->mutex);
		client_channel_add(ch, cq);
	}
	return cq;
}

CLIENT_EXPORT struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	struct client_cq *cq;

	if (cqe <= 0 || vector < 0)
		return client_null(EINVAL);
	cq = client_cq_new(context, NULL, cqe, cq_context, channel, vector, false);
	return cq ? &cq->cq : NULL;
}

/*
 * Switch to a larger ring: all completions before @from are in the old one. Unpolled ones are moved to their slots in
 * the new one; engines write nothing there before they are polled.
 */
static void
cq_adopt(struct client_cq *cq, const struct ring *ring, uint64_t *stamps, uint32_t from)
{
	union ring_cqe_ctl ctl;

	client_cq_lock(cq);
	for (uint32_t i = cq->ring.counter; (int32_t)(from - i) > 0; i++) {
		struct ring_cqe *old = ring_slot(&cq->ring, i), *e = ring_slot(ring, i);

		/* This happens only if the CQ has overrun. */
		if (!ring_cq_ready(&cq->ring, i, &ctl))
			break;
		memcpy(e, old, offsetof(struct ring_cqe, ctl));
		if (stamps)
			stamps[i & ring->mask] = cq->stamps[i & cq->ring.mask];
		ctl.phase = ring_phase(i, ring->order);
		atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
	}
	cq->stamps = stamps;
	atomic_store_explicit(UNLOCKED(cq->ring.base), ring->base, memory_order_release);
	atomic_store_explicit(UNLOCKED(cq->ring.order), ring->order, memory_order_release);
	cq->ring.mask = ring->mask;
	cq->cq.cqe = 1 << ring->order;
	client_cq_unlock(cq);
}

static int
cq_grow(struct client_ctx *ctx, struct client_cq *cq, uint32_t cqe)
{
	const struct client_channel *ch = (const struct client_channel *)cq->cq.channel;
	struct ctl_comp_event ev = { .cookie = cq->cookie };
	const struct ctl_cq_resize_rsp *r;
	struct client_call c;
	struct ring ring;
	uint64_t *stamps;
	int err;

	if (ctx->foreign)
		return EIO;
	client_call_init(&c, CTL_CQ_RESIZE);
	c.req.cq_resize = (struct ctl_cq_resize_req){ cq->cq.handle, cqe };
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, &c);
	r = &c.rsp.cq_resize;
	if (!err)
		err = client_segment_add(ctx, &r->seg, &c);
	if (!err)
		err = map_ring(ctx, &r->ring, &r->stamps, r->order, cq->stamps, &ring, &stamps);
	if (!err && r->order <= cq->ring.order)
		err = EPROTO;
	pthread_mutex_unlock(&ctx->ctl_lock);
	client_call_close_fds(&c, 0);
	if (err)
		return err;
	cq_adopt(cq, &ring, stamps, r->from);
	/* A thread may have received an event for a CQE in the new ring and have looked into the old one. */
	if (ch && (int32_t)(atomic_load(&cq->shared->reported) - r->from) > 0 &&
	    client_channel_send(ch, &ev) < 0)
		return errno;
	return 0;
}

/* @return true if more than @n completions are waiting to be polled. */
static bool
cq_holds_more(struct client_cq *cq, uint32_t n)
{
	union ring_cqe_ctl ctl;
	uint32_t i = 0;

	client_cq_lock(cq);
	while (i <= n && ring_cq_ready(&cq->ring, cq->ring.counter + i, &ctl))
		i++;
	client_cq_unlock(cq);
	return i > n;
}

/* Have the daemon's engines complete what was posted before, as far as that is theirs to do. */
static int
cq_settle(struct client_ctx *ctx, const struct client_cq *cq, uint32_t cqe)
{
	struct client_call c;

	client_call_init(&c, CTL_CQ_RESIZE);
	c.req.cq_resize = (struct ctl_cq_resize_req){ cq->cq.handle, cqe };
	return client_call(ctx, &c);
}

/*
 * A CQ that is large enough keeps its size, as the man page allows; but it can't become smaller than its content, to which belongs what is
 * posted already.
 */
static int
cq_shrink(struct client_ctx *ctx, struct client_cq *cq, uint32_t cqe)
{
	int err = cq_holds_more(cq, cqe) ? EINVAL : cq_settle(ctx, cq, cqe);

	return !err && cq_holds_more(cq, cqe) ? EINVAL : err;
}

CLIENT_EXPORT int
ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct client_cq *cq = to_cq(ibcq);
	int err = 0;

	if (cqe <= 0 || cqe > UROCE_MAX_CQE)
		return EINVAL;
	pthread_mutex_lock(&cq->resize_mutex);
	if (cqe > ibcq->cqe)
		err = cq_grow(to_ctx(ibcq->context), cq, cqe);
	else
		err = cq_shrink(to_ctx(ibcq->context), cq, cqe);
	pthread_mutex_unlock(&cq->resize_mutex);
	return err;
}

int
client_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct client_call c;

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return attr->attr_mask ? EOPNOTSUPP : EINVAL;
	atomic_store_explicit(&to_cq(cq)->moderated, true, memory_order_relaxed);
	client_call_init(&c, CTL_CQ_MODIFY);
	c.req.cq_modify = (struct ctl_cq_modify_req){
		.handle = cq->handle,
		.count = attr->moderate.cq_count,
		.period_us = attr->moderate.cq_period,
	};
	return client_call(to_ctx(cq->context), &c);
}

CLIENT_EXPORT int
ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct client_cq *cq = to_cq(ibcq);
	struct client_ctx *ctx = to_ctx(ibcq->context);
	struct client_channel *ch = (struct client_channel *)ibcq->channel;
	int err;

	if (ch)
		client_channel_remove(ch, cq);
	err = client_destroy_handle(ctx, CTL_CQ_DESTROY, ibcq->handle);
	if (err) {
		if (ch)
			client_channel_add(ch, cq);
		return err;
	}
	objtab_remove(&ctx->objs, cq->cookie);
	if (ch) {
		pthread_mutex_lock(&ch->mutex);
		client_channel_purge(ch, cq->cookie);
		ibcq->channel->refcnt--;
		pthread_mutex_unlock(&ch->mutex);
	}
	/* The program may not have acknowledged events that it got: man ibv_get_cq_event. */
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != cq->comp_events_reported ||
	       ibcq->async_events_completed != cq->async_events_reported)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
	cq_free(cq);
	return 0;
}

/* Free the slots up to this WQE: their completions were polled, or they need none. */
static inline void
complete_wqe(struct client_qp *qp, struct ring_cqe *e, const union ring_cqe_ctl *ctl)
{
	_Atomic uint32_t *tail = ctl->is_recv ? &qp->rq_tail : &qp->sq_tail;
	_Atomic uint32_t *bounced = ctl->is_recv ? &qp->rq_bounced : &qp->sq_bounced;
	uint32_t from = atomic_load_explicit(tail, memory_order_relaxed);
	uint32_t to = from + (uint16_t)(ctl->wqe_counter - (uint16_t)from) + 1;

	if (unlikely(atomic_load_explicit(bounced, memory_order_relaxed) != 0))
		client_bounce_done(qp, e, ctl->is_recv, from, to);
	atomic_store_explicit(tail, to, memory_order_release);
}

static inline struct client_qp *
find_qp(struct client_cq *cq, uint32_t qpn)
{
	struct client_qp *qp = cq->last_qp;

	if (likely(qp && qp->qp.qp_base.qp_num == qpn))
		return qp;
	qp = atomic_load_explicit(&to_ctx(cq->cq.context)->qps[qpn & (CLIENT_QPN_SLOTS - 1)], memory_order_relaxed);
	if (qp && qp->qp.qp_base.qp_num == qpn) {
		cq->last_qp = qp;
		return qp;
	}
	return NULL;
}

/* Take the next CQE of a live QP. */
static inline bool
cq_next(struct client_cq *cq, struct ring_cqe **out, union ring_cqe_ctl *ctl)
{
	while (ring_cq_ready(&cq->ring, cq->ring.counter, ctl)) {
		struct ring_cqe *e = ring_slot(&cq->ring, cq->ring.counter);
		struct client_qp *qp;

		atomic_store_explicit(UNLOCKED(cq->ring.counter), cq->ring.counter + 1, memory_order_relaxed);
		if (unlikely(ctl->dead | ctl->xrc)) {
			if (ctl->dead)
				continue;
			/* A receive of an XRC SRQ, which frees its slots itself. The QP may be another program's. */
			*out = e;
			return true;
		}
		qp = find_qp(cq, e->qpn);
		if (unlikely(!qp))
			continue;
		if (!ctl->is_recv || !qp->qp.qp_base.srq)
			complete_wqe(qp, e, ctl);
		*out = e;
		return true;
	}
	return false;
}

bool
client_cq_next(struct client_cq *cq, struct ring_cqe *e, union ring_cqe_ctl *ctl)
{
	struct ring_cqe *slot;

	if (!cq_next(cq, &slot, ctl))
		return false;
	memcpy(e, slot, sizeof(*e));
	return true;
}

static inline void
fill_wc(struct ibv_wc *wc, const struct ring_cqe *e, const union ring_cqe_ctl *ctl)
{
	wc->wr_id = e->wr_id;
	wc->status = e->status;
	wc->opcode = e->opcode;
	wc->vendor_err = ctl->vendor_err;
	wc->byte_len = e->byte_len;
	wc->imm_data = e->imm;
	wc->qp_num = e->qpn;
	wc->src_qp = e->src_qp;
	wc->wc_flags = ctl->wc_flags;
	wc->pkey_index = ctl->pkey_index;
	wc->slid = 0;
	wc->sl = ctl->sl;
	wc->dlid_path_bits = 0;
}

enum ring_crowded
client_crowded(const struct client_ctx *ctx)
{
	uint32_t crowded = RING_CORES_ENOUGH;

	for (uint32_t i = 0; i < ctx->nb_engines && crowded == RING_CORES_ENOUGH; i++) {
		const struct ring_db *db = (const void *)(ctx->doorbells + i * ctx->db_stride);

		crowded = atomic_load_explicit(&db->crowded, memory_order_relaxed);
	}
	return crowded;
}

/*
 * Yield the core after @p polls in vain: if cores are short, the engine that would fill the CQ may be waiting for it. But not to a program that
 * never yields, and not often if the completion will come soon.
 */
static __attribute__((noinline)) void
give_core(const struct client_ctx *ctx, uint32_t polls)
{
	enum ring_crowded crowded = client_crowded(ctx);

	if (crowded == RING_CROWDED || (crowded == RING_CROWDED_SOON && polls % CLIENT_SOON_POLLS == 0))
		yield_core();
}

/* A daemon that dies closes the connection, and nothing else tells a program that only polls. */
static __attribute__((noinline)) void
look_for_daemon(struct client_ctx *ctx)
{
	struct pollfd p = { .fd = ctx->sock, .events = POLLRDHUP };
	int before = errno;

	/* An embedded daemon is in this process. */
	if (!ctx->wait && poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
		client_connection_lost(ctx, "ibv_poll_cq");
	errno = before;
}

int
client_cq_empty(struct client_cq *cq)
{
	uint32_t n = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	struct client_ctx *ctx;

	atomic_store_explicit(&cq->empty_polls, n, memory_order_relaxed);
	if (likely(n % CLIENT_EMPTY_POLLS != 0))
		return 0;
	ctx = to_ctx(cq->cq.context);
	give_core(ctx, n);
	if (unlikely(n % CLIENT_LOST_POLLS == 0))
		look_for_daemon(ctx);
	return unlikely(atomic_load_explicit(&ctx->lost, memory_order_relaxed)) ? EIO : 0;
}

/* Called without the lock. A resize may be in progress: never use a large order with the base of a small ring. */
static inline bool
cq_looks_empty(struct client_cq *cq)
{
	uint32_t order = atomic_load_explicit(UNLOCKED(cq->ring.order), memory_order_acquire);
	struct ring r = {
		.base = atomic_load_explicit(UNLOCKED(cq->ring.base), memory_order_relaxed),
		RING_SIZE(order, cq->ring.shift),
	};
	union ring_cqe_ctl ctl;

	return !ring_cq_ready(&r, atomic_load_explicit(UNLOCKED(cq->ring.counter), memory_order_relaxed), &ctl);
}

int
client_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct client_cq *cq = to_cq(ibcq);
	union ring_cqe_ctl ctl;
	struct ring_cqe *e;
	uint32_t before;
	int n = 0;

	/* Most polls find the CQ empty. Check that without the lock, so that polling threads don't get in the way of one
	 * that has work. */
	if (cq_looks_empty(cq))
		return likely(client_cq_empty(cq) == 0) ? 0 : -1;
	client_cq_lock(cq);
	before = cq->ring.counter;
	while (n < num && cq_next(cq, &e, &ctl))
		fill_wc(&wc[n++], e, &ctl);
	if (cq->ring.counter != before)
		client_cq_publish(cq);
	client_cq_unlock(cq);
	return n;
}

void
client_cq_forget(struct client_cq *cq, const struct client_qp *qp)
{
	union ring_cqe_ctl ctl;

	for (uint32_t i = cq->ring.counter; ring_cq_ready(&cq->ring, i, &ctl); i++) {
		struct ring_cqe *e = ring_slot(&cq->ring, i);

		if (e->qpn != qp->qp.qp_base.qp_num)
			continue;
		ctl.dead = 1;
		atomic_store_explicit(&e->ctl, ctl.word, memory_order_relaxed);
	}
	if (cq->last_qp == qp)
		cq->last_qp = NULL;
}

void
client_cq_forget_srq(struct client_cq *cq, uint32_t srqn)
{
	union ring_cqe_ctl ctl;

	client_cq_lock(cq);
	for (uint32_t i = cq->ring.counter; ring_cq_ready(&cq->ring, i, &ctl); i++) {
		struct ring_cqe *e = ring_slot(&cq->ring, i);

		if (!ctl.xrc || ctl.wqe_counter != (uint16_t)srqn)
			continue;
		ctl.dead = 1;
		atomic_store_explicit(&e->ctl, ctl.word, memory_order_relaxed);
	}
	client_cq_unlock(cq);
}
