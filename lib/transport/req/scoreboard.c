/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scoreboard: which packets the peer has, which were lost, and in which order they were sent.
 */
#include "base/mark.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/lend_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/scoreboard_priv.h"

enum { ONCE = UINT32_MAX }; /* nth of a packet that was sent once: it follows all retransmissions with the same psn */

/* ---- Requests, one after the other ---- */
void
sb_request_step(struct qp *qp, struct sb_request *u)
{
	const struct tp_swqe *w;

	u->psn = u->next;
	while (wire_psn_diff((w = qp_inflight(qp, u->counter))->last_psn, u->psn) < 0)
		u->counter++;
	u->kind = tp_req_ops[w->opcode].kind;
	u->next = wire_psn_add(u->psn, 1);
	u->rest = false;
	if (u->kind != TP_REQ_READ)
		return;
	u->rest = ((u->psn - w->first_psn) & (TP_READ_CHUNK_PACKETS - 1)) != 0;
	u->next = wire_psn_add(swqe_read_chunk_end(w, u->psn), 1);
}

/* ---- The scoreboard ---- */
static void
scoreboard_count(struct qp *qp)
{
	const struct tp_scoreboard *b = qp->req.scoreboard;

	qp->loss.not_in_flight = b != NULL ? (uint16_t)(b->nb_has + b->nb_lost) : 0;
}

void
scoreboard_update_cwnd(struct qp *qp)
{
	scoreboard_count(qp);
	cwnd_update(qp);
}

void
scoreboard_forget(struct transport *tp, struct qp *qp)
{
	if (qp->req.scoreboard == NULL)
		return;
	scoreboard_return(tp, qp);
	scoreboard_update_cwnd(qp);
}

void
scoreboard_set_lost(struct tp_scoreboard *b, uint32_t psn)
{
	if (sack_bit(b->lost, psn) || sack_bit(b->has, psn))
		return;
	sack_set(b->lost, psn);
	b->nb_lost++;
}

static void
not_lost(struct tp_scoreboard *b, uint32_t psn)
{
	if (!sack_bit(b->lost, psn))
		return;
	sack_clear(b->lost, psn);
	b->nb_lost--;
}

/* Keep the scoreboard at least until psn is acknowledged. */
static void
reaches(struct tp_scoreboard *b, uint32_t psn)
{
	if (wire_psn_diff(psn, b->end) >= 0)
		b->end = wire_psn_add(psn, 1);
}

bool
scoreboard_set_has(struct tp_scoreboard *b, uint32_t psn)
{
	if (sack_bit(b->has, psn))
		return false;
	sack_set(b->has, psn);
	b->nb_has++;
	reaches(b, psn);
	not_lost(b, psn);
	return true;
}

void
scoreboard_new_losses(struct transport *tp, struct qp *qp, uint32_t before)
{
	uint32_t n = qp->req.scoreboard->nb_lost - before;

	if (n == 0)
		return;
	diag_stuck(qp, tp->now_ns);
	diag_note(tp, qp, QP_EV_SACK, (uint8_t)RTE_MIN(n, UINT32_C(255)), 0, qp->req.psn_una);
	/* The packet being timed may be among the lost ones. */
	rtt_untime(qp);
	scoreboard_count(qp);
	cwnd_lost(tp, qp, n);
	qp_activate(tp, qp);
}

static void
mark_again(const struct transport *tp, struct qp *qp, uint32_t psn)
{
	struct tp_scoreboard *b = qp->req.scoreboard;

	b->again[psn % TP_SACK_SPAN] = (struct sb_again){ .psn = qp->req.psn_max, .nth = ++b->nth, .sent_ns = tp->now_ns };
	reaches(b, psn);
}

void
scoreboard_resent(const struct transport *tp, struct qp *qp, uint32_t psn)
{
	mark_again(tp, qp, psn);
	not_lost(qp->req.scoreboard, psn);
}

void
scoreboard_probed(const struct transport *tp, struct qp *qp)
{
	struct sb_request u = { .counter = qp->req.sq_tail, .next = qp->req.psn_una };
	uint32_t psn;

	sb_request_step(qp, &u);
	FOREACH_PSN(psn, u)
		scoreboard_resent(tp, qp, psn);
	/* It may have been among the lost ones. */
	scoreboard_update_cwnd(qp);
}

/*
 * Before it got a scoreboard, the requester may have gone back N and not yet resent everything. Note what it has resent
 * as resent and the rest as lost; the requester then goes on with what was never sent.
 */
static void
catch_up(const struct transport *tp, struct qp *qp)
{
	uint32_t cur = qp->req.psn_cur, psn;
	struct sb_request u;

	if (cur == qp->req.psn_max)
		return;
	qp->req.rd_out = 0;
	FOREACH_REQUEST(qp, u, qp->req.psn_max) {
		qp->req.rd_out += u.kind != TP_REQ_DATA;
		FOREACH_PSN(psn, u) {
			if (wire_psn_diff(u.psn, cur) < 0)
				mark_again(tp, qp, psn);
			else
				scoreboard_set_lost(qp->req.scoreboard, psn);
		}
	}
	/* A local operation, which has no PSN, waits until it is the oldest: one at psn_max hasn't been executed. */
	while (qp->req.sq_cur != qp->req.sq.counter && wire_psn_diff(qp_inflight(qp, qp->req.sq_cur)->first_psn, qp->req.psn_max) < 0 &&
	       wire_psn_diff(qp_inflight(qp, qp->req.sq_cur)->last_psn, qp->req.psn_max) < 0)
		qp->req.sq_cur++;
	qp->req.psn_cur = qp->req.psn_max;
}

