/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: memory, QPs, and their states from RESET to the end. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
	STREAM_CONN = 128,
	PD = 1,
	MAX_SEGS = 5,
	MAX_DEPTH_ORDER = 6,
	GRH_BYTES = 40,
	QUIET_NS = 20000000, /* longer than anything stays in the network */
	/* What one QP may take of the arena. */
	QP_MEMORY_BYTES = 7 << 20,
	SIDE_MR_BYTES = 4096,
	/* 4.096 us << n: 2 to 17 ms, far above any round trip here and any down time that isn't harsh. */
	TIMEOUT_MIN = 9,
	TIMEOUT_MAX = 12,
	HARSH_TIMEOUT_MIN = 5,
};
#define TARGET_ACCESS (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ)
#define SQD_DRAIN_NS (60 * SIM_NS_PER_S)

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
	if (mr_create(ep->mrs, &p, &m->mr) != 0)
		return -1;
	*m = (struct sim_mr){ .mr = m->mr, .base = base, .len = len, .key = m->mr->key, .iova = m->mr->iova };
	return 0;
}

static void
mr_free(struct sim_ep *ep, struct sim_mr *m)
{
	if (m->mr != NULL)
		mr_destroy(ep->mrs, m->mr);
	m->mr = NULL;
}

static void
qp_address(const struct sim_qp *q, bool ip6, uint8_t ip[16], uint8_t gid[16])
{
	memset(ip, 0, 16);
	memset(gid, 0, 16);
	if (ip6) {
		ip[0] = 0xfd;
		ip[15] = (uint8_t)(q->ep->id + 1);
		memcpy(gid, ip, 16);
	} else {
		ip[0] = 10;
		ip[3] = (uint8_t)(q->ep->id + 1);
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, ip, 4);
	}
}

static void
qp_path(struct sim_qp *q, bool ip6, struct rng *r)
{
	struct wire_addr *a = &q->path.addr;
	struct uroce_ah_attr *ah = &q->attr.ah;
	uint8_t own_gid[16];

	memset(ah, 0, sizeof(*ah));
	memset(&q->path, 0, sizeof(q->path));
	qp_address(q, ip6, a->sip, own_gid);
	qp_address(q->peer, ip6, a->dip, ah->dgid);
	a->smac[0] = a->dmac[0] = 2;
	a->smac[5] = (uint8_t)q->ep->id;
	a->dmac[5] = (uint8_t)q->peer->ep->id;
	a->ip_version = ip6 ? 6 : 4;
	ah->is_global = 1;
	ah->port_num = 1;
	ah->traffic_class = a->traffic_class = (uint8_t)(rng_below(r, 64) << 2);
	ah->hop_limit = rng_one_in(r, 2) ? 0 : 255;
	a->ttl = ah->hop_limit == 0 ? 64 : ah->hop_limit;
	if (rng_one_in(r, 2)) {
		ah->flow_label = a->flow_label = (uint32_t)rng_between(r, 1, 0xfffff);
		a->sport = wire_flow_label_to_sport(a->flow_label);
	}
	q->path.pkey = WIRE_PKEY_DEFAULT;
	q->path.loopback = q->conn->loopback;
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
			     UROCE_ACCESS_REMOTE_ATOMIC;
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && rng_one_in(r, 4))
		a->qp_access_flags &= (uint32_t)rng_below(r, 16);
	a->qkey = 0x11111111 * (q->conn->id + 1);
	a->path_mtu = mtu_code;
	q->mtu = 128u << mtu_code;
	a->timeout = (uint8_t)rng_between(r, harsh ? HARSH_TIMEOUT_MIN : TIMEOUT_MIN, TIMEOUT_MAX);
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
	if (q->rq == &q->own_rq &&
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
	if (sim_mr_create(q->ep, &q->stale_mr, side, SIDE_MR_BYTES, PD,
			  rw | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
			  &q->rng) != 0)
		return false;
	mr_free(q->ep, &q->stale_mr);
	return sim_mr_create(q->ep, &q->src_mr, sim_pattern, SIM_PATTERN_BYTES, PD, 0, &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->dest_mr, dest, dest_bytes, PD, rw, &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->target_mr, tgt, target, PD, TARGET_ACCESS, &q->rng) == 0 &&
	       sim_mr_create(q->ep, &q->noaccess_mr, side, SIDE_MR_BYTES, PD, rw, &q->rng) == 0 &&
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
			       .order = log2_of(q->sq_depth), .shift = log2_of(sq_stride) };
	q->shared = (void *)arena_get(w, sizeof(*q->shared));
	return q->sq.base != NULL && q->shared != NULL;
}

