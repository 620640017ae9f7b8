/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a sender must never do, whatever the network does afterwards: formats, numbers, timers, windows, congestion
 * control, as far as the wire shows it.
 */
#include <inttypes.h>
#include <string.h>

#include "sim.h"
#include "transport/core/rx_wait_priv.h"

enum {
	WINDOW_MAX = 256,      /* packets of a QP on their way at most */
	WINDOW_SWIFT = 16,     /* ... before the first answer, with a window that grows from there */
	RESEND_NS_MIN = 10000, /* half of the shortest early retransmission */
	TIMEOUT_FAR = 11,      /* ACK timeouts from 8 ms on: many round trips, also with full queues */
	SHORT_MESSAGES = 4096,
	MEASURED_OPS = 8,   /* so many are complete: a round trip has been measured */
	CNP_GAP_NS = 50000, /* between CNPs of a QP (DCQCN, section 3.1) */
	CNP_TCLASS = 48 << 2,
	ECN_MASK = 3,
	ECN_ECT0 = 2,
	ECN_CE = 3,
	ASK_NS_MAX = 20000, /* a responder has asked by then for what it lacks, and a requester sent again what that is */
	PACE_NS = 50000,     /* the reaction to the first CNP is watched for so long: below DCQCN's rate timer */
	PACE_BURST_NS = 6000,
	PACE_PACKETS = 6, /* of slack */
};

struct sim_qp *
sent_for(struct sim_world *w, uint32_t ep, uint32_t qpn)
{
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep->id == ep && q->qpn == qpn && q->conn->type == UROCE_QPT_RC && q->qp != NULL)
			return q;
	}
	return NULL;
}

/*
 * The MSN says how many of the requester's messages the responder has completed, READs when it accepts them (9.7.7.1,
 * C9-148): at least those that end before the packet's PSN, or with it if the packet acknowledges it.
 */
static void
check_msn(struct sim_world *w, const struct sim_qp *q, const struct wire_pkt *p, bool with_it)
{
	uint32_t msn = wire_get24(p->bthp + p->op->off_aeth + 1), least = 0, i;

	for (i = 0; i < q->nb_posted && wire_psn_diff(q->ops[i].last_psn, p->bth.psn) < with_it; i++)
		least += !op_local(&q->ops[i]);
	if (msn < least || msn > q->most_messages)
		sim_fail(w, "QP %u: %s of PSN %u has MSN %u; of %u posted %u are complete", q->peer->id, p->op->name,
			 p->bth.psn, msn, q->most_messages, least);
}

/* What a responder says in answer to q's requests. */
static void
check_answer(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	uint8_t syndrome;

	/* A packet that waited since another round: its PSN is far away. */
	if ((p->op->flags & WIRE_F_AETH) == 0 || wire_psn_diff(p->bth.psn, q->attr.sq_psn) < 0 ||
	    wire_psn_diff(p->bth.psn, q->psn_next) > 0)
		return;
	syndrome = p->bthp[p->op->off_aeth];
	if (WIRE_AETH_TYPE(syndrome) != WIRE_AETH_ACK) {
		q->peer->gap_ns = 0;
		q->peer->asked = true;
		q->peer->expects = p->bth.psn;
		/* A request of a former connection may be the first that comes. */
		q->peer->expects_round = q->peer->round + 1;
	}
	check_msn(w, q, p, WIRE_AETH_TYPE(syndrome) == WIRE_AETH_ACK);
	credits_answer(w, q, p);
	if (syndrome == WIRE_NAK_PSN_SEQ) {
		/* 9.7.5.2.8: once, until what is missing has come. */
		if (q->nak_seen && q->nak_psn == p->bth.psn)
			sim_fail(w, "QP %u: asks twice for PSN %u", q->peer->id, p->bth.psn);
		q->nak_seen = true;
		q->nak_psn = p->bth.psn;
	} else if (WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK) {
		q->rnr_count = q->rnr_count != 0 && q->rnr_psn == p->bth.psn ? q->rnr_count + 1 : 1;
		/* The first try and rnr_retry more (9.7.5.2.8); seven is for ever. Early retransmissions are answered too. */
		if (w->cfg.lossless && !(w->cfg.faults & (SIM_F_SLOW_TX | SIM_F_NO_MBUF)) && q->attr.rnr_retry < 7 &&
		    q->rnr_count > q->attr.rnr_retry + 1u + transport_counters(q->tp)->tail_loss_probes)
			sim_fail(w, "QP %u: sends PSN %u %u times to a peer that isn't ready, rnr_retry is %u", q->id,
				 p->bth.psn, q->rnr_count, q->attr.rnr_retry);
		q->rnr_psn = p->bth.psn;
		q->rnr_until = w->now_ns + wire_rnr_timer_ns(syndrome & 0x1f);
	}
}

