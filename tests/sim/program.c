/* SPDX-License-Identifier: BSD-3-Clause */
/* Random verbs programs. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

bool
op_consumes(const struct sim_op *op)
{
	return op->opcode == UROCE_WR_SEND || op->opcode == UROCE_WR_SEND_WITH_IMM ||
	       op->opcode == UROCE_WR_SEND_WITH_INV || op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM;
}

bool
op_one_sided(const struct sim_op *op)
{
	return op->opcode != UROCE_WR_SEND && op->opcode != UROCE_WR_SEND_WITH_IMM &&
	       op->opcode != UROCE_WR_SEND_WITH_INV && !op_local(op);
}

bool
op_atomic(const struct sim_op *op)
{
	return op->opcode == UROCE_WR_ATOMIC_CMP_AND_SWP || op->opcode == UROCE_WR_ATOMIC_FETCH_AND_ADD;
}

bool
op_local(const struct sim_op *op)
{
	return op->opcode == UROCE_WR_BIND_MW || op->opcode == UROCE_WR_LOCAL_INV;
}

bool
op_brings(const struct sim_op *op)
{
	return op->opcode == UROCE_WR_RDMA_READ || op_atomic(op);
}

void
program_init(struct sim_world *w, struct sim_qp *q)
{
	const struct sim_config *c = &w->cfg;
	struct rng *r = &q->rng;

	q->nb_posted = q->nb_retired = q->nb_consume = q->rx_op = q->nb_messages = q->next_srq_recv = 0;
	memset(q->rx_from, 0, sizeof(q->rx_from));
	memset(q->got_from, 0, sizeof(q->got_from));
	q->ready = q->finalized = q->planted_local = q->planted_remote = false;
	q->client_err = q->sq_error = q->rq_error = q->sq_flush = q->rq_flush = false;
	q->sqe_left = 0;
	q->sqd_waiting = q->drained = q->abandoned = false;
	memset(q->events, 0, sizeof(q->events));
	q->most_messages = 0;
	q->nak_seen = false;
	q->nb_offers = q->old_sacks = 0;
	q->rnr_until = 0;
	q->rnr_waits = false;
	q->rnr_count = 0;
	q->sq_base = q->sq.counter;
	q->nb_ops = rng_one_in(r, 8) ? 0 : (uint32_t)rng_between(r, 1, c->ops);
	if (q->conn->xrc && q == &q->conn->qp[1])
		q->nb_ops = 0;
	memset(q->xsrq, 0, sizeof(q->xsrq));
	q->ops = calloc(c->ops + 1, sizeof(*q->ops));
	if (!windows_make(w, q))
		abort();
	if (q->rq == &q->own_rq)
		recvq_init(w, q->rq,
			   (uint64_t)q->round << SIM_WR_ID_ROUND_SHIFT | (uint64_t)q->id << 32 | SIM_WR_ID_RECV,
			   c->ops + q->rq->depth);
	q->err_at = (c->faults & SIM_F_ERR) && rng_one_in(r, 3) ? (uint32_t)rng_below(r, c->ops + 1) : UINT32_MAX;
	q->sqd_at = (c->faults & SIM_F_SQD) && rng_one_in(r, 2) ? (uint32_t)rng_below(r, c->ops + 1) : UINT32_MAX;
	q->abrupt = rng_one_in(r, 3);
	q->local_dereg = NULL;
	q->local_dereg_at =
		(c->faults & SIM_F_DEREG) && rng_one_in(r, 3) ? (uint32_t)rng_below(r, c->ops + 1) : UINT32_MAX;
	/* What only a program of ours asks of its own end. */
	if (q->foreign != NULL)
		q->sqd_at = q->local_dereg_at = UINT32_MAX;
	q->dereg_at = (c->faults & SIM_F_DEREG) && rng_one_in(r, 3) ? (uint32_t)rng_below(r, c->ops + 1) : UINT32_MAX;
}

static uint32_t
receiver_mtu(const struct sim_world *w, const struct sim_op *op)
{
	return op->group != 0 ? mcast_mtu(w, op->group) : op->to->mtu;
}

