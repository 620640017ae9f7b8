/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: peers that repeat their NAKs, for sequence errors and for receivers that are not ready, and true NAKs that look like it. */
#include "rig.h"
#include "transport/core/types_priv.h"

/* A NAK as if the peer had sent it for PSN @p psn. */
static void
inject_sequence_nak(struct rig *r, uint32_t psn)
{
	uint8_t aeth[4];

	wire_put_aeth(aeth, WIRE_NAK_PSN_SEQ, 0);
	pair_inject(r->p, r->a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = psn }, aeth, sizeof(aeth));
}

enum { NAK_RTT_NS = 100 * PAIR_US };

/*
 * The first packet of a WRITE of eight has been lost and sent again, and is on its way. Before, a round trip of NAK_RTT_NS was
 * measured, if @p measured.
 */
static uint32_t
resent_up(struct rig *r, struct loss *l, const struct conn_opts *co, bool measured)
{
	uint32_t psn;

	rig_up_cc(r, NULL, co, &(struct tp_port_config){ .features = { .tail_loss_probe = true } });
	if (measured) {
		r->p->stalled = true;
		rig_write(r, 1000, 0, 16);
		pair_advance(r->p, NAK_RTT_NS);
		r->p->stalled = false;
		pair_settle(r->p);
		expect_cqe(&r->a->scq, 1000, UROCE_WC_SUCCESS);
		assert_int_equal(r->a->qp->loss.srtt_ns, NAK_RTT_NS);
	}
	psn = r->a->qp->req.psn_una;
	*l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	r->p->lose = lose;
	r->p->lose_arg = l;
	rig_write(r, 1, 0, 8 * 1024);
	pair_settle(r->p);
	inject_sequence_nak(r, psn);
	pair_settle(r->p);
	assert_int_equal(counters(r, 0)->packet_seq_err, 1);
	assert_int_equal(pair_count(r->p, 0, WIRE_OP_WRITE_FIRST), 2);
	assert_int_equal(r->a->qp->loss.retry_left, r->a->qp->loss.retry_cnt - 1);
	return psn;
}

/* Its peer answers each packet of the first flight. */
static void
repeated_sequence_naks_use_up_no_retries(void **state)
{
	for (unsigned int measured = 0; measured < 2; measured++) {
		struct loss l;
		struct rig r;
		uint32_t psn = resent_up(&r, &l, &(struct conn_opts){ .retry_cnt = 2 }, measured);

		for (unsigned int i = 0; i < 6; i++) {
			r.p->now += NAK_RTT_NS / 8;
			inject_sequence_nak(&r, psn);
			pair_settle(r.p);
		}
		expect_no_cqe(&r.a->scq);
		assert_int_equal(counters(&r, 0)->rx_nak_repeated, 6);
		assert_int_equal(counters(&r, 0)->packet_seq_err, 1);
		assert_int_equal(r.a->qp->loss.retry_left, 1);
		assert_int_equal(pair_count(r.p, 0, WIRE_OP_WRITE_FIRST), 2);
		l.count = 0;
		pair_advance(r.p, 200 * PAIR_MS);
		expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
		assert_memory_equal(r.abuf, r.bbuf, 8 * 1024);
		rig_down(&r);
	}
}

/* They take longer than a round trip. There is one for each packet at most, so the next one is about the retransmission. */
static void
repeated_sequence_naks_use_up_no_retries_for_as_many_as_there_were_packets(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn = resent_up(&r, &l, &(struct conn_opts){ .retry_cnt = 2 }, true);

	for (unsigned int i = 0; i < 8; i++) {
		r.p->now += i < 2 ? NAK_RTT_NS / 2 : 0;
		inject_sequence_nak(&r, psn);
		pair_settle(r.p);
	}
	assert_int_equal(counters(&r, 0)->rx_nak_repeated, 8);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 1);
	assert_int_equal(r.a->qp->loss.retry_left, 1);
	l.count = 0;
	inject_sequence_nak(&r, psn);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->rx_nak_repeated, 8);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 2);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* What was sent again is lost, too: its NAK comes a round trip later and counts. */
static void
sequence_nak_a_round_trip_after_the_retransmission_counts(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn = resent_up(&r, &l, &(struct conn_opts){ .retry_cnt = 2 }, true);

	r.p->now += NAK_RTT_NS;
	l.count = 0;
	inject_sequence_nak(&r, psn);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->rx_nak_repeated, 0);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 2);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* The packets before it have arrived since. */
static void
sequence_nak_of_a_later_packet_counts_at_once(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn = resent_up(&r, &l, NULL, true);

	inject_sequence_nak(&r, psn + 3);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->rx_nak_repeated, 0);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 2);
	rig_down(&r);
}

