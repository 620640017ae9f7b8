/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, the requester's side: what the peer has, what was lost, and sending that again.
 */
#include "selective.h"

enum { ONCE = UINT32_MAX }; /* nth of a packet that was sent once: it comes after all that was sent again before it */

void
selective_offer(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY, .dqpn = qp->dest_qpn, .pkey = qp->pkey,
			      .migreq = qp->mig == TP_MIG_MIGRATED,
			      .psn = (qp->psn_una - SACK_OFFER_BEHIND) & WIRE_PSN_MASK };
	struct tp_out o;
	uint8_t *at;

	if (qp->sack_offers == 0 || qp->service != WIRE_RC || qp->prefix != WIRE_RC ||
	    tp->c.ports[qp->port].go_back_n || !tp_begin(tp, qp, WIRE_OP_WRITE_ONLY, &o))
		return;
	qp->sack_offers--;
	at = o.bth + o.op->off_reth;
	wire_put24(at, SACK_OFFER_MAGIC);
	wire_put24(at + 3, qp->qpn);
	wire_put24(at + 6, qp->attr.sq_psn);
	wire_put24(at + 9, qp->attr.rq_psn);
	wire_put32(at + 12, 0);
	tp_finish(tp, qp, &o, &b, 0);
	tp->counters.sack_offers_sent++;
}

/* ---- Request packets, one after the other ---- */
struct unit {
	uint32_t counter; /* of its WQE */
	uint32_t psn, next;
	uint8_t kind;
};

/* The packet that begins at u->next, which is below psn_max. A READ request has the PSNs of its responses. */
static void
unit_step(struct qp *qp, struct unit *u)
{
	const struct tp_swqe *w;
	uint32_t nth, last;

	u->psn = u->next;
	while (wire_psn_diff((w = qp_inflight(qp, u->counter))->last_psn, u->psn) < 0)
		u->counter++;
	u->kind = tp_req_ops[w->opcode].kind;
	u->next = wire_psn_add(u->psn, 1);
	if (u->kind != TP_REQ_READ)
		return;
	nth = (u->psn - w->first_psn) & WIRE_PSN_MASK;
	last = RTE_MIN(nth | (TP_READ_CHUNK_PACKETS - 1), (w->last_psn - w->first_psn) & WIRE_PSN_MASK);
	u->next = wire_psn_add(w->first_psn, last + 1);
}

#define FOREACH_UNIT(qp, u, end) \
	for ((u).counter = (qp)->sq_tail, (u).next = (qp)->psn_una; \
	     wire_psn_diff((u).next, (end)) < 0 && (unit_step((qp), &(u)), true);)

/* ---- The board ---- */
void
selective_forget(struct transport *tp, struct qp *qp)
{
	if (qp->board == NULL)
		return;
	tp->boards[tp->nb_boards++] = qp->board;
	qp->board = NULL;
	completer_window(qp);
}

static void
mark_lost(struct tp_board *b, uint32_t psn)
{
	if (sack_bit(b->lost, psn))
		return;
	sack_set(b->lost, psn);
	b->nb_lost++;
}

static void
mark_again(struct qp *qp, uint32_t psn)
{
	struct tp_board *b = qp->board;

	b->again[psn % TP_SACK_SPAN].psn = qp->psn_max;
	b->again[psn % TP_SACK_SPAN].nth = ++b->nth;
	if (wire_psn_diff(psn, b->end) >= 0)
		b->end = wire_psn_add(psn, 1);
}

void
selective_resent(struct qp *qp, uint32_t psn)
{
	struct tp_board *b = qp->board;

	mark_again(qp, psn);
	if (sack_bit(b->lost, psn)) {
		sack_clear(b->lost, psn);
		b->nb_lost--;
	}
}

/*
 * The requester may have gone back, and be on its way through what it sends again: what it has sent again counts as
 * such, the rest as lost; then it goes on behind all of that.
 */
static void
catch_up(struct qp *qp)
{
	uint32_t cur = qp->psn_cur;
	struct unit u;

	if (cur == qp->psn_max)
		return;
	qp->rd_out = 0;
	FOREACH_UNIT(qp, u, qp->psn_max) {
		qp->rd_out += u.kind != TP_REQ_DATA;
		if (wire_psn_diff(u.psn, cur) < 0)
			mark_again(qp, u.psn);
		else
			mark_lost(qp->board, u.psn);
	}
	/* A local operation, which has no PSN, waits to be the oldest: what stands at psn_max hasn't been done. */
	while (qp->sq_cur != qp->sq.counter && wire_psn_diff(qp_inflight(qp, qp->sq_cur)->first_psn, qp->psn_max) < 0 &&
	       wire_psn_diff(qp_inflight(qp, qp->sq_cur)->last_psn, qp->psn_max) < 0)
		qp->sq_cur++;
	qp->psn_cur = qp->psn_max;
}

static struct tp_board *
begin(struct transport *tp, struct qp *qp)
{
	struct tp_board *b;

	if (tp->nb_boards == 0)
		return NULL;
	b = tp->boards[--tp->nb_boards];
	memset(b, 0, sizeof(*b));
	b->una = b->end = b->seen_psn = qp->psn_una;
	qp->board = b;
	catch_up(qp);
	return b;
}