/* Lengths at which something happens, and others; mostly short ones. */
static uint32_t
random_len(const struct sim_world *w, struct sim_qp *q, const struct sim_op *op)
{
	uint32_t max = w->cfg.max_len, len;

	if (q->params.type == UROCE_QPT_UD && max > q->mtu)
		max = q->mtu;
	if (q->params.type == UROCE_QPT_UD && max > receiver_mtu(w, op))
		max = receiver_mtu(w, op);

	switch (rng_below(&q->rng, 12)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = 1;
		break;
	case 2:
		len = q->mtu - 1;
		break;
	case 3:
		len = q->mtu;
		break;
	case 4:
		len = q->mtu + 1;
		break;
	case 5:
		len = q->mtu * (uint32_t)rng_between(&q->rng, 1, 8) + (uint32_t)rng_below(&q->rng, 3) - 1;
		break;
	case 6:
		len = (uint32_t)rng_below(&q->rng, max + 1);
		break;
	case 7:
		len = max;
		break;
	default:
		len = (uint32_t)rng_below(&q->rng, 300);
		break;
	}
	return len > max ? max : len;
}

/* Cut len bytes into n parts; parts of no bytes may be among them. */
static void
cut(struct rng *r, uint32_t len, unsigned int n, uint32_t *parts)
{
	unsigned int i;

	for (i = 0; i + 1 < n; i++) {
		parts[i] = (uint32_t)rng_below(r, len + 1);
		len -= parts[i];
	}
	if (n != 0)
		parts[n - 1] = len;
}

/* Pieces somewhere in the pattern. */
static unsigned int
pieces_of_pattern(struct rng *r, uint32_t len, unsigned int max_sge, struct sim_piece *pieces)
{
	unsigned int n = len == 0 && rng_one_in(r, 2) ? 0 : (unsigned int)rng_between(r, 1, max_sge), i;
	uint32_t parts[SIM_MAX_SGE];

	cut(r, len, n, parts);
	for (i = 0; i < n; i++)
		pieces[i] = (struct sim_piece){
			.p = sim_pattern + rng_below(r, SIM_PATTERN_BYTES - parts[i] + 1), .len = parts[i],
		};
	return n;
}

/* Pieces of a buffer that the transport will write to, in any order, zeros between and around them. */
static unsigned int
pieces_of_buffer(struct rng *r, uint8_t *buf, uint32_t len, unsigned int max_sge, struct sim_piece *pieces)
{
	unsigned int n = len == 0 && rng_one_in(r, 2) ? 0 : (unsigned int)rng_between(r, 1, max_sge), i, k;
	uint32_t parts[SIM_MAX_SGE];
	struct sim_piece tmp;

	memset(buf, 0, len + (n + 1) * SIM_CANARY_BYTES);
	cut(r, len, n, parts);
	for (i = 0; i < n; i++) {
		buf += SIM_CANARY_BYTES;
		pieces[i] = (struct sim_piece){ .p = buf, .len = parts[i] };
		buf += parts[i];
	}
	for (i = n; i > 1; i--) {
		k = (unsigned int)rng_below(r, i);
		tmp = pieces[k];
		pieces[k] = pieces[i - 1];
		pieces[i - 1] = tmp;
	}
	return n;
}

static uint8_t
random_opcode(struct rng *r, enum uroce_qp_type type)
{
	enum { UD_OPS = 4, UC_OPS = 8 };
	static const uint8_t ops[] = {
		UROCE_WR_SEND, UROCE_WR_SEND, UROCE_WR_SEND, UROCE_WR_SEND_WITH_IMM, UROCE_WR_RDMA_WRITE,
		UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE_WITH_IMM, UROCE_WR_RDMA_READ,
		UROCE_WR_RDMA_READ, UROCE_WR_ATOMIC_CMP_AND_SWP, UROCE_WR_ATOMIC_FETCH_AND_ADD,
		UROCE_WR_ATOMIC_WRITE, UROCE_WR_FLUSH,
	};

	return ops[rng_below(r, type == UROCE_QPT_UD ? UD_OPS : type == UROCE_QPT_UC ? UC_OPS : sizeof(ops))];
}

