/* SPDX-License-Identifier: BSD-3-Clause */
/* Another CM goes on with a connection: A is replaced, B notices nothing. */
#include "rig.h"

#include <errno.h>

static int owner;

static struct cm_listener *
listen_at_a(struct rig *r)
{
	struct cm_listen_param p = { .service_id = RIG_SERVICE, .scope = CM_LISTEN_ANY };
	struct cm_listener *l = cm_listen(r->a.cm, &p);

	assert_non_null(l);
	return l;
}

/** Replace A's CM by another one that goes on with @p c; @p l gets a listener of it, unless NULL. @return its connection there. */
static struct cm_conn *
replace_with(struct rig *r, struct cm_conn *c, struct cm_listener **l, struct cm_conn_record *rec)
{
	uint32_t tid = cm_tid(r->a.cm), id = cm_conn_local_id(c);
	struct cm_conn_record next;
	struct cm_conn *again;
	const char *why;

	cm_conn_save(c, r->now, rec);
	rig_restart_a(r);
	cm_set_tid(r->a.cm, tid);
	if (l != NULL)
		*l = listen_at_a(r);
	again = cm_conn_restore(r->a.cm, rec, sizeof(*rec), l != NULL ? *l : NULL, 1, &owner, r->now, &why);
	if (again == NULL)
		fail_msg("%s", why);
	assert_int_equal(cm_conn_local_id(again), id);
	/* Nothing is lost: it is in the same tables and lists, and its timer ends in the same tick. */
	cm_conn_save(again, r->now, &next);
	assert_true(next.timer_ns >= rec->timer_ns && next.timer_ns - rec->timer_ns <= RIG_TICK);
	next.timer_ns = rec->timer_ns;
	assert_memory_equal((uint8_t *)&next + sizeof(next.head), (uint8_t *)rec + sizeof(rec->head), sizeof(next) - sizeof(next.head));
	return again;
}

static struct cm_conn *
replace(struct rig *r, struct cm_conn *c, struct cm_conn_record *rec)
{
	return replace_with(r, c, NULL, rec);
}

