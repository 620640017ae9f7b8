/* SPDX-License-Identifier: BSD-3-Clause */
/* Establishment: REQ, REP, RTU, their repetition, and MRA. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>

#include "wire/wire.h"
#include "../wire/pcap.h"


/* ---- The way it goes when nothing is lost ---- */
static void
connect_accept_rtu_establishes_both_ends(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *a, *b;
	struct cm_listener *l = rig_listen(r);

	a = rig_establish(r, &b);
	assert_int_equal(cm_conn_remote_id(a), cm_conn_local_id(b));
	assert_int_equal(cm_conn_remote_id(b), cm_conn_local_id(a));
	rig_wait(r, 1000 * RIG_SEC);
	rig_sent_nothing(&r->a);
	rig_sent_nothing(&r->b);
	rig_destroy(r, a, b);
	cm_unlisten(r->b.cm, l);
	rig_free_clean(r);
}

static void
the_request_event_carries_the_REQ_and_the_listeners_owner(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_listen_param lp = { .service_id = RIG_SERVICE, .scope = CM_LISTEN_ANY, .owner = r };
	struct cm_connect_param p = rig_connect_param(r);
	const struct rig_event *ev;

	p.private_data = (struct cm_private){ "hello", 5 };
	assert_non_null(cm_listen(r->b.cm, &lp));
	assert_non_null(cm_connect(r->a.cm, &p, r->now));
	rig_deliver(&r->a);
	ev = rig_expect(&r->b, CM_EV_REQUEST);
	assert_ptr_equal(ev->ev.owner, r);
	assert_int_equal(ev->ev.state, CM_REQ_RCVD);
	assert_int_equal(ev->msg.req.qpn, RIG_QPN_A);
	assert_int_equal(ev->msg.req.primary.ack_timeout, CM_DEFAULT_PACKET_LIFE + 1);
	assert_memory_equal(ev->msg.req.private_data, "hello\0\0\0", 8);
	rig_free(r);
}

static const struct cm_msg *linux_req;

static void
take_req(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	struct cm_msg *m = arg;
	struct wire_pkt p;

	if (strcmp(file, "rping_v4.pcap") != 0 || linux_req != NULL || wire_parse(frame, len, true, &p) != WIRE_OK)
		return;
	if (p.bth.dqpn == CM_GSI_QPN && cm_mad_decode(p.payload, p.payload_bytes, m) == CM_MAD_OK &&
	    m->hdr.attr_id == CM_ATTR_REQ)
		linux_req = m;
}

static void
connect_makes_the_same_REQ_as_Linux(void **state)
{
	struct rig *r = rig_new(NULL);
	uint8_t want[CM_MAD_BYTES], got[CM_MAD_BYTES];
	struct cm_connect_param p;
	struct cm_msg linux_msg, ours;
	const struct cm_req *q = &linux_msg.req;

	golden_for_each(take_req, &linux_msg);
	assert_non_null(linux_req);
	p = (struct cm_connect_param){
		.service_id = q->service_id, .ca_guid = q->ca_guid, .qpn = q->qpn, .starting_psn = q->starting_psn,
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7, .path_mtu = 5,
		.packet_life = CM_DEFAULT_PACKET_LIFE, .remote_response_timeout = CM_DEFAULT_RESPONSE_TIMEOUT,
		.local_response_timeout = CM_DEFAULT_RESPONSE_TIMEOUT, .max_cm_retries = CM_DEFAULT_RETRIES,
		.private_data = { q->private_data, CM_REQ_PRIVATE_BYTES },
		.av = { .local_gid = q->primary.local_gid, .remote_gid = q->primary.remote_gid, .pkey = 0xffff,
			.hop_limit = 64, .flow_label = q->primary.flow_label },
	};
	assert_non_null(cm_connect(r->a.cm, &p, r->now));
	rig_sent(&r->a, CM_ATTR_REQ, &ours);
	/* IDs are each end's own. */
	linux_msg.hdr.tid = ours.hdr.tid;
	linux_msg.req.local_comm_id = ours.req.local_comm_id;
	cm_mad_encode(&linux_msg, want);
	cm_mad_encode(&ours, got);
	assert_memory_equal(got, want, sizeof(want));
	rig_free(r);
}

