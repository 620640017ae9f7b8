/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester's run: decides whether the next packet may be sent (admit), has it built (build_priv.h), and accounts
 * for it.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/meter_priv.h"
#include "transport/core/prefetch_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/core/share_priv.h"
#include "transport/req/ack_priv.h"
#include "transport/req/build_priv.h"
#include "transport/req/complete_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/sack_priv.h"
#include "transport/req/scoreboard_priv.h"

/* ---- Admission ---- */
/* The next packet stays on this host: if it goes by reference, it has as many of the message's PSNs as are in one mapped piece, @p most at most. */
static __rte_noinline void
admit_several(struct transport *tp, struct qp *qp, struct req_packet *r, uint32_t most)
{
	uint32_t off = ((r->psn - r->w->first_psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	uint32_t n = RTE_MIN((uint32_t)wire_psn_diff(r->w->last_psn, r->psn) + 1, most);

	if (n < 2 || !local_takes_several(tp, qp))
		return;
	r->piece = sq_piece(tp, qp, r->w, r->counter, off, RTE_MIN(r->w->length - off, n << qp->path.mtu_shift));
	if (r->piece != NULL)
		r->psns = n;
}

/* May the next packet of a SEND or WRITE be sent? It has at most @p budget PSNs. */
static __rte_always_inline enum req_wait
admit_data(struct transport *tp, struct qp *qp, struct req_packet *r, uint32_t budget)
{
	int32_t out = wire_psn_diff(r->psn, qp->req.psn_una);

	if (qp->service != WIRE_RC)
		return REQ_RUNS;
	if (unlikely(credits_lacking(qp, r->w)) && r->psn == r->w->first_psn) {
		credits_wait(tp, qp);
		return REQ_WAIT_CREDITS;
	}
	if (unlikely(out >= qp->loss.cwnd))
		return REQ_WAIT_CWND;
	/*
	 * The packet that fills the window needs an answer, so that the window opens again. Under congestion control,
	 * so does any packet while no round trip is being measured: a slow QP would otherwise learn nothing for many
	 * round trips.
	 */
	if (unlikely(qp->path.detour) && r->psn != r->w->last_psn)
		admit_several(tp, qp, r, RTE_MIN(budget, (uint32_t)(qp->loss.cwnd - out)));
	r->ackreq = wire_psn_add(r->psn, r->psns - 1) == r->w->last_psn || (r->psn & qp->loss.ackreq_mask) + r->psns > qp->loss.ackreq_mask ||
		    out + (int32_t)r->psns >= qp->loss.cwnd || (unlikely(qp->req.cc != NULL) && !qp->loss.rtt_timing);
	return REQ_RUNS;
}

/*
 * May the next request with a response be sent? One READ request asks for at most one chunk, so that responses stay
 * within the congestion window too. Chunks always begin and end at the same PSNs, even when requested again: responders
 * recognise a duplicate by its bounds.
 */
static enum req_wait
admit_answered(struct qp *qp, struct req_packet *r, uint8_t kind)
{
	int32_t out = wire_psn_diff(r->psn, qp->req.psn_una);

	if (qp->req.rd_out >= qp->req.max_rd)
		return REQ_WAIT_RD_ATOMIC;
	if (kind != TP_REQ_READ)
		return out >= qp->loss.cwnd ? REQ_WAIT_CWND : REQ_RUNS;
	r->psns = (uint32_t)wire_psn_diff(swqe_read_chunk_end(r->w, r->psn), r->psn) + 1;
	return out != 0 && out + (int32_t)r->psns > qp->loss.cwnd ? REQ_WAIT_CWND : REQ_RUNS;
}

/* ---- Accounting ---- */
/* A request was sent: account for it. */
static __rte_always_inline void
account(struct transport *tp, struct qp *qp, const struct req_packet *r, bool answered)
{
	uint32_t last = wire_psn_add(r->psn, r->psns - 1);

	/* What a READ brings takes this engine's time, too, and is paid for when it is asked for, unless the time is measured. */
	if (answered) {
		uint32_t cost = RTE_MIN(r->psns << qp->path.mtu_shift, r->w->length) + r->psns * TP_COST_PACKET;

		qp->req.rd_out++;
		qp->sched.deficit -= (int32_t)cost;
		if (!meter_runs(tp))
			share_charge_only(tp, qp->share, cost);
	}
	if (answered || r->ackreq)
		rtt_start(tp, qp);
	if (unlikely(wire_psn_diff(r->psn, qp->req.psn_max) < 0)) {
		tp->counters.retransmitted_packets += answered ? 1 : r->psns;
		qp->diag.retransmitted += answered ? 1 : r->psns;
		if (r->psn == qp->req.psn_una)
			qp->loss.resent = true;
	}
	qp->req.psn_cur = wire_psn_add(last, 1);
	if (wire_psn_diff(qp->req.psn_cur, qp->req.psn_max) > 0)
		qp->req.psn_max = qp->req.psn_cur;
	if (last == r->w->last_psn)
		qp->req.sq_cur++;
}

/* Complete a bad WQE, once all before it are complete. @return true if it was completed. */
static bool
bad_wqe(struct transport *tp, struct qp *qp, const struct tp_swqe *w)
{
	if (qp->req.sq_cur != qp->req.sq_tail) {
		qp->req.wait = REQ_WAIT_DRAIN;
		return false;
	}
	tp->counters.req_local_errors++;
	complete_head_in_error(tp, qp, w->status, w->verr);
	return true;
}

/* UC and UD: WQEs are complete when they are sent. */
static inline void
complete_unacknowledged(struct transport *tp, struct qp *qp)
{
	qp->req.psn_una = qp->req.psn_cur;
	while (qp->req.sq_tail != qp->req.sq_cur)
		complete_head(tp, qp);
}

/* ---- Sending ---- */
/* No packet was built: the WQE is bad, there is no room, or the bytes are being fetched. */
static uint32_t
not_built(struct qp *qp, const struct tp_swqe *w)
{
	if (w->status == 0)
		qp->req.wait = copy_runs(qp, COPY_SEND) ? REQ_WAIT_MEMORY : REQ_WAIT_TX;
	return 0;
}

/* Send or execute any WQE that isn't a SEND or WRITE. */
static __rte_noinline uint32_t
send_other(struct transport *tp, struct qp *qp, struct req_packet *r, uint8_t kind)
{
	enum req_wait wait;

	if (kind == TP_REQ_LOCAL) {
		/* It waits until everything posted before it is complete (local.c). */
		if (qp->req.sq_cur != qp->req.sq_tail) {
			qp->req.wait = REQ_WAIT_DRAIN;
			return 0;
		}
		return complete_local(tp, qp, r->w);
	}
	wait = admit_answered(qp, r, kind);
	if (wait != REQ_RUNS) {
		qp->req.wait = wait;
		return 0;
	}
	if (!build_request(tp, qp, r))
		return not_built(qp, r->w);
	account(tp, qp, r, true);
	return 1;
}

/* Send the next packet, of at most @p budget PSNs. @return how many it has; 0: it has to wait (qp->req.wait), or its WQE has turned out bad. */
static __rte_always_inline uint32_t
send_next(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t budget)
{
	struct req_packet r = { .w = w, .counter = qp->req.sq_cur, .psn = qp->req.psn_cur, .psns = 1 };
	uint8_t kind = tp_req_ops[w->opcode].kind;
	enum req_wait wait;

	if (unlikely(kind != TP_REQ_DATA))
		return send_other(tp, qp, &r, kind);
	wait = admit_data(tp, qp, &r, budget);
	if (unlikely(wait != REQ_RUNS)) {
		qp->req.wait = wait;
		return 0;
	}
	if (unlikely(!(likely(qp->service != WIRE_UD) ? build_data(tp, qp, &r) : build_ud(tp, qp, &r))))
		return not_built(qp, w);
	account(tp, qp, &r, false);
	return r.psns;
}

/* As send_next(), under congestion control. */
static __rte_noinline uint32_t
send_paced(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t budget)
{
	uint64_t bytes = tp->counters.tx_bytes;
	uint32_t psn = qp->req.psn_cur, n;

	if (!cc_may_send(tp, qp)) {
		qp->req.wait = REQ_WAIT_PACE;
		return 0;
	}
	n = send_next(tp, qp, w, budget);
	if (n != 0)
		cc_sent_request(tp, qp, (uint32_t)(tp->counters.tx_bytes - bytes),
				tp_req_ops[w->opcode].kind == TP_REQ_READ ? (qp->req.psn_cur - psn) & WIRE_PSN_MASK : 0);
	return n;
}

uint32_t
requester_run(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0, n;

	qp->req.wait = qp->loss.rnr_wait ? REQ_WAIT_RNR : REQ_RUNS;
	if (unlikely(scoreboard_has_lost(qp)) && qp->req.wait == REQ_RUNS)
		work = sack_resend(tp, qp, budget);
	while (work < budget && !req_blocked(qp) && qp_sends(qp)) {
		struct tp_swqe *w;

		if (qp->req.sq_cur == qp->req.sq.counter) {
			if (!qp_does(qp, QP_FETCHES) || !sq_fetch(tp, qp))
				break;
			/* Another one in the same turn: the client posts several at a time. */
			if (work != 0)
				prefetch_sq_ahead(&qp->req.sq);
		}
		w = qp_inflight(qp, qp->req.sq_cur);
		if (unlikely(w->status != 0)) {
			work += bad_wqe(tp, qp, w);
			continue;
		}
		/* 10.8.3.3: a fenced WQE waits for READs and atomics before it. */
		if (unlikely((w->flags & UROCE_SEND_FENCE) && qp->req.rd_out != 0 && qp->req.psn_cur == w->first_psn)) {
			qp->req.wait = REQ_WAIT_FENCE;
			break;
		}
		n = unlikely(qp->req.cc != NULL) ? send_paced(tp, qp, w, budget - work) : send_next(tp, qp, w, budget - work);
		work += n;
		if (unlikely(n == 0)) {
			if (w->status != 0)
				continue;
			break;
		}
		if (qp->service != WIRE_RC)
			complete_unacknowledged(tp, qp);
	}
	if (qp->service == WIRE_RC && work != 0)
		loss_arm(tp, qp);
	if (unlikely(qp->state == UROCE_QPS_SQD))
		qp_check_drained(tp, qp);
	/* It stops for a reason, and says which. A client may have posted since it looked, so what waits in the ring doesn't count. */
	UROCE_ASSERT(work >= budget || qp->req.wait != REQ_RUNS || req_blocked(qp) || !qp_sends(qp) ||
		     (qp->req.sq_cur == qp->req.sq.counter && !scoreboard_has_lost(qp)));
	return work;
}

/* ---- Before a move ---- */
/*
 * May a QP that drains send its next packet? What it sends again, yes. Something new only in the middle of a SEND or WRITE, since its packets don't all ask
 * for an ACK. The last one of a message does, and so does each request that has a response.
 */
static bool
drain_may_send(struct qp *qp)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_cur);

	if (requester_is_drained(qp))
		return false;
	if (scoreboard_has_lost(qp) || wire_psn_diff(qp->req.psn_cur, qp->req.psn_max) < 0)
		return true;
	return !qp->sched.asked && qp->req.sq_cur != qp->req.sq.counter && qp->req.psn_cur != w->first_psn && swqe_kind(w) == TP_REQ_DATA;
}

