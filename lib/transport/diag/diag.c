/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots of QPs and CQs.
 */
#include "transport/cc/cc_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/share_priv.h"
#include "transport/diag/diag.h"
#include "transport/req/loss_priv.h"
#include "transport/req/scoreboard_priv.h"

static struct qp_reason
reason_of(const struct qp *qp)
{
	return (struct qp_reason){ .ns = qp->diag.why_ns, .psn = qp->diag.why_psn, .detail = qp->diag.why_detail, .why = qp->diag.why,
				   .retries = diag_retries(qp) };
}

void
cq_look(const struct cq *cq, struct cq_view *v)
{
	uint64_t prod = atomic_load_explicit(&cq->prod, memory_order_acquire);
	uint32_t cons = atomic_load_explicit(&cq->shared->cons, memory_order_relaxed);
	uint32_t size = UINT32_C(1) << cq->rings[prod & 1].ring.order;

	*v = (struct cq_view){
		.size = size,
		/* The client can write any value to its counter. */
		.unpolled = RTE_MIN((uint32_t)(prod >> 1) - cons, size),
		.users = cq_users(cq),
		.moderation = atomic_load_explicit(&cq->moderation, memory_order_relaxed),
		.armed = (uint8_t)ring_arm(atomic_load_explicit(&cq->shared->arm, memory_order_relaxed)),
		.overrun = atomic_load_explicit(&cq->overrun, memory_order_relaxed),
		.channel = cq->channel >= 0,
	};
}

/* WQEs are posted in order: all before a posted one are posted too, so a binary search finds the last. */
static uint32_t
count_posted(const struct ring *r, bool (*ready)(const struct ring *r, uint32_t counter))
{
	uint32_t known = 0, end = r->base != NULL ? UINT32_C(1) << r->order : 0;

	while (known < end) {
		uint32_t mid = known + (end - known) / 2;

		if (ready(r, r->counter + mid))
			known = mid + 1;
		else
			end = mid;
	}
	return known;
}

/* @return 4 or 6, or 0 if the QP has no peer. */
static uint8_t
ip_version_of(const struct qp *qp)
{
	if (qp->service == WIRE_UD || qp->path.dest_qpn == 0)
		return 0;
	return qp->path.tmpl.ip_version;
}

static void
put_dip(const struct qp *qp, uint8_t dip[16])
{
	const uint8_t *l3 = qp->path.tmpl.hdr + qp->path.tmpl.l3_off;

	if (qp->path.tmpl.ip_version == 4)
		memcpy(dip, l3 + 16, 4);
	else
		memcpy(dip, l3 + 24, 16);
}

void
qp_failure(const struct qp *qp, struct qp_failure *f)
{
	*f = (struct qp_failure){ .reason = reason_of(qp), .qpn = qp->qpn, .dest_qpn = qp->path.dest_qpn, .type = qp->type,
				  .state = qp->state, .ip_version = ip_version_of(qp), .owner = qp->owner };
	if (f->ip_version != 0)
		put_dip(qp, f->dip);
}

#define READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

void
qp_glance(const struct qp *qp, struct qp_glance *g)
{
	*g = (struct qp_glance){
		.qpn = qp->qpn,
		.dest_qpn = READ(qp->path.dest_qpn),
		.type = qp->type,
		.state = READ(qp->state),
		.wait = READ(qp->req.wait),
		.cwnd = READ(qp->loss.cwnd),
		.srtt_ns = READ(qp->loss.srtt_ns),
		.sends = READ(qp->req.sq_tail),
		.receives = READ(qp->rcv.msn),
		.tx_bytes = READ(qp->sched.tx_bytes),
		.tx_packets = READ(qp->sched.tx_packets),
		.rx_bytes = READ(qp->rcv.rx_bytes),
		.losses = READ(qp->diag.losses),
		.retransmitted = READ(qp->diag.retransmitted),
	};
	if (qp->service == WIRE_RC)
		g->packets_in_flight = (uint32_t)RTE_MAX(wire_psn_diff(READ(qp->req.psn_max), READ(qp->req.psn_una)), 0);
	g->ip_version = ip_version_of(qp);
	if (g->ip_version != 0)
		put_dip(qp, g->dip);
}