/* As Linux has it (core/cm.c: cm_format_req(), cm_format_rep()). */
static void
XRC_tells_the_targets_number_in_the_place_of_an_EE_contexts(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_accept_param ap = rig_accept_param(r);
	struct cm_conn *a, *b;
	struct cm_msg m;

	rig_listen(r);
	p.transport = CM_TRANSPORT_EXTENDED;
	p.responder_resources = p.initiator_depth = 4;
	p.retry_count = p.rnr_retry_count = 7;
	p.srq = true;
	a = cm_connect(r->a.cm, &p, r->now);
	rig_sent(&r->a, CM_ATTR_REQ, &m);
	assert_int_equal(m.req.transport, 3);
	assert_int_equal(m.req.ext_transport, 1);
	assert_int_equal(m.req.qpn, RIG_QPN_A);
	assert_int_equal(m.req.initiator_depth, 4);
	assert_int_equal(m.req.responder_resources + m.req.retry_count + m.req.rnr_retry_count + m.req.srq, 0);
	rig_deliver(&r->a);
	b = rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
	ap.initiator_depth = ap.responder_resources = 3;
	assert_int_equal(cm_accept(b, &ap, r->now), 0);
	rig_sent(&r->b, CM_ATTR_REP, &m);
	assert_int_equal(m.rep.qpn, 0);
	assert_int_equal(m.rep.local_eecn, RIG_QPN_B);
	assert_int_equal(m.rep.srq, 1);
	assert_int_equal(m.rep.responder_resources, 3);
	assert_int_equal(m.rep.initiator_depth, 0);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_RESPONSE);
	assert_int_equal(cm_rtu(a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_ESTABLISHED);
	assert_int_equal(cm_disconnect(a, no_data, r->now), 0);
	rig_sent(&r->a, CM_ATTR_DREQ, &m);
	assert_int_equal(m.dreq.remote_qpn, RIG_QPN_B);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	rig_free(r);
}

/* ---- What is lost is repeated ---- */
static void
an_unanswered_REQ_is_repeated_at_its_interval_and_then_given_up_with_REJ_timeout(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *a = rig_connect(r);
	const struct rig_event *ev;
	uint64_t start = r->now;
	struct cm_msg m;

	rig_lose(&r->a);
	for (unsigned int i = 1; i <= CM_DEFAULT_RETRIES; i++) {
		rig_wait(r, start + i * RIG_INTERVAL - RIG_TICK - r->now);
		rig_sent_nothing(&r->a);
		rig_wait(r, (i + 1) * RIG_TICK);
		rig_sent(&r->a, CM_ATTR_REQ, &m);
		rig_lose(&r->a);
	}
	rig_expect_none(&r->a);
	rig_wait(r, RIG_INTERVAL + 2 * RIG_TICK);
	rig_sent(&r->a, CM_ATTR_REJ, &m);
	assert_int_equal(m.rej.reason, CM_REJ_TIMEOUT);
	assert_int_equal(m.rej.remote_comm_id, 0);
	assert_int_equal(m.rej.ari_bytes, 8);
	assert_int_equal(wire_get64(m.rej.ari), RIG_GUID_A);
	ev = rig_expect(&r->a, CM_EV_UNREACHABLE);
	assert_int_equal(ev->ev.failed_attr, CM_ATTR_REQ);
	assert_int_equal(cm_conn_state(a), CM_IDLE);
	cm_destroy(a, r->now);
	rig_free_clean(r);
}

/** A asks, and B has the REQUEST. @param req  Gets a copy of the REQ. @return B's connection. */
static struct cm_conn *
request_with_copy(struct rig *r, struct rig_mad *req)
{
	rig_listen(r);
	rig_connect(r);
	*req = r->a.out[0];
	rig_deliver(&r->a);
	return rig_expect(&r->b, CM_EV_REQUEST)->ev.conn;
}

