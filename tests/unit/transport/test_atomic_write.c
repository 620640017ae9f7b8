/* SPDX-License-Identifier: BSD-3-Clause */
/* ATOMIC_WRITE (annex A19): eight bytes at once, answered by a READ response of none, executed once. */
#include "rig.h"
#include "transport/core/types_priv.h"

static const uint64_t VALUE = UINT64_C(0x0123456789abcdef);

static void
atomic_write(struct rig *r, uint64_t id, uint32_t off, uint64_t value)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_ATOMIC_WRITE, .inline_data = &value, .inline_bytes = 8,
				     .remote_addr = ADDR(r->bbuf) + off, .rkey = r->bmr->key });
}

static uint64_t *
word(struct rig *r, uint32_t off)
{
	return (uint64_t *)(r->bbuf + off);
}

static void
stores_eight_bytes_and_is_answered_by_a_read_response_of_none(void **state)
{
	struct ring_cqe e;
	struct rig r;

	rig_up(&r, NULL, NULL);
	atomic_write(&r, 1, 16, VALUE);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_ATOMIC_WRITE, .sge = SGE(r.abuf + 3, 8, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + 64, .rkey = r.bmr->key });
	pair_settle(r.p);
	e = expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_ATOMIC_WRITE);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_true(*word(&r, 16) == VALUE);
	assert_memory_equal(r.bbuf + 64, r.abuf + 3, 8);
	assert_true(*word(&r, 8) == 0 && *word(&r, 24) == 0 && *word(&r, 72) == 0);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_ATOMIC_WRITE), 2);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_ONLY), 2);
	assert_int_equal(pair_count(r.p, 1, -1), 2);
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		assert_int_equal(r.p->log[i].payload, r.p->log[i].from == 0 ? 8 : 0);
	rig_down(&r);
}

static void
comes_in_order_among_writes_and_reads(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	for (uint32_t i = 0; i < 10; i++) {
		rig_write(&r, 4 * i, 0, 3000);
		atomic_write(&r, 4 * i + 1, 8, i);
		rig_read(&r, 4 * i + 2, 8192, 3000);
		rig_fetch_add(&r, 4 * i + 3, 4096, 1);
	}
	pair_settle(r.p);
	for (uint32_t i = 0; i < 40; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_true(*word(&r, 8) == 9);
	rig_down(&r);
}

/* C9-105: what was executed is answered again and not executed again. */
static void
lost_response_doesnt_store_twice(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	atomic_write(&r, 1, 0, VALUE);
	pair_settle(r.p);
	expect_no_cqe(&r.a->scq);
	assert_true(*word(&r, 0) == VALUE);
	*word(&r, 0) = 5;
	pair_advance(r.p, (uint64_t)1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_true(*word(&r, 0) == 5);
	assert_int_equal(counters(&r, 1)->duplicate_request, 1);
	rig_down(&r);
}

/* A QP that sends nothing else would never know when an answer is overdue. */
static void
its_answer_tells_the_round_trip(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->stalled = true;
	atomic_write(&r, 1, 0, VALUE);
	pair_advance(r.p, 10 * PAIR_US);
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(r.a->qp->loss.srtt_ns, 10 * PAIR_US);
	rig_down(&r);
}

static void
lost_request_is_sent_again(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_ATOMIC_WRITE, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	for (uint32_t i = 0; i < 3; i++)
		atomic_write(&r, i, 8 * i, VALUE + i);
	pair_advance(r.p, (uint64_t)1000 * PAIR_MS);
	for (uint32_t i = 0; i < 3; i++) {
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
		assert_true(*word(&r, 8 * i) == VALUE + i);
	}
	rig_down(&r);
}

static void
refused(struct rig *r, enum uroce_wc_status status, uint8_t syndrome)
{
	pair_settle(r->p);
	expect_cqe(&r->a->scq, 1, status);
	assert_int_equal(pair_count_syndrome(r->p, 1, syndrome), 1);
	assert_int_equal(qp_state(r->b->qp), UROCE_QPS_ERR);
	for (uint32_t i = 0; i < 128; i++)
		assert_int_equal(r->bbuf[i], 0);
	rig_down(r);
}

static void
misaligned_address_is_an_invalid_request(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	atomic_write(&r, 1, 4, VALUE);
	refused(&r, UROCE_WC_REM_INV_REQ_ERR, WIRE_NAK_INV_REQ);
}

static void
needs_remote_write_of_qp_and_key(void **state)
{
	struct rig r;
	struct mr *ro;

	rig_up(&r, NULL, &(struct conn_opts){ .access = UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC });
	atomic_write(&r, 1, 0, VALUE);
	refused(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS);

	rig_up(&r, NULL, NULL);
	ro = host_mr(&r.p->h[1], r.bbuf, BUF, UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_READ);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_ATOMIC_WRITE, .inline_data = &VALUE, .inline_bytes = 8,
				    .remote_addr = ADDR(r.bbuf), .rkey = ro->key });
	pair_settle(r.p);
	mr_destroy(r.p->h[1].sh.mrs, ro);
	refused(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS);
}

