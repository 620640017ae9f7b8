/* SPDX-License-Identifier: BSD-3-Clause */
/* REJ: refusals by the owner, requests that can't be served, stale connections. */
#include "rig.h"

#include <errno.h>

/* ---- REJ ---- */
static void
a_service_that_nobody_listens_to_is_rejected_with_reason_8(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *a = rig_connect(r);

	rig_settle(r);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(cm_conn_state(a), CM_IDLE);
	assert_int_equal(cm_counters(r->b.cm)->rej_no_listener, 1);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

static void
every_reason_comes_through_with_its_information(void **state)
{
	struct rig *r = rig_new(NULL);
	const struct rig_event *ev;
	struct cm_conn *a, *b;

	rig_listen(r);
	for (uint16_t reason = 1; reason <= CM_REJ_VENDOR_OPTION_NOT_SUPPORTED; reason++) {
		a = rig_connect_request(r, &b);
		assert_int_equal(cm_reject(b, reason, (struct cm_private){ "info", 4 }, (struct cm_private){ "why", 3 },
					   r->now), 0);
		rig_deliver(&r->b);
		ev = rig_expect(&r->a, CM_EV_REJECTED);
		assert_int_equal(ev->ev.reason, reason);
		assert_false(ev->ev.local);
		assert_int_equal(ev->msg.rej.ari_bytes, 4);
		assert_memory_equal(ev->msg.rej.ari, "info", 5);
		assert_memory_equal(ev->msg.rej.private_data, "why", 4);
		/* 12.9.8.3.1: only a stale connection keeps the QP from being used at once. */
		assert_int_equal(cm_conn_state(a), reason == CM_REJ_STALE_CONN ? CM_TIMEWAIT : CM_IDLE);
		cm_destroy(a, r->now);
		cm_destroy(b, r->now);
	}
	rig_free_clean(r);
}

static void
the_active_end_can_refuse_a_REP(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);
	struct cm_msg m;

	assert_int_equal(cm_reject(a, CM_REJ_INSUFFICIENT_RESP_RESOURCES, no_data, no_data, r->now), 0);
	rig_sent(&r->a, CM_ATTR_REJ, &m);
	assert_int_equal(m.rej.msg_rejected, CM_MSG_OF_REP);
	rig_deliver(&r->a);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->ev.reason, CM_REJ_INSUFFICIENT_RESP_RESOURCES);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	rig_free(r);
}

/* Its sender has no ID to tell if it has forgotten the connection. */
static void
a_REJ_without_its_senders_ID_is_known_by_the_receivers(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);
	struct cm_msg m;

	rig_accept(r, b);
	rig_lose(&r->b);
	cm_msg_init(&m, CM_ATTR_REJ, 1);
	m.rej.remote_comm_id = cm_conn_local_id(b);
	m.rej.reason = CM_REJ_CONSUMER_DEFINED;
	rig_forge(r, &m);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->ev.reason, CM_REJ_CONSUMER_DEFINED);
	assert_int_equal(cm_counters(r->b.cm)->rx_unknown_id, 0);
	cm_destroy(b, r->now);
	cm_destroy(a, r->now);
	rig_free(r);
}

/* Its sender, who never had an answer, names its own CA GUID: all of it. */
static void
a_REJ_for_an_ID_unknown_to_its_sender_names_the_GUID(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_REJ, 1);
	m.rej.local_comm_id = cm_conn_local_id(a);
	m.rej.reason = CM_REJ_TIMEOUT;
	memset(m.rej.ari, RIG_GUID_A & 0xff, 8);
	m.rej.ari_bytes = 7;
	rig_forge(r, &m);
	rig_expect_none(&r->b);
	m.rej.ari_bytes = 8;
	rig_forge(r, &m);
	rig_expect(&r->b, CM_EV_REJECTED);
	cm_destroy(b, r->now);
	cm_destroy(a, r->now);
	rig_free(r);
}

static void
a_repeated_REP_gets_the_REJ_again_and_after_TimeWait_another(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);
	struct rig_mad rep;
	struct cm_msg m;

	rig_accept(r, b);
	rep = r->b.out[0];
	rig_deliver(&r->b);
	cm_reject(a, CM_REJ_NO_QP, no_data, no_data, r->now);
	rig_lose(&r->a);
	rig_carry(&r->b, &rep);
	rig_sent(&r->a, CM_ATTR_REJ, &m);
	assert_int_equal(m.rej.reason, CM_REJ_NO_QP);
	rig_lose(&r->a);
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	assert_int_equal(cm_conn_state(a), CM_IDLE);
	rig_deliver(&r->b);
	rig_sent(&r->a, CM_ATTR_REJ, &m);
	assert_int_equal(m.rej.reason, CM_REJ_INVALID_COMM_ID);
	rig_free(r);
}

