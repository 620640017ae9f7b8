/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owners of connections: programs that connect, accept, refuse, dawdle, disconnect and die. Whatever they ask for, the observer is told what the CM has
 * to send for it.
 */
#include <errno.h>
#include <string.h>

#include "sim.h"

enum { MAX_MRA = 18, BEHIND = 32 };
static const struct cm_private no_data;

void *
owner_of_pair(uint32_t pair, unsigned int side)
{
	return (void *)(uintptr_t)(2 * pair + side + 1);
}

struct cm_private
some_data(struct world *w, uint8_t *buf, uint32_t room)
{
	uint32_t n = (uint32_t)rng_below(&w->data_rng, room + 1);

	memset(buf, 0, room);
	for (uint32_t i = 0; i < n; i++)
		buf[i] = (uint8_t)rng_next(&w->data_rng);
	return (struct cm_private){ buf, n };
}

struct host *
host_of(struct world *w, const struct pair *p, unsigned int side)
{
	return &w->hosts[p->host[side]];
}

void
must_be(const struct world *w, const struct pair *p, unsigned int side, enum cm_state s)
{
	enum cm_state is = cm_conn_state(p->conn[side]);

	if (is != s)
		failed(w, "a call leaves %s, must leave %s", cm_state_name(is), cm_state_name(s));
}

/* ---- What a call has to send ---- */
void
expect_rej(struct doing *d, const struct host *h, uint16_t reason, struct cm_private ari, struct cm_private data)
{
	struct pair *p = d->pair;
	enum cm_state s = cm_conn_state(p->conn[d->side]);
	bool of_req = s == CM_REQ_RCVD || s == CM_MRA_REQ_SENT, of_rep = s == CM_REP_RCVD || s == CM_MRA_REP_SENT;
	struct cm_msg m = watch_msg(h, p, d->side, CM_ATTR_REJ,
				    of_req || of_rep ? p->end[d->side].tid : watch_own_tid(h, p, d->side));

	/* Whose REQ got no other answer doesn't know our ID. */
	if (s == CM_REQ_RCVD)
		m.rej.local_comm_id = 0;
	if (s == CM_REQ_SENT || s == CM_MRA_REQ_RCVD)
		m.rej.remote_comm_id = 0;
	m.rej.msg_rejected = of_req ? 0 : of_rep ? 1 : 2;
	m.rej.reason = reason;
	m.rej.ari_bytes = (uint8_t)ari.len_bytes;
	if (ari.len_bytes != 0)
		memcpy(m.rej.ari, ari.data, ari.len_bytes);
	if (data.len_bytes != 0)
		memcpy(m.rej.private_data, data.data, data.len_bytes);
	watch_expect(d, &m);
	p->end[d->side].forgot_qp = of_req;
	host_of(h->w, p, d->side)->nb_refused += of_req;
}

static void
expect_dreq(struct doing *d, const struct host *h, struct cm_private data)
{
	struct cm_msg m = watch_msg(h, d->pair, d->side, CM_ATTR_DREQ, watch_own_tid(h, d->pair, d->side));

	if (data.len_bytes != 0)
		memcpy(m.dreq.private_data, data.data, data.len_bytes);
	watch_expect(d, &m);
}

static void
expect_drep(struct doing *d, const struct host *h, struct cm_private data)
{
	struct cm_msg m = watch_msg(h, d->pair, d->side, CM_ATTR_DREP, d->pair->end[d->side].tid);

	if (data.len_bytes != 0)
		memcpy(m.drep.private_data, data.data, data.len_bytes);
	watch_expect(d, &m);
}

/* Who leaves ends what is there in an orderly way (cm.h, NOTES). */
static void
expect_destroy(struct doing *d, const struct host *h)
{
	uint64_t guid = host_guid(h->number);
	uint8_t raw[8];

	for (unsigned int i = 0; i < sizeof(raw); i++)
		raw[i] = (uint8_t)(guid >> (56 - 8 * i));
	switch (cm_conn_state(d->pair->conn[d->side])) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		expect_rej(d, h, CM_REJ_TIMEOUT, (struct cm_private){ raw, sizeof(raw) }, no_data);
		break;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
		expect_rej(d, h, CM_REJ_CONSUMER_DEFINED, no_data, no_data);
		break;
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		expect_rej(d, h, CM_REJ_CONSUMER_DEFINED, no_data, no_data);
		expect_dreq(d, h, no_data);
		break;
	case CM_ESTABLISHED:
		expect_dreq(d, h, no_data);
		break;
	case CM_DREQ_RCVD:
		expect_drep(d, h, no_data);
		break;
	default:
		break;
	}
}

