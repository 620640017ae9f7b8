/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, SIDR, and what floods and hostile MADs meet. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Listeners ---- */
static struct cm_listener *
listen_to(struct rig *r, enum cm_listen_scope scope, const struct gid *gid, void *owner)
{
	struct cm_listen_param p = { .service_id = RIG_SERVICE, .scope = scope, .owner = owner };

	if (gid != NULL)
		p.gid = *gid;
	return cm_listen(r->b.cm, &p);
}

static void *
request_owner(struct rig *r)
{
	struct cm_conn *a = rig_connect(r);
	const struct rig_event *ev;
	void *owner = NULL;

	rig_deliver(&r->a);
	if (r->b.seen < r->b.nb_events) {
		ev = rig_expect(&r->b, CM_EV_REQUEST);
		owner = ev->ev.owner;
		cm_destroy(ev->ev.conn, r->now);
	}
	rig_settle(r);
	rig_expect(&r->a, CM_EV_REJECTED);
	cm_destroy(a, r->now);
	return owner;
}

static void
a_request_goes_to_the_most_specific_listener(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listener *any, *v4, *gid;
	int any_owner, v4_owner, v6_owner, gid_owner, other_owner;
	struct gid other_gid = r->b.gid;

	other_gid.raw[15]++;
	assert_null(request_owner(r));
	assert_non_null(listen_to(r, CM_LISTEN_ANY_IPV6, NULL, &v6_owner));
	assert_non_null(listen_to(r, CM_LISTEN_GID, &other_gid, &other_owner));
	assert_null(request_owner(r));
	any = listen_to(r, CM_LISTEN_ANY, NULL, &any_owner);
	assert_ptr_equal(request_owner(r), &any_owner);
	v4 = listen_to(r, CM_LISTEN_ANY_IPV4, NULL, &v4_owner);
	assert_ptr_equal(request_owner(r), &v4_owner);
	gid = listen_to(r, CM_LISTEN_GID, &r->b.gid, &gid_owner);
	assert_ptr_equal(request_owner(r), &gid_owner);
	cm_unlisten(r->b.cm, gid);
	assert_ptr_equal(request_owner(r), &v4_owner);
	cm_unlisten(r->b.cm, v4);
	assert_ptr_equal(request_owner(r), &any_owner);
	cm_unlisten(r->b.cm, any);
	assert_null(request_owner(r));
	rig_free_clean(r);
}

static void
an_IPv6_address_meets_the_IPv6_listener(void **state)
{
	struct rig *r = rig_new(NULL);
	int v4_owner, v6_owner;

	r->a.gid = (struct gid){ { 0xfd, 0, 0, 0x18, [15] = 1 } };
	r->b.gid = (struct gid){ { 0xfd, 0, 0, 0x18, [15] = 2 } };
	assert_non_null(listen_to(r, CM_LISTEN_ANY_IPV4, NULL, &v4_owner));
	assert_null(request_owner(r));
	assert_non_null(listen_to(r, CM_LISTEN_ANY_IPV6, NULL, &v6_owner));
	assert_ptr_equal(request_owner(r), &v6_owner);
	rig_free(r);
}

static void
a_service_ID_is_listened_to_once_per_scope(void **state)
{
	struct rig *r = rig_new(NULL);

	assert_non_null(listen_to(r, CM_LISTEN_ANY, NULL, NULL));
	assert_null(listen_to(r, CM_LISTEN_ANY, NULL, NULL));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(listen_to(r, CM_LISTEN_GID, &r->b.gid, NULL));
	assert_null(listen_to(r, CM_LISTEN_GID, &r->b.gid, NULL));
	assert_int_equal(errno, EADDRINUSE);
	rig_free(r);
}