/* A compare value that has a chance: the last one that this QP saw of the word. */
static uint64_t
guess(struct sim_qp *q, uint32_t word)
{
	uint32_t i;

	for (i = q->nb_retired; i-- > 0;) {
		const struct sim_op *op = &q->ops[i];

		if (!op_atomic(op) || op->target_off != word || op->status != UROCE_WC_SUCCESS)
			continue;
		if (op->opcode == UROCE_WR_ATOMIC_FETCH_AND_ADD)
			return op->old + op->compare_add;
		return op->old == op->compare_add ? op->swap : op->old;
	}
	return 0;
}

static void
make_atomic(struct sim_qp *q, struct sim_op *op)
{
	op->len = 8;
	op->target_off = (uint32_t)rng_below(&q->rng, SIM_ATOMIC_WORDS);
	if (op->opcode == UROCE_WR_ATOMIC_FETCH_AND_ADD) {
		op->compare_add = rng_one_in(&q->rng, 8) ? 0 : rng_next(&q->rng);
	} else {
		op->compare_add = rng_one_in(&q->rng, 4) ? rng_next(&q->rng) : guess(q, op->target_off);
		op->swap = rng_next(&q->rng);
	}
}

bool
plant_is_local(enum sim_plant p)
{
	switch (p) {
	case SIM_PLANT_LKEY:
	case SIM_PLANT_LKEY_STALE:
	case SIM_PLANT_LKEY_RANGE:
	case SIM_PLANT_LKEY_NOWRITE:
	case SIM_PLANT_OPCODE:
	case SIM_PLANT_SGES:
	case SIM_PLANT_INLINE:
	case SIM_PLANT_AH:
	case SIM_PLANT_UD_LENGTH:
	case SIM_PLANT_OP_LENGTH:
	case SIM_PLANT_BIND:
		return true;
	default:
		return false;
	}
}

static bool
plant_is_lkey(enum sim_plant p)
{
	return p == SIM_PLANT_LKEY || p == SIM_PLANT_LKEY_STALE || p == SIM_PLANT_LKEY_RANGE ||
	       p == SIM_PLANT_LKEY_NOWRITE;
}

/* Does the peer's QP take this kind of operation at all? */
static bool
peer_grants(const struct sim_qp *q, const struct sim_op *op)
{
	uint32_t flags = q->peer->attr.qp_access_flags;

	if (op->opcode == UROCE_WR_RDMA_READ)
		return flags & UROCE_ACCESS_REMOTE_READ;
	if (op_atomic(op))
		return flags & UROCE_ACCESS_REMOTE_ATOMIC;
	if (op->opcode == UROCE_WR_FLUSH)
		return flags & UROCE_ACCESS_FLUSH_GLOBAL;
	return !op_one_sided(op) || (flags & UROCE_ACCESS_REMOTE_WRITE);
}

/* Mistakes are made once per program and direction, and only where they are mistakes. */
static enum sim_plant
random_plant(struct sim_world *w, struct sim_qp *q, const struct sim_op *op)
{
	static const enum sim_plant local[] = { SIM_PLANT_LKEY, SIM_PLANT_LKEY_STALE, SIM_PLANT_LKEY_RANGE,
						SIM_PLANT_OPCODE, SIM_PLANT_SGES, SIM_PLANT_INLINE };
	static const enum sim_plant remote[] = { SIM_PLANT_RKEY, SIM_PLANT_RKEY_STALE, SIM_PLANT_RKEY_RANGE,
						 SIM_PLANT_RKEY_ACCESS, SIM_PLANT_RKEY_PD };
	bool ud = q->params.type == UROCE_QPT_UD, eight = op_atomic(op) || op->opcode == UROCE_WR_ATOMIC_WRITE;

	if (!peer_grants(q, op) && op->len != 0) {
		q->planted_remote = true;
		return SIM_PLANT_QP_ACCESS;
	}
	if ((w->cfg.faults & SIM_F_PLANT_LOCAL) && q->foreign == NULL && !q->planted_local && rng_one_in(&q->rng, 16)) {
		q->planted_local = true;
		if (ud && rng_one_in(&q->rng, 3))
			/* A port whose MTU becomes larger than that of its datagrams takes longer ones (mtus.c). */
			return rng_one_in(&q->rng, 2) || (w->cfg.faults & SIM_F_PARTITION) ? SIM_PLANT_AH : SIM_PLANT_UD_LENGTH;
		if (eight && rng_one_in(&q->rng, 3))
			return SIM_PLANT_OP_LENGTH;
		return op_brings(op) && rng_one_in(&q->rng, 4) ? SIM_PLANT_LKEY_NOWRITE : local[rng_below(&q->rng, 6)];
	}
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && ud && rng_one_in(&q->rng, 8))
		return SIM_PLANT_QKEY;
	/* Where there are windows, rather through those (windows_choose()). */
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && op_one_sided(op) && !q->planted_remote &&
	    rng_one_in(&q->rng, q->peer->nb_windows != 0 ? 40 : 8)) {
		q->planted_remote = true;
		return eight && rng_one_in(&q->rng, 3) ? SIM_PLANT_MISALIGNED : remote[rng_below(&q->rng, 5)];
	}
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && q->conn->xrc && !q->planted_remote && rng_one_in(&q->rng, 16)) {
		q->planted_remote = true;
		return SIM_PLANT_SRQN;
	}
	return SIM_PLANT_NONE;
}

