/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: a receiver that is not ready, and what its RNR NAKs do to the sender. */
#include "rig.h"

static void
rnr_nak_waits_and_succeeds(void **state)
{
	struct rig r;

	/* Code 12: 0.64 ms. */
	rig_up(&r, NULL, &(struct conn_opts){ .min_rnr_timer = 12 });
	rig_send(&r, 1, 0, 100);
	rig_send(&r, 2, 100, 100);
	pair_settle(r.p);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_AETH_RNR_NAK), 1);
	/* The packet behind the refused one is not NAKed. */
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_PSN_SEQ), 0);
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	end_recv(r.b, 2, SGE(r.bbuf + 100, 100, r.bmr), 1);
	pair_advance(r.p, 630 * PAIR_US);
	expect_no_cqe(&r.b->rcq);
	pair_advance(r.p, 20 * PAIR_US);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.b->rcq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 200);
	rig_down(&r);
}

static void
rnr_retry_exhausted(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rnr_retry = 2 });
	rig_send(&r, 1, 0, 100);
	rig_send(&r, 2, 0, 100);
	pair_advance(r.p, 100 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RNR_RETRY_EXC_ERR);
	expect_cqe(&r.a->scq, 2, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_AETH_RNR_NAK), 3);
	rig_down(&r);
}

static void
rnr_retry_0_fails_at_once(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_rnr_retry = true });
	rig_send(&r, 1, 0, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RNR_RETRY_EXC_ERR);
	rig_down(&r);
}

static void
rnr_retry_7_is_for_ever(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rnr_retry = 7, .no_retry = true });
	rig_send(&r, 1, 0, 100);
	pair_advance(r.p, 500 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	assert_true(counters(&r, 0)->rnr_nak_received > 100);
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	pair_advance(r.p, 1 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* An RNR NAK is an answer: slow ones between timeouts must not add up to "no answer". */
static void
slow_rnr_naks_are_no_lost_answers(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 1 });
	rig_send(&r, 1, 0, 100);
	for (unsigned int i = 0; i < 4; i++) {
		r.p->stalled = true;
		pair_advance(r.p, 70 * PAIR_MS);
		r.p->stalled = false;
		/* Ends in the RNR wait, and then in front of a wire that is stalled again. */
		pair_settle(r.p);
		expect_no_cqe(&r.a->scq);
	}
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 4);
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	pair_advance(r.p, 1 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
rnr_on_the_last_packet_of_write_with_imm_places_nothing_of_it(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1,
				    .op = UROCE_WR_RDMA_WRITE_WITH_IMM,
				    .sge = SGE(r.abuf, 2048, r.amr),
				    .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key });
	pair_settle(r.p);
	assert_memory_equal(r.bbuf, r.abuf, 1024);
	for (uint32_t i = 1024; i < 2048; i++)
		assert_int_equal(r.bbuf[i], 0);
	end_recv(r.b, 1, NULL, 0);
	pair_advance(r.p, 1 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS).byte_len, 2048);
	assert_memory_equal(r.bbuf, r.abuf, 2048);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr_nak_waits_and_succeeds),
		cmocka_unit_test(rnr_retry_exhausted),
		cmocka_unit_test(rnr_retry_0_fails_at_once),
		cmocka_unit_test(rnr_retry_7_is_for_ever),
		cmocka_unit_test(slow_rnr_naks_are_no_lost_answers),
		cmocka_unit_test(rnr_on_the_last_packet_of_write_with_imm_places_nothing_of_it),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