void
let_go(struct world *w, struct pair *p, unsigned int side, bool died)
{
	struct host *h = host_of(w, p, side);
	struct cm_conn *c = p->conn[side];
	struct cm_usage before, after;
	struct doing d;
	bool keeps;

	/* The number of a QP that dies with its program is the CM's to wait for: not used again in this world. */
	if (!died && p->qpn[side] != 0)
		h->qpn_used[p->qpn[side] - FIRST_QPN] = false;
	cm_usage(h->cm, &before);
	watch_call(&d, w, p, side);
	expect_destroy(&d, h);
	p->over[side] = true;
	/* The refusal of a request is kept, to repeat it. */
	keeps = p->end[side].forgot_qp && cm_conn_state(c) != CM_IDLE;
	cm_destroy(c, w->now);
	p->conn[side] = NULL;
	watch_end(h, &d);
	cm_usage(h->cm, &after);
	if (after.kept != before.kept + (keeps && before.kept < max_kept(w)))
		failed(w, "%u refusals are kept, there were %u", after.kept, before.kept);
}

/* ---- Requests ---- */
void
check_listener(const struct host *h, const struct cm_event *ev)
{
	enum cm_listen_scope family = h->w->ipv6 ? CM_LISTEN_ANY_IPV6 : CM_LISTEN_ANY_IPV4, best = CM_LISTEN_ANY;

	/* Each seed has some of the more specific listeners, which come first. */
	if (h->w->limits.backlog != 0 &&
	    watch_pending(h, ev->type == CM_EV_REQUEST && ev->msg->req.service_id == TCP_SERVICE) >= h->w->limits.backlog)
		failed(h->w, "a request beyond the backlog");
	if (h->w->limits.half_open != 0 && watch_half_open(h) >= h->w->limits.half_open)
		failed(h->w, "a request beyond the limit of half open connections");
	if (ev->type == CM_EV_REQUEST && ev->msg->req.service_id == TCP_SERVICE) {
		if (ev->listener != h->tcp || ev->owner != &h->tcp)
			failed(h->w, "a request goes to the wrong listener");
		return;
	}
	if (h->w->seed % 2 != 0)
		best = family;
	if (h->w->seed % 3 == 0)
		best = CM_LISTEN_GID;
	if (ev->listener != h->listeners[best] || ev->owner != &h->listeners[best])
		failed(h->w, "a request goes to the wrong listener");
}

static void
mra(struct world *w, struct pair *p, unsigned int side)
{
	struct host *h = host_of(w, p, side);
	struct doing d;
	uint8_t data[CM_MRA_PRIVATE_BYTES], code = (uint8_t)rng_between(&w->rng, 14, MAX_MRA);
	struct cm_private pd = some_data(w, data, sizeof(data));
	struct cm_msg m;

	watch_call(&d, w, p, side);
	m = watch_msg(h, p, side, CM_ATTR_MRA, p->end[side].tid);
	m.mra.msg_mraed = side == ACTIVE; /* of a REP */
	m.mra.service_timeout = code;
	memcpy(m.mra.private_data, data, sizeof(data));
	watch_expect(&d, &m);
	if (cm_mra(p->conn[side], code, pd, w->now) != 0)
		failed(w, "MRA in %s", cm_state_name(cm_conn_state(p->conn[side])));
	watch_end(h, &d);
	must_be(w, p, side, side == ACTIVE ? CM_MRA_REP_SENT : CM_MRA_REQ_SENT);
}

/* A late copy of a REQ of a connection that is over: the owner can't tell; here it is refused. */
static void
refuse_ghost(struct host *h, const struct cm_event *ev)
{
	struct world *w = h->w;
	struct doing d = { .what = CALL };
	struct cm_msg m;

	w->nb_ghosts++;
	watch_begin(h, &d);
	memset(&m, 0, sizeof(m));
	m.hdr.attr_id = CM_ATTR_REJ;
	m.hdr.tid = ev->msg->hdr.tid;
	m.rej.remote_comm_id = ev->msg->req.local_comm_id;
	m.rej.reason = CM_REJ_CONSUMER_DEFINED;
	watch_expect(&d, &m);
	h->nb_refused++;
	cm_destroy(ev->conn, w->now);
	watch_end(h, &d);
}