static void
listeners_are_bounded(void **state)
{
	struct cm_config cfg = { .max_conns = 4, .max_listeners = 3 };
	struct rig *r = rig_new(&cfg);
	struct cm_listen_param p = { .scope = CM_LISTEN_ANY };
	struct cm_listener *last = NULL;

	for (p.service_id = 1; p.service_id <= 3; p.service_id++)
		assert_non_null(last = cm_listen(r->b.cm, &p));
	assert_null(cm_listen(r->b.cm, &p));
	assert_int_equal(errno, ENOSPC);
	/* One that has gone makes room for another, and for no more. */
	cm_unlisten(r->b.cm, last);
	assert_non_null(cm_listen(r->b.cm, &p));
	p.service_id++;
	assert_null(cm_listen(r->b.cm, &p));
	assert_int_equal(errno, ENOSPC);
	p.backlog = CM_MAX_BACKLOG + 1;
	assert_int_equal(cm_listener_backlog(cm_listen(r->a.cm, &p)), CM_MAX_BACKLOG);
	rig_free(r);
}

static void
requests_survive_their_listener(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listener *l = rig_listen(r);
	struct cm_conn *a, *b;

	a = rig_connect_request(r, &b);
	cm_unlisten(r->b.cm, l);
	rig_accept(r, b);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_RESPONSE);
	cm_destroy(a, r->now);
	cm_destroy(b, r->now);
	rig_free_clean(r);
}

/* ---- Limits ---- */
/* A REQ of another connection each time. */
static void
flood(struct rig *r, unsigned int n, unsigned int nb_hosts)
{
	static uint32_t next = 1;
	struct rig_mad x;
	struct cm_msg m;

	for (unsigned int i = 0; i < n; i++, next++) {
		struct cm_av w = rig_av(&r->a);

		w.local_gid.raw[14] = i % nb_hosts;
		cm_msg_init(&m, CM_ATTR_REQ, next);
		m.req.local_comm_id = next;
		m.req.service_id = RIG_SERVICE;
		m.req.ca_guid = RIG_GUID_A;
		m.req.qpn = 100 + next;
		m.req.path_mtu = 3;
		m.req.primary.ack_timeout = 19;
		m.req.primary.local_gid = w.local_gid;
		m.req.primary.remote_gid = w.remote_gid;
		x.av = w;
		cm_mad_encode(&m, x.mad);
		rig_carry(&r->a, &x);
	}
}

static void
expect_refused(struct rig *r, unsigned int admitted, unsigned int refused)
{
	struct cm_msg m;

	assert_int_equal(r->b.nb_events - r->b.seen, admitted);
	assert_int_equal(r->b.nb_out, refused);
	for (unsigned int i = 0; i < refused; i++) {
		assert_int_equal(cm_mad_decode(r->b.out[i].mad, CM_MAD_BYTES, &m), CM_MAD_OK);
		assert_int_equal(m.hdr.attr_id, CM_ATTR_REJ);
		assert_int_equal(m.rej.reason, CM_REJ_NO_RESOURCES);
	}
	rig_lose(&r->b);
}

static void
requests_beyond_the_backlog_are_rejected_until_the_owner_catches_up(void **state)
{
	struct cm_listen_param p = { .service_id = RIG_SERVICE, .scope = CM_LISTEN_ANY, .backlog = 5 };
	struct cm_config cfg = { .max_conns = 100 };
	struct rig *r = rig_new(&cfg);
	struct cm_accept_param ap = rig_accept_param(r);

	assert_non_null(cm_listen(r->b.cm, &p));
	flood(r, 20, 1);
	expect_refused(r, 5, 15);
	assert_int_equal(cm_counters(r->b.cm)->rej_backlog, 15);
	assert_int_equal(cm_accept(rig_expect(&r->b, CM_EV_REQUEST)->ev.conn, &ap, r->now), 0);
	assert_int_equal(cm_reject(rig_expect(&r->b, CM_EV_REQUEST)->ev.conn, 28, no_data, no_data, r->now), 0);
	assert_int_equal(cm_counters(r->b.cm)->rej_owner, 1);
	rig_lose(&r->b);
	flood(r, 5, 1);
	expect_refused(r, 3 + 2, 3);
	rig_free(r);
}

