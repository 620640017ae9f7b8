/* SPDX-License-Identifier: BSD-3-Clause */
/* The observer: each MAD that is sent has to be what a call, a timer or another MAD demands. */
#include <inttypes.h>
#include <string.h>

#include "sim_watch.h"

/* ---- Calls ---- */
static void
sent_by_call(struct host *h, struct doing *d, const struct cm_av *av, const uint8_t *mad)
{
	struct wire_end *e = d->pair != NULL ? &d->pair->end[d->side] : NULL, *other;
	uint8_t *expected = d->expect[d->nb_sent];
	struct world *w = h->w;
	unsigned int side;
	struct pair *p;

	if (d->nb_sent >= d->nb_expect)
		failed(w, "a call sends a %s that it should not", name_of(mad));
	if (attr_of(expected) == CM_ATTR_REQ || attr_of(expected) == CM_ATTR_SIDR_REQ) {
		/* Only now its ID is known, which nobody else may have. */
		other = find_end(w, h->number, local_id(mad), &p, &side);
		if (local_id(mad) == 0 || (other != NULL && p->conn[side] != NULL))
			failed(w, "0x%08x is the ID of two connections, or 0", local_id(mad));
		wire_set_bits(expected, WIRE_LOCAL_ID, 0, 32, local_id(mad));
		wire_set_bits(expected, WIRE_TID, 0, 64, (uint64_t)cm_tid(h->cm) << 32 | local_id(mad));
		if (e != NULL)
			e->id = local_id(mad);
	}
	must_equal(w, mad, expected, "call");
	if ((e != NULL && !same_av(av, &e->av)) || (d->av != NULL && !same_av(av, d->av)))
		failed(w, "a %s goes elsewhere", name_of(mad));
	if (e == NULL)
		return;
	note_sent(h, d->pair, d->side, mad);
}

/* ---- Timers ---- */
static void
give_up(struct host *h, struct pair *p, unsigned int side, const uint8_t *mad)
{
	struct wire_end *e = &p->end[side];
	struct world *w = h->w;
	struct cm_msg m = watch_msg(h, p, side, attr_of(mad), watch_own_tid(h, p, side));
	uint8_t expected[CM_MAD_BYTES];
	uint64_t guid = host_guid(h->number);

	watch_due(w, e->due_ns, "REJ (timeout)");
	if (e->left != 0)
		failed(w, "a request is given up that has %u repetitions left", e->left);
	/* 12.6.7.2: the reason is 4, and the CA GUID says whose request it was. */
	m.rej.remote_comm_id = side == ACTIVE ? 0 : m.rej.remote_comm_id;
	m.rej.msg_rejected = 2;
	m.rej.reason = 4;
	m.rej.ari_bytes = 8;
	for (unsigned int i = 0; i < 8; i++)
		m.rej.ari[i] = (uint8_t)(guid >> (56 - 8 * i));
	wire_build(&m, expected);
	must_equal(w, mad, expected, "timeout");
	note_sent(h, p, side, mad);
}

static void
asked_again(struct host *h, const uint8_t *mad)
{
	struct world *w = h->w;

	for (struct asker *a = w->askers; a < w->askers + ASKERS; a++) {
		if (a->conn[ACTIVE] == NULL || a->host != h->number || memcmp(a->req, mad, CM_MAD_BYTES) != 0)
			continue;
		watch_due(w, a->due_ns, "SIDR_REQ again");
		if (a->left-- == 0)
			failed(w, "a SIDR_REQ is repeated too often");
		a->due_ns = w->now + a->sp.timeout_ns;
		note_again(h);
		return;
	}
	failed(w, "a SIDR_REQ of nobody");
}

/* The peer may have forgotten the connection: it is asked up to three times, a second apart. Then the connection ends. */
static void
probe(struct host *h, struct pair *p, unsigned int side, const uint8_t *mad)
{
	struct wire_end *e = &p->end[side];
	struct cm_msg m = watch_msg(h, p, side, CM_ATTR_DREQ, watch_own_tid(h, p, side));
	uint8_t expected[CM_MAD_BYTES];

	watch_due(h->w, e->due_ns, "a probe");
	if (e->probes == 0) {
		wire_build(&m, expected);
		must_equal(h->w, mad, expected, "stale connection");
		note_sent(h, p, side, mad);
		return;
	}
	must_equal(h->w, mad, e->last, "probe");
	note_again(h);
	e->probes--;
	e->due_ns = h->w->now + 1000 * MS;
}

