/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, the responder's side: holding what comes beyond a gap, and saying so.
 */
#include "transport/req/selective.h"

int
selective_create(struct transport *tp)
{
	/* Pages that are never lent are never touched, so they cost address space only. */
	tp->board_mem = calloc(TP_BOARDS, sizeof(*tp->board_mem));
	tp->ahead_mem = calloc(TP_BOARDS, sizeof(*tp->ahead_mem));
	tp->held_mem = calloc(TP_HELD_MAX, sizeof(*tp->held_mem));
	if (tp->board_mem == NULL || tp->ahead_mem == NULL || tp->held_mem == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < TP_BOARDS; i++) {
		tp->boards[i] = &tp->board_mem[TP_BOARDS - 1 - i];
		tp->aheads[i] = &tp->ahead_mem[TP_BOARDS - 1 - i];
	}
	tp->nb_boards = tp->nb_aheads = TP_BOARDS;
	for (uint32_t i = 0; i < TP_HELD_MAX; i++)
		tp->held_free[i] = (uint16_t)(TP_HELD_MAX - 1 - i);
	tp->nb_held_free = TP_HELD_MAX;
	return 0;
}

void
selective_destroy(struct transport *tp)
{
	free(tp->board_mem);
	free(tp->ahead_mem);
	free(tp->held_mem);
}

/* ---- Holding ---- */
static void
release(struct transport *tp, struct tp_ahead *a, uint32_t psn)
{
	sack_clear(a->map, psn);
	a->nb--;
	tp->held_free[tp->nb_held_free++] = a->held[psn % TP_SACK_SPAN];
}

/* What was held before psn is of no use: those PSNs turned out to be a READ's. */
static void
pass(struct transport *tp, struct tp_ahead *a, uint32_t psn)
{
	for (uint32_t n = 0; n < TP_SACK_SPAN && a->base != psn && a->nb != 0; n++) {
		if (sack_bit(a->map, a->base))
			release(tp, a, a->base);
		a->base = wire_psn_add(a->base, 1);
	}
	a->base = psn;
}

static void
give_back(struct transport *tp, struct qp *qp)
{
	tp->aheads[tp->nb_aheads++] = qp->ahead;
	qp->ahead = NULL;
}

void
selective_stop(struct transport *tp, struct qp *qp)
{
	selective_forget(tp, qp);
	if (qp->ahead == NULL)
		return;
	pass(tp, qp->ahead, wire_psn_add(qp->ahead->base, TP_SACK_SPAN));
	give_back(tp, qp);
}

static void
tell(struct transport *tp, struct qp *qp)
{
	if (qp->reply == TP_REPLY_NAK_SEQ || qp->reply == TP_REPLY_RNR || qp->reply == TP_REPLY_FATAL)
		return;
	qp->reply = TP_REPLY_SACK;
	qp_reply_later(tp, qp);
}

static struct tp_ahead *
borrow(struct transport *tp, struct qp *qp)
{
	struct tp_ahead *a;

	if (tp->nb_aheads == 0)
		return NULL;
	a = tp->aheads[--tp->nb_aheads];
	memset(a->map, 0, sizeof(a->map));
	a->nb = 0;
	a->base = qp->epsn;
	qp->ahead = a;
	return a;
}

/*
 * A QP may hold as much as is free for others: whoever has many QPs that never fill their gaps leaves something to
 * everybody.
 */
