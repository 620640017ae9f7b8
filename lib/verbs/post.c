/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting, the hot path. A WR is written into a slot of the ring; the doorbell is rung only if the engine doesn't watch
 * the queue, and a system call is made only if the engine sleeps. Nothing here allocates.
 *
 * Cost, in instructions of a -O3 build on x86-64: posting one WRITE with one SGE 145, of which two are locked (the
 * queue's lock, the fence before the check of the doorbell); polling one completion 145, one of them locked (cq.c). To
 * measure again: valgrind --tool=callgrind --toggle-collect=client_post_send verbs_test_post.
 */
#include "verbs/client_priv.h"

#include <sched.h>
#include <unistd.h>

#define T(type) (1u << UROCE_QPT_##type)

#define TYPES(name, number, types, ...) [number] = types,
const uint32_t client_wr_types[UROCE_WR_OPS] = { WR_OP_TABLE(TYPES) };
#undef TYPES

/* The opcodes that put_operands() handles: those with a block of operands, and LOCAL_INV, which has only a key. */
#define OPERAND_OPS (WR_OPS_WITH_BLOCK | 1u << UROCE_WR_LOCAL_INV)
#define SEND_FLAGS (UROCE_SEND_FENCE | UROCE_SEND_SIGNALED | UROCE_SEND_SOLICITED | UROCE_SEND_INLINE)

/* Wake the engine, which sleeps: the only system call of the data path. */
static __attribute__((noinline)) void
kick(const struct client_qp *qp)
{
	const struct client_ctx *ctx = qp->ctx;
	int fd = ctx->kick_fds[0], cpu;
	uint64_t one = 1;

	/* To wake the engine's thread on this CPU takes a tenth of the time that one on another busy CPU takes. */
	if (ctx->nb_kicks > 1) {
		cpu = sched_getcpu();
		for (uint32_t i = 1; i < ctx->nb_kicks; i++)
			if (ctx->kick_cpus[i] == cpu)
				fd = ctx->kick_fds[i];
	}
	/* Writing 1 to an eventfd fails only if it is full of wake-ups already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static inline void
ring_bell(const struct client_qp *qp)
{
	if (ring_db_ring(qp->db, qp->db_slot))
		kick(qp);
}

void
client_sq_ring(struct client_qp *qp)
{
	/* The client's side of the first rule in ring.h: write WQE, fence, load watch. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&qp->shared->sq_watch, memory_order_relaxed))
		ring_bell(qp);
}

uint32_t
client_sq_room(struct client_qp *qp, uint32_t head)
{
	/* Read the cache line that the poller writes only if the SQ looks full by the value read last. */
	if (head - qp->sq_tail_seen >= qp->sq_max)
		qp->sq_tail_seen = atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
	return qp->sq_max - (head - qp->sq_tail_seen);
}

static inline int
put_inline(const struct client_qp *qp, struct ring_sq_wqe *w, const struct ibv_send_wr *wr, uint32_t *bytes)
{
	uint8_t *to = wqe_inline(w);
	uint32_t sum = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];

		if (unlikely(s->length > qp->cap.max_inline_data - sum))
			return EINVAL;
		memcpy(to + sum, (const void *)(uintptr_t)s->addr, s->length);
		sum += s->length;
	}
	*bytes = sum;
	return 0;
}

static inline void
put_sges(struct ring_sge *to, const struct ibv_sge *from, int n)
{
	_Static_assert(sizeof(*to) == sizeof(*from) &&
			       offsetof(struct ring_sge, lkey) == offsetof(struct ibv_sge, lkey),
		       "a struct ibv_sge goes into a slot as it is");
	if (likely(n == 1))
		*to = (struct ring_sge){ from->addr, from->length, from->lkey };
	else if (n)
		memcpy(to, from, n * sizeof(*to));
}

/*
 * Fill in the operands of OPERAND_OPS.
 * @return the number of SGEs (atomics only); -1: bad WR. FLUSH has no struct ibv_send_wr.
 */