/* An offer of selective repeat: a WRITE of no bytes, not of this connection's PSNs. */
static bool
is_offer(const struct wire_pkt *p)
{
	enum { MAGIC = 0x757232 };

	return p->bth.opcode == (WIRE_RC | WIRE_OP_WRITE_ONLY) && wire_get32(p->bthp + p->op->off_reth + 12) == 0 &&
	       wire_get24(p->bthp + p->op->off_reth) == MAGIC;
}

/* What q's requester sends. */
static void
check_request(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	/* Where no NAK is lost none is overlooked (9.7.5.2.8); what was sent again early may be answered by a second one,
	 * on its way still when the time that the first one named is over. */
	if (w->cfg.lossless && transport_counters(q->tp)->tail_loss_probes == 0 && !(w->cfg.faults & (SIM_F_SLOW_TX | SIM_F_NO_MBUF)) && p->bth.psn == q->rnr_psn &&
	    w->now_ns < q->rnr_until)
		sim_fail(w, "QP %u: sends PSN %u again before the peer's RNR timer is over", q->id, p->bth.psn);
	if (w->now_ns >= q->rnr_until)
		q->rnr_waits = false;
	/* An offer of selective repeat may leave together with the event: it was made before the answer to the last message. */
	if (q->sqd_waiting && q->drained && qp_state(q->qp) == UROCE_QPS_SQD && !(w->cfg.faults & SIM_F_SLOW_TX) &&
	    !is_offer(p))
		sim_fail(w, "QP %u: sends PSN %u though its SQ is drained", q->id, p->bth.psn);
}

/* Three at most, and three more after each SACK that seems to answer an offer of another connection. */
static void
check_offer(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	enum { OFFERS = 3 };

	if (!is_offer(p))
		return;
	if (!w->cfg.features[q->ep->id].selective_repeat)
		sim_fail(w, "QP %u: offers selective repeat, but is to go back N", q->id);
	if (++q->nb_offers > OFFERS * (1 + q->old_sacks))
		sim_fail(w, "QP %u: offers selective repeat too often", q->id);
	/* One that waits in a TX vector may be of the connection before. */
	if (wire_psn_diff(p->bth.psn, q->attr.sq_psn) >= 0 && !(w->cfg.faults & SIM_F_SLOW_TX))
		sim_fail(w, "QP %u: offers selective repeat with a PSN of its own", q->id);
}

/*
 * Who doesn't speak selective repeat never does, and nobody claims to have what was never sent. What comes next is held only if
 * it invalidates a key while a READ or atomic before it is still being answered.
 */
static void
check_sack(struct sim_world *w, struct sim_qp *q, uint32_t from, const struct wire_pkt *p)
{
	enum { BITS = 256 };

	if (!w->cfg.features[from].selective_repeat) {
		sim_fail(w, "endpoint %u sends %s, but is to go back N", from, p->op->name);
	} else if (!w->cfg.features[q->ep->id].selective_repeat) {
		sim_fail(w, "endpoint %u sends a SACK to one that never offered it", from);
	} else if (wire_psn_diff(p->bth.psn, q->attr.sq_psn) >= -1 && wire_psn_diff(p->bth.psn, q->psn_next) < 0) {
		check_msn(w, q, p, true);
		for (uint32_t i = 0; i < BITS; i++)
			if ((p->payload[15 - i / 8 % 8 + i / 64 * 8] >> i % 8 & 1) &&
			    ((i == 0 && !(w->cfg.faults & SIM_F_WINDOWS)) ||
			     wire_psn_diff(wire_psn_add(p->bth.psn, 1 + i), q->psn_next) >= 0))
				sim_fail(w, "QP %u: has PSN %u, which was never sent or isn't behind a gap", q->peer->id,
					 wire_psn_add(p->bth.psn, 1 + i));
	}
}