uint64_t
qp_cost_since(const struct qp *qp, struct qp_costs *seen)
{
	const struct qp_costs now = {
		.bytes = READ(qp->sched.tx_bytes) + READ(qp->sched.tx_packets) * TP_COST_PACKET + READ(qp->rcv.rx_bytes),
		.sends = READ(qp->req.sq_tail),
		.receives = READ(qp->rcv.msn),
	};
	uint64_t wqes = (uint32_t)(now.sends - seen->sends) + (uint64_t)((now.receives - seen->receives) & WIRE_PSN_MASK);
	uint64_t cost = now.bytes - seen->bytes + wqes * TP_COST_WQE;

	*seen = now;
	return cost;
}

static void
look_at_path(const struct qp *qp, struct qp_view *v)
{
	const uint8_t *l3 = qp->path.tmpl.hdr + qp->path.tmpl.l3_off;

	v->path_mig_state = qp->path.mig;
	v->migrated = qp->path.migrated;
	v->ip_version = ip_version_of(qp);
	if (v->ip_version == 0)
		return;
	v->loopback = qp->path.loopback;
	v->address_gone = (qp->path.detour & DETOUR_GONE) != 0;
	v->mtu_too_large = (qp->path.detour & DETOUR_MTU) != 0;
	memcpy(v->dmac, qp->path.tmpl.hdr, sizeof(v->dmac));
	memcpy(v->sip, l3 + (v->ip_version == 4 ? 12 : 8), v->ip_version == 4 ? 4 : 16);
	put_dip(qp, v->dip);
	v->sport = (uint16_t)(qp->path.tmpl.hdr[qp->path.tmpl.l4_off] << 8 | qp->path.tmpl.hdr[qp->path.tmpl.l4_off + 1]);
}

/* The oldest incomplete WQE, and the one to be sent next. */
static void
look_at_wqes(const struct qp *qp, struct qp_view *v)
{
	const struct tp_swqe *w;
	union ring_sq_ctl ctl;

	v->tx.head_op = v->tx.next_op = UROCE_WR_OPS;
	if (qp->req.sq_tail != qp->req.sq.counter) {
		w = &qp->req.inflight[qp->req.sq_tail & qp->req.inflight_mask];
		v->tx.head_op = w->opcode;
		v->tx.head_wr_id = w->wr_id;
		v->tx.head_bytes = w->length;
	}
	if (qp->req.sq_cur != qp->req.sq.counter) {
		w = &qp->req.inflight[qp->req.sq_cur & qp->req.inflight_mask];
		v->tx.next_op = w->opcode;
	} else if (v->tx.posted > 0) {
		ctl.word = atomic_load_explicit(&((struct ring_sq_wqe *)ring_slot(&qp->req.sq, qp->req.sq.counter))->ctl,
						memory_order_relaxed);
		v->tx.next_op = RTE_MIN(ctl.opcode, (uint8_t)UROCE_WR_OPS);
	}
}

