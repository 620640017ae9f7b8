/* SPDX-License-Identifier: BSD-3-Clause */
#include "rig.h"

#include <stdlib.h>

static void
on_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
	struct rig_end *e = arg;
	struct rig_mad *m = &e->out[e->nb_out++];

	assert_true(e->nb_out <= RIG_WIRE_MAX);
	m->av = *av;
	memcpy(m->mad, mad, sizeof(m->mad));
}

static void
on_event(void *arg, const struct cm_event *ev)
{
	struct rig_end *e = arg;
	struct rig_event *x = &e->events[e->nb_events++];

	assert_true(e->nb_events <= RIG_EVENTS_MAX);
	x->ev = *ev;
	assert_int_equal(ev->state, cm_conn_state(ev->conn));
	assert_int_equal(ev->msg == NULL, ev->av == NULL);
	if (ev->msg != NULL) {
		x->msg = *ev->msg;
		x->av = *ev->av;
	}
	x->ev.msg = &x->msg;
	x->ev.av = &x->av;
}

static bool
qp_gone(void *arg, void *owner)
{
	const struct rig_end *e = arg;

	return owner != NULL && e->rig->qp_gone;
}

static void
end_init(struct rig *r, struct rig_end *e, const struct cm_config *limits, uint8_t host)
{
	struct cm_config cfg = *limits;

	e->rig = r;
	e->gid = (struct gid){ { [10] = 0xff, [11] = 0xff, 198, 18, 0, host } };
	cfg.secret.key[0] = 1000 + host;
	cfg.ops.send = on_send;
	cfg.ops.event = on_event;
	cfg.ops.qp_gone = qp_gone;
	cfg.arg = e;
	e->cm = cm_open(&cfg, r->now);
	assert_non_null(e->cm);
}

struct rig *
rig_new(const struct cm_config *limits)
{
	static const struct cm_config small = { .max_conns = 64 };
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->now = 5 * RIG_SEC;
	end_init(r, &r->a, limits != NULL ? limits : &small, 1);
	end_init(r, &r->b, limits != NULL ? limits : &small, 2);
	return r;
}

void
rig_restart_a(struct rig *r)
{
	static const struct cm_config small = { .max_conns = 64 };

	cm_close(r->a.cm);
	/* With other IDs than before. */
	end_init(r, &r->a, &small, 101);
	r->a.gid.raw[15] = 1;
}

void
rig_free(struct rig *r)
{
	cm_close(r->a.cm);
	cm_close(r->b.cm);
	free(r);
}

static void
expect_empty(struct rig_end *e)
{
	struct cm_usage u;

	cm_usage(e->cm, &u);
	assert_int_equal(u.conns, 0);
	assert_int_equal(u.half_open, 0);
	assert_int_equal(u.kept, 0);
	assert_int_equal(u.peers, 0);
	assert_int_equal(u.timers, 0);
	assert_int_equal(cm_next_timeout(e->cm), UINT64_MAX);
}

void
rig_free_clean(struct rig *r)
{
	for (unsigned int i = 0; i < 400; i++) {
		rig_settle(r);
		rig_wait(r, RIG_SEC);
	}
	expect_empty(&r->a);
	expect_empty(&r->b);
	rig_free(r);
}

static struct rig_end *
other(struct rig_end *e)
{
	return e == &e->rig->a ? &e->rig->b : &e->rig->a;
}

struct cm_av
rig_av(struct rig_end *e)
{
	return (struct cm_av){
		.local_gid = e->gid, .remote_gid = other(e)->gid, .pkey = 0xffff, .flow_label = 0x12345, .hop_limit = 64
	};
}

void
rig_carry(struct rig_end *from, const struct rig_mad *m)
{
	struct cm_av w = m->av;

	w.local_gid = m->av.remote_gid;
	w.remote_gid = m->av.local_gid;
	cm_rx(other(from)->cm, &w, m->mad, sizeof(m->mad), from->rig->now);
}

