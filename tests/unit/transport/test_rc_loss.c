/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: what is lost is sent again, what arrives twice is executed once, what never arrives is given up. */
#include "rig.h"

static void
lost_packet_is_nakked_and_resent(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 1, .count = 1 };
	struct rig r;
	uint64_t before;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	before = r.p->now;
	rig_write(&r, 1, 0, 8 * 1024);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 8 * 1024);
	/* Without waiting for a timeout, beginning with the packet that was lost. */
	assert_true(r.p->now == before);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_PSN_SEQ), 1);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_WRITE_FIRST), 1);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 1);
	assert_int_equal(counters(&r, 0)->retransmitted_packets, 6);
	rig_down(&r);
}

static void
sequence_nak_sent_once_per_gap(void **state)
{
	/* The first of 20 messages is lost: 19 packets come out of order, each in a turn of its own. */
	struct loss l = { .from = 0, .opcode = -1, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	r.p->singly = true;
	for (uint32_t i = 0; i < 20; i++)
		rig_write(&r, i, i * 64, 64);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 20; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->out_of_sequence, 19);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_PSN_SEQ), 1);
	rig_down(&r);
}

/* A request without bytes, to b; nobody takes a turn. */
static void
inject_empty(struct rig *r, uint8_t opcode, uint32_t psn)
{
	uint8_t reth[WIRE_RETH_BYTES] = { 0 };

	pair_inject(r->p, r->b, &(struct wire_bth){ .opcode = opcode, .psn = psn, .ackreq = true }, reth, sizeof(reth));
}

static void
gap_that_moves_before_the_nak_is_sent_is_still_asked_for(void **state)
{
	static const uint8_t late[] = { WIRE_OP_WRITE_ONLY, WIRE_OP_READ_REQUEST };

	for (unsigned int i = 0; i < 2; i++) {
		const struct note *n;
		struct rig r;

		rig_up(&r, NULL, NULL);
		/* 100 was overtaken by both others; all three arrive in one burst. */
		inject_empty(&r, WIRE_OP_WRITE_ONLY, 101);
		inject_empty(&r, WIRE_OP_WRITE_ONLY, 102);
		inject_empty(&r, late[i], 100);
		pair_settle(r.p);
		n = &r.p->log[r.p->nb_log - 1];
		assert_int_equal(n->syndrome, WIRE_NAK_PSN_SEQ);
		assert_int_equal(n->bth.psn, 101);
		assert_int_equal(n->msn, 1);
		inject_empty(&r, WIRE_OP_WRITE_ONLY, 101);
		inject_empty(&r, WIRE_OP_WRITE_ONLY, 102);
		pair_settle(r.p);
		n = &r.p->log[r.p->nb_log - 1];
		assert_int_equal(WIRE_AETH_TYPE(n->syndrome), WIRE_AETH_ACK);
		assert_int_equal(n->bth.psn, 102);
		assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_PSN_SEQ), 1);
		rig_down(&r);
	}
}

static void
gap_that_closes_before_the_nak_is_sent_is_acknowledged(void **state)
{
	const struct note *n;
	struct rig r;

	rig_up(&r, NULL, NULL);
	/* 101 arrives twice, before and behind 100. */
	inject_empty(&r, WIRE_OP_WRITE_ONLY, 101);
	inject_empty(&r, WIRE_OP_WRITE_ONLY, 100);
	inject_empty(&r, WIRE_OP_WRITE_ONLY, 101);
	pair_settle(r.p);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_ACK), 1);
	n = &r.p->log[r.p->nb_log - 1];
	assert_int_equal(WIRE_AETH_TYPE(n->syndrome), WIRE_AETH_ACK);
	assert_int_equal(n->bth.psn, 101);
	rig_down(&r);
}

static void
lost_tail_is_resent_after_the_timeout(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_ONLY, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 66 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	pair_advance(r.p, 2 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 1);
	rig_down(&r);
}

static void
nothing_acknowledged_is_resent(void **state)
{
	/* The last packet and its retransmission: each timeout resends one packet, not the message. */
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_LAST, .nth = 0, .count = 2 };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .psn = 1 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	/* PSNs 1 to 32: AckReq stands on PSN 31. */
	rig_write(&r, 1, 0, 32 * 1024);
	pair_advance(r.p, 300 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->retransmitted_packets, 2);
	rig_down(&r);
}

static void
retry_exhausted_after_retry_cnt_retransmissions(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .nth = 0, .count = UINT32_MAX };
	struct ring_cqe e;
	union ring_cqe_ctl ctl;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	rig_write(&r, 2, 0, 100);
	pair_advance(r.p, 1000 * PAIR_MS);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_TIMEOUT);
	expect_cqe(&r.a->scq, 2, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	assert_int_equal(atomic_load(&r.a->shared.state), UROCE_QPS_ERR);
	/* retry_cnt 3: four transmissions of each packet. */
	assert_int_equal(pair_count(r.p, 0, -1), 8);
	rig_down(&r);
}

