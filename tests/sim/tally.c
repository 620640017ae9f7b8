/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the transports against what the network has seen: packets of each kind that left an engine's TX vectors and that came to it,
 * and what programs were told.
 */
#include <inttypes.h>
#include <string.h>

#include "model.h"

enum { OFFER_MAGIC = 0x757232 };

/* ---- What leaves and arrives ---- */
void
tally_sent(struct sim_engine *e, struct rte_mbuf *m)
{
	struct sim_tally *t = &e->tally;
	struct wire_pkt p = { 0 };
	uint8_t syndrome;

	t->tx_packets++;
	t->tx_bytes += rte_pktmbuf_data_len(m);
	if (wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), false, &p) != WIRE_OK)
		return;
	syndrome = p.op->flags & WIRE_F_AETH ? p.bthp[p.op->off_aeth] : 0;
	if (p.bth.opcode == WIRE_OPCODE_CNP)
		t->cnps++;
	else if (p.op->flags & WIRE_F_SACK)
		t->sacks++;
	else if (WIRE_OPCODE_OP(p.bth.opcode) == WIRE_OP_ACK)
		t->acks++;
	t->rnr_naks += WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK;
	t->offers += WIRE_OPCODE_OP(p.bth.opcode) == WIRE_OP_WRITE_ONLY && (p.op->flags & WIRE_F_RETH) &&
		     wire_get32(p.bthp + p.op->off_reth + 12) == 0 && wire_get24(p.bthp + p.op->off_reth) == OFFER_MAGIC;
}

void
tally_arrived(struct sim_engine *e, struct rte_mbuf *m)
{
	struct sim_tally *t = &e->tally;
	struct wire_pkt p = { 0 };
	uint8_t syndrome;

	t->rx_packets++;
	t->rx_bytes += rte_pktmbuf_data_len(m);
	if (wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), false, &p) != WIRE_OK)
		return;
	syndrome = p.op->flags & WIRE_F_AETH ? p.bthp[p.op->off_aeth] : 0;
	t->rx_cnps += p.bth.opcode == WIRE_OPCODE_CNP;
	t->rx_sacks += (p.op->flags & WIRE_F_SACK) != 0;
	t->rx_rnr_naks += WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK;
	t->rx_seq_naks += syndrome == WIRE_NAK_PSN_SEQ;
}

/* A program is told of an error. */
void
tally_error(struct sim_qp *q, uint8_t status)
{
	if (q->foreign == NULL && status < sizeof(q->ep->errors) / sizeof(q->ep->errors[0]))
		q->ep->errors[status]++;
}

/* ---- The comparison ---- */
static void
same(struct sim_world *w, uint32_t ep, const char *what, uint64_t counter, uint64_t seen, bool at_least, bool at_most)
{
	if ((at_least && counter < seen) || (at_most && counter > seen))
		sim_fail(w, "endpoint %u: counter %s is %" PRIu64 ", seen were %" PRIu64, ep, what, counter, seen);
}

static void
check_engine(struct sim_world *w, uint32_t ep, struct sim_engine *e, bool loops)
{
	const struct tp_counters *c = transport_counters(e->tp);
	const struct sim_tally *t = &e->tally;
	/* What is left in a TX vector, and packets that take no wire, are counted as sent. */
	bool all = !loops && c->tx_no_address == 0 && !(w->cfg.faults & SIM_F_RESTART);

	for (uint16_t port = 0; port < w->eps[ep].nb_ports; port++)
		all &= transport_tx(e->tp, port)->n == 0;
/* Counters in journals may be a little old. */
#define SENT(counter, seen) same(w, ep, #counter, c->counter, t->seen, !(w->cfg.faults & SIM_F_CRASH), all)
	SENT(tx_packets, tx_packets);
	SENT(tx_bytes, tx_bytes);
	SENT(acks_sent, acks);
	SENT(rnr_nak_sent, rnr_naks);
	SENT(sacks_sent, sacks);
	SENT(np_cnp_sent, cnps);
	SENT(sack_offers_sent, offers);
#undef SENT
	if (loops)
		return;
#define CAME(counter, seen) same(w, ep, #counter, c->counter, t->seen, false, true)
	CAME(rnr_nak_received, rx_rnr_naks);
	CAME(packet_seq_err, rx_seq_naks);
	CAME(sacks_received, rx_sacks);
	CAME(rx_cnp, rx_cnps);
#undef CAME
	if (!(w->cfg.faults & (SIM_F_CORRUPT | SIM_F_RESTART)) && w->eps[ep].nb_engines == 1) {
		/* Packets that take no wire are counted, too. */
		same(w, ep, "rx_packets", c->rx_packets, t->rx_packets, true, false);
		same(w, ep, "rx_bytes", c->rx_bytes, t->rx_bytes, true, false);
	}
}

/* Errors of sends: each is counted once. A program that has left, or whose CQ has overrun, isn't told of all. */
static void
check_errors(struct sim_world *w, uint32_t ep)
{
	uint64_t access = 0, invalid = 0, op = 0, retry = 0, rnr = 0;
	const uint32_t *told = w->eps[ep].errors;
	bool all = !(w->cfg.faults & (SIM_F_CQ_SMALL | SIM_F_ENDS | SIM_F_RECONNECT));

	if (w->cfg.faults & SIM_F_RESTART)
		return;
	for (uint32_t i = 0; i < w->eps[ep].nb_engines; i++) {
		const struct tp_counters *c = transport_counters(w->eps[ep].engines[i].tp);

		access += c->req_remote_access_errors;
		invalid += c->req_remote_invalid_request;
		op += c->req_remote_op_errors;
		retry += c->retry_exceeded_err;
		rnr += c->rnr_nak_retry_err;
	}
	same(w, ep, "req_remote_access_errors", access, told[UROCE_WC_REM_ACCESS_ERR], true, all);
	same(w, ep, "req_remote_invalid_request", invalid, told[UROCE_WC_REM_INV_REQ_ERR], true, all);
	same(w, ep, "req_remote_op_errors", op, told[UROCE_WC_REM_OP_ERR], true, all);
	same(w, ep, "retry_exceeded_err", retry, told[UROCE_WC_RETRY_EXC_ERR], true, all);
	same(w, ep, "rnr_nak_retry_err", rnr, told[UROCE_WC_RNR_RETRY_EXC_ERR], true, all);
}

void
tally_check(struct sim_world *w)
{
	for (uint32_t ep = 0; ep < w->cfg.nb_eps; ep++) {
		bool loops = w->nb_groups != 0 || (w->cfg.faults & SIM_F_UNRELIABLE) != 0;

		for (uint32_t i = 0; i < w->cfg.nb_conns; i++)
			loops |= w->conns[i].qp[0].ep->id == ep && w->conns[i].qp[1].ep->id == ep;
		for (uint32_t i = 0; i < w->eps[ep].nb_engines; i++)
			check_engine(w, ep, &w->eps[ep].engines[i], loops);
		check_errors(w, ep);
	}
}
