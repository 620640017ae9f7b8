/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive queues as their clients see them: RQs, whose receives complete in order, and SRQs, whose receives don't. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
	PD = 1,
	SRQ_ORDER_MIN = 1,
	SRQ_ORDER_MAX = 5,
	SRQ_SPARE_BUFS = 64, /* for receives that are taken, and those lost with QPs that were reset */
	RECVS_GROW = 64,
	STREAM_SRQ = 1024,
	GRH_BYTES = 40,
	SLOW_NS_MAX = 300000,
};

/* ---- Both ---- */

void
recvq_init(struct sim_world *w, struct sim_recvq *rq, uint64_t wr_id, uint32_t nb_room)
{
	free(rq->recvs);
	rq->recvs = calloc(nb_room + 1, sizeof(*rq->recvs));
	if (rq->recvs == NULL)
		abort();
	rq->nb_room = nb_room;
	rq->nb_posted = rq->nb_done = 0;
	rq->next_ns = 0;
	rq->base = rq->ring.counter;
	rq->wr_id = wr_id;
}

bool
recvq_memory(struct sim_world *w, struct sim_recvq *rq, uint32_t depth, uint32_t recv_len)
{
	uint32_t shift = 31 - (uint32_t)__builtin_clz(ring_rq_stride(rq->max_sge)), bytes;
	uint8_t *p;

	rq->depth = depth;
	rq->recv_len = recv_len;
	rq->nb_bufs = rq->nb_bufs != 0 ? rq->nb_bufs : depth;
	rq->stride = (recv_len + (SIM_MAX_SGE + 1) * SIM_CANARY_BYTES + 63) & ~63u;
	bytes = rq->nb_bufs * rq->stride;
	p = arena_get(w, bytes);
	rq->ring = (struct ring){ .base = arena_get(w, (uint64_t)depth << shift),
				  RING_SIZE(31 - (uint32_t)__builtin_clz(depth), shift) };
	return p != NULL && rq->ring.base != NULL &&
	       sim_mr_create(rq->ep, &rq->mr, p, bytes, PD, UROCE_ACCESS_LOCAL_WRITE, rq->rng) == 0;
}

static uint32_t
find_buf(const struct sim_recvq *rq)
{
	uint32_t i;

	if (rq->srq == NULL)
		return rq->nb_posted % rq->nb_bufs;
	for (i = 0; i < rq->nb_bufs && rq->buf_used[i]; i++)
		;
	return i;
}

static void
post_recv(struct sim_world *w, struct sim_recvq *rq, uint32_t buf)
{
	struct ring_rq_wqe *e = ring_slot(&rq->ring, rq->ring.counter);
	struct sim_recv *r;
	unsigned int i;

	if (rq->nb_posted == rq->nb_room) {
		rq->nb_room += RECVS_GROW;
		rq->recvs = realloc(rq->recvs, rq->nb_room * sizeof(*rq->recvs));
		if (rq->recvs == NULL)
			abort();
		memset(rq->recvs + rq->nb_posted, 0, RECVS_GROW * sizeof(*rq->recvs));
	}
	r = &rq->recvs[rq->nb_posted];
	r->wr_id = rq->wr_id + rq->nb_posted;
	r->buf = buf;
	if (rq->srq != NULL)
		rq->buf_used[buf] = 1;
	program_recv(w, rq, r);
	e->wr_id = r->wr_id;
	for (i = 0; i < r->nsge; i++)
		e->sge[i] = (struct ring_sge){ .addr = rq->mr.iova + (uint64_t)(r->pieces[i].p - rq->mr.base),
					       .length = r->pieces[i].len, .lkey = rq->mr.key };
	if (r->plant == SIM_PLANT_RECV_LKEY)
		e->sge[r->nsge - 1].lkey ^= 1;
	ring_rq_post(&rq->ring, rq->ring.counter++, e, r->nsge);
	rq->nb_posted++;
	w->stats.recvs++;
	sim_trace(w, "receive 0x%" PRIx64 " posted: len %u%s%s", r->wr_id, r->len, r->plant ? " plant " : "",
		  r->plant ? plant_name(r->plant) : "");
}

/* Slots that the client may write: of an RQ those whose completion it has polled, of an SRQ what its head says. */
static uint32_t
slots_free(const struct sim_recvq *rq)
{
	uint32_t used = rq->nb_posted - rq->nb_done;

	if (rq->srq != NULL)
		used = rq->ring.counter - atomic_load_explicit(&rq->shared->head, memory_order_acquire);
	return rq->depth - used;
}

uint32_t
recvq_post(struct sim_world *w, struct sim_recvq *rq)
{
	uint32_t room = slots_free(rq), n = 0, buf;

	if (rq->srq == NULL && room > rq->nb_room - rq->nb_posted)
		room = rq->nb_room - rq->nb_posted;
	if (room == 0 || w->now_ns < rq->next_ns)
		return 0;
	if (w->cfg.faults & SIM_F_SLOW_RECV) {
		rq->next_ns = w->now_ns + rng_below(rq->rng, SLOW_NS_MAX);
		room = 1 + (uint32_t)rng_below(rq->rng, room);
	}
	for (; n < room; n++) {
		buf = find_buf(rq);
		if (buf == rq->nb_bufs)
			break;
		post_recv(w, rq, buf);
	}
	return n;
}

