/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The completer: what comes back to a requester. ACKs, NAKs, READ and atomic responses, and the timer that
 * fires when nothing comes.
 */
#include "transport/cc/cc.h"
#include "transport/req/selective.h"

/* ---- Completing WQEs ---- */
static void
push_send_cqe(struct transport *tp, struct qp *qp, const struct tp_swqe *w, uint8_t status, uint8_t verr)
{
	struct tp_cqe e = {
		.wr_id = w->wr_id,
		.byte_len = w->length,
		.status = status,
		.opcode = w->opcode < UROCE_WR_OPS ? tp_req_ops[w->opcode].wc : UROCE_WC_SEND,
		.ctl = { .wqe_counter = (uint16_t)qp->req.sq_tail, .vendor_err = verr },
	};

	cq_push(tp, qp->send_cq, qp, &e);
}

void
completer_head(struct transport *tp, struct qp *qp)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);

	if ((w->flags & UROCE_SEND_SIGNALED) || qp->sig_all)
		push_send_cqe(tp, qp, w, UROCE_WC_SUCCESS, TP_VERR_NONE);
	qp->req.recvs_done = w->recvs;
	qp->req.sq_tail++;
}

/* Errors complete whether signalled or not (10.7.3.1). */
void
completer_fail_head(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr)
{
	push_send_cqe(tp, qp, qp_inflight(qp, qp->req.sq_tail), status, verr);
	qp->req.sq_tail++;
	if (qp->service == WIRE_RC)
		qp_error(tp, qp, -1, TP_BECAUSE(SEND, status << 8 | verr));
	else
		qp_send_error(tp, qp, TP_BECAUSE(SEND, status << 8 | verr));
}

/* ---- The timer ---- */
/*
 * The specification leaves a requester up to four times the timeout (9.7.6.1.3). The first try takes the shortest, since
 * most often a packet was lost; from then on more likely the peer's engine waits for its core, which long timeouts
 * outlast anyway.
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
completer_ack_timeout_ns(const struct qp *qp)
{
	return ack_timeout_ns(qp);
}

/* The wheel's entry may fire early and is moved then; so an ACK costs no more than a store. */
static void
set_deadline(struct transport *tp, struct qp *qp, uint64_t deadline_ns)
{
	qp->loss.deadline_ns = deadline_ns;
	if (deadline_ns == 0)
		return;
	if (!wheel_pending(&qp->loss.timer) || qp->loss.timer.tick > deadline_ns >> WHEEL_TICK_SHIFT)
		wheel_add(&tp->wheel, &qp->loss.timer, deadline_ns);
}

/*
 * When to do something about what is on its way: send early once a few round trips have passed, as measured or, of a new
 * connection with a long timeout, guessed, where that is well before the ACK timeout; else at the ACK timeout.
 */
static inline uint64_t
next_deadline(const struct transport *tp, const struct qp *qp)
{
	uint64_t early;

	if (qp->loss.probes == TP_PROBES || (qp->loss.pto_ns == 0 && qp->loss.timeout < TP_PROBE_FIRST_OF))
		return qp->loss.giveup_ns;
	early = likely(qp->loss.pto_ns != 0) ? qp->loss.pto_ns : TP_PROBE_FIRST_NS;
	early += (uint64_t)wire_psn_diff(qp->req.psn_max, qp->req.psn_una) * TP_PROBE_PACKET_NS;
	early <<= qp->loss.pto_shift;
	/* What was sent before the packet that was answered is hardly still to come. */
	if (unlikely(qp->loss.probe == TP_PROBE_ANSWERED) && qp->loss.pto_ns != 0)
		early = qp->loss.pto_ns / 2;
	if (2 * early > ack_timeout_ns(qp) || tp->now_ns + early >= qp->loss.giveup_ns)
		return qp->loss.giveup_ns;
	return tp->now_ns + early;
}

void
completer_arm(struct transport *tp, struct qp *qp)
{
	if (qp->loss.deadline_ns != 0 || qp->loss.timeout == 0 || qp->loss.rnr_wait || qp->req.psn_cur == qp->req.psn_una)
		return;
	qp->loss.giveup_ns = tp->now_ns + ack_timeout_ns(qp);
	set_deadline(tp, qp, next_deadline(tp, qp));
}