/* ---- Time: when q sends again what it has sent before ---- */

/* A network on which an early retransmission comes long before the ACK timeout. */
static bool
probes_are_quick(const struct sim_world *w, const struct sim_qp *q)
{
	const uint64_t slow = SIM_F_STALL | SIM_F_NO_MBUF | SIM_F_SLOW_TX | SIM_F_PARTITION | SIM_F_BURST |
			      SIM_F_CORRUPT | SIM_F_QUEUE | SIM_F_APM | SIM_F_STALE | SIM_F_RESTART;

	return w->cfg.features[q->ep->id].tail_loss_probe && (w->cfg.faults & slow) == 0 && !w->cfg.harsh && w->cfg.cc == TP_CC_NONE &&
	       q->attr.timeout >= TIMEOUT_FAR && w->cfg.max_len <= SHORT_MESSAGES && q->nb_retired >= MEASURED_OPS;
}

static uint64_t
latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The oldest packet that isn't acknowledged again, and what came before it was new. */
static void
check_resent(struct sim_world *w, struct sim_qp *q)
{
	uint64_t since = latest(latest(q->progress_ns, q->flight_ns), latest(q->rnr_until, q->again_ns));
	uint64_t silence = w->now_ns > since ? w->now_ns - since : 0;

	/* A foreign peer may ask for it, or be slow. */
	if (q->peer->foreign != NULL)
		return;
	/* Nothing gets lost, so no NAK asks for it: it is early, and not before an answer could have come. What is paced
	 * waits for its time, and answers may come meanwhile. */
	if (w->cfg.lossless && w->cfg.ordered && w->cfg.cc == TP_CC_NONE && !invalidate_may_wait(w) &&
	    !(w->cfg.faults & (SIM_F_SLOW_TX | SIM_F_NO_MBUF)) && q->rnr_until == 0 && q->peer->rnr_until == 0 &&
	    silence < RESEND_NS_MIN)
		sim_fail(w, "QP %u: sends PSN %u again after %" PRIu64 " ns", q->id, q->sent_next, silence);
	/* The loss of a packet, ACK or NAK costs a few round trips, not the ACK timeout. */
	if (q->again_ns == 0 && probes_are_quick(w, q) && silence >= UINT64_C(4096) << q->attr.timeout)
		sim_fail(w, "QP %u: only the ACK timeout, after %" PRIu64 " us, makes it send again", q->id,
			 silence / 1000);
}

/* ---- What the peer has said that it holds ---- */

/* Losses for which a requester goes back: then it doesn't matter what the peer holds. */
static uint64_t
losses(const struct sim_qp *q)
{
	const struct tp_counters *c = transport_counters(q->tp);

	return c->local_ack_timeout_err + c->implied_nak_seq_err + c->packet_seq_err + c->rnr_nak_received;
}

/* An answer comes to requester q. */
static void
note_answer(const struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	uint32_t gap = wire_psn_add(p->bth.psn, 1), psn, i;
	bool any = false;

	if ((p->op->flags & WIRE_F_SACK) == 0) {
		if (wire_psn_diff(gap, q->answered) > 0 && wire_psn_diff(gap, q->sent_next) <= 0)
			q->answered = gap;
		return;
	}
	/* One that is older than what has been answered since is of no use, nor while it waits for receives. */
	if (wire_psn_diff(gap, q->answered) < 0 || wire_psn_diff(gap, q->sent_next) > 0 || q->rnr_until != 0 ||
	    q->ep->nb_engines > 1)
		return;
	/* It waits behind requests for the QP's turn, which sends as well. */
	if (rx_waits(q->qp))
		return;
	if (q->sacked_losses != losses(q))
		memset(q->sacked, 0, sizeof(q->sacked));
	q->sacked_losses = losses(q);
	q->sacked_waited = transport_counters(q->tp)->rx_waited;
	for (i = 0; i < SIM_SACKED; i++) {
		psn = wire_psn_add(gap, i);
		if (p->payload[15 - i / 8 % 8 + i / 64 * 8] >> i % 8 & 1) {
			q->sacked[psn % SIM_SACKED] = psn | SIM_THIS_PSN;
			any = true;
		} else if (i == 0) {
			q->sacked[psn % SIM_SACKED] = 0; /* it couldn't be executed after all */
		}
	}
	if (any && q->sacked[gap % SIM_SACKED] == 0 && q->again[gap % SIM_SACKED] != (gap | SIM_THIS_PSN) &&
	    q->lacked != (gap | SIM_THIS_PSN)) {
		q->lacked = gap | SIM_THIS_PSN;
		q->lacked_ns = w->now_ns;
	}
}

