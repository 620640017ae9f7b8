/* SPDX-License-Identifier: BSD-3-Clause */
/* Victims, and what is done to them: garbage in rings, states in any order, packets (forge.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "transport/core/types_priv.h"

enum {
	STREAM_HOSTILE = 4,
	CQ_ORDER = 5,
	ALL_ACCESS = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
		     UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_MW_BIND,
	QP_ACCESS = ALL_ACCESS & ~UROCE_ACCESS_MW_BIND,
	GAP_NS = 10000,
	TIMEOUT = 10,
};

static struct hostile hostile;

void
hostile_fill(struct rng *r, void *p, uint32_t bytes)
{
	uint8_t *b = p;

	while (bytes-- != 0)
		*b++ = (uint8_t)rng_next(r);
}

/* ---- Making them ---- */

static void
path_to(const struct sim_ep *from, const struct sim_ep *to, struct tp_path *path, struct uroce_ah_attr *ah)
{
	struct wire_addr *a = &path->addr;

	memset(path, 0, sizeof(*path));
	a->smac[0] = a->dmac[0] = 2;
	a->smac[5] = (uint8_t)from->id;
	a->dmac[5] = (uint8_t)to->id;
	a->ip_version = 4;
	a->ttl = 64;
	a->sip[0] = a->dip[0] = 10;
	a->sip[3] = (uint8_t)(from->id + 1);
	a->dip[3] = (uint8_t)(to->id + 1);
	path->pkey = WIRE_PKEY_DEFAULT;
	path->port = 0;
	path->loopback = from == to;
	ah->is_global = 1;
	ah->port_num = 1;
	memcpy(ah->dgid, gid_from_v4(a->dip).raw, sizeof(ah->dgid));
}

/* An XRC SRQ goes, and comes again with nothing in it; targets may be in the midst of a message to it. */
static bool
xsrq_renew(struct sim_ep *ep, struct hostile_ep *he, uint32_t engine, uint32_t i)
{
	struct xsrq *x = &he->xsrqs[engine][i];
	struct transport *tp = ep->engines[engine].tp;
	struct srq_params p = { .ring = x->ring, .shared = x->shared, .pd = HOSTILE_PD, .max_sge = HOSTILE_SGES,
				.owner = ep, .cookie = SIM_HOSTILE_COOKIE, .xrcd = HOSTILE_XRCD, .cq = he->cq.cq };

	p.srqn = HOSTILE_SRQN + engine * HOSTILE_XSRQS + i;
	if (x->srq != NULL && srq_destroy(tp, x->srq) != 0)
		return false;
	x->srq = NULL;
	return srq_create(tp, &p, &x->srq) == 0;
}

static bool
xsrqs_make(struct sim_world *w, struct sim_ep *ep, struct hostile_ep *he)
{
	uint32_t stride = ring_rq_stride(HOSTILE_SGES), engine, i;

	for (engine = 0; engine < ep->nb_engines; engine++) {
		for (i = 0; i < HOSTILE_XSRQS; i++) {
			struct xsrq *x = &he->xsrqs[engine][i];

			x->shared = (void *)arena_get(w, sizeof(*x->shared));
			x->ring = (struct ring){ .base = arena_get(w, (uint64_t)stride << HOSTILE_ORDER),
						 RING_SIZE(HOSTILE_ORDER, (uint32_t)__builtin_ctz(stride)) };
			if (x->shared == NULL || x->ring.base == NULL || !xsrq_renew(ep, he, engine, i))
				return false;
		}
	}
	return true;
}

uint32_t
hostile_srqn(struct hostile *h, const struct victim *v)
{
	return HOSTILE_SRQN + qp_engine(v->qp) * HOSTILE_XSRQS + (uint32_t)rng_below(&h->rng, HOSTILE_XSRQS);
}

