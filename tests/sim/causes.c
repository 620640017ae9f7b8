/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be the cause of an error: the mistakes that programs made on purpose, and what follows from them. */
#include "model.h"

const struct sim_recv *
recv_of(const struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_recvq *rq = q->peer->rq;

	/* Of an SRQ, and of a queue that lost messages pass by, it can be any. */
	if (rq->srq != NULL || q->conn->type != UROCE_QPT_RC)
		return NULL;
	return op_consumes(op) && op->consume < rq->nb_posted ? &rq->recvs[op->consume] : NULL;
}

bool
recv_too_small(const struct sim_op *op, const struct sim_recv *r)
{
	return op->opcode != UROCE_WR_RDMA_WRITE_WITH_IMM && r != NULL && op->len > r->len;
}

bool
recv_bad_lkey(const struct sim_op *op, const struct sim_recv *r, bool *must)
{
	uint32_t good = 0;
	unsigned int i;

	*must = false;
	if (r == NULL || r->plant != SIM_PLANT_RECV_LKEY)
		return false;
	for (i = 0; i + 1 < r->nsge; i++)
		good += r->pieces[i].len;
	*must = op->opcode != UROCE_WR_RDMA_WRITE_WITH_IMM && op->len > good;
	return true;
}

bool
qp_cq_dead(const struct sim_qp *q)
{
	if (q->conn->xrc)
		return q == &q->conn->qp[0] ? q->send_cq->dead : xrc_cq_dead(q->ep);
	return q->send_cq->dead || q->recv_cq->dead;
}

/* Whether a host has few places for copies, and packets have been dropped since others had them. */
static bool
copies_lacked_places(const struct sim_world *w, const struct sim_ep *ep)
{
	if (w->cfg.pools.copy_jobs == 0 && w->cfg.pools.copy_pkts == 0)
		return false;
	for (uint32_t i = 0; i < ep->nb_engines; i++) {
		const struct tp_counters *c = transport_counters(ep->engines[i].tp);

		if (c->rx_copy_dropped != 0 || c->copy_no_room != 0)
			return true;
	}
	return false;
}

bool
answers_may_not_come(const struct sim_world *w, const struct sim_qp *q)
{
	/* A foreign requester asks for all of a READ again. A switch's queue that is shorter never has room for all of the answer. */
	if (q->foreign != NULL && (w->cfg.faults & SIM_F_QUEUE))
		return true;
	return copies_lacked_places(w, q->ep);
}

bool
may_be_in_err(const struct sim_world *w, const struct sim_qp *q)
{
	const struct sim_qp *p = q->peer;

	if (q->local_dereg != NULL || qp_cq_dead(q))
		return true;
	/* Without a connection the two ends have nothing to do with each other. */
	if (q->conn->type != UROCE_QPT_RC)
		return client_dead(q) || q->planted_local || (w->cfg.faults & SIM_F_PLANT_RECV);
	return client_dead(q) || w->cfg.harsh || link_dies(w, q->ep->id, p->ep->id) || q->planted_local ||
	       q->planted_remote || p->planted_remote || p->local_dereg != NULL || qp_cq_dead(p) ||
	       q->attr.rnr_retry < 7 || p->attr.rnr_retry < 7 || (w->cfg.faults & SIM_F_PLANT_RECV) || client_dead(p) ||
	       p->planted_local || q->conn->raced || q->hurried || p->hurried || q->target_mr.mr == NULL ||
	       p->target_mr.mr == NULL || answers_may_not_come(w, q) || answers_may_not_come(w, p);
}

static bool
retries_may_run_out(const struct sim_world *w, const struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_qp *p = q->peer;

	if (w->cfg.harsh)
		return true;
	if (q->planted_inv || (q->conn->type == UROCE_QPT_RC && link_dies(w, q->ep->id, p->ep->id)))
		return true;
	/* The READs that a foreign requester asks for again and again are in the way of its ACKs, too. */
	if ((op_brings(op) || q->foreign != NULL) && answers_may_not_come(w, q))
		return true;
	/* On a good network the NAK arrives before the peer falls silent. */
	if (q->conn->type != UROCE_QPT_RC)
		return false;
	if (copies_lacked_places(w, p->ep))
		return true;
	if (w->cfg.lossless && p->attr.rnr_retry == 7 && !p->client_err && !p->planted_local && !p->planted_remote &&
	    !qp_cq_dead(p) && !(w->cfg.faults & (SIM_F_PLANT_RECV | SIM_F_DEREG)))
		return false;
	/* A READ that is asked for again is not refused if its region has gone meanwhile, but dropped (C9-105). */
	if ((p->target_mr.mr == NULL || windows_raced(q, op) || q->hurried) && op->opcode == UROCE_WR_RDMA_READ)
		return true;
	return client_dead(p) || p->qp == NULL || qp_state(p->qp) == UROCE_QPS_ERR;
}