/* Requester q sends @p psns PSNs again. */
static void
check_again(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p, uint32_t psns)
{
	const uint64_t slow = SIM_F_SLOW_TX | SIM_F_NO_MBUF | SIM_F_STALL | SIM_F_APM;
	/* A requester that finds no scoreboard forgets what it was told, and what waits for its turn it hasn't heard. */
	bool known = q->sacked_losses == losses(q) && q->local_dereg == NULL && w->cfg.pools.scoreboards == 0 &&
		     q->sacked_waited == transport_counters(q->tp)->rx_waited;
	uint32_t i, psn;

	/* Nothing is sent again that is known to be there; but the oldest is to bring an answer. */
	if (q->sacked[p->bth.psn % SIM_SACKED] == (p->bth.psn | SIM_THIS_PSN) && wire_psn_diff(p->bth.psn, q->acked) > 0 &&
	    (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) && known && !(w->cfg.faults & SIM_F_SLOW_TX))
		sim_fail(w, "QP %u: sends PSN %u again, which its peer has said it holds", q->id, p->bth.psn);
	for (i = 0; i < psns; i++) {
		psn = wire_psn_add(p->bth.psn, i);
		q->again[psn % SIM_SACKED] = psn | SIM_THIS_PSN;
		if (q->lacked != (psn | SIM_THIS_PSN))
			continue;
		/* What is known to be missing is sent again at once, unless that was dropped because of the port's MTU. */
		if (known && !(w->cfg.faults & slow) && w->cfg.cc == TP_CC_NONE && q->rnr_until == 0 &&
		    w->now_ns - q->lacked_ns > ASK_NS_MAX && !mtus_small_since(q->ep, q->lacked_ns))
			sim_fail(w, "QP %u: sends PSN %u again %" PRIu64 " ns after its peer has said that it lacks it", q->id,
				 psn, w->now_ns - q->lacked_ns);
		q->lacked = 0;
	}
}

/* ---- Requests ---- */

/* PSNs that a request takes. */
static uint32_t
psns_of(const struct sim_qp *q, const struct wire_pkt *p)
{
	if ((p->op->flags & WIRE_F_READ) == 0)
		return 1;
	return wire_packets(wire_get32(p->bthp + p->op->off_reth + 12), 7 + q->attr.path_mtu);
}

/* BIND_MW and LOCAL_INV wait for all that was posted before them, and all behind waits for them. */
static void
check_local(struct sim_world *w, const struct sim_qp *q, uint32_t psn)
{
	uint32_t i;

	for (i = q->nb_retired; i < q->nb_posted && wire_psn_diff(q->ops[i].last_psn, psn) < 0; i++)
		if (op_local(&q->ops[i]) && wire_psn_diff(q->ops[i].last_psn, q->acked) >= 0)
			sim_fail(w, "QP %u: sends PSN %u, but operation %u waits for what was before it", q->id, psn, i);
}

