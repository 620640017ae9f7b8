/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An observer of two CMs who knows what their owners have asked for, and what the specification says. Each MAD has to be, byte by byte, what a call, a
 * MAD or a timer demands, at the time at which it does; each event says what came; each counter counts what was seen.
 */
#include <inttypes.h>
#include <string.h>

#include "sim_watch.h"

void
must_equal(const struct world *w, const uint8_t *mad, const uint8_t *expected, const char *what)
{
	for (unsigned int i = 0; i < CM_MAD_BYTES; i++)
		if (mad[i] != expected[i])
			failed(w, "%s: byte %u of the %s is 0x%02x, must be 0x%02x", what, i, name_of(mad), mad[i], expected[i]);
}

bool
same_av(const struct cm_av *a, const struct cm_av *b)
{
	return gid_equal(&a->local_gid, &b->local_gid) && gid_equal(&a->remote_gid, &b->remote_gid) && a->port == b->port && a->pkey == b->pkey &&
	       a->flow_label == b->flow_label && a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit && a->resolved == b->resolved &&
	       a->vlan_tci == b->vlan_tci && memcmp(a->remote_mac, b->remote_mac, sizeof(a->remote_mac)) == 0;
}

/* ---- Ends ---- */
struct wire_end *
find_end(struct world *w, unsigned int host, uint32_t id, struct pair **of, unsigned int *side)
{
	for (struct pair *p = w->pairs; p < w->pairs + PAIRS; p++)
		for (*side = 0; *side < 2; (*side)++)
			if (p->serial != 0 && p->host[*side] == host && p->end[*side].id == id && id != 0) {
				*of = p;
				return &p->end[*side];
			}
	*of = NULL;
	return NULL;
}

/* Whom a MAD is about: by our ID, or, of a REJ whose sender never learned that, by the ID of its REQ. */
static struct wire_end *
addressed_end(struct world *w, unsigned int host, const uint8_t *mad, struct pair **of, unsigned int *side)
{
	if (attr_of(mad) == CM_ATTR_REJ && remote_id(mad) == 0 && find_end(w, !host, local_id(mad), of, side) != NULL) {
		*side = !*side;
		return &(*of)->end[*side];
	}
	return find_end(w, host, remote_id(mad), of, side);
}

/* A timer that was due at @p due_ns fires now. */
void
watch_due(const struct world *w, uint64_t due_ns, const char *what)
{
	if (due_ns == 0)
		failed(w, "%s without a timer", what);
	if (w->now < due_ns || w->now - due_ns >= TICK_NS)
		failed(w, "%s at %.6f ms, was due at %.6f ms", what, (double)w->now / 1e6, (double)due_ns / 1e6);
}

void
watch_times(struct pair *p, unsigned int side)
{
	const struct cm_connect_param *cp = &p->cp;
	unsigned int ack = cp->ack_timeout != 0 ? cp->ack_timeout : cp->packet_life + 1u;
	struct wire_end *e = &p->end[side];
	uint64_t min_ns = 16 * MS;

	/* 12.9.8.4: a message is repeated when the peer's answer could be here. The passive end knows the packet life time from the ACK timeout. */
	e->life_ns = side == ACTIVE ? time_ns(cp->packet_life) : time_ns(ack) / 2;
	e->interval_ns = time_ns(side == ACTIVE ? cp->remote_response_timeout : cp->local_response_timeout) + 2 * e->life_ns;
	e->interval_ns = e->interval_ns < min_ns ? min_ns : e->interval_ns;
	e->timewait_ns = time_ns(ack < CM_MIN_TIMEWAIT ? CM_MIN_TIMEWAIT : ack);
	/* A refusal is repeated as long as the REQ may be: twice its interval, and TimeWait. */
	e->kept_ns = 2 * (time_ns(cp->remote_response_timeout) + 2 * e->life_ns) + e->timewait_ns;
}

