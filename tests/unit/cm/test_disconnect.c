/* SPDX-License-Identifier: BSD-3-Clause */
/* DREQ and DREP, TimeWait, LAP, and cm_destroy() in every state. */
#include "rig.h"

#include <errno.h>

static const uint8_t big[CM_MAD_BYTES];

static void
a_DREQ_is_answered_when_the_owner_says_so(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	assert_int_equal(cm_disconnect(a, (struct cm_private){ "bye", 3 }, r->now), 0);
	rig_sent(&r->a, CM_ATTR_DREQ, &m);
	assert_int_equal(m.dreq.remote_qpn, RIG_QPN_B);
	rig_deliver(&r->a);
	assert_memory_equal(rig_expect(&r->b, CM_EV_DISCONNECT)->msg.dreq.private_data, "bye", 4);
	assert_int_equal(cm_conn_state(b), CM_DREQ_RCVD);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_disconnect(b, (struct cm_private){ big, CM_DREP_PRIVATE_BYTES + 1 }, r->now), EINVAL);
	assert_int_equal(cm_disconnect(b, no_data, r->now), 0);
	rig_deliver(&r->b);
	assert_false(rig_expect(&r->a, CM_EV_DISCONNECTED)->ev.timed_out);
	assert_int_equal(cm_conn_state(a), CM_TIMEWAIT);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	assert_int_equal(cm_disconnect(a, no_data, r->now), EINVAL);
	cm_destroy(a, r->now);
	cm_destroy(b, r->now);
	rig_free_clean(r);
}

static void
the_passive_end_may_disconnect_as_well(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	cm_disconnect(b, no_data, r->now);
	rig_sent(&r->b, CM_ATTR_DREQ, &m);
	assert_int_equal(m.dreq.remote_qpn, RIG_QPN_A);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_DISCONNECT);
	cm_disconnect(a, no_data, r->now);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECTED);
	rig_free(r);
}

static void
both_ends_may_disconnect_at_once(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);

	cm_disconnect(a, no_data, r->now);
	cm_disconnect(b, no_data, r->now);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECTED);
	assert_int_equal(r->b.nb_out, 2); /* its DREQ and the DREP */
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_DISCONNECTED);
	rig_settle(r);
	assert_int_equal(cm_conn_state(a), CM_TIMEWAIT);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	rig_expect_none(&r->a);
	rig_expect_none(&r->b);
	cm_destroy(a, r->now);
	cm_destroy(b, r->now);
	rig_free_clean(r);
}

static void
a_DREQ_that_its_own_DREP_overtook_is_answered_in_TimeWait(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct rig_mad dreq;
	struct cm_msg m;

	cm_disconnect(a, no_data, r->now);
	cm_disconnect(b, no_data, r->now);
	dreq = r->b.out[0];
	rig_lose(&r->b);
	rig_deliver(&r->a);
	rig_sent(&r->b, CM_ATTR_DREP, &m);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_DISCONNECTED);
	rig_carry(&r->b, &dreq);
	rig_sent(&r->a, CM_ATTR_DREP, &m);
	assert_int_equal(m.drep.remote_comm_id, cm_conn_local_id(b));
	rig_expect_none(&r->a);
	rig_free(r);
}

static void
an_unanswered_DREQ_is_repeated_and_then_taken_for_answered(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	cm_disconnect(a, no_data, r->now);
	rig_lose(&r->a);
	for (unsigned int i = 0; i < CM_DEFAULT_RETRIES; i++) {
		rig_wait(r, RIG_INTERVAL + RIG_TICK);
		rig_sent(&r->a, CM_ATTR_DREQ, &m);
		rig_lose(&r->a);
		rig_expect_none(&r->a);
	}
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	assert_true(rig_expect(&r->a, CM_EV_DISCONNECTED)->ev.timed_out);
	assert_int_equal(cm_conn_state(a), CM_TIMEWAIT);
	rig_free(r);
}