/* Requests of RC: PSNs that are new, and those that aren't. */
static void
note_request(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	uint32_t psns = psns_of(q, p);
	uint32_t next = wire_psn_add(p->bth.psn, psns), most = WINDOW_MAX;

	if (q->sent_round != q->round + 1) {
		q->sent_round = q->round + 1;
		q->sent_next = q->acked = q->attr.sq_psn;
		q->progress_ns = q->flight_ns = q->again_ns = 0;
		q->last_was_new = true;
		q->answered = q->attr.sq_psn;
		memset(q->sacked, 0, sizeof(q->sacked));
		memset(q->again, 0, sizeof(q->again));
		q->lacked = 0;
	}
	/* Of another round. */
	if (wire_psn_diff(p->bth.psn, q->attr.sq_psn) < 0 || wire_psn_diff(next, q->psn_next) > 0)
		return;
	if (wire_psn_diff(p->bth.psn, q->sent_next) >= 0) {
		if (q->acked == q->sent_next)
			q->flight_ns = w->now_ns;
		if (w->cfg.cc == TP_CC_SWIFT && q->progress_ns == 0)
			most = WINDOW_SWIFT;
		/* The first READ may be longer than the window. */
		if (wire_psn_diff(next, q->acked) > (int32_t)most && p->bth.psn != q->acked)
			sim_fail(w, "QP %u: with %s of PSN %u %d packets are on their way, the window is %u", q->id, p->op->name, p->bth.psn,
				 wire_psn_diff(next, q->acked), most);
		q->last_was_new = true;
		if (q->nb_windows != 0)
			check_local(w, q, p->bth.psn);
		credits_request(w, q, p);
	} else {
		if (p->bth.psn == q->acked && q->last_was_new)
			check_resent(w, q);
		check_again(w, q, p, psns);
		q->last_was_new = false;
		q->again_ns = w->now_ns;
	}
	if (wire_psn_diff(next, q->sent_next) > 0)
		q->sent_next = next;
}

/* ---- Congestion ---- */

static uint8_t
tclass(struct rte_mbuf *m)
{
	const uint8_t *l3 = rte_pktmbuf_mtod_offset(m, const uint8_t *, WIRE_ETH_BYTES);

	return l3[0] >> 4 == 4 ? l3[1] : (uint8_t)(l3[0] << 4 | l3[1] >> 4);
}

/* A17.9.3, and DCQCN's section 3.1. */
static void
check_cnp(struct sim_world *w, struct sim_qp *q, uint8_t tc)
{
	bool late = (w->cfg.faults & SIM_F_SLOW_TX) != 0;

	if ((tc & ~ECN_MASK) != CNP_TCLASS)
		sim_fail(w, "QP %u: a CNP of traffic class 0x%02x", q->id, tc);
	if (q->marked_ns == 0)
		sim_fail(w, "QP %u: a CNP though no packet for it was marked", q->id);
	if (q->conn->type == UROCE_QPT_UD)
		sim_fail(w, "QP %u: a CNP of UD", q->id);
	if (q->cnp_sent_ns != 0 && !late && w->now_ns - q->cnp_sent_ns < CNP_GAP_NS)
		sim_fail(w, "QP %u: a CNP %" PRIu64 " ns after another", q->id, w->now_ns - q->cnp_sent_ns);
	q->cnp_sent_ns = w->now_ns;
	q->cnp_due_ns = 0;
}

/* The first CNP halves a QP's rate (DCQCN's alpha is 1). */
static void
check_pace(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p, uint32_t bytes)
{
	uint64_t ns = w->now_ns - q->cnp_ns, most;

	/* A new path has a rate of its own. */
	if (q->cnp_ns == 0 || ns > PACE_NS || q->paths_now.since_ns >= q->cnp_ns ||
	    (w->cfg.faults & (SIM_F_SLOW_TX | SIM_F_CORRUPT | SIM_F_HOSTILE)) ||
	    (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE | WIRE_F_READ_RESP)) == 0)
		return;
	q->paced_bytes += bytes;
	most = (ns + PACE_BURST_NS) * w->cfg.gbps / 16 + PACE_PACKETS * (q->mtu + 128);
	if (q->paced_bytes > most)
		sim_fail(w, "QP %u: %" PRIu64 " bytes in %" PRIu64 " ns after its first CNP", q->id, q->paced_bytes,
			 ns);
}

static void
check_congestion(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p, struct rte_mbuf *m)
{
	static const uint8_t controls[TP_CC_ALGORITHMS][UROCE_QPT_UD + 1] = {
		[TP_CC_DCQCN] = { [UROCE_QPT_RC] = ECN_ECT0, [UROCE_QPT_UC] = ECN_ECT0 },
		[TP_CC_SWIFT] = { [UROCE_QPT_RC] = ECN_ECT0 },
	};
	uint8_t tc = tclass(m);

	if (p->bth.opcode == WIRE_OPCODE_CNP) {
		check_cnp(w, q, tc);
		return;
	}
	if ((tc & ECN_MASK) != controls[w->cfg.cc][q->conn->type])
		sim_fail(w, "QP %u: ECN bits of a packet are %u", q->id, tc & ECN_MASK);
	if (w->cfg.cc == TP_CC_DCQCN)
		check_pace(w, q, p, rte_pktmbuf_data_len(m));
}

