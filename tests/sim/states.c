/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs and their states: up to RTS, through SQD and SQE, to ERR and RESET when programs say so. */
#include "model.h"
#include "sim.h"

#define SQD_DRAIN_NS (60 * SIM_NS_PER_S)
enum {
	SQD_TIMEOUT_MIN = 9,   /* as connections begin with, where retries mustn't run out */
	SQD_TIMEOUT_MOST = 18, /* about a second */
	SQD_TIMEOUT_LEAST = 5,
	SQD_CHANGES_MOST = 20, /* each may start the ACK timer anew */
};

/* What each step needs (man ibv_modify_qp). */
static const uint32_t to_state[UROCE_QPT_XRC_RECV + 1][UROCE_QPS_STATES] = {
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
	[UROCE_QPT_XRC_SEND] = {
		[UROCE_QPS_INIT] = UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		[UROCE_QPS_RTR] = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN,
		[UROCE_QPS_RTS] = UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_SQ_PSN |
				  UROCE_QP_MAX_QP_RD_ATOMIC,
		[UROCE_QPS_SQD] = UROCE_QP_EN_SQD_ASYNC_NOTIFY,
	},
	[UROCE_QPT_XRC_RECV] = {
		[UROCE_QPS_INIT] = UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		[UROCE_QPS_RTR] = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
				  UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER,
		[UROCE_QPS_RTS] = UROCE_QP_TIMEOUT | UROCE_QP_SQ_PSN,
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
		if (from == UROCE_QPS_SQE && qp_state(q->qp) == UROCE_QPS_ERR && q->send_cq->dead)
			return; /* no room for those that were to be flushed before */
		if (from == UROCE_QPS_RTR && qp_state(q->qp) == UROCE_QPS_ERR && may_be_in_err(w, q))
			return; /* a request that it couldn't execute was waiting */
		qp_modify_check(q->params.type, from, &a, mask, UROCE_MTU_4096, &why);
		sim_fail(w, "QP %u: %s to %s refused: %s", q->id, qp_state_name(from), qp_state_name(to), why);
	} else if (qp_state(q->qp) != to) {
		sim_fail(w, "QP %u: is %s after a modify to %s", q->id, qp_state_name(qp_state(q->qp)),
			 qp_state_name(to));
	}
	/* Every change of attributes renews its tries. */
	if (q->peer->foreign == NULL)
		q->rnr_count = 0;
	world_run_at(w, q->ep->id, w->now_ns);
	foreign_kick(w, q);
}

void
qp_to_state(struct sim_world *w, struct sim_qp *q, enum uroce_qp_state to)
{
	bool again = qp_state(q->qp) == UROCE_QPS_SQD || qp_state(q->qp) == UROCE_QPS_SQE;

	modify_with(w, q, to, again ? 0 : to_state[q->params.type][to]);
}

void
qp_to_err(struct sim_world *w, struct sim_qp *q)
{
	q->client_err = true;
	qp_to_state(w, q, UROCE_QPS_ERR);
}

/* All that a program can do with a QP whose CQ is in error (11.6.3.1): throw it away. */
static void
abandon(struct sim_world *w, struct sim_qp *q)
{
	q->client_err = q->abandoned = true;
	if (q->conn->xrc && q->rq != &q->own_rq)
		xrc_receive_lost(q->ep);
	else
		q->rq->nb_lost += q->rq->srq != NULL;
	q->conn->rounds_left = q->conn->rounds_left != 0 && qp_cq_dead(q) ? 0 : q->conn->rounds_left;
	qp_to_state(w, q, UROCE_QPS_RESET);
}

