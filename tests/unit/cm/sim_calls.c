/* SPDX-License-Identifier: BSD-3-Clause */
/* What owners call: any REQ, REP, MRA, REJ there may be, and LAPs that uroce never sends. */
#include <errno.h>
#include <string.h>

#include "sim.h"

enum { HASTY_CODE = 5 }; /* 131 us: repetitions are at least 16 ms apart */

static uint32_t
qpn_take(struct host *h)
{
	for (unsigned int i = 0; i < QPNS; i++) {
		h->next_qpn = (h->next_qpn + 1) % QPNS;
		if (!h->qpn_used[h->next_qpn]) {
			h->qpn_used[h->next_qpn] = true;
			return h->next_qpn + FIRST_QPN;
		}
	}
	failed(h->w, "host %u: no QPN is free", h->number);
}

/* ---- Calls ---- */
/* Anything that a REQ may say. */
static void
draw_request(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];
	struct host *h = host_of(w, p, ACTIVE);
	struct rng *r = &w->data_rng;
	uint32_t tag[2] = { idx, p->serial }, n, need = sizeof(tag);
	bool tcp = rng_one_in(r, 3);
	uint8_t *at = p->req_data;

	n = some_data(w, p->req_data, sizeof(p->req_data)).len_bytes;
	if (tcp) {
		ip_hdr(w, h->number, at);
		at += CM_IP_HDR_BYTES;
		need += CM_IP_HDR_BYTES;
	}
	memcpy(at, tag, sizeof(tag));
	p->cp = (struct cm_connect_param){
		.av = host_av(w, h->number),
		.service_id = tcp ? TCP_SERVICE : SERVICE,
		.ca_guid = host_guid(h->number),
		.qpn = qpn_take(h),
		.qkey = (uint32_t)rng_next(r),
		.starting_psn = (uint32_t)rng_below(r, 1 << 24),
		.transport = (enum cm_transport)(uint32_t[]){ CM_TRANSPORT_RC, CM_TRANSPORT_RC, CM_TRANSPORT_UC, CM_TRANSPORT_EXTENDED }[rng_below(r, 4)],
		.responder_resources = (uint8_t)rng_next(r),
		.initiator_depth = (uint8_t)rng_next(r),
		.retry_count = (uint8_t)rng_below(r, 8),
		.rnr_retry_count = (uint8_t)rng_below(r, 8),
		.path_mtu = (uint8_t)rng_between(r, 1, 5),
		.packet_life = (uint8_t)rng_between(r, 11, MAX_CODE - 1),
		.ack_timeout = (uint8_t)(rng_one_in(r, 2) ? 0 : rng_between(r, 12, MAX_CODE + 1)),
		.remote_response_timeout = 16, /* 268 ms */
		.local_response_timeout = (uint8_t)rng_between(r, 15, 16),
		.max_cm_retries = 15,
		.packet_rate = (uint8_t)rng_below(r, 64),
		.flow_control = rng_one_in(r, 2),
		.srq = rng_one_in(r, 2),
		.private_data = { p->req_data, n < need ? need : n },
		.owner = owner_of_pair(idx, ACTIVE),
	};
	p->cp.av.pkey = (uint16_t)rng_next(r);
	p->cp.av.flow_label = (uint32_t)rng_below(r, 1 << 20);
	p->cp.av.traffic_class = (uint8_t)rng_next(r);
	p->cp.av.hop_limit = (uint8_t)rng_next(r);
	p->cp.av.port = (uint16_t)rng_below(r, 2);
	if (!rng_one_in(r, 24))
		return;
	/* In a hurry: nobody answers so fast. */
	p->cut = true;
	p->cp.max_cm_retries = (uint8_t)rng_below(r, 4);
	p->cp.remote_response_timeout = p->cp.local_response_timeout = HASTY_CODE;
	p->cp.packet_life = 0;
	p->cp.ack_timeout = 1;
}

