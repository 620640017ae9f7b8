/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery: the requester's timer, tail loss probes, going back N.
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/path/path_priv.h"
#include "transport/req/build_priv.h"
#include "transport/req/complete_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/scoreboard_priv.h"

enum { RNR_TIMER_LONGEST = 0 }; /* the code of 655.36 ms (table 45) */

/* ---- The timer ---- */
/*
 * The specification allows a requester up to four times the timeout (9.7.6.1.3). The first try waits the shortest time,
 * because the usual cause is a lost packet. After that it is more likely that the peer's engine is waiting for its
 * core, and longer timeouts bridge that.
 */
static inline uint64_t
ack_timeout_ns(const struct qp *qp)
{
	uint32_t tries = (uint32_t)(qp->loss.retry_cnt - qp->loss.retry_left);
	uint32_t most = qp->loss.timeout < TP_BACKOFF_END ? (uint32_t)(TP_BACKOFF_END - qp->loss.timeout) : 0;

	most = RTE_MIN(most, (uint32_t)TP_BACKOFF_MAX);
	return (uint64_t)TP_TIMEOUT_UNIT_NS << (qp->loss.timeout + RTE_MIN(tries, most));
}

uint64_t
loss_ack_timeout_ns(const struct qp *qp)
{
	return ack_timeout_ns(qp);
}

/* When the wheel's entry would fire it is put off until the deadline. So for an ACK a store is enough. */
static void
set_deadline(struct transport *tp, struct qp *qp, uint64_t deadline_ns)
{
	UROCE_ASSERT(deadline_ns != 0);
	qp->loss.deadline_ns = deadline_ns;
	if (!wheel_pending(&qp->loss.timer) || qp->loss.timer.tick > deadline_ns >> WHEEL_TICK_SHIFT)
		wheel_add(&tp->wheel, &qp->loss.timer, deadline_ns);
}

/*
 * When the timer fires: for a tail loss probe after a few round trips, if that is well before the ACK timeout; else at
 * the ACK timeout. A new connection with a long timeout that has no round trip measured yet assumes short ones.
 */
static inline uint64_t
next_deadline(const struct transport *tp, const struct qp *qp)
{
	uint64_t early;

	if (qp->loss.probes == TP_PROBES || (qp->loss.pto_ns == 0 && qp->loss.timeout < TP_PROBE_FIRST_OF) ||
	    unlikely(!tp->c.ports[qp->path.port].features.tail_loss_probe))
		return qp->loss.giveup_ns;
	early = likely(qp->loss.pto_ns != 0) ? qp->loss.pto_ns : TP_PROBE_FIRST_NS;
	early += (uint64_t)wire_psn_diff(qp->req.psn_max, qp->req.psn_una) * TP_PROBE_PACKET_NS;
	early <<= qp->loss.pto_shift;
	/* Packets sent before the one that was answered will hardly arrive any more. */
	if (unlikely(qp->loss.probe == TP_PROBE_ANSWERED)) {
		if (likely(qp->loss.pto_ns != 0))
			early = qp->loss.pto_ns / 2;
		else
			MARK_UNIT("a probe is answered before a round trip was measured", "unit/transport/rc_tail_loss");
	}
	if (2 * early > ack_timeout_ns(qp) || tp->now_ns + early >= qp->loss.giveup_ns)
		return qp->loss.giveup_ns;
	return tp->now_ns + early;
}

/* A QP that has gone to ERR just now, since its CQ has overrun or the next request is a bad one, waits for nothing more. */
static inline void
arm(struct transport *tp, struct qp *qp)
{
	if (qp->loss.deadline_ns != 0 || qp->loss.timeout == 0 || qp->loss.rnr_wait || qp->req.psn_cur == qp->req.psn_una ||
	    unlikely(!qp_sends(qp)))
		return;
	qp->loss.giveup_ns = tp->now_ns + ack_timeout_ns(qp);
	set_deadline(tp, qp, next_deadline(tp, qp));
}

void
loss_arm(struct transport *tp, struct qp *qp)
{
	arm(tp, qp);
}

/* With the old timeout there may have been no timer at all (0), or the new one shall have none. */
void
loss_timeout_changed(struct transport *tp, struct qp *qp)
{
	if (!qp_sends(qp) || qp->loss.rnr_wait) {
		MARK_IF(qp->loss.rnr_wait, "the timeout is changed while the RNR timer runs");
		return;
	}
	qp->loss.deadline_ns = 0;
	arm(tp, qp);
}

void
loss_alive(struct transport *tp, struct qp *qp)
{
	qp->loss.probes = 0;
	qp->loss.probe = TP_PROBE_NONE;
	qp->loss.deadline_ns = 0;
	arm(tp, qp);
}