static void
takes_the_resources_of_a_read(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_dest_rd_atomic = true });
	atomic_write(&r, 1, 0, VALUE);
	refused(&r, UROCE_WC_REM_INV_REQ_ERR, WIRE_NAK_INV_REQ);

	/* As many as max_rd_atomic are on their way at once. */
	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 2 });
	for (uint32_t i = 0; i < 5; i++)
		atomic_write(&r, i, 0, i);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 2);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 5; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_true(*word(&r, 0) == 4);
	rig_down(&r);
}

static void
other_lengths_than_eight_are_refused_before_sending(void **state)
{
	for (uint32_t len = 0; len <= 16; len++) {
		struct rig r;

		rig_up(&r, NULL, NULL);
		end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_ATOMIC_WRITE, .sge = SGE(r.abuf, len, r.amr),
					    .nb_sge = 1, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 1, len == 8 ? UROCE_WC_SUCCESS : UROCE_WC_LOC_LEN_ERR);
		assert_int_equal(pair_count(r.p, 0, -1), len == 8);
		rig_down(&r);
	}
}

/* By hand: a RETH or payload of other lengths. */
static void
packets_of_other_lengths_are_invalid_requests(void **state)
{
	static const uint32_t lens[][2] = { { 8, 4 }, { 8, 12 }, { 4, 8 }, { 0, 0 }, { 16, 16 } };

	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		uint8_t after[WIRE_RETH_BYTES + 16] = { 0 };
		struct rig r;

		rig_up(&r, NULL, NULL);
		memset(after, 0xee, sizeof(after));
		wire_put_reth(after, ADDR(r.bbuf), r.bmr->key, lens[i][0]);
		pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_OP_ATOMIC_WRITE, .psn = 100, .ackreq = true },
			    after, WIRE_RETH_BYTES + lens[i][1]);
		pair_settle(r.p);
		assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_INV_REQ), 1);
		assert_true(*word(&r, 0) == 0);
		rig_down(&r);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stores_eight_bytes_and_is_answered_by_a_read_response_of_none),
		cmocka_unit_test(comes_in_order_among_writes_and_reads),
		cmocka_unit_test(lost_response_doesnt_store_twice),
		cmocka_unit_test(its_answer_tells_the_round_trip),
		cmocka_unit_test(lost_request_is_sent_again),
		cmocka_unit_test(misaligned_address_is_an_invalid_request),
		cmocka_unit_test(needs_remote_write_of_qp_and_key),
		cmocka_unit_test(takes_the_resources_of_a_read),
		cmocka_unit_test(other_lengths_than_eight_are_refused_before_sending),
		cmocka_unit_test(packets_of_other_lengths_are_invalid_requests),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
