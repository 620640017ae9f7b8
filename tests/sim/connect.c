/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that the hosts' connection managers make and end (lib/cm): numbers and PSNs travel in MADs over the same network as
 * the data, QPs change their states as the events say, and begin again when TimeWait is over, with PSNs near those they had. A
 * host whose daemon is replaced goes on from its connections' records.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"
#include "sim.h"

enum {
	STREAM_CONNECT = 24576,
	STREAM_SIDES = 32768,
	RESPONSE_TIMEOUT = 14, /* 67 ms; with 15 repetitions more than two hosts are dark that restart */
	PACKET_LIFE = 13,
	RETRIES = 15,
	MRA_TIMEOUT = 14,
	THINK = 3,             /* turns until a program answers, on average */
	MRA_ONE_IN = 8,
	NEAR = 64,             /* PSNs */
	MADS_MOST = 256,       /* that wait for a turn */
	TIMEWAIT = 14,         /* of the paths and answers here */
};
#define SERVICE UINT64_C(0x1000000000000042)
static const struct cm_private nothing;

static uint64_t
guid_of(const struct sim_ep *ep)
{
	return UINT64_C(0x1111111111111111) * (ep->id + 1);
}

/* ---- MADs ---- */
static void
on_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
	struct sim_ep *ep = arg;
	struct sim_world *w = ep->w;
	struct rte_mbuf *m = rte_pktmbuf_alloc(sim_pool);
	struct uroce_ah_attr ah;
	struct tp_path path;
	uint32_t to = av->remote_gid.raw[15] - 1u, bytes;
	uint16_t to_port = av->remote_gid.raw[13]; /* setup.c */

	if (m == NULL)
		return;
	if (to >= w->cfg.nb_eps || to_port >= w->eps[to].nb_ports || av->port >= ep->nb_ports) {
		sim_fail(w, "endpoint %u: a MAD to nobody", ep->id);
		rte_pktmbuf_free(m);
		return;
	}
	path_make(ep, av->port, &w->eps[to], to_port, !gid_is_v4(&av->remote_gid), &ep->cm_rng, &path, &ah);
	bytes = gsi_build(rte_pktmbuf_mtod(m, uint8_t *), &path.addr, av->pkey, (uint32_t)w->seq, mad);
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	link_send(w, ep->id, av->port, -1, m);
}

bool
connect_takes(struct sim_ep *ep, const struct tp_mad *m)
{
	enum { BASE_VERSION = 1, CM_CLASS = 7 };

	if (ep->cm == NULL || m->data[0] != BASE_VERSION || m->data[1] != CM_CLASS)
		return false;
	/* This is an engine's turn: the CM has its own. */
	if (ep->nb_cm_mads == MADS_MOST)
		sim_fail(ep->w, "endpoint %u: more than %u MADs of the CM at once", ep->id, MADS_MOST);
	else
		ep->cm_mads[ep->nb_cm_mads++] = *m;
	return true;
}

static void
take_mads(struct sim_world *w, struct sim_ep *ep)
{
	for (uint32_t i = 0; i < ep->nb_cm_mads; i++) {
		const struct tp_mad *m = &ep->cm_mads[i];
		const struct cm_av av = { .local_gid = m->dgid, .remote_gid = m->sgid, .port = m->port, .pkey = m->pkey,
					  .traffic_class = m->traffic_class, .hop_limit = m->hop_limit };

		cm_rx(ep->cm, &av, m->data, sizeof(m->data), w->now_ns);
	}
	ep->nb_cm_mads = 0;
}

/* ---- What programs do ---- */
static struct sim_qp *
active_of(struct sim_conn *c)
{
	return &c->qp[c->cm_side];
}

/* The other end has said with which QP and from which PSN on it sends. */
static void
learn(struct sim_world *w, struct sim_qp *q, uint32_t qpn, uint32_t psn)
{
	if (qpn != q->peer->qpn || psn != q->peer->attr.sq_psn)
		sim_fail(w, "QP %u: is told of QP 0x%06x and PSN %u, the peer has 0x%06x and %u", q->id, qpn, psn, q->peer->qpn,
			 q->peer->attr.sq_psn);
	q->attr.dest_qp_num = qpn;
	q->attr.rq_psn = psn;
}