/*
 * @return whether the timer was armed at this same time, with all tries left. To arm it again would change its deadline by nanoseconds, if at all, and many responses may
 * come in one turn.
 */
static inline bool
armed_now(const struct transport *tp, const struct qp *qp)
{
	return qp->loss.deadline_ns != 0 && (qp->loss.probes | qp->loss.probe) == 0 && qp->loss.retry_left == qp->loss.retry_cnt &&
	       qp->loss.giveup_ns == tp->now_ns + ((uint64_t)TP_TIMEOUT_UNIT_NS << qp->loss.timeout) && qp->req.psn_cur != qp->req.psn_una && qp_sends(qp);
}

void
loss_progress(struct transport *tp, struct qp *qp)
{
	bool armed = armed_now(tp, qp);

	if (wire_psn_diff(qp->req.psn_una, qp->loss.psn_grow) >= 0)
		cwnd_grow(qp);
	if (unlikely(qp->loss.rtt_timing) && wire_psn_diff(qp->req.psn_una, qp->loss.rtt_psn) > 0) {
		rtt_measured(tp, qp);
		armed = false;
	}
	qp->loss.probes = 0;
	if (unlikely(qp->loss.probe != TP_PROBE_NONE))
		qp->loss.probe = qp->req.psn_una == qp->req.psn_max ? TP_PROBE_NONE : TP_PROBE_ANSWERED;
	qp->loss.retry_left = qp->loss.retry_cnt;
	qp->loss.rnr_left = qp->loss.rnr_retry;
	qp->loss.restarted = false;
	qp->loss.rnr_known = false;
	qp->loss.resent = false;
	if (!armed && !qp->loss.rnr_wait) {
		qp->loss.deadline_ns = 0;
		arm(tp, qp);
	}
}

/* ---- Sending again ---- */
void
loss_go_back(struct transport *tp, struct qp *qp)
{
	qp->loss.nak_each = false;
	qp->loss.naks_due = (uint8_t)RTE_MIN(wire_psn_diff(qp->req.psn_cur, qp->req.psn_una), UINT8_MAX);
	scoreboard_forget(tp, qp);
	qp->req.sq_cur = qp->req.sq_tail;
	qp->req.psn_cur = qp->req.psn_una;
	qp->req.rd_out = 0;
	qp->loss.rnr_known = qp->loss.rnr_wait;
	rtt_untime(qp);
	qp_activate(tp, qp);
}

/* Resend the oldest packet that is not acknowledged, and ask for an answer. */
static void
send_probe(struct transport *tp, struct qp *qp)
{
	struct req_packet r = { .w = qp_inflight(qp, qp->req.sq_tail), .counter = qp->req.sq_tail, .psn = qp->req.psn_una,
				.psns = 1, .ackreq = true };
	bool sent = false;

	rtt_untime(qp);
	if (r.w->status == 0) {
		if (tp_req_ops[r.w->opcode].kind == TP_REQ_READ)
			r.psns = wire_psn_diff(swqe_read_chunk_end(r.w, r.psn), r.psn) + 1;
		sent = build_request(tp, qp, &r);
	}
	/* If the WQE's memory is gone, the WQE fails in its turn. */
	if (unlikely(r.w->status != 0)) {
		MARK_UNIT("the memory of a request that is sent as a probe is gone", "unit/transport/rc_tail_loss");
		loss_go_back(tp, qp);
		return;
	}
	if (!sent)
		MARK_UNIT("a probe finds no room", "unit/transport/rc_loss");
	tp->counters.retransmitted_packets += sent;
	qp->diag.retransmitted += sent;
	if (qp->req.scoreboard != NULL)
		scoreboard_probed(tp, qp);
}

/*
 * A response was lost: request it again, but only once until there is progress; after that the timer does it. If the
 * oldest WQE turned out bad after part or all of it had been sent, nothing was lost: it fails in its turn.
 */
void
loss_lost_response(struct transport *tp, struct qp *qp)
{
	if (unlikely(!qp_sends(qp))) {
		MARK_UNIT("the send CQ overruns before a response is missed", "unit/transport/limits");
		return;
	}
	if (unlikely(swqe_kind(qp_inflight(qp, qp->req.sq_tail)) == TP_REQ_NONE)) {
		MARK_UNIT("a response arrives to a WQE that has turned out bad", "unit/transport/rc_errors");
		tp->counters.rx_response_ignored++;
		return;
	}
	if (qp->loss.restarted || qp->loss.rnr_wait) {
		MARK_IF(qp->loss.rnr_wait, "a response is missing while the RNR timer runs");
		tp->counters.rx_response_ignored++;
		return;
	}
	qp->loss.restarted = true;
	tp->counters.implied_nak_seq_err++;
	diag_stuck(qp, tp->now_ns);
	diag_note(tp, qp, QP_EV_LOST_RESPONSE, 0, 0, qp->req.psn_una);
	if (unlikely(!qp->req.sack_peer))
		sack_offer(tp, qp);
	cwnd_loss(tp, qp, false);
	loss_go_back(tp, qp);
}