static void
look_at_requester(const struct qp *qp, struct qp_view *v)
{
	v->tx.depth = qp->type == UROCE_QPT_XRC_RECV ? 0 : UINT32_C(1) << qp->req.sq.order;
	v->tx.posted = count_posted(&qp->req.sq, ring_sq_ready);
	v->tx.in_flight = qp->req.sq.counter - qp->req.sq_tail;
	v->tx.psn_una = qp->req.psn_una;
	v->tx.psn_cur = qp->req.psn_cur;
	v->tx.psn_max = qp->req.psn_max;
	v->tx.psn_next = qp->req.psn_next;
	if (qp->service == WIRE_RC)
		v->tx.packets_in_flight = (uint32_t)RTE_MAX(wire_psn_diff(qp->req.psn_max, qp->req.psn_una), 0);
	v->tx.cwnd = qp->loss.cwnd;
	v->tx.loss_cwnd = qp->loss.loss_cwnd;
	v->tx.cc = TP_CC_NONE;
	if (qp->req.cc != NULL) {
		v->tx.cc = qp->req.cc->algorithm;
		v->tx.cc_cwnd = qp->req.cc->cwnd;
		v->tx.rate_bps = (uint64_t)qp->req.cc->rate_bps;
		v->tx.pace_ns = qp->req.cc->next_ns;
	}
	v->tx.max_rd = qp->req.max_rd;
	v->tx.rd_out = qp->req.rd_out;
	v->tx.retry_cnt = qp->loss.retry_cnt;
	v->tx.retry_left = qp->loss.retry_left;
	v->tx.rnr_retry = qp->loss.rnr_retry;
	v->tx.rnr_left = qp->loss.rnr_left;
	v->tx.timeout = qp->loss.timeout;
	v->tx.probes = qp->loss.probes;
	v->tx.rnr_wait = qp->loss.rnr_wait;
	v->tx.deadline_ns = qp->loss.deadline_ns != 0 && !qp->loss.rnr_wait ? qp->loss.giveup_ns : qp->loss.deadline_ns;
	if (qp->diag.stuck_ns != 0 && qp->diag.stuck_psn == qp->req.psn_una)
		v->tx.since_ns = qp->diag.stuck_ns;
	else if (qp->loss.deadline_ns != 0 && !qp->loss.rnr_wait)
		v->tx.since_ns = qp->loss.giveup_ns - loss_ack_timeout_ns(qp);
	v->tx.credits = qp->req.credits;
	v->tx.out_of_credits = qp->req.out_of_credits;
	v->tx.credits_left = (int32_t)(qp->req.recvs_limit - qp->req.recvs_done);
	v->tx.wait = qp->req.wait;
	v->tx.active = qp->sched.on_active;
	v->tx.watched = qp->sched.watched;
	v->tx.selective = qp->req.sack_peer;
	v->tx.lost = qp->req.scoreboard != NULL ? qp->req.scoreboard->nb_lost : 0;
	v->tx.srtt_ns = qp->loss.srtt_ns;
	v->tx.rtt_min_ns = qp->loss.rtt_min_ns;
	look_at_wqes(qp, v);
}

static void
look_at_responder(const struct qp *qp, struct qp_view *v)
{
	v->rx.srq = qp->rcv.srq != NULL;
	if (qp->rcv.rq.base != NULL) {
		v->rx.depth = UINT32_C(1) << qp->rcv.rq.order;
		v->rx.posted = count_posted(&qp->rcv.rq, ring_rq_ready);
	}
	if (qp->rcv.srq != NULL && !qp->rcv.srq->gone) {
		v->rx.srq_depth = UINT32_C(1) << qp->rcv.srq->ring.order;
		v->rx.srq_posted = count_posted(&qp->rcv.srq->ring, ring_rq_ready);
	}
	v->rx.epsn = qp->rcv.epsn;
	v->rx.msn = qp->rcv.msn;
	v->rx.midway = qp->rcv.msg != TP_RMSG_NONE;
	v->rx.message_bytes = v->rx.midway ? qp->rcv.length : 0;
	v->rx.rnr_nak_sent = qp->rcv.nak_state == TP_NAK_RNR_SENT;
	v->rx.seq_nak_sent = qp->rcv.nak_state == TP_NAK_SEQ_SENT;
	v->rx.nak_sent_ns = qp->diag.nak_ns;
	v->rx.min_rnr_timer = qp->rcv.min_rnr_timer;
	v->rx.max_dest_rd = qp->resp.res_limit;
	v->rx.res_pending = (uint32_t)__builtin_popcountll(qp->resp.pending);
	v->rx.reordered = qp->rcv.reorder != NULL ? qp->rcv.reorder->nb : 0;
}