static void
a_repeated_REQ_makes_no_second_request(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *b;
	struct rig_mad req;

	b = request_with_copy(r, &req);
	rig_carry(&r->a, &req);
	rig_expect_none(&r->b);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_conn_state(b), CM_REQ_RCVD);
	rig_free(r);
}

static void
a_repeated_REQ_gets_the_REP_again(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *b;
	struct rig_mad req;
	struct cm_msg m;

	b = request_with_copy(r, &req);
	rig_accept(r, b);
	assert_int_equal(rig_lose(&r->b), 1);
	rig_carry(&r->a, &req);
	rig_sent(&r->b, CM_ATTR_REP, &m);
	assert_int_equal(m.rep.qpn, RIG_QPN_B);
	rig_expect_none(&r->b);
	rig_free(r);
}

static void
a_repeated_REQ_gets_the_MRA_again(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *b;
	struct rig_mad req;
	struct cm_msg m;

	b = request_with_copy(r, &req);
	assert_int_equal(cm_mra(b, 22, no_data, r->now), 0);
	rig_lose(&r->b);
	rig_carry(&r->a, &req);
	rig_sent(&r->b, CM_ATTR_MRA, &m);
	assert_int_equal(m.mra.service_timeout, 22);
	rig_free(r);
}

static void
a_repeated_REQ_gets_the_REJ_again_even_after_the_owner_left(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *b;
	struct rig_mad req;
	struct cm_msg m;

	b = request_with_copy(r, &req);
	assert_int_equal(cm_reject(b, CM_REJ_CONSUMER_DEFINED, no_data, (struct cm_private){ "no", 2 }, r->now), 0);
	cm_destroy(b, r->now);
	rig_lose(&r->b);
	/* The peer repeats after its interval. */
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	rig_lose(&r->a);
	rig_carry(&r->a, &req);
	rig_expect_none(&r->b);
	rig_sent(&r->b, CM_ATTR_REJ, &m);
	assert_int_equal(m.rej.reason, CM_REJ_CONSUMER_DEFINED);
	assert_memory_equal(m.rej.private_data, "no", 3);
	rig_free(r);
}

static void
a_repeated_REP_gets_the_RTU_again(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);
	struct cm_msg m;

	assert_int_equal(cm_rtu(a, (struct cm_private){ "rtu", 3 }, r->now), 0);
	rig_lose(&r->a);
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	rig_sent(&r->b, CM_ATTR_REP, &m);
	rig_deliver(&r->b);
	rig_expect_none(&r->a);
	rig_sent(&r->a, CM_ATTR_RTU, &m);
	rig_deliver(&r->a);
	assert_memory_equal(rig_expect(&r->b, CM_EV_ESTABLISHED)->msg.rtu.private_data, "rtu", 4);
	rig_free(r);
}

static void
a_repeated_RTU_is_ignored(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);
	struct rig_mad rtu;

	cm_rtu(a, no_data, r->now);
	rtu = r->a.out[0];
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_ESTABLISHED);
	rig_carry(&r->a, &rtu);
	rig_expect_none(&r->b);
	assert_int_equal(cm_counters(r->b.cm)->rx_duplicate, 1);
	rig_free(r);
}

static void
a_REP_without_RTU_is_given_up_with_REJ_timeout_that_ends_the_other_end(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);
	struct cm_msg m;

	cm_rtu(a, no_data, r->now);
	rig_lose(&r->a);
	for (unsigned int i = 0; i < CM_DEFAULT_RETRIES; i++, rig_lose(&r->b))
		rig_wait(r, RIG_INTERVAL + RIG_TICK);
	rig_expect_none(&r->b);
	rig_wait(r, RIG_INTERVAL + RIG_TICK);
	assert_int_equal(rig_expect(&r->b, CM_EV_UNREACHABLE)->ev.failed_attr, CM_ATTR_REP);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	rig_sent(&r->b, CM_ATTR_REJ, &m);
	rig_deliver(&r->b);
	assert_int_equal(rig_expect(&r->a, CM_EV_REJECTED)->ev.reason, CM_REJ_TIMEOUT);
	assert_int_equal(cm_conn_state(a), CM_TIMEWAIT);
	rig_free(r);
}

