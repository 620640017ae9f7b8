/* SPDX-License-Identifier: BSD-3-Clause */
/* End-to-end flow control of RC (9.7.7.2): a responder says how many receives it has, a requester heeds it. */
#include <rte_common.h>
#include <rte_mbuf.h>

#include "rig.h"

enum { RECEIVES = 6 };

static void
rig_receives(struct rig *r, uint64_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		end_recv(r->b, first + i, SGE(r->bbuf + 4096 * (first + i), 4096, r->bmr), 1);
}

static uint8_t
last_syndrome(const struct rig *r, int opcode)
{
	for (uint32_t i = r->p->nb_log; i-- > 0;)
		if (r->p->log[i].from == 1 && r->p->log[i].bth.opcode == opcode)
			return r->p->log[i].syndrome;
	fail_msg("no packet of opcode %d", opcode);
	return 0xff;
}

/* Sends that host 0 has put on the wire, first packets. */
static uint32_t
sends(const struct rig *r)
{
	return pair_count(r->p, 0, WIRE_OP_SEND_ONLY) + pair_count(r->p, 0, WIRE_OP_SEND_FIRST);
}

/* One message, so that the requester has heard of the responder's receives, of which @p left are left then. */
static void
rig_up_credits(struct rig *r, uint32_t left, const struct conn_opts *co)
{
	rig_up(r, NULL, co);
	rig_receives(r, 0, left + 1);
	rig_send(r, 1000, 0, 100);
	pair_settle(r->p);
	expect_cqe(&r->a->scq, 1000, UROCE_WC_SUCCESS);
	expect_cqe(&r->b->rcq, 0, UROCE_WC_SUCCESS);
	r->p->nb_log = 0;
}

/* ---- The responder ---- */
static void
an_ack_says_how_many_receives_are_posted(void **state)
{
	static const struct {
		uint32_t posted;
		uint8_t code;
	} cases[] = { { 1, 0 }, { 2, 1 }, { 6, 4 }, { 7, 5 }, { 64, 11 } };
	struct rig r;

	for (uint32_t i = 0; i < RTE_DIM(cases); i++) {
		rig_up(&r, NULL, NULL);
		for (uint32_t k = 0; k < cases[i].posted; k++)
			end_recv(r.b, k, SGE(r.bbuf, 100, r.bmr), 1);
		/* The engine finds more of them with each answer. */
		rig_write(&r, 7, 0, 8);
		pair_settle(r.p);
		rig_write(&r, 7, 0, 8);
		pair_settle(r.p);
		rig_send(&r, 8, 0, 100);
		pair_settle(r.p);
		/* One is used up; codes round down (table 46). */
		assert_int_equal(last_syndrome(&r, WIRE_OP_ACK), WIRE_AETH_ACK | cases[i].code);
		assert_true(wire_aeth_credits(cases[i].code) <= cases[i].posted - 1);
		rig_down(&r);
	}
}

static void
responses_of_reads_and_atomics_say_it_too(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_receives(&r, 0, 3);
	rig_read(&r, 1, 0, 100);
	rig_fetch_add(&r, 2, 0, 1);
	pair_settle(r.p);
	assert_int_equal(last_syndrome(&r, WIRE_OP_READ_RESP_ONLY), WIRE_AETH_ACK | 3);
	assert_int_equal(last_syndrome(&r, WIRE_OP_ATOMIC_ACK), WIRE_AETH_ACK | 3);
	rig_down(&r);
}

static void
an_srq_promises_nothing(void **state)
{
	struct end_srq *srq;
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_free(r.b);
	srq = srq_new(&r.p->h[1], 64, 1);
	r.b = end_new(&r.p->h[1], &(struct end_opts){ .srq = srq });
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	ends_connect(r.a, r.b, NULL);
	for (uint32_t i = 0; i < 3; i++)
		srq_post(srq, i, SGE(r.bbuf, 100, r.bmr), 1);
	rig_send(&r, 1, 0, 100);
	pair_settle(r.p);
	assert_int_equal(last_syndrome(&r, WIRE_OP_ACK), WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID);
	end_free(r.b);
	srq_free(&r.p->h[1], srq);
	r.b = end_new(&r.p->h[1], NULL);
	rig_down(&r);
}