static void
an_established_connection_ends_as_ever(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listener *l = rig_listen(r);
	struct cm_conn_record rec;
	struct cm_conn *b, *a = rig_establish(r, &b);

	a = replace(r, a, &rec);
	assert_int_equal(cm_conn_state(a), CM_ESTABLISHED);
	assert_int_equal(cm_conn_remote_id(a), cm_conn_local_id(b));
	rig_wait(r, 1000 * RIG_SEC);
	rig_sent_nothing(&r->a);
	assert_int_equal(cm_disconnect(b, no_data, r->now), 0);
	rig_deliver(&r->b);
	assert_ptr_equal(rig_expect(&r->a, CM_EV_DISCONNECT)->ev.owner, &owner);
	assert_int_equal(cm_disconnect(a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECTED);
	cm_destroy(a, r->now);
	cm_destroy(b, r->now);
	cm_unlisten(r->b.cm, l);
	rig_free_clean(r);
}

static void
a_lost_REQ_is_repeated_by_the_next_CM(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listener *l = rig_listen(r);
	struct cm_conn_record rec;
	struct cm_conn *b, *a = rig_connect(r);
	struct cm_msg m;

	/* Answers to it, and to what the next CM asks, are known by the upper half. */
	rig_sent(&r->a, CM_ATTR_REQ, &m);
	assert_int_equal(m.hdr.tid >> 32, cm_tid(r->a.cm));
	assert_int_equal(rig_lose(&r->a), 1);
	a = replace(r, a, &rec);
	assert_int_equal(cm_conn_state(a), CM_REQ_SENT);
	while (r->a.nb_out == 0)
		rig_wait(r, RIG_SEC / 10);
	rig_deliver(&r->a);
	b = rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
	rig_accept(r, b);
	rig_deliver(&r->b);
	assert_ptr_equal(rig_expect(&r->a, CM_EV_RESPONSE)->ev.conn, a);
	assert_int_equal(cm_rtu(a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_ESTABLISHED);
	rig_destroy(r, a, b);
	cm_unlisten(r->b.cm, l);
	rig_free_clean(r);
}

/* The next CM knows which request it is, and whose; and later whose QP it is connected to. */
static void
a_request_waits_for_its_listener_s_owner_as_before(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_connect_param cp = rig_connect_param(r);
	struct cm_accept_param ap = rig_accept_param(r);
	struct cm_conn_record rec;
	struct cm_listener *l;
	struct cm_conn *a, *b;
	struct rig_mad req;
	struct cm_msg m;

	listen_at_a(r);
	cp.av = rig_av(&r->b);
	cp.ca_guid = RIG_GUID_B;
	cp.qpn = RIG_QPN_B;
	b = cm_connect(r->b.cm, &cp, r->now);
	assert_non_null(b);
	req = r->b.out[0];
	rig_deliver(&r->b);
	a = replace_with(r, rig_expect(&r->a, CM_EV_REQUEST)->ev.conn, &l, &rec);
	assert_int_equal(rec.pending, 1);
	/* The REQ is repeated. */
	rig_carry(&r->b, &req);
	rig_expect_none(&r->a);
	rig_sent_nothing(&r->a);
	/* It survives the listener, of which nothing is left. */
	cm_unlisten(r->a.cm, l);
	cm_conn_save(a, r->now, &rec);
	assert_int_equal(rec.pending, 0);
	ap.qpn = RIG_QPN_A;
	assert_int_equal(cm_accept(a, &ap, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_RESPONSE);
	assert_int_equal(cm_rtu(b, no_data, r->now), 0);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_ESTABLISHED);
	a = replace_with(r, a, &l, &rec);
	/* Another REQ of the same QP. */
	assert_int_equal(cm_mad_decode(req.mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	m.req.local_comm_id++;
	cm_mad_encode(&m, req.mad);
	rig_carry(&r->b, &req);
	rig_expect_none(&r->a);
	assert_int_equal(cm_mad_decode(r->a.out[0].mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	assert_int_equal(m.hdr.attr_id, CM_ATTR_REJ);
	assert_int_equal(m.rej.reason, CM_REJ_STALE_CONN);
	rig_lose(&r->a);
	rig_destroy(r, a, b);
	cm_unlisten(r->a.cm, l);
	rig_free_clean(r);
}

static void
expect_refused(struct rig *r, struct cm_conn_record *rec, const char *field)
{
	const char *why;

	record_seal(rec, RECORD_CM_CONN, CM_CONN_RECORD_VERSION, sizeof(*rec));
	assert_null(cm_conn_restore(r->a.cm, rec, sizeof(*rec), NULL, 1, NULL, r->now, &why));
	if (strncmp(why, field, strlen(field)) != 0)
		fail_msg("%s is refused as %s", field, why);
}

static void
records_that_cant_be_are_refused(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listener *l = rig_listen(r);
	struct cm_conn *b, *a = rig_establish(r, &b);
	struct cm_conn_record good, rec;
	const char *why;

	cm_conn_save(a, r->now, &good);
	rec = good;
	expect_refused(r, &rec, "local_id:"); /* it is there */
	assert_int_equal(errno, EEXIST);
	rec.out[3] ^= 1;
	assert_null(cm_conn_restore(r->a.cm, &rec, sizeof(rec), NULL, 1, NULL, r->now, &why));
	assert_non_null(strstr(why, "crc:"));
#define BAD(field, value) \
	do { \
		rec = good; \
		rec.field = value; \
		expect_refused(r, &rec, #field ":"); \
		assert_int_equal(errno, EINVAL); \
	} while (0)
	BAD(state, CM_NB_STATES);
	BAD(state, CM_IDLE);
	BAD(port, 1);
	BAD(qpn, 1 << 24);
	BAD(local_id, 0);
	BAD(request_kind, 99);
	BAD(timer_ns, UINT64_C(1) << 62);
	BAD(interval_ns, UINT64_C(1) << 62);
	BAD(passive, 2);
	rig_destroy(r, a, b);
	cm_unlisten(r->b.cm, l);
	rig_free_clean(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_established_connection_ends_as_ever),
		cmocka_unit_test(a_lost_REQ_is_repeated_by_the_next_CM),
		cmocka_unit_test(a_request_waits_for_its_listener_s_owner_as_before),
		cmocka_unit_test(records_that_cant_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