static void
do_connect(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];
	struct host *h = host_of(w, p, ACTIVE);
	const struct cm_connect_param *cp = &p->cp;
	struct doing d;
	struct cm_msg m;

	draw_request(w, idx);
	p->qpn[ACTIVE] = cp->qpn;
	p->end[ACTIVE].av = cp->av;
	watch_times(p, ACTIVE);
	watch_call(&d, w, p, ACTIVE);
	m = watch_msg(h, p, ACTIVE, CM_ATTR_REQ, 0);
	m.req.service_id = cp->service_id;
	m.req.ca_guid = cp->ca_guid;
	m.req.qkey = cp->qkey;
	m.req.qpn = cp->qpn;
	m.req.initiator_depth = cp->initiator_depth;
	m.req.remote_response_timeout = cp->remote_response_timeout;
	m.req.transport = (uint8_t)cp->transport;
	m.req.flow_control = cp->flow_control;
	m.req.starting_psn = cp->starting_psn;
	m.req.local_response_timeout = cp->local_response_timeout;
	m.req.pkey = cp->av.pkey;
	m.req.path_mtu = cp->path_mtu;
	m.req.max_cm_retries = cp->max_cm_retries;
	/* An XRC initiator answers no requests, and its target sends none. */
	if (cp->transport == CM_TRANSPORT_EXTENDED) {
		m.req.ext_transport = 1;
	} else {
		m.req.responder_resources = cp->responder_resources;
		m.req.retry_count = cp->retry_count;
		m.req.rnr_retry_count = cp->rnr_retry_count;
		m.req.srq = cp->srq;
	}
	m.req.primary = (struct cm_path){
		.local_gid = cp->av.local_gid, .remote_gid = cp->av.remote_gid, .flow_label = cp->av.flow_label, .local_lid = 0xffff,
		.remote_lid = 0xffff, .packet_rate = cp->packet_rate, .traffic_class = cp->av.traffic_class, .hop_limit = cp->av.hop_limit,
		.ack_timeout = cp->ack_timeout != 0 ? cp->ack_timeout : (uint8_t)(cp->packet_life + 1),
	};
	/* What is behind the data that were given is zero. */
	memcpy(m.req.private_data, p->req_data, cp->private_data.len_bytes);
	watch_expect(&d, &m);
	p->conn[ACTIVE] = cm_connect(h->cm, cp, w->now);
	if (p->conn[ACTIVE] == NULL)
		failed(w, "pair %u: connect failed", idx);
	watch_end(h, &d);
	if (p->end[ACTIVE].id != cm_conn_local_id(p->conn[ACTIVE]))
		failed(w, "pair %u: its ID isn't the one in the REQ", idx);
	must_be(w, p, ACTIVE, CM_REQ_SENT);
	if (rng_one_in(&w->rng, 12))
		plan_for(w, 400 * MS, DIE, idx, (unsigned int)rng_below(&w->rng, 2));
}

static void
do_accept(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];
	struct host *h = host_of(w, p, PASSIVE);
	struct cm_accept_param *ap = &p->ap;
	struct rng *r = &w->data_rng;
	bool xrc = p->cp.transport == CM_TRANSPORT_EXTENDED;
	struct doing d;
	struct cm_msg m;

	*ap = (struct cm_accept_param){
		.ca_guid = host_guid(h->number), .qpn = qpn_take(h), .qkey = (uint32_t)rng_next(r), .starting_psn = (uint32_t)rng_below(r, 1 << 24),
		.responder_resources = (uint8_t)rng_next(r), .initiator_depth = (uint8_t)rng_next(r), .target_ack_delay = (uint8_t)rng_below(r, 32),
		.rnr_retry_count = (uint8_t)rng_below(r, 8), .flow_control = rng_one_in(r, 2), .srq = rng_one_in(r, 2),
		.private_data = some_data(w, p->rep_data, sizeof(p->rep_data)),
	};
	p->qpn[PASSIVE] = ap->qpn;
	watch_call(&d, w, p, PASSIVE);
	m = watch_msg(h, p, PASSIVE, CM_ATTR_REP, p->end[PASSIVE].tid);
	m.rep.qkey = ap->qkey;
	m.rep.starting_psn = ap->starting_psn;
	m.rep.responder_resources = ap->responder_resources;
	if (xrc) {
		m.rep.local_eecn = ap->qpn;
		m.rep.srq = 1;
	} else {
		m.rep.qpn = ap->qpn;
		m.rep.initiator_depth = ap->initiator_depth;
		m.rep.srq = ap->srq;
	}
	m.rep.target_ack_delay = ap->target_ack_delay;
	m.rep.flow_control = ap->flow_control;
	m.rep.rnr_retry_count = ap->rnr_retry_count;
	m.rep.ca_guid = ap->ca_guid;
	memcpy(m.rep.private_data, p->rep_data, sizeof(p->rep_data));
	watch_expect(&d, &m);
	if (cm_accept(p->conn[PASSIVE], ap, w->now) != 0)
		failed(w, "pair %u: accept in %s", idx, cm_state_name(cm_conn_state(p->conn[PASSIVE])));
	watch_end(h, &d);
	must_be(w, p, PASSIVE, CM_REP_SENT);
	/* Some change their mind. The peer may not learn of it: it has the REP. */
	if (rng_one_in(r, 30)) {
		plan_for(w, 100 * MS, REJECT, idx, PASSIVE);
		p->cut = true;
	}
}

