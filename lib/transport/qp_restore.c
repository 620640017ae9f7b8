/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP is made from its record, which was checked.
 */
#include <stdlib.h>

#include "transport/cc/cc_priv.h"
#include "transport/cc/cwnd_priv.h"
#include "transport/core/async_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/srq_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/path/path_priv.h"
#include "transport/qp_priv.h"
#include "transport/record/record_priv.h"
#include "transport/resp/resp_priv.h"

static bool
restore_wqes(struct transport *tp, struct qp *qp, const struct qp_record *r, const struct qp_record_parts *parts)
{
	if (parts->nb_wqes > TP_INFLIGHT_OWN) {
		struct tp_swqe *big = share_lend(tp, qp->share, TP_POOL_INFLIGHT, &tp->inflight_blocks);

		if (big == NULL)
			return false;
		qp->req.inflight = big;
		qp->req.inflight_mask = TP_INFLIGHT_MAX - 1;
	}
	for (uint32_t i = 0; i < parts->nb_wqes; i++) {
		const struct qp_record_wqe *w = &parts->wqes[i];

		qp->req.inflight[(r->sq_tail + i) & qp->req.inflight_mask] = (struct tp_swqe){
			.wr_id = w->wr_id, .first_psn = w->first_psn, .last_psn = w->last_psn, .length = w->length, .recvs = w->recvs,
			.opcode = w->opcode, .flags = w->flags, .nb_sge = w->nb_sge, .status = w->status, .verr = w->verr };
	}
	return true;
}

static bool
restore_results(struct transport *tp, struct qp *qp, const struct qp_record *r, const struct qp_record_parts *parts)
{
	qp->resp.res_max = 0;
	if (responder_set_rd_atomic(qp, r->res_max) != 0)
		return false;
	for (uint32_t i = 0; i < r->nb_res; i++) {
		const struct qp_record_res *s = &parts->res[i];

		qp->resp.res[i] = (struct tp_res){ .old = s->value, .psn = s->psn & WIRE_PSN_MASK, .used = s->used & 1, .atomic = s->atomic & 1,
						   .replay = s->replay & 1, .placed = s->placed & 1 };
	}
	if (r->nb_reads == 0)
		return true;
	qp->resp.reads = share_lend(tp, qp->share, TP_POOL_READS, &tp->read_blocks);
	for (uint32_t i = 0; i < r->nb_reads && qp->resp.reads != NULL; i++) {
		const struct qp_record_read *s = &parts->reads[i];

		qp->resp.reads[s->nth] = (struct tp_read){ .va = s->va, .rkey = s->rkey, .cur = s->cur & WIRE_PSN_MASK, .begins = s->begins & 1,
							   .run = s->run & 1, .srqn = s->srqn, .again = s->again };
	}
	return qp->resp.reads != NULL;
}

/* An RQ's SGEs are in the slot that was taken last; those of an SRQ's receive are in the record. */
static bool
restore_receive(struct transport *tp, struct qp *qp, const struct qp_record *r, const struct qp_record_parts *parts)
{
	struct tp_rwqe *w = &qp->rcv.rwqe;
	struct ring_sge *copy = &w->own_sge;

	if (!r->recv_valid)
		return true;
	if (qp->rcv.srq == NULL) {
		w->sge = ((const struct ring_rq_wqe *)ring_slot(&qp->rcv.rq, r->rq_counter - 1))->sge;
		return true;
	}
	if (r->nb_sges > 1 && (copy = share_lend(tp, qp->share, TP_POOL_SGES, &tp->sge_blocks)) == NULL)
		return false;
	for (uint32_t i = 0; i < r->nb_sges; i++)
		copy[i] = (struct ring_sge){ .addr = parts->sges[i].addr, .length = parts->sges[i].length, .lkey = parts->sges[i].lkey };
	w->sge = copy;
	w->borrowed = r->nb_sges > 1;
	return true;
}

static void
restore_srq(struct transport *tp, struct qp *qp, uint32_t srqn)
{
	if (srqn == 0)
		return;
	qp->rcv.srq = srq_find(tp, srqn);
	qp->rcv.srq->users++;
	qp->recv_cq = qp->rcv.srq->cq;
	qp->pd = qp->rcv.srq->pd;
}

static bool
restore_path(struct transport *tp, struct qp *qp, const struct qp_record *r)
{
	struct tp_path path = { .addr = record_addr_get(&r->addr), .port = r->port, .pkey = r->pkey, .loopback = r->loopback };
	struct tp_path alt = { .addr = record_addr_get(&r->alt), .port = r->alt_port, .pkey = r->alt_pkey, .loopback = r->alt_loopback };

	if (r->has_path) {
		if (cc_attach(tp, qp, &path) != 0)
			return false;
		path_build_template(qp, &path);
	}
	path_follow_mtu(tp, qp);
	return !r->alt_loaded || migration_load(qp, &alt) == 0;
}

/* ---- Times ---- */
static uint64_t
at(uint64_t now_ns, uint64_t left)
{
	return left == UINT64_MAX ? 0 : now_ns + left;
}

