/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, the responder's side: offers, holding packets beyond a gap, and SACKs.
 */
#include "base/mark.h"
#include "transport/core/checks_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/resp/resp_priv.h"

void
sack_later(struct transport *tp, struct qp *qp)
{
	if (qp->resp.reply == TP_REPLY_NAK_SEQ || qp->resp.reply == TP_REPLY_RNR || qp->resp.reply == TP_REPLY_FATAL)
		return;
	qp->resp.reply = TP_REPLY_SACK;
	qp_reply_later(tp, qp);
}

bool
sack_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (p->bth.mark != qp->rcv.sack_mark) {
		MARK("a packet beyond a gap bears another connection's mark");
		tp->counters.rx_sack_unmarked++;
		return false;
	}
	if (reorder_has(qp, p->bth.psn)) {
		tp->counters.duplicate_request++;
	} else if (reorder_hold(tp, qp, p)) {
		tp->counters.rx_held++;
	} else {
		MARK("a packet beyond a gap can't be held");
		tp->counters.rx_not_held++;
		return false;
	}
	sack_later(tp, qp);
	return true;
}

bool
sack_send(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = wire_bth_make(WIRE_OPCODE_SACK, qp->path.dest_qpn, wire_psn_add(qp->rcv.epsn, WIRE_PSN_MASK), qp->path.pkey,
					  qp->path.mig == TP_MIG_MIGRATED, false, false, 0);
	uint32_t word = qp->rcv.epsn / 64, shift = qp->rcv.epsn % 64;
	struct tp_out o;
	uint8_t *at;

	if (!tp_begin(tp, qp, WIRE_OPCODE_SACK, &o))
		return false;
	wire_put_aeth(o.bth + o.op->off_aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, qp->rcv.msn);
	at = tp_payload(&o);
	wire_put32(at, SACK_MAGIC);
	wire_put24(at + SACK_NONCE, qp->rcv.sack_nonce);
	at[SACK_MARK] = qp->rcv.sack_mark;
	for (uint32_t i = 0; i < SACK_WORDS; i++, word++) {
		uint64_t bits = 0;

		if (qp->rcv.reorder != NULL) {
			bits = qp->rcv.reorder->map[word % SACK_WORDS] >> shift;
			if (shift != 0)
				bits |= qp->rcv.reorder->map[(word + 1) % SACK_WORDS] << (64 - shift);
		}
		wire_put64(at + SACK_BITMAP + 8 * i, bits);
	}
	tp_finish(tp, qp, &o, b, SACK_PAYLOAD_BYTES);
	tp->counters.sacks_sent++;
	return true;
}

/* An offer must name this connection, as far as this end knows it: a QP in RTR has no first PSN of its own yet. */
bool
sack_offer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *at = p->bthp + p->op->off_reth;

	if (p->bth.opcode != (qp->prefix | WIRE_OP_WRITE_ONLY) || wire_get32(at + 12) != 0 ||
	    wire_get24(at) != SACK_OFFER_MAGIC || wire_get24(at + 3) != sack_origin(qp->path.dest_qpn, qp->attr.rq_psn) ||
	    (qp_sends(qp) && wire_get24(at + 9) != qp->attr.sq_psn) ||
	    !tp->c.ports[qp->path.port].features.selective_repeat)
		return false;
	tp->counters.sack_offers_received++;
	if (qp->rcv.sack_on && qp->rcv.sack_nonce != wire_get24(at + 6)) {
		/* The peer has found a stranger among the packets held: none of them can be trusted. */
		MARK_IF(qp->rcv.reorder != NULL, "a new offer makes the receiver drop what it holds");
		reorder_return(tp, qp);
		qp->rcv.sack_mark = sack_mark(qp->rcv.sack_mark);
	}
	qp->rcv.sack_nonce = wire_get24(at + 6);
	qp->rcv.reply_mark = sack_mark(qp->rcv.sack_nonce);
	qp->rcv.sack_on = true;
	/*
	 * Answer at once, so that no ACK or NAK replaces the SACK. A NAK that waits follows it: packets that overtook the offer are its cause.
	 * But pending READ responses go out before an acknowledgement of them.
	 */
	if (qp->resp.pending != 0 || qp->resp.reply == TP_REPLY_DUP_ACK || qp->resp.reply == TP_REPLY_FATAL || !sack_send(tp, qp)) {
		MARK("the answer to an offer waits");
		sack_later(tp, qp);
	}
	return true;
}
