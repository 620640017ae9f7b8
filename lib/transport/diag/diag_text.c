/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QP snapshots, reasons and events as text.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "transport/core/types_priv.h"
#include "transport/diag/diag.h"


enum {
	BUSY_PERCENT = 90,        /**< an engine with more load than this may be the reason why nothing moves */
	LATE_NS = 1000000,        /**< an answer that takes longer than this is worth a sentence of its own */
};

/* ---- Names ---- */
const char *
qp_type_name(enum uroce_qp_type t)
{
	switch (t) {
	case UROCE_QPT_GSI:
		return "GSI";
	case UROCE_QPT_RC:
		return "RC";
	case UROCE_QPT_UC:
		return "UC";
	case UROCE_QPT_UD:
		return "UD";
	case UROCE_QPT_XRC_SEND:
		return "XRC_SEND";
	case UROCE_QPT_XRC_RECV:
		return "XRC_RECV";
	}
	return "?";
}

const char *
qp_mig_name(uint8_t path_mig_state)
{
	static const char *const names[] = {
		[TP_MIG_MIGRATED] = "migrated",
		[TP_MIG_REARM] = "rearm",
		[TP_MIG_ARMED] = "armed",
	};

	return path_mig_state < RTE_DIM(names) ? names[path_mig_state] : "?";
}

const char *
req_wait_name(uint8_t wait)
{
	static const char *const names[] = {
		[REQ_RUNS] = "nothing",
		[REQ_WAIT_TX] = "tx room",
		[REQ_WAIT_CWND] = "cwnd",
		[REQ_WAIT_CREDITS] = "credits",
		[REQ_WAIT_RD_ATOMIC] = "max_rd_atomic",
		[REQ_WAIT_FENCE] = "fence",
		[REQ_WAIT_PACE] = "pace",
		[REQ_WAIT_RNR] = "rnr timer",
		[REQ_WAIT_INFLIGHT] = "wqes in flight",
		[REQ_WAIT_MEMORY] = "memory",
		[REQ_WAIT_DRAIN] = "drain",
		[REQ_WAIT_MOVE] = "move",
	};

	return wait < RTE_DIM(names) ? names[wait] : "?";
}

const char *
wr_op_name(uint8_t op)
{
#define NAME(name, number, ...) [number] = #name,
	static const char *const names[UROCE_WR_OPS] = { WR_OP_TABLE(NAME) };
#undef NAME

	return op < UROCE_WR_OPS && names[op] != NULL ? names[op] : "-";
}

static const char *
nak_name(uint8_t syndrome)
{
	switch (syndrome) {
	case WIRE_NAK_PSN_SEQ:
		return "PSN sequence error";
	case WIRE_NAK_INV_REQ:
		return "invalid request";
	case WIRE_NAK_REM_ACCESS:
		return "remote access error";
	case WIRE_NAK_REM_OP:
		return "remote operational error";
	default:
		return "unknown NAK";
	}
}

static const char *
verr_text(uint8_t verr)
{
	static const char *const texts[] = {
		[TP_VERR_NONE] = "no further reason",
		[TP_VERR_WQE_OPCODE] = "its opcode is unknown, or not for this QP type",
		[TP_VERR_WQE_SGES] = "more SGEs or inline bytes than the QP has",
		[TP_VERR_WQE_LENGTH] = "the message is too long, or not 8 bytes for an atomic",
		[TP_VERR_LKEY] = "an lkey is unknown, stale, of another PD, or its range is left",
		[TP_VERR_LACCESS] = "its MR may not be written locally",
		[TP_VERR_FAULT] = "the program's memory is gone",
		[TP_VERR_RECV_LENGTH] = "the receive is too small for the message",
		[TP_VERR_BAD_RESPONSE] = "the peer's response doesn't fit the request",
		[TP_VERR_TIMEOUT] = "no answer from the peer",
		[TP_VERR_SEQ_RETRY] = "the peer kept asking for packets that had been resent",
		[TP_VERR_RNR] = "the peer posts no receive",
		[TP_VERR_REMOTE_NAK] = "the peer refused it",
		[TP_VERR_MW] = "bind or invalidate refused",
		[TP_VERR_AH] = "its address handle is unknown, stale or of another PD",
		[TP_VERR_NO_RD_ATOMIC] = "a READ or atomic, but max_rd_atomic is 0",
		[TP_VERR_ADDRESS] = "its own address is no address of its port any more",
		[TP_VERR_MTU] = "its packets are larger than the port's MTU, which has changed",
		[TP_VERR_COPY_LATE] = "a copy of the program's memory, which isn't mapped, took longer than 2 s",
		[TP_VERR_WQE_FLUSH] = "FLUSH has no placement type, or an unknown type or selectivity level",
	};

	return verr < RTE_DIM(texts) && texts[verr] != NULL ? texts[verr] : "an unknown reason";
}