void
ip_hdr(const struct world *w, unsigned int from, uint8_t *to)
{
	struct gid src = host_gid(w, from), dst = host_gid(w, !from);
	unsigned int at = w->ipv6 ? 0 : 12;

	memset(to, 0, CM_IP_HDR_BYTES);
	to[1] = w->ipv6 ? 0x60 : 0x40;
	to[2] = 0x12;
	to[3] = (uint8_t)(0x34 + from);
	memcpy(to + 4 + at, src.raw + at, 16 - at);
	memcpy(to + 20 + at, dst.raw + at, 16 - at);
}

static void
check_ip_hdr(const struct host *h, const uint8_t *data)
{
	struct gid src = host_gid(h->w, !h->number), dst = host_gid(h->w, h->number);
	uint8_t expected[CM_IP_HDR_BYTES], made[CM_IP_HDR_BYTES + BEHIND] = { 0 };
	struct cm_ip_hdr ip;

	ip_hdr(h->w, !h->number, expected);
	if (memcmp(data, expected, sizeof(expected)) != 0 || !cm_ip_hdr_get(data, CM_IP_HDR_BYTES, &ip) || cm_ip_hdr_get(data, CM_IP_HDR_BYTES - 1, &ip) ||
	    ip.ip_version != (h->w->ipv6 ? 6 : 4) || ip.port != 0x1234 + !h->number || !gid_equal(&ip.src, &src) || !gid_equal(&ip.dst, &dst))
		failed(h->w, "an IP header isn't understood");
	cm_ip_hdr_put(&ip, made);
	for (unsigned int i = CM_IP_HDR_BYTES; i < sizeof(made); i++)
		if (made[i] != 0)
			failed(h->w, "what is behind an IP header is written");
	if (memcmp(made, expected, sizeof(expected)) != 0)
		failed(h->w, "an IP header isn't made as it came");
}

static void
on_request(struct host *h, const struct cm_event *ev)
{
	const uint8_t *data = ev->msg->req.private_data;
	struct world *w = h->w;
	struct pair *p;
	uint32_t idx, serial;

	check_listener(h, ev);
	if (ev->msg->req.service_id == TCP_SERVICE) {
		check_ip_hdr(h, data);
		data += CM_IP_HDR_BYTES;
	}
	memcpy(&idx, data, sizeof(idx));
	memcpy(&serial, data + sizeof(idx), sizeof(serial));
	p = &w->pairs[idx % PAIRS];
	if (p->serial != serial || p->over[PASSIVE]) {
		watch_event(h, ev, NULL, 0);
		refuse_ghost(h, ev);
		return;
	}
	if (p->asked)
		failed(w, "pair %u: a second REQUEST for one connection", idx);
	p->asked = true;
	p->conn[PASSIVE] = ev->conn;
	watch_event(h, ev, p, PASSIVE);
	cm_conn_set_owner(ev->conn, owner_of_pair(idx, PASSIVE));
	if (rng_one_in(&w->rng, 8))
		mra(w, p, PASSIVE);
	plan_for(w, 200 * MS, rng_one_in(&w->rng, 10) ? REJECT : ACCEPT, idx, PASSIVE);
}

/* ---- Other events ---- */
void
disconnect(struct world *w, struct pair *p, unsigned int side)
{
	struct host *h = host_of(w, p, side);
	enum cm_state s = cm_conn_state(p->conn[side]);
	uint8_t data[CM_DREP_PRIVATE_BYTES] = { 0 };
	struct cm_private pd = some_data(w, data, CM_DREQ_PRIVATE_BYTES);
	struct doing d;
	int rc;

	watch_call(&d, w, p, side);
	if (s == CM_ESTABLISHED)
		expect_dreq(&d, h, pd);
	else if (s == CM_DREQ_RCVD)
		expect_drep(&d, h, pd);
	rc = cm_disconnect(p->conn[side], pd, w->now);
	watch_end(h, &d);
	if (rc != (d.nb_expect != 0 ? 0 : EINVAL))
		failed(w, "disconnect in %s: %d", cm_state_name(s), rc);
	must_be(w, p, side, s == CM_ESTABLISHED ? CM_DREQ_SENT : s == CM_DREQ_RCVD ? CM_TIMEWAIT : s);
	if (s == CM_DREQ_RCVD)
		watch_timewait(w, p, side);
}

