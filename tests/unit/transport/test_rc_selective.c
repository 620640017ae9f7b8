/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat between two uroce endpoints, and that nobody else notices it.
 */
#include "selective_rig.h"

/* Nearly all at first, so that a timeout makes the window small; then two more while that is sent again. */
static bool
lose_thrice(struct pair *p, const struct note *n, void *arg)
{
	enum { FIRST = 2, SECOND = 5, THIRD = 8 };
	uint8_t *seen = arg;
	uint32_t nth = n->bth.psn - p->log[0].bth.psn;

	if (n->from != 0 || nth >= 40)
		return false;
	seen[nth]++;
	return (nth >= FIRST && seen[nth] == 1) || (nth == SECOND && seen[nth] == 2) || (nth == THIRD && seen[nth] == 3);
}

static void
a_local_operation_behind_what_was_lost_is_done_in_its_turn(void **state)
{
	uint8_t seen[40] = { 0 };
	struct rig r;

	up(&r, NULL);
	r.p->lose = lose_thrice;
	r.p->lose_arg = seen;
	rig_write(&r, 1, 0, 40 * KIB);
	/* Of a key that there isn't: it must be refused, not passed over. */
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_LOCAL_INV, .imm = 0x12345678 });
	pair_advance(r.p, 2000 * (uint64_t)PAIR_MS);
	assert_true(r.a->qp->req.sack_peer);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_MW_BIND_ERR);
	rig_down(&r);
}

static void
nothing_is_sent_before_something_is_lost(void **state)
{
	struct rig r;

	up(&r, NULL);
	rig_write(&r, 1, 0, 64 * KIB);
	rig_read(&r, 2, 0, 64 * KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->sack_offers_sent, 0);
	assert_int_equal(pair_count(r.p, 1, WIRE_OPCODE_SACK), 0);
	rig_down(&r);
}

static void
only_what_was_lost_is_sent_again(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 3, .count = 2 };
	rig_write(&r, 2, 0, 30 * KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 30 * KIB);
	assert_int_equal(pair_count(r.p, 0, -1), 30 + 2);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_PSN_SEQ), 0);
	assert_null(r.a->qp->req.scoreboard);
	assert_int_equal(r.a->qp->loss.not_in_flight, 0);
	assert_null(r.b->qp->rcv.reorder);
	assert_int_equal(r.p->h[0].tp->scoreboards.left, TP_SCOREBOARDS);
	assert_int_equal(r.p->h[1].tp->reorder_pkts.left, TP_REORDER_PKTS);
	rig_down(&r);
}

/* A PSN, the first times that it is sent. */
static bool
lose_psn_twice(struct pair *p, const struct note *n, void *arg)
{
	uint32_t *psn_and_times = arg;

	if (n->from != 0 || n->bth.psn != psn_and_times[0] || psn_and_times[1] == 0)
		return false;
	psn_and_times[1]--;
	return true;
}

static void
lost_again_is_noticed_without_a_timer(void **state)
{
	uint32_t psn_and_times[2];
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	/* What is sent behind it shows each time. */
	psn_and_times[0] = wire_psn_add(r.a->qp->req.psn_una, 3);
	psn_and_times[1] = 2;
	r.p->lose = lose_psn_twice;
	r.p->lose_arg = psn_and_times;
	r.p->singly = true;
	rig_write(&r, 2, 0, 100 * KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 100 * KIB);
	assert_int_equal(counters(&r, 0)->tail_loss_probes, 0);
	rig_down(&r);
}

static bool
lose_every_sack(struct pair *p, const struct note *n, void *arg)
{
	struct loss *l = arg;

	return n->bth.opcode == WIRE_OPCODE_SACK || lose(p, n, l);
}

static void
without_sacks_the_timer_gets_on(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 3, .count = 1 };
	r.p->lose = lose_every_sack;
	rig_write(&r, 2, 0, 30 * KIB);
	pair_advance(r.p, 4 * (4096 << PAIR_TIMEOUT));
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 30 * KIB);
	rig_down(&r);
}

static void
receives_and_completions_stay_in_order(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	for (uint32_t i = 0; i < 10; i++)
		end_recv(r.b, 100 + i, SGE(r.bbuf + i * KIB, KIB, r.bmr), 1);
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_SEND_ONLY, .nth = 1, .count = 3 };
	for (uint32_t i = 0; i < 10; i++)
		rig_send(&r, 10 + i, i * KIB, KIB);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 10; i++) {
		expect_cqe(&r.a->scq, 10 + i, UROCE_WC_SUCCESS);
		expect_cqe(&r.b->rcq, 100 + i, UROCE_WC_SUCCESS);
	}
	assert_memory_equal(r.abuf, r.bbuf, 10 * KIB);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 1);
	rig_down(&r);
}