/* ---- Reasons ---- */
static void
send_reason(const struct qp_reason *r, char *text)
{
	uint8_t status = (uint8_t)(r->detail >> 8), verr = (uint8_t)r->detail;

	if (verr == TP_VERR_TIMEOUT || verr == TP_VERR_SEQ_RETRY || verr == TP_VERR_ADDRESS || verr == TP_VERR_MTU)
		snprintf(text, DIAG_LINE_BYTES, "%s: gave up at PSN %u after %u retries", verr_text(verr), r->psn, r->retries);
	else if (verr == TP_VERR_RNR)
		snprintf(text, DIAG_LINE_BYTES, "the peer posts no receive: gave up at PSN %u after %u RNR retries", r->psn,
			 r->retries);
	else if (verr == TP_VERR_REMOTE_NAK)
		snprintf(text, DIAG_LINE_BYTES, "the peer refused the request of PSN %u: %s", r->psn,
			 status == UROCE_WC_REM_ACCESS_ERR ? "remote access error (rkey, range or permission)" :
			 status == UROCE_WC_REM_INV_REQ_ERR ? "invalid request" : "remote operational error");
	else
		snprintf(text, DIAG_LINE_BYTES, "a send is wrong (status %u): %s", status, verr_text(verr));
}

const char *
qp_reason_text(const struct qp_reason *r, char *text)
{
	switch ((enum qp_why)r->why) {
	case QP_WHY_PROGRAM:
		snprintf(text, DIAG_LINE_BYTES, "the program asked for it");
		break;
	case QP_WHY_SEND:
		send_reason(r, text);
		break;
	case QP_WHY_REFUSED:
		snprintf(text, DIAG_LINE_BYTES, "the peer's request of PSN %u was refused: %s%s", r->psn,
			 nak_name((uint8_t)r->detail),
			 r->detail == WIRE_NAK_REM_ACCESS ? " (rkey, range or permission)" : "");
		break;
	case QP_WHY_RECEIVE:
		snprintf(text, DIAG_LINE_BYTES, "a receive failed: %s", verr_text((uint8_t)r->detail));
		break;
	case QP_WHY_INVALIDATE:
		snprintf(text, DIAG_LINE_BYTES, "the peer's SEND_WITH_INV named no memory window of this QP");
		break;
	case QP_WHY_CQ:
		snprintf(text, DIAG_LINE_BYTES, "its CQ overran: the program doesn't poll, or the CQ is too small");
		break;
	case QP_WHY_DEVICE:
		snprintf(text, DIAG_LINE_BYTES, "the device of its port has gone");
		break;
	default:
		snprintf(text, DIAG_LINE_BYTES, "no reason is known");
		break;
	}
	return text;
}

/* ---- Sentences ---- */
struct lines {
	char *text;
	size_t used;
};