static void
a_REP_for_an_unknown_ID_is_rejected_with_reason_6(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);

	cm_destroy(a, r->now);
	rig_lose(&r->a);
	rig_accept(r, b);
	rig_settle(r);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->ev.reason, CM_REJ_INVALID_COMM_ID);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	rig_free(r);
}

static void
a_REQ_that_is_withdrawn_ends_the_request(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);

	/* The active end knows no ID of the other yet: found by its CA GUID and its own ID. */
	cm_destroy(a, r->now);
	rig_deliver(&r->a);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->ev.reason, CM_REJ_TIMEOUT);
	assert_int_equal(cm_conn_state(b), CM_IDLE);
	cm_destroy(b, r->now);
	rig_free_clean(r);
}

/* ---- Requests that can't be served ---- */
static void
forge_req(struct rig *r, struct cm_msg *m)
{
	rig_connect(r);
	rig_sent(&r->a, CM_ATTR_REQ, m);
	rig_lose(&r->a);
}

static void
expect_rejected(struct rig *r, const struct cm_msg *req, uint16_t reason)
{
	struct cm_msg m;

	rig_forge(r, req);
	rig_sent(&r->b, CM_ATTR_REJ, &m);
	assert_int_equal(m.rej.reason, reason);
	assert_int_equal(m.rej.remote_comm_id, req->req.local_comm_id);
	rig_lose(&r->b);
	rig_expect_none(&r->b);
}

static void
requests_that_cannot_be_served_are_rejected_with_the_reason(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_msg good, m;

	rig_listen(r);
	forge_req(r, &good);
	m = good;
	m.req.transport = CM_TRANSPORT_RD;
	expect_rejected(r, &m, CM_REJ_INVALID_TRANSPORT_TYPE);
	m = good;
	m.req.transport = CM_TRANSPORT_EXTENDED;
	m.req.ext_transport = CM_EXT_TRANSPORT_XRC + 1;
	expect_rejected(r, &m, CM_REJ_INVALID_TRANSPORT_TYPE);
	m = good;
	m.req.path_mtu = 0;
	expect_rejected(r, &m, CM_REJ_INVALID_MTU);
	m.req.path_mtu = 6;
	expect_rejected(r, &m, CM_REJ_INVALID_MTU);
	m = good;
	m.req.primary.remote_gid.raw[15] ^= 1;
	expect_rejected(r, &m, CM_REJ_INVALID_GID);
	m = good;
	m.req.primary.local_gid.raw[15] ^= 1;
	expect_rejected(r, &m, CM_REJ_INVALID_GID);
	m = good;
	m.req.service_id = cm_service_id(CM_PS_TCP, 7);
	m.req.private_data[0] = 0xff;
	expect_rejected(r, &m, CM_REJ_CONSUMER_DEFINED);
	assert_int_equal(cm_counters(r->b.cm)->rej_bad_request, 7);
	rig_forge(r, &good);
	rig_expect(&r->b, CM_EV_REQUEST);
	rig_free(r);
}

static void
requests_without_a_usable_QP_or_ID_are_dropped_and_counted(void **state)
{
	struct rig *r = rig_new(NULL);
	static const uint32_t bad_qpns[] = { 0, 1, 0xffffff };
	struct cm_msg good, m;

	rig_listen(r);
	forge_req(r, &good);
	for (unsigned int i = 0; i < 3; i++) {
		m = good;
		m.req.qpn = bad_qpns[i];
		rig_forge(r, &m);
	}
	m = good;
	m.req.local_comm_id = 0;
	rig_forge(r, &m);
	assert_int_equal(cm_counters(r->b.cm)->rx_bad_field, 4);
	rig_expect_none(&r->b);
	rig_sent_nothing(&r->b);
	rig_free(r);
}

