/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must come of the programs, from the specification and the man pages: completions in order with the right
 * contents, each message once, memory as if the operations of a QP had been done one after the other.
 */
#include <inttypes.h>

#include "model.h"

/* ---- Completions ---- */

/* Where a receive completes: an XRC SRQ has a CQ of its own. */
static const struct sim_cq *
recv_cq_of(const struct sim_qp *q, union ring_cqe_ctl ctl)
{
	return q->conn->xrc ? xrc_recvq(q->ep, ctl.wqe_counter)->cq : q->recv_cq;
}

void
model_cqe(struct sim_world *w, struct sim_cq *c, const struct ring_cqe *e, union ring_cqe_ctl ctl)
{
	struct sim_ep *ep = c->ep;
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep != ep || q->qpn != e->qpn)
			continue;
		sim_trace(w, "QP %u: %s %u completes: status %u opcode %u byte_len %u", q->id,
			  ctl.is_recv ? "receive" : "send", ctl.wqe_counter, e->status, e->opcode, e->byte_len);
		if (ctl.is_recv && (ctl.xrc != q->conn->xrc ||
				    (ctl.xrc && xrc_recvq(ep, ctl.wqe_counter) == NULL))) {
			sim_fail(w, "QP %u: receive of no SRQ", q->id);
			return;
		}
		if ((ctl.is_recv ? recv_cq_of(q, ctl) : q->send_cq) != c)
			sim_fail(w, "QP %u: %s completes in another CQ", q->id, ctl.is_recv ? "receive" : "send");
		/* Programs skip what is left in the CQ of a QP that they have reset. */
		if ((!ctl.is_recv || q->rq == &q->own_rq) &&
		    (q->abandoned || e->wr_id >> SIM_WR_ID_ROUND_SHIFT != q->round))
			return;
		/* What a QP that was reset left in its CQ brings back the buffers of an SRQ, however late. */
		if (w->conns[i / 2].done && !q->abandoned)
			sim_fail(w, "QP %u: completion after its end", q->id);
		else if (ctl.is_recv)
			recv_cqe(w, q, e, ctl);
		else
			send_cqe(w, q, e, ctl);
		return;
	}
	sim_fail(w, "endpoint %u: completion of unknown QP 0x%06x", ep->id, e->qpn);
}

/* ---- Events ---- */

/* @return the counter of the CQE that will be written next. */
static uint32_t
cq_written(const struct sim_cq *c)
{
	union ring_cqe_ctl ctl;
	uint32_t n = c->ring.counter;

	while (n - c->ring.counter < 1u << c->ring.order && ring_cq_ready(&c->ring, n, &ctl))
		n++;
	return n;
}

void
model_event(struct sim_world *w, struct sim_qp *q, enum uroce_event type)
{
	if (q == NULL || type > UROCE_EVENT_GID_CHANGE) {
		sim_fail(w, "event %d without a QP", type);
		return;
	}
	sim_trace(w, "QP %u: event %d", q->id, type);
	q->events[type]++;
	switch (type) {
	case UROCE_EVENT_SQ_DRAINED:
		if (!q->sqd_waiting || q->drained)
			sim_fail(w, "QP %u: SQ drained, but nobody waits for that", q->id);
		q->drained = true;
		q->drained_at = cq_written(q->send_cq);
		break;
	case UROCE_EVENT_COMM_EST:
		if (q->events[type] > 1)
			sim_fail(w, "QP %u: communication established twice", q->id);
		if (q->conn->type == UROCE_QPT_RC && q->peer->nb_posted == 0)
			sim_fail(w, "QP %u: communication is established, but its peer has sent nothing", q->id);
		connect_comm_est(q);
		break;
	case UROCE_EVENT_QP_LAST_WQE_REACHED:
		if (q->rq == &q->own_rq || q->events[type] > 1 || !(may_be_in_err(w, q) || q->finalized))
			sim_fail(w, "QP %u: last WQE reached, time %u", q->id, q->events[type]);
		break;
	case UROCE_EVENT_PATH_MIG:
	case UROCE_EVENT_PATH_MIG_ERR:
		paths_event(w, q, type, may_be_in_err(w, q));
		break;
	case UROCE_EVENT_QP_FATAL:
	case UROCE_EVENT_QP_REQ_ERR:
	case UROCE_EVENT_QP_ACCESS_ERR:
		if (!may_be_in_err(w, q))
			sim_fail(w, "QP %u: event %d without a reason", q->id, type);
		break;
	default:
		sim_fail(w, "QP %u: unexpected event %d", q->id, type);
		break;
	}
}

