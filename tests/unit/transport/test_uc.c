/* SPDX-License-Identifier: BSD-3-Clause */
/* UC: no answers; a message arrives whole or not at all, and the next one isn't harmed. */
#include "rig.h"

static const struct end_opts uc = { .type = UROCE_QPT_UC };

static void
uc_send_and_write_arrive_without_acks(void **state)
{
	struct rig r;

	rig_up(&r, &uc, NULL);
	end_recv(r.b, 1, SGE(r.bbuf, 5000, r.bmr), 1);
	end_recv(r.b, 2, NULL, 0);
	rig_send(&r, 10, 0, 3000);
	rig_write(&r, 11, 10000, 3000);
	end_send(r.a, &(struct wr){ .id = 12,
				    .op = UROCE_WR_RDMA_WRITE_WITH_IMM,
				    .imm = 5,
				    .sge = SGE(r.abuf, 2500, r.amr),
				    .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + 20000,
				    .rkey = r.bmr->key });
	pair_settle(r.p);
	for (uint32_t i = 10; i < 13; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS).byte_len, 3000);
	assert_int_equal(expect_cqe(&r.b->rcq, 2, UROCE_WC_SUCCESS).imm, 5);
	assert_memory_equal(r.bbuf, r.abuf, 3000);
	assert_memory_equal(r.bbuf + 10000, r.abuf + 10000, 3000);
	assert_memory_equal(r.bbuf + 20000, r.abuf, 2500);
	assert_int_equal(pair_count(r.p, 1, -1), 0);
	rig_down(&r);
}

static void
uc_gap_drops_one_message_and_keeps_its_receive(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_UC | WIRE_OP_SEND_MIDDLE, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, &uc, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	end_recv(r.b, 1, SGE(r.bbuf, 5000, r.bmr), 1);
	rig_send(&r, 10, 0, 5000);
	rig_send(&r, 11, 5000, 4000);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 10, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 11, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS).byte_len, 4000);
	assert_memory_equal(r.bbuf, r.abuf + 5000, 4000);
	assert_int_equal(counters(&r, 1)->rx_uc_gap, 1);
	rig_down(&r);
}

/* What doesn't fit is found out in the middle; the message's own rest must not begin another one. */
static void
uc_message_longer_than_its_receive_is_dropped_and_the_receive_kept(void **state)
{
	struct rig r;

	rig_up(&r, &uc, NULL);
	end_recv(r.b, 1, SGE(r.bbuf, 1500, r.bmr), 1);
	rig_send(&r, 10, 0, 5000);
	rig_send(&r, 11, 0, 1501);
	rig_send(&r, 12, 6000, 1500);
	pair_settle(r.p);
	for (uint32_t i = 10; i < 13; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS).byte_len, 1500);
	assert_memory_equal(r.bbuf, r.abuf + 6000, 1500);
	assert_int_equal(r.bbuf[1500], 0);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
	assert_int_equal(counters(&r, 1)->resp_local_length_error, 2);
	assert_int_equal(counters(&r, 1)->rx_uc_gap, 0);
	assert_int_equal(counters(&r, 1)->rx_uc_rest, 3);
	rig_down(&r);
}

static void
uc_without_a_receive_drops_silently(void **state)
{
	struct rig r;

	rig_up(&r, &uc, NULL);
	rig_send(&r, 10, 0, 3000);
	pair_settle(r.p);
	end_recv(r.b, 1, SGE(r.bbuf, 5000, r.bmr), 1);
	rig_send(&r, 11, 100, 10);
	pair_settle(r.p);
	assert_int_equal(expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS).byte_len, 10);
	assert_int_equal(counters(&r, 1)->rx_uc_no_wqe, 1);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
	rig_down(&r);
}

static void
uc_write_with_bad_key_is_dropped(void **state)
{
	struct rig r;

	rig_up(&r, &uc, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .inline_data = "x", .inline_bytes = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(r.bbuf[0], 0);
	assert_int_equal(counters(&r, 1)->resp_remote_access_errors, 1);
	/* All of it: its other packets are no gap. */
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 3000, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->resp_remote_access_errors, 2);
	assert_int_equal(counters(&r, 1)->rx_uc_rest, 2);
	assert_int_equal(counters(&r, 1)->rx_uc_gap, 0);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
	rig_down(&r);
}

static void
uc_send_error_leads_to_sqe_and_back(void **state)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_RTS, .cur_qp_state = UROCE_QPS_SQE };
	struct rig r;

	rig_up(&r, &uc, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_READ });
	rig_write(&r, 2, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_LOC_QP_OP_ERR);
	expect_cqe(&r.a->scq, 2, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_SQE);
	rig_write(&r, 3, 0, 10);
	/* Receiving goes on. */
	end_recv(r.a, 1, SGE(r.abuf, 100, r.amr), 1);
	end_send(r.b, &(struct wr){ .id = 4, .op = UROCE_WR_SEND, .inline_data = "back", .inline_bytes = 4 });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 3, UROCE_WC_WR_FLUSH_ERR);
	expect_cqe(&r.a->rcq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(qp_modify(r.p->h[0].tp, r.a->qp, &a, UROCE_QP_STATE | UROCE_QP_CUR_STATE, NULL, r.p->now), 0);
	rig_write(&r, 5, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 5, UROCE_WC_SUCCESS);
	assert_memory_equal(r.bbuf + 4, r.abuf + 4, 6);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uc_send_and_write_arrive_without_acks),
		cmocka_unit_test(uc_gap_drops_one_message_and_keeps_its_receive),
		cmocka_unit_test(uc_message_longer_than_its_receive_is_dropped_and_the_receive_kept),
		cmocka_unit_test(uc_without_a_receive_drops_silently),
		cmocka_unit_test(uc_write_with_bad_key_is_dropped),
		cmocka_unit_test(uc_send_error_leads_to_sqe_and_back),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
