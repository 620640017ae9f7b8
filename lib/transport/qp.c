/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs: creation, modification, query, destruction.
 */
#include "base/mix.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/checks_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/lend_priv.h"
#include "transport/core/prefetch_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/qp_table_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sack_format_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/time_wait_priv.h"
#include "transport/flush_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/path/changes.h"
#include "transport/path/path_priv.h"
#include "transport/qp_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/scoreboard_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/resp/recv_priv.h"
#include "transport/resp/resp_priv.h"
#include "transport/rx_priv.h"

/* An idle QP's memory besides its rings. The rest of the 2 KiB is for its struct cc and the allocator's overhead. */
static_assert(sizeof(struct qp) + UROCE_MAX_RD_ATOMIC * sizeof(struct tp_res) <= 1792,
	      "an idle QP costs at most 2 KiB");

/* ---- Creation and destruction ---- */
/* @return whether the transport's journal can know @p cq. */
static bool
cq_known(const struct transport *tp, const struct cq *cq)
{
	return tp->journal == NULL || cq == NULL || cq->number < tp->c.journal_limits.cqs;
}

static bool
params_ok(const struct transport *tp, const struct qp_params *p)
{
	uint32_t stride = ring_sq_stride(p->cap.max_send_sge, p->cap.max_inline_data);

	if (!cq_known(tp, p->send_cq) || !cq_known(tp, p->recv_cq))
		return false;

	if (p->type == UROCE_QPT_XRC_RECV)
		return p->xrcd != 0 && p->shared != NULL && p->send_cq == NULL && p->recv_cq == NULL &&
		       p->srq == NULL && p->sq.base == NULL && p->rq.base == NULL;
	if (p->type == UROCE_QPT_XRC_SEND ? p->recv_cq != NULL || p->srq != NULL || p->rq.base != NULL :
					    p->recv_cq == NULL)
		return false;
	if (p->type != UROCE_QPT_RC && p->type != UROCE_QPT_UC && p->type != UROCE_QPT_UD &&
	    p->type != UROCE_QPT_XRC_SEND)
		return false;
	if (p->cap.max_send_sge > UROCE_MAX_SGE || p->cap.max_recv_sge > UROCE_MAX_SGE ||
	    p->cap.max_inline_data > UROCE_MAX_INLINE)
		return false;
	if (p->sq.base == NULL || UINT32_C(1) << p->sq.shift < stride)
		return false;
	if (p->rq.base != NULL && UINT32_C(1) << p->rq.shift < ring_rq_stride(p->cap.max_recv_sge))
		return false;
	return p->send_cq != NULL && p->shared != NULL;
}

/* The SQ of an XRC_RECV QP, which has none: one slot that is never posted. */
static struct ring
no_sq(void)
{
	static uint8_t slot[sizeof(struct ring_sq_wqe)] __attribute__((aligned(RING_CACHE_LINE)));

	return (struct ring){ .base = slot, RING_SIZE(0, 5) };
}

/* Its lines are those of core/prefetch_priv.h. @return a zeroed one, or NULL. */
static struct qp *
qp_alloc(void)
{
	void *qp;

	if (posix_memalign(&qp, QP_LINE, sizeof(struct qp)) != 0)
		return NULL;
	return memset(qp, 0, sizeof(struct qp));
}

static void
use_parts(struct qp *qp, int n)
{
	if (qp->rcv.srq != NULL)
		qp->rcv.srq->users += n;
	if (qp->send_cq != NULL)
		atomic_fetch_add(&qp->send_cq->users, n);
	if (qp->recv_cq != NULL)
		atomic_fetch_add(&qp->recv_cq->users, n);
}

