/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as they begin: memory, QPs and their attributes. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
	STREAM_CONN = 128,
	STREAM_PORTS = 16384,
	MAX_SEGS = 5,
	MAX_DEPTH_ORDER = 6,
	GRH_BYTES = 40,
	/* What one QP may take of the arena. */
	QP_MEMORY_BYTES = 7 << 20,
	SIDE_MR_BYTES = 4096,
	/* 4.096 us << n: 2 to 17 ms, far above any round trip here and any down time that isn't harsh. */
	TIMEOUT_MIN = 9,
	TIMEOUT_MAX = 12,
	HARSH_TIMEOUT_MIN = 5,
};
#define WINDOW_ACCESS (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_MW_BIND)
#define TARGET_ACCESS \
	(UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_FLUSH_GLOBAL)

int
sim_mr_create(struct sim_ep *ep, struct sim_mr *m, uint8_t *base, uint32_t len, uint32_t pd, uint32_t access,
	      struct rng *r)
{
	bool remote = (ep->w->cfg.faults & SIM_F_REMOTE_MEM) && rng_one_in(r, 2);
	uint32_t n = rng_one_in(r, 3) ? (uint32_t)rng_between(r, 1, MAX_SEGS) : 1, i, at = 0, to;
	struct mem_seg segs[MAX_SEGS];
	struct mr_params p = {
		.pd = pd, .access = access, .addr = (uintptr_t)base, .length = len, .segs = segs, .owner = &ep->owner,
	};

	/* Cuts at odd places, but never through an atomic's eight bytes. */
	for (i = 0; at < len; i++) {
		to = i == n - 1 ? len : at + (uint32_t)rng_between(r, 1, len - at);
		to = to == len ? len : (to + 7) & ~7u;
		if (to > len)
			to = len;
		segs[i] = (struct mem_seg){
			.va = (uintptr_t)base + at,
			.length = to - at,
			.host = remote && (i & 1) == 0 ? NULL : base + at,
		};
		at = to;
	}
	p.nb_segs = i;
	p.iova = rng_one_in(r, 2) ? p.addr : rng_below(r, UINT64_C(1) << 40) * 4096;
	if (mr_create(ep->sh.mrs, &p, &m->mr) != 0)
		return -1;
	*m = (struct sim_mr){ .mr = m->mr, .base = base, .len = len, .key = m->mr->key, .iova = m->mr->iova };
	return 0;
}

void
sim_mr_free(struct sim_ep *ep, struct sim_mr *m)
{
	if (m->mr != NULL)
		mr_destroy(ep->sh.mrs, m->mr);
	m->mr = NULL;
	ep->cuts++;
}

static bool
mr_again(struct sim_qp *q, struct sim_mr *m, uint32_t access)
{
	return m->mr != NULL || m->base == NULL ||
	       sim_mr_create(q->ep, m, m->base, m->len, SIM_PD, access, &q->rng) == 0;
}

bool
mrs_again(struct sim_qp *q)
{
	return mr_again(q, &q->src_mr, UROCE_ACCESS_MW_BIND) && mr_again(q, &q->window_mr, WINDOW_ACCESS) &&
	       mr_again(q, &q->dest_mr, UROCE_ACCESS_LOCAL_WRITE) &&
	       mr_again(q, &q->own_rq.mr, UROCE_ACCESS_LOCAL_WRITE) && mr_again(q, &q->target_mr, TARGET_ACCESS);
}

static void
port_address(const struct sim_ep *ep, uint16_t port, bool ip6, uint8_t ip[16])
{
	memset(ip, 0, 16);
	if (ip6) {
		ip[0] = 0xfd;
		ip[13] = (uint8_t)port;
		ip[15] = (uint8_t)(ep->id + 1);
	} else {
		ip[0] = 10;
		ip[1] = (uint8_t)port;
		ip[3] = (uint8_t)(ep->id + 1);
	}
}

