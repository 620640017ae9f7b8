/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes and states that change while requests are under way: nothing that was promised is lost. */
#include <errno.h>

#include "rig.h"

/* ---- SQE ---- */
enum { POSTED = 100, SQ_DEPTH = 128 };

static void
post_a_bad_one_and_others(struct rig *r)
{
	end_send(r->a, &(struct wr){ .id = 0, .op = UROCE_WR_RDMA_READ });
	for (uint32_t i = 1; i < POSTED; i++)
		rig_write(r, i, 0, 10);
}

static int
sqe_to_rts(struct end *e)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_RTS, .cur_qp_state = UROCE_QPS_SQE };

	return qp_modify(e->host->tp, e->qp, &a, UROCE_QP_STATE | UROCE_QP_CUR_STATE, NULL, e->host->pair->now);
}

static void
what_was_posted_before_sqe_is_left_is_flushed(void **state)
{
	for (uint32_t turns = 1; turns < 4; turns++) {
		struct rig r;

		rig_up(&r, &(struct end_opts){ .type = UROCE_QPT_UC, .sq_depth = SQ_DEPTH }, NULL);
		post_a_bad_one_and_others(&r);
		for (uint32_t i = 0; i < turns; i++)
			host_turn(&r.p->h[0]);
		assert_int_equal(qp_state(r.a->qp), UROCE_QPS_SQE);
		assert_int_equal(sqe_to_rts(r.a), 0);
		rig_write(&r, POSTED, 0, 10);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 0, UROCE_WC_LOC_QP_OP_ERR);
		for (uint32_t i = 1; i < POSTED; i++)
			expect_cqe(&r.a->scq, i, UROCE_WC_WR_FLUSH_ERR);
		expect_cqe(&r.a->scq, POSTED, UROCE_WC_SUCCESS);
		expect_no_cqe(&r.a->scq);
		assert_int_equal(pair_count(r.p, 0, -1), 1);
		rig_down(&r);
	}
}

static void
sqe_is_not_left_if_the_cq_has_no_room_for_the_flushed(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .type = UROCE_QPT_UC, .sq_depth = SQ_DEPTH, .cq_depth = 64 }, NULL);
	post_a_bad_one_and_others(&r);
	host_turn(&r.p->h[0]);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_SQE);
	assert_int_equal(sqe_to_rts(r.a), EINVAL);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	pair_settle(r.p);
	assert_int_equal(pair_count(r.p, 0, -1), 0);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_posted_before_sqe_is_left_is_flushed),
		cmocka_unit_test(sqe_is_not_left_if_the_cq_has_no_room_for_the_flushed),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