static void
retry_cnt_7_is_seven(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .nth = 0, .count = UINT32_MAX };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 7 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 2000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(pair_count(r.p, 0, -1), 8);
	rig_down(&r);
}

/* A peer whose engine waits for its core isn't gone: T, 2T, 4T, and 4T at most (9.7.6.1.3). */
static void
timeouts_in_a_row_grow_to_four_times(void **state)
{
	static const uint64_t at_ms[] = { 67, 67 + 134, 67 + 134 + 268 };
	struct loss l = { .from = 0, .opcode = -1, .nth = 0, .count = UINT32_MAX };
	uint64_t start;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	start = r.p->now;
	rig_write(&r, 1, 0, 100);
	for (uint32_t i = 0; i < 3; i++) {
		pair_advance(r.p, start + (at_ms[i] - 1) * PAIR_MS - r.p->now);
		assert_int_equal(pair_count(r.p, 0, -1), i + 1);
		pair_advance(r.p, 3 * PAIR_MS);
		assert_int_equal(pair_count(r.p, 0, -1), i + 2);
	}
	pair_advance(r.p, 260 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	pair_advance(r.p, 10 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	rig_down(&r);
}

/* Else a dead peer would be found out after a minute with the CM's timeout of 2 s. */
static void
long_timeouts_do_not_grow(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .nth = 0, .count = UINT32_MAX };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .timeout = 17, .retry_cnt = 3 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 4 * 536 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	pair_advance(r.p, 10 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	rig_down(&r);
}

static void
progress_renews_the_retries(void **state)
{
	/* Each message's first transmission is lost; retry_cnt 1 is enough for any number of them. */
	struct loss l = { .from = 0, .opcode = -1 };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 1 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	for (uint32_t i = 0; i < 5; i++) {
		l.nth = l.seen;
		l.count = 1;
		rig_write(&r, i, 0, 10);
		pair_advance(r.p, 100 * PAIR_MS);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	rig_down(&r);
}

static void
lost_ack_makes_a_duplicate_that_is_only_acknowledged(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ACK, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	rig_send(&r, 7, 0, 50);
	pair_settle(r.p);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	memset(r.bbuf, 0, 100);
	end_recv(r.b, 2, SGE(r.bbuf, 100, r.bmr), 1);
	pair_advance(r.p, 70 * PAIR_MS);
	expect_cqe(&r.a->scq, 7, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.b->rcq);
	assert_int_equal(r.bbuf[0], 0);
	assert_int_equal(counters(&r, 1)->duplicate_request, 1);
	rig_down(&r);
}

static void
duplicate_atomic_replays_stored_result(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ATOMIC_ACK, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	*(uint64_t *)r.bbuf = 1000;
	rig_fetch_add(&r, 1, 0, 5);
	pair_settle(r.p);
	/* Somebody else changes it before the duplicate comes. */
	*(uint64_t *)r.bbuf = 77;
	pair_advance(r.p, 70 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_true(*(uint64_t *)r.abuf == 1000);
	assert_true(*(uint64_t *)r.bbuf == 77);
	rig_down(&r);
}

static void
read_restarts_at_the_missing_psn(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_MIDDLE, .nth = 3, .count = 1 };
	struct rig r;
	uint64_t before;

	rig_up(&r, NULL, NULL);
	fill(r.bbuf, BUF, 8);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	before = r.p->now;
	rig_read(&r, 1, 0, 10 * 1024);
	pair_settle(r.p);
	assert_true(r.p->now == before);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 10 * 1024);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_READ_REQUEST), 2);
	for (uint32_t i = 0, nth = 0; i < r.p->nb_log; i++) {
		if (r.p->log[i].bth.opcode != WIRE_OP_READ_REQUEST || nth++ == 0)
			continue;
		assert_int_equal(r.p->log[i].bth.psn, 104);
		assert_int_equal(r.p->log[i].reth_len, 6 * 1024);
	}
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 1);
	rig_down(&r);
}

/* Having gone back once doesn't count any more when something has arrived since. */
static void
each_lost_response_of_a_read_is_asked_for_again(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_MIDDLE, .nth = 3, .count = 1 };
	struct rig r;
	uint64_t before;

	rig_up_cc(&r, NULL, NULL, &(struct tp_port_config){ .features = { .tail_loss_probe = true, .credits = true, .ack_coalescing = true } });
	fill(r.bbuf, BUF, 8);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	before = r.p->now;
	rig_read(&r, 1, 0, 10 * 1024);
	pair_settle(r.p);
	l.nth = l.seen + 3;
	rig_read(&r, 2, 20000, 10 * 1024);
	pair_settle(r.p);
	assert_true(r.p->now == before);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 2);
	rig_down(&r);
}