/* @return why nobody answers, if the QP knows better than @p verr. */
static uint8_t
cause(const struct qp *qp, uint8_t verr)
{
	if (qp->path.detour & DETOUR_GONE)
		return TP_VERR_ADDRESS;
	if ((qp->path.detour & DETOUR_MTU) && qp->diag.too_long && qp->diag.too_long_psn == qp->req.psn_una)
		return TP_VERR_MTU;
	return verr;
}

/* Go back N, if retries are left; else change to the alternate path, or fail. */
static void
retry(struct transport *tp, struct qp *qp, uint8_t verr)
{
	if (qp->loss.retry_left > 0) {
		qp->loss.retry_left--;
	} else if (!migration_go(tp, qp)) {
		MARK_IF(verr == TP_VERR_SEQ_RETRY, "sequence NAKs use up all retries");
		tp->counters.retry_exceeded_err++;
		complete_head_in_error(tp, qp, UROCE_WC_RETRY_EXC_ERR, cause(qp, verr));
		return;
	}
	cwnd_loss(tp, qp, verr == TP_VERR_TIMEOUT);
	loss_go_back(tp, qp);
	/* The next timeout counts from the retransmission. */
	qp->loss.deadline_ns = 0;
}

/*
 * Nothing was acknowledged for a few round trips. Most likely the last packet, its ACK or a NAK was lost: resending one
 * packet finds out, without using up retry_cnt. If that brought an answer but the rest is still not acknowledged, the
 * rest was lost. If it brought none, the peer may be slow, and more packets would only make it slower.
 */
static void
send_early(struct transport *tp, struct qp *qp)
{
	tp->counters.tail_loss_probes++;
	diag_note(tp, qp, QP_EV_PROBE, 0, 0, qp->req.psn_una);
	qp->loss.probes++;
	if (qp->loss.pto_shift < TP_PROBE_SHIFT_MAX)
		qp->loss.pto_shift++;
	if (qp->loss.probe != TP_PROBE_ANSWERED) {
		send_probe(tp, qp);
		qp->loss.probe = TP_PROBE_SENT;
	} else {
		/*
		 * Only once: resending everything takes longer than a round trip, so answers to it don't mean that the
		 * rest was lost.
		 */
		qp->loss.probe = TP_PROBE_NONE;
		if (qp->req.scoreboard != NULL) {
			MARK("only one packet of many arrives, and the scoreboard takes all others for lost");
			scoreboard_all_lost(tp, qp);
		} else {
			cwnd_loss(tp, qp, false);
			loss_go_back(tp, qp);
		}
	}
	set_deadline(tp, qp, next_deadline(tp, qp));
}

void
loss_timer(struct transport *tp, struct qp *qp)
{
	UROCE_ASSERT(qp->loss.deadline_ns != 0 && tp->now_ns >= qp->loss.deadline_ns);
	qp->loss.deadline_ns = 0;
	if (!qp_sends(qp)) {
		MARK_UNIT("a record has a timer for a QP that sends no more", "unit/transport/record");
		return;
	}
	if (qp->loss.rnr_wait) {
		qp->loss.rnr_wait = false;
		qp_activate(tp, qp);
		return;
	}
	if (qp->req.sq_tail == qp->req.sq.counter || qp->req.psn_cur == qp->req.psn_una)
		return;
	/* The answer may be among the packets that are held, and what should be sent again may not be there yet. */
	if (unlikely(rx_waits(qp)) || (unlikely(qp->copy != NULL) && (copy_stalled(qp) || copy_runs(qp, COPY_SEND)))) {
		MARK_IF(rx_waits(qp), "a timer waits for packets that wait for a turn");
		arm(tp, qp);
		return;
	}
	if (tp->now_ns < qp->loss.giveup_ns) {
		send_early(tp, qp);
		return;
	}
	tp->counters.local_ack_timeout_err++;
	diag_stuck(qp, qp->loss.giveup_ns - ack_timeout_ns(qp));
	diag_note(tp, qp, QP_EV_TIMEOUT, qp->loss.retry_left, 0, qp->req.psn_una);
	qp->loss.restarted = false;
	retry(tp, qp, TP_VERR_TIMEOUT);
}

/* ---- NAKs ---- */
/*
 * A peer may answer each packet behind a gap with the same NAK. Those sent for the first flight still arrive for about a
 * round trip after the retransmission has begun. A round trip that wasn't measured is taken for one of TP_PROBE_FIRST_NS.
 * A peer that repeats its NAK in that time may take longer for all of the flight, but it has no more than one for each packet.
 * If the NAK was about the retransmission nevertheless, the timer sends again. Without a timer nothing would, so then each
 * NAK counts.
 */