static void say(struct lines *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Add a line with one sentence; it is left out if there is no room. */
static void
say(struct lines *l, const char *fmt, ...)
{
	char line[DIAG_LINE_BYTES];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	n = strlen(line);
	if (l->used + n + 2 > DIAG_TEXT_BYTES)
		return;
	if (l->used > 0)
		l->text[l->used++] = '\n';
	memcpy(l->text + l->used, line, n + 1);
	l->used += n;
}

/* @return ms from @p from to @p to, 0 if @p to is earlier. */
static double
ms(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e6 : 0;
}

static const char *
peer(const struct qp_view *v, char text[INET6_ADDRSTRLEN])
{
	if (v->ip_version == 0)
		return strcpy(text, "the peer");
	inet_ntop(v->ip_version == 4 ? AF_INET : AF_INET6, v->dip, text, INET6_ADDRSTRLEN);
	return text;
}

static const char *
own_address(const struct qp_view *v, char text[INET6_ADDRSTRLEN])
{
	inet_ntop(v->ip_version == 4 ? AF_INET : AF_INET6, v->sip, text, INET6_ADDRSTRLEN);
	return text;
}

static bool
connected(const struct qp_view *v)
{
	return v->type == UROCE_QPT_RC || v->type == UROCE_QPT_XRC_SEND;
}

static bool
is_read(uint8_t op)
{
	return op < UROCE_WR_OPS && tp_req_ops[op].kind != TP_REQ_DATA && tp_req_ops[op].kind != TP_REQ_LOCAL &&
	       tp_req_ops[op].kind != TP_REQ_NONE;
}

static void
explain_state(const struct qp_view *v, struct lines *l)
{
	char why[DIAG_LINE_BYTES];

	switch (v->state) {
	case UROCE_QPS_RESET:
		say(l, "RESET: the program hasn't begun to connect it");
		break;
	case UROCE_QPS_INIT:
		say(l, "INIT: it takes no packets until the program moves it to RTR");
		break;
	case UROCE_QPS_RTR:
		say(l, "RTR: it receives; it sends nothing until the program moves it to RTS%s",
		    v->tx.posted > 0 ? ", sends are posted" : "");
		break;
	case UROCE_QPS_SQD:
		say(l, "SQD: the program has stopped the send queue; %u sends wait, %u are in flight", v->tx.posted,
		    v->tx.in_flight);
		break;
	case UROCE_QPS_SQE:
	case UROCE_QPS_ERR:
		say(l, "%s since %.0f ms", qp_state_name(v->state), ms(v->reason.ns, v->now_ns));
		say(l, "%s", qp_reason_text(&v->reason, why));
		break;
	default:
		break;
	}
}

static void
explain_cq(const struct cq_view *cq, const char *which, struct lines *l)
{
	if (cq->size == 0)
		return;
	if (cq->overrun)
		say(l, "its %s CQ has overrun: no completion comes any more", which);
	else if (cq->unpolled == cq->size)
		say(l, "its %s CQ is full: the program doesn't poll (%u completions)", which, cq->unpolled);
	else if (cq->unpolled > 0)
		say(l, "the program has %u completions to poll in its %s CQ of %u", cq->unpolled, which, cq->size);
}

/* Explain what the requester waits for from its peer. */
static void
explain_answers(const struct qp_view *v, struct lines *l)
{
	char who[INET6_ADDRSTRLEN], tries[48] = "", next[32] = "", since[40] = "";
	uint64_t late = v->tx.since_ns != 0 && v->now_ns > v->tx.since_ns ? v->now_ns - v->tx.since_ns : 0;

	peer(v, who);
	if (v->tx.rnr_wait) {
		if (v->tx.rnr_retry == TP_RETRY_INFINITE)
			snprintf(tries, sizeof(tries), "without end");
		else
			snprintf(tries, sizeof(tries), "%u of %u", v->tx.rnr_retry - v->tx.rnr_left, v->tx.rnr_retry);
		say(l, "RNR: %s QP %#x has no receive posted, since %.1f ms; again in %.1f ms (RNR retry %s)", who, v->dest_qpn,
		    (double)late / 1e6, ms(v->now_ns, v->tx.deadline_ns), tries);
		return;
	}
	if (v->tx.packets_in_flight == 0)
		return;
	if (v->tx.since_ns != 0)
		snprintf(since, sizeof(since), " since %.1f ms", (double)late / 1e6);
	if (v->tx.timeout == 0)
		snprintf(tries, sizeof(tries), "timeout 0: for ever");
	else
		snprintf(tries, sizeof(tries), "retry %u of %u", v->tx.retry_cnt - v->tx.retry_left, v->tx.retry_cnt);
	if (v->tx.deadline_ns > v->now_ns)
		snprintf(next, sizeof(next), ", again in %.1f ms", ms(v->now_ns, v->tx.deadline_ns));
	say(l, "waiting for the %s of PSN %u%s (%s%s)", is_read(v->tx.head_op) ? "response" : "ACK", v->tx.psn_una, since, tries,
	    next);
	if (v->tx.retry_left < v->tx.retry_cnt && late > LATE_NS)
		say(l, "no answer from %s QP %#x: does that QP exist, is its host up, is the path open?", who, v->dest_qpn);
	if (v->tx.lost > 0)
		say(l, "%u packets were lost and are sent again", v->tx.lost);
}

/* Explain what keeps the next packet from being sent. */
static void
explain_waiting(const struct qp_view *v, struct lines *l)
{
	const char *next = wr_op_name(v->tx.next_op), *cc = tp_cc_name(v->tx.cc);
	uint32_t in_flight = (v->tx.psn_cur - v->tx.psn_una) & WIRE_PSN_MASK;

	switch ((enum req_wait)v->tx.wait) {
	case REQ_RUNS:
	case REQ_WAIT_RNR:
		break;
	case REQ_WAIT_TX:
		say(l, "the port doesn't take packets as fast as they are made");
		break;
	case REQ_WAIT_CREDITS:
		say(l, "no receive WQE is posted at the peer (credits 0): SENDs wait for one");
		break;
	case REQ_WAIT_FENCE:
		say(l, "a fenced %s waits for %u READs and atomics before it", next, v->tx.rd_out);
		break;
	case REQ_WAIT_RD_ATOMIC:
		say(l, "%s waits: %u READs and atomics are outstanding, %u may be (max_rd_atomic)", next, v->tx.rd_out, v->tx.max_rd);
		break;
	case REQ_WAIT_CWND:
		if (v->tx.cc_cwnd != 0 && v->tx.cc_cwnd < v->tx.loss_cwnd)
			say(l, "the congestion window is full: congestion control (%s) allows %u packets in flight", cc, v->tx.cwnd);
		else
			say(l, "the congestion window is full: %u packets are in flight, %u may be%s", in_flight, v->tx.cwnd,
			    v->tx.cwnd < TP_CWND_START ? " after losses" : "");
		break;
	case REQ_WAIT_PACE:
		say(l, "congestion control (%s) allows the next packet in %.1f us: %" PRIu64 " Mb/s", cc,
		    1000 * ms(v->now_ns, v->tx.pace_ns), v->tx.rate_bps / 1000000);
		break;
	case REQ_WAIT_MEMORY:
		say(l, "%s waits for memory of the program that can't be mapped: it is being read", next);
		break;
	case REQ_WAIT_INFLIGHT:
		if (v->inflight_blocks_left == 0)
			say(l, "its engine has no room for more WQEs in flight: the other QPs of its session have as much as it may have");
		else
			say(l, "%u WQEs are in flight, no more may be", v->tx.in_flight);
		break;
	case REQ_WAIT_DRAIN:
		say(l, "%s waits until everything before it is complete", next);
		break;
	case REQ_WAIT_MOVE:
		say(l, "it moves to another engine: it sends nothing new before all that it has sent is acknowledged");
		break;
	}
	if (v->share_wait == SHARE_WAIT_RATE && v->tx.active)
		say(l, "its user may send no more at the moment: rate_mbps or rate_packets of a section [share ...]");
	if (v->tx.next_op != UROCE_WR_OPS && !v->tx.active)
		say(l, "%u sends are posted, but their doorbell hasn't been seen", v->tx.posted);
}

static void
explain_requester(const struct qp_view *v, struct lines *l)
{
	if (v->state != UROCE_QPS_RTS && v->state != UROCE_QPS_SQD)
		return;
	if (connected(v))
		explain_answers(v, l);
	if (v->state == UROCE_QPS_RTS)
		explain_waiting(v, l);
	if (v->load_percent != UINT32_MAX && v->load_percent > BUSY_PERCENT && v->tx.posted > 0)
		say(l, "its engine is at %u %% load: sends wait for their turn", v->load_percent);
	if (v->type != UROCE_QPT_XRC_RECV && v->tx.in_flight == 0 && v->tx.posted == 0)
		say(l, "nothing to send: the program has posted no work");
}

static void
explain_responder(const struct qp_view *v, struct lines *l)
{
	bool none = v->rx.srq ? v->rx.srq_posted == 0 : v->rx.depth > 0 && v->rx.posted == 0;

	if (v->state < UROCE_QPS_RTR || v->state > UROCE_QPS_SQE || v->type == UROCE_QPT_XRC_SEND)
		return;
	if (v->rx.rnr_nak_sent && none)
		say(l, "the peer sends, but no receive is posted in the %s: RNR NAKs were sent to it since %.1f ms",
		    v->rx.srq ? "SRQ" : "RQ", ms(v->rx.nak_sent_ns, v->now_ns));
	else if (v->rx.rnr_nak_sent)
		say(l, "the peer was sent an RNR NAK %.1f ms ago; what it lacked is there now, it will send again",
		    ms(v->rx.nak_sent_ns, v->now_ns));
	else if (v->rx.seq_nak_sent)
		say(l, "PSN %u is missing since %.1f ms: the peer was asked for it; %u packets behind it are buffered", v->rx.epsn,
		    ms(v->rx.nak_sent_ns, v->now_ns), v->rx.reordered);
	else if (none)
		say(l, "no receive is posted in the %s", v->rx.srq ? "SRQ" : "RQ");
	if (v->rx.midway)
		say(l, "a message is being received: %u bytes so far, PSN %u is next", v->rx.message_bytes, v->rx.epsn);
	if (v->rx.res_pending > 0)
		say(l, "%u READs and atomics of the peer are being answered", v->rx.res_pending);
}

const char *
qp_explain(const struct qp_view *v, char *text)
{
	struct lines l = { .text = text };
	char own[INET6_ADDRSTRLEN];

	explain_state(v, &l);
	if (v->address_gone)
		say(&l, "its own address %s is no address of its port any more: what it sends is dropped", own_address(v, own));
	if (v->mtu_too_large)
		say(&l, "its path MTU is %u, but its port has MTU %u, which permits %u: packets that don't fit are dropped (tx_too_long)", v->mtu_bytes,
		    v->port_ip_mtu, v->port_mtu_bytes);
	if (v->send_cq.overrun || v->send_cq.unpolled == v->send_cq.size)
		explain_cq(&v->send_cq, "send", &l);
	explain_requester(v, &l);
	explain_responder(v, &l);
	if (!v->send_cq.overrun && v->send_cq.unpolled < v->send_cq.size)
		explain_cq(&v->send_cq, "send", &l);
	explain_cq(&v->recv_cq, "receive", &l);
	if (v->migrated)
		say(&l, "it has changed to its alternate path");
	else if (v->path_mig_state == TP_MIG_ARMED)
		say(&l, "an alternate path is armed");
	if (l.used == 0)
		say(&l, "nothing keeps it waiting");
	return text;
}

/* ---- Events ---- */
const char *
qp_event_text(const struct qp_event *e, char *text)
{
	struct qp_reason why = { .psn = e->psn, .detail = e->b, .why = e->a, .retries = e->c };
	char reason[DIAG_LINE_BYTES];
	size_t n = DIAG_LINE_BYTES;

	switch ((enum qp_event_kind)e->kind) {
	case QP_EV_STATE:
		snprintf(text, n, "to %s", qp_state_name((enum uroce_qp_state)e->a));
		break;
	case QP_EV_ERROR:
		snprintf(text, n, "error: %.*s", (int)(n - 16), qp_reason_text(&why, reason));
		break;
	case QP_EV_NAK_SENT:
		snprintf(text, n, "NAK sent: %s, PSN %u", nak_name(e->a), e->psn);
		break;
	case QP_EV_NAK:
		snprintf(text, n, "NAK received: %s, PSN %u", nak_name(e->a), e->psn);
		break;
	case QP_EV_RNR_SENT:
		snprintf(text, n, "RNR NAK sent: no receive posted, PSN %u, timer %.2f ms", e->psn,
			 (double)wire_rnr_timer_ns(e->a) / 1e6);
		break;
	case QP_EV_RNR:
		snprintf(text, n, "RNR NAK received: PSN %u, timer %.2f ms", e->psn, (double)wire_rnr_timer_ns(e->a) / 1e6);
		break;
	case QP_EV_TIMEOUT:
		snprintf(text, n, "no ACK in time: PSN %u, %u tries left", e->psn, e->a);
		break;
	case QP_EV_LOST_RESPONSE:
		snprintf(text, n, "a response was lost: PSN %u asked for again", e->psn);
		break;
	case QP_EV_PROBE:
		snprintf(text, n, "no answer for some round trips: PSN %u sent again early", e->psn);
		break;
	case QP_EV_STRANGER:
		snprintf(text, n, "the peer held a packet of another connection: all is sent again from PSN %u on", e->psn);
		break;
	case QP_EV_SACK:
		snprintf(text, n, "packets are missing at the peer from PSN %u on, %u now: they are sent again", e->psn, e->a);
		break;
	case QP_EV_CNP:
		snprintf(text, n, "CNP: congestion on the path");
		break;
	case QP_EV_MIGRATED:
		snprintf(text, n, "changed to the alternate path");
		break;
	case QP_EV_OVERRUN:
		snprintf(text, n, "its CQ overran");
		break;
	default:
		snprintf(text, n, "event %u", e->kind);
		break;
	}
	return text;
}