/* ---- Progress ---- */
/* psn_una has moved: a new budget of retries, a new timeout, room in the window. */
static void
progress(struct transport *tp, struct qp *qp)
{
	if (wire_psn_diff(qp->req.psn_cur, qp->req.psn_una) < 0) {
		/* What was about to be sent again has arrived. */
		qp->req.psn_cur = qp->req.psn_una;
		qp->req.sq_cur = qp->req.sq_tail;
	}
	if (unlikely(qp->req.scoreboard != NULL))
		selective_progress(tp, qp);
	cwnd_progress(qp);
	if (unlikely(qp->loss.rtt_timing) && wire_psn_diff(qp->req.psn_una, qp->loss.rtt_psn) > 0)
		rtt_measured(tp, qp);
	qp->loss.probes = 0;
	if (unlikely(qp->loss.probe != TP_PROBE_NONE))
		qp->loss.probe = qp->req.psn_una == qp->req.psn_max ? TP_PROBE_NONE : TP_PROBE_ANSWERED;
	qp->loss.retry_left = qp->loss.retry_cnt;
	qp->loss.rnr_left = qp->loss.rnr_retry;
	qp->loss.restarted = false;
	if (!qp->loss.rnr_wait) {
		qp->loss.deadline_ns = 0;
		completer_arm(tp, qp);
	}
	qp_activate(tp, qp);
}

void
completer_alive(struct transport *tp, struct qp *qp)
{
	qp->loss.probes = 0;
	qp->loss.probe = TP_PROBE_NONE;
	qp->loss.deadline_ns = 0;
	completer_arm(tp, qp);
}

static inline uint8_t
head_kind(struct qp *qp)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);

	return w->status != 0 ? TP_REQ_NONE : tp_req_ops[w->opcode].kind;
}

/*
 * Everything up to @p psn has arrived. Completes SEND and WRITE; a READ or atomic needs its response.
 * @return false if one stands in the way: its response was lost (implied NAK, 9.7.5.1.2).
 */
bool
completer_acknowledge(struct transport *tp, struct qp *qp, uint32_t psn)
{
	bool moved = false, free = true;

	while (qp->req.sq_tail != qp->req.sq.counter && wire_psn_diff(psn, qp->req.psn_una) >= 0) {
		const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);

		if (head_kind(qp) != TP_REQ_DATA) {
			free = false;
			break;
		}
		moved = true;
		if (wire_psn_diff(psn, w->last_psn) < 0) {
			qp->req.psn_una = wire_psn_add(psn, 1);
			break;
		}
		qp->req.psn_una = wire_psn_add(w->last_psn, 1);
		completer_head(tp, qp);
	}
	if (moved)
		progress(tp, qp);
	return free;
}

/* ---- End-to-end flow control ---- */
/*
 * What an AETH says of the peer's receives, counted from the messages that are complete: it may have executed more, then
 * it has promised more than we take (so that an old AETH does no harm). A peer that says nothing has as many as we like, as
 * has one that hasn't said anything yet: RNR NAKs will tell.
 */
static inline void
credits_rx(struct transport *tp, struct qp *qp, uint8_t syndrome)
{
	uint8_t code = syndrome & WIRE_AETH_CREDITS_INVALID;
	uint32_t limit;

	if (code == WIRE_AETH_CREDITS_INVALID) {
		qp->req.credits = false;
		limit = qp->req.recvs_done + TP_CREDITS_ANY;
	} else {
		limit = qp->req.recvs_done + wire_aeth_credits(code);
		if (qp->req.credits && (int32_t)(limit - qp->req.recvs_limit) <= 0)
			return;
		qp->req.credits = true;
	}
	qp->req.recvs_limit = limit;
	if (unlikely(qp->req.out_of_credits)) {
		qp->req.out_of_credits = false;
		qp_activate(tp, qp);
	}
}

/*
 * A response was lost: ask again, once until there is progress; then it's the timer's. Nothing was lost if the oldest WQE turned
 * out bad after a part of it, or all of it once, had been sent: it fails when its turn comes.
 */