static bool
victim_make(struct sim_world *w, struct hostile_ep *he, struct victim *v, uint32_t engine)
{
	static const enum uroce_qp_type types[] = { UROCE_QPT_RC, UROCE_QPT_RC, UROCE_QPT_UC, UROCE_QPT_UD };
	uint32_t sq_stride = ring_sq_stride(HOSTILE_SGES, HOSTILE_INLINE), rq_stride = ring_rq_stride(HOSTILE_SGES);
	struct qp_params p = {
		.pd = HOSTILE_PD,
		.send_cq = he->cq.cq,
		.recv_cq = he->cq.cq,
		.owner = v->ep,
		.cookie = SIM_HOSTILE_COOKIE,
		.cap = { 1 << HOSTILE_ORDER, 1 << HOSTILE_ORDER, HOSTILE_SGES, HOSTILE_SGES, HOSTILE_INLINE },
		.max_mtu = HOSTILE_MTU_CODE,
	};

	v->type = p.type = types[rng_below(&hostile.rng, 4)];
	if ((w->cfg.faults & SIM_F_XRC) && rng_one_in(&hostile.rng, 2))
		v->type = p.type = rng_one_in(&hostile.rng, 3) ? UROCE_QPT_XRC_SEND : UROCE_QPT_XRC_RECV;
	v->tp = v->ep->engines[engine].tp;
	v->with_srq = rng_one_in(&hostile.rng, 4);
	v->sq = (struct ring){ .base = arena_get(w, (uint64_t)sq_stride << HOSTILE_ORDER), RING_SIZE(HOSTILE_ORDER, (uint32_t)__builtin_ctz(sq_stride)) };
	v->rq = (struct ring){ .base = arena_get(w, (uint64_t)rq_stride << HOSTILE_ORDER), RING_SIZE(HOSTILE_ORDER, (uint32_t)__builtin_ctz(rq_stride)) };
	p.shared = (void *)arena_get(w, sizeof(*p.shared));
	if (v->sq.base == NULL || v->rq.base == NULL || p.shared == NULL)
		return false;
	p.sq = v->sq;
	p.rq = v->rq;
	if (v->with_srq) {
		p.srq = he->srq[engine];
		p.rq.base = NULL;
	}
	if (v->type == UROCE_QPT_XRC_SEND || v->type == UROCE_QPT_XRC_RECV) {
		p.recv_cq = NULL;
		p.srq = NULL;
		p.rq = (struct ring){ 0 };
	}
	if (v->type == UROCE_QPT_XRC_RECV) {
		p.send_cq = NULL;
		p.sq = (struct ring){ 0 };
		p.xrcd = HOSTILE_XRCD;
	}
	return qp_create(v->tp, &p, &v->qp) == 0;
}

static bool
hostile_ep_make(struct sim_world *w, struct sim_ep *ep, struct hostile_ep *he)
{
	uint32_t rq_stride = ring_rq_stride(HOSTILE_SGES), i, engine;
	struct cq_params c = {
		.channel = -1, .owner = ep, .cookie = SIM_HOSTILE_COOKIE, .multi = ep->nb_engines > 1
	};
	struct srq_params s = { .pd = HOSTILE_PD, .max_sge = HOSTILE_SGES, .owner = ep, .cookie = SIM_HOSTILE_COOKIE };
	uint8_t *area = arena_get(w, HOSTILE_AREA);

	he->cq.ring = (struct ring){ .base = arena_get(w, sizeof(struct ring_cqe) << CQ_ORDER),
				     RING_SIZE(CQ_ORDER, 5) };
	he->cq.shared = (void *)arena_get(w, sizeof(*he->cq.shared));
	if (area == NULL || he->cq.ring.base == NULL || he->cq.shared == NULL ||
	    sim_mr_create(ep, &he->area, area, HOSTILE_AREA, HOSTILE_PD, ALL_ACCESS, &hostile.rng) != 0)
		return false;
	if (mw_create(ep->sh.mrs, HOSTILE_PD, MW_TYPE_1, &he->windows[0]) != 0 ||
	    mw_create(ep->sh.mrs, HOSTILE_PD, MW_TYPE_2, &he->windows[1]) != 0)
		return false;
	c.ring = he->cq.ring;
	c.shared = he->cq.shared;
	if (cq_create(&c, &he->cq.cq) != 0)
		return false;
	for (i = 0; i < ep->nb_engines; i++) {
		s.shared = (void *)arena_get(w, sizeof(*s.shared));
		he->srq_ring[i] = (struct ring){ .base = arena_get(w, (uint64_t)rq_stride << HOSTILE_ORDER),
						 RING_SIZE(HOSTILE_ORDER, (uint32_t)__builtin_ctz(rq_stride)) };
		s.ring = he->srq_ring[i];
		if (s.shared == NULL || s.ring.base == NULL || srq_create(ep->engines[i].tp, &s, &he->srq[i]) != 0)
			return false;
	}
	if ((w->cfg.faults & SIM_F_XRC) && !xsrqs_make(w, ep, he))
		return false;
	for (i = 0; i < HOSTILE_VICTIMS; i++) {
		engine = (uint32_t)rng_below(&hostile.rng, ep->nb_engines);
		he->victims[i].ep = ep;
		if (!victim_make(w, he, &he->victims[i], engine))
			return false;
	}
	return true;
}