/* The round trip was a short one this time: the NAK that is taken for a repeated one is true, and no other comes. */
static void
timer_repairs_what_an_ignored_nak_asked_for(void **state)
{
	for (unsigned int measured = 0; measured < 2; measured++) {
		struct loss l;
		struct rig r;
		uint32_t psn = resent_up(&r, &l, &(struct conn_opts){ .retry_cnt = 2 }, measured);

		r.p->now += NAK_RTT_NS / 2;
		inject_sequence_nak(&r, psn);
		pair_settle(r.p);
		assert_int_equal(counters(&r, 0)->rx_nak_repeated, 1);
		l.count = 0;
		pair_advance(r.p, measured ? 8 * NAK_RTT_NS : 4 * (uint64_t)(4096 << PAIR_TIMEOUT));
		expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
		rig_down(&r);
	}
}

static void
without_a_timer_each_sequence_nak_counts(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn = resent_up(&r, &l, NULL, true);

	r.p->now += NAK_RTT_NS;
	r.a->qp->loss.timeout = 0;
	inject_sequence_nak(&r, psn);
	pair_settle(r.p);
	l.count = 0;
	inject_sequence_nak(&r, psn);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->rx_nak_repeated, 0);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* What was missing arrives before its NAK has left, and after it what had been dropped first; more was dropped behind that. */
static void
a_nak_that_could_not_leave_asks_for_what_is_missing_then(void **state)
{
	static const uint32_t arrive[] = { 1, 2, 0, 1 };
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY, .migreq = true, .ackreq = true };
	uint8_t reth[WIRE_RETH_BYTES];
	struct rig r;
	uint32_t psn;

	rig_up(&r, NULL, NULL);
	psn = r.b->qp->rcv.epsn;
	wire_put_reth(reth, ADDR(r.bbuf), r.bmr->key, 0);
	for (uint32_t i = 0; i < RTE_DIM(arrive); i++) {
		b.psn = wire_psn_add(psn, arrive[i]);
		pair_inject(r.p, r.b, &b, reth, sizeof(reth));
	}
	assert_int_equal(r.p->nb_log, 0);
	pair_settle(r.p);
	assert_int_equal(pair_count(r.p, 1, -1), 1);
	assert_int_equal(r.p->log[0].syndrome, WIRE_NAK_PSN_SEQ);
	assert_int_equal(r.p->log[0].bth.psn, wire_psn_add(psn, 2));
	rig_down(&r);
}

/* ---- RNR NAKs ---- */
enum {
	RNR_CODE = 12, RNR_NS = 640 * PAIR_US, /* of the first RNR NAK */
	LONG_CODE = 14, LONG_NS = 1280 * PAIR_US,
	SHORT_CODE = 1, /* 10 us */
};

static void
inject_rnr_nak(struct rig *r, uint32_t psn, uint8_t code)
{
	uint8_t aeth[4];

	wire_put_aeth(aeth, (uint8_t)(WIRE_AETH_RNR_NAK | code), 0);
	pair_inject(r->p, r->a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = psn }, aeth, sizeof(aeth));
	pair_settle(r->p);
}

/* A SEND that found no receive has just been told to wait RNR_NS; then a receive is posted. */
static uint32_t
waits_up(struct rig *r, const struct conn_opts *co)
{
	rig_up(r, NULL, co);
	rig_send(r, 1, 0, 100);
	pair_settle(r->p);
	assert_true(r->a->qp->loss.rnr_wait);
	end_recv(r->b, 1, SGE(r->bbuf, 100, r->bmr), 1);
	return r->a->qp->req.psn_una;
}

/* The SEND goes again after @p ns more, and not before. */
static void
resent_after(struct rig *r, uint64_t ns)
{
	uint32_t sent = pair_count(r->p, 0, WIRE_OP_SEND_ONLY);

	pair_advance(r->p, ns - 20 * PAIR_US);
	assert_int_equal(pair_count(r->p, 0, WIRE_OP_SEND_ONLY), sent);
	pair_advance(r->p, 40 * PAIR_US);
	assert_int_equal(pair_count(r->p, 0, WIRE_OP_SEND_ONLY), sent + 1);
	expect_cqe(&r->a->scq, 1, UROCE_WC_SUCCESS);
}

static const struct conn_opts one_rnr_retry = { .min_rnr_timer = RNR_CODE, .rnr_retry = 1 };

static void
rnr_nak_during_the_wait_makes_it_longer(void **state)
{
	struct rig r;
	uint32_t psn = waits_up(&r, &one_rnr_retry);

	pair_advance(r.p, RNR_NS / 2);
	inject_rnr_nak(&r, psn, RNR_CODE);
	inject_rnr_nak(&r, psn, LONG_CODE);
	expect_no_cqe(&r.a->scq);
	resent_after(&r, LONG_NS);
	assert_int_equal(counters(&r, 0)->rnr_nak_received, 3);
	rig_down(&r);
}

