/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate workload: keeps the SQs full. */
#include "end.h"

enum { POLL_BATCH = 64 };

static inline void
post_one(struct perf_end *e, struct perf_qp *q, uint8_t flags)
{
	uint64_t off = (uint64_t)q->sq_slot * e->stride;

	end_post_send(e, q, op_to_wr[e->o->op], flags, q->mem + off, q->remote + off, e->o->size);
	if (++q->sq_slot == e->slots)
		q->sq_slot = 0;
}

static inline uint8_t
base_flags(const struct perf_end *e)
{
	bool outbound = e->o->op == PERF_WRITE || e->o->op == PERF_SEND;

	return outbound && e->o->size <= e->o->inline_bytes ? UROCE_SEND_INLINE : 0;
}

static void
refill(struct perf_end *e, struct perf_qp *q)
{
	const uint32_t signal = e->o->signal;
	uint32_t room = e->o->depth - (q->sq.counter - q->sq_done);
	uint8_t flags = base_flags(e);

	if (room == 0)
		return;
	while (room-- > 0)
		post_one(e, q, (q->sq.counter + 1) % signal == 0 ? flags | UROCE_SEND_SIGNALED : flags);
	end_ring_sq(e, q);
}

/** Post a last, signaled operation on each QP: its completion shows that all are done. */
static void
begin_drain(struct perf_end *e)
{
	for (uint32_t i = 0; i < e->o->active; i++) {
		post_one(e, end_active(e, i), base_flags(e) | UROCE_SEND_SIGNALED);
		end_ring_sq(e, end_active(e, i));
	}
	e->phase = PHASE_DRAIN;
}

static void
try_finish(struct perf_end *e)
{
	for (uint32_t i = 0; i < e->o->active; i++)
		if (end_active(e, i)->sq_done != end_active(e, i)->sq.counter)
			return;
	e->phase = PHASE_DONE;
	e->result->all_ops = e->completed;
	atomic_store(&e->done, true);
}

static uint64_t
after(const struct perf_end *e, uint64_t tsc, double seconds)
{
	return tsc + (uint64_t)(seconds * (double)e->tsc_hz);
}

static void
advance(struct perf_end *e, uint64_t tsc)
{
	switch (e->phase) {
	case PHASE_START:
		for (uint32_t i = 0; i < e->o->active; i++)
			refill(e, end_active(e, i));
		e->phase = PHASE_WARM;
		e->phase_end = e->o->operations != 0 ? tsc : after(e, tsc, e->o->warmup);
		e->completed_end = e->o->operations != 0 ? e->o->operations : UINT64_MAX;
		break;
	case PHASE_WARM:
		e->interval_begin = tsc;
		e->interval_ops = e->completed;
		e->phase = PHASE_RUN;
		e->phase_end = e->o->operations != 0 ? UINT64_MAX : after(e, tsc, e->o->seconds);
		break;
	case PHASE_RUN:
		e->result->ops = e->completed - e->interval_ops;
		e->result->interval_cycles = tsc - e->interval_begin;
		begin_drain(e);
		break;
	case PHASE_DRAIN:
		try_finish(e);
		break;
	case PHASE_DONE:
		break;
	}
}

static uint32_t
initiator_step(struct perf_end *e, uint64_t tsc)
{
	union ring_cqe_ctl ctl;
	const struct ring_cqe *cqe;
	uint32_t n;

	for (n = 0; n < POLL_BATCH && (cqe = end_poll(e, &ctl)) != NULL; n++) {
		struct perf_qp *q = &e->qps[cqe->wr_id];

		e->completed += end_sq_complete(q, ctl);
		if (e->phase <= PHASE_RUN)
			refill(e, q);
	}
	if (n > 0)
		end_cq_release(e);
	if (__builtin_expect(e->phase == PHASE_START || e->phase == PHASE_DRAIN || tsc >= e->phase_end ||
			     e->completed >= e->completed_end, 0))
		advance(e, tsc);
	return n;
}

static void
target_start(struct perf_end *e)
{
	if (e->o->op != PERF_SEND)
		return;
	for (uint32_t i = 0; i < e->nb_qps; i++)
		for (uint32_t n = 0; n < end_rq_depth(e->o); n++) {
			struct perf_qp *q = &e->qps[i];

			end_post_recv(e, q, q->mem + (uint64_t)q->rq_slot * e->stride, e->o->size);
			if (++q->rq_slot == e->slots)
				q->rq_slot = 0;
		}
}

static uint32_t
target_step(struct perf_end *e, uint64_t tsc)
{
	union ring_cqe_ctl ctl;
	const struct ring_cqe *cqe;
	uint32_t n;

	if (e->o->op != PERF_SEND)
		return 0;
	for (n = 0; n < POLL_BATCH && (cqe = end_poll(e, &ctl)) != NULL; n++) {
		struct perf_qp *q = &e->qps[cqe->wr_id];

		end_post_recv(e, q, q->mem + (uint64_t)q->rq_slot * e->stride, e->o->size);
		if (++q->rq_slot == e->slots)
			q->rq_slot = 0;
	}
	if (n > 0)
		end_cq_release(e);
	return n;
}

static void
initiator_start(struct perf_end *e)
{
	e->phase = PHASE_START;
}

const struct perf_workload rate_initiator = { .start = initiator_start, .step = initiator_step };
const struct perf_workload rate_target = { .start = target_start, .step = target_step };