/* Of a FLUSH only what it names at the peer can be wrong: it has no bytes of its own. */
static enum sim_plant
flush_plant(const struct sim_world *w, struct sim_qp *q)
{
	static const enum sim_plant remote[] = { SIM_PLANT_RKEY, SIM_PLANT_RKEY_STALE, SIM_PLANT_RKEY_RANGE,
						 SIM_PLANT_RKEY_ACCESS, SIM_PLANT_RKEY_PD };

	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) == 0 || q->planted_remote || !rng_one_in(&q->rng, 8))
		return SIM_PLANT_NONE;
	q->planted_remote = true;
	return remote[rng_below(&q->rng, sizeof(remote) / sizeof(remote[0]))];
}

static uint8_t
random_flags(struct sim_qp *q, const struct sim_op *op, uint32_t i)
{
	uint8_t flags = 0;

	/* A slot comes back with a completion only: one in half a ring must be signalled, and the last. */
	if (rng_one_in(&q->rng, 2) || i % (q->sq_depth / 2) == 0 || i + 1 == q->nb_ops)
		flags |= UROCE_SEND_SIGNALED;
	if (op->fenced || rng_one_in(&q->rng, 10))
		flags |= UROCE_SEND_FENCE;
	if (rng_one_in(&q->rng, 5))
		flags |= UROCE_SEND_SOLICITED;
	if (!op_brings(op) && op->opcode != UROCE_WR_FLUSH && op->len <= q->params.cap.max_inline_data &&
	    rng_one_in(&q->rng, 2))
		flags |= UROCE_SEND_INLINE;
	return flags;
}

/* UD: the peer, or any QP that already receives. */
static struct sim_qp *
random_receiver(struct sim_world *w, struct sim_qp *q)
{
	uint32_t i;

	if (q->params.type != UROCE_QPT_UD || (w->cfg.faults & SIM_F_ANY) == 0)
		return q->peer;
	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *to = &w->conns[i / 2].qp[i & 1];

		if (q->ahs[to->id] != 0 && to->qp != NULL && qp_state(to->qp) >= UROCE_QPS_RTR &&
		    qp_state(to->qp) <= UROCE_QPS_SQE && rng_one_in(&q->rng, 3))
			return to;
	}
	return q->peer;
}

