/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs program's end of the rings: exactly what ring.h says a client does. */
#include <string.h>
#include <unistd.h>

#include "sim.h"

bool
client_dead(const struct sim_qp *q)
{
	return q->client_err || q->sq_error || q->rq_error || q->sq_flush || q->rq_flush;
}

bool
client_sends_done(const struct sim_qp *q)
{
	return q->abandoned || (q->nb_posted == q->nb_ops && q->nb_retired == q->nb_posted);
}

/* The region that a piece lies in. */
static const struct sim_mr *
piece_mr(const struct sim_qp *q, const uint8_t *p)
{
	const struct sim_mr *mrs[] = { &q->ep->pattern_mr, &q->recv_mr, &q->dest_mr };
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (p >= mrs[i]->base && p < mrs[i]->base + mrs[i]->len)
			return mrs[i];
	return mrs[0];
}

static struct ring_sge
sge_of(const struct sim_qp *q, const struct sim_piece *piece)
{
	const struct sim_mr *m = piece_mr(q, piece->p);

	return (struct ring_sge){
		.addr = m->iova + (uint64_t)(piece->p - m->base), .length = piece->len, .lkey = m->key,
	};
}

static void
put_sges(const struct sim_qp *q, struct ring_sge *sge, const struct sim_piece *pieces, unsigned int n,
	 enum sim_plant plant)
{
	const struct sim_mr *m;
	unsigned int i;

	for (i = 0; i < n; i++)
		sge[i] = sge_of(q, &pieces[i]);
	if (plant == SIM_PLANT_LKEY || plant == SIM_PLANT_RECV_LKEY) {
		sge[n - 1].lkey ^= 1;
	} else if (plant == SIM_PLANT_LKEY_STALE) {
		sge[n - 1].lkey = q->stale_mr.key;
		sge[n - 1].addr = q->stale_mr.iova;
	} else if (plant == SIM_PLANT_LKEY_RANGE) {
		m = piece_mr(q, pieces[n - 1].p);
		sge[n - 1].addr = m->iova + m->len - sge[n - 1].length + 1;
	} else if (plant == SIM_PLANT_LKEY_NOWRITE) {
		m = &q->ep->pattern_mr;
		sge[n - 1].addr = m->iova;
		sge[n - 1].lkey = m->key;
	}
}

/* Where a one-sided operation goes. */
static void
put_remote(const struct sim_qp *q, const struct sim_op *op, struct ring_sq_wqe *e)
{
	bool atomic = ring_op_has_operands(op->opcode);
	const struct sim_mr *m = atomic ? &q->peer->ep->atomic_mr : &q->peer->target_mr;
	uint32_t off = atomic ? op->target_off * 8 : op->target_off;

	switch (op->plant) {
	case SIM_PLANT_RKEY_ACCESS:
		m = &q->peer->noaccess_mr;
		off = 0;
		break;
	case SIM_PLANT_RKEY_STALE:
		m = &q->peer->stale_mr;
		off = 0;
		break;
	case SIM_PLANT_RKEY_PD:
		m = &q->peer->other_pd_mr;
		off = 0;
		break;
	case SIM_PLANT_RKEY_RANGE:
		off = atomic ? m->len : m->len - op->len + 1;
		break;
	case SIM_PLANT_MISALIGNED:
		off += 4;
		break;
	default:
		break;
	}
	e->remote_addr = m->iova + off;
	e->rkey = m->key ^ (op->plant == SIM_PLANT_RKEY);
}

static void
post_send(struct sim_world *w, struct sim_qp *q)
{
	struct sim_op *op = &q->ops[q->nb_posted];
	struct ring_sq_wqe *e = ring_slot(&q->sq, q->sq.counter);
	uint8_t *data = (uint8_t *)(e + 1);
	union ring_sq_ctl ctl = { .word = 0 };
	struct ring_atomic operands;
	unsigned int i;

	program_op(w, q, op);
	op->posted_ns = w->now_ns;
	e->wr_id = op->wr_id;
	e->imm = op->imm;
	if (op->opcode != UROCE_WR_SEND && op->opcode != UROCE_WR_SEND_WITH_IMM)
		put_remote(q, op, e);
	if (ring_op_has_operands(op->opcode)) {
		operands = (struct ring_atomic){ .compare_add = op->compare_add, .swap = op->swap };
		memcpy(data, &operands, sizeof(operands));
		data += sizeof(operands);
	}
	ctl.opcode = op->plant == SIM_PLANT_OPCODE ? 13 : op->opcode;
	ctl.flags = op->flags;
	if (op->flags & UROCE_SEND_INLINE) {
		ctl.count = (uint16_t)op->len;
		for (i = 0; i < op->nsge; i++) {
			memcpy(data, op->pieces[i].p, op->pieces[i].len);
			data += op->pieces[i].len;
		}
	} else {
		ctl.count = op->nsge;
		put_sges(q, (struct ring_sge *)data, op->pieces, op->nsge, op->plant);
		if (op->plant == SIM_PLANT_SGES)
			ctl.count = (uint16_t)(q->params.cap.max_send_sge + 1);
	}
	if (op->plant == SIM_PLANT_INLINE) {
		ctl.flags |= UROCE_SEND_INLINE;
		ctl.count = (uint16_t)(q->params.cap.max_inline_data + 1 + op->imm % 1000);
	}
	ctl.phase = ring_phase(q->sq.counter, q->sq.order);
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
	q->sq.counter++;
	q->nb_posted++;
	w->stats.ops++;
	sim_trace(w, "QP %u posts %u: opcode %u flags 0x%x len %u target %u%s%s", q->id, q->nb_posted - 1, op->opcode,
		  op->flags, op->len, op->target_off, op->plant ? " plant " : "", op->plant ? plant_name(op->plant) : "");
}