int
qp_create_as(struct transport *tp, const struct qp_params *p, uint32_t qpn, struct qp **out)
{
	struct qp *qp;
	int rc;

	if (!params_ok(tp, p) || p->max_mtu > UROCE_MTU_4096 || p->port >= tp->c.nb_ports)
		return EINVAL;
	qp = qp_alloc();
	if (qp == NULL)
		return ENOMEM;
	qp->tp = tp;
	qp->type = (uint8_t)p->type;
	qp->service = qp_service(p->type);
	qp->prefix = p->type == UROCE_QPT_XRC_SEND || p->type == UROCE_QPT_XRC_RECV ? WIRE_XRC : qp->service;
	qp->pd = p->pd;
	qp->send_cq = p->send_cq;
	qp->recv_cq = p->recv_cq;
	qp->rcv.srq = p->srq;
	qp->req.sig_all = p->sq_sig_all;
	qp->rcv.xrcd = p->xrcd;
	qp->req.sq = p->type == UROCE_QPT_XRC_RECV ? no_sq() : p->sq;
	qp->rcv.rq = p->rq;
	qp->shared = p->shared;
	qp->path.port = p->port;
	qp->cookie = p->cookie;
	qp->owner = p->owner;
	qp->req.max_inline = (uint16_t)p->cap.max_inline_data;
	qp->req.max_send_sge = (uint8_t)p->cap.max_send_sge;
	qp->attr.cap = p->cap;
	qp->req.inflight = qp->own_inflight;
	qp->req.inflight_mask = TP_INFLIGHT_OWN - 1;
	qp->path.pkey = WIRE_PKEY_DEFAULT;
	/* A UD message is one packet; RC and UC get their path's MTU later. */
	qp->path.mtu_shift = (uint8_t)(7 + (p->max_mtu != 0 ? p->max_mtu : UROCE_MTU_4096));
	if (qpn == 0) {
		shared_store(&qp->shared->rq_watch, 1);
		qp_set_state(qp, UROCE_QPS_RESET);
	}
	share_enter(tp, qp, p->share);
	rc = qpn == 0 ? qp_table_add(tp->c.sh.qps, qp) : qp_table_add_as(tp->c.sh.qps, qp, qpn);
	if (rc == 0 && (rc = journal_enter(tp, qp)) != 0) {
		share_leave(qp);
		qp_table_remove(tp->c.sh.qps, qp);
		return rc;
	}
	if (rc != 0) {
		share_leave(qp);
		free(qp);
		return rc;
	}
	qp->req.sack_nonce = (uint32_t)mix64(tp->now_ns ^ qp->qpn) & SACK_NONCE_MASK;
	qp->rcv.sack_mark = sack_mark(qp->req.sack_nonce >> 8);
	use_parts(qp, 1);
	tp->nb_qps++;
	*out = qp;
	return 0;
}

int
qp_create(struct transport *tp, const struct qp_params *p, struct qp **out)
{
	int rc = qp_create_as(tp, p, 0, out);

	if (rc == 0)
		journal_commit(tp);
	return rc;
}

/* Forget what is in flight in both directions, and return what was lent for it. */
static void
drop_inflight(struct transport *tp, struct qp *qp)
{
	qp->req.sq_tail = qp->req.sq.counter;
	qp->req.sq_cur = qp->req.sq.counter;
	scoreboard_forget(tp, qp);
	reorder_return(tp, qp);
	inflight_return(tp, qp);
	qp->resp.pending = 0;
	responder_return_reads(tp, qp);
	copy_end(tp, qp);
}

void
qp_discard(struct transport *tp, struct qp *qp)
{
	rx_wait_drop(tp, qp);
	qp_unlist(tp, qp);
	cc_stop(tp, qp);
	drop_inflight(tp, qp);
	recv_drop(tp, qp);
	if (qp->type == UROCE_QPT_XRC_RECV)
		xrc_leave(qp);
	else
		use_parts(qp, -1);
	share_leave(qp);
	tp->nb_qps--;
	journal_leave(tp, qp);
	qp_table_remove(tp->c.sh.qps, qp);
}

void
qp_destroy(struct transport *tp, struct qp *qp)
{
	rx_catch_up(tp, qp);
	time_wait_add(qp_table_time_wait(tp->c.sh.qps), tp, qp);
	qp_discard(tp, qp);
}

/* ---- Modify ---- */
/* Skip the posted WQEs. Counters and slots stay as they are on both sides, so that phase bits remain right. */
static void
skip_posted(struct ring *r, bool (*ready)(const struct ring *r, uint32_t counter))
{
	uint32_t slots = r->base != NULL ? UINT32_C(1) << r->order : 0;

	for (uint32_t i = 0; i < slots && ready(r, r->counter); i++)
		r->counter++;
}

/* RESET: all WQEs are dropped without completions. Rings, capabilities and buffers stay. */
static void
reset(struct transport *tp, struct qp *qp)
{
	qp_unlist(tp, qp);
	cc_stop(tp, qp);
	qp_stop_timer(tp, qp);
	skip_posted(&qp->req.sq, ring_sq_ready);
	skip_posted(&qp->rcv.rq, ring_rq_ready);
	drop_inflight(tp, qp);
	recv_drop(tp, qp);
	if (qp->type == UROCE_QPT_XRC_RECV)
		xrc_leave(qp);
	requester_reset(qp);
	receiver_reset(qp);
	responder_reset(qp);
	path_reset(qp);
	qp->diag = (struct qp_diagnosis){ .why = QP_WHY_NONE };
	qp->attr = (struct uroce_qp_attr){ .cap = qp->attr.cap };
	journal_forget_kept(qp, true);
	qp_stop_watching(qp, false);
	shared_store(&qp->shared->rq_watch, 1);
}