static void
an_alternate_path_is_honestly_refused_in_the_REP(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_accept_param p = rig_accept_param(r);
	struct cm_msg m;

	rig_listen(r);
	forge_req(r, &m);
	m.req.alternate = m.req.primary;
	rig_forge(r, &m);
	assert_int_equal(cm_accept(rig_expect(&r->b, CM_EV_REQUEST)->ev.conn, &p, r->now), 0);
	rig_sent(&r->b, CM_ATTR_REP, &m);
	assert_int_equal(m.rep.failover, CM_FAILOVER_NOT_SUPPORTED);
	rig_free(r);
}

/* ---- Stale connections ---- */
/** @return the attribute of the MAD number @p n that the passive end has sent. */
static uint16_t
sent(struct rig *r, unsigned int n, struct cm_msg *m)
{
	assert_true(n < r->b.nb_out);
	assert_int_equal(cm_mad_decode(r->b.out[n].mad, CM_MAD_BYTES, m), CM_MAD_OK);
	return m->hdr.attr_id;
}

/* Whoever can send a REQ with this address can't end the connection: its peer says that it still knows it. */
static void
a_REQ_with_a_QP_that_is_connected_is_rejected_as_stale_and_the_old_connection_goes_on(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *a, *b;
	struct cm_msg m, req;

	a = rig_connect(r);
	rig_sent(&r->a, CM_ATTR_REQ, &req);
	cm_destroy(a, r->now);
	rig_lose(&r->a);
	rig_listen(r);
	a = rig_establish(r, &b);
	for (unsigned int i = 0; i < 100; i++) {
		req.req.local_comm_id = 0x7000 + i;
		rig_forge(r, &req);
		assert_int_equal(sent(r, 0, &m), CM_ATTR_REJ);
		assert_int_equal(m.rej.reason, CM_REJ_STALE_CONN);
		/* The peer isn't asked again at once. */
		assert_int_equal(r->b.nb_out, i % 10 == 0 ? 2 : 1);
		if (i % 10 == 0)
			assert_int_equal(sent(r, 1, &m), CM_ATTR_REP);
		rig_settle(r);
		if (i % 10 == 9)
			rig_wait(r, 6 * RIG_SEC);
	}
	assert_int_equal(cm_counters(r->b.cm)->stale_probes, 10);
	assert_int_equal(cm_counters(r->b.cm)->stale_answered, 10);
	assert_int_equal(cm_counters(r->b.cm)->stale_ended, 0);
	assert_int_equal(cm_conn_state(a), CM_ESTABLISHED);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	rig_expect_none(&r->a);
	rig_expect_none(&r->b);
	rig_free(r);
}

/* A peer that was started anew, with the same CA GUID and QP, gets in when the old connection has ended. */
static void
a_peer_that_has_forgotten_a_connection_says_so_and_gets_in(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	rig_restart_a(r);
	a = rig_connect(r);
	rig_deliver(&r->a);
	assert_int_equal(sent(r, 0, &m), CM_ATTR_REJ);
	assert_int_equal(m.rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(sent(r, 1, &m), CM_ATTR_REP);
	rig_settle(r);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_STALE_CONN);
	assert_ptr_equal(rig_expect(&r->b, CM_EV_DISCONNECTED)->ev.conn, b);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	assert_int_equal(cm_counters(r->b.cm)->stale_ended, 1);
	cm_destroy(a, r->now);
	rig_wait(r, RIG_TIMEWAIT + RIG_TICK);
	rig_expect(&r->b, CM_EV_TIMEWAIT_EXIT);
	rig_connect(r);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_REQUEST);
	rig_free(r);
}

/* Linux doesn't answer a REP that it doesn't know. */
static void
a_peer_that_does_not_answer_has_forgotten_the_connection(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	unsigned int probes = 0;
	struct cm_msg m;

	rig_connect(r);
	rig_deliver(&r->a);
	assert_int_equal(sent(r, 0, &m), CM_ATTR_REJ);
	for (unsigned int i = 0; i < 5 && cm_conn_state(b) == CM_ESTABLISHED; i++) {
		rig_lose(&r->b);
		rig_wait(r, RIG_SEC + RIG_TICK);
		probes += r->b.nb_out > 0 && sent(r, 0, &m) == CM_ATTR_REP;
	}
	assert_int_equal(probes, 2);
	assert_int_equal(sent(r, 0, &m), CM_ATTR_DREQ);
	assert_int_equal(cm_conn_state(b), CM_DREQ_SENT);
	assert_int_equal(cm_counters(r->b.cm)->stale_ended, 1);
	rig_expect_none(&r->b);
	rig_free(r);
}