bool
selective_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn, bytes = (uint32_t)(p->payload - p->bthp) + p->payload_bytes;
	struct tp_ahead *a = qp->ahead;
	struct tp_held *h;

	if (a != NULL && wire_psn_diff(psn, qp->epsn) < TP_SACK_SPAN && sack_bit(a->map, psn)) {
		tp->counters.duplicate_request++;
		tell(tp, qp);
		return true;
	}
	if (wire_psn_diff(psn, qp->epsn) >= TP_SACK_SPAN || (a != NULL ? a->nb : 0) >= tp->nb_held_free ||
	    (a == NULL && (a = borrow(tp, qp)) == NULL)) {
		tp->counters.rx_not_held++;
		return false;
	}
	a->held[psn % TP_SACK_SPAN] = tp->held_free[--tp->nb_held_free];
	h = &tp->held_mem[a->held[psn % TP_SACK_SPAN]];
	h->p = *p;
	memcpy(h->bytes, p->bthp, bytes);
	h->p.l2 = h->p.l3 = NULL;
	h->p.bthp = h->bytes;
	h->p.payload = h->bytes + (p->payload - p->bthp);
	sack_set(a->map, psn);
	a->nb++;
	tp->counters.rx_held++;
	tell(tp, qp);
	return true;
}

void
selective_drain(struct transport *tp, struct qp *qp)
{
	struct tp_ahead *a;

	while ((a = qp->ahead) != NULL) {
		uint32_t psn = qp->epsn;

		pass(tp, a, psn);
		if (a->nb == 0) {
			give_back(tp, qp);
			return;
		}
		if (!sack_bit(a->map, psn))
			break;
		/* It stays held while it is executed: nothing else is held meanwhile. */
		responder_execute(tp, qp, &tp->held_mem[a->held[psn % TP_SACK_SPAN]].p);
		if (qp->ahead == NULL)
			return;
		if (qp->epsn == psn) {
			/* Not now: it will be sent again. */
			release(tp, a, psn);
			break;
		}
	}
	if (qp->ahead != NULL)
		tell(tp, qp);
}

/* ---- On the wire ---- */
bool
selective_send_sack(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = { .opcode = WIRE_OPCODE_SACK, .dqpn = qp->dest_qpn, .pkey = qp->pkey,
			      .migreq = qp->mig == TP_MIG_MIGRATED,
			      .psn = wire_psn_add(qp->epsn, WIRE_PSN_MASK) };
	uint32_t word = qp->epsn / 64, shift = qp->epsn % 64;
	struct tp_out o;
	uint8_t *at;

	if (!tp_begin(tp, qp, WIRE_OPCODE_SACK, &o))
		return false;
	wire_put_aeth(o.bth + o.op->off_aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, qp->msn);
	at = tp_payload(&o);
	wire_put32(at, SACK_MAGIC);
	for (uint32_t i = 0; i < SACK_WORDS; i++, word++) {
		uint64_t bits = 0;

		if (qp->ahead != NULL) {
			bits = qp->ahead->map[word % SACK_WORDS] >> shift;
			if (shift != 0)
				bits |= qp->ahead->map[(word + 1) % SACK_WORDS] << (64 - shift);
		}
		wire_put64(at + 4 + 8 * i, bits);
	}
	tp_finish(tp, qp, &o, &b, SACK_PAYLOAD_BYTES);
	tp->counters.sacks_sent++;
	return true;
}

/* Names this connection, as far as this end knows it: one in RTR hasn't got a first PSN of its own. */
bool
selective_offer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *at = p->bthp + p->op->off_reth;

	if (p->bth.opcode != (qp->prefix | WIRE_OP_WRITE_ONLY) || wire_get32(at + 12) != 0 ||
	    wire_get24(at) != SACK_OFFER_MAGIC || wire_get24(at + 3) != qp->dest_qpn ||
	    wire_get24(at + 6) != qp->attr.rq_psn || (qp_sends(qp) && wire_get24(at + 9) != qp->attr.sq_psn) ||
	    tp->c.ports[qp->port].go_back_n)
		return false;
	tp->counters.sack_offers_received++;
	qp->sack_on = true;
	/* At once, so that no ACK takes its place; but READ responses come before what acknowledges them. */
	if (qp->res_pending != 0 || (qp->reply != TP_REPLY_NONE && qp->reply != TP_REPLY_ACK) ||
	    !selective_send_sack(tp, qp))
		tell(tp, qp);
	return true;
}
