/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, the requester's side: what the peer has, what was lost, and sending that again.
 */
#include "transport/req/selective.h"

enum { ONCE = UINT32_MAX }; /* nth of a packet that was sent once: it comes after all that was sent again before it */

void
selective_offer(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY | qp->prefix, .dqpn = qp->path.dest_qpn, .pkey = qp->path.pkey,
			      .migreq = qp->path.mig == TP_MIG_MIGRATED,
			      .psn = (qp->req.psn_una - SACK_OFFER_BEHIND) & WIRE_PSN_MASK };
	struct tp_out o;
	uint8_t *at;

	if (qp->req.sack_offers == 0 || qp->service != WIRE_RC || qp->req.sq_tail == qp->req.sq.counter ||
	    tp->c.ports[qp->path.port].go_back_n || !tp_begin(tp, qp, b.opcode, &o))
		return;
	qp->req.sack_offers--;
	/* A target may look at the SRQ's number before it looks at the PSN: one that is in use. */
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, ring_slot(&qp->req.sq, qp->req.sq_tail));
	at = o.bth + o.op->off_reth;
	wire_put24(at, SACK_OFFER_MAGIC);
	wire_put24(at + 3, qp->qpn);
	wire_put24(at + 6, qp->attr.sq_psn);
	wire_put24(at + 9, qp->attr.rq_psn);
	wire_put32(at + 12, 0);
	tp_finish(tp, qp, &o, &b, 0);
	tp->counters.sack_offers_sent++;
}

/* ---- Requests, one after the other ---- */
void
sb_request_step(struct qp *qp, struct sb_request *u)
{
	const struct tp_swqe *w;
	uint32_t nth, last;

	u->psn = u->next;
	while (wire_psn_diff((w = qp_inflight(qp, u->counter))->last_psn, u->psn) < 0)
		u->counter++;
	u->kind = tp_req_ops[w->opcode].kind;
	u->next = wire_psn_add(u->psn, 1);
	u->rest = false;
	if (u->kind != TP_REQ_READ)
		return;
	nth = (u->psn - w->first_psn) & WIRE_PSN_MASK;
	last = RTE_MIN(nth | (TP_READ_CHUNK_PACKETS - 1), (w->last_psn - w->first_psn) & WIRE_PSN_MASK);
	u->rest = (nth & (TP_READ_CHUNK_PACKETS - 1)) != 0;
	u->next = wire_psn_add(w->first_psn, last + 1);
}

/* ---- The board ---- */
void
selective_forget(struct transport *tp, struct qp *qp)
{
	if (qp->req.scoreboard == NULL)
		return;
	tp->scoreboards[tp->nb_scoreboards++] = qp->req.scoreboard;
	qp->req.scoreboard = NULL;
	cwnd_update(qp);
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

/* The board has something to tell until psn is acknowledged. */
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
	/* What is measured may be what was lost. */
	rtt_untime(qp);
	cwnd_lost(tp, qp, n);
	qp_activate(tp, qp);
}

static void
mark_again(struct qp *qp, uint32_t psn)
{
	struct tp_scoreboard *b = qp->req.scoreboard;

	b->again[psn % TP_SACK_SPAN].psn = qp->req.psn_max;
	b->again[psn % TP_SACK_SPAN].nth = ++b->nth;
	reaches(b, psn);
}

static void
resent(struct qp *qp, uint32_t psn)
{
	mark_again(qp, psn);
	not_lost(qp->req.scoreboard, psn);
}

void
selective_probed(struct qp *qp)
{
	struct sb_request u = { .counter = qp->req.sq_tail, .next = qp->req.psn_una };
	uint32_t psn;

	sb_request_step(qp, &u);
	FOREACH_PSN(psn, u)
		resent(qp, psn);
}

/*
 * The requester may have gone back, and be on its way through what it sends again: what it has sent again counts as
 * such, the rest as lost; then it goes on behind all of that.
 */