static void
a_repeated_DREQ_gets_the_DREP_again(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct rig_mad dreq;
	struct cm_msg m;

	cm_disconnect(a, no_data, r->now);
	dreq = r->a.out[0];
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	rig_carry(&r->a, &dreq);
	rig_expect_none(&r->b);
	cm_disconnect(b, (struct cm_private){ "drep", 4 }, r->now);
	rig_lose(&r->b);
	rig_carry(&r->a, &dreq);
	rig_sent(&r->b, CM_ATTR_DREP, &m);
	assert_memory_equal(m.drep.private_data, "drep", 5);
	rig_expect_none(&r->b);
	assert_int_equal(cm_counters(r->b.cm)->dreq_duplicate, 2);
	rig_free(r);
}

static void
a_DREQ_for_an_unknown_connection_gets_a_DREP(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_DREQ, 77);
	m.dreq.local_comm_id = 0x1234;
	m.dreq.remote_comm_id = 0x5678;
	rig_forge(r, &m);
	rig_sent(&r->b, CM_ATTR_DREP, &m);
	assert_int_equal(m.hdr.tid, 77);
	assert_int_equal(m.drep.local_comm_id, 0x5678);
	assert_int_equal(m.drep.remote_comm_id, 0x1234);
	rig_expect_none(&r->b);
	rig_free(r);
}

static void
a_DREQ_for_another_QP_is_dropped(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	m = rig_dreq(a, b, RIG_QPN_B + 1);
	rig_forge(r, &m);
	rig_expect_none(&r->b);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_counters(r->b.cm)->rx_wrong_qpn, 1);
	m.dreq.remote_qpn = RIG_QPN_B;
	rig_forge(r, &m);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	rig_free(r);
}

static void
a_stranger_cannot_disconnect_or_reject_others(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	uint8_t mad[CM_MAD_BYTES];
	struct cm_av av;
	struct cm_msg m;

	av = rig_av(&r->b);
	av.remote_gid.raw[15] = 99;
	m = rig_dreq(a, b, RIG_QPN_B);
	cm_mad_encode(&m, mad);
	cm_rx(r->b.cm, &av, mad, sizeof(mad), r->now);
	m = rig_rej(a, b, CM_REJ_CONSUMER_DEFINED);
	cm_mad_encode(&m, mad);
	cm_rx(r->b.cm, &av, mad, sizeof(mad), r->now);
	rig_expect_none(&r->b);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	/* The peer itself, but with an ID that isn't the connection's. */
	m.rej.local_comm_id++;
	rig_forge(r, &m);
	rig_expect_none(&r->b);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	rig_free(r);
}

static void
a_DREQ_that_overtakes_the_RTU_disconnects(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);
	struct rig_mad rtu;

	cm_rtu(a, no_data, r->now);
	rtu = r->a.out[0];
	rig_lose(&r->a);
	cm_disconnect(a, no_data, r->now);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	rig_carry(&r->a, &rtu);
	rig_expect_none(&r->b);
	assert_int_equal(cm_conn_state(b), CM_DREQ_RCVD);
	rig_free(r);
}

static void
a_REJ_ends_an_established_connection(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	m = rig_rej(a, b, CM_REJ_NO_RESOURCES);
	rig_forge(r, &m);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->ev.state, CM_TIMEWAIT);
	rig_free(r);
}

