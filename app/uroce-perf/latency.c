/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency: one message at a time on the first QP. WRITE and SEND go back and forth, and the receiver of a WRITE polls
 * for the last byte, as programs do; for READ and atomics the time from post to completion is measured.
 */
#include <rte_cycles.h>

#include "end.h"

enum {
	WARMUP_PINGS = 1000,
	SIGNAL_EVERY = 16,
	IN_SLOT = 0, /**< slot in the QP's memory where messages arrive */
	OUT_SLOT = 1,
};

static bool
is_ping_pong(const struct perf_end *e)
{
	return e->o->op == PERF_WRITE || e->o->op == PERF_SEND;
}

static volatile uint8_t *
last_byte(struct perf_end *e, unsigned int slot)
{
	return e->qps[0].mem + (uint64_t)slot * e->stride + e->o->size - 1;
}

/** The last byte of message @p seq; never 0, so that untouched memory isn't mistaken for a message. */
static uint8_t
mark(uint32_t seq)
{
	return (uint8_t)(seq % 255 + 1);
}

static void
post_message(struct perf_end *e)
{
	struct perf_qp *q = &e->qps[0];
	uint8_t *out = q->mem + (uint64_t)OUT_SLOT * e->stride;
	uint8_t flags = (q->sq.counter + 1) % SIGNAL_EVERY == 0 ? UROCE_SEND_SIGNALED : 0;

	if (e->o->size <= e->o->inline_bytes)
		flags |= UROCE_SEND_INLINE;
	*last_byte(e, OUT_SLOT) = mark(e->seq);
	end_post_send(e, q, op_to_wr[e->o->op], flags, out, q->remote + (uint64_t)IN_SLOT * e->stride, e->o->size);
	end_ring_sq(e, q);
}

static void
post_request(struct perf_end *e)
{
	struct perf_qp *q = &e->qps[0];

	end_post_send(e, q, op_to_wr[e->o->op], UROCE_SEND_SIGNALED, q->mem, q->remote, e->o->size);
	end_ring_sq(e, q);
}

static void
post_receive(struct perf_end *e)
{
	end_post_recv(e, &e->qps[0], e->qps[0].mem + (uint64_t)IN_SLOT * e->stride, e->o->size);
}

/**
 * Poll completions.
 * @return true if a message or the response to a request has arrived.
 */
static bool
poll_cq(struct perf_end *e)
{
	union ring_cqe_ctl ctl;
	const struct ring_cqe *cqe;
	bool arrived = false;
	uint32_t n = 0;

	while ((cqe = end_poll(e, &ctl)) != NULL) {
		n++;
		if (ctl.is_recv) {
			arrived = true;
			post_receive(e);
		} else {
			e->completed += end_sq_complete(&e->qps[0], ctl);
			arrived |= !is_ping_pong(e);
		}
	}
	if (n > 0)
		end_cq_release(e);
	return arrived;
}

static bool
message_arrived(struct perf_end *e)
{
	bool by_cq = poll_cq(e);

	if (e->o->op != PERF_WRITE)
		return by_cq;
	return *last_byte(e, IN_SLOT) == mark(e->seq);
}

static void
record(struct perf_end *e, uint64_t cycles)
{
	struct perf_result *r = e->result;

	if (e->seq >= WARMUP_PINGS)
		r->samples[r->nb_samples++] = cycles > UINT32_MAX ? UINT32_MAX : (uint32_t)cycles;
	e->seq++;
	if (r->nb_samples == e->o->iterations) {
		r->all_ops = e->seq;
		atomic_store(&e->done, true);
	}
}

static uint32_t
initiator_step(struct perf_end *e, uint64_t tsc)
{
	if (e->waiting) {
		if (!message_arrived(e))
			return 0;
		e->waiting = false;
		record(e, rte_rdtsc() - e->ping_tsc);
		if (atomic_load_explicit(&e->done, memory_order_relaxed))
			return 1;
	}
	e->ping_tsc = rte_rdtsc();
	if (is_ping_pong(e))
		post_message(e);
	else
		post_request(e);
	e->waiting = true;
	return 1;
}

static uint32_t
target_step(struct perf_end *e, uint64_t tsc)
{
	if (!is_ping_pong(e) || !message_arrived(e))
		return 0;
	post_message(e);
	e->seq++;
	return 1;
}

static void
start(struct perf_end *e)
{
	if (e->o->op == PERF_SEND)
		for (uint32_t i = 0; i < end_rq_depth(e->o); i++)
			post_receive(e);
}

const struct perf_workload latency_initiator = { .start = start, .step = initiator_step };
const struct perf_workload latency_target = { .start = start, .step = target_step };