static void
sent_by_timer(struct host *h, const struct cm_av *av, const uint8_t *mad)
{
	struct world *w = h->w;
	unsigned int side;
	struct pair *p;
	struct wire_end *e;
	uint16_t attr = attr_of(mad);

	if (attr == CM_ATTR_SIDR_REQ) {
		asked_again(h, mad);
		return;
	}
	e = find_end(w, h->number, local_id(mad), &p, &side);
	if (e == NULL)
		failed(w, "a timer sends a %s of no connection", name_of(mad));
	if (!same_av(av, &e->av))
		failed(w, "a %s goes elsewhere", name_of(mad));
	if (p->conn[side] != NULL && e->probed_ns != 0 && attr_of(e->last) == CM_ATTR_REP && (attr == CM_ATTR_REP || attr == CM_ATTR_DREQ)) {
		probe(h, p, side, mad);
		return;
	}
	if (memcmp(mad, e->last, CM_MAD_BYTES) != 0) {
		give_up(h, p, side, mad);
		return;
	}
	note_again(h);
	if (attr != CM_ATTR_REQ && attr != CM_ATTR_REP && attr != CM_ATTR_DREQ)
		failed(w, "a timer repeats a %s", name_of(mad));
	watch_due(w, e->due_ns, "a repetition");
	if (e->left == 0)
		failed(w, "a %s is repeated too often", name_of(mad));
	e->left--;
	e->due_ns = w->now + e->interval_ns;
}

/* ---- Answers ---- */
uint64_t
stateless(const struct host *h)
{
	const struct cm_counters *c = cm_counters(h->cm), *b = &h->before;

#define MORE(name) (c->name - b->name)
	return MORE(rej_no_listener) + MORE(rej_backlog) + MORE(rej_peer_limit) + MORE(rej_half_open_limit) + MORE(rej_table_full) +
	       MORE(rej_no_memory) + MORE(rej_stale) + MORE(rej_bad_request) + MORE(rej_unknown_id) + MORE(drep_unknown_id) + MORE(apr_refused) +
	       MORE(sidr_refused);
#undef MORE
}

/* Nobody whose owner still has it may be unknown to its CM. */
static void
must_be_unknown(const struct host *h, const struct doing *d)
{
	unsigned int side;
	struct pair *p;

	if (!d->bad && find_end(h->w, h->number, remote_id(d->mad), &p, &side) != NULL && p->conn[side] != NULL)
		failed(h->w, "a %s is answered as if its connection weren't there", name_of(d->mad));
}

/* A limit that the seed has made small is reached, the one that was counted. */
static void
must_be_full(const struct host *h, const struct doing *d)
{
	const struct cm_counters *c = cm_counters(h->cm), *b = &h->before;
	bool tcp = wire_bits(d->mad, WIRE_LOCAL_ID + 8, 0, 64) == TCP_SERVICE;
	const struct world *w = h->w;

	if ((c->rej_backlog != b->rej_backlog && w->limits.backlog != 0 && watch_pending(h, tcp) >= w->limits.backlog) ||
	    (c->rej_half_open_limit != b->rej_half_open_limit && w->limits.half_open != 0 && watch_half_open(h) >= w->limits.half_open) ||
	    (c->rej_peer_limit != b->rej_peer_limit && w->limits.per_peer != 0))
		return;
	failed(w, "a request finds no resources, though no limit is reached");
}

/* What a REQ is refused with, as its refusal says. */
static void
refusal(const struct host *h, const struct doing *d, const uint8_t *mad, struct cm_rej *r)
{
	r->local_comm_id = 0;
	r->remote_comm_id = local_id(d->mad);
	r->reason = (uint16_t)wire_bits(mad, WIRE_LOCAL_ID + 10, 0, 16);
	switch (r->reason) {
	case CM_REJ_STALE_CONN:
		/* 12.9.8.3.1; a late REQ of a connection that is over is told which. */
		if (!h->w->rebooted && !d->again && d->stale == NULL)
			failed(h->w, "a REQ is stale whose QP nobody knows");
		r->local_comm_id = d->again ? local_id(mad) : 0;
		break;
	case CM_REJ_INVALID_MTU:
		r->ari_bytes = 1;
		r->ari[0] = 5 << 4; /* 4096 bytes, in the upper bits */
		break;
	case CM_REJ_INVALID_GID:
		r->ari_bytes = 16;
		memcpy(r->ari, &d->av->local_gid, 16);
		break;
	case CM_REJ_NO_RESOURCES:
		must_be_full(h, d);
		return;
	default:
		break;
	}
	if (d->bad ? r->reason != d->reason : r->reason != CM_REJ_STALE_CONN)
		failed(h->w, "a REQ is refused: %s", cm_rej_reason_name(r->reason));
}