struct sim_recv *
recvq_complete(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, uint16_t counter)
{
	struct sim_recvq *rq = q->conn->xrc ? xrc_recvq(q->ep, counter) : q->rq;
	uint32_t *next = q->conn->xrc ? &q->xsrq[rq - q->ep->xsrqs].next_recv : &q->next_srq_recv;
	uint32_t i = rq->srq != NULL ? (uint32_t)(e->wr_id - rq->wr_id) : rq->nb_done;
	struct sim_recv *r = &rq->recvs[i];

	if (i >= rq->nb_posted) {
		sim_fail(w, "QP %u: completion of receive %u, posted are %u", q->id, i, rq->nb_posted);
		return NULL;
	}
	if (e->wr_id != r->wr_id || (!q->conn->xrc && counter != (uint16_t)(rq->base + i)))
		sim_fail(w, "QP %u: receive %u completes with counter %u, wr_id 0x%" PRIx64, q->id, i, counter,
			 e->wr_id);
	if (rq->srq != NULL && (r->done || i < *next))
		sim_fail(w, "QP %u: receive %u completes %s", q->id, i, r->done ? "twice" : "out of order");
	*next = i + 1;
	r->done = true;
	rq->nb_done++;
	if (rq->srq != NULL)
		rq->buf_used[r->buf] = 0;
	return r;
}

/* ---- SRQs ---- */

static uint32_t
srq_head(const struct sim_recvq *rq)
{
	return atomic_load_explicit(&rq->shared->head, memory_order_acquire);
}

bool
srq_make(struct sim_world *w, struct sim_recvq *rq, struct sim_engine *e, uint32_t id)
{
	struct srq_params p = { .pd = PD, .cookie = (uintptr_t)rq, .owner = rq->ep, .number = id };
	uint32_t order;

	rq->own_rng = rng_stream(w->cfg.seed, STREAM_SRQ + rq->ep->id * SIM_MAX_SRQS + id);
	rq->rng = &rq->own_rng;
	rq->tp = e->tp;
	rq->max_sge = (uint32_t)rng_between(rq->rng, 1, SIM_MAX_SGE);
	order = (uint32_t)rng_between(rq->rng, SRQ_ORDER_MIN, SRQ_ORDER_MAX);
	rq->nb_bufs = (1u << order) + SRQ_SPARE_BUFS;
	rq->buf_used = calloc(rq->nb_bufs, 1);
	rq->shared = (void *)arena_get(w, sizeof(*rq->shared));
	if (rq->buf_used == NULL || rq->shared == NULL || !recvq_memory(w, rq, 1u << order, w->cfg.max_len + GRH_BYTES))
		return false;
	p.ring = rq->ring;
	p.shared = rq->shared;
	p.max_sge = rq->max_sge;
	p.xrcd = rq->xrcd;
	p.srqn = rq->srqn;
	p.cq = rq->cq != NULL ? rq->cq->cq : NULL;
	if (srq_create(rq->tp, &p, &rq->srq) != 0)
		return false;
	recvq_init(w, rq, (uint64_t)id << 32 | SIM_WR_ID_RECV, RECVS_GROW);
	return true;
}

void
srq_free(struct sim_ep *ep, struct sim_recvq *rq)
{
	if (rq->srq != NULL)
		srq_destroy(rq->tp, rq->srq);
	if (rq->mr.mr != NULL)
		mr_destroy(ep->sh.mrs, rq->mr.mr);
	free(rq->recvs);
	free(rq->buf_used);
	rq->srq = NULL;
	rq->recvs = NULL;
	rq->buf_used = NULL;
}

/* Nobody but this client adds receives, so they only have become fewer since its last turn. */
static void
check_limit(struct sim_world *w, const struct sim_recvq *rq)
{
	uint32_t left = rq->ring.counter - srq_head(rq);

	if (rq->limit != 0 && srq_head(rq) != rq->armed_at && left < rq->limit)
		sim_fail(w, "endpoint %u: an SRQ has %u receives left, its limit is %u, but no event came", rq->ep->id,
			 left, rq->limit);
	if (srq_limit(rq->srq) != rq->limit)
		sim_fail(w, "endpoint %u: an SRQ's limit is %u, not %u", rq->ep->id, srq_limit(rq->srq), rq->limit);
}

void
srq_turn(struct sim_world *w, struct sim_recvq *rq)
{
	check_limit(w, rq);
	if (!w->settled)
		recvq_post(w, rq);
	if (rng_one_in(rq->rng, rq->limit == 0 ? 8 : 64)) {
		rq->limit = (uint32_t)rng_below(rq->rng, rq->depth + 2);
		rq->armed_at = srq_head(rq);
		srq_set_limit(rq->srq, rq->limit);
	}
}

void
srq_limit_event(struct sim_world *w, struct sim_recvq *rq)
{
	uint32_t head = srq_head(rq), left = rq->ring.counter - head;

	sim_trace(w, "SRQ of endpoint %u: limit %u reached, %u left", rq->ep->id, rq->limit, left);
	if (rq->limit == 0)
		sim_fail(w, "endpoint %u: limit event of an SRQ that isn't armed", rq->ep->id);
	else if (left >= rq->limit || (left + 1 < rq->limit && head - rq->armed_at != 1 && !(w->cfg.faults & SIM_F_CRASH)))
		sim_fail(w, "endpoint %u: limit event with %u receives left, the limit is %u", rq->ep->id, left,
			 rq->limit);
	rq->limit = 0;
}

void
srq_check_end(struct sim_world *w, struct sim_recvq *rq)
{
	uint32_t taken = srq_head(rq) - rq->base;

	if (taken < rq->nb_done || taken - rq->nb_done > rq->nb_lost)
		sim_fail(w, "endpoint %u: %u receives of an SRQ were taken, %u completed, at most %u can be lost",
			 rq->ep->id, taken, rq->nb_done, rq->nb_lost);
}