static void
established(struct world *w, struct pair *p, uint32_t idx, unsigned int side)
{
	if (p->established[side])
		failed(w, "pair %u: established twice", idx);
	p->established[side] = true;
	w->nb_established++;
	for (unsigned int n = rng_one_in(&w->data_rng, 8) ? 2 : 0; n > 0; n--) {
		struct item *it = plan(w, rng_below(&w->data_rng, 200 * MS), LAP);

		it->pair = idx;
		it->side = (unsigned int)rng_below(&w->data_rng, 2);
		it->serial = p->serial;
	}
}

/* An event of a connection that the owner has. */
static void
on_pair_event(struct world *w, struct pair *p, uint32_t idx, unsigned int side, const struct cm_event *ev)
{
	struct item *it;

	switch (ev->type) {
	case CM_EV_RESPONSE:
		if (rng_one_in(&w->rng, 10))
			mra(w, p, ACTIVE);
		plan_for(w, 100 * MS, rng_one_in(&w->rng, 15) ? REJECT : RTU, idx, ACTIVE);
		break;
	case CM_EV_ESTABLISHED:
		established(w, p, idx, side);
		break;
	case CM_EV_MRA:
		break;
	case CM_EV_LAP:
		if (side != PASSIVE || p->lap)
			failed(w, "pair %u side %u: a LAP out of place", idx, side);
		p->lap = true;
		w->nb_laps++;
		it = plan(w, rng_below(&w->data_rng, 50 * MS), APR);
		it->pair = idx;
		it->side = side;
		it->serial = p->serial;
		break;
	case CM_EV_DISCONNECT:
		p->over[side] = true;
		disconnect(w, p, side);
		break;
	case CM_EV_REJECTED:
		p->over[side] = true;
		w->nb_rejected++;
		w->nb_stale += ev->reason == CM_REJ_STALE_CONN;
		if (ev->state == CM_IDLE)
			let_go(w, p, side, false);
		break;
	case CM_EV_UNREACHABLE:
		if (!p->cut && !p->torn)
			failed(w, "pair %u side %u: unreachable over a link that works", idx, side);
		p->over[side] = true;
		w->nb_unreachable++;
		if (ev->state == CM_IDLE)
			let_go(w, p, side, false);
		break;
	case CM_EV_DISCONNECTED:
		if (ev->timed_out && !p->cut && !p->torn)
			failed(w, "pair %u side %u: no DREP over a link that works", idx, side);
		p->over[side] = true;
		break;
	case CM_EV_TIMEWAIT_EXIT:
		if (!p->over[side])
			failed(w, "pair %u side %u: TimeWait without an end", idx, side);
		let_go(w, p, side, false);
		break;
	default:
		failed(w, "event %s out of place", cm_event_name(ev->type));
	}
}

void
owner_event(void *arg, const struct cm_event *ev)
{
	struct host *h = arg;
	struct world *w = h->w;
	unsigned int side;
	struct pair *p;
	uint32_t idx;

	if (ev->type == CM_EV_REQUEST) {
		on_request(h, ev);
		return;
	}
	if (ev->owner == NULL)
		failed(w, "%s without an owner", cm_event_name(ev->type));
	if (sidr_event(h, ev))
		return;
	idx = (uint32_t)((uintptr_t)ev->owner - 1) / 2;
	side = ((uintptr_t)ev->owner - 1) & 1;
	p = &w->pairs[idx % PAIRS];
	if (p->conn[side] != ev->conn)
		failed(w, "%s for a connection that its owner doesn't have", cm_event_name(ev->type));
	if (p->over[side] && ev->type != CM_EV_TIMEWAIT_EXIT)
		failed(w, "pair %u side %u: %s after the end", idx, side, cm_event_name(ev->type));
	watch_event(h, ev, p, side);
	on_pair_event(w, p, idx, side, ev);
}
