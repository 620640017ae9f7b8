/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: when they have ended, what they leave, and another round. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define QUIET_NS (20 * SIM_NS_PER_MS) /* longer than anything stays in the network */

/* Another QP in the place of this one, with the same memory and another number. */
static void
qp_anew(struct sim_qp *q)
{
	moves_stop(q->ep->w, q->ep);
	qp_destroy(q->tp, q->qp);
	memset(q->sq.base, 0, UINT64_C(1) << (q->sq.order + q->sq.shift));
	q->sq.counter = 0;
	if (q->rq == &q->own_rq) {
		memset(q->rq->ring.base, 0, UINT64_C(1) << (q->rq->ring.order + q->rq->ring.shift));
		q->rq->ring.counter = 0;
	}
	if (qp_create(q->tp, &q->params, &q->qp) != 0)
		abort();
	q->qpn = qp_num(q->qp);
	/* The rate of CNPs is limited per QP. */
	q->cnp_sent_ns = q->cnp_due_ns = 0;
}

/*
 * All over again, with the same QPs or with others. The new PSNs lie far from the old ones, as TimeWait does it in life: what
 * is still under way of the old connection is not taken for the new one's.
 */
static void
reconnect(struct sim_world *w, struct sim_conn *c)
{
	bool anew = !c->xrc && rng_one_in(&c->rng, 3);
	unsigned int i;
	uint32_t k;

	c->rounds_left--;
	connect_anew(c);
	c->mtu_code = (uint32_t)rng_between(&c->rng, UROCE_MTU_256, w->cfg.max_mtu);
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (qp_state(q->qp) != UROCE_QPS_RESET)
			qp_to_state(w, q, UROCE_QPS_RESET);
		client_drain(w, q->send_cq);
		client_drain(w, q->recv_cq);
		for (k = 0; k < q->nb_posted; k++)
			free(q->ops[k].copy);
		free(q->ops);
		windows_end(w, q);
		if (anew)
			qp_anew(q);
		q->round++;
		stale_round(q);
		/* With its AV a QP gets a new rate. */
		q->cnp_ns = 0;
		program_init(w, q);
		if (q->ops == NULL || !mrs_again(q))
			abort();
		memset(q->target_mr.base, 0, q->target_mr.len);
		q->attr.sq_psn = c->by_cm ? connect_next_psn(q) : (q->attr.sq_psn + (1u << 22) + (uint32_t)rng_below(&c->rng, 1 << 22)) & WIRE_PSN_MASK;
	}
	conn_attributes(w, c);
	sim_trace(w, "connection %u: another round%s", c->id, anew ? ", with other QPs" : "");
}

/* Has the client got back what it posted to be received, after moving the QP to ERR? */
static bool
receives_returned(struct sim_qp *q)
{
	union ring_cqe_ctl ctl;

	if (q->abandoned)
		return true;
	if (q->conn->xrc && q->rq != &q->own_rq)
		return q->events[UROCE_EVENT_QP_LAST_WQE_REACHED] != 0 && xrc_receives_polled(q->ep);
	if (q->rq == &q->own_rq)
		return q->rq->nb_done == q->rq->nb_posted;
	/* Of an SRQ: what it had taken. The event says that all of that is in the CQ (10.2.9.4, man
	 * ibv_get_async_event). */
	return q->events[UROCE_EVENT_QP_LAST_WQE_REACHED] != 0 &&
	       !ring_cq_ready(&q->recv_cq->ring, q->recv_cq->ring.counter, &ctl);
}

/* Datagrams go to any QP: none ends before all have been sent. */
static bool
all_datagrams_sent(const struct sim_world *w)
{
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		const struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->params.type == UROCE_QPT_UD && !w->conns[i / 2].done && !(q->ready && client_sends_done(q)))
			return false;
	}
	return true;
}

/*
 * A copy of memory that isn't mapped may take as long as QUIET_NS, an engine may stall, and what waits behind that has arrived but isn't
 * executed.
 */
static bool
engines_wait(const struct sim_world *w)
{
	for (uint32_t i = 0; i < w->cfg.nb_eps; i++)
		if (w->eps[i].copies_until > w->now_ns || w->eps[i].stalled_until > w->now_ns)
			return true;
	return false;
}

/* What UC and UD have sent may be on its way still. */
static bool
still_moving(struct sim_world *w, struct sim_conn *c)
{
	if (c->type == UROCE_QPT_RC)
		return false;
	if (c->type == UROCE_QPT_UD && !all_datagrams_sent(w))
		return true;
	if (c->quiet_at == 0 || engines_wait(w))
		c->quiet_at = w->now_ns + QUIET_NS;
	return w->now_ns < c->quiet_at;
}

void
conn_step(struct sim_world *w, struct sim_conn *c)
{
	bool ended = true;
	unsigned int i;

	if (c->done)
		return;
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (!q->ready && c->by_cm)
			connect_bring_up(w, q);
		else if (!q->ready)
			qp_bring_up(w, q);
		else
			qp_disturb(w, q);
		stale_turn(w, q);
		paths_turn(w, q);
		ended &= q->ready && client_sends_done(q);
	}
	if (!ended || still_moving(w, c) || (c->by_cm && !connect_end(w, c)))
		return;
	/* Through: receives that are left over come back flushed, then the QPs go. */
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (!q->finalized && rng_one_in(&q->rng, 2)) {
			q->finalized = true;
			if (!q->abandoned)
				qp_to_err(w, q);
		}
		ended &= q->finalized && receives_returned(q);
	}
	if (!ended || (c->rounds_left != 0 && !connect_may_begin(c)))
		return;
	model_conn_end(w, c);
	for (i = 0; i < 2; i++)
		atomics_note(&c->qp[i]);
	if (c->rounds_left != 0 && !w->failed) {
		reconnect(w, c);
		return;
	}
	for (i = 0; i < 2; i++) {
		connect_leave(w, &c->qp[i]);
		mcast_leave(&c->qp[i]);
		moves_stop(w, c->qp[i].ep);
		qp_destroy(c->qp[i].tp, c->qp[i].qp);
		c->qp[i].qp = NULL;
	}
	c->done = true;
}

void
conn_destroy(struct sim_world *w, struct sim_conn *c)
{
	unsigned int i;
	uint32_t k;

	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (q->ep == NULL)
			continue;
		if (q->qp != NULL) {
			mcast_leave(q);
			qp_destroy(q->tp, q->qp);
		}
		q->qp = NULL;
		windows_end(w, q);
		sim_mr_free(q->ep, &q->own_rq.mr);
		sim_mr_free(q->ep, &q->src_mr);
		for (k = 0; k < 2 * SIM_MAX_CONNS; k++)
			if (q->ahs[k] != 0)
				ah_destroy(q->ep->sh.ahs, q->ahs[k]);
		for (k = 1; k <= SIM_MAX_GROUPS; k++)
			if (q->groups[k].ah != 0)
				ah_destroy(q->ep->sh.ahs, q->groups[k].ah);
		sim_mr_free(q->ep, &q->dest_mr);
		sim_mr_free(q->ep, &q->target_mr);
		sim_mr_free(q->ep, &q->noaccess_mr);
		sim_mr_free(q->ep, &q->other_pd_mr);
		for (k = 0; q->ops != NULL && k < q->nb_posted; k++)
			free(q->ops[k].copy);
		free(q->ops);
		free(q->own_rq.recvs);
		free(q->atomics);
		foreign_free(q);
	}
}