static void
ack_beyond_a_read_is_an_implied_nak(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .nth = 0, .count = 1 };
	struct rig r;
	uint64_t before;

	rig_up(&r, NULL, NULL);
	fill(r.bbuf, 64, 8);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	before = r.p->now;
	rig_read(&r, 1, 0, 64);
	rig_write(&r, 2, 1024, 64);
	pair_settle(r.p);
	assert_true(r.p->now == before);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 64);
	rig_down(&r);
}

static void
read_response_acknowledges_writes_before_it(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ACK, .nth = 0, .count = UINT32_MAX };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 1024, 64);
	rig_read(&r, 2, 0, 64);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* A duplicate READ reads memory anew, and asks the key table anew: without the key it stays unanswered, not NAKed. */
static void
duplicate_read_with_stale_key_is_dropped(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 1 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_read(&r, 1, 0, 64);
	pair_settle(r.p);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = NULL;
	pair_advance(r.p, 300 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_ACK), 0);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
	assert_int_equal(counters(&r, 1)->rx_duplicate_dropped, 1);
	rig_down(&r);
}

static void
duplicated_network_packets_change_nothing(void **state)
{
	struct rig r;
	uint64_t *counter;

	rig_up(&r, NULL, NULL);
	r.p->duplicate = true;
	counter = (uint64_t *)r.bbuf;
	for (uint32_t i = 0; i < 10; i++)
		end_recv(r.b, i, SGE(r.bbuf + 4096 + i * 3000, 3000, r.bmr), 1);
	for (uint32_t i = 0; i < 10; i++) {
		rig_send(&r, 10 * i, 4096 + i * 3000, 3000);
		rig_fetch_add(&r, 10 * i + 1, 0, 1);
		rig_read(&r, 10 * i + 2, 100000, 5000);
	}
	pair_advance(r.p, 500 * PAIR_MS);
	for (uint32_t i = 0; i < 10; i++) {
		expect_cqe(&r.b->rcq, i, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 10 * i, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 10 * i + 1, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 10 * i + 2, UROCE_WC_SUCCESS);
	}
	expect_no_cqe(&r.b->rcq);
	assert_true(*counter == 10);
	assert_memory_equal(r.bbuf + 4096, r.abuf + 4096, 30000);
	rig_down(&r);
}

/* ---- RNR ---- */
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

/* ---- The window ---- */
static uint32_t
on_the_way(struct rig *r, uint64_t id)
{
	uint32_t n;

	r->p->stalled = true;
	rig_write(r, id, 0, 500000);
	pair_settle(r->p);
	n = transport_tx(r->p->h[0].tp, 0)->n;
	r->p->stalled = false;
	return n;
}

/* More on the way after every window that arrived, less after a loss, little after a timeout. */
static void
window_follows_what_arrives(void **state)
{
	struct loss l = { .from = 0, .opcode = -1 };
	uint32_t first, grown;
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	first = on_the_way(&r, 1);
	assert_int_equal(first, 64);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	grown = on_the_way(&r, 2);
	assert_true(grown > first);
	/* One of these, and then another of the same window: one loss. */
	l.nth = l.seen + 1;
	l.count = 2;
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 1);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	l.nth = l.seen;
	l.count = UINT32_MAX;
	rig_write(&r, 3, 0, 10);
	pair_advance(r.p, 70 * PAIR_MS);
	l.count = 0;
	pair_advance(r.p, 200 * PAIR_MS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_in_range(on_the_way(&r, 4), 16, 32);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 4, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* ---- Heavy weather ---- */
struct storm {
	uint64_t seed;
	uint32_t percent;
};

static bool
storm(struct pair *p, const struct note *n, void *arg)
{
	struct storm *s = arg;

	s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (s->seed >> 33) % 100 < s->percent;
}

/* Everything mixed, a lot of it lost in both directions, many seeds: exactly once, in order, with the right bytes. */
static void
everything_survives_loss(void **state)
{
	enum { ROUNDS = 12, LEN = 9000 };

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct storm s = { .seed = seed, .percent = seed % 4 == 0 ? 20 : 5 };
		struct rig r;

		rig_up(&r, NULL, &(struct conn_opts){ .psn = 0xffffe0, .timeout = 8, .mtu = 1 + seed % 5 });
		r.p->lose = storm;
		r.p->lose_arg = &s;
		r.p->duplicate = seed % 3 == 0;
		for (uint32_t i = 0; i < ROUNDS; i++)
			end_recv(r.b, i, SGE(r.bbuf + 200000 + i * LEN, LEN, r.bmr), 1);
		for (uint32_t i = 0; i < ROUNDS; i++) {
			rig_send(&r, 4 * i, 200000 + i * LEN, LEN);
			rig_fetch_add(&r, 4 * i + 1, 8 * i, 3);
			rig_write(&r, 4 * i + 2, 400000 + i * LEN, LEN);
			/* What was just written, back to another place. */
			end_send(r.a, &(struct wr){ .id = 4 * i + 3,
						    .op = UROCE_WR_RDMA_READ,
						    .nb_sge = 1,
						    .sge = SGE(r.abuf + 600000 + i * LEN, LEN, r.amr),
						    .rkey = r.bmr->key,
						    .remote_addr = ADDR(r.bbuf) + 400000 + i * LEN });
		}
		pair_advance(r.p, 2000 * PAIR_MS);
		for (uint32_t i = 0; i < ROUNDS; i++) {
			expect_cqe(&r.b->rcq, i, UROCE_WC_SUCCESS);
			for (uint32_t k = 0; k < 4; k++)
				expect_cqe(&r.a->scq, 4 * i + k, UROCE_WC_SUCCESS);
			assert_true(*(uint64_t *)(r.abuf + 8 * i) == 3 * i);
		}
		assert_true(*(uint64_t *)r.bbuf == 3 * ROUNDS);
		assert_memory_equal(r.bbuf + 200000, r.abuf + 200000, ROUNDS * LEN);
		assert_memory_equal(r.bbuf + 400000, r.abuf + 400000, ROUNDS * LEN);
		assert_memory_equal(r.abuf + 600000, r.abuf + 400000, ROUNDS * LEN);
		rig_down(&r);
	}
}