static __attribute__((noinline)) int
put_operands(struct ring_sq_wqe *w, const struct ibv_send_wr *wr)
{
	switch ((uint32_t)wr->opcode) {
	case UROCE_WR_LOCAL_INV:
		return 0;
	case UROCE_WR_BIND_MW:
		return client_put_bind(w, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info) ? -1 : 0;
	case UROCE_WR_FLUSH:
		return -1;
	default:
		wqe_put_remote(w, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		wqe_put_atomic(w, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		return wr->num_sge;
	}
}

/* Write a WR into its slot; the control word is written last. */
static inline int
put_send(struct client_qp *qp, uint32_t counter, const struct ibv_send_wr *wr)
{
	struct ring_sq_wqe *w = ring_slot(&qp->sq, counter);
	uint32_t op = wr->opcode, flags = wr->send_flags & SEND_FLAGS, count = wr->num_sge;
	struct ring_sge *sge = wqe_sges(w, UROCE_WR_SEND); /* the same place for all opcodes without a block of operands */
	union ring_sq_ctl ctl;

	if (unlikely(op >= UROCE_WR_OPS || !(client_wr_types[op] & qp->type_bit)))
		return EINVAL;
	if (unlikely(count > qp->cap.max_send_sge))
		return EINVAL;
	w->wr_id = wr->wr_id;
	wqe_put_imm(w, wr->imm_data);
	if (qp->type_bit == T(UD)) {
		if (unlikely(!wr->wr.ud.ah))
			return EINVAL;
		wqe_put_ud(w, wr->wr.ud.ah->handle, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	} else if (unlikely(1u << op & OPERAND_OPS)) {
		int n = put_operands(w, wr);

		if (n < 0)
			return EINVAL;
		count = n;
		sge = wqe_sges(w, op);
	} else {
		wqe_put_remote(w, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
	}
	if (flags & UROCE_SEND_INLINE) {
		if (unlikely(!(1u << op & WR_OPS_WITH_INLINE) || put_inline(qp, w, wr, &count)))
			return EINVAL;
	} else {
		put_sges(sge, wr->sg_list, count);
	}
	ctl = ring_sq_ctl_make(op, flags, count, 0);
	if (unlikely(client_bounces(qp->bounce)))
		client_bounce_send(qp, w, &ctl);
	if (unlikely(qp->type_bit == T(XRC_SEND)))
		ctl.srqn = wr->qp_type.xrc.remote_srqn;
	ring_sq_post(&qp->sq, counter, w, ctl);
	return 0;
}

int
client_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct client_qp *qp = to_qp(ibqp);
	uint32_t first, head;
	int err = 0;

	/* In RESET, INIT and RTR posting is an error; in SQE and ERR the WR is accepted and flushed. */
	if (unlikely(atomic_load_explicit(&qp->shared->state, memory_order_relaxed) < UROCE_QPS_RTS)) {
		*bad = wr;
		return EINVAL;
	}
	client_lock(&qp->sq_lock);
	first = head = qp->sq.counter;
	for (; wr; wr = wr->next) {
		err = likely(client_sq_room(qp, head)) ? put_send(qp, head, wr) : ENOMEM;
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		head++;
	}
	if (likely(head != first)) {
		qp->sq.counter = head;
		client_sq_ring(qp);
	}
	client_unlock(&qp->sq_lock);
	return err;
}

/* @param qp  The RQ's; NULL: it is an SRQ. */
static inline void
put_recv(struct client_qp *qp, const struct ring *r, uint32_t counter, const struct ibv_recv_wr *wr)
{
	struct ring_rq_wqe *w = ring_slot(r, counter);
	uint16_t n = (uint16_t)wr->num_sge;

	w->wr_id = wr->wr_id;
	put_sges(w->sge, wr->sg_list, n);
	if (qp && unlikely(client_bounces(qp->bounce)))
		n = client_bounce_recv(qp, counter, w, n);
	ring_rq_post(r, counter, w, n);
}

static inline bool
rq_has_room(struct client_qp *qp, uint32_t head)
{
	if (head - qp->rq_tail_seen >= qp->rq_max)
		qp->rq_tail_seen = atomic_load_explicit(&qp->rq_tail, memory_order_acquire);
	return head - qp->rq_tail_seen < qp->rq_max;
}

int
client_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct client_qp *qp = to_qp(ibqp);
	uint32_t head;
	int err = 0;

	if (unlikely(ibqp->srq || atomic_load_explicit(&qp->shared->state, memory_order_relaxed) == UROCE_QPS_RESET)) {
		*bad = wr;
		return EINVAL;
	}
	client_lock(&qp->rq_lock);
	for (head = qp->rq.counter; wr; wr = wr->next) {
		if (unlikely(!rq_has_room(qp, head)))
			err = ENOMEM;
		else if (unlikely((uint32_t)wr->num_sge > qp->cap.max_recv_sge))
			err = EINVAL;
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		put_recv(qp, &qp->rq, head++, wr);
	}
	qp->rq.counter = head;
	/*
	 * The engine looks at the RQ when a message arrives. Only a QP that is being flushed needs a doorbell for new
	 * receives.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (unlikely(!atomic_load_explicit(&qp->shared->rq_watch, memory_order_relaxed)))
		ring_bell(qp);
	client_unlock(&qp->rq_lock);
	return err;
}

int
client_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct client_srq *srq = to_srq(ibsrq);
	int err = 0;

	client_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		uint32_t taken = atomic_load_explicit(&srq->shared->head, memory_order_acquire);

		if (unlikely(srq->ring.counter - taken >= srq->max_wr))
			err = ENOMEM;
		else if (unlikely((uint32_t)wr->num_sge > srq->max_sge))
			err = EINVAL;
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		put_recv(NULL, &srq->ring, srq->ring.counter++, wr);
	}
	client_unlock(&srq->lock);
	return err;
}