static void
port_mac(const struct sim_ep *ep, uint16_t port, uint8_t mac[6])
{
	mac[0] = 2;
	mac[4] = (uint8_t)port;
	mac[5] = (uint8_t)ep->id;
}

void
path_make(const struct sim_ep *from, uint16_t from_port, const struct sim_ep *to, uint16_t to_port, bool ip6, struct rng *r,
	  struct tp_path *path, struct uroce_ah_attr *ah)
{
	struct wire_addr *a = &path->addr;

	memset(ah, 0, sizeof(*ah));
	memset(path, 0, sizeof(*path));
	port_address(from, from_port, ip6, a->sip);
	port_address(to, to_port, ip6, a->dip);
	memcpy(ah->dgid, gid_from_ip(ip6 ? 6 : 4, a->dip).raw, sizeof(ah->dgid));
	port_mac(from, from_port, a->smac);
	port_mac(to, to_port, a->dmac);
	a->ip_version = ip6 ? 6 : 4;
	ah->is_global = 1;
	ah->port_num = 1; /* a device for each port */
	ah->traffic_class = a->traffic_class = (uint8_t)(rng_below(r, 64) << 2);
	ah->hop_limit = rng_one_in(r, 2) ? 0 : 255;
	a->ttl = ah->hop_limit == 0 ? 64 : ah->hop_limit;
	if (rng_one_in(r, 2)) {
		ah->flow_label = a->flow_label = (uint32_t)rng_between(r, 1, 0xfffff);
		a->sport = wire_flow_label_to_sport(a->flow_label);
	}
	path->pkey = WIRE_PKEY_DEFAULT;
	path->port = from_port;
	path->loopback = from == to && from_port == to_port;
}

/* Both ends draw from their own stream; what must fit together comes from the connection's. */
static void
qp_attributes(struct sim_world *w, struct sim_qp *q, uint32_t mtu_code)
{
	struct uroce_qp_attr *a = &q->attr;
	struct rng *r = &q->rng;
	bool harsh = w->cfg.harsh;

	a->port_num = 1;
	a->qp_access_flags = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
			     UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_FLUSH_GLOBAL;
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && rng_one_in(r, (w->cfg.faults & SIM_F_WINDOWS) ? 16 : 4))
		a->qp_access_flags &= (uint32_t)rng_below(r, 16);
	/* Those in a group need one in common, but not all of them have it. */
	a->qkey = 0x11111111 * ((w->cfg.faults & SIM_F_MCAST ? q->conn->id % 2 : q->conn->id) + 1);
	a->path_mtu = mtu_code;
	q->mtu = 128u << mtu_code;
	a->timeout = (uint8_t)rng_between(r, harsh ? HARSH_TIMEOUT_MIN : TIMEOUT_MIN, TIMEOUT_MAX);
	if (w->cfg.faults & SIM_F_RESTART)
		a->timeout += SIM_RESTART_TIMEOUT;
	/* 0: waits for ever, which is no mistake where nothing gets lost and nobody dies. */
	if (w->cfg.lossless && !harsh && (w->cfg.faults & SIM_F_ENDS) == 0 && rng_one_in(r, 4))
		a->timeout = 0;
	a->retry_cnt = harsh ? (uint8_t)rng_below(r, 8) : 7;
	a->rnr_retry = harsh || ((w->cfg.faults & SIM_F_ERR) && rng_one_in(r, 3)) ? (uint8_t)rng_below(r, 8) : 7;
	a->min_rnr_timer = (uint8_t)(rng_one_in(r, 20) ? 0 : rng_between(r, 1, 14));
	a->max_rd_atomic = (uint8_t)rng_between(r, 1, rng_one_in(r, 3) ? UROCE_MAX_RD_ATOMIC : 4);
}

static uint32_t
random_psn(struct rng *r)
{
	/* Often about to wrap. */
	return rng_one_in(r, 3) ? WIRE_PSN_MASK - (uint32_t)rng_below(r, 64) : (uint32_t)rng_below(r, 1 << 24);
}

