/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP's record is checked: after this nothing in it can make an engine read or write where it may not, or break an invariant. Keys, addresses and
 * lengths of a program's memory need no check here: engines check them whenever they use them.
 */
#include "transport/cc/cc_priv.h"
#include "transport/core/srq_priv.h"
#include "transport/record/record_priv.h"
#include "transport/req/send_queue_priv.h"

#define MUST(cond, text) \
	do { \
		if (!(cond)) \
			return text; \
	} while (0)

/* The longest ACK timeout there is, 9.7.6.1.3 allows four times the attribute's value. */
#define TIMER_NS_MAX ((uint64_t)TP_TIMEOUT_UNIT_NS << 33)

static bool
psn_ok(uint32_t psn)
{
	return psn <= WIRE_PSN_MASK;
}

/* @return whether @p psn is in [@p from, @p to]. */
static bool
psn_in(uint32_t psn, uint32_t from, uint32_t to)
{
	return wire_psn_diff(psn, from) >= 0 && wire_psn_diff(to, psn) >= 0;
}

static bool
sends(const struct qp_record *r)
{
	return (qp_state_ops[r->state] & QP_SENDS) != 0;
}

static bool
is_rc(const struct qp_record *r)
{
	return r->type == UROCE_QPT_RC || r->type == UROCE_QPT_XRC_SEND || r->type == UROCE_QPT_XRC_RECV;
}

/* ---- What it is made of ---- */
static const char *
check_identity(const struct transport *tp, const struct qp_record *r, const struct qp_params *p)
{
	MUST(r->type == p->type, "type: the QP was of another type");
	MUST(r->state < UROCE_QPS_STATES, "state: there is no such QP state");
	MUST(r->state != UROCE_QPS_SQE || !is_rc(r), "state: a QP of this type is never in SQE");
	MUST(r->port < tp->c.nb_ports, "port: the transport has no such port");
	MUST(r->mtu_shift >= 8 && r->mtu_shift <= 12, "mtu_shift: must be 8 to 12, for 256 to 4096 bytes");
	if (p->type != UROCE_QPT_XRC_RECV) {
		MUST(r->pd == p->pd, "pd: the QP was of another PD");
		MUST(r->sq_order == p->sq.order, "sq_order: the SQ had another size");
	}
	MUST(r->rq_order == p->rq.order, "rq_order: the RQ had another size");
	MUST(memcmp(&r->attr.cap, &p->cap, sizeof(p->cap)) == 0, "attr.cap: the QP had other capabilities");
	return NULL;
}

static const char *
check_attributes(const struct qp_record *r)
{
	const struct uroce_qp_attr *a = &r->attr;

	MUST(a->path_mtu <= UROCE_MTU_4096, "attr.path_mtu: must be 0 to 5");
	MUST(a->path_mtu == 0 || a->path_mtu + 7 == r->mtu_shift, "attr.path_mtu: isn't what mtu_shift says");
	MUST(psn_ok(a->rq_psn), "attr.rq_psn: must have 24 bits");
	MUST(psn_ok(a->sq_psn), "attr.sq_psn: must have 24 bits");
	MUST(psn_ok(a->dest_qp_num), "attr.dest_qp_num: must have 24 bits");
	MUST(a->pkey_index < UROCE_MAX_PKEYS, "attr.pkey_index: is beyond the P_Key table");
	MUST(a->alt_pkey_index < UROCE_MAX_PKEYS, "attr.alt_pkey_index: is beyond the P_Key table");
	MUST(a->max_rd_atomic <= UROCE_MAX_RD_ATOMIC, "attr.max_rd_atomic: is more than the device has");
	MUST(a->max_dest_rd_atomic <= UROCE_MAX_RD_ATOMIC, "attr.max_dest_rd_atomic: is more than the device has");
	MUST(a->timeout <= 31, "attr.timeout: must be 0 to 31");
	MUST(a->alt_timeout <= 31, "attr.alt_timeout: must be 0 to 31");
	MUST(a->min_rnr_timer <= 31, "attr.min_rnr_timer: must be 0 to 31");
	MUST(a->retry_cnt <= 7, "attr.retry_cnt: must be 0 to 7");
	MUST(a->rnr_retry <= 7, "attr.rnr_retry: must be 0 to 7");
	return NULL;
}