unsigned int
rig_deliver(struct rig_end *from)
{
	unsigned int n = from->nb_out;
	struct rig_mad m;

	/* What an event's handling sends comes behind. */
	for (unsigned int i = 0; i < n; i++) {
		m = from->out[i];
		rig_carry(from, &m);
	}
	memmove(from->out, from->out + n, (from->nb_out - n) * sizeof(from->out[0]));
	from->nb_out -= n;
	return n;
}

void
rig_settle(struct rig *r)
{
	while (rig_deliver(&r->a) + rig_deliver(&r->b) > 0)
		;
}

unsigned int
rig_lose(struct rig_end *from)
{
	unsigned int n = from->nb_out;

	from->nb_out = 0;
	return n;
}

void
rig_wait(struct rig *r, uint64_t ns)
{
	uint64_t end = r->now + ns, next;

	for (;;) {
		next = cm_next_timeout(r->a.cm);
		if (cm_next_timeout(r->b.cm) < next)
			next = cm_next_timeout(r->b.cm);
		if (next > end)
			break;
		/* A timer of a tick that has begun fires at the tick's end at the latest. */
		if (next > r->now)
			r->now = next;
		cm_run(r->a.cm, r->now);
		cm_run(r->b.cm, r->now);
	}
	r->now = end;
	cm_run(r->a.cm, end);
	cm_run(r->b.cm, end);
}

const struct rig_event *
rig_expect(struct rig_end *e, enum cm_event_type type)
{
	if (e->seen == e->nb_events)
		fail_msg("no event, expected %s", cm_event_name(type));
	if (e->events[e->seen].ev.type != type)
		fail_msg("event %s, expected %s", cm_event_name(e->events[e->seen].ev.type), cm_event_name(type));
	return &e->events[e->seen++];
}

void
rig_expect_none(struct rig_end *e)
{
	if (e->seen != e->nb_events)
		fail_msg("event %s, expected none", cm_event_name(e->events[e->seen].ev.type));
}

const struct cm_msg *
rig_sent(struct rig_end *e, enum cm_attr attr, struct cm_msg *m)
{
	if (e->nb_out != 1)
		fail_msg("%u MADs were sent, expected one %s", e->nb_out, cm_attr_name(attr));
	assert_int_equal(cm_mad_decode(e->out[0].mad, CM_MAD_BYTES, m), CM_MAD_OK);
	assert_string_equal(cm_attr_name(m->hdr.attr_id), cm_attr_name(attr));
	return m;
}