static void
one_peer_cannot_take_more_than_its_share(void **state)
{
	struct cm_config cfg = { .max_conns = 1000, .max_per_peer = 10 };
	struct rig *r = rig_new(&cfg);

	rig_listen(r);
	flood(r, 100, 1);
	expect_refused(r, 10, 90);
	assert_int_equal(cm_counters(r->b.cm)->rej_peer_limit, 90);
	r->b.seen = r->b.nb_events;
	/* Three others and the one that has its share. */
	flood(r, 100, 4);
	expect_refused(r, 30, 70);
	rig_free(r);
}

static void
half_open_connections_are_bounded_and_leave_room_for_connecting(void **state)
{
	struct cm_config cfg = { .max_conns = 1000, .max_half_open = 50 };
	struct rig *r = rig_new(&cfg);
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_usage u;

	rig_listen(r);
	flood(r, 1000, 200);
	expect_refused(r, 50, 950);
	assert_int_equal(cm_counters(r->b.cm)->rej_half_open_limit, 950);
	p.av = rig_av(&r->b);
	assert_non_null(cm_connect(r->b.cm, &p, r->now));
	cm_usage(r->b.cm, &u);
	assert_int_equal(u.conns, 51);
	assert_int_equal(u.half_open, 50);
	rig_free(r);
}

static void
a_full_table_rejects_and_connect_says_ENOSPC(void **state)
{
	struct cm_config cfg = { .max_conns = 16 };
	struct rig *r = rig_new(&cfg);
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_sidr_param sp = { .av = rig_av(&r->b), .service_id = 1, .timeout_ns = RIG_SEC };

	rig_listen(r);
	flood(r, 20, 1);
	expect_refused(r, 16, 4);
	assert_int_equal(cm_counters(r->b.cm)->rej_table_full, 4);
	p.av = rig_av(&r->b);
	assert_null(cm_connect(r->b.cm, &p, r->now));
	assert_int_equal(errno, ENOSPC);
	assert_null(cm_sidr_request(r->b.cm, &sp, r->now));
	assert_int_equal(errno, ENOSPC);
	rig_free(r);
}

static void
kept_answers_are_bounded_and_give_way(void **state)
{
	struct cm_config cfg = { .max_conns = 32, .max_kept = 8 };
	struct rig *r = rig_new(&cfg);
	struct cm_usage u;

	rig_listen(r);
	for (unsigned int i = 0; i < 100; i++) {
		flood(r, 1, 1);
		cm_destroy(rig_expect(&r->b, CM_EV_REQUEST)->ev.conn, r->now);
		rig_lose(&r->b);
		cm_usage(r->b.cm, &u);
		assert_int_equal(u.kept, i < 8 ? i + 1 : 8);
		assert_int_equal(u.peers, 0);
	}
	assert_int_equal(cm_counters(r->b.cm)->kept_evicted, 92);
	/* A full table takes the kept ones' places. */
	flood(r, 32, 1);
	expect_refused(r, 32, 0);
	cm_usage(r->b.cm, &u);
	assert_int_equal(u.conns, 32);
	assert_int_equal(u.kept, 0);
	rig_free(r);
}