/* ---- The requester ---- */
static void
one_send_more_than_credits_and_the_rest_waits(void **state)
{
	struct rig r;

	/* A long RNR timer: what is sent in vain would show. */
	rig_up_credits(&r, 3, &(struct conn_opts){ .min_rnr_timer = 20 });
	r.p->stalled = true;
	for (uint32_t i = 0; i < RECEIVES; i++)
		rig_send(&r, i, 0, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 4);
	assert_int_equal(counters(&r, 0)->rc_credit_waits, 1);
	/* In time for the limited one. */
	rig_receives(&r, 4, 1);
	r.p->stalled = false;
	pair_settle(r.p);
	for (uint32_t i = 0; i < 4; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	/* Its ACK says 0, and again one goes. */
	assert_int_equal(sends(&r), 5);
	assert_int_equal(counters(&r, 1)->rnr_nak_sent, 1);
	rig_receives(&r, 5, 2);
	pair_advance(r.p, 50 * PAIR_MS);
	expect_cqe(&r.a->scq, 4, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 5, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->rnr_nak_sent, 1);
	rig_down(&r);
}

static void
writes_and_reads_need_no_credits(void **state)
{
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	for (uint32_t i = 0; i < 20; i++)
		rig_write(&r, i, 0, 100);
	rig_read(&r, 20, 0, 100);
	rig_fetch_add(&r, 21, 0, 1);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 22; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->rc_credit_waits, 0);
	rig_down(&r);
}

static void
a_write_with_immediate_needs_a_credit(void **state)
{
	struct rig r;

	rig_up_credits(&r, 1, NULL);
	r.p->stalled = true;
	for (uint32_t i = 0; i < 4; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE_WITH_IMM, .sge = SGE(r.abuf, 8, r.amr),
					    .nb_sge = 1, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 2);
	rig_receives(&r, 2, 3);
	r.p->stalled = false;
	pair_settle(r.p);
	for (uint32_t i = 0; i < 4; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->rnr_nak_sent, 0);
	rig_down(&r);
}

/* An answer to the limited request that is long in coming; meanwhile the responder speaks unasked. */
static void
an_unsolicited_ack_brings_credits(void **state)
{
	struct loss l = { .from = 1, .opcode = -1, .count = UINT32_MAX };
	uint8_t aeth[WIRE_AETH_BYTES];
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	r.p->stalled = true;
	for (uint32_t i = 0; i < 4; i++)
		rig_send(&r, i, 0, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 1);
	rig_receives(&r, 1, 4);
	/* The PSN of the last ACK, another promise. */
	wire_put_aeth(aeth, WIRE_AETH_ACK | 4, 1);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 100 }, aeth, sizeof(aeth));
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 4);
	r.p->stalled = false;
	r.p->lose = lose;
	r.p->lose_arg = &l;
	pair_settle(r.p);
	r.p->lose = NULL;
	pair_advance(r.p, 200 * PAIR_MS);
	for (uint32_t i = 0; i < 4; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
a_peer_without_flow_control_gets_all_at_once(void **state)
{
	uint8_t aeth[WIRE_AETH_BYTES];
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	r.p->stalled = true;
	rig_send(&r, 0, 0, 100);
	host_turn(&r.p->h[0]);
	transport_tx(r.p->h[0].tp, 0)->n--;
	rte_pktmbuf_free(transport_tx(r.p->h[0].tp, 0)->pkts[0]);
	wire_put_aeth(aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, 2);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 101 }, aeth, sizeof(aeth));
	for (uint32_t i = 1; i < 20; i++)
		rig_send(&r, i, 0, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 19);
	assert_int_equal(counters(&r, 0)->rc_credit_waits, 0);
	rig_down(&r);
}