static void
post_recv(struct sim_world *w, struct sim_qp *q)
{
	struct sim_recv *r = &q->recvs[q->nb_rposted];
	struct ring_rq_wqe *e = ring_slot(&q->rq, q->rq.counter);
	union ring_rq_ctl ctl = { .word = 0 };

	program_recv(w, q, r);
	e->wr_id = r->wr_id;
	put_sges(q, e->sge, r->pieces, r->nsge, r->plant);
	ctl.num_sge = r->nsge;
	ctl.phase = ring_phase(q->rq.counter, q->rq.order);
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
	q->rq.counter++;
	q->nb_rposted++;
	w->stats.recvs++;
	sim_trace(w, "QP %u posts receive %u: len %u%s%s", q->id, q->nb_rposted - 1, r->len, r->plant ? " plant " : "",
		  r->plant ? plant_name(r->plant) : "");
}

/* Post some of what there is room for; ring where the engine isn't looking. */
static void
qp_post(struct sim_world *w, struct sim_qp *q)
{
	uint32_t sends = 0, recvs = 0, room;
	bool ring = false;

	if (q->qp == NULL || q->abandoned || qp_state(q->qp) == UROCE_QPS_RESET)
		return;
	room = q->rq_depth - (q->nb_rposted - q->nb_rdone);
	if (room > q->max_recvs - q->nb_rposted)
		room = q->max_recvs - q->nb_rposted;
	if (room != 0 && !q->finalized && w->now_ns >= q->next_recv_ns) {
		if (w->cfg.faults & SIM_F_SLOW_RECV) {
			q->next_recv_ns = w->now_ns + rng_below(&q->rng, 300000);
			room = 1 + (uint32_t)rng_below(&q->rng, room);
		}
		for (; recvs < room; recvs++)
			post_recv(w, q);
	}
	if (q->ready) {
		if (client_dead(q) && q->nb_ops > q->nb_posted + 2)
			q->nb_ops = q->nb_posted + 1 + (uint32_t)rng_below(&q->rng, 2); /* the last one tells of all before */
		room = q->sq_depth - (q->nb_posted - q->nb_retired);
		if (room > q->nb_ops - q->nb_posted)
			room = q->nb_ops - q->nb_posted;
		if (room != 0)
			room = (uint32_t)rng_between(&q->rng, 0, room);
		for (; sends < room; sends++)
			post_send(w, q);
	}
	if (sends + recvs == 0)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (sends != 0 && atomic_load_explicit(&q->shared->sq_watch, memory_order_relaxed) == 0)
		ring = true;
	if (recvs != 0 && atomic_load_explicit(&q->shared->rq_watch, memory_order_relaxed) == 0)
		ring = true;
	if (ring)
		qp_doorbell(q->tp, q->qp);
	world_run_at(w, q->ep->id, w->now_ns);
}

static bool
take_cqe(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_cq *c = &ep->cq;
	union ring_cqe_ctl ctl;

	if (!ring_cq_ready(&c->ring, c->ring.counter, &ctl))
		return false;
	model_cqe(w, ep, ring_slot(&c->ring, c->ring.counter), ctl);
	c->ring.counter++;
	atomic_store_explicit(&c->shared->cons, c->ring.counter, memory_order_release);
	w->stats.completions++;
	return true;
}

/* With events: sleep until the channel says so, as a program does in ibv_get_cq_event(). */
static void
poll_cq(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_cq *c = &ep->cq;
	uint8_t buf[256];

	if (c->armed) {
		if (read(c->pipe_rd, buf, sizeof(buf)) <= 0)
			return;
		c->armed = false;
	}
	while (!w->failed && take_cqe(w, ep))
		if (c->pipe_rd < 0 && rng_one_in(&ep->rng, 16))
			return;
	if (c->pipe_rd < 0)
		return;
	atomic_store_explicit(&c->shared->arm, RING_ARM_ANY, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	c->armed = true;
	while (!w->failed && take_cqe(w, ep))
		;
}

bool
client_turn(struct sim_world *w, struct sim_ep *ep)
{
	uint64_t before = w->stats.completions + w->stats.ops + w->stats.recvs;
	uint32_t i;

	poll_cq(w, ep);
	for (i = 0; i < 2 * w->cfg.nb_conns && !w->failed; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep == ep && !w->conns[i / 2].done)
			qp_post(w, q);
	}
	return w->stats.completions + w->stats.ops + w->stats.recvs != before;
}