static void
atomics_and_reads_beyond_a_gap_are_executed_once(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	*(uint64_t *)r.bbuf = 40;
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_ONLY, .nth = 0, .count = 1 };
	rig_write(&r, 2, 8 * KIB, 64);
	rig_fetch_add(&r, 3, 4096, 2);
	rig_read(&r, 4, 16 * KIB, 8 * KIB);
	rig_write(&r, 5, 32 * KIB, 64);
	pair_settle(r.p);
	for (uint32_t i = 2; i <= 5; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)r.bbuf, 42);
	assert_int_equal(counters(&r, 1)->rx_atomic_requests, 1);
	assert_int_equal(counters(&r, 1)->duplicate_request, 0);
	rig_down(&r);
}

/* ---- READ responses ---- */
/* READ requests from host 0: how many, and the last of them. */
static uint32_t
requests(const struct rig *r, struct note *last)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->p->nb_log; i++) {
		if (r->p->log[i].bth.opcode != WIRE_OP_READ_REQUEST)
			continue;
		*last = r->p->log[i];
		n++;
	}
	return n;
}

static void
only_missing_responses_are_asked_for_again(void **state)
{
	struct note last;
	struct loss l;
	struct rig r;
	uint32_t psn;

	find_each_other(&r, &l);
	fill(r.bbuf, BUF, 9);
	l = (struct loss){ .from = 1, .opcode = WIRE_OP_READ_RESP_MIDDLE, .nth = 3, .count = 2 };
	psn = r.a->qp->req.psn_next;
	rig_read(&r, 2, 0, 20 * KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 20 * KIB);
	assert_int_equal(requests(&r, &last), 2);
	assert_int_equal(last.bth.psn, wire_psn_add(psn, 4));
	assert_int_equal(last.reth_len, 2 * KIB);
	/* The part is answered as a READ of its own would be. */
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_FIRST), 2);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_LAST), 2);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_MIDDLE), 18);
	assert_int_equal(counters(&r, 0)->rx_response_placed, 15 - 1);
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 0);
	assert_null(r.a->qp->req.scoreboard);
	assert_int_equal(r.a->qp->req.rd_out, 0);
	assert_int_equal(r.p->h[1].tp->read_blocks.left, TP_READ_BLOCKS);
	rig_down(&r);
}

static bool
lose_every_third_response(struct pair *p, const struct note *n, void *arg)
{
	uint32_t *left = arg;

	if (n->from != 1 || !(wire_opcodes[n->bth.opcode].flags & (WIRE_F_READ_RESP | WIRE_F_ATOMICACKETH)) || *left == 0)
		return false;
	return (*left)-- % 3 == 0;
}

static void
many_holes_in_reads_and_atomics_and_all_completes_in_order(void **state)
{
	uint32_t left = 90;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	fill(r.bbuf, BUF, 9);
	*(uint64_t *)r.bbuf = 1000;
	r.p->lose = lose_every_third_response;
	r.p->lose_arg = &left;
	for (uint32_t i = 0; i < 4; i++) {
		rig_read(&r, 10 * i + 10, 64 * KIB * i + 8 * KIB, 40 * KIB);
		rig_fetch_add(&r, 10 * i + 11, 600 * KIB + 8 * i, 1);
		rig_write(&r, 10 * i + 12, 700 * KIB + KIB * i, 100);
	}
	pair_advance(r.p, 10 * PAIR_MS);
	for (uint32_t i = 0; i < 4; i++) {
		expect_cqe(&r.a->scq, 10 * i + 10, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 10 * i + 11, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 10 * i + 12, UROCE_WC_SUCCESS);
		assert_memory_equal(r.abuf + 64 * KIB * i + 8 * KIB, r.bbuf + 64 * KIB * i + 8 * KIB, 40 * KIB);
		assert_int_equal(*(uint64_t *)(r.abuf + 600 * KIB + 8 * i), 1000 + i);
	}
	assert_int_equal(*(uint64_t *)r.bbuf, 1004);
	assert_int_equal(counters(&r, 1)->rx_atomic_requests, 4);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 0);
	assert_null(r.a->qp->req.scoreboard);
	rig_down(&r);
}