/* Whom each one talks to, if anybody. */
static bool
victim_connect(struct sim_world *w, struct victim *v, uint32_t i)
{
	struct sim_ep *to = &w->eps[rng_below(&hostile.rng, w->cfg.nb_eps)];

	v->peer = &hostile.eps[to->id].victims[i];
	path_to(v->ep, to, &v->path, &v->attr.ah);
	v->attr.path_mtu = HOSTILE_MTU_CODE;
	v->attr.port_num = 1;
	v->attr.qp_access_flags = QP_ACCESS;
	v->attr.qkey = HOSTILE_QKEY;
	v->attr.max_rd_atomic = v->attr.max_dest_rd_atomic = HOSTILE_RD;
	v->attr.timeout = TIMEOUT;
	v->attr.min_rnr_timer = 1;
	v->attr.retry_cnt = (uint8_t)rng_below(&hostile.rng, 8);
	v->attr.rnr_retry = (uint8_t)rng_below(&hostile.rng, 7);
	v->attr.dest_qp_num = rng_one_in(&hostile.rng, 4) ? 0xabcdef : qp_num(v->peer->qp);
	v->attr.rq_psn = v->attr.sq_psn = ((uint32_t)rng_below(&hostile.rng, 4096) - 100) & WIRE_PSN_MASK;
	return v->type != UROCE_QPT_UD || ah_create(v->ep->sh.ahs, HOSTILE_PD, &v->path, &v->ah) == 0;
}

bool
hostile_create(struct sim_world *w)
{
	uint32_t ep, i;

	memset(&hostile, 0, sizeof(hostile));
	w->hostile = (w->cfg.faults & SIM_F_HOSTILE) != 0;
	if ((w->cfg.faults & SIM_F_HOSTILE) == 0)
		return true;
	hostile.rng = rng_stream(w->cfg.seed, STREAM_HOSTILE);
	for (ep = 0; ep < w->cfg.nb_eps; ep++)
		if (!hostile_ep_make(w, &w->eps[ep], &hostile.eps[ep]))
			return false;
	for (ep = 0; ep < w->cfg.nb_eps; ep++)
		for (i = 0; i < HOSTILE_VICTIMS; i++)
			if (!victim_connect(w, &hostile.eps[ep].victims[i], i))
				return false;
	world_event_add(w, rng_below(&hostile.rng, GAP_NS), EV_HOSTILE, 0, NULL);
	return true;
}