/* ---- COMM_EST ---- */
static void
COMM_EST_stands_for_a_lost_RTU(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);

	cm_rtu(a, no_data, r->now);
	assert_int_equal(cm_establish(b, r->now), 0);
	assert_int_equal(rig_expect(&r->b, CM_EV_ESTABLISHED)->ev.state, CM_ESTABLISHED);
	assert_int_equal(cm_establish(b, r->now), EISCONN);
	rig_deliver(&r->a);
	rig_expect_none(&r->b);
	rig_wait(r, 10 * RIG_INTERVAL);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_establish(a, r->now), EISCONN);
	rig_free(r);
}

static void
COMM_EST_before_the_REP_is_refused(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);

	assert_int_equal(cm_establish(b, r->now), EINVAL);
	rig_free(r);
}

/* ---- MRA ---- */
static void
an_MRA_of_the_REQ_postpones_its_repetition(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);
	struct cm_msg m;

	assert_int_equal(cm_mra(b, 24, no_data, r->now), 0);
	rig_deliver(&r->b);
	assert_int_equal(rig_expect(&r->a, CM_EV_MRA)->msg.mra.service_timeout, 24);
	assert_int_equal(cm_conn_state(a), CM_MRA_REQ_RCVD);
	assert_int_equal(cm_conn_state(b), CM_MRA_REQ_SENT);
	rig_wait(r, cm_time_ns(24));
	rig_sent_nothing(&r->a);
	rig_wait(r, 2 * cm_time_ns(CM_DEFAULT_PACKET_LIFE) + RIG_TICK);
	rig_sent(&r->a, CM_ATTR_REQ, &m);
	rig_free(r);
}

