/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes and states that change while requests are under way: nothing that was promised is lost. */
#include <errno.h>

#include "rig.h"
#include "transport/core/types_priv.h"

static int
sqd_to_sqd(struct end *e, const struct uroce_qp_attr *with, uint32_t mask)
{
	struct uroce_qp_attr a = *with;

	a.qp_state = UROCE_QPS_SQD;
	return qp_modify(e->host->tp, e->qp, &a, mask | UROCE_QP_STATE, NULL, e->host->pair->now);
}

static void
set_dest_rd(struct end *e, uint8_t n)
{
	assert_int_equal(end_state(e, UROCE_QPS_SQD), 0);
	assert_int_equal(sqd_to_sqd(e, &(struct uroce_qp_attr){ .max_dest_rd_atomic = n }, UROCE_QP_MAX_DEST_RD_ATOMIC), 0);
	assert_int_equal(end_state(e, UROCE_QPS_RTS), 0);
}

/* ---- max_dest_rd_atomic ---- */
enum { ATOMICS = 4 };

/* Host 1 executes four atomics, whose answers get lost; then it may have another number of them. */
static void
atomics_up(struct rig *r, struct loss *l)
{
	*l = (struct loss){ .from = 1, .opcode = -1, .count = UINT32_MAX };
	rig_up(r, NULL, NULL);
	/* One before them, so that the oldest result isn't the first of its array. */
	rig_fetch_add(r, 0, 0, 1);
	pair_settle(r->p);
	expect_cqe(&r->a->scq, 0, UROCE_WC_SUCCESS);
	r->p->lose = lose;
	r->p->lose_arg = l;
	for (uint32_t i = 1; i <= ATOMICS; i++)
		rig_fetch_add(r, i, 8 * i, 1);
	pair_settle(r->p);
	expect_no_cqe(&r->a->scq);
}

static void
results_outlive_a_change_of_their_number(void **state)
{
	static const uint8_t numbers[] = { 0, 1, 3, 5, UROCE_MAX_RD_ATOMIC };

	for (unsigned int i = 0; i < RTE_DIM(numbers); i++) {
		struct uroce_qp_attr q;
		struct loss l;
		struct rig r;

		atomics_up(&r, &l);
		set_dest_rd(r.b, numbers[i]);
		qp_query(r.b->qp, &q);
		assert_int_equal(q.max_dest_rd_atomic, numbers[i]);
		l.count = 0;
		pair_advance(r.p, 500 * PAIR_MS);
		for (uint64_t n = 1; n <= ATOMICS; n++) {
			uint64_t old;

			expect_cqe(&r.a->scq, n, UROCE_WC_SUCCESS);
			memcpy(&old, r.abuf + 8 * n, sizeof(old));
			assert_int_equal(old, n);
		}
		assert_int_equal(counters(&r, 1)->rx_duplicate_dropped, 0);
		assert_int_equal(counters(&r, 1)->rx_atomic_requests, ATOMICS + 1);
		rig_down(&r);
	}
}

struct change {
	struct end *e;
	uint8_t n; /* 0: done */
};

/* Changes the number when the first response is on its way and others aren't made yet. */
static bool
change_amid_responses(struct pair *p, const struct note *n, void *arg)
{
	struct change *c = arg;

	if (n->from != 1 || n->bth.opcode != WIRE_OP_READ_RESP_MIDDLE || c->n == 0)
		return false;
	assert_true(c->e->qp->resp.pending != 0);
	set_dest_rd(c->e, c->n);
	c->n = 0;
	return false;
}

/* The responses that were not sent yet go on, each from where it was. */
static void
responses_go_on_after_a_change_of_their_number(void **state)
{
	static const uint8_t numbers[] = { 1, 3, 9 };

	for (unsigned int i = 0; i < RTE_DIM(numbers); i++) {
		struct change c = { .n = numbers[i] };
		struct rig r;

		rig_up(&r, NULL, NULL);
		fill(r.bbuf, BUF, 2);
		/* The window grows, until more responses may be due than are made in a turn; and the oldest result moves on. */
		for (uint64_t n = 0; n < 50; n++) {
			rig_read(&r, n, 0, 30 * 1024);
			pair_settle(r.p);
			expect_cqe(&r.a->scq, n, UROCE_WC_SUCCESS);
		}
		c.e = r.b;
		r.p->lose = change_amid_responses;
		r.p->lose_arg = &c;
		for (uint64_t n = 2; n <= 5; n++)
			rig_read(&r, n, (uint32_t)n * 65536, 30 * 1024);
		pair_settle(r.p);
		assert_int_equal(c.n, 0);
		for (uint64_t n = 2; n <= 5; n++) {
			expect_cqe(&r.a->scq, n, UROCE_WC_SUCCESS);
			assert_memory_equal(r.abuf + n * 65536, r.bbuf + n * 65536, 30 * 1024);
		}
		assert_int_equal(counters(&r, 0)->retransmitted_packets, 0);
		rig_down(&r);
	}
}