void
qp_bring_up(struct sim_world *w, struct sim_qp *q)
{
	enum uroce_qp_state s = qp_state(q->qp), peer = qp_state(q->peer->qp);

	if (qp_cq_dead(q) && !q->abandoned)
		abandon(w, q);
	if (q->abandoned)
		q->ready = true; /* its CQ broke before it was up */
	if (q->abandoned || rng_one_in(&q->rng, 3))
		return;
	if (s == UROCE_QPS_RESET) {
		qp_to_state(w, q, UROCE_QPS_INIT);
	} else if (s == UROCE_QPS_INIT) {
		qp_to_state(w, q, UROCE_QPS_RTR);
	} else if (s == UROCE_QPS_RTR &&
		   (q->peer->abandoned || (peer != UROCE_QPS_RESET && peer != UROCE_QPS_INIT))) {
		qp_to_state(w, q, UROCE_QPS_RTS);
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
	sim_mr_free(q->ep, q->local_dereg);
}

/* Nothing of the peer's is under way: what it may do can change. */
static bool
peer_rests(const struct sim_qp *q)
{
	return q->conn->type == UROCE_QPT_RC && q->peer->nb_retired == q->peer->nb_posted && !client_dead(q->peer);
}

/* Other packets of the same way: class, hop limit and flow are nobody else's business. */
static uint32_t
change_av(struct sim_qp *q)
{
	struct wire_addr *a = &q->path.addr;
	struct uroce_ah_attr *ah = &q->attr.ah;

	ah->traffic_class = a->traffic_class = (uint8_t)(rng_below(&q->rng, 64) << 2);
	ah->hop_limit = rng_one_in(&q->rng, 2) ? 0 : 255;
	a->ttl = ah->hop_limit == 0 ? 64 : ah->hop_limit;
	ah->flow_label = a->flow_label = (uint32_t)rng_between(&q->rng, 1, 0xfffff);
	a->sport = wire_flow_label_to_sport(a->flow_label);
	/* With its AV a QP gets a new rate. */
	q->cnp_ns = 0;
	return UROCE_QP_AV;
}

static uint32_t
change_timeouts(const struct sim_world *w, struct sim_qp *q)
{
	uint32_t mask = 0;

	if (rng_one_in(&q->rng, 2)) {
		mask |= UROCE_QP_TIMEOUT;
		/* It may be off, and come into force. */
		q->attr.timeout = (uint8_t)rng_between(&q->rng, w->cfg.harsh ? SQD_TIMEOUT_LEAST : SQD_TIMEOUT_MIN, SQD_TIMEOUT_MOST);
		if ((w->cfg.faults & SIM_F_RESTART) && q->attr.timeout < SQD_TIMEOUT_MIN + SIM_RESTART_TIMEOUT)
			q->attr.timeout += SIM_RESTART_TIMEOUT;
	}
	if (rng_one_in(&q->rng, 2)) {
		mask |= UROCE_QP_RETRY_CNT;
		q->attr.retry_cnt = w->cfg.harsh ? (uint8_t)rng_below(&q->rng, 8) : 7;
	}
	if (rng_one_in(&q->rng, 2)) {
		mask |= UROCE_QP_RNR_RETRY;
		q->attr.rnr_retry = q->attr.rnr_retry < 7 ? (uint8_t)rng_below(&q->rng, 7) : 7;
	}
	return mask;
}

/* In SQD nearly everything may change (11.2.5.2, table 91), whatever is under way; here to values that do no harm. */
static void
change_attributes(struct sim_world *w, struct sim_qp *q)
{
	bool responds = q->params.type == UROCE_QPT_RC || q->params.type == UROCE_QPT_XRC_RECV;
	bool requests = q->params.type == UROCE_QPT_RC || q->params.type == UROCE_QPT_XRC_SEND;
	uint32_t mask = 0;

	if (responds && rng_one_in(&q->rng, 2)) {
		/* The peer's READs in flight are as many as it might have had before. */
		mask |= UROCE_QP_MAX_DEST_RD_ATOMIC;
		q->attr.max_dest_rd_atomic = (uint8_t)rng_between(
			&q->rng, peer_rests(q) ? q->peer->attr.max_rd_atomic : q->attr.max_dest_rd_atomic, UROCE_MAX_RD_ATOMIC);
	}
	if (responds && rng_one_in(&q->rng, 2)) {
		mask |= UROCE_QP_MIN_RNR_TIMER;
		q->attr.min_rnr_timer = (uint8_t)rng_between(&q->rng, 1, 14);
	}
	if (requests && rng_one_in(&q->rng, 2)) {
		mask |= UROCE_QP_MAX_QP_RD_ATOMIC;
		q->attr.max_rd_atomic = (uint8_t)rng_between(&q->rng, 1, q->peer->attr.max_dest_rd_atomic);
	}
	if (requests)
		mask |= change_timeouts(w, q);
	if (q->params.type != UROCE_QPT_UD && !q->conn->several_paths && rng_one_in(&q->rng, 2))
		mask |= change_av(q);
	if (q->params.type != UROCE_QPT_UD && rng_one_in(&q->rng, 2)) {
		mask |= UROCE_QP_ACCESS_FLAGS;
		if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && peer_rests(q))
			q->attr.qp_access_flags ^= (uint32_t)rng_below(&q->rng, 16) & ~(uint32_t)UROCE_ACCESS_LOCAL_WRITE;
	}
	if (rng_one_in(&q->rng, 2))
		mask |= UROCE_QP_PKEY_INDEX;
	modify_with(w, q, UROCE_QPS_SQD, mask);
}