static void
without_limits_of_its_own_a_CM_has_the_defaults(void **state)
{
	enum { HALF_OPEN = 16384, PER_PEER = 8192, LISTENERS = 4096, ROUND = 1024 };
	struct cm_config cfg = { 0 };
	struct rig *r = rig_new(&cfg);
	struct cm_listen_param p = { .service_id = RIG_SERVICE, .scope = CM_LISTEN_ANY };
	const struct cm_counters *n = cm_counters(r->b.cm);
	struct cm_listener *l = cm_listen(r->b.cm, &p);
	struct cm_usage u;

	for (unsigned int i = 0; i < HALF_OPEN; i += ROUND) {
		/* One host has all that it may have, another one the rest. */
		flood(r, ROUND, 1);
		assert_int_equal(r->b.nb_events, ROUND);
		r->b.nb_events = 0;
		if (i + ROUND != PER_PEER)
			continue;
		flood(r, 1, 1);
		assert_int_equal(n->rej_peer_limit, 1);
		rig_lose(&r->b);
		/* So far the backlog was large enough; it begins anew with another listener. */
		cm_unlisten(r->b.cm, l);
		l = cm_listen(r->b.cm, &p);
		r->a.gid.raw[13] ^= 1;
	}
	cm_usage(r->b.cm, &u);
	assert_int_equal(u.half_open, HALF_OPEN);
	r->a.gid.raw[13] ^= 2;
	flood(r, 1, 1);
	assert_int_equal(n->rej_half_open_limit, 1);
	rig_lose(&r->b);
	for (p.service_id = 1; p.service_id < LISTENERS; p.service_id++)
		assert_non_null(cm_listen(r->b.cm, &p));
	assert_null(cm_listen(r->b.cm, &p));
	rig_free(r);
}

static void
no_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
}

static void
no_event(void *arg, const struct cm_event *ev)
{
}