static void
do_rtu(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];
	struct host *h = host_of(w, p, ACTIVE);
	uint8_t data[CM_RTU_PRIVATE_BYTES];
	struct cm_private pd = some_data(w, data, sizeof(data));
	struct doing d;
	struct cm_msg m;

	watch_call(&d, w, p, ACTIVE);
	m = watch_msg(h, p, ACTIVE, CM_ATTR_RTU, p->end[ACTIVE].tid);
	memcpy(m.rtu.private_data, data, sizeof(data));
	watch_expect(&d, &m);
	if (cm_rtu(p->conn[ACTIVE], pd, w->now) != 0)
		failed(w, "pair %u: RTU in %s", idx, cm_state_name(cm_conn_state(p->conn[ACTIVE])));
	watch_end(h, &d);
	must_be(w, p, ACTIVE, CM_ESTABLISHED);
	p->established[ACTIVE] = true;
	h->nb_established++;
	/* Data may get there before the RTU does. */
	if (rng_one_in(&w->rng, 3))
		plan_for(w, 20 * MS, COMM_EST, idx, PASSIVE);
}

static void
do_reject(struct world *w, struct pair *p, unsigned int side)
{
	struct host *h = host_of(w, p, side);
	enum cm_state s = cm_conn_state(p->conn[side]);
	uint8_t ari[CM_ARI_BYTES], data[CM_REJ_PRIVATE_BYTES];
	struct cm_private a = some_data(w, ari, sizeof(ari)), pd = some_data(w, data, sizeof(data));
	uint16_t reason = (uint16_t)rng_between(&w->data_rng, CM_REJ_NO_QP, CM_REJ_VENDOR_OPTION_NOT_SUPPORTED);
	struct doing d;

	if (s == CM_ESTABLISHED || s == CM_DREQ_SENT)
		return; /* it was too late to withdraw the REP */
	if (reason == CM_REJ_STALE_CONN)
		reason = CM_REJ_CONSUMER_DEFINED;
	p->over[side] = true;
	watch_call(&d, w, p, side);
	expect_rej(&d, h, reason, a, pd);
	if (cm_reject(p->conn[side], reason, a, pd, w->now) != 0)
		failed(w, "a rejection in %s", cm_state_name(s));
	watch_end(h, &d);
	must_be(w, p, side, CM_TIMEWAIT);
	watch_timewait(w, p, side);
}

static void
do_comm_est(struct world *w, struct pair *p)
{
	struct host *h = host_of(w, p, PASSIVE);
	enum cm_state s = cm_conn_state(p->conn[PASSIVE]);
	struct doing d;
	int rc;

	watch_call(&d, w, p, PASSIVE);
	rc = cm_establish(p->conn[PASSIVE], w->now);
	watch_end(h, &d);
	if (rc != (s == CM_ESTABLISHED ? EISCONN : s == CM_REP_SENT || s == CM_MRA_REP_RCVD ? 0 : EINVAL) || (rc == 0) != (d.nb_events == 1))
		failed(w, "COMM_EST in %s: %d, %u events", cm_state_name(s), rc, d.nb_events);
	w->nb_comm_est += rc == 0;
}