static void
a_new_connection_knows_nothing_of_credits(void **state)
{
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	ends_connect(r.a, r.b, NULL);
	rig_receives(&r, 0, 20);
	r.p->stalled = true;
	for (uint32_t i = 0; i < 20; i++)
		rig_send(&r, i, 0, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 20);
	r.p->stalled = false;
	pair_settle(r.p);
	rig_down(&r);
}

/* ---- Waiting ends ---- */
static bool
lose_every_other_answer(struct pair *p, const struct note *n, void *arg)
{
	uint32_t *seen = arg;

	return n->from == 1 && (*seen)++ % 2 == 0;
}

static void
lost_acks_dont_keep_sends_waiting_for_credits(void **state)
{
	uint32_t seen = 0;
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	r.p->lose = lose_every_other_answer;
	r.p->lose_arg = &seen;
	for (uint32_t i = 0; i < 20; i++)
		rig_send(&r, i, 0, 3000);
	/* Always one at a time, always too late for its first try. */
	for (uint32_t i = 0; i < 20; i++) {
		pair_advance(r.p, 300 * PAIR_MS);
		rig_receives(&r, 1 + i, 1);
	}
	pair_advance(r.p, 2000 * (uint64_t)PAIR_MS);
	for (uint32_t i = 0; i < 20; i++) {
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
		expect_cqe(&r.b->rcq, 1 + i, UROCE_WC_SUCCESS);
	}
	rig_down(&r);
}

/* A NAK acknowledges what is before it but says nothing of receives. */
static void
a_nak_that_acknowledges_the_limited_send_lets_the_next_one_go(void **state)
{
	uint8_t aeth[WIRE_AETH_BYTES];
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	r.p->stalled = true;
	rig_send(&r, 0, 0, 100);
	rig_write(&r, 1, 0, 100);
	rig_send(&r, 2, 0, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 2);
	wire_put_aeth(aeth, WIRE_NAK_PSN_SEQ, 2);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 102 }, aeth, sizeof(aeth));
	host_turn(&r.p->h[0]);
	/* The WRITE again, the second SEND, and in answer to the NAK an offer of selective repeat. */
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 5);
	rig_receives(&r, 1, 2);
	r.p->stalled = false;
	pair_settle(r.p);
	for (uint32_t i = 0; i < 3; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* A SEND that is found bad when it is to be sent, and given back to SQD, counts once when it is taken again. */
static void
a_bad_send_that_sqd_gives_back_counts_once(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .count = UINT32_MAX };
	struct ring_sge bad;
	struct rig r;

	rig_up_credits(&r, 0, NULL);
	bad = *SGE(r.abuf, 8, r.amr);
	bad.lkey ^= 1;
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 8);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .sge = &bad, .nb_sge = 1 });
	pair_settle(r.p);
	assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
	r.p->lose = NULL;
	pair_advance(r.p, 2000 * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(end_state(r.a, UROCE_QPS_RTS), 0);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_LOC_PROT_ERR);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ack_says_how_many_receives_are_posted),
		cmocka_unit_test(responses_of_reads_and_atomics_say_it_too),
		cmocka_unit_test(an_srq_promises_nothing),
		cmocka_unit_test(one_send_more_than_credits_and_the_rest_waits),
		cmocka_unit_test(writes_and_reads_need_no_credits),
		cmocka_unit_test(a_write_with_immediate_needs_a_credit),
		cmocka_unit_test(an_unsolicited_ack_brings_credits),
		cmocka_unit_test(a_peer_without_flow_control_gets_all_at_once),
		cmocka_unit_test(a_new_connection_knows_nothing_of_credits),
		cmocka_unit_test(a_bad_send_that_sqd_gives_back_counts_once),
		cmocka_unit_test(lost_acks_dont_keep_sends_waiting_for_credits),
		cmocka_unit_test(a_nak_that_acknowledges_the_limited_send_lets_the_next_one_go),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