static void
limits_out_of_range_are_refused(void **state)
{
	struct cm_config cfg = { .max_conns = CM_MAX_CONNS_LIMIT + 1, .ops = { .send = no_send, .event = no_event } };

	assert_null(cm_open(&cfg, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(CM_MAX_CONNS_LIMIT, 1048576);
	cfg.max_conns = 1;
	cfg.ops.send = NULL;
	assert_null(cm_open(&cfg, 0)); /* no ops */
	assert_int_equal(errno, EINVAL);
}

static void
there_is_room_for_65536_connections_by_default(void **state)
{
	const struct cm_config cfg = { .ops = { .send = no_send, .event = no_event } };
	struct cm *cm = cm_open(&cfg, 0);
	struct rig *r = rig_new(NULL);
	struct cm_connect_param p = rig_connect_param(r);

	assert_non_null(cm);
	for (unsigned int i = 0; i < 65536; i++) {
		p.qpn = i + 2;
		assert_non_null(cm_connect(cm, &p, 0));
	}
	assert_null(cm_connect(cm, &p, 0));
	assert_int_equal(errno, ENOSPC);
	cm_close(cm);
	rig_free(r);
}

/* In milliseconds: what cm.h says of them, and what Linux's RDMA CM uses (drivers/infiniband/core/cma.c). */
static void
times_are_those_of_the_field(void **state)
{
	const uint64_t ms = 1000000;

	assert_int_equal(cm_time_ns(CM_DEFAULT_RESPONSE_TIMEOUT) / ms, 4294);
	assert_int_equal(cm_time_ns(CM_DEFAULT_PACKET_LIFE) / ms, 1073);
	assert_int_equal(cm_time_ns(CM_MAX_RESPONSE_TIMEOUT) / ms, 17179);
	assert_int_equal(cm_time_ns(CM_MAX_SERVICE_TIMEOUT) / ms, 68719);
	assert_int_equal(cm_time_ns(CM_MIN_TIMEWAIT) / ms, 67);
	assert_int_equal(cm_time_ns(CM_MAX_TIMEWAIT) / ms, 8589);
	assert_int_equal(CM_DEFAULT_RETRIES, 15);
}

/* ---- SIDR ---- */
static struct cm_conn *
sidr_request(struct rig *r)
{
	struct cm_sidr_param p = {
		.av = rig_av(&r->a),
		.service_id = RIG_SERVICE,
		.timeout_ns = 4 * RIG_SEC,
		.max_retries = 3,
		.private_data = { "where", 5 },
	};
	struct cm_conn *a = cm_sidr_request(r->a.cm, &p, r->now);

	assert_non_null(a);
	return a;
}

static void
SIDR_resolves_a_service_ID_to_a_QP(void **state)
{
	struct rig *r = rig_new(NULL);
	static const uint8_t big[CM_MAD_BYTES];
	struct cm_sidr_reply_param p = { .qpn = 0x77, .qkey = 0x01234567, .private_data = { "here", 4 } }, bad = p;
	struct cm_sidr_param long_request = { .av = rig_av(&r->a), .service_id = RIG_SERVICE, .timeout_ns = RIG_SEC,
					      .private_data = { big, CM_SIDR_REQ_PRIVATE_BYTES + 1 } };
	struct cm_conn *a = sidr_request(r), *b;
	const struct rig_event *ev;

	rig_listen(r);
	rig_deliver(&r->a);
	ev = rig_expect(&r->b, CM_EV_SIDR_REQUEST);
	b = ev->ev.conn;
	assert_int_equal(ev->msg.sidr_req.pkey, rig_av(&r->a).pkey);
	assert_null(cm_sidr_request(r->a.cm, &long_request, r->now));
	bad.private_data = (struct cm_private){ big, CM_SIDR_REP_PRIVATE_BYTES + 1 };
	assert_int_equal(cm_sidr_reply(b, &bad, r->now), EINVAL);
	bad.private_data = no_data;
	bad.info = (struct cm_private){ big, CM_ARI_BYTES + 1 };
	assert_int_equal(cm_sidr_reply(b, &bad, r->now), EINVAL);
	assert_memory_equal(ev->msg.sidr_req.private_data, "where", 6);
	assert_int_equal(cm_sidr_reply(b, &p, r->now), 0);
	assert_int_equal(cm_sidr_reply(b, &p, r->now), EINVAL);
	rig_deliver(&r->b);
	ev = rig_expect(&r->a, CM_EV_SIDR_RESPONSE);
	assert_int_equal(ev->msg.sidr_rep.status, CM_SIDR_SUCCESS);
	assert_int_equal(ev->msg.sidr_rep.qpn, 0x77);
	assert_int_equal(ev->msg.sidr_rep.qkey, 0x01234567);
	assert_int_equal(ev->msg.sidr_rep.service_id, RIG_SERVICE);
	assert_memory_equal(ev->msg.sidr_rep.private_data, "here", 5);
	assert_int_equal(cm_conn_state(a), CM_IDLE);
	cm_destroy(a, r->now);
	cm_destroy(b, r->now);
	rig_free_clean(r);
}

static void
a_repeated_SIDR_REQ_gets_the_same_answer_without_a_second_event(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_sidr_reply_param p = { .qpn = 0x77 };
	struct cm_conn *b;
	struct rig_mad req;
	struct cm_msg m;

	rig_listen(r);
	sidr_request(r);
	req = r->a.out[0];
	rig_deliver(&r->a);
	b = rig_expect(&r->b, CM_EV_SIDR_REQUEST)->ev.conn;
	rig_carry(&r->a, &req);
	rig_expect_none(&r->b);
	rig_sent_nothing(&r->b);
	cm_sidr_reply(b, &p, r->now);
	cm_destroy(b, r->now);
	rig_lose(&r->b);
	rig_wait(r, 4 * RIG_SEC + RIG_TICK);
	rig_sent(&r->a, CM_ATTR_SIDR_REQ, &m);
	rig_deliver(&r->a);
	rig_expect_none(&r->b);
	rig_sent(&r->b, CM_ATTR_SIDR_REP, &m);
	assert_int_equal(m.sidr_rep.qpn, 0x77);
	rig_free(r);
}

static void
an_unanswered_SIDR_REQ_is_repeated_and_then_unreachable(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *a = sidr_request(r);

	rig_lose(&r->a);
	for (unsigned int i = 0; i < 3; i++) {
		rig_wait(r, 4 * RIG_SEC + RIG_TICK);
		assert_int_equal(rig_lose(&r->a), 1);
		rig_expect_none(&r->a);
	}
	rig_wait(r, 4 * RIG_SEC + RIG_TICK);
	assert_int_equal(rig_expect(&r->a, CM_EV_UNREACHABLE)->ev.failed_attr, CM_ATTR_SIDR_REQ);
	rig_sent_nothing(&r->a);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

static void
SIDR_to_nobody_and_SIDR_whose_owner_left_are_refused(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *a = sidr_request(r), *a2;

	rig_settle(r);
	assert_int_equal(rig_expect(&r->a, CM_EV_SIDR_RESPONSE)->msg.sidr_rep.status, CM_SIDR_UNSUPPORTED);
	rig_listen(r);
	a2 = sidr_request(r);
	rig_deliver(&r->a);
	cm_destroy(rig_expect(&r->b, CM_EV_SIDR_REQUEST)->ev.conn, r->now);
	rig_deliver(&r->b);
	assert_int_equal(rig_expect(&r->a, CM_EV_SIDR_RESPONSE)->msg.sidr_rep.status, CM_SIDR_REJECT);
	cm_destroy(a, r->now);
	cm_destroy(a2, r->now);
	rig_free_clean(r);
}

/* ---- Hostile MADs ---- */
static void
bad_mads_are_dropped_and_each_is_counted(void **state)
{
	struct rig *r = rig_new(NULL);
	const struct cm_counters *n = cm_counters(r->b.cm);
	struct cm_av av = rig_av(&r->b);
	uint8_t good[CM_MAD_BYTES], mad[CM_MAD_BYTES];
	struct cm_msg m;
	static const struct {
		unsigned int byte, value;
	} cases[] = { { 0, 9 }, { 1, 3 }, { 2, 9 }, { 3, 0x81 }, { 17, 0x99 }, { 24 + 9, 0xfe } };

	cm_msg_init(&m, CM_ATTR_REJ, 1);
	cm_mad_encode(&m, good);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(mad, good, sizeof(mad));
		mad[cases[i].byte] = cases[i].value;
		cm_rx(r->b.cm, &av, mad, sizeof(mad), r->now);
	}
	cm_rx(r->b.cm, &av, good, 255, r->now);
	cm_rx(r->b.cm, &av, good, 0, r->now);
	assert_int_equal(n->rx_mads, 8);
	assert_int_equal(n->rx_bad_version, 2);
	assert_int_equal(n->rx_other_class, 1);
	assert_int_equal(n->rx_bad_method, 1);
	assert_int_equal(n->rx_bad_attribute, 1);
	assert_int_equal(n->rx_bad_field, 1);
	assert_int_equal(n->rx_bad_length, 2);
	rig_sent_nothing(&r->b);
	rig_free(r);
}

static uint64_t rng = 1;

static uint32_t
rnd(void)
{
	rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(rng >> 33);
}

/* IDs that hit now and then, the rest noise. */
static void
random_mad(struct rig *r, struct cm_conn *a, struct cm_conn *b, struct cm_msg *m)
{
	uint8_t mad[CM_MAD_BYTES];
	uint32_t ids[2] = { cm_conn_local_id(a), cm_conn_local_id(b) };

	cm_msg_init(m, CM_ATTR_FIRST + rnd() % CM_ATTR_COUNT, rnd());
	cm_mad_encode(m, mad);
	for (unsigned int i = CM_MAD_HDR_BYTES; i < sizeof(mad); i++)
		mad[i] = rnd() % 3 == 0 ? 0 : (uint8_t)rnd();
	cm_mad_decode(mad, sizeof(mad), m);
	if (rnd() % 2 == 0) {
		/* All messages with two IDs have them in the same places. */
		m->mra.local_comm_id = ids[rnd() % 2];
		if (m->hdr.attr_id != CM_ATTR_REQ && m->hdr.attr_id != CM_ATTR_SIDR_REQ &&
		    m->hdr.attr_id != CM_ATTR_SIDR_REP)
			m->mra.remote_comm_id = ids[rnd() % 2];
	}
	if (m->hdr.attr_id == CM_ATTR_REQ) {
		struct cm_av w = rig_av(&r->a);

		m->req.service_id = rnd() % 4 == 0 ? m->req.service_id : RIG_SERVICE;
		m->req.qpn = rnd() % 4 == 0 ? RIG_QPN_A : m->req.qpn;
		m->req.transport = 0;
		m->req.primary.local_gid = w.local_gid;
		m->req.primary.remote_gid = w.remote_gid;
	}
	if (m->hdr.attr_id == CM_ATTR_SIDR_REQ)
		m->sidr_req.service_id = RIG_SERVICE;
}

static void
random_mads_never_do_more_than_the_limits_allow(void **state)
{
	struct cm_config cfg = { .max_conns = 40, .max_kept = 4 };
	struct cm_usage u;

	for (unsigned int round = 0; round < 200; round++) {
		struct rig *r = rig_new(&cfg);
		struct cm_conn *a, *b;
		struct cm_msg m;

		rig_listen(r);
		a = rig_establish(r, &b);
		for (unsigned int i = 0; i < 200; i++) {
			random_mad(r, a, b, &m);
			rig_forge(r, &m);
			/* An answer for each at most, and what a stale connection adds. */
			assert_true(rig_lose(&r->b) <= 2);
			rig_wait(r, rnd() % 10 == 0 ? rnd() % (3 * RIG_SEC) : 0);
			rig_lose(&r->b);
			cm_usage(r->b.cm, &u);
			assert_true(u.conns <= 40 && u.kept <= 4 && u.half_open <= u.conns && u.timers <= u.conns);
		}
		for (unsigned int i = 0; i < r->b.nb_events; i++)
			if (r->b.events[i].ev.type == CM_EV_REQUEST || r->b.events[i].ev.type == CM_EV_SIDR_REQUEST)
				cm_destroy(r->b.events[i].ev.conn, r->now);
		cm_destroy(a, r->now);
		rig_free_clean(r);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_goes_to_the_most_specific_listener),
		cmocka_unit_test(an_IPv6_address_meets_the_IPv6_listener),
		cmocka_unit_test(a_service_ID_is_listened_to_once_per_scope),
		cmocka_unit_test(listeners_are_bounded),
		cmocka_unit_test(requests_survive_their_listener),
		cmocka_unit_test(requests_beyond_the_backlog_are_rejected_until_the_owner_catches_up),
		cmocka_unit_test(one_peer_cannot_take_more_than_its_share),
		cmocka_unit_test(half_open_connections_are_bounded_and_leave_room_for_connecting),
		cmocka_unit_test(a_full_table_rejects_and_connect_says_ENOSPC),
		cmocka_unit_test(kept_answers_are_bounded_and_give_way),
		cmocka_unit_test(without_limits_of_its_own_a_CM_has_the_defaults),
		cmocka_unit_test(limits_out_of_range_are_refused),
		cmocka_unit_test(there_is_room_for_65536_connections_by_default),
		cmocka_unit_test(times_are_those_of_the_field),
		cmocka_unit_test(SIDR_resolves_a_service_ID_to_a_QP),
		cmocka_unit_test(a_repeated_SIDR_REQ_gets_the_same_answer_without_a_second_event),
		cmocka_unit_test(an_unanswered_SIDR_REQ_is_repeated_and_then_unreachable),
		cmocka_unit_test(SIDR_to_nobody_and_SIDR_whose_owner_left_are_refused),
		cmocka_unit_test(bad_mads_are_dropped_and_each_is_counted),
		cmocka_unit_test(random_mads_never_do_more_than_the_limits_allow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