static void
catch_up(struct qp *qp)
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
				mark_again(qp, psn);
			else
				scoreboard_set_lost(qp->req.scoreboard, psn);
		}
	}
	/* A local operation, which has no PSN, waits to be the oldest: what stands at psn_max hasn't been done. */
	while (qp->req.sq_cur != qp->req.sq.counter && wire_psn_diff(qp_inflight(qp, qp->req.sq_cur)->first_psn, qp->req.psn_max) < 0 &&
	       wire_psn_diff(qp_inflight(qp, qp->req.sq_cur)->last_psn, qp->req.psn_max) < 0)
		qp->req.sq_cur++;
	qp->req.psn_cur = qp->req.psn_max;
}

struct tp_scoreboard *
scoreboard_get(struct transport *tp, struct qp *qp)
{
	struct tp_scoreboard *b = qp->req.scoreboard;

	if (b != NULL || tp->nb_scoreboards == 0)
		return b;
	b = tp->scoreboards[--tp->nb_scoreboards];
	memset(b, 0, sizeof(*b));
	b->una = b->acked = b->end = b->seen_psn = qp->req.psn_una;
	qp->req.scoreboard = b;
	catch_up(qp);
	return b;
}

/* The packet of psn has arrived. */
static void
arrived(struct tp_scoreboard *b, uint32_t psn)
{
	uint32_t nth = b->again[psn % TP_SACK_SPAN].nth, at = nth == 0 ? psn : b->again[psn % TP_SACK_SPAN].psn;
	int32_t later = wire_psn_diff(at, b->seen_psn);

	nth = nth == 0 ? ONCE : nth;
	if (later > 0 || (later == 0 && nth > b->seen_nth)) {
		b->seen_psn = at;
		b->seen_nth = nth;
	}
}

void
selective_progress(struct transport *tp, struct qp *qp)
{
	struct tp_scoreboard *b = qp->req.scoreboard;

	for (; b->una != qp->req.psn_una; b->una = wire_psn_add(b->una, 1)) {
		if (sack_bit(b->has, b->una)) {
			sack_clear(b->has, b->una);
			b->nb_has--;
		} else {
			arrived(b, b->una);
		}
		sack_clear(b->held, b->una);
		not_lost(b, b->una);
		b->again[b->una % TP_SACK_SPAN].nth = 0;
	}
	if (wire_psn_diff(b->una, b->acked) > 0)
		b->acked = b->una;
	if (wire_psn_diff(b->una, b->end) >= 0 && b->nb_lost == 0)
		selective_forget(tp, qp);
	else
		cwnd_update(qp);
}

/* The peer has the request: it holds it, or has executed it. */
static bool
peer_has(const struct tp_scoreboard *b, const struct sb_request *u)
{
	if (u->kind == TP_REQ_DATA)
		return sack_bit(b->has, u->psn);
	return u->rest || sack_bit(b->held, u->psn) || wire_psn_diff(u->psn, b->acked) < 0;
}

/* Requests that were sent before the latest that has arrived, and aren't there, were lost. */
static void
judge(struct transport *tp, struct qp *qp)
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
selective_all_lost(struct transport *tp, struct qp *qp)
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
	cwnd_lost(tp, qp, b->nb_lost - before);
	qp_activate(tp, qp);
}

/* ---- SACKs ---- */
struct sack {
	uint64_t bits[SACK_WORDS];
	bool any;
};

/* @return false: it speaks of what was never sent. */
static bool
sack_parse(const struct qp *qp, const struct wire_pkt *p, struct sack *s)
{
	uint32_t highest = p->bth.psn;

	s->any = false;
	/* Both its ends: from half the numbers away, the upper one would seem to be behind. */
	if (wire_psn_diff(p->bth.psn, qp->req.psn_max) >= 0)
		return false;
	for (uint32_t i = 0; i < SACK_WORDS; i++) {
		s->bits[i] = wire_get64(p->payload + 4 + 8 * i);
		if (s->bits[i] == 0)
			continue;
		s->any = true;
		highest = wire_psn_add(p->bth.psn, 64 * i + 64 - (uint32_t)__builtin_clzll(s->bits[i]));
	}
	return wire_psn_diff(highest, qp->req.psn_max) < 0;
}