static void
sent_statelessly(struct host *h, const struct doing *d, const uint8_t *mad)
{
	struct cm_msg m;
	uint8_t expected[CM_MAD_BYTES];

	memset(&m, 0, sizeof(m));
	m.hdr.tid = wire_bits(d->mad, WIRE_TID, 0, 64);
	m.rtu.local_comm_id = remote_id(d->mad);
	m.rtu.remote_comm_id = local_id(d->mad);
	switch (attr_of(d->mad)) {
	case CM_ATTR_REQ:
		m.hdr.attr_id = CM_ATTR_REJ;
		refusal(h, d, mad, &m.rej);
		break;
	case CM_ATTR_REP:
		must_be_unknown(h, d);
		m.hdr.attr_id = CM_ATTR_REJ;
		m.rej.msg_rejected = 1;
		m.rej.reason = 6;
		break;
	case CM_ATTR_DREQ:
		must_be_unknown(h, d);
		m.hdr.attr_id = CM_ATTR_DREP;
		break;
	case CM_ATTR_LAP:
		m.hdr.attr_id = CM_ATTR_APR;
		m.apr.status = (uint8_t)wire_bits(mad, WIRE_LOCAL_ID + 9, 0, 8);
		if (m.apr.status == CM_APR_INVALID_COMM_ID)
			must_be_unknown(h, d);
		else if (m.apr.status != CM_APR_UNSUPPORTED && (m.apr.status != CM_APR_INVALID_QPN || !d->bad))
			failed(h->w, "a LAP is refused: %u", m.apr.status);
		break;
	default: /* SIDR_REQ */
		m.hdr.attr_id = CM_ATTR_SIDR_REP;
		memset(&m.sidr_rep, 0, sizeof(m.sidr_rep));
		m.sidr_rep.request_id = local_id(d->mad);
		m.sidr_rep.status = CM_SIDR_UNSUPPORTED;
		m.sidr_rep.service_id = wire_bits(d->mad, WIRE_LOCAL_ID + 8, 0, 64);
		if (m.sidr_rep.service_id == NO_SERVICE)
			break;
		m.sidr_rep.status = CM_SIDR_REJECT;
		if (!d->bad)
			must_be_full(h, d);
	}
	wire_build(&m, expected);
	must_equal(h->w, mad, expected, "answer");
}

/* @return whether it is right that a connection repeats @p mad because d->mad came. */
static bool
may_repeat(const struct world *w, const struct doing *d, const uint8_t *mad)
{
	uint16_t attr = attr_of(mad);

	switch (attr_of(d->mad)) {
	case CM_ATTR_REQ:
		return d->again && (attr == CM_ATTR_MRA || attr == CM_ATTR_REP || attr == CM_ATTR_REJ);
	case CM_ATTR_REP:
		return d->again && (attr == CM_ATTR_MRA || attr == CM_ATTR_RTU || attr == CM_ATTR_REJ);
	case CM_ATTR_RTU: /* of a REP that was withdrawn */
		return attr == CM_ATTR_REJ;
	case CM_ATTR_DREQ:
		return d->again && attr == CM_ATTR_DREP;
	case CM_ATTR_LAP:
		return d->again && attr == CM_ATTR_APR;
	case CM_ATTR_SIDR_REQ:
		return d->again && attr == CM_ATTR_SIDR_REP;
	default:
		return false;
	}
}

static void
asker_answered_again(const struct world *w, const struct doing *d, const uint8_t *mad)
{
	for (const struct asker *a = w->askers; a < w->askers + ASKERS; a++)
		if (memcmp(a->rep, mad, CM_MAD_BYTES) == 0 && may_repeat(w, d, mad))
			return;
	failed(w, "an answer to a SIDR_REQ that its owner hasn't answered so");
}

/* The passive end that has refused a REQ has no ID in its REJ. */
static struct wire_end *
end_that_sent(struct world *w, const struct host *h, const uint8_t *mad, struct pair **p, unsigned int *side)
{
	if (local_id(mad) != 0)
		return find_end(w, h->number, local_id(mad), p, side);
	for (*p = w->pairs, *side = PASSIVE; *p < w->pairs + PAIRS; (*p)++)
		if ((*p)->host[PASSIVE] == h->number && (*p)->end[PASSIVE].id != 0 && memcmp((*p)->end[PASSIVE].last, mad, CM_MAD_BYTES) == 0)
			return &(*p)->end[PASSIVE];
	return NULL;
}

