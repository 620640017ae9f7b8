/* SPDX-License-Identifier: BSD-3-Clause */
/* The largest and smallest values that calls take, names, and records that can't be restored. */
#include "rig.h"

#include <errno.h>

#include "base/record.h"

static void
the_largest_and_smallest_values_are_taken(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_sidr_param s = { .av = rig_av(&r->a), .service_id = RIG_SERVICE };
	struct cm_msg m;

	p.qpn = 0xfffffe;
	p.path_mtu = 5;
	p.retry_count = p.rnr_retry_count = 7;
	p.max_cm_retries = 15;
	p.packet_life = 20;
	p.ack_timeout = 31;
	p.remote_response_timeout = p.local_response_timeout = CM_MAX_RESPONSE_TIMEOUT;
	assert_non_null(cm_connect(r->a.cm, &p, r->now));
	rig_sent(&r->a, CM_ATTR_REQ, &m);
	assert_int_equal(m.req.qpn, 0xfffffe);
	assert_int_equal(m.req.primary.ack_timeout, 31);
	rig_lose(&r->a);
	p.qpn = 2;
	p.path_mtu = 1;
	p.retry_count = p.rnr_retry_count = p.max_cm_retries = p.packet_life = p.ack_timeout = 0;
	p.remote_response_timeout = p.local_response_timeout = 0;
	assert_non_null(cm_connect(r->a.cm, &p, r->now));
	rig_sent(&r->a, CM_ATTR_REQ, &m);
	assert_int_equal(m.req.qpn, 2);
	assert_int_equal(m.req.primary.ack_timeout, 1);
	s.timeout_ns = 1000000;
	assert_non_null(cm_sidr_request(r->a.cm, &s, r->now));
	s.timeout_ns = cm_time_ns(CM_MAX_SERVICE_TIMEOUT);
	assert_non_null(cm_sidr_request(r->a.cm, &s, r->now));
	rig_free(r);
}

static void
an_answer_may_name_any_QP(void **state)
{
	struct cm_sidr_param s = { .service_id = RIG_SERVICE, .timeout_ns = RIG_SEC };
	struct cm_sidr_reply_param p = { .qpn = 0xffffff, .status = (enum cm_sidr_status)UINT8_MAX };
	struct rig *r = rig_new(NULL);
	struct cm_conn *b;

	rig_listen(r);
	s.av = rig_av(&r->a);
	assert_non_null(cm_sidr_request(r->a.cm, &s, r->now));
	rig_deliver(&r->a);
	b = rig_expect(&r->b, CM_EV_SIDR_REQUEST)->ev.conn;
	p.qpn++;
	assert_int_equal(cm_sidr_reply(b, &p, r->now), EINVAL);
	p.qpn--;
	p.status++;
	assert_int_equal(cm_sidr_reply(b, &p, r->now), EINVAL);
	p.status--;
	assert_int_equal(cm_sidr_reply(b, &p, r->now), 0);
	rig_deliver(&r->b);
	assert_int_equal(rig_expect(&r->a, CM_EV_SIDR_RESPONSE)->msg.sidr_rep.qpn, 0xffffff);
	rig_free(r);
}

static void
everything_has_its_name(void **state)
{
#define CM_X(name) assert_string_equal(cm_event_name(CM_EV_##name), #name);
	CM_EVENTS(CM_X)
#undef CM_X
#define CM_X(name) assert_string_equal(cm_state_name(CM_##name), #name);
	CM_STATES(CM_X)
#undef CM_X
	assert_string_equal(cm_event_name(CM_NB_EVENTS), "unknown");
	assert_string_equal(cm_state_name(CM_NB_STATES), "unknown");
	assert_string_equal(cm_attr_name(CM_ATTR_REQ - 1), "unknown");
	assert_string_equal(cm_attr_name(CM_ATTR_APR + 1), "unknown");
	cm_close(NULL);
}

/* ---- Records ---- */
static const char *
restore(struct rig *r, const struct cm_conn_record *rec, int err)
{
	const char *why = NULL;

	errno = 0;
	assert_null(cm_conn_restore(r->a.cm, rec, sizeof(*rec), NULL, 1, NULL, r->now, &why));
	assert_int_equal(errno, err);
	return why;
}