void
rig_sent_nothing(struct rig_end *e)
{
	struct cm_msg m;

	if (e->nb_out == 0)
		return;
	assert_int_equal(cm_mad_decode(e->out[0].mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	fail_msg("%s was sent", cm_attr_name(m.hdr.attr_id));
}

struct cm_connect_param
rig_connect_param(struct rig *r)
{
	return (struct cm_connect_param){
		.av = rig_av(&r->a),
		.service_id = RIG_SERVICE,
		.ca_guid = RIG_GUID_A,
		.qpn = RIG_QPN_A,
		.starting_psn = 0x123456,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.path_mtu = 3,
		.packet_life = CM_DEFAULT_PACKET_LIFE,
		.remote_response_timeout = CM_DEFAULT_RESPONSE_TIMEOUT,
		.local_response_timeout = CM_DEFAULT_RESPONSE_TIMEOUT,
		.max_cm_retries = CM_DEFAULT_RETRIES,
	};
}

struct cm_accept_param
rig_accept_param(struct rig *r)
{
	return (struct cm_accept_param){
		.ca_guid = RIG_GUID_B,
		.qpn = RIG_QPN_B,
		.starting_psn = 0x654321,
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = 7,
	};
}

struct cm_listener *
rig_listen(struct rig *r)
{
	struct cm_listen_param p = { .service_id = RIG_SERVICE, .scope = CM_LISTEN_ANY };
	struct cm_listener *l = cm_listen(r->b.cm, &p);

	assert_non_null(l);
	return l;
}

struct cm_conn *
rig_connect(struct rig *r)
{
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_conn *a = cm_connect(r->a.cm, &p, r->now);

	assert_non_null(a);
	return a;
}

struct cm_conn *
rig_connect_request(struct rig *r, struct cm_conn **b)
{
	struct cm_conn *a = rig_connect(r);

	rig_deliver(&r->a);
	*b = rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
	return a;
}

void
rig_accept(struct rig *r, struct cm_conn *b)
{
	struct cm_accept_param p = rig_accept_param(r);

	assert_int_equal(cm_accept(b, &p, r->now), 0);
}

struct cm_conn *
rig_connect_response(struct rig *r, struct cm_conn **b)
{
	struct cm_conn *a = rig_connect_request(r, b);

	rig_accept(r, *b);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_RESPONSE);
	return a;
}

struct cm_conn *
rig_establish(struct rig *r, struct cm_conn **b)
{
	struct cm_conn *a = rig_connect_response(r, b);

	assert_int_equal(cm_rtu(a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_ESTABLISHED);
	assert_int_equal(cm_conn_state(a), CM_ESTABLISHED);
	assert_int_equal(cm_conn_state(*b), CM_ESTABLISHED);
	return a;
}

typedef struct cm_conn *connect_fn(struct rig *r, struct cm_conn **b);

static struct rig *
new_with(connect_fn *connect, struct cm_conn **a, struct cm_conn **b)
{
	struct rig *r = rig_new(NULL);

	rig_listen(r);
	*a = connect(r, b);
	return r;
}

struct rig *
rig_new_request(struct cm_conn **a, struct cm_conn **b)
{
	return new_with(rig_connect_request, a, b);
}

struct rig *
rig_new_response(struct cm_conn **a, struct cm_conn **b)
{
	return new_with(rig_connect_response, a, b);
}

struct rig *
rig_new_established(struct cm_conn **a, struct cm_conn **b)
{
	return new_with(rig_establish, a, b);
}

struct rig *
rig_new_disconnected(struct cm_conn **a, struct cm_conn **b)
{
	struct rig *r = rig_new_established(a, b);

	assert_int_equal(cm_disconnect(*a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	assert_int_equal(cm_disconnect(*b, no_data, r->now), 0);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_DISCONNECTED);
	return r;
}

void
rig_destroy(struct rig *r, struct cm_conn *a, struct cm_conn *b)
{
	cm_destroy(a, r->now);
	rig_settle(r);
	cm_destroy(b, r->now);
}

struct cm_msg
rig_dreq(struct cm_conn *from, struct cm_conn *to, uint32_t qpn)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_DREQ, 1);
	m.dreq.local_comm_id = cm_conn_local_id(from);
	m.dreq.remote_comm_id = cm_conn_local_id(to);
	m.dreq.remote_qpn = qpn;
	return m;
}

struct cm_msg
rig_rej(struct cm_conn *from, struct cm_conn *to, uint16_t reason)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_REJ, 1);
	m.rej.local_comm_id = cm_conn_local_id(from);
	m.rej.remote_comm_id = cm_conn_local_id(to);
	m.rej.reason = reason;
	return m;
}

struct cm_msg
rig_lap(struct cm_conn *from, struct cm_conn *to, uint32_t qpn)
{
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_LAP, 5);
	m.lap.local_comm_id = cm_conn_local_id(from);
	m.lap.remote_comm_id = cm_conn_local_id(to);
	m.lap.remote_qpn = qpn;
	return m;
}

void
rig_forge_from(struct rig_end *from, const struct cm_msg *m)
{
	struct rig_mad x = { .av = rig_av(from) };

	cm_mad_encode(m, x.mad);
	rig_carry(from, &x);
}

void
rig_forge(struct rig *r, const struct cm_msg *m)
{
	rig_forge_from(&r->a, m);
}