static bool
qp_make(struct sim_world *w, struct sim_qp *q)
{
	struct qp_params *p = &q->params;
	struct sim_ep *ep = q->ep;

	q->rq = &q->own_rq;
	q->tp = ep->engines[rng_below(&q->rng, ep->nb_engines)].tp;
	if (ep->nb_srqs != 0 && rng_one_in(&q->rng, 2)) {
		q->rq = &ep->srqs[rng_below(&q->rng, ep->nb_srqs)];
		q->tp = q->rq->tp;
	}
	q->send_cq = &ep->cqs[rng_below(&q->rng, ep->nb_cqs)];
	q->recv_cq = &ep->cqs[rng_below(&q->rng, ep->nb_cqs)];
	if (!qp_memory(w, q) || !qp_rings(w, q))
		return false;
	p->type = q->conn->type;
	p->max_mtu = p->type == UROCE_QPT_UD ? q->conn->mtu_code : 0;
	p->pd = PD;
	p->send_cq = q->send_cq->cq;
	p->recv_cq = q->recv_cq->cq;
	p->sq_sig_all = rng_one_in(&q->rng, 4);
	p->sq = q->sq;
	p->rq = q->own_rq.ring;
	p->srq = q->rq->srq;
	p->shared = q->shared;
	p->cookie = (uintptr_t)q;
	p->owner = q->ep;
	if (qp_create(q->tp, p, &q->qp) != 0)
		return false;
	q->qpn = qp_num(q->qp);
	program_init(w, q);
	return q->ops != NULL;
}

/* Draw what both ends must agree on. The PSNs to start from stand in sq_psn. */
static void
conn_attributes(struct sim_world *w, struct sim_conn *c)
{
	uint32_t i;
	bool ip6 = rng_one_in(&c->rng, 2);

	for (i = 0; i < 2; i++) {
		qp_path(&c->qp[i], ip6, &c->rng);
		qp_attributes(w, &c->qp[i], c->mtu_code);
		c->qp[i].attr.dest_qp_num = c->qp[!i].qpn;
		c->qp[i].psn_next = c->qp[i].attr.sq_psn;
		c->qp[i].attr.rq_psn = c->qp[!i].attr.sq_psn;
	}
	for (i = 0; i < 2; i++)
		c->qp[i].attr.max_dest_rd_atomic = c->qp[!i].attr.max_rd_atomic;
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
	c->type = random_type(w, r);
	c->mtu_code = (uint32_t)rng_between(r, UROCE_MTU_256, w->cfg.max_mtu);
	/* Of UC and UD what is still under way would be taken for the new program's. */
	c->rounds_left = (w->cfg.faults & SIM_F_RECONNECT) && c->type == UROCE_QPT_RC ? (uint32_t)rng_between(r, 1, 3)
										      : 0;
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
	for (i = 0; i < 2 && c->type == UROCE_QPT_UD; i++)
		if (ah_create(c->qp[i].ep->ahs, PD, &c->qp[i].path, &c->qp[i].ah) != 0)
			return false;
	return true;
}

/* ---- States ---- */

/* What each step needs (man ibv_modify_qp). */
static const uint32_t to_state[UROCE_QPT_UD + 1][UROCE_QPS_STATES] = {
	[UROCE_QPT_RC] = {
		[UROCE_QPS_INIT] = UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		[UROCE_QPS_RTR] = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
				  UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER,
		[UROCE_QPS_RTS] = UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_SQ_PSN |
				  UROCE_QP_MAX_QP_RD_ATOMIC,
		[UROCE_QPS_SQD] = UROCE_QP_EN_SQD_ASYNC_NOTIFY,
	},
	[UROCE_QPT_UC] = {
		[UROCE_QPS_INIT] = UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		[UROCE_QPS_RTR] = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN,
		[UROCE_QPS_RTS] = UROCE_QP_SQ_PSN,
		[UROCE_QPS_SQD] = UROCE_QP_EN_SQD_ASYNC_NOTIFY,
	},
	[UROCE_QPT_UD] = {
		[UROCE_QPS_INIT] = UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY,
		[UROCE_QPS_RTS] = UROCE_QP_SQ_PSN,
		[UROCE_QPS_SQD] = UROCE_QP_EN_SQD_ASYNC_NOTIFY,
	},
};