void
completer_restart(struct transport *tp, struct qp *qp)
{
	if (unlikely(head_kind(qp) == TP_REQ_NONE)) {
		tp->counters.rx_response_ignored++;
		return;
	}
	if (qp->loss.restarted || qp->loss.rnr_wait) {
		tp->counters.rx_response_ignored++;
		return;
	}
	qp->loss.restarted = true;
	tp->counters.implied_nak_seq_err++;
	diag_stuck(qp, tp->now_ns);
	diag_note(tp, qp, QP_EV_LOST_RESPONSE, 0, 0, qp->req.psn_una);
	if (unlikely(!qp->req.sack_peer))
		selective_offer(tp, qp);
	cwnd_loss(tp, qp, false);
	requester_rewind(tp, qp);
}

/* Go back, if there are tries left. */
static void
retry(struct transport *tp, struct qp *qp, uint8_t verr)
{
	if (qp->loss.retry_left > 0) {
		qp->loss.retry_left--;
	} else if (!migration_go(tp, qp)) {
		tp->counters.retry_exceeded_err++;
		completer_fail_head(tp, qp, UROCE_WC_RETRY_EXC_ERR, verr);
		return;
	}
	cwnd_loss(tp, qp, verr == TP_VERR_TIMEOUT);
	requester_rewind(tp, qp);
	/* The timeout counts from the retransmission. */
	qp->loss.deadline_ns = 0;
}

/*
 * No answer for longer than a few round trips. Most likely the last packet, its ACK or a NAK was lost: one packet
 * finds out, at no cost to retry_cnt. If that one brought an answer but the rest still doesn't come, the rest was
 * lost. If it brought none, the peer may be slow, and more packets would only make it slower.
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
		requester_probe(tp, qp);
		qp->loss.probe = TP_PROBE_SENT;
	} else {
		/* Once: all of it takes longer than a round trip, and answers to it don't say that the rest was lost. */
		qp->loss.probe = TP_PROBE_NONE;
		if (qp->req.scoreboard != NULL) {
			selective_all_lost(tp, qp);
		} else {
			cwnd_loss(tp, qp, false);
			requester_rewind(tp, qp);
		}
	}
	set_deadline(tp, qp, next_deadline(tp, qp));
}