void
hostile_destroy(struct sim_world *w)
{
	uint32_t ep, i;

	if (!w->hostile || hostile.destroyed)
		return;
	hostile.destroyed = true;
	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		struct hostile_ep *he = &hostile.eps[ep];

		for (i = 0; i < HOSTILE_VICTIMS; i++) {
			if (he->victims[i].qp != NULL)
				qp_destroy(he->victims[i].tp, he->victims[i].qp);
			if (he->victims[i].ah != 0)
				ah_destroy(w->eps[ep].sh.ahs, he->victims[i].ah);
		}
		for (i = 0; i < SIM_MAX_ENGINES; i++)
			if (he->srq[i] != NULL)
				srq_destroy(w->eps[ep].engines[i].tp, he->srq[i]);
		for (i = 0; i < SIM_MAX_ENGINES * HOSTILE_XSRQS; i++)
			if (he->xsrqs[i / HOSTILE_XSRQS][i % HOSTILE_XSRQS].srq != NULL)
				srq_destroy(w->eps[ep].engines[i / HOSTILE_XSRQS].tp,
					    he->xsrqs[i / HOSTILE_XSRQS][i % HOSTILE_XSRQS].srq);
		if (he->cq.cq != NULL)
			cq_destroy(he->cq.cq);
		for (i = 0; i < HOSTILE_WINDOWS; i++)
			if (he->windows[i] != NULL)
				mw_destroy_bulk(w->eps[ep].sh.mrs, &he->windows[i], 1);
		if (he->area.mr != NULL)
			mr_destroy(w->eps[ep].sh.mrs, he->area.mr);
	}
}

/* ---- States ---- */

static void
victim_modify(struct sim_world *w, struct victim *v, enum uroce_qp_state to)
{
	static const uint32_t rtr_rc = UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER,
			      rtr = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN,
			      rts_rc = UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY |
				       UROCE_QP_MAX_QP_RD_ATOMIC;
	bool requests = v->type == UROCE_QPT_RC || v->type == UROCE_QPT_XRC_SEND;
	bool responds = v->type == UROCE_QPT_RC || v->type == UROCE_QPT_XRC_RECV;
	enum uroce_qp_state from = qp_state(v->qp);
	struct uroce_qp_attr a = v->attr;
	uint32_t mask = UROCE_QP_STATE;
	const char *why;
	int rc;

	a.qp_state = to;
	if (from == UROCE_QPS_RESET && to == UROCE_QPS_INIT)
		mask |= UROCE_QP_PKEY_INDEX | UROCE_QP_PORT |
			(v->type == UROCE_QPT_UD ? UROCE_QP_QKEY : UROCE_QP_ACCESS_FLAGS);
	else if (from == UROCE_QPS_INIT && to == UROCE_QPS_RTR && v->type != UROCE_QPT_UD)
		mask |= rtr | (responds ? rtr_rc : 0);
	else if (from == UROCE_QPS_RTR && to == UROCE_QPS_RTS)
		mask |= UROCE_QP_SQ_PSN | (requests ? rts_rc : responds ? UROCE_QP_TIMEOUT : 0);
	rc = qp_modify(v->tp, v->qp, &a, mask, (mask & UROCE_QP_AV) ? &v->path : NULL, w->now_ns);
	/* It isn't brought back from SQE if its CQ has no room for what is flushed before. */
	if (from == UROCE_QPS_SQE && to == UROCE_QPS_RTS && rc != 0 && qp_state(v->qp) == UROCE_QPS_ERR)
		return;
	if (rc != qp_modify_check(v->type, from, &a, mask, UROCE_MTU_4096, &why))
		sim_fail(w, "victim: %s to %s gives %d", qp_state_name(from), qp_state_name(to), rc);
	if (rc != 0 && qp_state(v->qp) != from)
		sim_fail(w, "victim: a modify that was refused took it from %s to %s", qp_state_name(from),
			 qp_state_name(qp_state(v->qp)));
}

void
victim_to(struct sim_world *w, struct victim *v, enum uroce_qp_state to)
{
	uint32_t s;

	victim_modify(w, v, UROCE_QPS_RESET);
	for (s = UROCE_QPS_INIT; s <= UROCE_QPS_RTS && s <= (uint32_t)to; s++)
		victim_modify(w, v, (enum uroce_qp_state)s);
	if (to > UROCE_QPS_RTS)
		victim_modify(w, v, to);
}