/* ---- TimeWait ---- */
static void
TimeWait_lasts_as_long_as_the_ACK_timeout_says_and_keeps_the_ID(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_disconnected(&a, &b);
	struct cm_usage u;

	cm_destroy(b, r->now);
	cm_usage(r->b.cm, &u);
	assert_int_equal(u.conns, 1);
	rig_wait(r, RIG_TIMEWAIT - RIG_TICK);
	rig_expect_none(&r->a);
	cm_usage(r->b.cm, &u);
	assert_int_equal(u.conns, 1);
	rig_wait(r, 2 * RIG_TICK);
	assert_int_equal(rig_expect(&r->a, CM_EV_TIMEWAIT_EXIT)->ev.state, CM_IDLE);
	cm_usage(r->b.cm, &u);
	assert_int_equal(u.conns, 0);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

static void
an_ID_is_never_soon_the_same_again(void **state)
{
	struct cm_config one = { .max_conns = 1 };
	struct rig *r = rig_new(&one);
	uint32_t ids[100];

	for (unsigned int i = 0; i < 100; i++) {
		struct cm_conn *a = rig_connect(r);

		ids[i] = cm_conn_local_id(a);
		assert_int_not_equal(ids[i], 0);
		for (unsigned int j = 0; j < i; j++)
			assert_int_not_equal(ids[i], ids[j]);
		cm_destroy(a, r->now);
	}
	rig_free(r);
}

/* ---- LAP, APR ---- */
static void
expect_apr(struct rig *r, uint8_t status)
{
	struct cm_msg m;

	rig_sent(&r->b, CM_ATTR_APR, &m);
	assert_int_equal(m.apr.status, status);
	rig_lose(&r->b);
}

static void
a_LAP_is_the_owners_to_answer(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	const struct rig_event *ev;
	struct cm_msg lap, m;

	assert_int_equal(cm_apr(b, CM_APR_SUCCESS, no_data, no_data), EINVAL);
	lap = rig_lap(a, b, RIG_QPN_B);
	lap.hdr.tid = 5;
	lap.lap.alternate.flow_label = 0xabcde;
	rig_forge(r, &lap);
	ev = rig_expect(&r->b, CM_EV_LAP);
	assert_ptr_equal(ev->ev.conn, b);
	assert_int_equal(ev->msg.lap.alternate.flow_label, 0xabcde);
	/* Until the owner has decided, a repetition is nothing new. */
	rig_forge(r, &lap);
	rig_expect_none(&r->b);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_counters(r->b.cm)->rx_duplicate, 1);
	assert_int_equal(cm_apr(b, CM_APR_INVALID_GID, (struct cm_private){ big, CM_ARI_BYTES + 1 }, no_data), EINVAL);
	assert_int_equal(cm_apr(b, CM_APR_INVALID_GID, no_data, (struct cm_private){ big, CM_APR_PRIVATE_BYTES + 1 }), EINVAL);
	assert_int_equal(cm_apr(b, CM_APR_INVALID_GID, (struct cm_private){ "0123456789abcdef", 16 }, no_data), 0);
	rig_sent(&r->b, CM_ATTR_APR, &m);
	assert_int_equal(m.apr.status, CM_APR_INVALID_GID);
	assert_int_equal(m.apr.info_bytes, 16);
	assert_memory_equal(m.apr.info, "0123456789abcdef", 16);
	assert_int_equal(m.apr.remote_comm_id, cm_conn_local_id(a));
	assert_int_equal(m.apr.local_comm_id, cm_conn_local_id(b));
	assert_int_equal(m.hdr.tid, 5);
	rig_lose(&r->b);
	assert_int_equal(cm_apr(b, CM_APR_SUCCESS, no_data, no_data), EINVAL);
	/* Afterwards it gets the same answer, and another LAP is another. */
	rig_forge(r, &lap);
	expect_apr(r, CM_APR_INVALID_GID);
	rig_expect_none(&r->b);
	lap.hdr.tid = 6;
	rig_forge(r, &lap);
	rig_expect(&r->b, CM_EV_LAP);
	assert_int_equal(cm_apr(b, CM_APR_SUCCESS, no_data, no_data), 0);
	expect_apr(r, CM_APR_SUCCESS);
	assert_int_equal(cm_counters(r->b.cm)->apr_loaded, 1);
	assert_int_equal(cm_counters(r->b.cm)->apr_refused, 1);
	rig_destroy(r, a, b);
	rig_free(r);
}

static void
a_LAP_that_is_nobodys_is_answered_with_the_status_that_fits(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg lap;

	lap = rig_lap(a, b, RIG_QPN_B + 1);
	rig_forge(r, &lap);
	expect_apr(r, CM_APR_INVALID_QPN);
	lap.lap.remote_comm_id++;
	rig_forge(r, &lap);
	expect_apr(r, CM_APR_INVALID_COMM_ID);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	rig_expect_none(&r->b);
	rig_free(r);
}

/* 12.8.1: the active end asks. */
static void
a_LAP_to_the_active_end_and_an_unasked_APR_change_nothing(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg lap, m;

	lap = rig_lap(b, a, RIG_QPN_A);
	rig_forge_from(&r->b, &lap);
	rig_sent(&r->a, CM_ATTR_APR, &m);
	assert_int_equal(m.apr.status, CM_APR_UNSUPPORTED);
	rig_deliver(&r->a);
	assert_int_equal(cm_counters(r->b.cm)->rx_wrong_state, 1);
	rig_expect_none(&r->a);
	rig_expect_none(&r->b);
	rig_free(r);
}