/* Only a CQ whose every slot holds a completion that its client hasn't polled may overrun. */
void
model_cq_error(struct sim_world *w, struct sim_cq *c)
{
	uint32_t size = 1u << c->ring.order, n = 0;
	union ring_cqe_ctl ctl;

	sim_trace(w, "endpoint %u: a CQ of %u overruns", c->ep->id, size);
	while (n < size && ring_cq_ready(&c->ring, c->ring.counter + n, &ctl))
		n++;
	if (n != size)
		sim_fail(w, "endpoint %u: a CQ with %u of %u completions overruns", c->ep->id, n, size);
	if (c->dead)
		sim_fail(w, "endpoint %u: a CQ overruns twice", c->ep->id);
	c->dead = true;
}

/* ---- The end ---- */

static void
qp_end(struct sim_world *w, struct sim_qp *q)
{
	struct sim_qp *p = q->peer;
	uint32_t good = 0, i;
	int64_t bad;

	if (!is_zero(q->noaccess_mr.base, q->noaccess_mr.len) || !is_zero(q->other_pd_mr.base, q->other_pd_mr.len))
		sim_fail(w, "QP %u: the peer wrote where it may not", q->id);
	if (q->conn->type != UROCE_QPT_RC) {
		unreliable_end(w, q);
		return;
	}
	for (i = 0; i < q->nb_posted; i++)
		if (q->ops[i].status == UROCE_WC_SUCCESS)
			good = i + 1;
	for (i = p->rx_op; i < good && !p->abandoned; i++)
		if (op_consumes(&q->ops[i]) && !(p->conn->xrc && xrc_received(p, i)))
			sim_fail(w, "QP %u: message %u is acknowledged, but the peer hasn't got it", q->id, i);
	bad = target_compare(q, p->target_mr.base, 0, p->target_mr.len, good, q->nb_posted);
	if (bad >= 0)
		sim_fail(w, "QP %u: byte %" PRId64 " of its target area is wrong", q->id, bad);
}

void
model_conn_end(struct sim_world *w, struct sim_conn *c)
{
	qp_end(w, &c->qp[0]);
	qp_end(w, &c->qp[1]);
	sent_end(w, &c->qp[0]);
	sent_end(w, &c->qp[1]);
	sim_trace(w, "connection %u ends", c->id);
}

/* XRC SRQs that complete in a CQ; they are destroyed later. */
static uint32_t
xrc_users(const struct sim_ep *e, const struct sim_cq *c)
{
	uint32_t i, n = e->foreign_srq != NULL && c == &e->cqs[0];

	for (i = 0; i < e->nb_xsrqs; i++)
		n += e->xsrqs[i].cq == c;
	return n;
}

void
model_world_end(struct sim_world *w)
{
	uint32_t ep, i;

	check_counters(w);
	mcast_world_end(w);
	mads_end(w);
	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		struct sim_ep *e = &w->eps[ep];

		for (i = 0; i < e->nb_cqs; i++)
			client_let_go(&e->cqs[i], false);

		atomics_check(w, ep);
		for (i = 0; i < e->nb_engines; i++)
			if (transport_next_timeout(e->engines[i].tp) != UINT64_MAX)
				sim_fail(w, "endpoint %u: a timer runs though no QP is left", ep);
		if (qp_table_count(e->sh.qps) != 0)
			sim_fail(w, "endpoint %u: %u QPs left", ep, qp_table_count(e->sh.qps));
		for (i = 0; i < e->nb_cqs; i++)
			if (cq_users(e->cqs[i].cq) != xrc_users(e, &e->cqs[i]))
				sim_fail(w, "endpoint %u: a CQ is still in use", ep);
		for (i = 0; i < e->nb_srqs; i++)
			srq_check_end(w, &e->srqs[i]);
		for (i = 0; i < e->nb_xsrqs; i++)
			srq_check_end(w, &e->xsrqs[i]);
	}
}
