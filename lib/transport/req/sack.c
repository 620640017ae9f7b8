/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handling SACKs, and resending the packets that they show to be lost.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/req/ack_priv.h"
#include "transport/req/build_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/sack_priv.h"
#include "transport/req/scoreboard_priv.h"

/* ---- SACKs ---- */
struct sack {
	uint64_t bits[SACK_WORDS];
	bool any;
};

/* @return false: the SACK reports PSNs that were never sent. */
static bool
sack_parse(const struct qp *qp, const struct wire_pkt *p, struct sack *s)
{
	uint32_t highest = p->bth.psn;

	s->any = false;
	for (uint32_t i = 0; i < SACK_WORDS; i++) {
		s->bits[i] = wire_get64(p->payload + SACK_BITMAP + 8 * i);
		if (s->bits[i] == 0)
			continue;
		s->any = true;
		highest = wire_psn_add(p->bth.psn, 64 * i + 64 - (uint32_t)__builtin_clzll(s->bits[i]));
	}
	return wire_psn_diff(highest, qp->req.psn_max) < 0;
}

/* Note what the peer holds beyond the gap at @p gap. @return true if anything is new. */
static bool
note_held(struct transport *tp, struct qp *qp, const struct sack *s, uint32_t gap)
{
	struct tp_scoreboard *b = qp->req.scoreboard;
	bool timed = false, news = false;
	struct sb_request u;

	FOREACH_REQUEST(qp, u, qp->req.psn_max) {
		uint32_t i = (u.psn - gap) & WIRE_PSN_MASK;
		bool has = i < TP_SACK_SPAN && (s->bits[i / 64] >> i % 64 & 1);
		uint64_t *known = u.kind == TP_REQ_DATA ? b->has : b->held;

		if (i == 0 && !has && sack_bit(known, u.psn)) {
			/* The peer couldn't execute it after all. */
			MARK_UNIT("the peer drops a packet that it had reported as held", "unit/transport/rc_sack");
			sack_clear(known, u.psn);
			b->nb_has -= u.kind == TP_REQ_DATA;
		}
		if (!has || sack_bit(known, u.psn))
			continue;
		news = true;
		timed |= qp->loss.rtt_timing && u.psn == qp->loss.rtt_psn && b->again[u.psn % TP_SACK_SPAN].nth == 0;
		scoreboard_set_held(tp, qp, &u);
	}
	if (timed)
		rtt_measured(tp, qp);
	return news;
}

/*
 * The peer holds packets that were never sent here: a stranger's, which bore the mark by chance. It shall drop all that
 * it holds, and gets everything again.
 */
static void
disown_held(struct transport *tp, struct qp *qp)
{
	MARK("a SACK reports PSNs that were never sent");
	tp->counters.rx_sack_stranger++;
	diag_note(tp, qp, QP_EV_STRANGER, 0, 0, qp->req.psn_una);
	qp->req.sack_nonce = (qp->req.sack_nonce + 1) & SACK_NONCE_MASK;
	qp->req.sack_mark = 0;
	/* The offer goes before what is sent again. */
	sack_offer_anew(tp, qp);
	loss_go_back(tp, qp);
}

/* A SACK for another offer than this QP's: of an earlier connection, or the peer has taken an offer of one. */
static void
not_our_offer(struct transport *tp, struct qp *qp)
{
	tp->counters.rx_sack_ignored++;
	MARK_IF(qp->req.sack_peer, "a SACK answers another offer, and ours is made again");
	if (qp->req.sack_peer)
		sack_offer_anew(tp, qp);
}