/* ---- Rings ---- */

/* An address and key that is good, nearly good, or nothing. */
static void
garbage_sge(struct sim_world *w, const struct hostile_ep *he, struct ring_sge *s)
{
	struct rng *r = &hostile.rng;
	const struct sim_qp *q = &w->conns[rng_below(r, w->cfg.nb_conns)].qp[0];

	hostile_fill(r, s, sizeof(*s));
	if (rng_one_in(r, 8))
		return;
	s->length = (uint32_t)rng_below(r, rng_one_in(r, 4) ? HOSTILE_AREA + 8 : 600);
	s->addr = he->area.iova + rng_below(r, HOSTILE_AREA);
	s->lkey = he->area.key;
	if (rng_one_in(r, 16))
		s->lkey = q->target_mr.key; /* of another PD, maybe of another host */
}

/* A window's key as it is, or another of its keys. */
uint32_t
hostile_window_key(const struct hostile_ep *he)
{
	uint32_t key = mw_key(he->windows[rng_below(&hostile.rng, HOSTILE_WINDOWS)]);

	return rng_one_in(&hostile.rng, 2) ? key : key ^ (uint32_t)rng_below(&hostile.rng, 256);
}

/* Binds and invalidations that are mostly good. */
static void
window_op(const struct hostile_ep *he, struct ring_sq_wqe *e, union ring_sq_ctl *ctl)
{
	struct rng *r = &hostile.rng;
	uint64_t length = rng_below(r, HOSTILE_AREA);
	uint32_t access = (uint32_t)rng_below(r, 64) & MW_ACCESS_KNOWN;

	ctl->opcode = rng_one_in(r, 3) ? UROCE_WR_LOCAL_INV : UROCE_WR_BIND_MW;
	ctl->count = 0;
	wqe_put_imm(e, hostile_window_key(he));
	wqe_put_remote(e, he->area.iova + rng_below(r, HOSTILE_AREA), e->imm);
	if (ctl->opcode == UROCE_WR_BIND_MW)
		wqe_put_bind(e, length, he->area.key, access);
}

static void
garbage_send(struct sim_world *w, struct victim *v)
{
	const struct hostile_ep *he = &hostile.eps[v->ep->id], *there = &hostile.eps[v->peer->ep->id];
	struct ring_sq_wqe *e = ring_slot(&v->sq, v->sq.counter);
	union ring_sq_ctl ctl = { .word = rng_next(&hostile.rng) };
	struct rng *r = &hostile.rng;
	uint32_t i;

	if (v->type == UROCE_QPT_XRC_RECV)
		return;
	hostile_fill(r, e, 1u << v->sq.shift);
	for (i = 0; i < HOSTILE_SGES; i++)
		garbage_sge(w, he, &wqe_sges(e, ctl.opcode)[i]);
	if (!rng_one_in(r, 4)) {
		ctl.opcode = (uint8_t)rng_below(r, UROCE_WR_OPS);
		ctl.count = (uint16_t)rng_below(r, HOSTILE_SGES + 2);
		ctl.flags &= (uint8_t)~(rng_one_in(r, 2) ? UROCE_SEND_INLINE : 0);
		e->remote_addr = there->area.iova + rng_below(r, HOSTILE_AREA) / 8 * 8;
		e->rkey = rng_one_in(r, 4) ? hostile_window_key(there) : there->area.key;
		if (ctl.opcode == UROCE_WR_SEND_WITH_INV)
			wqe_put_imm(e, hostile_window_key(there));
		if (rng_one_in(r, 8))
			window_op(he, e, &ctl);
		ctl.srqn = hostile_srqn(&hostile, v);
	}
	if (v->type == UROCE_QPT_UD && !rng_one_in(r, 4))
		wqe_put_ud(e, v->ah, qp_num(v->peer->qp), HOSTILE_QKEY);
	ring_sq_post(&v->sq, v->sq.counter++, e, ctl);
}