/* C9-95 */
static void
a_smaller_number_holds_for_requests_to_come(void **state)
{
	struct loss l;
	struct rig r;

	atomics_up(&r, &l);
	set_dest_rd(r.b, 2);
	l.count = 0;
	pair_advance(r.p, 500 * PAIR_MS);
	for (uint64_t n = 1; n <= ATOMICS; n++)
		expect_cqe(&r.a->scq, n, UROCE_WC_SUCCESS);
	/* Three at once: the answers to the first two haven't been sent when the third comes. */
	for (uint64_t n = 10; n < 13; n++)
		rig_fetch_add(&r, n, 0, 1);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 1)->resp_rd_atomic_exceeded, 1);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
	rig_down(&r);
}

/* ---- timeout ---- */
static void
set_timeout(struct end *e, uint8_t timeout)
{
	assert_int_equal(sqd_to_sqd(e, &(struct uroce_qp_attr){ .timeout = timeout }, UROCE_QP_TIMEOUT), 0);
}

static void
a_new_timeout_holds_for_what_is_in_flight(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_ONLY, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
	set_timeout(r.a, 0);
	assert_int_equal(end_state(r.a, UROCE_QPS_RTS), 0);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 5000 * (uint64_t)PAIR_MS);
	/* 0 is for ever. */
	expect_no_cqe(&r.a->scq);
	assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
	set_timeout(r.a, PAIR_TIMEOUT);
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 1);
	rig_down(&r);
}

static void
without_a_timeout_what_is_in_flight_has_none(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_ONLY, .count = UINT32_MAX };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_retry = true });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
	set_timeout(r.a, 0);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 0);
	rig_down(&r);
}

static void
changes_do_not_renew_the_tries(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_ONLY, .count = UINT32_MAX };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 2 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
	for (unsigned int i = 0; i < 100; i++) {
		if (qp_state(r.a->qp) == UROCE_QPS_SQD)
			assert_int_equal(sqd_to_sqd(r.a, &(struct uroce_qp_attr){ .min_rnr_timer = (uint8_t)(1 + i % 2), .retry_cnt = 2,
										   .timeout = PAIR_TIMEOUT },
						    UROCE_QP_MIN_RNR_TIMER | UROCE_QP_RETRY_CNT | UROCE_QP_TIMEOUT),
					 0);
		pair_advance(r.p, 20 * PAIR_MS);
	}
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	rig_down(&r);
}

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
		/* What is posted now is found only with its doorbell. */
		assert_int_equal(r.a->shared.sq_watch, 0);
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

/* Its program waits for the event and may do nothing that brings about another turn. */
static void
the_flushed_raise_their_event_at_once(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .type = UROCE_QPT_UC, .sq_depth = SQ_DEPTH, .channel = true }, NULL);
	post_a_bad_one_and_others(&r);
	host_turn(&r.p->h[0]);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_SQE);
	atomic_store(&r.a->scq.shared.arm, RING_ARM_ANY);
	r.a->scq.events = 0;
	assert_int_equal(sqe_to_rts(r.a), 0);
	assert_int_equal(r.a->scq.events, 1);
	pair_settle(r.p);
	rig_down(&r);
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
		cmocka_unit_test(results_outlive_a_change_of_their_number),
		cmocka_unit_test(responses_go_on_after_a_change_of_their_number),
		cmocka_unit_test(a_smaller_number_holds_for_requests_to_come),
		cmocka_unit_test(a_new_timeout_holds_for_what_is_in_flight),
		cmocka_unit_test(without_a_timeout_what_is_in_flight_has_none),
		cmocka_unit_test(changes_do_not_renew_the_tries),
		cmocka_unit_test(what_was_posted_before_sqe_is_left_is_flushed),
		cmocka_unit_test(the_flushed_raise_their_event_at_once),
		cmocka_unit_test(sqe_is_not_left_if_the_cq_has_no_room_for_the_flushed),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