uint32_t
requester_drain(struct transport *tp, struct qp *qp, uint32_t budget)
{
	const uint8_t mask = qp->loss.ackreq_mask;
	uint32_t work = 0, sent = 1;

	/* Each packet asks for an ACK. */
	qp->loss.ackreq_mask = 0;
	while (work < budget && sent != 0 && drain_may_send(qp)) {
		uint32_t psn = qp->req.psn_max;

		sent = requester_run(tp, qp, 1);
		work += sent;
		MARK_IF(psn != qp->req.psn_max, "a QP that is about to move asks for an ACK in the middle of a message");
		qp->sched.asked |= psn != qp->req.psn_max;
	}
	if (qp->loss.ackreq_mask == 0)
		qp->loss.ackreq_mask = mask;
	if (sent != 0)
		qp->req.wait = qp->loss.rnr_wait ? REQ_WAIT_RNR : REQ_WAIT_MOVE;
	return work;
}

bool
requester_pending(const struct qp *qp)
{
	if (!qp_sends(qp) || req_blocked(qp))
		return false;
	return qp->req.sq_cur != qp->req.sq.counter || scoreboard_has_lost(qp) ||
	       (qp_does(qp, QP_FETCHES) && ring_sq_ready(&qp->req.sq, qp->req.sq.counter));
}
