/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One end of the connections: the program's side of the rings, and the state of its workload.
 *
 * Owner: the thread that runs the workload; no other thread uses an end while the test runs. It is in the arena.
 */
#ifndef UROCE_PERF_END_H
#define UROCE_PERF_END_H

#include <stdatomic.h>

#include "perf.h"
#include "ring/ring.h"

struct perf_end;
struct qp;
struct mr;
struct cq;

struct perf_qp {
	struct ring sq, rq;
	struct ring_qp_shared *shared;
	uint32_t sq_done;     /**< WQEs known to be complete */
	uint32_t sq_slot, rq_slot; /**< slots to send from and to receive into next */
	uint8_t *mem;         /**< this QP's part of the end's memory */
	uint64_t remote;      /**< address of the peer's part */
	uint32_t rkey;
	uint32_t db_slot;
	uint32_t qpn;
	struct qp *qp;        /**< the engine's; never dereferenced here */
};

/** A workload. step() is called repeatedly until the test is over; it never waits. */
struct perf_workload {
	/** Called before the first step: post receives. */
	void (*start)(struct perf_end *e);
	/** @return number of operations done, 0: none. */
	uint32_t (*step)(struct perf_end *e, uint64_t tsc);
};
extern const struct perf_workload rate_initiator, rate_target, latency_initiator, latency_target;

enum perf_phase { PHASE_START, PHASE_WARM, PHASE_RUN, PHASE_DRAIN, PHASE_DONE };

struct perf_end {
	const struct perf_opts *o;
	const struct perf_workload *work;
	bool initiator;
	/** Ring the doorbell: a call if the engine runs on this thread, else doorbell and eventfd. */
	void (*doorbell)(struct perf_end *e, struct perf_qp *q);
	void *doorbell_arg;
	struct ring_db *db;
	int kick_fd;
	struct ring cq;
	struct ring_cq_shared *cq_shared;
	uint32_t nb_qps;
	uint32_t active_step; /**< one of so many QPs sends, o->active in all: end_active_qp() */
	struct perf_qp *qps;
	uint8_t *mem;
	uint64_t mem_bytes;
	uint32_t key;         /**< lkey and rkey of mem */
	uint32_t stride;      /**< bytes from message to message */
	uint32_t slots;       /**< messages in a QP's part of the memory */
	struct perf_result *result;
	/* State of the workload. */
	enum perf_phase phase;
	uint64_t completed, completed_end, phase_end, interval_begin, interval_ops, ping_tsc;
	uint64_t tsc_hz;
	uint32_t seq;
	bool waiting;
	_Atomic bool done;    /**< initiator: the workload is over */
	char error[128];      /**< "": none */
	/* The engine's side, for set-up only. */
	struct cq *engine_cq;
	struct mr *mr;
};

/**
 * Allocate the rings and memory of an end in the arena. Fill the memory with the pattern if the data is sent from here.
 */
void end_init(struct perf_end *e, const struct perf_opts *o, bool initiator, uint64_t tsc_hz);
uint32_t end_rq_depth(const struct perf_opts *o);
/** @return true if the first messages of @p ops wrote the right bytes to this end's memory. */
bool end_verify(const struct perf_end *e, uint64_t ops);
/** @return true if @p op moves data to the initiator. */
bool op_is_inbound(enum perf_op op);
extern const uint8_t op_to_wr[PERF_OPS]; /**< enum uroce_wr_op */

/**
 * @return the number of the n-th QP that sends. Not each active_step-th: that is a power of two at times, so that what they use would be in the same few sets of each cache, which
 * doesn't happen to QPs that are active by chance.
 */
static inline uint32_t
end_active_qp(const struct perf_end *e, uint32_t n)
{
	return n * e->active_step + n * UINT32_C(2654435761) % e->active_step;
}

/** @return the n-th of the QPs that send. */
static inline struct perf_qp *
end_active(const struct perf_end *e, uint32_t n)
{
	return &e->qps[end_active_qp(e, n)];
}

/** Ring the doorbell of an engine in another process. */
void end_doorbell_shm(struct perf_end *e, struct perf_qp *q);

/** Handle a completion that isn't a success: the test is over. */
void end_fail(struct perf_end *e, const struct ring_cqe *cqe);

/** Write an SQ WQE; the caller makes sure that the SQ has room. Call end_ring_sq() after the last one of a batch. */
static inline void
end_post_send(struct perf_end *e, struct perf_qp *q, uint8_t opcode, uint8_t flags, const uint8_t *local,
	      uint64_t remote, uint32_t len)
{
	struct ring_sq_wqe *w = ring_slot(&q->sq, q->sq.counter);
	uint16_t count = 1;

	w->wr_id = (uint64_t)(q - e->qps);
	wqe_put_remote(w, remote, q->rkey);
	if (wqe_has_block(opcode))
		wqe_put_atomic(w, 1, 2);
	if (flags & UROCE_SEND_INLINE) {
		memcpy(wqe_inline(w), local, len);
		count = (uint16_t)len;
	} else {
		*wqe_sges(w, opcode) = (struct ring_sge){ (uintptr_t)local, len, e->key };
	}
	ring_sq_post(&q->sq, q->sq.counter++, w, ring_sq_ctl_make(opcode, flags, count, 0));
}

static inline void
end_post_recv(struct perf_end *e, struct perf_qp *q, uint8_t *local, uint32_t len)
{
	struct ring_rq_wqe *w = ring_slot(&q->rq, q->rq.counter);

	w->wr_id = (uint64_t)(q - e->qps);
	w->sge[0] = (struct ring_sge){ (uintptr_t)local, len, e->key };
	ring_rq_post(&q->rq, q->rq.counter++, w, 1);
}

/** After posting, ring the doorbell unless the engine watches the SQ (ring.h). */
static inline void
end_ring_sq(struct perf_end *e, struct perf_qp *q)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&q->shared->sq_watch, memory_order_relaxed) == 0)
		e->doorbell(e, q);
}

/**
 * Poll the next completion.
 * @return NULL if there is none or the test has failed. Valid until end_cq_release().
 */
static inline const struct ring_cqe *
end_poll(struct perf_end *e, union ring_cqe_ctl *ctl)
{
	const struct ring_cqe *cqe;

	if (!ring_cq_ready(&e->cq, e->cq.counter, ctl))
		return NULL;
	cqe = ring_slot(&e->cq, e->cq.counter);
	e->cq.counter++;
	if (__builtin_expect(cqe->status != UROCE_WC_SUCCESS, 0)) {
		end_fail(e, cqe);
		return NULL;
	}
	return cqe;
}

/** Tell the engine which CQEs were polled: once per batch. */
static inline void
end_cq_release(struct perf_end *e)
{
	atomic_store_explicit(&e->cq_shared->cons, e->cq.counter, memory_order_release);
}

/**
 * A completion of an SQ completes all WQEs up to its own.
 * @return how many WQEs it completes.
 */
static inline uint32_t
end_sq_complete(struct perf_qp *q, union ring_cqe_ctl ctl)
{
	uint16_t n = (uint16_t)(ctl.wqe_counter + 1 - q->sq_done);

	q->sq_done += n;
	return n;
}

#endif /* UROCE_PERF_END_H */