static void
ask(struct sim_world *w, struct sim_qp *q)
{
	const uint32_t tag[] = { q->conn->id, q->round };
	const struct sim_qp *p = q->peer;
	struct cm_connect_param cp = {
		.service_id = SERVICE,
		.ca_guid = guid_of(q->ep),
		.qpn = q->qpn,
		.starting_psn = q->attr.sq_psn,
		.responder_resources = q->attr.max_dest_rd_atomic,
		.initiator_depth = q->attr.max_rd_atomic,
		.path_mtu = (uint8_t)q->attr.path_mtu,
		.packet_life = PACKET_LIFE,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.max_cm_retries = RETRIES,
		.private_data = { tag, sizeof(tag) },
		.owner = q,
	};
	struct uroce_ah_attr ah;
	struct tp_path path;
	bool ip6 = rng_one_in(&q->ep->cm_rng, 2);

	path_make(q->ep, q->port, p->ep, p->port, ip6, &q->ep->cm_rng, &path, &ah);
	cp.av = (struct cm_av){ .local_gid = gid_from_ip(ip6 ? 6 : 4, path.addr.sip), .remote_gid = gid_from_ip(ip6 ? 6 : 4, path.addr.dip),
				.port = q->port, .pkey = q->pkey, .hop_limit = 64 };
	q->cm = cm_connect(q->ep->cm, &cp, w->now_ns);
	sim_trace(w, "QP %u asks its peer for a connection", q->id);
	if (q->cm == NULL)
		sim_fail(w, "QP %u: no connection can be asked for: %s", q->id, strerror(errno));
}

/* The passive end answers a REQ: its QP takes packets by then. */
static void
answer(struct sim_world *w, struct sim_qp *q)
{
	struct cm_accept_param ap = {
		.ca_guid = guid_of(q->ep),
		.qpn = q->qpn,
		.starting_psn = q->attr.sq_psn,
		.responder_resources = q->attr.max_dest_rd_atomic,
		.initiator_depth = q->attr.max_rd_atomic,
		.rnr_retry_count = q->attr.rnr_retry,
	};
	int rc;

	q->cm_due = false;
	qp_to_state(w, q, UROCE_QPS_RTR);
	rc = cm_accept(q->cm, &ap, w->now_ns);
	if (rc != 0)
		sim_fail(w, "QP %u: a REQ can't be accepted: %s", q->id, strerror(rc));
}

/* The active end answers a REP, and sends. */
static void
confirm(struct sim_world *w, struct sim_qp *q)
{
	int rc;

	q->cm_due = false;
	qp_to_state(w, q, UROCE_QPS_RTR);
	qp_to_state(w, q, UROCE_QPS_RTS);
	q->ready = true;
	rc = cm_rtu(q->cm, nothing, w->now_ns);
	if (rc != 0)
		sim_fail(w, "QP %u: no RTU can be sent: %s", q->id, strerror(rc));
}

void
connect_bring_up(struct sim_world *w, struct sim_qp *q)
{
	if (rng_one_in(&q->rng, 3) || w->now_ns < q->ep->dark_until)
		return;
	if (qp_state(q->qp) == UROCE_QPS_RESET)
		qp_to_state(w, q, UROCE_QPS_INIT);
	else if (q == active_of(q->conn) && q->cm == NULL && !q->cm_over)
		ask(w, q);
}

static void
qp_turn(struct sim_world *w, struct sim_qp *q)
{
	if (q->cm_due && qp_state(q->qp) == UROCE_QPS_INIT && rng_one_in(&q->ep->cm_rng, THINK)) {
		if (q == active_of(q->conn))
			confirm(w, q);
		else
			answer(w, q);
	}
	if (q->cm_comm_est && q->cm != NULL && cm_conn_state(q->cm) == CM_REP_SENT)
		cm_establish(q->cm, w->now_ns);
	q->cm_comm_est = false;
}

void
connect_comm_est(struct sim_qp *q)
{
	q->cm_comm_est = q->conn->by_cm;
}