static bool
qp_memory(struct sim_world *w, struct sim_qp *q)
{
	uint32_t order, target = 2 * w->cfg.max_len + 64, dest_bytes, rq_depth;
	uint8_t *dest, *tgt, *side, *side2;
	const uint32_t rw = UROCE_ACCESS_LOCAL_WRITE;

	q->buf_stride = (w->cfg.max_len + (SIM_MAX_SGE + 1) * SIM_CANARY_BYTES + 63) & ~63u;
	order = (uint32_t)rng_between(&q->rng, 1, MAX_DEPTH_ORDER);
	while (order > 1 && (UINT64_C(3) << order) * q->buf_stride + target > QP_MEMORY_BYTES)
		order--;
	q->sq_depth = 1u << order;
	rq_depth = (w->cfg.faults & SIM_F_SMALL_RQ) ? 1u << rng_below(&q->rng, 2) : q->sq_depth;
	q->own_rq.ep = q->ep;
	q->own_rq.rng = &q->rng;
	q->own_rq.max_sge = (uint32_t)rng_between(&q->rng, 1, SIM_MAX_SGE);
	if (q->rq == &q->own_rq && !q->conn->xrc &&
	    !recvq_memory(w, q->rq, rq_depth, w->cfg.max_len + (q->conn->type == UROCE_QPT_UD ? GRH_BYTES : 0)))
		return false;
	q->nb_dest_bufs = 2 * q->sq_depth;
	dest_bytes = q->nb_dest_bufs * q->buf_stride;
	dest = arena_get(w, dest_bytes);
	tgt = arena_get(w, target);
	side = arena_get(w, SIDE_MR_BYTES);
	side2 = arena_get(w, SIDE_MR_BYTES);
	if (dest == NULL || tgt == NULL || side == NULL || side2 == NULL)
		return false;
	if (sim_mr_create(q->ep, &q->stale_mr, side, SIDE_MR_BYTES, SIM_PD,
			  rw | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
			  &q->rng) != 0)
		return false;
	sim_mr_free(q->ep, &q->stale_mr);
	if ((w->cfg.faults & SIM_F_WINDOWS) && q->conn->type != UROCE_QPT_UD &&
	    sim_mr_create(q->ep, &q->window_mr, tgt, target, SIM_PD, WINDOW_ACCESS, &q->rng) != 0)
		return false;
	return sim_mr_create(q->ep, &q->src_mr, sim_pattern, SIM_PATTERN_BYTES, SIM_PD, UROCE_ACCESS_MW_BIND,
			     &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->dest_mr, dest, dest_bytes, SIM_PD, rw, &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->target_mr, tgt, target, SIM_PD, TARGET_ACCESS, &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->noaccess_mr, side, SIDE_MR_BYTES, SIM_PD, rw, &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->other_pd_mr, side2, SIDE_MR_BYTES, SIM_SECOND_PD,
			     rw | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
			     &q->rng) == 0;
}

static uint32_t
log2_of(uint32_t v)
{
	return 31 - (uint32_t)__builtin_clz(v);
}

static bool
qp_rings(struct sim_world *w, struct sim_qp *q)
{
	struct uroce_qp_cap *cap = &q->params.cap;
	uint32_t sq_stride;

	cap->max_send_wr = q->sq_depth;
	cap->max_recv_wr = q->own_rq.depth;
	cap->max_send_sge = (uint32_t)rng_between(&q->rng, 1, SIM_MAX_SGE);
	cap->max_recv_sge = q->own_rq.max_sge;
	cap->max_inline_data = rng_one_in(&q->rng, 2) ? 0 : (uint32_t)rng_between(&q->rng, 1, SIM_MAX_INLINE);
	sq_stride = ring_sq_stride(cap->max_send_sge, cap->max_inline_data);
	q->sq = (struct ring){ .base = arena_get(w, (uint64_t)sq_stride * q->sq_depth),
			       RING_SIZE(log2_of(q->sq_depth), log2_of(sq_stride)) };
	q->shared = (void *)arena_get(w, sizeof(*q->shared));
	return q->sq.base != NULL && q->shared != NULL;
}