/* The peer proposes another path, as uroce never does. */
static void
do_lap(struct world *w, struct pair *p, unsigned int to)
{
	struct host *h = host_of(w, p, !to);
	struct rng *r = &w->data_rng;
	struct cm_msg m = watch_msg(h, p, !to, CM_ATTR_LAP, rng_next(r));
	uint8_t mad[CM_MAD_BYTES];

	m.lap.remote_qpn = p->qpn[to];
	m.lap.remote_response_timeout = (uint8_t)rng_below(r, 32);
	m.lap.alternate = (struct cm_path){
		.local_gid = host_gid(w, h->number), .remote_gid = host_gid(w, !h->number), .flow_label = (uint32_t)rng_below(r, 1 << 20),
		.local_lid = (uint16_t)rng_next(r), .remote_lid = (uint16_t)rng_next(r), .packet_rate = (uint8_t)rng_below(r, 64),
		.traffic_class = (uint8_t)rng_next(r), .hop_limit = (uint8_t)rng_next(r), .sl = (uint8_t)rng_below(r, 16),
		.subnet_local = (uint8_t)rng_below(r, 2), .ack_timeout = (uint8_t)rng_below(r, 32),
	};
	some_data(w, m.lap.private_data, sizeof(m.lap.private_data));
	wire_build(&m, mad);
	carry(w, !h->number, &p->end[!to].av, mad);
	if (rng_one_in(r, 2))
		carry(w, !h->number, &p->end[!to].av, mad);
}

static void
do_apr(struct world *w, struct pair *p, unsigned int side)
{
	struct host *h = host_of(w, p, side);
	struct rng *r = &w->data_rng;
	uint8_t status = (uint8_t)rng_below(r, CM_APR_INVALID_SL + 1);
	bool there = p->lap && cm_conn_state(p->conn[side]) == CM_ESTABLISHED;
	struct cm_counters was = *cm_counters(h->cm);
	struct cm_private info, pd;
	struct doing d;
	struct cm_msg m;

	watch_call(&d, w, p, side);
	m = watch_msg(h, p, side, CM_ATTR_APR, p->end[side].tid);
	m.apr.status = status;
	info = some_data(w, m.apr.info, sizeof(m.apr.info));
	m.apr.info_bytes = (uint8_t)info.len_bytes;
	pd = some_data(w, m.apr.private_data, sizeof(m.apr.private_data));
	if (there)
		watch_expect(&d, &m);
	if (cm_apr(p->conn[side], status, info, pd) != (there ? 0 : EINVAL))
		failed(w, "an APR in %s", cm_state_name(cm_conn_state(p->conn[side])));
	watch_end(h, &d);
	p->lap = false;
	if (there && (cm_counters(h->cm)->apr_loaded - was.apr_loaded != (status == CM_APR_SUCCESS) ||
		      cm_counters(h->cm)->apr_refused - was.apr_refused != (status != CM_APR_SUCCESS)))
		failed(w, "an APR of status %u counts otherwise", status);
}

void
owner_acts(struct world *w, const struct item *it)
{
	struct pair *p = &w->pairs[it->pair];
	struct cm_conn *c = p->conn[it->side];

	if (it->serial != p->serial)
		return;
	misuse_maybe(w, p, it->side);
	if (it->what != CONNECT && c == NULL)
		return;
	switch (it->what) {
	case CONNECT:
		if (!p->torn)
			do_connect(w, it->pair);
		break;
	case ACCEPT:
		if (!p->over[PASSIVE])
			do_accept(w, it->pair);
		break;
	case RTU:
		if (!p->over[ACTIVE])
			do_rtu(w, it->pair);
		break;
	case REJECT:
		if (!p->over[it->side])
			do_reject(w, p, it->side);
		break;
	case COMM_EST:
		if (!p->over[PASSIVE])
			do_comm_est(w, p);
		break;
	case DISCONNECT:
		disconnect(w, p, it->side);
		break;
	case LAP:
		do_lap(w, p, it->side);
		break;
	case APR:
		do_apr(w, p, it->side);
		break;
	default: /* DIE */
		w->nb_died++;
		let_go(w, p, it->side, true);
	}
}