static void
garbage_recv(struct sim_world *w, struct victim *v)
{
	struct hostile_ep *he = &hostile.eps[v->ep->id];
	struct ring *ring = v->type == UROCE_QPT_XRC_RECV ?
				    &he->xsrqs[qp_engine(v->qp)][rng_below(&hostile.rng, HOSTILE_XSRQS)].ring :
			    v->with_srq ? &he->srq_ring[qp_engine(v->qp)] :
					  &v->rq;
	struct ring_rq_wqe *e = ring_slot(ring, ring->counter);
	union ring_rq_ctl ctl = { .word = rng_next(&hostile.rng) };
	uint32_t i;

	hostile_fill(&hostile.rng, e, 1u << ring->shift);
	for (i = 0; i < HOSTILE_SGES; i++)
		garbage_sge(w, he, &e->sge[i]);
	if (!rng_one_in(&hostile.rng, 8))
		ctl.num_sge = (uint16_t)rng_below(&hostile.rng, HOSTILE_SGES + 2);
	ctl.phase = ring_phase(ring->counter, ring->order);
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
	ring->counter++;
}

/* Its CQ: polled, or said to be polled, or forgotten. */
static void
cq_nonsense(struct hostile_ep *he)
{
	union ring_cqe_ctl ctl;

	while (ring_cq_ready(&he->cq.ring, he->cq.ring.counter, &ctl))
		he->cq.ring.counter++;
	atomic_store(&he->cq.shared->cons,
		     rng_one_in(&hostile.rng, 16) ? (uint32_t)rng_next(&hostile.rng) : he->cq.ring.counter);
	atomic_store(&he->cq.shared->arm, (uint32_t)rng_below(&hostile.rng, 4));
}

/* ---- A turn ---- */

static void
torment(struct sim_world *w, struct victim *v)
{
	struct rng *r = &hostile.rng;
	unsigned int i;

	switch (rng_below(r, 12)) {
	case 0:
		victim_modify(w, v, (enum uroce_qp_state)rng_below(r, UROCE_QPS_STATES));
		break;
	case 1:
	case 2:
		victim_to(w, v, (enum uroce_qp_state)rng_between(r, UROCE_QPS_RTR, UROCE_QPS_ERR));
		break;
	case 3:
	case 4:
		for (i = 0; i < 1u << rng_below(r, HOSTILE_ORDER + 1); i++)
			garbage_send(w, v);
		break;
	case 5:
		for (i = 0; i < 1u << rng_below(r, HOSTILE_ORDER + 1); i++)
			garbage_recv(w, v);
		break;
	case 6:
		cq_nonsense(&hostile.eps[v->ep->id]);
		break;
	case 7:
		if (v->type == UROCE_QPT_XRC_RECV && rng_one_in(r, 2))
			xsrq_renew(v->ep, &hostile.eps[v->ep->id], qp_engine(v->qp),
				   (uint32_t)rng_below(r, HOSTILE_XSRQS));
		else
			bad_request(w, &hostile, v);
		break;
	default:
		for (i = 0; i < 4; i++)
			hostile_packet(w, &hostile, v);
		break;
	}
	if (rng_one_in(r, 2))
		qp_doorbell(v->tp, v->qp);
	world_run_at(w, v->ep->id, w->now_ns);
}

void
hostile_turn(struct sim_world *w)
{
	struct rng *r = &hostile.rng;
	struct sim_qp *q = &w->conns[rng_below(r, w->cfg.nb_conns)].qp[rng_below(r, 2)];

	if (w->settled) {
		/* The good programs are through: nothing of the bad ones may go on by itself. */
		hostile_destroy(w);
		return;
	}
	torment(w, &hostile.eps[rng_below(r, w->cfg.nb_eps)].victims[rng_below(r, HOSTILE_VICTIMS)]);
	if (q->qp != NULL && q->foreign == NULL)
		bad_packet_for(w, &hostile, q);
	world_event_add(w, w->now_ns + rng_between(r, 1, GAP_NS) * (1 + w->stats.events / 10000), EV_HOSTILE, 0, NULL);
}
