/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC connections: one end sends, the other is a target. A target's endpoint has SRQs of the target's domain, each with a
 * CQ of its own, and one of another domain; every operation names one of them.
 */
#include "sim.h"
#include "transport/core/types_priv.h"

enum {
	STREAM_XRC = 2048,
	DOMAIN = 1,
	OTHER_DOMAIN = 2,
	FOREIGN_ORDER = 1,
	SRQN_GENERATIONS = 256,
};

/* Numbers differ in the low 16 bits, by which completions tell their SRQ. */
static uint32_t
number(struct rng *r, uint32_t index)
{
	return (uint32_t)rng_below(r, SRQN_GENERATIONS) << 16 | (index + 1);
}

/* The SRQ of the other domain has no receives; nothing of it may ever be touched. */
static bool
foreign_make(struct sim_world *w, struct sim_ep *ep, struct rng *r, struct transport *tp)
{
	struct srq_params p = { .pd = 1, .max_sge = 1, .owner = ep, .xrcd = OTHER_DOMAIN, .cq = ep->cqs[0].cq, .number = SIM_MAX_SRQS + SIM_MAX_XSRQS };

	p.srqn = ep->foreign_srqn = number(r, SIM_MAX_XSRQS);
	p.ring = (struct ring){ .base = arena_get(w, ring_rq_stride(1) << FOREIGN_ORDER), RING_SIZE(FOREIGN_ORDER, 5) };
	p.shared = (void *)arena_get(w, sizeof(*p.shared));
	return p.ring.base != NULL && p.shared != NULL && srq_create(tp, &p, &ep->foreign_srq) == 0;
}

bool
xrc_make(struct sim_world *w, struct sim_ep *ep)
{
	struct rng r = rng_stream(w->cfg.seed, STREAM_XRC + ep->id);
	struct sim_engine *e = &ep->engines[rng_below(&r, ep->nb_engines)];
	uint32_t i;

	ep->nb_xsrqs = (uint32_t)rng_between(&r, 1, SIM_MAX_XSRQS);
	for (i = 0; i < ep->nb_xsrqs; i++) {
		struct sim_recvq *rq = &ep->xsrqs[i];

		rq->ep = ep;
		rq->cq = &ep->cqs[rng_below(&r, ep->nb_cqs)];
		rq->srqn = number(&r, i);
		rq->xrcd = DOMAIN;
		if (!srq_make(w, rq, e, SIM_MAX_SRQS + i))
			return false;
	}
	return foreign_make(w, ep, &r, e->tp);
}

void
xrc_free(struct sim_ep *ep)
{
	uint32_t i;

	for (i = 0; i < ep->nb_xsrqs; i++)
		srq_free(ep, &ep->xsrqs[i]);
	if (ep->foreign_srq != NULL)
		srq_destroy(ep->foreign_srq->tp, ep->foreign_srq);
	ep->foreign_srq = NULL;
}

void
xrc_qp_parts(struct sim_qp *q)
{
	struct qp_params *p = &q->params;

	p->srq = NULL;
	p->rq = (struct ring){ 0 };
	p->recv_cq = NULL;
	if (q == &q->conn->qp[0]) {
		p->type = UROCE_QPT_XRC_SEND;
		return;
	}
	p->type = UROCE_QPT_XRC_RECV;
	p->xrcd = DOMAIN;
	p->pd = 0;
	p->send_cq = NULL;
	p->sq = (struct ring){ 0 };
}

uint32_t
xrc_choose(struct sim_qp *q, enum sim_plant plant)
{
	const struct sim_ep *ep = q->peer->ep;
	uint32_t good = ep->xsrqs[rng_below(&q->rng, ep->nb_xsrqs)].srqn;

	if (plant != SIM_PLANT_SRQN)
		return good;
	return rng_one_in(&q->rng, 2) ? ep->foreign_srqn : good ^ (1u << rng_below(&q->rng, 24));
}

struct sim_recvq *
xrc_recvq(struct sim_ep *ep, uint16_t low)
{
	uint32_t i;

	for (i = 0; i < ep->nb_xsrqs; i++)
		if ((uint16_t)ep->xsrqs[i].srqn == low)
			return &ep->xsrqs[i];
	return NULL;
}

bool
xrc_received(const struct sim_qp *q, uint32_t i)
{
	const struct sim_recvq *rq = xrc_recvq(q->ep, (uint16_t)q->peer->ops[i].srqn);

	return rq != NULL && i < q->xsrq[rq - q->ep->xsrqs].rx_op;
}

bool
xrc_cq_dead(const struct sim_ep *ep)
{
	uint32_t i;

	for (i = 0; i < ep->nb_xsrqs; i++)
		if (ep->xsrqs[i].cq->dead)
			return true;
	return false;
}

bool
xrc_receives_polled(const struct sim_ep *ep)
{
	union ring_cqe_ctl ctl;
	uint32_t i;

	for (i = 0; i < ep->nb_xsrqs; i++)
		if (ring_cq_ready(&ep->xsrqs[i].cq->ring, ep->xsrqs[i].cq->ring.counter, &ctl))
			return false;
	return true;
}

void
xrc_receive_lost(struct sim_ep *ep)
{
	uint32_t i;

	/* It was of any of them. */
	for (i = 0; i < ep->nb_xsrqs; i++)
		ep->xsrqs[i].nb_lost++;
}