static const char *
check_bools(const struct qp_record *r)
{
#define CHECK(name, member) MUST(r->name <= 1, #name ": must be 0 or 1");
	QP_RECORD_BOOL(CHECK)
#undef CHECK
	MUST(r->has_path <= 1, "has_path: must be 0 or 1");
	MUST(r->alt_loopback <= 1, "alt_loopback: must be 0 or 1");
	return NULL;
}

static const char *
check_path(const struct transport *tp, const struct qp_record *r)
{
	bool connected = (qp_state_ops[r->state] & QP_CONNECTED) != 0 && r->state != UROCE_QPS_ERR && r->type != UROCE_QPT_UD;

	MUST(r->has_path || !connected, "has_path: a QP in this state has a path");
	MUST(!r->has_path || r->type != UROCE_QPT_UD, "has_path: a UD QP has none");
	MUST(!r->has_path || record_addr_ok(&r->addr), "addr: ip_version must be 4 or 6, vlan 0 or 1, flow_label have 20 bits");
	MUST(!r->alt_loaded || record_addr_ok(&r->alt), "alt: ip_version must be 4 or 6, vlan 0 or 1, flow_label have 20 bits");
	MUST(!r->alt_loaded || r->alt_port < tp->c.nb_ports, "alt_port: the transport has no such port");
	MUST(!r->alt_loaded || (r->alt_port == r->port && r->alt_loopback == r->loopback), "alt_port: both paths use the same port");
	MUST(r->mig <= TP_MIG_ARMED, "mig: there is no such path migration state");
	MUST(r->mig == TP_MIG_MIGRATED || r->alt_loaded, "mig: without an alternate path it must be MIGRATED");
	return NULL;
}

/* ---- The requester ---- */
/* @return the PSNs that a WQE has. */
static uint32_t
psns_of(const struct qp_record *r, const struct qp_record_wqe *w)
{
	switch (tp_req_ops[w->opcode].kind) {
	case TP_REQ_LOCAL:
		return 0;
	case TP_REQ_ATOMIC:
		return 1;
	default:
		return wire_packets(w->length, r->mtu_shift);
	}
}

static const char *
check_wqe(const struct qp_record *r, const struct qp_record_wqe *w, const struct qp_params *p)
{
	MUST(psn_ok(w->first_psn) && psn_ok(w->last_psn), "wqes.first_psn: must have 24 bits");
	MUST(w->length <= UROCE_MAX_MSG_BYTES, "wqes.length: is longer than a message");
	if (w->status != 0)
		return NULL;
	MUST(w->opcode < UROCE_WR_OPS && tp_req_ops[w->opcode].kind != TP_REQ_NONE, "wqes.opcode: there is no such work request");
	MUST(!is_rc(r) || (tp_req_ops[w->opcode].services & 1 << (WIRE_RC >> 5)) != 0, "wqes.opcode: the QP's type has no such work request");
	MUST(w->nb_sge <= p->cap.max_send_sge, "wqes.nb_sge: is more than the QP has");
	MUST((w->flags & UROCE_SEND_INLINE) == 0 || (w->nb_sge == 0 && w->length <= p->cap.max_inline_data),
	     "wqes.length: is more inline data than the QP has");
	MUST(wire_psn_add(w->first_psn, psns_of(r, w) + WIRE_PSN_MASK) == w->last_psn, "wqes.last_psn: isn't what the length says");
	return NULL;
}

/* WQEs follow one another without a gap up to psn_next, and what is being sent belongs to the one that sq_cur names. */
static const char *
check_order(const struct qp_record *r, const struct qp_record_wqe *w, uint32_t n)
{
	uint32_t cur = r->sq_cur - r->sq_tail, end = r->psn_una;

	for (uint32_t i = 0; i < n; i++) {
		MUST(i == 0 || w[i].first_psn == end, "wqes.first_psn: there is a gap between two WQEs");
		end = wire_psn_add(w[i].last_psn, 1);
	}
	MUST(end == r->psn_next, "psn_next: must follow the last WQE");
	MUST(n == 0 || w[0].status != 0 || wire_psn_diff(r->psn_una, w[0].first_psn) >= 0, "psn_una: is before the oldest WQE");
	MUST(n == 0 || w[0].status != 0 || cur == 0 || wire_psn_diff(w[0].last_psn, r->psn_una) >= 0, "psn_una: is behind the oldest WQE");
	if (cur == n)
		MUST(r->psn_cur == r->psn_next, "psn_cur: everything is sent, so it must be psn_next");
	else
		MUST(r->psn_cur == w[cur].first_psn || psn_in(r->psn_cur, w[cur].first_psn, w[cur].last_psn), "psn_cur: isn't in the WQE being sent");
	return NULL;
}