static void
modify_with(struct sim_world *w, struct sim_qp *q, enum uroce_qp_state to, uint32_t mask)
{
	enum uroce_qp_state from = qp_state(q->qp);
	struct uroce_qp_attr a = q->attr;
	const char *why = "?";

	a.qp_state = to;
	a.en_sqd_async_notify = 1;
	mask |= UROCE_QP_STATE;
	sim_trace(w, "QP %u: %s to %s", q->id, qp_state_name(from), qp_state_name(to));
	if (qp_modify(q->tp, q->qp, &a, mask, (mask & UROCE_QP_AV) ? &q->path : NULL, w->now_ns) != 0) {
		qp_modify_check(q->params.type, from, &a, mask, UROCE_MTU_4096, &why);
		sim_fail(w, "QP %u: %s to %s refused: %s", q->id, qp_state_name(from), qp_state_name(to), why);
	} else if (qp_state(q->qp) != to) {
		sim_fail(w, "QP %u: is %s after a modify to %s", q->id, qp_state_name(qp_state(q->qp)),
			 qp_state_name(to));
	}
	world_run_at(w, q->ep->id, w->now_ns);
}

static void
modify(struct sim_world *w, struct sim_qp *q, enum uroce_qp_state to)
{
	bool again = qp_state(q->qp) == UROCE_QPS_SQD || qp_state(q->qp) == UROCE_QPS_SQE;

	modify_with(w, q, to, again ? 0 : to_state[q->params.type][to]);
}

static void
to_err(struct sim_world *w, struct sim_qp *q)
{
	q->client_err = true;
	modify(w, q, UROCE_QPS_ERR);
}

/* All that a program can do with a QP whose CQ is in error (11.6.3.1): throw it away. */
static void
abandon(struct sim_world *w, struct sim_qp *q)
{
	q->client_err = q->abandoned = true;
	q->rq->nb_lost += q->rq->srq != NULL;
	q->conn->rounds_left = q->conn->rounds_left != 0 && qp_cq_dead(q) ? 0 : q->conn->rounds_left;
	modify(w, q, UROCE_QPS_RESET);
}

static void
bring_up(struct sim_world *w, struct sim_qp *q)
{
	enum uroce_qp_state s = qp_state(q->qp), peer = qp_state(q->peer->qp);

	if (qp_cq_dead(q) && !q->abandoned)
		abandon(w, q);
	if (q->abandoned)
		q->ready = true; /* its CQ broke before it was up */
	if (q->abandoned || rng_one_in(&q->rng, 3))
		return;
	if (s == UROCE_QPS_RESET) {
		modify(w, q, UROCE_QPS_INIT);
	} else if (s == UROCE_QPS_INIT) {
		modify(w, q, UROCE_QPS_RTR);
	} else if (s == UROCE_QPS_RTR &&
		   (q->peer->abandoned || (peer != UROCE_QPS_RESET && peer != UROCE_QPS_INIT))) {
		modify(w, q, UROCE_QPS_RTS);
		q->ready = true;
	} else if (s == UROCE_QPS_ERR) {
		q->ready = true; /* what the peer sent was an error already; posts are flushed */
	}
}

/* One of the regions that its own WQEs name goes. */
static void
local_dereg(struct sim_world *w, struct sim_qp *q)
{
	struct sim_mr *mrs[] = { &q->src_mr, &q->dest_mr, &q->own_rq.mr };

	q->local_dereg_at = UINT32_MAX;
	q->local_dereg = mrs[rng_below(&q->rng, q->rq == &q->own_rq ? 3 : 2)];
	sim_trace(w, "QP %u: deregisters key 0x%x, which its own WQEs name", q->id, q->local_dereg->key);
	mr_free(q->ep, q->local_dereg);
}

/* A send error stops only sending (10.3.1); once all is flushed the program goes on. @return true if it does. */
static bool
leave_sqe(struct sim_world *w, struct sim_qp *q)
{
	if (qp_state(q->qp) != UROCE_QPS_SQE || q->nb_retired != q->nb_posted || !q->sq_error || rng_one_in(&q->rng, 3))
		return false;
	modify(w, q, UROCE_QPS_RTS);
	q->sq_error = q->sq_flush = false;
	return true;
}

static void
disturb(struct sim_world *w, struct sim_qp *q)
{
	if (qp_cq_dead(q) && !q->abandoned)
		abandon(w, q);
	if (q->client_err || leave_sqe(w, q))
		return;
	if (q->nb_posted >= q->local_dereg_at)
		local_dereg(w, q);
	if (q->peer->nb_posted >= q->dereg_at) {
		sim_trace(w, "QP %u: deregisters its target area", q->id);
		mr_free(q->ep, &q->target_mr);
		q->dereg_at = UINT32_MAX;
	}
	if (q->nb_posted >= q->err_at && q->abrupt) {
		abandon(w, q);
	} else if (q->nb_posted >= q->err_at) {
		to_err(w, q);
	} else if (q->sqd_waiting) {
		if (qp_state(q->qp) != UROCE_QPS_SQD) {
			q->sqd_waiting = false;
		} else if (q->drained) {
			if (rng_one_in(&q->rng, 3)) {
				q->sqd_waiting = false;
				modify(w, q, UROCE_QPS_RTS);
			}
		} else if (w->now_ns - q->sqd_since_ns > SQD_DRAIN_NS) {
			sim_fail(w, "QP %u: SQD doesn't drain", q->id);
		}
	} else if (q->nb_posted >= q->sqd_at && qp_state(q->qp) == UROCE_QPS_RTS) {
		q->sqd_at = UINT32_MAX;
		q->drained = false;
		q->sqd_waiting = true;
		q->sqd_since_ns = w->now_ns;
		modify(w, q, UROCE_QPS_SQD);
	}
}

