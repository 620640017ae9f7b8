/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP's record is written.
 */
#include "transport/core/copy_priv.h"
#include "transport/core/journal_priv.h"
#include "transport/core/lend_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/record/record_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/send_queue_priv.h"

static uint32_t
nb_reads(const struct qp *qp)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < qp->resp.res_max; i++)
		n += read_pending(qp, i);
	return n;
}

static uint32_t
nb_sges(const struct qp *qp)
{
	return record_receives(qp) && qp->rcv.srq != NULL ? qp->rcv.rwqe.nb_sge : 0;
}

static uint32_t
nb_kept(const struct qp *qp)
{
	return qp->journal != NULL && qp->journal->kept != NULL ? qp->journal->kept->nb : 0;
}

uint32_t
qp_record_bytes(const struct qp *qp)
{
	return (uint32_t)(sizeof(struct qp_record) + (qp->req.sq.counter - qp->req.sq_tail) * sizeof(struct qp_record_wqe) +
			  qp->resp.res_max * sizeof(struct qp_record_res) + nb_reads(qp) * sizeof(struct qp_record_read) +
			  nb_sges(qp) * sizeof(struct qp_record_sge) + nb_kept(qp) * sizeof(struct qp_record_kept));
}

static bool
copies_run(const struct qp *qp)
{
	return copy_runs(qp, COPY_SEND) || copy_runs(qp, COPY_READ) || copy_runs(qp, COPY_RX);
}

/* Drop what isn't saved, as if the network had lost it. */
static void
drop(struct transport *tp, struct qp *qp)
{
	rx_wait_drop(tp, qp);
	copy_end(tp, qp);
	reorder_return(tp, qp);
	if (qp->req.scoreboard != NULL && qp_sends(qp))
		loss_go_back(tp, qp);
}

void
record_cold(const struct qp *qp, struct qp_record *r)
{
	const struct tp_path *alt = qp->path.alt;
	struct wire_addr a;

	r->attr = qp->attr;
	r->has_path = qp->path.tmpl.bth_off != 0 && qp->service != WIRE_UD;
	if (r->has_path) {
		a = wire_tmpl_addr(&qp->path.tmpl);
		/* The ECN bits say whether there is congestion control, which the next transport decides. */
		a.traffic_class = (uint8_t)((a.traffic_class & ~3u) | (qp->attr.ah.traffic_class & 3u));
		r->addr = record_addr_of(&a);
	}
	if (!qp->path.alt_loaded)
		return;
	r->alt = record_addr_of(&alt->addr);
	r->alt_port = alt->port;
	r->alt_pkey = alt->pkey;
	r->alt_loopback = alt->loopback;
}

static uint64_t
until(const struct transport *tp, uint64_t at)
{
	return at == 0 ? UINT64_MAX : at > tp->now_ns ? at - tp->now_ns : 0;
}

static uint64_t
age(const struct transport *tp, uint64_t at)
{
	return at == 0 ? UINT64_MAX : tp->now_ns - RTE_MIN(at, tp->now_ns);
}

static void
save_times(const struct transport *tp, const struct qp *qp, struct qp_record *r)
{
	r->timer_ns = until(tp, qp->loss.deadline_ns);
	r->giveup_ns = qp->loss.deadline_ns == 0 ? UINT64_MAX : until(tp, qp->loss.giveup_ns);
	r->stuck_age_ns = age(tp, qp->diag.stuck_ns);
	r->nak_age_ns = age(tp, qp->diag.nak_ns);
	r->why_age_ns = age(tp, qp->diag.why_ns);
	r->cnp_ns = qp->rcv.cnp_next_ns > tp->now_ns ? qp->rcv.cnp_next_ns - tp->now_ns : 0;
}

static void *
save_wqes(const struct qp *qp, struct qp_record *r, void *at)
{
	struct qp_record_wqe *to = at;

	for (uint32_t c = qp->req.sq_tail; c != qp->req.sq.counter; c++) {
		to[r->nb_wqes++] = record_wqe(&qp->req.inflight[c & qp->req.inflight_mask]);
	}
	return to + r->nb_wqes;
}

static void *
save_results(const struct qp *qp, struct qp_record *r, void *at)
{
	struct qp_record_res *to = at;

	for (uint32_t i = 0; i < qp->resp.res_max; i++) {
		to[r->nb_res++] = record_res(&qp->resp.res[i]);
	}
	return to + r->nb_res;
}

static void *
save_reads(const struct qp *qp, struct qp_record *r, void *at)
{
	struct qp_record_read *to = at;

	if (likely(qp->resp.pending == 0))
		return at;
	for (uint32_t i = 0; i < qp->resp.res_max; i++) {
		const struct tp_read *s;

		if (!read_pending(qp, i))
			continue;
		s = &qp->resp.reads[i];
		to[r->nb_reads++] = (struct qp_record_read){ .va = s->va, .rkey = s->rkey, .cur = s->cur, .srqn = s->srqn, .again = s->again,
							     .begins = s->begins, .run = s->run, .nth = (uint8_t)i };
	}
	return to + r->nb_reads;
}

static void *
save_sges(const struct qp *qp, struct qp_record *r, void *at)
{
	struct qp_record_sge *to = at;

	for (uint32_t n = nb_sges(qp); r->nb_sges < n; r->nb_sges++) {
		const struct ring_sge *s = &qp->rcv.rwqe.sge[r->nb_sges];

		to[r->nb_sges] = (struct qp_record_sge){ .addr = s->addr, .length = s->length, .lkey = s->lkey };
	}
	return to + r->nb_sges;
}

static void *
save_kept(const struct qp *qp, struct qp_record *r, void *at)
{
	const struct tp_kept *k = qp->journal != NULL ? qp->journal->kept : NULL;
	struct qp_record_kept *to = at;

	if (k == NULL)
		return at;
	r->kept = (uint8_t)((k->placed ? QP_KEPT_PLACED : 0) | (k->local ? QP_KEPT_LOCAL : 0));
	r->placed_to = k->placed ? k->placed_to : 0;
	r->local_to = k->local ? k->local_to : 0;
	for (; r->nb_kept < k->nb; r->nb_kept++)
		to[r->nb_kept] = (struct qp_record_kept){ .value = k->atomics[r->nb_kept].old, .psn = k->atomics[r->nb_kept].psn };
	return to + r->nb_kept;
}

void *
record_parts(const struct qp *qp, struct qp_record *r, void *at)
{
	at = save_reads(qp, r, at);
	at = save_sges(qp, r, at);
	return save_kept(qp, r, at);
}

int
qp_save(struct transport *tp, struct qp *qp, struct qp_record *to, uint32_t room)
{
	uint32_t bytes;

	if (copies_run(qp))
		return EBUSY;
	drop(tp, qp);
	journal_forget_kept(qp, false);
	bytes = qp_record_bytes(qp);
	if (bytes > room)
		return ENOSPC;
	memset(to, 0, bytes);
	record_members(qp, to);
	to->srqn = record_srqn(qp);
	to->recv_valid = record_receives(qp);
	record_cold(qp, to);
	save_times(tp, qp, to);
	record_parts(qp, to, save_results(qp, to, save_wqes(qp, to, to + 1)));
	record_seal(to, RECORD_QP, QP_RECORD_VERSION, bytes);
	return 0;
}