static void
what_is_acknowledged_behind_a_hole_is_not_sent_again(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .nth = 0, .count = 1 };
	rig_read(&r, 2, 0, 64);
	for (uint32_t i = 0; i < 5; i++)
		rig_write(&r, 3 + i, 8 * KIB + i * KIB, KIB);
	pair_settle(r.p);
	for (uint32_t i = 2; i < 8; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_READ_REQUEST), 2);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_WRITE_ONLY), 5);
	rig_down(&r);
}

/* Of two READs into the same bytes those of the later one stay, whatever is lost. */
static void
reads_into_the_same_bytes_are_placed_in_order(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	fill(r.bbuf, BUF, 9);
	l = (struct loss){ .from = 1, .opcode = WIRE_OP_READ_RESP_MIDDLE, .nth = 2, .count = 1 };
	for (uint32_t i = 0; i < 2; i++)
		end_send(r.a, &(struct wr){ .id = 2 + i, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.abuf, 6 * KIB, r.amr),
					    .nb_sge = 1, .remote_addr = ADDR(r.bbuf) + i * 16 * KIB, .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf + 16 * KIB, 6 * KIB);
	rig_down(&r);
}

/* An atomic's result, too, is placed before what a later READ brings. */
static void
a_read_into_the_result_of_an_atomic_is_placed_after_it(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	fill(r.bbuf, BUF, 9);
	l = (struct loss){ .from = 1, .opcode = WIRE_OP_ATOMIC_ACK, .nth = 0, .count = 1 };
	rig_fetch_add(&r, 2, 16 * KIB, 1);
	rig_read(&r, 3, 16 * KIB, KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_int_equal(l.seen, 2);
	assert_memory_equal(r.abuf + 16 * KIB, r.bbuf + 16 * KIB, KIB);
	rig_down(&r);
}

static void
foreign_peer_sees_duplicates_of_nothing_three_times_at_most(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 3, .count = 1 };
	struct rig r;

	up(&r, &l);
	r.p->h[1].tp->c.ports[0].features.selective_repeat = false;
	for (uint32_t i = 0; i < 6; i++) {
		l.seen = 0;
		rig_write(&r, i, 0, 20 * KIB);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	assert_int_equal(counters(&r, 0)->sack_offers_sent, TP_SACK_OFFERS);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_WRITE_ONLY), TP_SACK_OFFERS);
	assert_int_equal(pair_count(r.p, 1, WIRE_OPCODE_SACK), 0);
	for (uint32_t i = 0; i < r.p->nb_log; i++) {
		const struct note *n = &r.p->log[i];

		if (n->from != 0 || n->bth.opcode != WIRE_OP_WRITE_ONLY)
			continue;
		assert_int_equal(n->reth_len, 0);
		assert_int_equal(n->payload, 0);
		/* Long before the connection's first PSN: a duplicate to anybody. */
		assert_true(wire_psn_diff(n->bth.psn, 100) < -OFFER_PSN_AGE / 2);
	}
	rig_down(&r);
}

static void
receiver_not_ready_in_the_midst_of_what_is_held(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	/* Without receives one SEND may go (9.7.7.2.5). */
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_ONLY, .nth = 0, .count = 1 };
	rig_write(&r, 10, 0, KIB);
	rig_send(&r, 11, KIB, KIB);
	rig_send(&r, 12, 2 * KIB, KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 10, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	end_recv(r.b, 101, SGE(r.bbuf + KIB, KIB, r.bmr), 1);
	end_recv(r.b, 102, SGE(r.bbuf + 2 * KIB, KIB, r.bmr), 1);
	pair_advance(r.p, PAIR_MS);
	expect_cqe(&r.a->scq, 11, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 12, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 3 * KIB);
	rig_down(&r);
}

static void
hostile_gaps_hold_a_bounded_part_and_give_it_back(void **state)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_MIDDLE, .migreq = true };
	static const uint8_t payload[KIB];
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	b.mark = r.b->qp->rcv.sack_mark;
	for (uint32_t i = 1; i < 2 * TP_SACK_SPAN; i++) {
		b.psn = wire_psn_add(r.b->qp->rcv.epsn, i);
		pair_inject(r.p, r.b, &b, payload, sizeof(payload));
		pair_inject(r.p, r.b, &b, payload, sizeof(payload));
	}
	assert_int_equal(r.p->h[1].tp->reorder_pkts.left, TP_REORDER_PKTS - (TP_SACK_SPAN - 1));
	assert_true(counters(&r, 1)->rx_not_held >= TP_SACK_SPAN);
	end_state(r.b, UROCE_QPS_ERR);
	assert_int_equal(r.p->h[1].tp->reorder_pkts.left, TP_REORDER_PKTS);
	assert_int_equal(r.p->h[1].tp->reorders.left, TP_SCOREBOARDS);
	rig_down(&r);
}