static void
a_connection_whose_QP_has_failed_ends_at_once(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	cm_conn_set_owner(b, r);
	r->qp_gone = true;
	rig_connect(r);
	rig_deliver(&r->a);
	assert_int_equal(sent(r, 0, &m), CM_ATTR_REJ);
	assert_int_equal(sent(r, 1, &m), CM_ATTR_DREQ);
	assert_int_equal(cm_conn_state(b), CM_DREQ_SENT);
	rig_free(r);
}

static void
a_QP_in_TimeWait_is_stale_and_free_afterwards(void **state)
{
	struct cm_conn *a, *b, *a2;
	struct rig *r = rig_new_disconnected(&a, &b);

	a2 = rig_connect(r);
	rig_settle(r);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_STALE_CONN);
	cm_destroy(a2, r->now);
	rig_wait(r, RIG_TIMEWAIT + RIG_TICK);
	rig_expect(&r->b, CM_EV_TIMEWAIT_EXIT);
	rig_expect(&r->a, CM_EV_TIMEWAIT_EXIT);
	rig_connect(r);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_REQUEST);
	rig_free(r);
}

static void
a_REP_with_a_QP_that_is_connected_is_rejected_as_stale(void **state)
{
	struct cm_conn *a, *b, *a2, *b2;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_connect_param cp = rig_connect_param(r);
	const struct rig_event *ev;
	struct cm_msg m;

	cp.qpn = RIG_QPN_A + 1;
	a2 = cm_connect(r->a.cm, &cp, r->now);
	rig_deliver(&r->a);
	b2 = rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
	rig_accept(r, b2); /* the same QP again */
	rig_deliver(&r->b);
	ev = rig_expect(&r->a, CM_EV_REJECTED);
	assert_ptr_equal(ev->ev.conn, a2);
	assert_int_equal(ev->ev.state, CM_TIMEWAIT);
	assert_true(ev->ev.local);
	assert_int_equal(ev->ev.reason, CM_REJ_STALE_CONN);
	/* Who asked for the old connection can't ask the peer about it: its QP will find out. */
	assert_int_equal(r->a.nb_out, 1);
	assert_int_equal(cm_mad_decode(r->a.out[0].mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	assert_int_equal(m.rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(m.rej.msg_rejected, CM_MSG_OF_REP);
	assert_int_equal(cm_conn_state(a), CM_ESTABLISHED);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_REJECTED);
	rig_free(r);
}

/* As above, but the old connection's QP has failed: that connection ends. */
static void
a_REP_with_the_QP_of_a_failed_connection_ends_it(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_connect_param cp = rig_connect_param(r);
	struct cm_msg m;

	cm_conn_set_owner(a, r);
	r->qp_gone = true;
	cp.qpn = RIG_QPN_A + 1;
	cm_connect(r->a.cm, &cp, r->now);
	rig_deliver(&r->a);
	rig_accept(r, rig_expect(&r->b, CM_EV_REQUEST)->ev.conn);
	rig_deliver(&r->b);
	assert_int_equal(cm_mad_decode(r->a.out[0].mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	assert_int_equal(m.rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(r->a.nb_out, 2); /* and a DREQ */
	assert_int_equal(cm_conn_state(a), CM_DREQ_SENT);
	rig_free(r);
}

/* The stale rejection of A's REQ comes first, then the DREQ: A never got a REP, and knows B's ID from the DREQ only. */
static void
a_DREQ_to_an_end_that_was_rejected_as_stale_is_answered_to_its_sender(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listener *l = rig_listen(r);
	struct cm_conn *b, *a = rig_connect_request(r, &b);
	uint32_t id = cm_conn_local_id(b);
	struct cm_msg m;

	cm_unlisten(r->b.cm, l);
	rig_wait(r, 4 * RIG_SEC);
	rig_accept(r, b);
	cm_destroy(b, r->now);
	assert_int_equal(rig_lose(&r->b), 3); /* REP, REJ, DREQ */
	rig_wait(r, 3 * RIG_SEC);
	assert_int_equal(rig_deliver(&r->a), 1);
	rig_wait(r, 5 * RIG_SEC);
	rig_lose(&r->a);
	assert_int_equal(rig_deliver(&r->b), 2); /* REJ, DREQ */
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_STALE_CONN);
	assert_int_equal(cm_conn_state(a), CM_TIMEWAIT);
	rig_sent(&r->a, CM_ATTR_DREP, &m);
	assert_int_equal(m.drep.remote_comm_id, id);
	rig_deliver(&r->a);
	assert_int_equal(cm_counters(r->b.cm)->disconnected, 1);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

/* A LAP shows that the peer knows the connection, as an RTU does; and what would be asked again is no REP any more. */
static void
a_LAP_answers_the_question_whether_the_peer_is_there(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	rig_connect(r);
	rig_deliver(&r->a);
	assert_int_equal(cm_counters(r->b.cm)->stale_probes, 1);
	rig_lose(&r->b);
	m = rig_lap(a, b, RIG_QPN_B);
	rig_forge(r, &m);
	rig_expect(&r->b, CM_EV_LAP);
	assert_int_equal(cm_counters(r->b.cm)->stale_answered, 1);
	assert_int_equal(cm_apr(b, CM_APR_SUCCESS, no_data, no_data), 0);
	rig_lose(&r->b);
	rig_wait(r, 10 * RIG_SEC);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	rig_free(r);
}

/* Nor is the peer asked by an APR. */
static void
an_APR_ends_the_question_whether_the_peer_is_there(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	m = rig_lap(a, b, RIG_QPN_B);
	rig_forge(r, &m);
	rig_expect(&r->b, CM_EV_LAP);
	rig_connect(r);
	rig_deliver(&r->a);
	assert_int_equal(cm_counters(r->b.cm)->stale_probes, 1);
	assert_int_equal(cm_apr(b, CM_APR_SUCCESS, no_data, no_data), 0);
	rig_lose(&r->b);
	rig_wait(r, 10 * RIG_SEC);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	rig_free(r);
}

/* A REQ comes twice; one copy finds no room, the other one does; and the refusal arrives last. */
static void
a_late_REJ_of_a_REQ_that_was_accepted_changes_nothing(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_established(&a, &b);
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_REJ, 1);
	m.rej.remote_comm_id = cm_conn_local_id(a);
	m.rej.msg_rejected = CM_MSG_OF_REQ;
	m.rej.reason = CM_REJ_NO_RESOURCES;
	rig_forge_from(&r->b, &m);
	rig_expect_none(&r->a);
	assert_int_equal(cm_conn_state(a), CM_ESTABLISHED);
	assert_int_equal(cm_counters(r->a.cm)->rx_wrong_state, 1);
	rig_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_that_nobody_listens_to_is_rejected_with_reason_8),
		cmocka_unit_test(every_reason_comes_through_with_its_information),
		cmocka_unit_test(the_active_end_can_refuse_a_REP),
		cmocka_unit_test(a_REJ_without_its_senders_ID_is_known_by_the_receivers),
		cmocka_unit_test(a_REJ_for_an_ID_unknown_to_its_sender_names_the_GUID),
		cmocka_unit_test(a_repeated_REP_gets_the_REJ_again_and_after_TimeWait_another),
		cmocka_unit_test(a_REP_for_an_unknown_ID_is_rejected_with_reason_6),
		cmocka_unit_test(a_REQ_that_is_withdrawn_ends_the_request),
		cmocka_unit_test(requests_that_cannot_be_served_are_rejected_with_the_reason),
		cmocka_unit_test(requests_without_a_usable_QP_or_ID_are_dropped_and_counted),
		cmocka_unit_test(an_alternate_path_is_honestly_refused_in_the_REP),
		cmocka_unit_test(a_REQ_with_a_QP_that_is_connected_is_rejected_as_stale_and_the_old_connection_goes_on),
		cmocka_unit_test(a_peer_that_has_forgotten_a_connection_says_so_and_gets_in),
		cmocka_unit_test(a_peer_that_does_not_answer_has_forgotten_the_connection),
		cmocka_unit_test(a_connection_whose_QP_has_failed_ends_at_once),
		cmocka_unit_test(a_QP_in_TimeWait_is_stale_and_free_afterwards),
		cmocka_unit_test(a_REP_with_a_QP_that_is_connected_is_rejected_as_stale),
		cmocka_unit_test(a_REP_with_the_QP_of_a_failed_connection_ends_it),
		cmocka_unit_test(a_DREQ_to_an_end_that_was_rejected_as_stale_is_answered_to_its_sender),
		cmocka_unit_test(a_LAP_answers_the_question_whether_the_peer_is_there),
		cmocka_unit_test(an_APR_ends_the_question_whether_the_peer_is_there),
		cmocka_unit_test(a_late_REJ_of_a_REQ_that_was_accepted_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