void
program_op(struct sim_world *w, struct sim_qp *q, struct sim_op *op)
{
	uint32_t i = q->nb_posted, max_sge = q->params.cap.max_send_sge;
	const struct sim_op *before = i == 0 ? NULL : &q->ops[i - 1];
	uint8_t *dest = q->dest_mr.base + (uint64_t)(i % q->nb_dest_bufs) * q->buf_stride;

	op->wr_id = (uint64_t)q->round << SIM_WR_ID_ROUND_SHIFT | (uint64_t)q->id << 32 | i;
	op->status = SIM_NO_STATUS;
	op->binding = op->replaces = SIM_NO_BINDING;
	op->imm = (uint32_t)rng_next(&q->rng);
	op->pkey = q->pkey;
	if (huge_choose(w, q, op))
		return;
	if (!mcast_choose(w, q, op))
		op->to = random_receiver(w, q);
	if (windows_local_op(w, q, op)) {
		op->flags = random_flags(q, op, i) & (uint8_t)~UROCE_SEND_INLINE;
		return;
	}
	if (!windows_send_inv(w, q, op))
		op->opcode = random_opcode(&q->rng, q->params.type);
	if (op->opcode == UROCE_WR_FLUSH && !peer_grants(q, op))
		op->opcode = UROCE_WR_SEND;
	if (op_atomic(op))
		make_atomic(q, op);
	else
		op->len = op->opcode == UROCE_WR_ATOMIC_WRITE ? 8 : op->opcode == UROCE_WR_FLUSH ? 0 : random_len(w, q, op);
	if (op->plant == SIM_PLANT_NONE)
		op->plant = op->opcode == UROCE_WR_FLUSH ? flush_plant(w, q) : random_plant(w, q, op);
	windows_choose(w, q, op);
	if (q->conn->xrc)
		op->srqn = xrc_choose(q, op->plant);
	if (op->plant != SIM_PLANT_NONE && op->len == 0 && op->opcode != UROCE_WR_FLUSH)
		op->len = 1;
	if (op->plant == SIM_PLANT_UD_LENGTH)
		op->len = q->mtu + 1 + op->imm % q->mtu;
	if (op->plant == SIM_PLANT_OP_LENGTH)
		op->len = op->imm & 1 ? 7 : 9;
	op->flags = random_flags(q, op, i);
	if (plant_is_lkey(op->plant) || op->plant == SIM_PLANT_SGES || op->plant == SIM_PLANT_INLINE)
		op->flags &= (uint8_t)~UROCE_SEND_INLINE;
	if (op_consumes(op))
		op->consume = q->nb_consume++;

	/* An operation that may have no bytes, where the peer grants none, is to stay without. */
	if (op->opcode == UROCE_WR_FLUSH) {
		op->nsge = 0;
	} else if (!op_brings(op) && op->opcode != UROCE_WR_ATOMIC_WRITE && op->plant == SIM_PLANT_NONE &&
		   op->go_by.mr == NULL && peer_grants(q, op) && before != NULL &&
		   before->opcode == UROCE_WR_RDMA_READ && !before->huge && before->plant == SIM_PLANT_NONE && rng_one_in(&q->rng, 2)) {
		/* Pass on what the READ brings; the fence makes that sound. */
		op->from_read = true;
		op->len = before->len;
		op->nsge = before->nsge;
		memcpy(op->pieces, before->pieces, sizeof(op->pieces));
		op->flags = (uint8_t)((op->flags | UROCE_SEND_FENCE) & ~UROCE_SEND_INLINE);
	} else if (op_brings(op)) {
		op->nsge = (uint8_t)pieces_of_buffer(&q->rng, dest, op->len, max_sge, op->pieces);
	} else {
		op->nsge = (uint8_t)pieces_of_pattern(&q->rng, op->len, max_sge, op->pieces);
	}
	if (plant_is_lkey(op->plant)) {
		/* The bad SGE must have bytes. */
		op->nsge = 1;
		op->pieces[0].len = op->len;
	}
	if (!op_atomic(op) && op_one_sided(op) && op->go_by.mr == NULL)
		op->target_off = (uint32_t)rng_below(&q->rng, q->peer->target_mr.len - op->len + 1);
	if (op->opcode == UROCE_WR_ATOMIC_WRITE && op->go_by.mr == NULL)
		op->target_off &= ~7u;
}

void
program_recv(struct sim_world *w, struct sim_recvq *rq, struct sim_recv *r)
{
	uint8_t *buf = rq->mr.base + (uint64_t)r->buf * rq->stride;

	r->len = rq->recv_len;
	if ((w->cfg.faults & SIM_F_PLANT_RECV) && rng_one_in(rq->rng, 16)) {
		r->plant = rng_one_in(rq->rng, 2) ? SIM_PLANT_RECV_SMALL : SIM_PLANT_RECV_LKEY;
		if (r->plant == SIM_PLANT_RECV_SMALL)
			r->len = (uint32_t)rng_below(rq->rng, rng_one_in(rq->rng, 2) ? 4 : r->len);
	}
	r->nsge = (uint8_t)pieces_of_buffer(rq->rng, buf, r->len, rq->max_sge, r->pieces);
	if (r->plant == SIM_PLANT_RECV_LKEY && r->nsge == 0)
		r->plant = SIM_PLANT_NONE;
}