struct tp_scoreboard *
scoreboard_get(struct transport *tp, struct qp *qp)
{
	struct tp_scoreboard *b = qp->req.scoreboard;

	if (b != NULL)
		return b;
	b = share_take(tp, qp, TP_POOL_SCOREBOARDS, &tp->scoreboards);
	if (b == NULL)
		return NULL;
	MARK_IF(qp->req.psn_cur != qp->req.psn_max, "a scoreboard begins while the requester goes back N");
	memset(b, 0, sizeof(*b));
	b->una = b->acked = b->end = b->seen_psn = qp->req.psn_una;
	qp->req.scoreboard = b;
	catch_up(tp, qp);
	/* What it takes for lost isn't in flight, but has a timer, even if it can't be sent again at once. */
	scoreboard_update_cwnd(qp);
	loss_arm(tp, qp);
	return b;
}

/* The packet of psn has arrived. */
static void
arrived(const struct transport *tp, const struct qp *qp, uint32_t psn)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	const struct sb_again *a = &b->again[psn % TP_SACK_SPAN];
	uint32_t nth = a->nth, at = nth == 0 ? psn : a->psn;
	int32_t later = wire_psn_diff(at, b->seen_psn);

	/* Sooner than it can be answered: it was late, not lost, and this is the answer to an earlier transmission (RFC 8985, 6.2, step 2). */
	if (nth != 0 && tp->now_ns - a->sent_ns < qp->loss.rtt_min_ns) {
		MARK("a packet that was sent again had only been late");
		return;
	}
	nth = nth == 0 ? ONCE : nth;
	if (later > 0 || (later == 0 && nth > b->seen_nth)) {
		b->seen_psn = at;
		b->seen_nth = nth;
	}
}

void
scoreboard_progress(struct transport *tp, struct qp *qp)
{
	struct tp_scoreboard *b = qp->req.scoreboard;

	for (; b->una != qp->req.psn_una; b->una = wire_psn_add(b->una, 1)) {
		if (sack_bit(b->has, b->una)) {
			sack_clear(b->has, b->una);
			b->nb_has--;
		} else {
			arrived(tp, qp, b->una);
		}
		sack_clear(b->held, b->una);
		not_lost(b, b->una);
		b->again[b->una % TP_SACK_SPAN].nth = 0;
	}
	if (wire_psn_diff(b->una, b->acked) > 0)
		b->acked = b->una;
	if (wire_psn_diff(b->una, b->end) >= 0 && b->nb_lost == 0)
		scoreboard_forget(tp, qp);
	else
		scoreboard_update_cwnd(qp);
}

/* @return whether the peer has the request: holds it, or has executed it. */
static bool
peer_has(const struct tp_scoreboard *b, const struct sb_request *u)
{
	if (u->kind == TP_REQ_DATA)
		return sack_bit(b->has, u->psn);
	return u->rest || sack_bit(b->held, u->psn) || wire_psn_diff(u->psn, b->acked) < 0;
}

void
scoreboard_judge(struct transport *tp, struct qp *qp)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	uint32_t before = b->nb_lost, psn;
	struct sb_request u;

	FOREACH_REQUEST(qp, u, b->seen_psn) {
		uint32_t nth = b->again[u.psn % TP_SACK_SPAN].nth;
		int32_t later = nth == 0 ? -1 : wire_psn_diff(b->again[u.psn % TP_SACK_SPAN].psn, b->seen_psn);

		if (peer_has(b, &u) || later > 0 || (later == 0 && nth >= b->seen_nth))
			continue;
		FOREACH_PSN(psn, u)
			scoreboard_set_lost(b, psn);
	}
	scoreboard_new_losses(tp, qp, before);
}

void
scoreboard_all_lost(struct transport *tp, struct qp *qp)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	uint32_t before = b->nb_lost, psn;
	struct sb_request u;

	FOREACH_REQUEST(qp, u, qp->req.psn_max) {
		if (u.kind != TP_REQ_DATA && sack_bit(b->held, u.psn) && wire_psn_diff(u.psn, b->acked) >= 0)
			continue;
		FOREACH_PSN(psn, u)
			scoreboard_set_lost(b, psn);
	}
	rtt_untime(qp);
	scoreboard_count(qp);
	cwnd_lost(tp, qp, b->nb_lost - before);
	qp_activate(tp, qp);
}

void
scoreboard_set_held(const struct transport *tp, struct qp *qp, const struct sb_request *u)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	uint32_t psn;

	arrived(tp, qp, u->psn);
	if (u->kind == TP_REQ_DATA) {
		scoreboard_set_has(b, u->psn);
		return;
	}
	sack_set(b->held, u->psn);
	reaches(b, u->psn);
	FOREACH_PSN(psn, *u)
		not_lost(b, psn);
}