void
completer_timer(struct transport *tp, struct qp *qp)
{
	if (qp->loss.deadline_ns == 0)
		return;
	if (tp->now_ns < qp->loss.deadline_ns) {
		wheel_add(&tp->wheel, &qp->loss.timer, qp->loss.deadline_ns);
		return;
	}
	qp->loss.deadline_ns = 0;
	if (!qp_sends(qp))
		return;
	if (qp->loss.rnr_wait) {
		qp->loss.rnr_wait = false;
		qp_activate(tp, qp);
		return;
	}
	if (qp->req.sq_tail == qp->req.sq.counter || qp->req.psn_cur == qp->req.psn_una)
		return;
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
static void
rnr_nak(struct transport *tp, struct qp *qp, uint8_t code)
{
	tp->counters.rnr_nak_received++;
	if (qp->loss.rnr_wait)
		return;
	diag_stuck(qp, tp->now_ns);
	diag_note(tp, qp, QP_EV_RNR, code, qp->loss.rnr_left, qp->req.psn_una);
	if (qp->loss.rnr_retry != TP_RETRY_INFINITE) {
		if (qp->loss.rnr_left == 0) {
			tp->counters.rnr_nak_retry_err++;
			completer_fail_head(tp, qp, UROCE_WC_RNR_RETRY_EXC_ERR, TP_VERR_RNR);
			return;
		}
		qp->loss.rnr_left--;
	}
	/* An answer, if not the one hoped for: timeouts before it don't count (the two budgets are apart, 9.7.5.2.8). */
	qp->loss.retry_left = qp->loss.retry_cnt;
	requester_rewind(tp, qp);
	qp->loss.rnr_wait = true;
	qp->req.blocked = true;
	set_deadline(tp, qp, tp->now_ns + wire_rnr_timer_ns(code));
}

/* What the responder refused for good: the WQE's status and the counter. */
static void
fatal_nak(struct transport *tp, struct qp *qp, uint8_t syndrome)
{
	static const uint8_t status[] = {
		[WIRE_NAK_INV_REQ & 3] = UROCE_WC_REM_INV_REQ_ERR,
		[WIRE_NAK_REM_ACCESS & 3] = UROCE_WC_REM_ACCESS_ERR,
		[WIRE_NAK_REM_OP & 3] = UROCE_WC_REM_OP_ERR,
	};

	if (syndrome == WIRE_NAK_INV_REQ)
		tp->counters.req_remote_invalid_request++;
	else if (syndrome == WIRE_NAK_REM_ACCESS)
		tp->counters.req_remote_access_errors++;
	else
		tp->counters.req_remote_op_errors++;
	diag_note(tp, qp, QP_EV_NAK, syndrome, 0, qp->req.psn_una);
	completer_fail_head(tp, qp, status[syndrome & 3], TP_VERR_REMOTE_NAK);
}

/* A NAK of @p psn says that everything before it arrived (9.7.5.2). */
static void
nak_rx(struct transport *tp, struct qp *qp, uint32_t psn, uint8_t syndrome)
{
	bool rnr = WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK;

	/* An unknown code is no NAK at all: nothing may be concluded from it. */
	if (!rnr && (syndrome < WIRE_NAK_PSN_SEQ || syndrome > WIRE_NAK_REM_OP)) {
		tp->counters.rx_nak_ignored++;
		return;
	}
	if (!completer_acknowledge(tp, qp, wire_psn_add(psn, WIRE_PSN_MASK)) &&
	    (rnr || syndrome == WIRE_NAK_PSN_SEQ || wire_psn_diff(psn, qp_inflight(qp, qp->req.sq_tail)->last_psn) > 0)) {
		/* A fatal NAK of a later request says nothing against this one, whose response was lost. */
		completer_restart(tp, qp);
		return;
	}
	if (qp->req.sq_tail == qp->req.sq.counter || !qp_sends(qp))
		return;
	if (rnr) {
		rnr_nak(tp, qp, syndrome & 0x1f);
	} else if (syndrome == WIRE_NAK_PSN_SEQ) {
		tp->counters.packet_seq_err++;
		diag_note(tp, qp, QP_EV_NAK, syndrome, 0, psn);
		if (!qp->req.sack_peer)
			selective_offer(tp, qp);
		/* A duplicate of a NAK that has been acted on, while the resent packets are still to come. */
		if (!qp->loss.rnr_wait && qp->req.psn_cur != qp->req.psn_una)
			retry(tp, qp, TP_VERR_SEQ_RETRY);
	} else {
		fatal_nak(tp, qp, syndrome);
	}
}

/* ---- Responses with data ---- */
static void
bad_response(struct transport *tp, struct qp *qp)
{
	tp->counters.rx_bad_response++;
	completer_fail_head(tp, qp, UROCE_WC_BAD_RESP_ERR, TP_VERR_BAD_RESPONSE);
}

uint8_t
completer_scatter(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data, uint32_t len)
{
	const struct tp_swqe *w = qp_inflight(qp, counter);
	const struct ring_sge *sge = slot_sges(ring_slot(&qp->req.sq, counter), w->opcode);

	for (uint32_t i = 0; len > 0; i++) {
		struct ring_sge s;
		struct mr *mr;
		uint32_t n;

		if (unlikely(i == w->nb_sge))
			return TP_VERR_WQE_LENGTH;
		s = sge_snapshot(&sge[i]);
		if (off >= s.length) {
			off -= s.length;
			continue;
		}
		n = RTE_MIN(len, s.length - off);
		mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, UROCE_ACCESS_LOCAL_WRITE, s.addr + off, n);
		if (unlikely(mr == NULL))
			return lkey_verr(tp, s.lkey, qp->pd, s.addr + off, n);
		if (unlikely(mr_write(mr, s.addr + off, data, n) != 0))
			return TP_VERR_FAULT;
		data += n;
		len -= n;
		off = 0;
	}
	return 0;
}

void
completer_answered(struct transport *tp, struct qp *qp)
{
	const struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
	uint32_t nth = (qp->req.psn_una - w->first_psn) & WIRE_PSN_MASK;
	bool last = qp->req.psn_una == w->last_psn;

	qp->req.psn_una = wire_psn_add(qp->req.psn_una, 1);
	if ((last || (nth & (TP_READ_CHUNK_PACKETS - 1)) == TP_READ_CHUNK_PACKETS - 1) && qp->req.rd_out > 0)
		qp->req.rd_out--;
	if (last)
		completer_head(tp, qp);
	progress(tp, qp);
}