static const char *
check_requester(struct transport *tp, const struct qp_record *r, const struct qp_params *p, struct qp_record_parts *parts)
{
	uint32_t n = r->sq_counter - r->sq_tail;
	const char *wrong;

	MUST(n <= TP_INFLIGHT_MAX && n <= UINT32_C(1) << r->sq_order, "sq_tail: more WQEs are in flight than the SQ has");
	MUST(n == 0 || p->type != UROCE_QPT_XRC_RECV, "sq_tail: a QP of this type has no SQ");
	MUST(r->nb_wqes == n || (r->nb_wqes == 1 && n > 1), "nb_wqes: must be sq_counter - sq_tail, or 1");
	MUST(psn_ok(r->psn_una) && psn_ok(r->psn_cur) && psn_ok(r->psn_max) && psn_ok(r->psn_next), "psn_una: must have 24 bits");
	MUST(r->sack_nonce <= 0xffffff, "sack_nonce: must have 24 bits");
	MUST(r->sack_offers <= TP_SACK_OFFERS, "sack_offers: are more than a peer gets");
	MUST(r->rd_out <= UROCE_MAX_RD_ATOMIC, "rd_out: is more than may be outstanding");
	MUST(r->retry_left <= r->attr.retry_cnt, "retry_left: is more than attr.retry_cnt");
	MUST(r->rnr_left <= r->attr.rnr_retry, "rnr_left: is more than attr.rnr_retry");
	MUST(r->timer_ns == UINT64_MAX || r->timer_ns <= TIMER_NS_MAX, "timer_ns: is longer than any timeout");
	MUST(r->giveup_ns == UINT64_MAX || r->giveup_ns <= TIMER_NS_MAX, "giveup_ns: is longer than any timeout");
	MUST(r->cnp_ns <= CC_CNP_INTERVAL_NS, "cnp_ns: is longer than the interval between two CNPs");
	MUST(!r->rnr_wait || r->timer_ns != UINT64_MAX, "rnr_wait: its timer doesn't run");
	if (r->nb_wqes != n && (wrong = qp_record_fetch(tp, r, p, parts)) != NULL)
		return wrong;
	for (uint32_t i = 0; i < n; i++)
		if ((wrong = check_wqe(r, &parts->wqes[i], p)) != NULL)
			return wrong;
	if (!sends(r))
		return NULL;
	MUST(r->sq_cur - r->sq_tail <= n, "sq_cur: must be between sq_tail and sq_counter");
	MUST(wire_psn_diff(r->psn_cur, r->psn_una) >= 0, "psn_cur: is before psn_una");
	MUST(wire_psn_diff(r->psn_max, r->psn_cur) >= 0, "psn_max: is before psn_cur");
	MUST(!is_rc(r) || wire_psn_diff(r->psn_max, r->psn_una) <= TP_CWND_MAX, "psn_max: more is in flight than a window lets out");
	MUST(wire_psn_diff(r->psn_next, r->psn_max) >= 0, "psn_next: is before psn_max");
	return check_order(r, parts->wqes, n);
}