/* The packet of psn has arrived. */
static void
arrived(struct tp_board *b, uint32_t psn)
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
	struct tp_board *b = qp->board;

	for (; b->una != qp->psn_una; b->una = wire_psn_add(b->una, 1)) {
		if (sack_bit(b->has, b->una)) {
			sack_clear(b->has, b->una);
			b->nb_has--;
		} else {
			arrived(b, b->una);
		}
		if (sack_bit(b->lost, b->una)) {
			sack_clear(b->lost, b->una);
			b->nb_lost--;
		}
		b->again[b->una % TP_SACK_SPAN].nth = 0;
	}
	if (wire_psn_diff(b->una, b->end) >= 0 && b->nb_lost == 0)
		selective_forget(tp, qp);
	else
		completer_window(qp);
}

/* What was sent before the latest that has arrived, and isn't there, was lost. */
static void
judge(struct transport *tp, struct qp *qp)
{
	struct tp_board *b = qp->board;
	uint32_t before = b->nb_lost;
	struct unit u;

	FOREACH_UNIT(qp, u, b->seen_psn) {
		uint32_t nth = b->again[u.psn % TP_SACK_SPAN].nth;
		int32_t later = nth == 0 ? -1 : wire_psn_diff(b->again[u.psn % TP_SACK_SPAN].psn, b->seen_psn);

		if (!sack_bit(b->has, u.psn) && (later < 0 || (later == 0 && nth < b->seen_nth)))
			mark_lost(b, u.psn);
	}
	if (b->nb_lost == before)
		return;
	diag_stuck(qp, tp->now_ns);
	diag_note(tp, qp, QP_EV_SACK, (uint8_t)RTE_MIN(b->nb_lost - before, UINT32_C(255)), 0, qp->psn_una);
	/* What is measured may be what was lost. */
	completer_untime(qp);
	completer_lost(tp, qp, b->nb_lost - before);
}

void
selective_all_lost(struct transport *tp, struct qp *qp)
{
	struct tp_board *b = qp->board;
	uint32_t before = b->nb_lost;
	struct unit u;

	FOREACH_UNIT(qp, u, qp->psn_max) {
		if (!sack_bit(b->has, u.psn))
			mark_lost(b, u.psn);
	}
	completer_untime(qp);
	completer_lost(tp, qp, b->nb_lost - before);
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
	for (uint32_t i = 0; i < SACK_WORDS; i++) {
		s->bits[i] = wire_get64(p->payload + 4 + 8 * i);
		if (s->bits[i] == 0)
			continue;
		s->any = true;
		highest = wire_psn_add(p->bth.psn, 64 * i + 64 - (uint32_t)__builtin_clzll(s->bits[i]));
	}
	return wire_psn_diff(highest, qp->psn_max) < 0;
}

/* What the peer holds beyond psn_una. @return true if there is anything new. */
static bool
note_held(struct transport *tp, struct qp *qp, const struct sack *s)
{
	struct tp_board *b = qp->board;
	bool timed = false, news = false;
	struct unit u;

	FOREACH_UNIT(qp, u, qp->psn_max) {
		uint32_t i = (u.psn - qp->psn_una) & WIRE_PSN_MASK;
		bool has = i < TP_SACK_SPAN && (s->bits[i / 64] >> i % 64 & 1);

		if (i == 0 && !has && sack_bit(b->has, u.psn)) {
			/* It couldn't be executed after all. */
			sack_clear(b->has, u.psn);
			b->nb_has--;
		}
		if (!has || sack_bit(b->has, u.psn))
			continue;
		news = true;
		sack_set(b->has, u.psn);
		b->nb_has++;
		timed |= qp->rtt_timing && u.psn == qp->rtt_psn && b->again[u.psn % TP_SACK_SPAN].nth == 0;
		arrived(b, u.psn);
		if (wire_psn_diff(u.psn, b->end) >= 0)
			b->end = wire_psn_add(u.psn, 1);
		if (sack_bit(b->lost, u.psn)) {
			sack_clear(b->lost, u.psn);
			b->nb_lost--;
		}
	}
	if (timed)
		completer_rtt(tp, qp);
	return news;
}

void
selective_sack_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn;
	struct sack s;

	if (qp->service != WIRE_RC || qp->prefix != WIRE_RC || tp->c.ports[qp->port].go_back_n || !qp_sends(qp) ||
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
	if (wire_psn_diff(psn, qp->psn_una) < -1) {
		tp->counters.rx_response_ignored++;
		return;
	}
	qp->sack_peer = true;
	qp->sack_offers = 0;
	if (wire_psn_diff(psn, qp->psn_una) >= 0 && !completer_acknowledge(tp, qp, psn)) {
		completer_restart(tp, qp);
		return;
	}
	if (!s.any || qp->rnr_wait || qp->sq_tail == qp->sq.counter || !qp_sends(qp) ||
	    wire_psn_add(psn, 1) != qp->psn_una)
		return;
	if (qp->board == NULL && begin(tp, qp) == NULL) {
		completer_restart(tp, qp);
		return;
	}
	if (note_held(tp, qp, &s))
		completer_alive(tp, qp);
	judge(tp, qp);
	completer_window(qp);
	qp_activate(tp, qp);
}

/* ---- Sending again ---- */
uint32_t
selective_resend(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0;
	struct unit u;

	FOREACH_UNIT(qp, u, qp->psn_max) {
		if (work == budget || qp->board->nb_lost == 0)
			break;
		if (!sack_bit(qp->board->lost, u.psn))
			continue;
		if (requester_send_again(tp, qp, u.counter, u.psn) == 0)
			break;
		selective_resent(qp, u.psn);
		work++;
	}
	if (qp->board != NULL && work != 0)
		completer_window(qp);
	return work;
}