static void
an_MRA_of_the_REP_postpones_its_repetition(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_response(&a, &b);

	assert_int_equal(cm_mra(a, 23, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_MRA);
	assert_int_equal(cm_conn_state(b), CM_MRA_REP_RCVD);
	rig_wait(r, cm_time_ns(23));
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_rtu(a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_ESTABLISHED);
	rig_free(r);
}

static void
an_MRA_cannot_hold_a_connection_longer_than_the_limit(void **state)
{
	struct cm_conn *a, *b;
	struct rig *r = rig_new_request(&a, &b);
	struct cm_msg m;

	assert_int_equal(cm_mra(b, 31, no_data, r->now), 0);
	rig_deliver(&r->b);
	rig_wait(r, cm_time_ns(CM_MAX_SERVICE_TIMEOUT) + 2 * cm_time_ns(CM_DEFAULT_PACKET_LIFE) + RIG_TICK);
	rig_sent(&r->a, CM_ATTR_REQ, &m);
	assert_int_equal(cm_conn_state(a), CM_MRA_REQ_RCVD);
	rig_free(r);
}

/* ---- Peer to peer ---- */
static struct cm_conn *
connect_peer(struct rig *r, struct rig_end *e, uint64_t guid, uint32_t qpn)
{
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_conn *c;

	p.av = rig_av(e);
	p.peer_to_peer = true;
	p.ca_guid = guid;
	p.qpn = qpn;
	c = cm_connect(e->cm, &p, r->now);
	assert_non_null(c);
	return c;
}

static void
of_two_ends_that_connect_to_each_other_the_larger_GUID_stays_active(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_accept_param p = rig_accept_param(r);
	struct cm_conn *a = connect_peer(r, &r->a, RIG_GUID_A, RIG_QPN_A);
	struct cm_conn *b = connect_peer(r, &r->b, RIG_GUID_B, RIG_QPN_B);
	struct rig_mad late = r->a.out[0];
	const struct rig_event *ev;

	rig_deliver(&r->a);
	rig_expect_none(&r->b);
	assert_int_equal(cm_conn_state(b), CM_REQ_SENT);
	assert_int_equal(cm_counters(r->b.cm)->rx_peer_active, 1);
	rig_deliver(&r->b);
	ev = rig_expect(&r->a, CM_EV_REQUEST);
	assert_ptr_equal(ev->ev.conn, a);
	assert_null(ev->ev.listener);
	p.ca_guid = RIG_GUID_A;
	p.qpn = RIG_QPN_A;
	assert_int_equal(cm_accept(a, &p, r->now), 0);
	rig_deliver(&r->a);
	assert_ptr_equal(rig_expect(&r->b, CM_EV_RESPONSE)->ev.conn, b);
	assert_int_equal(cm_rtu(b, no_data, r->now), 0);
	rig_deliver(&r->b);
	rig_expect(&r->a, CM_EV_ESTABLISHED);
	/* A copy of the passive end's REQ that comes late is not a stale connection. */
	rig_carry(&r->a, &late);
	rig_expect_none(&r->b);
	rig_sent_nothing(&r->b);
	assert_int_equal(cm_conn_state(b), CM_ESTABLISHED);
	rig_destroy(r, a, b);
	rig_free_clean(r);
}

/* It was taken over by the next REQ while it was in time wait. */
static void
a_REQ_that_was_rejected_as_stale_is_no_half_of_a_pair_any_more(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_conn *b, *old;

	rig_listen(r);
	rig_establish(r, &old);
	b = connect_peer(r, &r->b, RIG_GUID_B, RIG_QPN_B);
	rig_deliver(&r->b);
	rig_deliver(&r->a);
	assert_int_equal(rig_expect(&r->b, CM_EV_REJECTED)->ev.reason, CM_REJ_STALE_CONN);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	connect_peer(r, &r->a, RIG_GUID_B + 1, RIG_QPN_A + 1);
	rig_deliver(&r->a);
	assert_ptr_not_equal(rig_expect(&r->b, CM_EV_REQUEST)->ev.conn, b);
	assert_int_equal(cm_conn_state(b), CM_TIMEWAIT);
	rig_free(r);
}

/* ---- Arguments ---- */
static void
private_data_that_is_too_long_is_EINVAL(void **state)
{
	static const uint8_t big[CM_MAD_BYTES];
	struct rig *r = rig_new(NULL);
	struct cm_connect_param p = rig_connect_param(r);
	struct cm_accept_param ap = rig_accept_param(r);
	struct cm_private d = { big, 0 };
	struct cm_conn *a, *b;

	rig_listen(r);
	p.private_data = (struct cm_private){ big, CM_REQ_PRIVATE_BYTES + 1 };
	assert_null(cm_connect(r->a.cm, &p, r->now));
	assert_int_equal(errno, EINVAL);
	a = rig_connect_request(r, &b);
	d.len_bytes = CM_MRA_PRIVATE_BYTES + 1;
	assert_int_equal(cm_mra(b, 20, d, r->now), EINVAL);
	d.len_bytes = CM_REJ_PRIVATE_BYTES + 1;
	assert_int_equal(cm_reject(b, 28, no_data, d, r->now), EINVAL);
	d.len_bytes = CM_ARI_BYTES + 1;
	assert_int_equal(cm_reject(b, 28, d, no_data, r->now), EINVAL);
	ap.private_data = (struct cm_private){ big, CM_REP_PRIVATE_BYTES + 1 };
	assert_int_equal(cm_accept(b, &ap, r->now), EINVAL);
	ap.private_data.len_bytes--;
	assert_int_equal(cm_accept(b, &ap, r->now), 0);
	rig_deliver(&r->b);
	d.len_bytes = CM_RTU_PRIVATE_BYTES + 1;
	assert_int_equal(cm_rtu(a, d, r->now), EINVAL);
	assert_int_equal(cm_rtu(a, no_data, r->now), 0);
	d.len_bytes = CM_DREQ_PRIVATE_BYTES + 1;
	assert_int_equal(cm_disconnect(a, d, r->now), EINVAL);
	assert_int_equal(cm_conn_state(a), CM_ESTABLISHED);
	rig_free(r);
}

static void
operations_in_the_wrong_state_are_EINVAL_and_send_nothing(void **state)
{
	struct rig *r = rig_new(NULL);
	struct cm_accept_param ap = rig_accept_param(r);
	struct cm_sidr_reply_param sp = { 0 };
	struct cm_conn *a, *b;

	rig_listen(r);
	a = rig_connect(r);
	rig_lose(&r->a);
	assert_int_equal(cm_accept(a, &ap, r->now), EINVAL);
	assert_int_equal(cm_rtu(a, no_data, r->now), EINVAL);
	assert_int_equal(cm_mra(a, 20, no_data, r->now), EINVAL);
	assert_int_equal(cm_reject(a, 28, no_data, no_data, r->now), EINVAL);
	assert_int_equal(cm_disconnect(a, no_data, r->now), EINVAL);
	assert_int_equal(cm_establish(a, r->now), EINVAL);
	assert_int_equal(cm_sidr_reply(a, &sp, r->now), EINVAL);
	rig_sent_nothing(&r->a);
	cm_destroy(a, r->now);
	rig_lose(&r->a);
	a = rig_establish(r, &b);
	assert_int_equal(cm_accept(b, &ap, r->now), EINVAL);
	assert_int_equal(cm_rtu(a, no_data, r->now), EINVAL);
	assert_int_equal(cm_mra(b, 20, no_data, r->now), EINVAL);
	assert_int_equal(cm_reject(b, 28, no_data, no_data, r->now), EINVAL);
	rig_sent_nothing(&r->a);
	rig_sent_nothing(&r->b);
	rig_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_accept_rtu_establishes_both_ends),
		cmocka_unit_test(the_request_event_carries_the_REQ_and_the_listeners_owner),
		cmocka_unit_test(connect_makes_the_same_REQ_as_Linux),
		cmocka_unit_test(XRC_tells_the_targets_number_in_the_place_of_an_EE_contexts),
		cmocka_unit_test(an_unanswered_REQ_is_repeated_at_its_interval_and_then_given_up_with_REJ_timeout),
		cmocka_unit_test(a_repeated_REQ_makes_no_second_request),
		cmocka_unit_test(a_repeated_REQ_gets_the_REP_again),
		cmocka_unit_test(a_repeated_REQ_gets_the_MRA_again),
		cmocka_unit_test(a_repeated_REQ_gets_the_REJ_again_even_after_the_owner_left),
		cmocka_unit_test(a_repeated_REP_gets_the_RTU_again),
		cmocka_unit_test(a_repeated_RTU_is_ignored),
		cmocka_unit_test(a_REP_without_RTU_is_given_up_with_REJ_timeout_that_ends_the_other_end),
		cmocka_unit_test(COMM_EST_stands_for_a_lost_RTU),
		cmocka_unit_test(COMM_EST_before_the_REP_is_refused),
		cmocka_unit_test(an_MRA_of_the_REQ_postpones_its_repetition),
		cmocka_unit_test(an_MRA_of_the_REP_postpones_its_repetition),
		cmocka_unit_test(an_MRA_cannot_hold_a_connection_longer_than_the_limit),
		cmocka_unit_test(of_two_ends_that_connect_to_each_other_the_larger_GUID_stays_active),
		cmocka_unit_test(a_REQ_that_was_rejected_as_stale_is_no_half_of_a_pair_any_more),
		cmocka_unit_test(private_data_that_is_too_long_is_EINVAL),
		cmocka_unit_test(operations_in_the_wrong_state_are_EINVAL_and_send_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