/* ---- All of that ---- */

/* The QP of a good program, of whatever type. */
static struct sim_qp *
any_qp(struct sim_world *w, uint32_t ep, uint32_t qpn)
{
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep->id == ep && q->qpn == qpn && q->qp != NULL)
			return q;
	}
	return NULL;
}

/* @param q  Who sends it; NULL: a stranger, or a QP whose peer has gone. */
static void
check_format(struct sim_world *w, uint32_t from, const struct sim_qp *q, const struct wire_pkt *p)
{
	/* What waits in a TX vector may be of the connection before. */
	if (q != NULL && q->conn->type != UROCE_QPT_UD && p->bth.pkey != q->pkey &&
	    !(w->cfg.faults & SIM_F_SLOW_TX))
		sim_fail(w, "QP %u: P_Key 0x%04x, its own is 0x%04x", q->id, p->bth.pkey, q->pkey);
	if (q != NULL && q->conn->several_paths)
		paths_sent(w, q, p);
	else if (!p->bth.migreq && (q != NULL || !(w->cfg.faults & SIM_F_APM)) && p->bth.opcode != WIRE_OPCODE_CNP)
		sim_fail(w, "endpoint %u sends %s without MigReq", from, p->op->name);
	if ((p->op->flags & WIRE_F_READ_RESP) && p->bth.ackreq)
		sim_fail(w, "endpoint %u asks to acknowledge a READ response", from);
}

static void
sent_check_now(struct sim_world *w, uint32_t from, uint32_t to, struct rte_mbuf *m)
{
	struct wire_pkt p = { 0 };
	enum wire_verdict v;
	struct sim_qp *q;

	if (m->nb_segs != 1 || rte_pktmbuf_data_len(m) > WIRE_MAX_FRAME_BYTES) {
		sim_fail(w, "endpoint %u sends a packet of %u segments, %u bytes", from, m->nb_segs,
			 rte_pktmbuf_pkt_len(m));
		return;
	}
	v = wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), w->cfg.wire_check, &p);
	if (v != WIRE_OK)
		sim_fail(w, "endpoint %u sends a bad packet: %s", from, wire_verdict_name(v));
	q = w->failed ? NULL : any_qp(w, to, p.bth.dqpn);
	if (q != NULL && q->peer->ep->id != from)
		q = NULL;
	if (!w->failed && (q == NULL || q->peer->foreign == NULL))
		check_format(w, from, q == NULL ? NULL : q->peer, &p);
	if (q == NULL || q->conn->type == UROCE_QPT_UD)
		return;
	/* A foreign end has its own habits. */
	if (q->peer->foreign != NULL)
		return;
	check_congestion(w, q->peer, &p, m);
	if (q->conn->type != UROCE_QPT_RC || q->peer->qp == NULL)
		return;
	if (p.op->flags & WIRE_F_SACK)
		check_sack(w, q, from, &p);
	if (WIRE_OPCODE_SERVICE(p.bth.opcode) != sent_service(q))
		return;
	if (p.op->flags & WIRE_F_RESPONSE) {
		check_answer(w, q, &p);
	} else {
		check_request(w, q->peer, &p);
		check_offer(w, q->peer, &p);
		note_request(w, q->peer, &p);
	}
}

/* Both ends may repeat selectively: then a SACK says what is lacking. */
static bool
selective(const struct sim_world *w, const struct sim_qp *q)
{
	return !q->conn->foreign && w->cfg.features[q->ep->id].selective_repeat && w->cfg.features[q->peer->ep->id].selective_repeat;
}

/* Is the QP in a state in which it looks at such a packet? */
static bool
takes(const struct sim_qp *q, const struct wire_pkt *p)
{
	enum uroce_qp_state s = qp_state(q->qp);

	if (p->op->flags & (WIRE_F_RESPONSE | WIRE_F_SACK))
		return s == UROCE_QPS_RTS || s == UROCE_QPS_SQD;
	return s >= UROCE_QPS_RTR && s <= UROCE_QPS_SQE;
}