/* ---- cm_destroy() ---- */
static void
destroy_before_an_answer_rejects_the_request(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);

	cm_destroy(b, r->now);
	rig_deliver(&r->b);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_CONSUMER_DEFINED);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

static void
destroy_after_the_REP_reaches_a_peer_that_waits_for_it(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);

	rig_accept(r, b);
	rig_lose(&r->b);
	cm_destroy(b, r->now);
	rig_deliver(&r->b);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_CONSUMER_DEFINED);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

static void
destroy_after_the_REP_reaches_a_peer_that_is_established_even_if_all_is_lost_once(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);

	cm_rtu(a, no_data, r->now);
	rig_lose(&r->a);
	cm_destroy(b, r->now);
	assert_int_equal(rig_lose(&r->b), 2); /* REJ and DREQ */
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_DISCONNECT);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

static void
destroy_when_established_sends_a_DREQ_until_it_is_answered(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	cm_destroy(a, r->now);
	rig_lose(&r->a);
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	rig_sent(&r->a, CM_ATTR_DREQ, &m);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	cm_destroy(b, r->now);
	rig_sent(&r->b, CM_ATTR_DREP, &m);
	rig_settle(r);
	rig_expect_none(&r->a);
	rig_free_clean(r);
}

static void
destroy_of_a_RESPONSE_rejects_the_REP(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);

	cm_destroy(a, r->now);
	rig_deliver(&r->a);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->msg.rej.msg_rejected, CM_MSG_OF_REP);
	cm_destroy(b, r->now);
	rig_free_clean(r);
}

static void
a_withdrawn_REP_is_rejected_again_when_the_RTU_comes(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);

	assert_int_equal(cm_reject(b, CM_REJ_NO_QP, no_data, no_data, r->now), 0);
	rig_lose(&r->b);
	cm_rtu(a, no_data, r->now);
	rig_settle(r);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_NO_QP);
	rig_expect_none(&r->b);
	rig_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_DREQ_is_answered_when_the_owner_says_so),
		cmocka_unit_test(the_passive_end_may_disconnect_as_well),
		cmocka_unit_test(both_ends_may_disconnect_at_once),
		cmocka_unit_test(a_DREQ_that_its_own_DREP_overtook_is_answered_in_TimeWait),
		cmocka_unit_test(an_unanswered_DREQ_is_repeated_and_then_taken_for_answered),
		cmocka_unit_test(a_repeated_DREQ_gets_the_DREP_again),
		cmocka_unit_test(a_DREQ_for_an_unknown_connection_gets_a_DREP),
		cmocka_unit_test(a_DREQ_for_another_QP_is_dropped),
		cmocka_unit_test(a_stranger_cannot_disconnect_or_reject_others),
		cmocka_unit_test(a_DREQ_that_overtakes_the_RTU_disconnects),
		cmocka_unit_test(a_REJ_ends_an_established_connection),
		cmocka_unit_test(TimeWait_lasts_as_long_as_the_ACK_timeout_says_and_keeps_the_ID),
		cmocka_unit_test(an_ID_is_never_soon_the_same_again),
		cmocka_unit_test(a_LAP_is_the_owners_to_answer),
		cmocka_unit_test(a_LAP_that_is_nobodys_is_answered_with_the_status_that_fits),
		cmocka_unit_test(a_LAP_to_the_active_end_and_an_unasked_APR_change_nothing),
		cmocka_unit_test(destroy_before_an_answer_rejects_the_request),
		cmocka_unit_test(destroy_after_the_REP_reaches_a_peer_that_waits_for_it),
		cmocka_unit_test(destroy_after_the_REP_reaches_a_peer_that_is_established_even_if_all_is_lost_once),
		cmocka_unit_test(destroy_when_established_sends_a_DREQ_until_it_is_answered),
		cmocka_unit_test(destroy_of_a_RESPONSE_rejects_the_REP),
		cmocka_unit_test(a_withdrawn_REP_is_rejected_again_when_the_RTU_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