/* ---- Events ---- */
static void
on_request(struct sim_world *w, struct sim_ep *ep, const struct cm_event *ev)
{
	uint32_t tag[2];
	struct sim_qp *q;

	memcpy(tag, ev->msg->req.private_data, sizeof(tag));
	q = tag[0] < w->cfg.nb_conns && w->conns[tag[0]].by_cm ? active_of(&w->conns[tag[0]])->peer : NULL;
	if (q == NULL || q->ep != ep || q->round != tag[1] || q->cm != NULL || q->cm_over) {
		sim_fail(w, "endpoint %u: a REQ that nobody waits for, of connection %u, round %u", ep->id, tag[0], tag[1]);
		cm_destroy(ev->conn, w->now_ns);
		return;
	}
	sim_trace(w, "QP %u is asked by its peer for a connection", q->id);
	q->cm = ev->conn;
	cm_conn_set_owner(ev->conn, q);
	learn(w, q, ev->msg->req.qpn, ev->msg->req.starting_psn);
	q->cm_due = true;
	if (rng_one_in(&ep->cm_rng, MRA_ONE_IN))
		cm_mra(ev->conn, MRA_TIMEOUT, nothing, w->now_ns);
}

static void
on_event(void *arg, const struct cm_event *ev)
{
	struct sim_ep *ep = arg;
	struct sim_world *w = ep->w;
	struct sim_qp *q = ev->owner;

	if (ev->type == CM_EV_REQUEST) {
		on_request(w, ep, ev);
		return;
	}
	if (q == NULL || q->cm != ev->conn) {
		sim_fail(w, "endpoint %u: %s of no connection", ep->id, cm_event_name(ev->type));
		return;
	}
	sim_trace(w, "QP %u: %s", q->id, cm_event_name(ev->type));
	switch (ev->type) {
	case CM_EV_RESPONSE:
		learn(w, q, ev->msg->rep.qpn, ev->msg->rep.starting_psn);
		q->cm_due = true;
		if (rng_one_in(&ep->cm_rng, MRA_ONE_IN))
			cm_mra(ev->conn, MRA_TIMEOUT, nothing, w->now_ns);
		break;
	case CM_EV_ESTABLISHED:
		if (q->ready)
			sim_fail(w, "QP %u: its connection is established twice", q->id);
		/* An error may have come before. */
		if (qp_state(q->qp) == UROCE_QPS_RTR)
			qp_to_state(w, q, UROCE_QPS_RTS);
		q->ready = true;
		break;
	case CM_EV_MRA:
		break;
	case CM_EV_DISCONNECT:
		q->cm_over = true;
		q->cm_over_ns = w->now_ns;
		cm_disconnect(ev->conn, nothing, w->now_ns);
		break;
	case CM_EV_DISCONNECTED:
		if (ev->timed_out)
			sim_fail(w, "QP %u: its DREQ gets no answer", q->id);
		q->cm_over = true;
		q->cm_over_ns = w->now_ns;
		break;
	case CM_EV_TIMEWAIT_EXIT:
		if (!q->cm_over)
			sim_fail(w, "QP %u: TimeWait without an end", q->id);
		else if (w->now_ns - q->cm_over_ns < UINT64_C(4096) << TIMEWAIT)
			sim_fail(w, "QP %u: TimeWait is over after %lu us", q->id, (unsigned long)(w->now_ns - q->cm_over_ns) / 1000);
		q->cm = NULL;
		cm_destroy(ev->conn, w->now_ns);
		break;
	default:
		sim_fail(w, "QP %u: %s, reason %u", q->id, cm_event_name(ev->type), ev->reason);
		break;
	}
}

static bool
on_qp_gone(void *arg, void *owner)
{
	const struct sim_qp *q = owner;

	return q->qp == NULL || qp_state(q->qp) == UROCE_QPS_ERR;
}

/* ---- The end ---- */
bool
connect_end(struct sim_world *w, struct sim_conn *c)
{
	uint32_t who;

	if (!c->cm_ending) {
		who = (uint32_t)rng_between(&c->rng, 1, 3);
		c->cm_ending = true;
		/* Both, where their DREQs cross. */
		for (unsigned int i = 0; i < 2; i++)
			if (who & 1u << i)
				c->cm_ends[i] = true;
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		if (!c->cm_ends[i] || w->now_ns < q->ep->dark_until)
			continue;
		c->cm_ends[i] = false;
		if (!q->cm_over && cm_conn_state(q->cm) == CM_ESTABLISHED && cm_disconnect(q->cm, nothing, w->now_ns) != 0)
			sim_fail(w, "QP %u: its connection can't be ended", q->id);
	}
	return c->qp[0].cm_over && c->qp[1].cm_over;
}

bool
connect_may_begin(const struct sim_conn *c)
{
	return c->qp[0].cm == NULL && c->qp[1].cm == NULL;
}