static bool
nak_too_early(const struct transport *tp, struct qp *qp)
{
	uint64_t rtt = qp->loss.pto_ns != 0 ? qp->loss.srtt_ns : TP_PROBE_FIRST_NS;

	if (!qp->loss.resent || qp->req.psn_cur == qp->req.psn_una || qp->loss.timeout == 0)
		return false;
	/* The ACK timeout counts from the retransmission. */
	if (tp->now_ns < qp->loss.giveup_ns - ack_timeout_ns(qp) + rtt)
		qp->loss.nak_each = true;
	else if (!qp->loss.nak_each || qp->loss.naks_due == 0)
		return false;
	if (qp->loss.naks_due > 0)
		qp->loss.naks_due--;
	return true;
}

void
loss_sequence_nak(struct transport *tp, struct qp *qp)
{
	if (nak_too_early(tp, qp)) {
		MARK("a repeated sequence NAK is ignored");
		tp->counters.rx_nak_repeated++;
		return;
	}
	tp->counters.packet_seq_err++;
	diag_note(tp, qp, QP_EV_NAK, WIRE_NAK_PSN_SEQ, 0, qp->req.psn_una);
	if (!qp->req.sack_peer)
		sack_offer(tp, qp);
	/* The NAK is a duplicate of one that was acted on, if the packets have not been resent yet. */
	MARK_IF(qp->loss.rnr_wait, "a sequence NAK arrives while the RNR timer runs");
	MARK_IF(!qp->loss.rnr_wait && qp->req.psn_cur == qp->req.psn_una, "a sequence NAK is repeated before its packets are resent");
	if (!qp->loss.rnr_wait && qp->req.psn_cur != qp->req.psn_una)
		retry(tp, qp, TP_VERR_SEQ_RETRY);
}

static void
rnr_wait_until(struct transport *tp, struct qp *qp, uint64_t until_ns)
{
	qp->loss.rnr_wait = true;
	qp->req.wait = REQ_WAIT_RNR;
	set_deadline(tp, qp, until_ns);
}

/*
 * The peer asks for time again, for a request that it hasn't been sent again since: a duplicate of the first RNR NAK, or the
 * answer to a duplicate of the request. It has its time, but no repetition makes a wait longer than one RNR NAK could.
 */
static void
rnr_nak_repeated(struct transport *tp, struct qp *qp, uint64_t until_ns)
{
	until_ns = RTE_MIN(until_ns, qp->loss.giveup_ns);
	if (qp->loss.rnr_wait) {
		MARK("an RNR NAK comes during the wait");
		until_ns = RTE_MAX(until_ns, qp->loss.deadline_ns);
	} else {
		MARK_UNIT("an RNR NAK is repeated between the wait and the retransmission", "unit/transport/rc_naks");
	}
	if (until_ns > tp->now_ns)
		rnr_wait_until(tp, qp, until_ns);
}

void
loss_rnr_nak(struct transport *tp, struct qp *qp, uint8_t code)
{
	uint64_t until_ns = tp->now_ns + wire_rnr_timer_ns(code);

	tp->counters.rnr_nak_received++;
	if (qp->loss.rnr_known && qp->req.psn_cur == qp->req.psn_una) {
		rnr_nak_repeated(tp, qp, until_ns);
		return;
	}
	MARK_IF(qp->req.scoreboard != NULL, "an RNR NAK arrives while packets are known to be lost");
	diag_stuck(qp, tp->now_ns);
	diag_note(tp, qp, QP_EV_RNR, code, qp->loss.rnr_left, qp->req.psn_una);
	if (qp->loss.rnr_retry != TP_RETRY_INFINITE) {
		if (qp->loss.rnr_left == 0) {
			tp->counters.rnr_nak_retry_err++;
			complete_head_in_error(tp, qp, UROCE_WC_RNR_RETRY_EXC_ERR, TP_VERR_RNR);
			return;
		}
		qp->loss.rnr_left--;
	}
	/*
	 * The peer has answered, so earlier timeouts no longer count (the two retry budgets are separate, 9.7.5.2.8).
	 */
	qp->loss.retry_left = qp->loss.retry_cnt;
	loss_go_back(tp, qp);
	qp->loss.rnr_known = true;
	/* The wait for an earlier request goes on, if it is the longer one. */
	MARK_IF(qp->loss.rnr_wait, "an RNR NAK for a later request comes during the wait");
	if (qp->loss.rnr_wait)
		until_ns = RTE_MAX(until_ns, qp->loss.deadline_ns);
	qp->loss.giveup_ns = tp->now_ns + wire_rnr_timer_ns(RNR_TIMER_LONGEST);
	rnr_wait_until(tp, qp, until_ns);
}