static void
read_response(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
	uint32_t off = ((qp->req.psn_una - w->first_psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	uint32_t want = head_kind(qp) == TP_REQ_READ ? RTE_MIN(w->length - off, UINT32_C(1) << qp->path.mtu_shift) : 0;
	uint8_t verr;

	if (unlikely(p->payload_bytes != want)) {
		bad_response(tp, qp);
		return;
	}
	verr = completer_scatter(tp, qp, qp->req.sq_tail, off, p->payload, want);
	if (unlikely(verr != 0)) {
		tp->counters.req_local_errors++;
		completer_fail_head(tp, qp, UROCE_WC_LOC_PROT_ERR, verr);
		return;
	}
	completer_answered(tp, qp);
}

static void
atomic_response(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint64_t old = wire_get64(p->bthp + p->op->off_atomicacketh);
	uint8_t verr = completer_scatter(tp, qp, qp->req.sq_tail, 0, (const uint8_t *)&old, sizeof(old));

	if (unlikely(verr != 0)) {
		tp->counters.req_local_errors++;
		completer_fail_head(tp, qp, UROCE_WC_LOC_PROT_ERR, verr);
		return;
	}
	completer_answered(tp, qp);
}

static void
data_response_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	bool read = (p->op->flags & WIRE_F_READ_RESP) != 0;
	uint8_t kind;

	if (unlikely((p->op->flags & WIRE_F_AETH) &&
		     WIRE_AETH_TYPE(p->bthp[p->op->off_aeth]) != WIRE_AETH_ACK)) {
		tp->counters.rx_response_ignored++;
		return;
	}
	/* SENDs and WRITEs before it have arrived. */
	if (qp->req.psn_una != p->bth.psn && !completer_acknowledge(tp, qp, wire_psn_add(p->bth.psn, WIRE_PSN_MASK))) {
		if (!selective_response_rx(tp, qp, p))
			completer_restart(tp, qp);
		return;
	}
	if (unlikely(qp->req.psn_una != p->bth.psn || qp->req.sq_tail == qp->req.sq.counter || !qp_sends(qp))) {
		tp->counters.rx_response_ignored++;
		return;
	}
	kind = head_kind(qp);
	/* It turned out bad when it was to be sent again. */
	if (unlikely(kind == TP_REQ_NONE)) {
		tp->counters.rx_response_ignored++;
		return;
	}
	if (unlikely(kind != (read ? TP_REQ_READ : TP_REQ_ATOMIC) && !(read && kind == TP_REQ_PLACE))) {
		bad_response(tp, qp);
		return;
	}
	if (read)
		read_response(tp, qp, p);
	else
		atomic_response(tp, qp, p);
	if (p->op->flags & WIRE_F_AETH)
		credits_rx(tp, qp, p->bthp[p->op->off_aeth]);
}

/* The last ACK again: unsolicited, with more credits (9.7.7.2.4), or a duplicate. */
static void
repeated_ack(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint8_t syndrome = WIRE_AETH_NAK;

	if (wire_psn_add(p->bth.psn, 1) == qp->req.psn_una && WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_ACK)
		syndrome = p->bthp[p->op->off_aeth];
	if (WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK && qp->req.credits)
		credits_rx(tp, qp, syndrome);
	tp->counters.rx_response_ignored++;
}

void
completer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn;
	uint8_t syndrome;

	tp->counters.acks_received++;
	/* Never sent: a peer that is broken, or not ours. */
	if (unlikely(wire_psn_diff(psn, qp->req.psn_max) >= 0)) {
		tp->counters.rx_ghost_ack++;
		return;
	}
	if (wire_psn_diff(psn, qp->req.psn_una) < 0) {
		repeated_ack(tp, qp, p);
		return;
	}
	if (p->op->flags & (WIRE_F_READ_RESP | WIRE_F_ATOMICACKETH)) {
		data_response_rx(tp, qp, p);
	} else {
		syndrome = p->bthp[p->op->off_aeth];
		if (likely(WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK)) {
			if (likely(completer_acknowledge(tp, qp, psn)))
				credits_rx(tp, qp, syndrome);
			else if (!selective_ack_rx(tp, qp, psn))
				completer_restart(tp, qp);
		} else {
			nak_rx(tp, qp, psn, syndrome);
		}
	}
	if (unlikely(qp->req.scoreboard != NULL))
		selective_advance(tp, qp);
	if (unlikely(qp->state == UROCE_QPS_SQD))
		qp_check_drained(tp, qp);
}