bool
status_is_possible(const struct sim_world *w, const struct sim_qp *q, const struct sim_op *op, uint8_t status)
{
	const struct sim_recv *r = recv_of(q, op);
	const struct sim_recvq *rq = q->peer->rq;
	bool must, srq = rq->srq != NULL && (w->cfg.faults & SIM_F_PLANT_RECV),
		   reliable = q->conn->type == UROCE_QPT_RC;

	switch (status) {
	case UROCE_WC_WR_FLUSH_ERR:
		return may_be_in_err(w, q);
	case UROCE_WC_LOC_LEN_ERR:
		return op->plant == SIM_PLANT_UD_LENGTH || op->plant == SIM_PLANT_OP_LENGTH;
	case UROCE_WC_MW_BIND_ERR:
		/* UC goes on after an error: what was to end a binding before may have been flushed. */
		return op->plant == SIM_PLANT_BIND || (q->conn->type == UROCE_QPT_UC && op->binding != SIM_NO_BINDING &&
						       q->windows[q->bindings[op->binding].window].spoiled);
	case UROCE_WC_LOC_PROT_ERR:
		if (q->local_dereg == (op_brings(op) ? &q->dest_mr : &q->src_mr) ||
		    (op->from_read && q->local_dereg == &q->dest_mr))
			return op->len != 0 && !(op->flags & UROCE_SEND_INLINE);
		return op->plant == SIM_PLANT_LKEY || op->plant == SIM_PLANT_LKEY_STALE ||
		       op->plant == SIM_PLANT_LKEY_RANGE || op->plant == SIM_PLANT_LKEY_NOWRITE;
	case UROCE_WC_LOC_QP_OP_ERR:
		return op->plant == SIM_PLANT_OPCODE || op->plant == SIM_PLANT_SGES ||
		       op->plant == SIM_PLANT_INLINE || op->plant == SIM_PLANT_AH;
	case UROCE_WC_REM_ACCESS_ERR:
		if (!reliable)
			return false;
		return op->plant == SIM_PLANT_RKEY || op->plant == SIM_PLANT_RKEY_STALE ||
		       op->plant == SIM_PLANT_RKEY_RANGE || op->plant == SIM_PLANT_RKEY_ACCESS ||
		       op->plant == SIM_PLANT_RKEY_PD || op->plant == SIM_PLANT_QP_ACCESS ||
		       op->plant == SIM_PLANT_WINDOW_STALE || op->plant == SIM_PLANT_WINDOW_ACCESS ||
		       op->plant == SIM_PLANT_WINDOW_RANGE || op->plant == SIM_PLANT_WINDOW_QP ||
		       windows_raced(q, op) ||
		       (q->peer->target_mr.mr == NULL && (op->len != 0 || op->opcode == UROCE_WR_FLUSH) &&
			!op_atomic(op) && op_one_sided(op) &&
			op->go_by.mr == NULL);
	case UROCE_WC_REM_INV_REQ_ERR:
		return reliable &&
		       (op->plant == SIM_PLANT_MISALIGNED || op->plant == SIM_PLANT_SRQN || recv_too_small(op, r) ||
			(srq && op_consumes(op)));
	case UROCE_WC_REM_OP_ERR:
		/* What Soft-RoCE says of a message that is longer than its receive. */
		return recv_bad_lkey(op, r, &must) || (q->peer->foreign != NULL && recv_too_small(op, r)) || (reliable && op_consumes(op) && op->len != 0 &&
						       (srq || q->peer->local_dereg == &rq->mr));
	case UROCE_WC_RETRY_EXC_ERR:
		return retries_may_run_out(w, q, op);
	case UROCE_WC_RNR_RETRY_EXC_ERR:
		/* A foreign peer that repeats itself has refused only what was sent again. */
		if (q->peer->foreign != NULL && w->cfg.lossless && q->rnr_count <= q->attr.rnr_retry)
			return false;
		/* A READ that finds no read block is told to try again. */
		return reliable && q->attr.rnr_retry < 7 &&
		       (op_consumes(op) || (op->opcode == UROCE_WR_RDMA_READ && w->cfg.pools.read_blocks != 0));
	}
	return false;
}

bool
wc_opcode_fits(const struct sim_op *op, uint8_t wc_opcode)
{
	switch (op->opcode) {
	case UROCE_WR_SEND:
	case UROCE_WR_SEND_WITH_IMM:
	case UROCE_WR_SEND_WITH_INV:
		return wc_opcode == UROCE_WC_SEND;
	case UROCE_WR_RDMA_WRITE:
	case UROCE_WR_RDMA_WRITE_WITH_IMM:
		return wc_opcode == UROCE_WC_RDMA_WRITE;
	case UROCE_WR_RDMA_READ:
		return wc_opcode == UROCE_WC_RDMA_READ;
	case UROCE_WR_ATOMIC_CMP_AND_SWP:
		return wc_opcode == UROCE_WC_COMP_SWAP;
	case UROCE_WR_ATOMIC_FETCH_AND_ADD:
		return wc_opcode == UROCE_WC_FETCH_ADD;
	case UROCE_WR_ATOMIC_WRITE:
		return wc_opcode == UROCE_WC_ATOMIC_WRITE;
	case UROCE_WR_FLUSH:
		return wc_opcode == UROCE_WC_FLUSH;
	case UROCE_WR_BIND_MW:
		return wc_opcode == UROCE_WC_BIND_MW;
	case UROCE_WR_LOCAL_INV:
		return wc_opcode == UROCE_WC_LOCAL_INV;
	}
	return false;
}