static void
full_tx_vector_delays_but_loses_nothing(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .sq_depth = 256, .cq_depth = 512 }, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	/* Open the window. */
	for (uint32_t i = 0; i < 50; i++) {
		rig_write(&r, i, 0, 100000);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	memset(r.bbuf, 0, BUF);
	r.p->stalled = true;
	for (uint32_t i = 0; i < 4; i++)
		rig_write(&r, i, i * 100000, 60000);
	pair_advance(r.p, 200 * PAIR_US);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, TP_TX_MAX);
	r.p->stalled = false;
	pair_advance(r.p, 1 * PAIR_MS);
	for (uint32_t i = 0; i < 4; i++) {
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
		assert_memory_equal(r.bbuf + i * 100000, r.abuf + i * 100000, 60000);
	}
	assert_int_equal(counters(&r, 0)->retransmitted_packets, 0);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_packet_is_nakked_and_resent),
		cmocka_unit_test(sequence_nak_sent_once_per_gap),
		cmocka_unit_test(gap_that_moves_before_the_nak_is_sent_is_still_asked_for),
		cmocka_unit_test(gap_that_closes_before_the_nak_is_sent_is_acknowledged),
		cmocka_unit_test(lost_tail_is_resent_after_the_timeout),
		cmocka_unit_test(nothing_acknowledged_is_resent),
		cmocka_unit_test(retry_exhausted_after_retry_cnt_retransmissions),
		cmocka_unit_test(retry_cnt_7_is_seven),
		cmocka_unit_test(timeouts_in_a_row_grow_to_four_times),
		cmocka_unit_test(long_timeouts_do_not_grow),
		cmocka_unit_test(progress_renews_the_retries),
		cmocka_unit_test(lost_ack_makes_a_duplicate_that_is_only_acknowledged),
		cmocka_unit_test(duplicate_atomic_replays_stored_result),
		cmocka_unit_test(read_restarts_at_the_missing_psn),
		cmocka_unit_test(each_lost_response_of_a_read_is_asked_for_again),
		cmocka_unit_test(ack_beyond_a_read_is_an_implied_nak),
		cmocka_unit_test(read_response_acknowledges_writes_before_it),
		cmocka_unit_test(duplicate_read_with_stale_key_is_dropped),
		cmocka_unit_test(duplicated_network_packets_change_nothing),
		cmocka_unit_test(rnr_nak_waits_and_succeeds),
		cmocka_unit_test(rnr_retry_exhausted),
		cmocka_unit_test(rnr_retry_0_fails_at_once),
		cmocka_unit_test(rnr_retry_7_is_for_ever),
		cmocka_unit_test(slow_rnr_naks_are_no_lost_answers),
		cmocka_unit_test(rnr_on_the_last_packet_of_write_with_imm_places_nothing_of_it),
		cmocka_unit_test(window_follows_what_arrives),
		cmocka_unit_test(everything_survives_loss),
		cmocka_unit_test(full_tx_vector_delays_but_loses_nothing),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