/* The peer holds the request. */
static void
note_unit(struct tp_scoreboard *b, const struct sb_request *u)
{
	uint32_t psn;

	arrived(b, u->psn);
	if (u->kind == TP_REQ_DATA) {
		scoreboard_set_has(b, u->psn);
		return;
	}
	sack_set(b->held, u->psn);
	reaches(b, u->psn);
	FOREACH_PSN(psn, *u)
		not_lost(b, psn);
}

/* What the peer holds beyond the gap at @p gap. @return true if there is anything new. */
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
			/* It couldn't be executed after all. */
			sack_clear(known, u.psn);
			b->nb_has -= u.kind == TP_REQ_DATA;
		}
		if (!has || sack_bit(known, u.psn))
			continue;
		news = true;
		timed |= qp->loss.rtt_timing && u.psn == qp->loss.rtt_psn && b->again[u.psn % TP_SACK_SPAN].nth == 0;
		note_unit(b, &u);
	}
	if (timed)
		rtt_measured(tp, qp);
	return news;
}

void
selective_sack_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn, gap;
	struct sack s;

	if (qp->service != WIRE_RC || tp->c.ports[qp->path.port].go_back_n || !qp_sends(qp) ||
	    p->payload_bytes != SACK_PAYLOAD_BYTES || wire_get32(p->payload) != SACK_MAGIC ||
	    WIRE_AETH_TYPE(p->bthp[p->op->off_aeth]) != WIRE_AETH_ACK) {
		tp->counters.rx_sack_ignored++;
		return;
	}
	tp->counters.sacks_received++;
	if (!sack_parse(qp, p, &s)) {
		tp->counters.rx_ghost_ack++;
		return;
	}
	if (wire_psn_diff(psn, qp->req.psn_una) < -1) {
		tp->counters.rx_response_ignored++;
		return;
	}
	qp->req.sack_peer = true;
	qp->req.sack_offers = 0;
	if (wire_psn_diff(psn, qp->req.psn_una) >= 0 && !completer_acknowledge(tp, qp, psn) &&
	    !selective_ack_rx(tp, qp, psn)) {
		completer_restart(tp, qp);
		return;
	}
	gap = wire_psn_add(psn, 1);
	if (s.any && !qp->loss.rnr_wait && qp->req.sq_tail != qp->req.sq.counter && qp_sends(qp) &&
	    wire_psn_diff(gap, qp->req.scoreboard != NULL ? qp->req.scoreboard->acked : qp->req.psn_una) >= 0) {
		if (scoreboard_get(tp, qp) == NULL) {
			completer_restart(tp, qp);
			return;
		}
		if (note_held(tp, qp, &s, gap))
			completer_alive(tp, qp);
		judge(tp, qp);
		cwnd_update(qp);
		qp_activate(tp, qp);
	}
	if (qp->req.scoreboard != NULL)
		selective_advance(tp, qp);
}

/* ---- Sending again ---- */
/* What was lost of the responses to a READ. @return requests. */
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
		if (requester_read_again(tp, qp, u->counter, psn, wire_psn_diff(end, psn)) == 0)
			break;
		for (; psn != end; psn = wire_psn_add(psn, 1))
			resent(qp, psn);
		work++;
	}
	return work;
}

uint32_t
selective_resend(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0;
	struct sb_request u;

	FOREACH_REQUEST(qp, u, qp->req.psn_max) {
		if (work >= budget || qp->req.blocked || qp->req.scoreboard->nb_lost == 0)
			break;
		if (u.kind == TP_REQ_READ) {
			work += ask_again(tp, qp, &u, budget - work);
			continue;
		}
		if (!sack_bit(qp->req.scoreboard->lost, u.psn))
			continue;
		if (requester_send_again(tp, qp, u.counter, u.psn) == 0)
			break;
		resent(qp, u.psn);
		work++;
	}
	if (qp->req.scoreboard != NULL && work != 0)
		cwnd_update(qp);
	return work;
}
