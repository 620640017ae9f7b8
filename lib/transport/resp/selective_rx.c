/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, the responder's side: holding what comes beyond a gap, and saying so.
 */
#include "transport/req/selective.h"

int
selective_create(struct transport *tp)
{
	/* Pages that are never lent are never touched, so they cost address space only. */
	tp->scoreboard_mem = calloc(TP_SCOREBOARDS, sizeof(*tp->scoreboard_mem));
	tp->reorder_mem = calloc(TP_SCOREBOARDS, sizeof(*tp->reorder_mem));
	tp->reorder_pkt_mem = calloc(TP_REORDER_PKTS, sizeof(*tp->reorder_pkt_mem));
	if (tp->scoreboard_mem == NULL || tp->reorder_mem == NULL || tp->reorder_pkt_mem == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < TP_SCOREBOARDS; i++) {
		tp->scoreboards[i] = &tp->scoreboard_mem[TP_SCOREBOARDS - 1 - i];
		tp->reorders[i] = &tp->reorder_mem[TP_SCOREBOARDS - 1 - i];
	}
	tp->nb_scoreboards = tp->nb_reorders = TP_SCOREBOARDS;
	for (uint32_t i = 0; i < TP_REORDER_PKTS; i++)
		tp->reorder_free[i] = (uint16_t)(TP_REORDER_PKTS - 1 - i);
	tp->nb_reorder_free = TP_REORDER_PKTS;
	return 0;
}

void
selective_destroy(struct transport *tp)
{
	free(tp->scoreboard_mem);
	free(tp->reorder_mem);
	free(tp->reorder_pkt_mem);
}

/* ---- Holding ---- */
static void
release(struct transport *tp, struct tp_reorder *a, uint32_t psn)
{
	sack_clear(a->map, psn);
	a->nb--;
	tp->reorder_free[tp->nb_reorder_free++] = a->held[psn % TP_SACK_SPAN];
}

/* What was held before psn is of no use: those PSNs turned out to be a READ's. */
static void
pass(struct transport *tp, struct tp_reorder *a, uint32_t psn)
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
	tp->reorders[tp->nb_reorders++] = qp->rcv.reorder;
	qp->rcv.reorder = NULL;
}

void
selective_stop(struct transport *tp, struct qp *qp)
{
	selective_forget(tp, qp);
	if (qp->rcv.reorder == NULL)
		return;
	pass(tp, qp->rcv.reorder, wire_psn_add(qp->rcv.reorder->base, TP_SACK_SPAN));
	give_back(tp, qp);
}

static void
tell(struct transport *tp, struct qp *qp)
{
	if (qp->resp.reply == TP_REPLY_NAK_SEQ || qp->resp.reply == TP_REPLY_RNR || qp->resp.reply == TP_REPLY_FATAL)
		return;
	qp->resp.reply = TP_REPLY_SACK;
	qp_reply_later(tp, qp);
}

static struct tp_reorder *
borrow(struct transport *tp, struct qp *qp)
{
	struct tp_reorder *a;

	if (tp->nb_reorders == 0)
		return NULL;
	a = tp->reorders[--tp->nb_reorders];
	memset(a->map, 0, sizeof(a->map));
	a->nb = 0;
	a->base = qp->rcv.epsn;
	qp->rcv.reorder = a;
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
	struct tp_reorder *a = qp->rcv.reorder;
	struct tp_reorder_pkt *h;

	if (a != NULL && wire_psn_diff(psn, qp->rcv.epsn) < TP_SACK_SPAN && sack_bit(a->map, psn)) {
		tp->counters.duplicate_request++;
		tell(tp, qp);
		return true;
	}
	if (wire_psn_diff(psn, qp->rcv.epsn) >= TP_SACK_SPAN || (a != NULL ? a->nb : 0) >= tp->nb_reorder_free ||
	    (a == NULL && (a = borrow(tp, qp)) == NULL)) {
		tp->counters.rx_not_held++;
		return false;
	}
	a->held[psn % TP_SACK_SPAN] = tp->reorder_free[--tp->nb_reorder_free];
	h = &tp->reorder_pkt_mem[a->held[psn % TP_SACK_SPAN]];
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
	struct tp_reorder *a;

	while ((a = qp->rcv.reorder) != NULL) {
		uint32_t psn = qp->rcv.epsn;

		pass(tp, a, psn);
		if (a->nb == 0) {
			give_back(tp, qp);
			return;
		}
		if (!sack_bit(a->map, psn))
			break;
		/* It stays held while it is executed: nothing else is held meanwhile. */
		responder_execute(tp, qp, &tp->reorder_pkt_mem[a->held[psn % TP_SACK_SPAN]].p);
		if (qp->rcv.reorder == NULL)
			return;
		if (qp->rcv.epsn == psn) {
			/* Not now: it will be sent again. */
			release(tp, a, psn);
			break;
		}
	}
	if (qp->rcv.reorder != NULL)
		tell(tp, qp);
}

/* ---- On the wire ---- */
bool
selective_send_sack(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = { .opcode = WIRE_OPCODE_SACK, .dqpn = qp->path.dest_qpn, .pkey = qp->path.pkey,
			      .migreq = qp->path.mig == TP_MIG_MIGRATED,
			      .psn = wire_psn_add(qp->rcv.epsn, WIRE_PSN_MASK) };
	uint32_t word = qp->rcv.epsn / 64, shift = qp->rcv.epsn % 64;
	struct tp_out o;
	uint8_t *at;

	if (!tp_begin(tp, qp, WIRE_OPCODE_SACK, &o))
		return false;
	wire_put_aeth(o.bth + o.op->off_aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, qp->rcv.msn);
	at = tp_payload(&o);
	wire_put32(at, SACK_MAGIC);
	for (uint32_t i = 0; i < SACK_WORDS; i++, word++) {
		uint64_t bits = 0;

		if (qp->rcv.reorder != NULL) {
			bits = qp->rcv.reorder->map[word % SACK_WORDS] >> shift;
			if (shift != 0)
				bits |= qp->rcv.reorder->map[(word + 1) % SACK_WORDS] << (64 - shift);
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
	    wire_get24(at) != SACK_OFFER_MAGIC || wire_get24(at + 3) != qp->path.dest_qpn ||
	    wire_get24(at + 6) != qp->attr.rq_psn || (qp_sends(qp) && wire_get24(at + 9) != qp->attr.sq_psn) ||
	    tp->c.ports[qp->path.port].go_back_n)
		return false;
	tp->counters.sack_offers_received++;
	qp->rcv.sack_on = true;
	/* At once, so that no ACK takes its place; but READ responses come before what acknowledges them. */
	if (qp->resp.pending != 0 || (qp->resp.reply != TP_REPLY_NONE && qp->resp.reply != TP_REPLY_ACK) ||
	    !selective_send_sack(tp, qp))
		tell(tp, qp);
	return true;
}