/* ---- The receiver ---- */
static const char *
check_receive(const struct transport *tp, const struct qp_record *r, const struct qp_params *p)
{
	const struct srq *srq = r->srqn != 0 ? srq_find(tp, r->srqn) : p->srq;
	bool own = p->rq.base != NULL && srq == NULL;

	MUST(r->srqn == 0 || (p->type == UROCE_QPT_XRC_RECV && srq != NULL && srq->xrcd == p->xrcd), "srqn: the XRC domain has no such SRQ");
	if (!r->recv_valid) {
		MUST(r->nb_sges == 0, "nb_sges: there is no receive that they belong to");
		return NULL;
	}
	MUST(own || srq != NULL, "recv_valid: the QP has no RQ and no SRQ");
	MUST(r->recv_nb_sge <= (own ? p->cap.max_recv_sge : srq->max_sge) && r->recv_nb_sge <= UROCE_MAX_SGE,
	     "recv_nb_sge: is more than the queue has");
	MUST(r->recv_sge_cur <= r->recv_nb_sge, "recv_sge_cur: is beyond the receive's SGEs");
	MUST(r->recv_room <= UROCE_MAX_MSG_BYTES, "recv_room: is more than a message");
	MUST(r->nb_sges == (own ? 0 : r->recv_nb_sge), "nb_sges: must be recv_nb_sge with an SRQ, else 0");
	MUST(!own || r->recv_counter == (uint16_t)(r->rq_counter - 1), "recv_counter: isn't the last receive taken from the RQ");
	return NULL;
}

static const char *
check_receiver(const struct qp_record *r, const struct qp_params *p)
{
	MUST(psn_ok(r->epsn), "epsn: must have 24 bits");
	MUST(psn_ok(r->msn), "msn: must have 24 bits");
	MUST(psn_ok(r->psn_dropped), "psn_dropped: must have 24 bits");
	MUST(r->peer_nonce <= 0xffffff, "peer_nonce: must have 24 bits");
	MUST(r->msg <= TP_RMSG_DROP, "msg: there is no such kind of message");
	MUST(r->nak_state <= TP_NAK_RNR_SENT, "nak_state: there is no such state");
	MUST(r->left <= UROCE_MAX_MSG_BYTES, "left: is more than a message");
	MUST(p->rq.base == NULL || (int32_t)(r->rq_seen - r->rq_counter) <= (int32_t)(UINT32_C(1) << r->rq_order),
	     "rq_seen: is more than the RQ has");
	return NULL;
}

/* ---- The responder ---- */
static const char *
check_read(const struct qp_record *r, const struct qp_record_read *d, const struct qp_record_res *s)
{
	uint32_t packets = wire_packets((uint32_t)(s->value >> 32), r->mtu_shift), last = wire_psn_add(s->psn, packets - 1);

	MUST(psn_ok(d->cur) && psn_in(d->cur, s->psn, wire_psn_add(last, 1)), "reads.cur: isn't in the READ");
	MUST(d->again != 0 || wire_psn_diff(d->cur, last) <= 0, "reads.cur: nothing of the READ is left to be sent");
	MUST(packets >= TP_READ_CHUNK_PACKETS || d->again >> packets == 0, "reads.again: is beyond the READ");
	MUST(d->begins <= 1 && d->run <= 1, "reads.begins: must be 0 or 1");
	return NULL;
}

static const char *
check_results(const struct qp_record *r, const struct qp_record_parts *parts)
{
	const char *wrong;
	uint32_t reads = 0;

	for (uint32_t i = 0; i < r->nb_res; i++) {
		const struct qp_record_res *s = &parts->res[i];
		bool pending = (r->pending >> i & 1) != 0;

		MUST(psn_ok(s->psn), "res.psn: must have 24 bits");
		MUST(s->used <= 1 && s->atomic <= 1 && s->replay <= 1 && s->placed <= 1, "res.used: must be 0 or 1");
		MUST(!pending || s->used, "pending: names a result that isn't there");
		MUST(s->atomic || s->value >> 32 <= UROCE_MAX_MSG_BYTES, "res.value: is longer than a message");
		if (!pending || s->atomic || s->placed)
			continue;
		MUST(reads < r->nb_reads && parts->reads[reads].nth == i, "reads.nth: isn't the READ that is being answered");
		if ((wrong = check_read(r, &parts->reads[reads++], s)) != NULL)
			return wrong;
	}
	MUST(reads == r->nb_reads, "nb_reads: must be the READs that are being answered");
	return NULL;
}