uint64_t
watch_own_tid(const struct host *h, const struct pair *p, unsigned int side)
{
	return (uint64_t)cm_tid(h->cm) << 32 | p->end[side].id;
}

struct cm_msg
watch_msg(const struct host *h, const struct pair *p, unsigned int side, enum cm_attr attr, uint64_t tid)
{
	struct cm_msg m;

	memset(&m, 0, sizeof(m));
	m.hdr.attr_id = attr;
	m.hdr.tid = tid;
	/* At the same places in all messages of connections. */
	m.rtu.local_comm_id = p->end[side].id;
	if (attr != CM_ATTR_REQ)
		m.rtu.remote_comm_id = p->end[!side].id;
	if (attr == CM_ATTR_DREQ)
		m.dreq.remote_qpn = p->qpn[!side];
	return m;
}

void
note_sent(struct host *h, struct pair *p, unsigned int side, const uint8_t *mad)
{
	struct wire_end *e = &p->end[side];
	uint16_t attr = attr_of(mad);

	memcpy(e->last, mad, CM_MAD_BYTES);
	/* By an APR the peer isn't asked whether it is there. */
	if (attr == CM_ATTR_APR)
		e->due_ns = 0;
	if (attr != CM_ATTR_REQ && attr != CM_ATTR_REP && attr != CM_ATTR_DREQ)
		return;
	e->left = p->cp.max_cm_retries;
	e->due_ns = h->w->now + e->interval_ns;
	h->nb_disconnected += attr == CM_ATTR_DREQ;
}

/* ---- Calls ---- */
void
watch_call(struct doing *d, struct world *w, struct pair *p, unsigned int side)
{
	memset(d, 0, sizeof(*d));
	d->what = CALL;
	d->pair = p;
	d->side = side;
	watch_begin(&w->hosts[p->host[side]], d);
}

void
watch_expect(struct doing *d, const struct cm_msg *m)
{
	wire_build(m, d->expect[d->nb_expect++]);
}

/* ---- Before and after ---- */
void
watch_begin(struct host *h, struct doing *d)
{
	d->outer = h->doing;
	h->doing = d;
	if (d->what == ARRIVAL)
		h->before = *cm_counters(h->cm);
}

/* A MAD is answered, told of, or counted as one that was dropped; and just one of these. */
static void
must_have_effect(struct host *h, const struct doing *d)
{
	const struct cm_counters *c = cm_counters(h->cm), *b = &h->before;
	unsigned int side;
	struct pair *p;
	uint64_t dropped;

#define MORE(name) (c->name - b->name)
	dropped = MORE(rx_bad_length) + MORE(rx_bad_version) + MORE(rx_other_class) + MORE(rx_bad_method) + MORE(rx_bad_attribute) +
		  MORE(rx_bad_field) + MORE(rx_unknown_id) + MORE(rx_wrong_state) + MORE(rx_wrong_qpn) + MORE(rx_peer_active) + MORE(rx_duplicate);
	if (MORE(rx_mads) != 1)
		failed(h->w, "a MAD counts as %" PRIu64, MORE(rx_mads));
	if (d->bad && d->nb_events + (dropped == 0) - stateless(h) != 0)
		failed(h->w, "a %s that isn't right is believed", name_of(d->mad));
	if (dropped > 1 || (dropped == 1 && d->nb_sent + d->nb_events != 0))
		failed(h->w, "a %s is dropped %" PRIu64 " times, answered %u times, and raises %u events", name_of(d->mad), dropped, d->nb_sent, d->nb_events);
	if (d->nb_sent > 1 && !h->w->rebooted && d->stale == NULL)
		failed(h->w, "a %s is answered by %u MADs", name_of(d->mad), d->nb_sent);
	if (!d->bad && MORE(rx_unknown_id) + MORE(rx_wrong_qpn) + MORE(rx_bad_field) != 0 &&
	    addressed_end(h->w, h->number, d->mad, &p, &side) != NULL && p->conn[side] != NULL)
		failed(h->w, "a %s isn't understood whose connection is there", name_of(d->mad));
	if (attr_of(d->mad) == CM_ATTR_REQ && !d->bad &&
	    MORE(req_duplicate) + d->nb_events + (MORE(req_duplicate) == 0 ? stateless(h) : 0) + MORE(rx_bad_field) != 1)
		failed(h->w, "a REQ is new, a duplicate, or refused");
	if (attr_of(d->mad) == CM_ATTR_REP && !d->bad && MORE(rep_duplicate) + MORE(rej_unknown_id) + d->nb_events + MORE(rx_bad_field) != 1)
		failed(h->w, "a REP is new, a duplicate, or refused");
	if (MORE(stale_answered) + dropped > 1 && attr_of(d->mad) != CM_ATTR_LAP)
		failed(h->w, "a %s both answers and is dropped", name_of(d->mad));
	if (MORE(stale_answered) != 0 && find_end(h->w, h->number, remote_id(d->mad), &p, &side) != NULL)
		p->end[side].due_ns = 0;
	if (dropped + d->nb_sent + d->nb_events + MORE(stale_answered) != 0)
		return;
#undef MORE
	/* Only a connection whose owner has left goes on in silence. */
	if (addressed_end(h->w, h->number, d->mad, &p, &side) == NULL || p->conn[side] != NULL)
		failed(h->w, "a %s has no effect", name_of(d->mad));
	if (attr_of(d->mad) == CM_ATTR_DREP || attr_of(d->mad) == CM_ATTR_DREQ || attr_of(d->mad) == CM_ATTR_REJ)
		p->end[side].due_ns = 0;
}