/* The QP of a foreign end never sees what its program posts. */
static bool
rings_apart(struct sim_world *w, struct qp_params *p)
{
	p->sq.base = arena_get(w, UINT64_C(1) << (p->sq.order + p->sq.shift));
	if (p->rq.base == NULL)
		return p->sq.base != NULL;
	p->rq.base = arena_get(w, UINT64_C(1) << (p->rq.order + p->rq.shift));
	return p->sq.base != NULL && p->rq.base != NULL;
}

static bool
qp_make(struct sim_world *w, struct sim_qp *q)
{
	struct qp_params *p = &q->params;
	struct sim_ep *ep = q->ep;

	q->rq = &q->own_rq;
	q->tp = ep->engines[rng_below(&q->rng, ep->nb_engines)].tp;
	if (!q->conn->xrc && q->foreign == NULL && ep->nb_srqs != 0 && rng_one_in(&q->rng, 2)) {
		q->rq = &ep->srqs[rng_below(&q->rng, ep->nb_srqs)];
		q->tp = q->rq->tp;
	}
	q->send_cq = &ep->cqs[rng_below(&q->rng, ep->nb_cqs)];
	q->recv_cq = &ep->cqs[rng_below(&q->rng, ep->nb_cqs)];
	if (q->conn->xrc && q == &q->conn->qp[1]) {
		q->rq = &ep->xsrqs[0];
		q->tp = q->rq->tp;
	}
	if (!qp_memory(w, q) || !qp_rings(w, q))
		return false;
	p->type = q->conn->type;
	p->port = q->port;
	p->max_mtu = p->type == UROCE_QPT_UD ? q->conn->mtu_code : 0;
	p->pd = SIM_PD;
	p->send_cq = q->send_cq->cq;
	p->recv_cq = q->recv_cq->cq;
	p->sq_sig_all = rng_one_in(&q->rng, 4);
	p->sq = q->sq;
	p->rq = q->own_rq.ring;
	p->srq = q->rq->srq;
	p->shared = q->shared;
	p->cookie = (uintptr_t)q;
	p->owner = q->ep;
	if (q->conn->xrc)
		xrc_qp_parts(q);
	if (q->foreign != NULL && !rings_apart(w, p))
		return false;
	p->share = shares_choose(w, ep, q->tp, q->id);
	if (qp_create(q->tp, p, &q->qp) != 0)
		return false;
	q->qpn = qp_num(q->qp);
	program_init(w, q);
	return q->ops != NULL;
}

void
conn_attributes(struct sim_world *w, struct sim_conn *c)
{
	uint32_t i;
	bool ip6 = rng_one_in(&c->rng, 2);

	for (i = 0; i < 2; i++) {
		path_make(c->qp[i].ep, c->qp[i].port, c->qp[!i].ep, c->qp[!i].port, ip6, &c->rng, &c->qp[i].path, &c->qp[i].attr.ah);
		qp_attributes(w, &c->qp[i], c->mtu_code);
		c->qp[i].attr.dest_qp_num = c->qp[!i].qpn;
		c->qp[i].psn_next = c->qp[i].attr.sq_psn;
		c->qp[i].attr.rq_psn = c->qp[!i].attr.sq_psn;
		/* The CM will tell. */
		if (c->by_cm)
			c->qp[i].attr.dest_qp_num = c->qp[i].attr.rq_psn = 0;
	}
	for (i = 0; i < 2; i++)
		c->qp[i].attr.max_dest_rd_atomic = c->qp[!i].attr.max_rd_atomic;
	partitions_choose(w, c);
	paths_begin(w, c);
}