void
sack_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn, gap;
	struct sack s;

	if (qp->service != WIRE_RC || !tp->c.ports[qp->path.port].features.selective_repeat || !qp_sends(qp) ||
	    p->payload_bytes != SACK_PAYLOAD_BYTES || wire_get32(p->payload) != SACK_MAGIC ||
	    WIRE_AETH_TYPE(p->bthp[p->op->off_aeth]) != WIRE_AETH_ACK) {
		tp->counters.rx_sack_ignored++;
		return;
	}
	if (wire_get24(p->payload + SACK_NONCE) != qp->req.sack_nonce) {
		not_our_offer(tp, qp);
		return;
	}
	tp->counters.sacks_received++;
	if (wire_psn_diff(psn, qp->req.psn_max) >= 0) {
		tp->counters.rx_ghost_ack++;
		return;
	}
	if (wire_psn_diff(psn, qp->req.psn_una) < -1) {
		tp->counters.rx_response_ignored++;
		return;
	}
	if (!sack_parse(qp, p, &s)) {
		disown_held(tp, qp);
		return;
	}
	qp->req.sack_peer = true;
	qp->req.sack_offers = 0;
	qp->req.sack_mark = p->payload[SACK_MARK] & 0x7f;
	if (wire_psn_diff(psn, qp->req.psn_una) >= 0 && !ack_upto(tp, qp, psn) &&
	    !sack_ack_rx(tp, qp, psn)) {
		loss_lost_response(tp, qp);
		return;
	}
	gap = wire_psn_add(psn, 1);
	if (s.any && !qp->loss.rnr_wait && qp->req.sq_tail != qp->req.sq.counter && qp_sends(qp) &&
	    wire_psn_diff(gap, qp->req.scoreboard != NULL ? qp->req.scoreboard->acked : qp->req.psn_una) >= 0) {
		if (scoreboard_get(tp, qp) == NULL) {
			MARK_UNIT("the pool of scoreboards is empty when a SACK arrives", "unit/transport/rc_selective");
			loss_lost_response(tp, qp);
			return;
		}
		if (note_held(tp, qp, &s, gap))
			loss_alive(tp, qp);
		scoreboard_judge(tp, qp);
		scoreboard_update_cwnd(qp);
		qp_activate(tp, qp);
	}
	if (qp->req.scoreboard != NULL)
		sack_advance(tp, qp);
}

/* ---- Sending again ---- */
/*
 * Resend a request. It is within the congestion window, because it was sent before. Each one asks for an answer.
 * @return packets sent; 0: it has to wait, or its memory is gone.
 */
static uint32_t
retransmit(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn, uint32_t psns)
{
	struct req_packet r = { .w = qp_inflight(qp, counter), .counter = counter, .psn = psn, .psns = psns, .ackreq = true };
	uint64_t bytes = tp->counters.tx_bytes;

	if (unlikely(r.w->status != 0)) {
		loss_go_back(tp, qp);
		return 0;
	}
	if (unlikely(qp->req.cc != NULL) && !cc_may_send(tp, qp)) {
		qp->req.wait = REQ_WAIT_PACE;
		return 0;
	}
	if (unlikely(credits_lacking(qp, r.w)) && psn == r.w->first_psn) {
		MARK("a lost packet waits for credits");
		credits_wait(tp, qp);
		return 0;
	}
	if (!build_request(tp, qp, &r)) {
		/* If its memory has gone, it fails when its turn comes. */
		if (r.w->status != 0) {
			MARK_UNIT("the memory of a lost packet is gone", "unit/transport/rc_sack");
			loss_go_back(tp, qp);
		} else {
			qp->req.wait = copy_runs(qp, COPY_SEND) ? REQ_WAIT_MEMORY : REQ_WAIT_TX;
		}
		return 0;
	}
	tp->counters.retransmitted_packets++;
	qp->diag.retransmitted++;
	if (unlikely(qp->req.cc != NULL))
		cc_sent_request(tp, qp, (uint32_t)(tp->counters.tx_bytes - bytes), tp_req_ops[r.w->opcode].kind == TP_REQ_READ ? psns : 0);
	return 1;
}

/* Request lost READ responses again: one request for each run of missing packets. @return requests sent. */
static uint32_t
ask_again(struct transport *tp, struct qp *qp, const struct sb_request *u, uint32_t budget)
{
	uint32_t work = 0, psn, end;

	for (psn = u->psn; psn != u->next && work < budget; psn = end) {
		end = wire_psn_add(psn, 1);
		if (!sack_bit(qp->req.scoreboard->lost, psn))
			continue;
		while (end != u->next && sack_bit(qp->req.scoreboard->lost, end))
			end = wire_psn_add(end, 1);
		if (retransmit(tp, qp, u->counter, psn, wire_psn_diff(end, psn)) == 0)
			break;
		for (; psn != end; psn = wire_psn_add(psn, 1))
			scoreboard_resent(tp, qp, psn);
		work++;
	}
	return work;
}

uint32_t
sack_resend(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0;
	struct sb_request u;

	FOREACH_REQUEST(qp, u, qp->req.psn_max) {
		if (work >= budget || req_blocked(qp) || !scoreboard_has_lost(qp))
			break;
		if (u.kind == TP_REQ_READ) {
			work += ask_again(tp, qp, &u, budget - work);
			continue;
		}
		if (!sack_bit(qp->req.scoreboard->lost, u.psn))
			continue;
		if (retransmit(tp, qp, u.counter, u.psn, 1) == 0)
			break;
		scoreboard_resent(tp, qp, u.psn);
		work++;
	}
	if (qp->req.scoreboard != NULL && work != 0)
		scoreboard_update_cwnd(qp);
	return work;
}
