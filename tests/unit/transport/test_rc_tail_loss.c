/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC: where nothing behind a lost packet tells of the loss, it costs a few measured round trips, not the ACK timeout,
 * and none of the retries.
 */
#include "rig.h"
#include "transport/core/types_priv.h"

enum {
	RTT_NS = 10 * PAIR_US,
	FEW_NS = 8 * RTT_NS,
	TIMEOUT_NS = 4096 << PAIR_TIMEOUT,
	PROBES = 3, /* in a row */
};

/* A connection without retries to spend, over which a message has gone in RTT_NS. */
static void
measured_up(struct rig *r, struct loss *l, const struct conn_opts *co)
{
	rig_up(r, NULL, co);
	r->p->stalled = true;
	rig_write(r, 1000, 0, 16);
	pair_advance(r->p, RTT_NS);
	r->p->stalled = false;
	pair_settle(r->p);
	expect_cqe(&r->a->scq, 1000, UROCE_WC_SUCCESS);
	assert_int_equal(r->a->qp->loss.srtt_ns, RTT_NS);
	r->p->nb_log = 0;
	r->p->lose = lose;
	r->p->lose_arg = l;
}

static const struct conn_opts no_retries = { .no_retry = true };

static void
lost_last_packet_costs_a_few_round_trips(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_LAST, .count = 1 };
	struct rig r;

	measured_up(&r, &l, &no_retries);
	rig_write(&r, 1, 0, 8 * 1024);
	pair_advance(r.p, FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 8 * 1024);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 0);
	rig_down(&r);
}

/* Nothing measured yet, and rdma_cm's timeout of two seconds. */
static void
lost_first_message_doesnt_wait_for_the_timeout(void **state)
{
	static const int lost[] = { WIRE_OP_SEND_ONLY, WIRE_OP_ACK };

	for (unsigned int i = 0; i < 2; i++) {
		struct loss l = { .from = i, .opcode = lost[i], .count = 2 };
		struct rig r;

		rig_up(&r, NULL, &(struct conn_opts){ .no_retry = true, .timeout = 19 });
		r.p->lose = lose;
		r.p->lose_arg = &l;
		end_recv(r.b, 7, SGE(r.bbuf, 100, r.bmr), 1);
		rig_send(&r, 1, 0, 100);
		pair_advance(r.p, 100 * (uint64_t)PAIR_MS);
		expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
		assert_int_equal(counters(&r, 0)->tail_loss_probes, 2);
		rig_down(&r);
	}
}

/* The same with ten packets: the answer to the first probe measures nothing, so the rest is sent after the same time again. */
static void
probe_answered_before_anything_was_measured_is_followed_by_the_rest(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .count = 10 };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_retry = true, .timeout = 19 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 10 * 1024);
	pair_advance(r.p, 30 * (uint64_t)PAIR_MS);
	assert_int_equal(r.a->qp->loss.pto_ns, 0);
	assert_int_equal(r.a->qp->loss.probe, TP_PROBE_ANSWERED);
	expect_no_cqe(&r.a->scq);
	pair_advance(r.p, 60 * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 0);
	rig_down(&r);
}

static void
lost_end_of_many_packets_costs_a_few_round_trips(void **state)
{
	/* The last 20 of 30: one packet finds out, then all are sent. */
	struct loss l = { .from = 0, .opcode = -1, .nth = 10, .count = 20 };
	struct rig r;

	measured_up(&r, &l, &no_retries);
	rig_write(&r, 1, 0, 30 * 1024);
	pair_advance(r.p, 2 * FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 30 * 1024);
	/* The probe, and all that were lost but it. */
	assert_true(counters(&r, 0)->retransmitted_packets <= 21);
	rig_down(&r);
}

static void
lost_ack_costs_a_few_round_trips(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ACK, .count = 1 };
	struct rig r;

	measured_up(&r, &l, &no_retries);
	rig_write(&r, 1, 0, 64);
	pair_advance(r.p, FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->duplicate_request, 1);
	rig_down(&r);
}

/* The second of eight packets, and the NAK for it, which the responder gives once only. */
static bool
lose_packet_and_nak(struct pair *p, const struct note *n, void *arg)
{
	uint32_t *lost = arg;
	bool packet = n->from == 0 && n->bth.opcode == WIRE_OP_WRITE_MIDDLE && *lost == 0;
	bool nak = n->from == 1 && n->syndrome == WIRE_NAK_PSN_SEQ && *lost == 1;

	*lost += packet || nak;
	return packet || nak;
}

static void
lost_nak_costs_a_few_round_trips(void **state)
{
	uint32_t lost = 0;
	struct rig r;

	measured_up(&r, NULL, &no_retries);
	r.p->lose = lose_packet_and_nak;
	r.p->lose_arg = &lost;
	rig_write(&r, 1, 0, 8 * 1024);
	pair_advance(r.p, 2 * FEW_NS);
	assert_int_equal(lost, 2);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 8 * 1024);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 0);
	rig_down(&r);
}

static void
lost_end_of_a_read_costs_a_few_round_trips(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_LAST, .count = 1 };
	struct rig r;

	measured_up(&r, &l, &no_retries);
	fill(r.bbuf, BUF, 9);
	rig_read(&r, 1, 0, 50 * 1024);
	pair_advance(r.p, FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 50 * 1024);
	rig_down(&r);
}