/* A request comes to responder q. What it lacks it asks for at once (9.7.5.2.8), so nothing waits for a timer. */
static void
note_arrival(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	const uint64_t excuses = SIM_F_CORRUPT | SIM_F_NO_MBUF | SIM_F_SLOW_TX | SIM_F_STALL | SIM_F_QUEUE | SIM_F_APM;
	uint32_t psns = psns_of(q, p);
	int32_t ahead;

	if (q->expects_round != q->round + 1) {
		q->expects_round = q->round + 1;
		q->expects = q->attr.rq_psn;
		q->gap_ns = 0;
		q->asked = false;
	}
	/* Whoever was killed has forgotten what it lacked, if that was in a turn that doesn't count. */
	if (q->gap_ns != 0 && q->gap_ns <= q->ep->killed_ns)
		q->gap_ns = 0;
	ahead = wire_psn_diff(p->bth.psn, q->expects);
	if (ahead > 0 && !q->asked) {
		if (q->gap_ns == 0 || wire_psn_diff(p->bth.psn, q->behind) > 0)
			q->behind = p->bth.psn;
		q->gap_ns = q->gap_ns == 0 ? w->now_ns : q->gap_ns;
	}
	if (ahead != 0)
		return;
	if (q->gap_ns != 0 && w->now_ns - q->gap_ns > ASK_NS_MAX && !(w->cfg.faults & excuses) && !w->cfg.harsh &&
	    w->cfg.cc == TP_CC_NONE && w->cfg.max_len <= SHORT_MESSAGES)
		sim_fail(w, "QP %u: has lacked PSN %u for %" PRIu64 " ns without asking for it", q->id, q->expects,
			 w->now_ns - q->gap_ns);
	q->expects = wire_psn_add(q->expects, psns);
	/* What came before its turn was dropped: unless it has been asked for it must be now. */
	q->gap_ns = q->gap_ns != 0 && wire_psn_diff(q->behind, q->expects) >= 0 ? w->now_ns : 0;
	q->asked = false;
}

/* A foreign end asks for time: it counts from now on. What it says before anything is sent again is about what was sent before, and no new refusal. */
static void
note_foreign(const struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	uint8_t syndrome = p->op->flags & WIRE_F_AETH ? p->bthp[p->op->off_aeth] : 0;

	uint64_t until = w->now_ns + wire_rnr_timer_ns(syndrome & 0x1f);

	if (WIRE_AETH_TYPE(syndrome) != WIRE_AETH_RNR_NAK)
		return;
	/* Repeated during the wait, it makes the wait longer, up to the longest time that there is. */
	if (q->rnr_waits) {
		if (p->bth.psn == q->rnr_psn && w->now_ns < q->rnr_until)
			q->rnr_until = latest(q->rnr_until, until < q->rnr_most ? until : q->rnr_most);
		return;
	}
	q->rnr_count = q->rnr_count != 0 && q->rnr_psn == p->bth.psn ? q->rnr_count + 1 : 1;
	q->rnr_waits = true;
	q->rnr_psn = p->bth.psn;
	q->rnr_until = until;
	q->rnr_most = w->now_ns + wire_rnr_timer_ns(0);
}