enum cm_state
watch_state(struct world *w, unsigned int host, uint32_t id)
{
	unsigned int side;
	struct pair *p;

	return find_end(w, host, id, &p, &side) != NULL && p->conn[side] != NULL ? cm_conn_state(p->conn[side]) : CM_IDLE;
}

bool
watch_established(const struct pair *p, unsigned int side)
{
	return p->conn[side] != NULL && cm_conn_state(p->conn[side]) == CM_ESTABLISHED;
}

static bool
is_half_open(const struct cm_conn *c)
{
	enum cm_state s = c != NULL ? cm_conn_state(c) : CM_IDLE;

	return s == CM_REQ_RCVD || s == CM_MRA_REQ_SENT || s == CM_REP_SENT || s == CM_MRA_REP_RCVD || s == CM_SIDR_REQ_RCVD;
}

uint32_t
watch_half_open(const struct host *h)
{
	const struct world *w = h->w;
	uint32_t n = 0;

	for (const struct pair *p = w->pairs; p < w->pairs + PAIRS; p++)
		n += p->serial != 0 && p->host[PASSIVE] == h->number && is_half_open(p->conn[PASSIVE]);
	for (const struct asker *a = w->askers; a < w->askers + ASKERS; a++)
		n += a->host != h->number && is_half_open(a->conn[PASSIVE]);
	return n;
}

static bool
is_pending(const struct cm_conn *c)
{
	enum cm_state s = c != NULL ? cm_conn_state(c) : CM_IDLE;

	return s == CM_REQ_RCVD || s == CM_MRA_REQ_SENT || s == CM_SIDR_REQ_RCVD;
}

uint32_t
watch_pending(const struct host *h, bool tcp)
{
	const struct world *w = h->w;
	uint32_t n = 0;

	for (const struct pair *p = w->pairs; p < w->pairs + PAIRS; p++)
		n += p->serial != 0 && p->host[PASSIVE] == h->number && (p->cp.service_id == TCP_SERVICE) == tcp && is_pending(p->conn[PASSIVE]);
	for (const struct asker *a = w->askers; a < w->askers + ASKERS && !tcp; a++)
		n += a->host != h->number && is_pending(a->conn[PASSIVE]);
	return n;
}