static void
rnr_nak_during_the_wait_never_makes_it_shorter(void **state)
{
	struct rig r;
	uint32_t psn = waits_up(&r, &one_rnr_retry);

	inject_rnr_nak(&r, psn, SHORT_CODE);
	resent_after(&r, RNR_NS);
	rig_down(&r);
}

/* Not longer than one RNR NAK could make it: 655.36 ms. */
static void
repeated_rnr_naks_hold_a_request_for_no_longer_than_the_longest_timer(void **state)
{
	struct rig r;
	uint32_t psn = waits_up(&r, &one_rnr_retry);
	unsigned int naks = 0;

	while (r.a->qp->loss.rnr_wait && naks++ < 4000) {
		inject_rnr_nak(&r, psn, RNR_CODE);
		pair_advance(r.p, RNR_NS / 2);
	}
	assert_in_range(naks, 2047, 2051);
	rig_down(&r);
}

/* The wait is over, but there was no room to send: it goes on, and no retry is used up. */
static void
rnr_nak_before_the_retransmission_is_no_second_retry(void **state)
{
	struct rig r;
	uint32_t psn = waits_up(&r, &one_rnr_retry);

	r.a->qp->loss.deadline_ns = r.p->now += RNR_NS;
	r.a->qp->loss.rnr_wait = false;
	inject_rnr_nak(&r, psn, RNR_CODE);
	expect_no_cqe(&r.a->scq);
	resent_after(&r, RNR_NS);
	rig_down(&r);
}

static void
rnr_nak_after_the_retransmission_uses_up_a_retry(void **state)
{
	struct rig r;
	uint32_t psn = waits_up(&r, &one_rnr_retry);
	struct loss l = { .from = 0, .opcode = -1, .count = UINT32_MAX };

	r.p->lose = lose;
	r.p->lose_arg = &l;
	pair_advance(r.p, RNR_NS + 10 * PAIR_US);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_SEND_ONLY), 2);
	inject_rnr_nak(&r, psn, RNR_CODE);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RNR_RETRY_EXC_ERR);
	rig_down(&r);
}

static void
refuse_two_sends(struct rig *r)
{
	rig_up(r, NULL, &one_rnr_retry);
	rig_send(r, 1, 0, 100);
	rig_send(r, 2, 100, 100);
	pair_settle(r->p);
}

/* A request that was refused was executed since, and the next one is refused: its wait is one of its own. */
static void
rnr_nak_for_a_later_request_begins_a_wait_of_its_own(void **state)
{
	struct rig r;
	uint32_t psn;

	refuse_two_sends(&r);
	psn = r.a->qp->req.psn_una;
	pair_advance(r.p, RNR_NS / 2);
	inject_rnr_nak(&r, psn + 1, RNR_CODE);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(r.a->qp->loss.rnr_left, 0);
	assert_int_equal(r.a->qp->loss.deadline_ns, r.p->now + RNR_NS);
	rig_down(&r);
}

/* ... but it doesn't end before the first one's. */
static void
rnr_nak_for_a_later_request_makes_the_wait_no_shorter(void **state)
{
	struct rig r;
	uint64_t until;

	refuse_two_sends(&r);
	until = r.a->qp->loss.deadline_ns;
	inject_rnr_nak(&r, r.a->qp->req.psn_una + 1, SHORT_CODE);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_true(r.a->qp->loss.rnr_wait);
	assert_int_equal(r.a->qp->loss.deadline_ns, until);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repeated_sequence_naks_use_up_no_retries),
		cmocka_unit_test(repeated_sequence_naks_use_up_no_retries_for_as_many_as_there_were_packets),
		cmocka_unit_test(sequence_nak_a_round_trip_after_the_retransmission_counts),
		cmocka_unit_test(sequence_nak_of_a_later_packet_counts_at_once),
		cmocka_unit_test(timer_repairs_what_an_ignored_nak_asked_for),
		cmocka_unit_test(without_a_timer_each_sequence_nak_counts),
		cmocka_unit_test(a_nak_that_could_not_leave_asks_for_what_is_missing_then),
		cmocka_unit_test(rnr_nak_during_the_wait_makes_it_longer),
		cmocka_unit_test(rnr_nak_during_the_wait_never_makes_it_shorter),
		cmocka_unit_test(repeated_rnr_naks_hold_a_request_for_no_longer_than_the_longest_timer),
		cmocka_unit_test(rnr_nak_before_the_retransmission_is_no_second_retry),
		cmocka_unit_test(rnr_nak_after_the_retransmission_uses_up_a_retry),
		cmocka_unit_test(rnr_nak_for_a_later_request_begins_a_wait_of_its_own),
		cmocka_unit_test(rnr_nak_for_a_later_request_makes_the_wait_no_shorter),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
