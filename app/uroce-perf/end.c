/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings, memory and test pattern of an end. */
#include <stdio.h>
#include <unistd.h>

#include "end.h"

/* Rings of many QPs would meet in the same sets of a cache if they all began with a page. */
enum { MESSAGE_ALIGN = 64, RING_ALIGN = RING_CACHE_LINE };

const uint8_t op_to_wr[PERF_OPS] = {
	[PERF_WRITE] = UROCE_WR_RDMA_WRITE,
	[PERF_SEND] = UROCE_WR_SEND,
	[PERF_READ] = UROCE_WR_RDMA_READ,
	[PERF_FETCH_ADD] = UROCE_WR_ATOMIC_FETCH_AND_ADD,
	[PERF_CMP_SWAP] = UROCE_WR_ATOMIC_CMP_AND_SWP,
};

static uint32_t
order_of(uint32_t n)
{
	uint32_t order = 0;

	while ((1u << order) < n)
		order++;
	return order;
}

static void
ring_make(struct ring *r, uint32_t entries, uint32_t stride)
{
	*r = (struct ring){ RING_SIZE(order_of(entries), order_of(stride)) };
	r->base = arena_alloc((size_t)1 << (r->order + r->shift), RING_ALIGN);
}

bool
op_is_inbound(enum perf_op op)
{
	return op == PERF_READ;
}

uint32_t
end_rq_depth(const struct perf_opts *o)
{
	if (o->op != PERF_SEND)
		return 1;
	return o->test == PERF_RATE ? 2 * o->depth : 64;
}

static uint32_t
message_stride(const struct perf_opts *o)
{
	uint32_t stride = (o->size + MESSAGE_ALIGN - 1) & ~(uint32_t)(MESSAGE_ALIGN - 1);

	return stride != 0 ? stride : MESSAGE_ALIGN;
}

static uint32_t
messages_per_qp(const struct perf_opts *o)
{
	uint64_t slots = o->memory != 0 ? o->memory / message_stride(o) / o->qps : o->depth;

	/* Latency tests need one slot to send and one to receive. */
	return slots < 2 ? 2 : (uint32_t)slots;
}

static uint32_t
sq_entries(const struct perf_opts *o)
{
	return o->depth + 2; /* one more for the drain, and one so that the ring is never full */
}

static uint32_t
cq_entries(const struct perf_opts *o)
{
	return o->active * (sq_entries(o) + end_rq_depth(o));
}

size_t
arena_need(const struct perf_opts *o)
{
	size_t sq = (size_t)2 * sq_entries(o) * ring_sq_stride(1, o->inline_bytes);
	size_t rq = (size_t)2 * end_rq_depth(o) * ring_rq_stride(1);
	size_t cq = (size_t)2 * cq_entries(o) * sizeof(struct ring_cqe);
	size_t mem = (size_t)o->qps * messages_per_qp(o) * message_stride(o);
	size_t end = o->qps * (sq + rq + sizeof(struct ring_qp_shared) + sizeof(struct perf_qp) + 3 * RING_ALIGN) + cq + mem;

	end += sizeof(struct ring_db) + (size_t)o->iterations * sizeof(uint32_t) + (1 << 20);
	return 2 * o->engines * end;
}

/** The eight bytes at offset @p off, a multiple of 8: different at every offset, and never like fresh memory. */
static inline uint64_t
pattern(uint64_t off)
{
	return (off + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void
fill(struct perf_end *e)
{
	uint64_t v;

	for (uint64_t off = 0; off < e->mem_bytes; off += sizeof(v)) {
		v = pattern(off);
		memcpy(e->mem + off, &v, sizeof(v));
	}
}

static bool
is_pattern(const struct perf_end *e, uint64_t begin, uint32_t len)
{
	for (uint64_t off = begin; off < begin + len; off += sizeof(uint64_t)) {
		uint64_t v = pattern(off), left = begin + len - off;

		if (memcmp(e->mem + off, &v, left < sizeof(v) ? left : sizeof(v)) != 0)
			return false;
	}
	return true;
}

void
end_init(struct perf_end *e, const struct perf_opts *o, bool initiator, uint64_t tsc_hz)
{
	e->o = o;
	e->initiator = initiator;
	e->tsc_hz = tsc_hz;
	e->kick_fd = -1;
	e->stride = message_stride(o);
	e->slots = messages_per_qp(o);
	e->nb_qps = o->qps;
	e->active_step = o->qps / o->active;
	e->qps = arena_alloc(sizeof(e->qps[0]) * e->nb_qps, 64);
	e->mem_bytes = (uint64_t)e->nb_qps * e->slots * e->stride;
	e->mem = arena_alloc(e->mem_bytes, 4096);
	e->result = arena_alloc(sizeof(*e->result), 64);
	if (o->test == PERF_LATENCY)
		e->result->samples = arena_alloc(sizeof(uint32_t) * o->iterations, 64);
	ring_make(&e->cq, cq_entries(o), sizeof(struct ring_cqe));
	e->cq_shared = arena_alloc(sizeof(*e->cq_shared), 64);
	for (uint32_t i = 0; i < e->nb_qps; i++) {
		struct perf_qp *q = &e->qps[i];

		ring_make(&q->sq, sq_entries(o), ring_sq_stride(1, o->inline_bytes));
		ring_make(&q->rq, end_rq_depth(o), ring_rq_stride(1));
		q->shared = arena_alloc(sizeof(*q->shared), 64);
		q->mem = e->mem + (uint64_t)i * e->slots * e->stride;
		q->db_slot = i;
	}
	if (o->op <= PERF_READ && op_is_inbound(o->op) != initiator)
		fill(e);
}

/** After fetch-and-adds of 1 the sum of all counters is the number of operations. */
static bool
verify_sum(const struct perf_end *e, uint64_t ops)
{
	uint64_t sum = 0, v;

	for (uint64_t off = 0; off < e->mem_bytes; off += e->stride) {
		memcpy(&v, e->mem + off, sizeof(v));
		sum += v;
	}
	return sum == ops;
}

bool
end_verify(const struct perf_end *e, uint64_t ops)
{
	/* The ping-pong test changes its data all the time and checks it itself. */
	if (e->o->test == PERF_LATENCY || e->o->op == PERF_CMP_SWAP)
		return true;
	if (e->o->op == PERF_FETCH_ADD)
		return verify_sum(e, ops);
	for (uint32_t i = 0; i < e->o->active; i++)
		for (uint32_t slot = 0; slot < e->slots; slot++) {
			uint64_t off = ((uint64_t)end_active_qp(e, i) * e->slots + slot) * e->stride;

			/* With several QPs it isn't known how far each came after the first round. */
			if (e->o->active == 1 ? slot >= ops : ops < (uint64_t)2 * e->o->active * e->slots)
				break;
			if (!is_pattern(e, off, e->o->size))
				return false;
		}
	return true;
}

void
end_fail(struct perf_end *e, const struct ring_cqe *cqe)
{
	union ring_cqe_ctl ctl = { .word = atomic_load(&cqe->ctl) };

	snprintf(e->error, sizeof(e->error), "completion of QP 0x%x with status %u, vendor error %u",
		 cqe->qpn, cqe->status, ctl.vendor_err);
	atomic_store(&e->done, true);
}

void
end_doorbell_shm(struct perf_end *e, struct perf_qp *q)
{
	const uint64_t one = 1;

	if (ring_db_ring(e->db, q->db_slot) && write(e->kick_fd, &one, sizeof(one)) < 0)
		snprintf(e->error, sizeof(e->error), "the engine can't be woken");
}