void
connect_anew(struct sim_conn *c)
{
	c->cm_side = (unsigned int)rng_below(&c->rng, 2);
	c->cm_ending = false;
	for (unsigned int i = 0; i < 2; i++)
		c->qp[i].cm_over = c->qp[i].cm_due = c->qp[i].cm_comm_est = false;
}

uint32_t
connect_next_psn(struct sim_qp *q)
{
	return wire_psn_add(q->psn_next, (uint32_t)rng_below(&q->conn->rng, NEAR) - NEAR / 2) & WIRE_PSN_MASK;
}

void
connect_leave(struct sim_world *w, struct sim_qp *q)
{
	if (q->cm != NULL)
		cm_destroy(q->cm, w->now_ns);
	q->cm = NULL;
}

/* ---- Hosts ---- */
static bool
open_cm(struct sim_world *w, struct sim_ep *ep)
{
	const struct cm_listen_param lp = { .service_id = SERVICE, .scope = CM_LISTEN_ANY };
	const struct cm_config cfg = { .max_conns = 64, .secret.key[0] = rng_next(&ep->cm_rng), .ops = { on_send, on_event, on_qp_gone },
				       .arg = ep };

	ep->cm = cm_open(&cfg, w->now_ns);
	ep->cm_listener = ep->cm != NULL ? cm_listen(ep->cm, &lp) : NULL;
	return ep->cm_listener != NULL;
}

bool
connect_make(struct sim_world *w, struct sim_ep *ep)
{
	if ((w->cfg.faults & SIM_F_CM) == 0)
		return true;
	ep->cm_rng = rng_stream(w->cfg.seed, STREAM_CONNECT + ep->id);
	ep->cm_mads = calloc(MADS_MOST, sizeof(*ep->cm_mads));
	return ep->cm_mads != NULL && open_cm(w, ep);
}

void
connect_choose(struct sim_world *w, struct sim_conn *c)
{
	struct rng r = rng_stream(w->cfg.seed, STREAM_SIDES + c->id);

	c->by_cm = (w->cfg.faults & SIM_F_CM) && c->type == UROCE_QPT_RC && !c->xrc && !c->foreign && !c->loopback;
	c->cm_side = (unsigned int)rng_below(&r, 2);
}

void
connect_turn(struct sim_world *w, struct sim_ep *ep)
{
	if (ep->cm == NULL || w->now_ns < ep->dark_until)
		return;
	take_mads(w, ep);
	if (cm_next_timeout(ep->cm) <= w->now_ns)
		cm_run(ep->cm, w->now_ns);
	for (uint32_t i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep == ep && q->conn->by_cm && !q->conn->done)
			qp_turn(w, q);
	}
}

void
connect_restart(struct sim_world *w, struct sim_ep *ep)
{
	static struct cm_conn_record records[2 * SIM_MAX_CONNS];
	bool saved[2 * SIM_MAX_CONNS] = { false }, pending[2 * SIM_MAX_CONNS] = { false };
	const char *why = "";
	uint32_t tid;

	if (ep->cm == NULL)
		return;
	for (uint32_t i = 0; i < 2 * w->cfg.nb_conns; i++) {
		const struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep != ep || q->cm == NULL)
			continue;
		cm_conn_save(q->cm, w->now_ns, &records[i]);
		pending[i] = cm_conn_listener(q->cm) != NULL;
		saved[i] = true;
	}
	tid = cm_tid(ep->cm);
	cm_close(ep->cm);
	ep->nb_cm_mads = 0;
	if (!open_cm(w, ep))
		abort();
	cm_set_tid(ep->cm, tid);
	for (uint32_t i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (!saved[i])
			continue;
		q->cm = cm_conn_restore(ep->cm, &records[i], sizeof(records[i]), pending[i] ? ep->cm_listener : NULL, (uint16_t)ep->nb_ports, q,
					w->now_ns, &why);
		if (q->cm == NULL)
			sim_fail(w, "QP %u: its connection isn't restored: %s", q->id, why);
	}
}

void
connect_free(struct sim_world *w, struct sim_ep *ep)
{
	const struct cm_counters *c;

	if (ep->cm == NULL)
		return;
	c = cm_counters(ep->cm);
	if (c->timeouts != 0 || c->rej_stale != 0 || c->rej_unknown_id != 0 || c->rx_bad_field != 0 || c->rx_bad_attribute != 0)
		sim_fail(w, "endpoint %u: its CM has given up or refused something", ep->id);
	cm_close(ep->cm);
	free(ep->cm_mads);
}