static void
set_attributes(struct qp *qp, const struct uroce_qp_attr *a, uint32_t mask)
{
	struct uroce_qp_attr *q = &qp->attr;

#define SET(bit, field) \
	do { \
		if (mask & UROCE_QP_##bit) \
			q->field = a->field; \
	} while (0)
	SET(EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	SET(ACCESS_FLAGS, qp_access_flags);
	SET(PKEY_INDEX, pkey_index);
	SET(PORT, port_num);
	SET(QKEY, qkey);
	SET(AV, ah);
	SET(PATH_MTU, path_mtu);
	SET(TIMEOUT, timeout);
	SET(RETRY_CNT, retry_cnt);
	SET(RNR_RETRY, rnr_retry);
	SET(RQ_PSN, rq_psn);
	SET(MAX_QP_RD_ATOMIC, max_rd_atomic);
	SET(MIN_RNR_TIMER, min_rnr_timer);
	SET(SQ_PSN, sq_psn);
	SET(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	SET(DEST_QPN, dest_qp_num);
	SET(ALT_PATH, alt_ah);
	SET(ALT_PATH, alt_pkey_index);
	SET(ALT_PATH, alt_port_num);
	SET(ALT_PATH, alt_timeout);
#undef SET
	qp->access = q->qp_access_flags;
	qp->rcv.qkey = q->qkey;
	qp->path.dest_qpn = q->dest_qp_num;
	qp->loss.timeout = q->timeout;
	/* Only another number begins anew: a program that changes something else again and again must not keep a dead peer alive. */
	if (qp->loss.retry_cnt != q->retry_cnt)
		qp->loss.retry_cnt = qp->loss.retry_left = q->retry_cnt;
	if (qp->loss.rnr_retry != q->rnr_retry)
		qp->loss.rnr_retry = qp->loss.rnr_left = q->rnr_retry;
	qp->req.max_rd = q->max_rd_atomic;
	qp->rcv.min_rnr_timer = q->min_rnr_timer;
	if (mask & UROCE_QP_PATH_MTU)
		qp->path.mtu_shift = (uint8_t)(7 + q->path_mtu);
	if (mask & UROCE_QP_RQ_PSN)
		qp->rcv.epsn = q->rq_psn;
}

static void
enter(struct transport *tp, struct qp *qp, enum uroce_qp_state from, enum uroce_qp_state to, uint32_t mask)
{
	switch (to) {
	case UROCE_QPS_RESET:
		reset(tp, qp);
		break;
	case UROCE_QPS_RTS:
		if (mask & UROCE_QP_SQ_PSN)
			requester_start(qp, qp->attr.sq_psn);
		else if (from == UROCE_QPS_SQE)
			requester_start(qp, qp->req.psn_cur);
		break;
	case UROCE_QPS_SQD:
		/* SQ_DRAINED is raised once each time the QP enters SQD. */
		qp->req.sqd_event = qp->req.sqd_event && from == UROCE_QPS_SQD;
		break;
	case UROCE_QPS_ERR:
		qp_error(tp, qp, -1, TP_BECAUSE(PROGRAM, 0));
		return;
	default:
		break;
	}
	qp_set_state(qp, to);
	if (from != to)
		diag_note(tp, qp, QP_EV_STATE, (uint8_t)to, 0, qp->req.psn_una);
	if (to == UROCE_QPS_RTS)
		qp_activate(tp, qp);
	if (to == UROCE_QPS_SQD && from != UROCE_QPS_SQD) {
		qp_stop_watching(qp, false);
		sq_unfetch(qp);
		qp_check_drained(tp, qp);
	}
}

/*
 * SQE is left for RTS: what was posted up to now is flushed and not sent, however many turns that would have taken.
 * @return false: a CQ had no room, and the QP is in ERR.
 */
static bool
flush_before_rts(struct transport *tp, struct qp *qp)
{
	qp_flush_run(tp, qp, UINT32_C(1) << qp->req.sq.order);
	journal_commit(tp);
	/* The events of a turn's completions are raised at its end, but the next turn may be a while away. */
	if (tp->nb_touched != 0)
		cq_flush_touched(tp);
	return qp->state == UROCE_QPS_SQE;
}

void
qp_device_gone(struct transport *tp, struct qp *qp, uint64_t now_ns)
{
	tp->now_ns = now_ns;
	if (qp->state != UROCE_QPS_RESET)
		qp_error(tp, qp, -1, TP_BECAUSE(DEVICE, 0));
	journal_commit(tp);
}

/* Both paths must use the same port, and both loopback or neither: the QP uses one port and one TX vector. */
static bool
paths_ok(const struct transport *tp, const struct qp *qp, uint32_t mask, const struct tp_path *path,
	 const struct tp_path *alt)
{
	bool av = (mask & UROCE_QP_AV) != 0;

	if (av && (path == NULL || path->port >= tp->c.nb_ports))
		return false;
	if ((mask & UROCE_QP_ALT_PATH) == 0)
		return true;
	return alt != NULL && alt->port == (av ? path->port : qp->path.port) &&
	       alt->loopback == (av ? path->loopback : qp->path.loopback);
}

int
qp_modify(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask,
	  const struct tp_path *path, uint64_t now_ns)
{
	return qp_modify_paths(tp, qp, attr, mask, path, NULL, now_ns);
}

static int
modify(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask, const struct tp_path *path, const struct tp_path *alt,
       uint64_t now_ns)
{
	enum uroce_qp_state from, to;
	uint8_t timeout = qp->loss.timeout;
	const char *why;

	tp->now_ns = now_ns;
	rx_catch_up(tp, qp);
	from = qp->state;
	to = mask & UROCE_QP_STATE ? attr->qp_state : from;
	if (qp_modify_check(qp->type, from, attr, mask, UROCE_MTU_4096, &why) != 0 ||
	    !paths_ok(tp, qp, mask, path, alt))
		return EINVAL;
	if (from == UROCE_QPS_SQE && to == UROCE_QPS_RTS && !flush_before_rts(tp, qp))
		return EINVAL;
	if ((mask & UROCE_QP_PKEY_INDEX) && tp->c.ports[qp->path.port].pkeys[attr->pkey_index] == 0)
		return EINVAL;
	/* With max_rd_atomic 0 the READs and atomics in flight could never be sent or resent. */
	if ((mask & UROCE_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic == 0 && qp->req.sq_tail != qp->req.sq.counter)
		return EINVAL;
	if ((mask & UROCE_QP_PATH_MIG_STATE) &&
	    !migration_may(qp, attr->path_mig_state, (mask & UROCE_QP_ALT_PATH) != 0))
		return EINVAL;
	if ((mask & UROCE_QP_ALT_PATH) && migration_load(qp, alt) != 0)
		return ENOMEM;
	if ((mask & UROCE_QP_MAX_DEST_RD_ATOMIC) && responder_set_rd_atomic(qp, attr->max_dest_rd_atomic) != 0)
		return ENOMEM;
	if ((mask & UROCE_QP_AV) && cc_attach(tp, qp, path) != 0)
		return ENOMEM;
	set_attributes(qp, attr, mask);
	if (qp->loss.timeout != timeout)
		loss_timeout_changed(tp, qp);
	if (mask & UROCE_QP_AV) {
		path_build_template(qp, path);
		cwnd_new_path(qp);
		/* The QP may have been waiting for the congestion control of the old path. */
		if (qp_sends(qp))
			qp_activate(tp, qp);
		if (qp->path.alt_loaded && (qp->path.alt->loopback != path->loopback || qp->path.alt->port != path->port))
			migration_reset(qp);
	}
	if (mask & (UROCE_QP_AV | UROCE_QP_PATH_MTU))
		path_follow_mtu(tp, qp);
	if (mask & (UROCE_QP_AV | UROCE_QP_PKEY_INDEX))
		qp->path.pkey = tp->c.ports[qp->path.port].pkeys[qp->attr.pkey_index];
	if (mask & UROCE_QP_PATH_MIG_STATE)
		migration_set(tp, qp, attr->path_mig_state);
	if (mask & UROCE_QP_STATE)
		enter(tp, qp, from, to, mask);
	return 0;
}

int
qp_modify_paths(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask,
		const struct tp_path *path, const struct tp_path *alt, uint64_t now_ns)
{
	int rc = modify(tp, qp, attr, mask, path, alt, now_ns);

	journal_cold(qp);
	journal_commit(tp);
	return rc;
}

void
qp_query(const struct qp *qp, struct uroce_qp_attr *attr)
{
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->path_mig_state = qp->path.mig;
	attr->sq_draining = qp->state == UROCE_QPS_SQD && qp->req.sq_tail != qp->req.sq.counter;
	/* The current values, as hardware reports them. */
	if (qp_does(qp, QP_CONNECTED)) {
		attr->rq_psn = qp->rcv.epsn;
		attr->sq_psn = qp_does(qp, QP_HAS_SENT) ? qp->req.psn_next : attr->sq_psn;
	}
}

uint32_t
qp_num(const struct qp *qp)
{
	return qp->qpn;
}

void *
qp_owner(const struct qp *qp)
{
	return qp->owner;
}

uint64_t
qp_cookie(const struct qp *qp)
{
	return qp->cookie;
}

unsigned int
qp_engine(const struct qp *qp)
{
	return qp->tp->c.engine;
}

enum uroce_qp_state
qp_state(const struct qp *qp)
{
	return qp->state;
}