/* The sends that were posted before SQE was left are complete: those that follow aren't flushed. */
void
qp_sqe_flushed(struct sim_qp *q)
{
	if (q->sqe_left == 0 || q->nb_retired < q->sqe_left)
		return;
	q->sq_error = q->sq_flush = false;
	q->sqe_left = 0;
}

/*
 * A send error stops only sending (10.3.1); the program goes on once all is flushed, or before. @return true if it does.
 */
static bool
leave_sqe(struct sim_world *w, struct sim_qp *q)
{
	if (qp_state(q->qp) != UROCE_QPS_SQE || !q->sq_error || q->sqe_left != 0 || rng_one_in(&q->rng, 3) ||
	    (q->nb_retired != q->nb_posted && !rng_one_in(&q->rng, 4)))
		return false;
	qp_to_state(w, q, UROCE_QPS_RTS);
	if (qp_state(q->qp) != UROCE_QPS_RTS)
		return false;
	q->sqe_left = q->nb_posted;
	qp_sqe_flushed(q);
	return true;
}

void
qp_disturb(struct sim_world *w, struct sim_qp *q)
{
	if (qp_cq_dead(q) && !q->abandoned)
		abandon(w, q);
	if (q->client_err || leave_sqe(w, q))
		return;
	if (q->nb_posted >= q->local_dereg_at)
		local_dereg(w, q);
	if (q->peer->nb_posted >= q->dereg_at) {
		sim_trace(w, "QP %u: deregisters its target area", q->id);
		sim_mr_free(q->ep, &q->target_mr);
		q->dereg_at = UINT32_MAX;
	}
	if (q->nb_posted >= q->err_at && q->abrupt) {
		abandon(w, q);
	} else if (q->nb_posted >= q->err_at) {
		qp_to_err(w, q);
	} else if (q->sqd_waiting) {
		if (qp_state(q->qp) == UROCE_QPS_SQD && q->sqd_changes < SQD_CHANGES_MOST && rng_one_in(&q->rng, 4)) {
			q->sqd_changes++;
			change_attributes(w, q);
		}
		if (qp_state(q->qp) != UROCE_QPS_SQD) {
			q->sqd_waiting = false;
		} else if (q->drained) {
			if (rng_one_in(&q->rng, 3)) {
				q->sqd_waiting = false;
				qp_to_state(w, q, UROCE_QPS_RTS);
			}
		} else if (w->now_ns - q->sqd_since_ns > SQD_DRAIN_NS && !answers_may_not_come(w, q)) {
			sim_fail(w, "QP %u: SQD doesn't drain", q->id);
		}
	} else if (q->nb_posted >= q->sqd_at && qp_state(q->qp) == UROCE_QPS_RTS) {
		q->sqd_at = UINT32_MAX;
		q->drained = false;
		q->sqd_waiting = true;
		q->sqd_since_ns = w->now_ns;
		q->sqd_changes = 0;
		qp_to_state(w, q, UROCE_QPS_SQD);
	}
}