static const char *
check_responder(const struct qp_record *r)
{
	MUST(r->res_max <= UROCE_MAX_RD_ATOMIC && r->nb_res == r->res_max, "res_max: is more than the device has, or not nb_res");
	MUST(r->res_head == 0 || r->res_head < r->res_max, "res_head: is beyond res_max");
	MUST(r->res_limit <= r->res_max, "res_limit: is beyond res_max");
	MUST(r->res_max == UROCE_MAX_RD_ATOMIC || r->pending >> r->res_max == 0, "pending: is beyond res_max");
	MUST(r->reply <= TP_REPLY_FATAL, "reply: there is no such reply");
	MUST(r->reply == TP_REPLY_NONE || r->has_path, "reply: there is no path to send it");
	MUST(r->pending == 0 || r->has_path, "pending: there is no path to send responses");
	MUST(psn_ok(r->reply_psn), "reply_psn: must have 24 bits");
	MUST(psn_ok(r->stuck_psn) && psn_ok(r->why_psn), "stuck_psn: must have 24 bits");
	MUST(r->why < QP_WHYS, "why: there is no such reason");
	return NULL;
}

/* ---- What was done in a turn that didn't count ---- */
static const char *
check_kept(const struct transport *tp, const struct qp_record *r, const struct qp_record_parts *parts)
{
	MUST((r->kept == 0 && r->nb_kept == 0) || tp->journal != NULL, "kept: the transport keeps no journal");
	MUST(r->kept <= (QP_KEPT_PLACED | QP_KEPT_LOCAL), "kept: has unknown bits");
	MUST(((r->kept & QP_KEPT_PLACED) == 0 && r->nb_kept == 0) || is_rc(r), "kept: only packets of RC come again");
	MUST(psn_ok(r->placed_to), "placed_to: must have 24 bits");
	for (uint32_t i = 0; i < r->nb_kept; i++)
		MUST(psn_ok(parts->kept[i].psn), "kept.psn: must have 24 bits");
	return NULL;
}

/* ---- All of it ---- */
static const char *
find_parts(const struct qp_record *r, struct qp_record_parts *parts)
{
	uint64_t bytes;

	MUST(r->nb_wqes <= TP_INFLIGHT_MAX, "nb_wqes: is more than a QP has in flight");
	MUST(r->nb_res <= UROCE_MAX_RD_ATOMIC, "nb_res: is more than the device has");
	MUST(r->nb_reads <= r->nb_res, "nb_reads: is more than nb_res");
	MUST(r->nb_sges <= UROCE_MAX_SGE, "nb_sges: is more than a receive has");
	MUST(r->nb_kept <= UROCE_MAX_RD_ATOMIC, "nb_kept: is more than the device has");
	bytes = sizeof(*r) + r->nb_wqes * sizeof(*parts->wqes) + r->nb_res * sizeof(*parts->res) + r->nb_reads * sizeof(*parts->reads) +
		r->nb_sges * sizeof(*parts->sges) + r->nb_kept * sizeof(*parts->kept);
	MUST(bytes == r->head.size, "size: isn't what the numbers of parts say");
	parts->wqes = (const void *)(r + 1);
	parts->nb_wqes = r->nb_wqes;
	parts->res = (const void *)(parts->wqes + r->nb_wqes);
	parts->reads = (const void *)(parts->res + r->nb_res);
	parts->sges = (const void *)(parts->reads + r->nb_reads);
	parts->kept = (const void *)(parts->sges + r->nb_sges);
	return NULL;
}

const char *
qp_record_check(struct transport *tp, const struct qp_record *r, uint32_t room, const struct qp_params *p, struct qp_record_parts *parts)
{
	const char *wrong = record_check(r, room, RECORD_QP, QP_RECORD_VERSION, sizeof(*r));

	if (wrong != NULL || (wrong = find_parts(r, parts)) != NULL)
		return wrong;
	if ((wrong = check_identity(tp, r, p)) != NULL || (wrong = check_attributes(r)) != NULL || (wrong = check_bools(r)) != NULL ||
	    (wrong = check_path(tp, r)) != NULL || (wrong = check_requester(tp, r, p, parts)) != NULL ||
	    (wrong = check_kept(tp, r, parts)) != NULL || (wrong = check_receive(tp, r, p)) != NULL || (wrong = check_receiver(r, p)) != NULL || (wrong = check_responder(r)) != NULL)
		return wrong;
	return check_results(r, parts);
}