/* A connection that was refused since it was over already has nobody here. */
static void
ghost_refused(struct host *h, const struct doing *d, const uint8_t *mad)
{
	uint8_t expected[CM_MAD_BYTES];
	struct cm_msg m;

	memset(&m, 0, sizeof(m));
	m.hdr.attr_id = CM_ATTR_REJ;
	m.hdr.tid = wire_bits(d->mad, WIRE_TID, 0, 64);
	m.rej.remote_comm_id = local_id(d->mad);
	m.rej.reason = CM_REJ_CONSUMER_DEFINED;
	wire_build(&m, expected);
	must_equal(h->w, mad, expected, "answer of nobody");
	note_again(h);
}

/* A REQ names the QP of this end's peer: its own QP has failed, or the peer is asked by another REP whether it knows the connection. */
static void
asked_whether_stale(struct host *h, struct pair *p, unsigned int side, const uint8_t *mad)
{
	struct wire_end *e = &p->end[side];
	struct cm_msg m = watch_msg(h, p, side, CM_ATTR_DREQ, watch_own_tid(h, p, side));
	uint8_t expected[CM_MAD_BYTES];

	if (h->gone != NULL) {
		wire_build(&m, expected);
		must_equal(h->w, mad, expected, "failed QP");
		note_sent(h, p, side, mad);
		return;
	}
	must_equal(h->w, mad, e->last, "question");
	note_again(h);
	if (attr_of(mad) != CM_ATTR_REP || side != PASSIVE || (e->probed_ns != 0 && h->w->now - e->probed_ns < 5000 * MS))
		failed(h->w, "a peer is asked by a %s whether it is there, or again too soon", name_of(mad));
	e->probed_ns = h->w->now;
	e->probes = 2;
	e->due_ns = h->w->now + 1000 * MS;
}

static void
sent_as_answer(struct host *h, struct doing *d, const struct cm_av *av, const uint8_t *mad)
{
	struct world *w = h->w;
	unsigned int side;
	struct pair *p;
	struct wire_end *e;
	uint8_t expected[CM_MAD_BYTES];
	struct cm_msg m;

	if (!same_av(av, d->av))
		failed(w, "a %s is answered elsewhere", name_of(d->mad));
	if (d->nb_sent < stateless(h)) {
		sent_statelessly(h, d, mad);
		return;
	}
	if (d->bad)
		failed(w, "a %s that isn't right is answered", name_of(d->mad));
	if (attr_of(mad) == CM_ATTR_SIDR_REP) {
		asker_answered_again(w, d, mad);
		note_again(h);
		return;
	}
	e = end_that_sent(w, h, mad, &p, &side);
	if (e != NULL && (e == d->stale || (w->rebooted && attr_of(d->mad) == CM_ATTR_REQ && attr_of(mad) != CM_ATTR_REJ && d->nb_sent == 1))) {
		asked_whether_stale(h, p, side, mad);
		return;
	}
	if (e == NULL) {
		ghost_refused(h, d, mad);
		return;
	}
	if (memcmp(mad, e->last, CM_MAD_BYTES) == 0) {
		if (!may_repeat(w, d, mad))
			failed(w, "a %s makes it repeat a %s", name_of(d->mad), name_of(mad));
		note_again(h);
		if (e->forgot_qp)
			e->due_ns = w->now + e->kept_ns;
		return;
	}
	/* Both disconnect at once, or the peer again what has ended. */
	if (attr_of(mad) != CM_ATTR_DREP || attr_of(d->mad) != CM_ATTR_DREQ)
		failed(w, "a %s is answered with a %s", name_of(d->mad), name_of(mad));
	m = watch_msg(h, p, side, attr_of(mad), attr_of(mad) == CM_ATTR_DREP ? wire_bits(d->mad, WIRE_TID, 0, 64) : watch_own_tid(h, p, side));
	wire_build(&m, expected);
	must_equal(w, mad, expected, "answer");
	note_sent(h, p, side, mad);
}

void
watch_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
	struct host *h = arg;
	struct doing *d = h->doing;

	if (d == NULL)
		failed(h->w, "host %u sends a %s for no reason", h->number, name_of(mad));
	if (d->what == CALL)
		sent_by_call(h, d, av, mad);
	else if (d->what == TIMER)
		sent_by_timer(h, av, mad);
	else
		sent_as_answer(h, d, av, mad);
	d->nb_sent++;
	h->nb_sent++;
	if (cm_counters(h->cm)->tx_mads != h->nb_sent || cm_counters(h->cm)->retransmissions != h->nb_again)
		failed(h->w, "host %u counts %" PRIu64 " MADs, %" PRIu64 " of them again; has sent %" PRIu64 " and %" PRIu64, h->number,
		       cm_counters(h->cm)->tx_mads, cm_counters(h->cm)->retransmissions, h->nb_sent, h->nb_again);
}