static void
a_record_that_finds_no_room_leaves_nothing_behind(void **state)
{
	static const struct cm_config one = { .max_conns = 64, .max_per_peer = 1 };
	struct rig *r = rig_new(NULL), *next = rig_new(&one);
	struct cm_conn_record rec[2];
	struct cm_conn *b[2];
	struct cm_usage u;
	const char *why;

	/* A is the one that goes on with what B had. */
	rig_listen(r);
	for (unsigned int i = 0; i < 2; i++) {
		struct cm_connect_param p = rig_connect_param(r);

		p.qpn += i;
		assert_non_null(cm_connect(r->a.cm, &p, r->now));
		rig_deliver(&r->a);
		b[i] = rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
		cm_conn_save(b[i], r->now, &rec[i]);
	}
	assert_non_null(cm_conn_restore(next->a.cm, &rec[0], sizeof(rec[0]), NULL, 1, NULL, r->now, &why));
	assert_non_null(strstr(restore(next, &rec[0], EEXIST), "another connection has it"));
	assert_non_null(strstr(restore(next, &rec[1], EDQUOT), "a limit is reached"));
	cm_usage(next->a.cm, &u);
	assert_int_equal(u.conns, 1);
	assert_int_equal(u.half_open, 1);
	assert_int_equal(u.peers, 1);
	rig_free(r);
	rig_free(next);
}

static void
numbers_of_a_record_have_their_bounds(void **state)
{
	static const uint64_t most = UINT64_C(600000000000);
	struct rig *r = rig_new(NULL);
	struct cm_conn *b, *a = rig_listen(r) != NULL ? rig_establish(r, &b) : NULL;
	struct cm_conn_record rec, bad;
	const char *why;

	cm_conn_save(a, r->now, &rec);
	rig_restart_a(r);
#define REFUSED(member, value) \
	do { \
		bad = rec; \
		bad.member = value; \
		record_seal(&bad, RECORD_CM_CONN, CM_CONN_RECORD_VERSION, sizeof(bad)); \
		assert_non_null(restore(r, &bad, EINVAL)); \
	} while (0)
	REFUSED(state, CM_NB_STATES);
	REFUSED(port, 1);
	REFUSED(qpn, 0x1000000);
	REFUSED(remote_qpn, 0x1000000);
	REFUSED(local_id, 0);
	REFUSED(request_kind, 2);
	REFUSED(request_kind, 5);
	REFUSED(timer_ns, most + 1);
	REFUSED(interval_ns, most + 1);
	REFUSED(life_ns, most + 1);
	REFUSED(timewait_ns, most + 1);
	REFUSED(kept_ns, most + 1);
	REFUSED(passive, 2);
	REFUSED(peer_to_peer, 2);
	REFUSED(xrc, 2);
	REFUSED(alternate, 2);
	REFUSED(resolved, 2);
	REFUSED(has_peer, 2);
	REFUSED(pending, 2);
	REFUSED(by_qpn, 2);
#undef REFUSED
	rec.qpn = rec.remote_qpn = 0xffffff;
	rec.interval_ns = rec.life_ns = rec.timewait_ns = rec.kept_ns = rec.timer_ns = most;
	rec.passive = rec.peer_to_peer = rec.xrc = rec.alternate = rec.resolved = rec.by_qpn = 1;
	record_seal(&rec, RECORD_CM_CONN, CM_CONN_RECORD_VERSION, sizeof(rec));
	if (cm_conn_restore(r->a.cm, &rec, sizeof(rec), NULL, 1, NULL, r->now, &why) == NULL)
		fail_msg("%s", why);
	rig_free(r);
}

/* That its REQ had an alternate path is not forgotten: the REP refuses it. */
static void
an_alternate_path_is_remembered(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_accept_param p = rig_accept_param(r);
	struct cm_conn_record rec;
	struct cm_conn *b;
	struct cm_msg m;
	const char *why;

	rig_listen(r);
	rig_connect(r);
	assert_int_equal(cm_mad_decode(r->a.out[0].mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	rig_lose(&r->a);
	m.req.alternate = m.req.primary;
	rig_forge(r, &m);
	b = rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
	cm_conn_save(b, r->now, &rec);
	rig_restart_a(r);
	b = cm_conn_restore(r->a.cm, &rec, sizeof(rec), NULL, 1, NULL, r->now, &why);
	assert_non_null(b);
	assert_int_equal(cm_accept(b, &p, r->now), 0);
	rig_sent(&r->a, CM_ATTR_REP, &m);
	assert_int_equal(m.rep.failover, CM_FAILOVER_NOT_SUPPORTED);
	rig_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_and_smallest_values_are_taken),
		cmocka_unit_test(an_answer_may_name_any_QP),
		cmocka_unit_test(everything_has_its_name),
		cmocka_unit_test(a_record_that_finds_no_room_leaves_nothing_behind),
		cmocka_unit_test(numbers_of_a_record_have_their_bounds),
		cmocka_unit_test(an_alternate_path_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