static bool
mr_again(struct sim_qp *q, struct sim_mr *m, uint32_t access)
{
	return m->mr != NULL || m->base == NULL || sim_mr_create(q->ep, m, m->base, m->len, PD, access, &q->rng) == 0;
}

/*
 * All over again with the same QPs. The new PSNs lie far from the old ones, as TimeWait does it in life: what
 * is still under way of the old connection is not taken for the new one's.
 */
static void
reconnect(struct sim_world *w, struct sim_conn *c)
{
	unsigned int i;
	uint32_t k;

	c->rounds_left--;
	c->mtu_code = (uint32_t)rng_between(&c->rng, UROCE_MTU_256, w->cfg.max_mtu);
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (qp_state(q->qp) != UROCE_QPS_RESET)
			modify(w, q, UROCE_QPS_RESET);
		client_drain(w, q->send_cq);
		client_drain(w, q->recv_cq);
		for (k = 0; k < q->nb_posted; k++)
			free(q->ops[k].copy);
		free(q->ops);
		q->round++;
		program_init(w, q);
		if (q->ops == NULL || !mr_again(q, &q->src_mr, 0) ||
		    !mr_again(q, &q->dest_mr, UROCE_ACCESS_LOCAL_WRITE) ||
		    !mr_again(q, &q->own_rq.mr, UROCE_ACCESS_LOCAL_WRITE) || !mr_again(q, &q->target_mr, TARGET_ACCESS))
			abort();
		memset(q->target_mr.base, 0, q->target_mr.len);
		q->attr.sq_psn = (q->attr.sq_psn + (1u << 22) + (uint32_t)rng_below(&c->rng, 1 << 22)) & WIRE_PSN_MASK;
	}
	conn_attributes(w, c);
	sim_trace(w, "connection %u: another round", c->id);
}

/* Has the client got back what it posted to be received, after moving the QP to ERR? */
static bool
receives_returned(struct sim_qp *q)
{
	union ring_cqe_ctl ctl;

	if (q->abandoned)
		return true;
	if (q->rq == &q->own_rq)
		return q->rq->nb_done == q->rq->nb_posted;
	/* Of an SRQ: what it had taken. The event says that all of that is in the CQ (10.2.9.4, man
	 * ibv_get_async_event). */
	return q->events[UROCE_EVENT_QP_LAST_WQE_REACHED] != 0 &&
	       !ring_cq_ready(&q->recv_cq->ring, q->recv_cq->ring.counter, &ctl);
}

/* What UC and UD have sent may be on its way still. */
static bool
still_moving(struct sim_world *w, struct sim_conn *c)
{
	if (c->type == UROCE_QPT_RC)
		return false;
	if (c->quiet_at == 0)
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

		if (!q->ready)
			bring_up(w, q);
		else
			disturb(w, q);
		ended &= q->ready && client_sends_done(q);
	}
	if (!ended || still_moving(w, c))
		return;
	/* Through: receives that are left over come back flushed, then the QPs go. */
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (!q->finalized && rng_one_in(&q->rng, 2)) {
			q->finalized = true;
			if (!q->abandoned)
				to_err(w, q);
		}
		ended &= q->finalized && receives_returned(q);
	}
	if (!ended)
		return;
	model_conn_end(w, c);
	for (i = 0; i < 2; i++)
		atomics_note(&c->qp[i]);
	if (c->rounds_left != 0 && !w->failed) {
		reconnect(w, c);
		return;
	}
	for (i = 0; i < 2; i++) {
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
		if (q->qp != NULL)
			qp_destroy(q->tp, q->qp);
		q->qp = NULL;
		mr_free(q->ep, &q->own_rq.mr);
		mr_free(q->ep, &q->src_mr);
		if (q->ah != 0)
			ah_destroy(q->ep->ahs, q->ah);
		mr_free(q->ep, &q->dest_mr);
		mr_free(q->ep, &q->target_mr);
		mr_free(q->ep, &q->noaccess_mr);
		mr_free(q->ep, &q->other_pd_mr);
		for (k = 0; q->ops != NULL && k < q->nb_posted; k++)
			free(q->ops[k].copy);
		free(q->ops);
		free(q->own_rq.recvs);
		free(q->atomics);
	}
}