/* What is in use is what the owners have. */
static void
check_usage(const struct host *h)
{
	const struct world *w = h->w;
	uint32_t half_open = watch_half_open(h), conns = 0;
	struct cm_usage u;

	for (const struct pair *p = w->pairs; p < w->pairs + PAIRS; p++)
		for (unsigned int side = 0; side < 2; side++) {
			if (p->serial == 0 || p->host[side] != h->number)
				continue;
			conns += p->conn[side] != NULL;
		}
	for (const struct asker *a = w->askers; a < w->askers + ASKERS; a++) {
		conns += a->conn[a->host != h->number] != NULL;
	}
	cm_usage(h->cm, &u);
	if (u.half_open != half_open || u.conns < conns || u.kept > u.conns || u.listeners != 5 || u.timers > u.conns)
		failed(w, "host %u: %u connections, %u half open, %u kept, %u listeners, %u timers; its owners have %u, %u half open", h->number, u.conns,
		       u.half_open, u.kept, u.listeners, u.timers, conns, half_open);
}

void
watch_end(struct host *h, struct doing *d)
{
	h->doing = d->outer;
	if (d->what == CALL && d->nb_sent != d->nb_expect)
		failed(h->w, "a call sends %u MADs, must send %u", d->nb_sent, d->nb_expect);
	if (d->what == ARRIVAL)
		must_have_effect(h, d);
	if (d->outer == NULL && h->w->order % 16 == 0)
		check_usage(h);
}

static bool
seen_before(struct world *w, unsigned int host, const uint8_t *mad)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) + host;
	uint32_t at;

	for (unsigned int i = 0; i < CM_MAD_BYTES; i++)
		h = (h ^ mad[i]) * UINT64_C(0x100000001b3);
	h |= 1;
	for (at = (uint32_t)(h >> 40) % SEEN_MAX; w->seen[at] != 0; at = (at + 1) % SEEN_MAX)
		if (w->seen[at] == h)
			return true;
	w->seen[at] = h;
	return false;
}

void
watch_arrival(struct world *w, unsigned int to, const struct cm_av *av, const uint8_t *mad, size_t len, bool bad, uint16_t reason)
{
	struct host *h = &w->hosts[to];
	struct doing d = { .what = ARRIVAL, .mad = mad, .av = av, .bad = bad, .reason = reason };

	if (!bad)
		d.again = seen_before(w, to, mad);
	h->nb_received++;
	watch_begin(h, &d);
	cm_rx(h->cm, av, mad, len, w->now);
	watch_end(h, &d);
}

void
watch_forged(struct world *w, struct pair *p, unsigned int side, const uint8_t *mad)
{
	struct host *h = &w->hosts[p->host[side]];
	struct wire_end *e = &p->end[side];
	struct doing d = { .what = ARRIVAL, .mad = mad, .av = &e->av, .stale = e };
	bool asks = side == PASSIVE && attr_of(e->last) == CM_ATTR_REP && e->due_ns == 0 &&
		    (e->probed_ns == 0 || w->now - e->probed_ns >= 5000 * MS);
	uint64_t was = cm_counters(h->cm)->stale_probes, ended = cm_counters(h->cm)->stale_ended;

	h->nb_received++;
	watch_begin(h, &d);
	cm_rx(h->cm, &e->av, mad, CM_MAD_BYTES, w->now);
	watch_end(h, &d);
	if (d.nb_sent != 1u + (asks || h->gone != NULL) || cm_counters(h->cm)->stale_probes - was != (asks && h->gone == NULL) ||
	    cm_counters(h->cm)->stale_ended - ended != (h->gone != NULL))
		failed(w, "a REQ that names a connected QP causes %u MADs", d.nb_sent);
}