/* Of each kind that host 0 sends the first request, and of host 1 the first response. */
static bool
lose_firsts(struct pair *p, const struct note *n, void *arg)
{
	bool *lost = arg;
	bool response = n->bth.opcode == WIRE_OP_READ_RESP_ONLY;

	if (!response && n->bth.opcode != WIRE_OP_WRITE_ONLY)
		return false;
	if (lost[response])
		return false;
	return lost[response] = true;
}

static void
with_nothing_left_to_lend_a_sack_makes_it_go_back(void **state)
{
	bool lost[2] = { false };
	uint32_t scoreboards;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	scoreboards = r.p->h[0].tp->scoreboards.left;
	r.p->h[0].tp->scoreboards.left = 0;
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 3, .count = 1 };
	rig_write(&r, 2, 0, 20 * KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 1);
	/* A SACK, too, passes a READ whose response was lost. */
	r.p->lose = lose_firsts;
	r.p->lose_arg = lost;
	rig_read(&r, 3, 32 * KIB, 8);
	rig_write(&r, 4, 40 * KIB, 8);
	rig_write(&r, 5, 41 * KIB, 8);
	pair_settle(r.p);
	for (uint32_t i = 3; i <= 5; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_true(lost[0] && lost[1]);
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 2);
	assert_memory_equal(r.abuf + 40 * KIB, r.bbuf + 40 * KIB, 8);
	assert_memory_equal(r.abuf + 41 * KIB, r.bbuf + 41 * KIB, 8);
	r.p->h[0].tp->scoreboards.left = scoreboards;
	rig_down(&r);
}

static void
reset_forgets_the_peer(void **state)
{
	uint32_t nonce, mark;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	nonce = r.a->qp->req.sack_nonce;
	mark = r.b->qp->rcv.sack_mark;
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	assert_false(r.b->qp->rcv.sack_on);
	ends_connect(r.a, r.b, &(struct conn_opts){ .psn = 5000 });
	assert_false(r.a->qp->req.sack_peer);
	assert_int_equal(r.a->qp->req.sack_offers, TP_SACK_OFFERS);
	assert_int_equal(r.a->qp->req.sack_mark, 0);
	assert_int_equal(r.b->qp->rcv.reply_mark, 0);
	/* What bears the old connection's marks is not this one's. */
	assert_int_not_equal(sack_mark(r.a->qp->req.sack_nonce), sack_mark(nonce));
	assert_int_not_equal(r.b->qp->rcv.sack_mark, mark);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_sent_before_something_is_lost),
		cmocka_unit_test(a_local_operation_behind_what_was_lost_is_done_in_its_turn),
		cmocka_unit_test(only_what_was_lost_is_sent_again),
		cmocka_unit_test(lost_again_is_noticed_without_a_timer),
		cmocka_unit_test(without_sacks_the_timer_gets_on),
		cmocka_unit_test(receives_and_completions_stay_in_order),
		cmocka_unit_test(atomics_and_reads_beyond_a_gap_are_executed_once),
		cmocka_unit_test(only_missing_responses_are_asked_for_again),
		cmocka_unit_test(many_holes_in_reads_and_atomics_and_all_completes_in_order),
		cmocka_unit_test(what_is_acknowledged_behind_a_hole_is_not_sent_again),
		cmocka_unit_test(reads_into_the_same_bytes_are_placed_in_order),
		cmocka_unit_test(a_read_into_the_result_of_an_atomic_is_placed_after_it),
		cmocka_unit_test(foreign_peer_sees_duplicates_of_nothing_three_times_at_most),
		cmocka_unit_test(receiver_not_ready_in_the_midst_of_what_is_held),
		cmocka_unit_test(hostile_gaps_hold_a_bounded_part_and_give_it_back),
		cmocka_unit_test(with_nothing_left_to_lend_a_sack_makes_it_go_back),
		cmocka_unit_test(reset_forgets_the_peer),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
