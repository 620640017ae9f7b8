/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat: what a SACK says, by hand, and what must not be made of it. */
#include "selective_rig.h"

/* Says that a has everything up to @p psn, and of what is behind that the bits of @p bits. */
static void
say(struct rig *r, uint32_t psn, uint64_t bits)
{
	uint8_t sack[WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES] = { WIRE_AETH_CREDITS_INVALID };

	wire_put32(sack + WIRE_AETH_BYTES, SACK_MAGIC);
	wire_put64(sack + WIRE_AETH_BYTES + 4, bits);
	pair_inject(r->p, r->a, &(struct wire_bth){ .opcode = WIRE_OPCODE_SACK, .psn = psn, .migreq = true }, sack,
		    sizeof(sack));
}

/* The one exception to that a SACK says for ever: what comes next could not be executed after all. */
static void
what_a_sack_takes_back_is_sent_again(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r.a->qp->req.psn_next;
	for (uint32_t i = 0; i < 4; i++)
		rig_write(&r, 2 + i, 16 * KIB + i * KIB, KIB);
	pair_settle(r.p);
	r.p->lose = NULL;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1 | 1 << 2);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	r.p->nb_log = 0;
	say(&r, psn, 1 << 1);
	pair_settle(r.p);
	assert_int_equal(r.p->log[0].from, 0);
	assert_int_equal(r.p->log[0].bth.psn, wire_psn_add(psn, 1));
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 4, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 5, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf + 16 * KIB, r.bbuf + 16 * KIB, 4 * KIB);
	rig_down(&r);
}

static void
what_was_lost_and_has_no_memory_any_more_fails_in_its_turn(void **state)
{
	struct mr *mr;
	struct loss l;
	struct rig r;
	uint32_t psn;

	find_each_other(&r, &l);
	mr = host_mr(&r.p->h[0], r.abuf + KIB, 8, 0);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r.a->qp->req.psn_next;
	rig_write(&r, 2, 0, 8);
	end_send(r.a, &(struct wr){ .id = 3, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1, .sge = SGE(r.abuf + KIB, 8, mr),
				    .remote_addr = ADDR(r.bbuf) + KIB, .rkey = r.bmr->key });
	rig_write(&r, 4, 2 * KIB, 8);
	pair_settle(r.p);
	mr_destroy(r.p->h[0].sh.mrs, mr);
	r.p->lose = NULL;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 2);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_LOC_PROT_ERR);
	expect_cqe(&r.a->scq, 4, UROCE_WC_WR_FLUSH_ERR);
	assert_null(r.a->qp->req.scoreboard);
	rig_down(&r);
}

/*
 * A response says that the peer has what was taken for lost before: fewer packets are lost than until then, which is no
 * reason for a larger window.
 */
static void
window_does_not_grow_by_what_was_taken_for_lost(void **state)
{
	enum { WRITES = 4 };
	uint8_t response[WIRE_AETH_BYTES + KIB] = { WIRE_AETH_CREDITS_INVALID };
	struct wire_bth b = { .opcode = WIRE_OP_READ_RESP_ONLY, .migreq = true };
	uint32_t psn, cwnd;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r.a->qp->req.psn_next;
	b.psn = wire_psn_add(psn, WRITES + 1);
	rig_read(&r, 2, 0, KIB);
	for (uint32_t i = 0; i < WRITES; i++)
		rig_write(&r, 3 + i, 16 * KIB + i * KIB, KIB);
	rig_read(&r, 3 + WRITES, KIB, KIB);
	pair_settle(r.p);
	r.p->stalled = true;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << (WRITES + 1));
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, WRITES + 1);
	cwnd = r.a->qp->loss.loss_cwnd;
	pair_inject(r.p, r.a, &b, response, sizeof(response));
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, 1);
	assert_in_range(r.a->qp->loss.loss_cwnd, 1, cwnd);
	rig_down(&r);
}

static void
sack_of_what_was_never_sent_is_a_ghost(void **state)
{
	uint8_t sack[WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES] = { WIRE_AETH_CREDITS_INVALID };
	struct wire_bth b = { .opcode = WIRE_OPCODE_SACK, .migreq = true };
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	wire_put32(sack + WIRE_AETH_BYTES, SACK_MAGIC);
	wire_put64(sack + WIRE_AETH_BYTES + 4, 2);
	b.psn = wire_psn_add(r.a->qp->req.psn_una, WIRE_PSN_MASK);
	pair_inject(r.p, r.a, &b, sack, sizeof(sack));
	assert_int_equal(counters(&r, 0)->rx_ghost_ack, 1);
	sack[WIRE_AETH_BYTES] ^= 1;
	pair_inject(r.p, r.a, &b, sack, sizeof(sack));
	assert_int_equal(counters(&r, 0)->rx_sack_ignored, 1);
	assert_null(r.a->qp->req.scoreboard);
	rig_down(&r);
}

static void
sack_for_a_qp_that_does_not_send_is_dropped(void **state)
{
	uint8_t sack[WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES] = { WIRE_AETH_CREDITS_INVALID };
	struct wire_bth b = { .opcode = WIRE_OPCODE_SACK, .migreq = true };
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	wire_put32(sack + WIRE_AETH_BYTES, SACK_MAGIC);
	pair_inject(r.p, r.a, &b, sack, sizeof(sack));
	assert_int_equal(counters(&r, 0)->rx_wrong_state, 1);
	assert_int_equal(counters(&r, 0)->rx_sack_ignored, 0);
	rig_down(&r);
}

/* Half the numbers away from what was sent, the highest one that it speaks of seems to be behind. */
static void
sack_half_the_numbers_away_is_a_ghost(void **state)
{
	uint8_t sack[WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES] = { WIRE_AETH_CREDITS_INVALID };
	struct wire_bth b = { .opcode = WIRE_OPCODE_SACK, .migreq = true };
	struct loss l = { .from = 1, .opcode = -1, .count = UINT32_MAX };
	uint64_t ghosts = 0;
	struct rig r;

	wire_put32(sack + WIRE_AETH_BYTES, SACK_MAGIC);
	wire_put64(sack + WIRE_AETH_BYTES + 4 + 8 * 3, UINT64_C(1) << 63);
	for (int read = 0; read < 2; read++) {
		rig_up(&r, NULL, NULL);
		r.p->lose = lose;
		r.p->lose_arg = &l;
		if (read)
			rig_read(&r, 1, 0, 32 * 1024);
		else
			rig_write(&r, 1, 0, 512 * 1024);
		pair_settle(r.p);
		for (uint32_t off = 0; off <= 2 * TP_SACK_SPAN; off++) {
			b.psn = wire_psn_add(r.a->qp->req.psn_max, (1 << 23) - off);
			pair_inject(r.p, r.a, &b, sack, sizeof(sack));
			ghosts++;
			assert_int_equal(counters(&r, 0)->rx_ghost_ack + counters(&r, 0)->rx_response_ignored, ghosts);
		}
		expect_no_cqe(&r.a->scq);
		ghosts = 0;
		rig_down(&r);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_sack_takes_back_is_sent_again),
		cmocka_unit_test(what_was_lost_and_has_no_memory_any_more_fails_in_its_turn),
		cmocka_unit_test(window_does_not_grow_by_what_was_taken_for_lost),
		cmocka_unit_test(sack_of_what_was_never_sent_is_a_ghost),
		cmocka_unit_test(sack_for_a_qp_that_does_not_send_is_dropped),
		cmocka_unit_test(sack_half_the_numbers_away_is_a_ghost),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