/* Which ports its ends use. Those of one host may be connected with one another, over the network. */
static void
ports_choose(struct sim_world *w, struct sim_conn *c, uint32_t a, uint32_t *b)
{
	struct rng r = rng_stream(w->cfg.seed, STREAM_PORTS + c->id);

	if ((w->cfg.faults & SIM_F_PORTS) == 0)
		return;
	if (!c->loopback && w->eps[a].nb_ports > 1 && rng_one_in(&r, 3))
		*b = a;
	c->qp[0].port = (uint16_t)rng_below(&r, w->eps[a].nb_ports);
	c->qp[1].port = (uint16_t)rng_below(&r, w->eps[*b].nb_ports);
	if (c->loopback)
		c->qp[1].port = c->qp[0].port;
	else if (*b == a)
		c->qp[1].port = !c->qp[0].port;
}

static enum uroce_qp_type
random_type(const struct sim_world *w, struct rng *r)
{
	if ((w->cfg.faults & SIM_F_UNRELIABLE) == 0 || rng_one_in(r, 3))
		return UROCE_QPT_RC;
	return rng_one_in(r, 2) ? UROCE_QPT_UC : UROCE_QPT_UD;
}

bool
conn_create(struct sim_world *w, struct sim_conn *c)
{
	struct rng *r = &c->rng;
	uint32_t a, b, i;

	*r = rng_stream(w->cfg.seed, STREAM_CONN + c->id);
	a = (uint32_t)rng_below(r, w->cfg.nb_eps);
	c->loopback = (w->cfg.faults & SIM_F_LOOPBACK) && rng_one_in(r, 2);
	b = c->loopback ? a : (a + 1 + (uint32_t)rng_below(r, w->cfg.nb_eps - 1)) % w->cfg.nb_eps;
	ports_choose(w, c, a, &b);
	c->type = random_type(w, r);
	c->xrc = c->type == UROCE_QPT_RC && w->eps[b].nb_xsrqs != 0 && rng_one_in(r, 2);
	c->mtu_code = (uint32_t)rng_between(r, UROCE_MTU_256, w->cfg.max_mtu);
	/* Of UC and UD what is still under way would be taken for the new program's. */
	c->rounds_left = (w->cfg.faults & SIM_F_RECONNECT) && c->type == UROCE_QPT_RC ? (uint32_t)rng_between(r, 1, 3)
										      : 0;
	foreign_choose(w, c);
	connect_choose(w, c);
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		q->id = 2 * c->id + i;
		q->conn = c;
		q->ep = &w->eps[i == 0 ? a : b];
		q->peer = &c->qp[!i];
		q->rng = rng_stream(w->cfg.seed, STREAM_CONN * 2 + q->id);
		if (!qp_make(w, q))
			return false;
		q->attr.sq_psn = random_psn(r);
	}
	conn_attributes(w, c);
	return true;
}

/* UD: from q to another QP, if q ever sends to it. */
static bool
way_to(struct sim_world *w, struct sim_qp *q, const struct sim_qp *to)
{
	struct uroce_ah_attr ah;

	if (q == to || to->params.type != UROCE_QPT_UD)
		return true;
	if (to == q->peer)
		q->paths[to->id] = q->path;
	else if (w->cfg.faults & SIM_F_ANY)
		path_make(q->ep, q->port, to->ep, to->port, to->path.addr.ip_version == 6, &q->rng, &q->paths[to->id], &ah);
	else
		return true;
	return ah_create(q->ep->sh.ahs, SIM_PD, &q->paths[to->id], &q->ahs[to->id]) == 0;
}

bool
conns_join(struct sim_world *w)
{
	uint32_t i, k, n = 2 * w->cfg.nb_conns;

	for (i = 0; i < n; i++)
		for (k = 0; k < n && w->conns[i / 2].type == UROCE_QPT_UD; k++)
			if (!way_to(w, &w->conns[i / 2].qp[i & 1], &w->conns[k / 2].qp[k & 1]))
				return false;
	return mcast_make(w);
}