static void
lost_atomic_response_costs_a_few_round_trips_and_executes_once(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ATOMIC_ACK, .count = 1 };
	struct rig r;

	measured_up(&r, &l, &no_retries);
	*(uint64_t *)r.bbuf = 40;
	rig_fetch_add(&r, 1, 64, 2);
	pair_advance(r.p, FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)r.bbuf, 42);
	assert_int_equal(*(uint64_t *)(r.abuf + 64), 40);
	rig_down(&r);
}

static void
dead_peer_is_given_up_when_the_timeouts_say(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .count = UINT32_MAX };
	struct rig r;

	measured_up(&r, &l, &(struct conn_opts){ .retry_cnt = 3 });
	rig_write(&r, 1, 0, 100);
	/* Timeouts in a row: once, twice, and two times four times as long. */
	pair_advance(r.p, 11 * (uint64_t)TIMEOUT_NS - PAIR_US);
	expect_no_cqe(&r.a->scq);
	pair_advance(r.p, 10 * PAIR_US);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	/* Four transmissions, and the early ones once. */
	assert_int_equal(pair_count(r.p, 0, -1), 4 + PROBES);
	assert_int_equal(counters(&r, 0)->tail_loss_probes, PROBES);
	rig_down(&r);
}

static void
slow_peer_gets_single_packets_and_progress_is_not_lost(void **state)
{
	struct loss none = { .from = 2 };
	struct rig r;

	measured_up(&r, &none, &no_retries);
	r.p->stalled = true;
	rig_write(&r, 1, 0, 30 * 1024);
	pair_advance(r.p, 2 * PAIR_MS);
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(r.p, 0, -1), 30 + PROBES);
	/* Karn: what was sent twice measures nothing. */
	assert_int_equal(r.a->qp->loss.srtt_ns, RTT_NS);
	rig_down(&r);
}

static void
probes_that_were_no_use_become_rarer_until_a_round_trip_is_measured(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ACK, .count = 2 };
	struct rig r;

	measured_up(&r, &l, &no_retries);
	rig_write(&r, 1, 0, 64);
	pair_advance(r.p, 3 * FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(r.a->qp->loss.pto_shift, 2);
	rig_write(&r, 2, 0, 64);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(r.a->qp->loss.pto_shift, 0);
	rig_down(&r);
}

static void
nothing_is_early_with_a_timeout_of_a_few_round_trips(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .count = 1 };
	struct rig r;

	/* 65 us. */
	measured_up(&r, &l, &(struct conn_opts){ .timeout = 4, .retry_cnt = 7 });
	rig_write(&r, 1, 0, 64);
	pair_advance(r.p, 100 * PAIR_US);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->tail_loss_probes, 0);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 1);
	rig_down(&r);
}

static void
no_probe_while_waiting_for_the_receiver(void **state)
{
	struct loss none = { .from = 2 };
	struct rig r;

	/* RNR timer 14: 1.28 ms. */
	measured_up(&r, &none, &(struct conn_opts){ .no_retry = true, .min_rnr_timer = 14 });
	rig_send(&r, 1, 0, 64);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(pair_count(r.p, 0, -1), 1);
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	pair_advance(r.p, PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->tail_loss_probes, 0);
	rig_down(&r);
}

/* What can't be sent again fails when that is seen, long before the timeout. */
static void
lost_last_message_whose_memory_has_gone_fails_early(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .count = UINT32_MAX };
	struct mr *mr;
	struct rig r;

	measured_up(&r, &l, &no_retries);
	mr = host_mr(&r.p->h[0], r.abuf, 8, 0);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1, .sge = SGE(r.abuf, 8, mr),
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	pair_settle(r.p);
	mr_destroy(r.p->h[0].sh.mrs, mr);
	pair_advance(r.p, FEW_NS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_LOC_PROT_ERR);
	assert_int_equal(counters(&r, 0)->tail_loss_probes, 1);
	assert_int_equal(pair_count(r.p, 0, -1), 1);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_last_message_whose_memory_has_gone_fails_early),
		cmocka_unit_test(lost_last_packet_costs_a_few_round_trips),
		cmocka_unit_test(lost_first_message_doesnt_wait_for_the_timeout),
		cmocka_unit_test(probe_answered_before_anything_was_measured_is_followed_by_the_rest),
		cmocka_unit_test(lost_end_of_many_packets_costs_a_few_round_trips),
		cmocka_unit_test(lost_ack_costs_a_few_round_trips),
		cmocka_unit_test(lost_nak_costs_a_few_round_trips),
		cmocka_unit_test(lost_end_of_a_read_costs_a_few_round_trips),
		cmocka_unit_test(lost_atomic_response_costs_a_few_round_trips_and_executes_once),
		cmocka_unit_test(dead_peer_is_given_up_when_the_timeouts_say),
		cmocka_unit_test(slow_peer_gets_single_packets_and_progress_is_not_lost),
		cmocka_unit_test(probes_that_were_no_use_become_rarer_until_a_round_trip_is_measured),
		cmocka_unit_test(nothing_is_early_with_a_timeout_of_a_few_round_trips),
		cmocka_unit_test(no_probe_while_waiting_for_the_receiver),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