static void
sent_arrives_now(struct sim_world *w, uint32_t to, const struct transport *tp, struct rte_mbuf *m)
{
	struct wire_pkt p = { 0 };
	struct sim_qp *q;

	if (wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), (w->cfg.faults & SIM_F_CORRUPT) != 0, &p) !=
	    WIRE_OK)
		return;
	q = any_qp(w, to, p.bth.dqpn);
	/* An engine that isn't its QP's hands it over, or holds it; meanwhile others may overtake it. */
	if (q == NULL || q->tp != tp || moves_away(q) || q->port != m->port)
		return;
	if (takes(q, &p))
		paths_arrives(w, q, &p);
	if (q->peer->foreign != NULL)
		note_foreign(w, q, &p);
	if ((tclass(m) & ECN_MASK) == ECN_CE) {
		q->marked_ns = w->now_ns;
		/* The other end hears of it, unless it just has. */
		if (p.bth.opcode != WIRE_OPCODE_CNP && q->conn->type != UROCE_QPT_UD && q->cnp_due_ns == 0 &&
		    (q->cnp_sent_ns == 0 || w->now_ns - q->cnp_sent_ns > CNP_GAP_NS) &&
		    takes(q, &p))
			q->cnp_due_ns = w->now_ns;
	}
	if (p.bth.opcode == WIRE_OPCODE_CNP && q->cnp_ns == 0 && qp_state(q->qp) == UROCE_QPS_RTS &&
	    paths_current(q, &p)) {
		q->cnp_ns = w->now_ns;
		q->paced_bytes = 0;
	}
	if ((p.op->flags & (WIRE_F_RESPONSE | WIRE_F_SACK)) == 0 && p.bth.opcode != WIRE_OPCODE_CNP &&
	    q->params.type == UROCE_QPT_RC) {
		credits_requested(q, &p, psns_of(q, &p));
		/* In ERR it asks for nothing, and comes back from there in another round only. */
		if (!selective(w, q) && takes(q, &p))
			note_arrival(w, q, &p);
	}
	/* A SACK says nothing of receives. What comes by another way makes the QP migrate and is taken, or is dropped. */
	if ((p.op->flags & (WIRE_F_AETH | WIRE_F_SACK)) == WIRE_F_AETH && q->conn->type == UROCE_QPT_RC)
		credits_answered(q, &p, takes(q, &p) && paths_current(q, &p));
	if ((p.op->flags & (WIRE_F_RESPONSE | WIRE_F_SACK)) && q->conn->type == UROCE_QPT_RC &&
	    q->sent_round == q->round + 1 && takes(q, &p) && paths_current(q, &p))
		note_answer(w, q, &p);
	/* Whether or not it moves the oldest, it says that things arrive. */
	if ((p.op->flags & WIRE_F_SACK) && q->sent_round == q->round + 1)
		q->progress_ns = w->now_ns;
	if ((p.op->flags & (WIRE_F_RESPONSE | WIRE_F_SACK)) == 0 || q->sent_round != q->round + 1 ||
	    wire_psn_diff(p.bth.psn, q->acked) < 0 || wire_psn_diff(p.bth.psn, q->sent_next) > 0)
		return;
	/* A NAK says that what is before it has come. */
	if ((p.op->flags & WIRE_F_AETH) && WIRE_AETH_TYPE(p.bthp[p.op->off_aeth]) != WIRE_AETH_ACK)
		q->acked = p.bth.psn;
	else if (p.bth.psn != q->sent_next)
		q->acked = wire_psn_add(p.bth.psn, 1);
	q->progress_ns = w->now_ns;
}

static void
sent_end_now(struct sim_world *w, const struct sim_qp *q)
{
	const uint64_t excuses = SIM_F_CORRUPT | SIM_F_NO_MBUF | SIM_F_SLOW_TX | SIM_F_RECONNECT | SIM_F_ENDS |
				 SIM_F_APM;

	/* A QP that isn't in ERR when the packet comes may be before it is looked at; and a host that restarts drops packets that wait for a turn. */
	if (q->cnp_due_ns != 0 && !(w->cfg.faults & excuses) && !w->cfg.harsh && !((w->cfg.faults & SIM_F_RESTART) && w->cfg.nb_shares > 1))
		sim_fail(w, "QP %u: a packet was marked at %" PRIu64 " ns, but no CNP says so", q->id, q->cnp_due_ns);
}

void
sent_check(struct sim_world *w, uint32_t from, uint32_t to, struct rte_mbuf *m)
{
	w->quiet = w->copies;
	sent_check_now(w, from, to, m);
	w->quiet = false;
}

void
sent_arrives(struct sim_world *w, uint32_t to, const struct transport *tp, struct rte_mbuf *m)
{
	w->quiet = w->copies;
	sent_arrives_now(w, to, tp, m);
	w->quiet = false;
}

void
sent_end(struct sim_world *w, const struct sim_qp *q)
{
	w->quiet = w->copies;
	sent_end_now(w, q);
	w->quiet = false;
}