static uint64_t
since(uint64_t now_ns, uint64_t age)
{
	return age == UINT64_MAX ? 0 : now_ns - RTE_MIN(age, now_ns - 1);
}

static void
restore_times(struct transport *tp, struct qp *qp, const struct qp_record *r)
{
	qp->loss.deadline_ns = at(tp->now_ns, r->timer_ns);
	qp->loss.giveup_ns = at(tp->now_ns, r->giveup_ns);
	qp->loss.rnr_known = r->rnr_wait;
	if (qp->loss.deadline_ns != 0)
		wheel_add(&tp->wheel, &qp->loss.timer, qp->loss.deadline_ns);
	qp->diag.stuck_ns = since(tp->now_ns, r->stuck_age_ns);
	qp->diag.nak_ns = since(tp->now_ns, r->nak_age_ns);
	qp->diag.why_ns = since(tp->now_ns, r->why_age_ns);
	qp->rcv.cnp_next_ns = tp->now_ns + r->cnp_ns;
}

/* ---- All of it ---- */
/* What follows from the attributes is not in the record twice. */
static void
restore_attributes(struct qp *qp, const struct qp_record *r)
{
	const struct uroce_qp_attr *a = &r->attr;

	qp->attr = *a;
	qp->access = a->qp_access_flags;
	qp->rcv.qkey = a->qkey;
	qp->path.dest_qpn = a->dest_qp_num;
	qp->loss.timeout = a->timeout;
	qp->loss.retry_cnt = a->retry_cnt;
	qp->loss.rnr_retry = a->rnr_retry;
	qp->req.max_rd = a->max_rd_atomic;
	qp->rcv.min_rnr_timer = a->min_rnr_timer;
}

/* The peer's answers may be lost and congestion is unknown: begin as with a new connection. */
static void
restore_window(struct qp *qp, const struct qp_record *r)
{
	bool sack_peer = r->sack_peer;

	cwnd_start(qp);
	qp->req.sack_peer = sack_peer;
	qp->req.sack_offers = r->sack_offers;
}

static bool
fill(struct transport *tp, struct qp *qp, const struct qp_record *r, const struct qp_record_parts *parts)
{
	restore_attributes(qp, r);
#define LOAD(name, member) qp->member = r->name;
	QP_RECORD_U64(LOAD)
	QP_RECORD_U32(LOAD)
	QP_RECORD_U16(LOAD)
	QP_RECORD_U8(LOAD)
	QP_RECORD_BOOL(LOAD)
#undef LOAD
	restore_srq(tp, qp, r->srqn);
	if (!journal_keep(qp, r, parts->kept) || !restore_receive(tp, qp, r, parts) || !restore_wqes(tp, qp, r, parts) || !restore_results(tp, qp, r, parts) ||
	    !restore_path(tp, qp, r))
		return false;
	qp->resp.res_head = r->res_head;
	qp->resp.res_limit = r->res_limit;
	restore_window(qp, r);
	restore_times(tp, qp, r);
	return true;
}

static int
restore(struct transport *tp, const struct qp_record *r, uint32_t room, const struct qp_params *p, uint64_t now_ns, struct qp **out, const char **why)
{
	struct qp_record_parts parts;
	const char *wrong = qp_record_check(tp, r, room, p, &parts);
	struct qp *qp;
	int rc;

	if (wrong != NULL)
		return refused(why, wrong, EINVAL);
	tp->now_ns = RTE_MAX(tp->now_ns, now_ns);
	rc = qp_create_as(tp, p, r->qpn, &qp);
	if (rc != 0)
		return refused(why, rc == EEXIST ? "qpn: another QP has this number" : rc == EINVAL ? "qpn: no QP can have this number" :
							 "qpn: there is no memory for another QP", rc);
	if (!fill(tp, qp, r, &parts)) {
		qp_discard(tp, qp);
		return refused(why, "nb_wqes: there is no memory, or a pool is empty", ENOMEM);
	}
	/* The words that clients share say what holds now; the first turn looks for what was posted meanwhile. */
	qp_set_state(qp, (enum uroce_qp_state)r->state);
	shared_store(&qp->shared->sq_watch, 0);
	shared_store(&qp->shared->rq_watch, r->state != UROCE_QPS_ERR);
	if (r->state != UROCE_QPS_RESET)
		qp_activate(tp, qp);
	journal_cold(qp);
	journal_commit(tp);
	*out = qp;
	return 0;
}

int
qp_restore(struct transport *tp, const struct qp_record *r, uint32_t room, const struct qp_params *p, uint64_t now_ns, struct qp **out,
	   const char **why)
{
	void *made;
	const struct qp_record *now = qp_record_renew(r, room, &made);
	int rc = now != NULL ? restore(tp, now, made != NULL ? now->head.size : room, p, now_ns, out, why) :
			       refused(why, "size: there is no memory for a record of an older version", ENOMEM);

	free(made);
	return rc;
}