/* ---- Events ---- */
static void
check_message(struct host *h, const struct cm_event *ev)
{
	static const uint16_t by[CM_NB_EVENTS][3] = {
		[CM_EV_REQUEST] = { CM_ATTR_REQ },
		[CM_EV_RESPONSE] = { CM_ATTR_REP },
		[CM_EV_ESTABLISHED] = { CM_ATTR_RTU },
		[CM_EV_MRA] = { CM_ATTR_MRA },
		[CM_EV_REJECTED] = { CM_ATTR_REJ, CM_ATTR_REP },
		[CM_EV_LAP] = { CM_ATTR_LAP },
		[CM_EV_DISCONNECT] = { CM_ATTR_DREQ },
		[CM_EV_DISCONNECTED] = { CM_ATTR_DREP, CM_ATTR_DREQ, CM_ATTR_REJ },
		[CM_EV_SIDR_REQUEST] = { CM_ATTR_SIDR_REQ },
		[CM_EV_SIDR_RESPONSE] = { CM_ATTR_SIDR_REP },
	};
	const struct doing *d = h->doing;
	uint8_t rebuilt[CM_MAD_BYTES];
	uint16_t attr;

	if (d->what != ARRIVAL || d->bad || ev->av == NULL || !same_av(ev->av, d->av))
		failed(h->w, "%s names a message that didn't come, or from elsewhere", cm_event_name(ev->type));
	wire_build(ev->msg, rebuilt);
	must_equal(h->w, rebuilt, d->mad, cm_event_name(ev->type));
	attr = attr_of(d->mad);
	if (attr != by[ev->type][0] && attr != by[ev->type][1] && attr != by[ev->type][2])
		failed(h->w, "%s because of a %s", cm_event_name(ev->type), name_of(d->mad));
	if (ev->type == CM_EV_REJECTED && (ev->local != (attr == CM_ATTR_REP) ||
					   (!ev->local && ev->reason != wire_bits(d->mad, WIRE_LOCAL_ID + 10, 0, 16))))
		failed(h->w, "REJECTED for reason %u", ev->reason);
}

static void
check_without_message(struct host *h, const struct cm_event *ev)
{
	const struct doing *d = h->doing;
	bool by_timer = ev->type == CM_EV_UNREACHABLE || ev->type == CM_EV_TIMEWAIT_EXIT || (ev->type == CM_EV_DISCONNECTED && ev->timed_out);

	if (ev->av != NULL || (by_timer && d->what != TIMER) || (!by_timer && (ev->type != CM_EV_ESTABLISHED || d->what != CALL)))
		failed(h->w, "%s without a message", cm_event_name(ev->type));
}

static void
check_timer(struct host *h, const struct cm_event *ev, struct wire_end *e, unsigned int side)
{
	watch_due(h->w, e->due_ns, cm_event_name(ev->type));
	if (ev->type != CM_EV_TIMEWAIT_EXIT && e->left != 0)
		failed(h->w, "%s with %u repetitions left", cm_event_name(ev->type), e->left);
	if (ev->type == CM_EV_UNREACHABLE && ev->failed_attr != (side == ACTIVE ? CM_ATTR_REQ : CM_ATTR_REP))
		failed(h->w, "UNREACHABLE for a %s", cm_attr_name(ev->failed_attr));
}

/* A REQUEST: another end has begun. */
static void
begin_end(struct host *h, const struct cm_event *ev, struct pair *p)
{
	struct wire_end *e = &p->end[PASSIVE];

	e->id = cm_conn_local_id(ev->conn);
	e->tid = wire_bits(h->doing->mad, WIRE_TID, 0, 64);
	e->av = *h->doing->av;
	watch_times(p, PASSIVE);
	if (cm_conn_remote_id(ev->conn) != p->end[ACTIVE].id || !same_av(cm_conn_av(ev->conn), &e->av))
		failed(h->w, "a REQUEST's connection is with somebody else");
}

void
watch_timewait(struct world *w, struct pair *p, unsigned int side)
{
	struct wire_end *e = &p->end[side];

	e->due_ns = 0;
	if (p->conn[side] != NULL && cm_conn_state(p->conn[side]) == CM_TIMEWAIT)
		e->due_ns = w->now + (e->forgot_qp ? e->kept_ns : e->timewait_ns);
}