void
qp_look(const struct qp *qp, uint64_t now_ns, struct qp_view *v)
{
	const struct transport *tp = qp->tp;
	struct share_view share;

	*v = (struct qp_view){
		.now_ns = now_ns,
		.qpn = qp->qpn,
		.dest_qpn = qp->path.dest_qpn,
		.pd = qp->pd,
		.engine = tp->c.engine,
		.type = qp->type,
		.state = qp->state,
		.port = qp->path.port,
		.pkey = qp->path.pkey,
		.mtu_bytes = UINT32_C(1) << qp->path.mtu_shift,
		.port_ip_mtu = tp->c.ports[qp->path.port].ip_mtu,
		.port_mtu_bytes = UINT32_C(1) << tp->c.ports[qp->path.port].mtu_shift & ~UINT32_C(1),
		.qkey = qp->rcv.qkey,
		.reason = reason_of(qp),
		.inflight_blocks_left = share_may_have(tp, qp->share, TP_POOL_INFLIGHT, &tp->inflight_blocks) ? pool_left(&tp->inflight_blocks) : 0,
		.no_tx_room = (qp->path.loopback ? tp->loop.n : tp->tx[qp->path.port].n) >= tp->c.limits.tx_packets,
		.load_percent = UINT32_MAX,
	};
	share_look(tp, qp->share, &share);
	v->share_wait = (uint8_t)share.wait;
	look_at_path(qp, v);
	look_at_requester(qp, v);
	look_at_responder(qp, v);
	if (qp->send_cq != NULL)
		cq_look(qp->send_cq, &v->send_cq);
	/* An XRC target's CQ is that of the SRQ of its last message, which may have been destroyed. */
	if (qp->recv_cq != NULL && qp->type != UROCE_QPT_XRC_RECV)
		cq_look(qp->recv_cq, &v->recv_cq);
}

void
transport_depths(const struct transport *tp, struct tp_depths *d)
{
	*d = (struct tp_depths){
		.qps = tp->nb_qps,
		.active_qps = tp->nb_active,
		.inflight_blocks = tp->c.pools.inflight_blocks - pool_left(&tp->inflight_blocks),
		.inflight_blocks_max = tp->c.pools.inflight_blocks,
		.reordered = tp->c.pools.reorder_pkts - pool_left(&tp->reorder_pkts),
		.reordered_max = tp->c.pools.reorder_pkts,
		.tx_waiting = tp->loop.n,
	};
	for (uint16_t i = 0; i < tp->c.nb_ports; i++)
		d->tx_waiting += tp->tx[i].n;
}

const char *
tp_drop_reason(const struct tp_counters *before, const struct tp_counters *after)
{
	static const struct {
		const char *name;
		size_t offset;
	} drops[] = {
#define D(field) { #field, offsetof(struct tp_counters, field) }
		D(rx_truncated), D(rx_bad_ip), D(rx_bad_udp_sum), D(rx_bad_opcode), D(rx_bad_tver), D(rx_bad_length),
		D(rx_icrc_encapsulated), D(rx_multi_segment), D(rx_unknown_qp), D(rx_wrong_service), D(rx_wrong_state),
		D(rx_bad_pkey), D(rx_bad_qkey), D(rx_bad_address), D(rx_bad_vlan), D(rx_bad_migreq), D(rx_ud_no_wqe), D(rx_uc_no_wqe),
		D(rx_uc_gap), D(rx_uc_rest), D(rx_ud_length), D(rx_ghost_ack), D(rx_bad_response), D(rx_response_ignored),
		D(rx_duplicate_dropped), D(rx_nak_ignored), D(rx_mad_length), D(rx_mcast_no_group), D(rx_sack_ignored), D(rx_sack_stranger),
		D(rx_not_held), D(rp_cnp_ignored), D(resp_remote_access_errors), D(resp_invalid_requests), D(resp_op_errors),
#undef D
	};
	const char *b = (const char *)before, *a = (const char *)after;

	for (uint32_t i = 0; i < RTE_DIM(drops); i++)
		if (*(const uint64_t *)(a + drops[i].offset) != *(const uint64_t *)(b + drops[i].offset))
			return drops[i].name;
	/* A packet beyond a gap is dropped unless the reorder buffer takes it. */
	if (after->out_of_sequence != before->out_of_sequence && after->rx_held == before->rx_held)
		return "out_of_sequence";
	return NULL;
}