void
watch_event(struct host *h, const struct cm_event *ev, struct pair *p, unsigned int side)
{
	struct wire_end *e = p != NULL ? &p->end[side] : NULL;
	struct doing *d = h->doing;
	struct world *w = h->w;

	if (d == NULL || (++d->nb_events > 1 && d->what != TIMER))
		failed(w, "%s out of nowhere, or the second one", cm_event_name(ev->type));
	if (ev->state != cm_conn_state(ev->conn))
		failed(w, "%s says that the state is %s", cm_event_name(ev->type), cm_state_name(ev->state));
	/* Both ends' QPs are known from the REQ, at the other end from the REP, until one of them ends it. */
	if (cm_conn_agreed(ev->conn) != (ev->type == CM_EV_REQUEST || ev->type == CM_EV_RESPONSE || ev->type == CM_EV_ESTABLISHED ||
					 ev->type == CM_EV_LAP || (ev->type == CM_EV_MRA && side == PASSIVE)))
		failed(w, "%s: the ends agree, or they don't", cm_event_name(ev->type));
	if (ev->msg != NULL)
		check_message(h, ev);
	else
		check_without_message(h, ev);
	if (e == NULL)
		return;
	switch (ev->type) {
	case CM_EV_REQUEST:
		begin_end(h, ev, p);
		break;
	case CM_EV_MRA:
		/* The time begins when the MRA arrives; longer than 69 s nobody waits. */
		e->due_ns = w->now + time_ns(ev->msg->mra.service_timeout) + 2 * e->life_ns;
		break;
	case CM_EV_LAP:
		e->due_ns = 0; /* it knows the connection */
		e->tid = wire_bits(d->mad, WIRE_TID, 0, 64);
		break;
	case CM_EV_UNREACHABLE:
	case CM_EV_TIMEWAIT_EXIT:
		check_timer(h, ev, e, side);
		watch_timewait(w, p, side);
		break;
	case CM_EV_DISCONNECTED:
		if (ev->timed_out)
			check_timer(h, ev, e, side);
		/* A REJ ends a connection of which it was asked whether it is stale. */
		h->nb_disconnected += d->what == ARRIVAL && attr_of(d->mad) == CM_ATTR_REJ && attr_of(e->last) != CM_ATTR_DREQ;
		watch_timewait(w, p, side);
		break;
	case CM_EV_DISCONNECT:
		h->nb_disconnected++;
		e->tid = wire_bits(d->mad, WIRE_TID, 0, 64);
		e->due_ns = 0;
		break;
	case CM_EV_ESTABLISHED:
		h->nb_established++;
		e->due_ns = 0;
		break;
	default: /* RESPONSE, REJECTED */
		e->tid = ev->type == CM_EV_RESPONSE ? wire_bits(d->mad, WIRE_TID, 0, 64) : e->tid;
		watch_timewait(w, p, side);
	}
}

/* ---- At the end ---- */
void
watch_counted(struct world *w)
{
	for (struct host *h = w->hosts; h < w->hosts + 2; h++) {
		const struct cm_counters *c = cm_counters(h->cm);

		if (c->rx_mads != h->nb_received || c->tx_mads != h->nb_sent || c->retransmissions != h->nb_again ||
		    c->established != h->nb_established || c->disconnected != h->nb_disconnected || c->rej_owner != h->nb_refused)
			failed(w,
			       "host %u counts %" PRIu64 " received, %" PRIu64 " sent, %" PRIu64 " again, %" PRIu64 " established, %" PRIu64
			       " disconnected, %" PRIu64 " refused; were %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64,
			       h->number, c->rx_mads, c->tx_mads, c->retransmissions, c->established, c->disconnected, c->rej_owner, h->nb_received,
			       h->nb_sent, h->nb_again, h->nb_established, h->nb_disconnected, h->nb_refused);
	}
	memset(w->seen, 0, sizeof(w->seen));
}
