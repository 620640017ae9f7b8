/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat: what a SACK says, by hand, and what must not be made of it. */
#include "selective_rig.h"
#include "transport/req/loss_priv.h"

/* Says that b has everything up to @p psn, and of what is behind that the bits of @p bits. */
static void
say(struct rig *r, uint32_t psn, uint64_t bits)
{
	struct hand_sack s = hand_sack(r);

	hand_sack_bits(&s, 0, bits);
	hand_sack_inject(r, &s, psn);
}

/* Selective repeat is on, and four WRITEs of a packet each are sent and lost, as is all that follows. @return the first one's PSN. */
static uint32_t
lose_four_writes(struct rig *r, struct loss *l)
{
	uint32_t psn;

	find_each_other(r, l);
	*l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r->a->qp->req.psn_next;
	for (uint32_t i = 0; i < 4; i++)
		rig_write(r, 2 + i, 16 * KIB + i * KIB, KIB);
	pair_settle(r->p);
	return psn;
}

/* The one exception to that a SACK says for ever: what comes next could not be executed after all. */
static void
what_a_sack_takes_back_is_sent_again(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn;

	psn = lose_four_writes(&r, &l);
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

static uint32_t
times_sent(const struct rig *r, uint32_t psn)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->p->nb_log; i++)
		n += r->p->log[i].from == 0 && r->p->log[i].bth.psn == psn;
	return n;
}

/* A packet is sent again behind the last one of four. Whatever of the four has arrived says nothing of that. */
static void
what_was_sent_before_a_retransmission_says_nothing_of_it(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn;

	psn = lose_four_writes(&r, &l);
	assert_int_equal(times_sent(&r, psn), 1);
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1);
	pair_settle(r.p);
	assert_int_equal(times_sent(&r, psn), 2);
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1 | 1 << 2 | 1 << 3);
	pair_settle(r.p);
	assert_int_equal(times_sent(&r, psn), 2);
	rig_down(&r);
}

/* What was late is taken for lost, sent again, and then reported: too early for that to be about what was sent again. */
static void
what_was_late_says_nothing_of_other_retransmissions(void **state)
{
	const uint32_t round_trip_ns = 100 * PAIR_US;
	struct loss l;
	struct rig r;
	uint32_t psn;

	psn = lose_four_writes(&r, &l);
	r.a->qp->loss.rtt_min_ns = round_trip_ns;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 3);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(times_sent(&r, wire_psn_add(psn, i)), 2);
	r.p->now += round_trip_ns / 2;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1 | 1 << 3);
	pair_settle(r.p);
	assert_int_equal(times_sent(&r, psn), 2);
	r.p->now += round_trip_ns;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1 | 1 << 2 | 1 << 3);
	pair_settle(r.p);
	assert_int_equal(times_sent(&r, psn), 3);
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

/* The packet whose round trip is measured is missing, another one is there. */
static void
a_packet_that_is_held_says_nothing_of_the_round_trip_of_another(void **state)
{
	uint32_t psn, srtt, pto;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	pair_advance(r.p, TP_RTT_EVERY_NS);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r.a->qp->req.psn_next;
	for (uint32_t i = 0; i < 3; i++)
		rig_write(&r, 2 + i, 16 * KIB + i * KIB, KIB);
	pair_settle(r.p);
	r.p->lose = NULL;
	assert_true(r.a->qp->loss.rtt_timing);
	assert_int_equal(r.a->qp->loss.rtt_psn, psn);
	srtt = r.a->qp->loss.srtt_ns;
	pto = r.a->qp->loss.pto_ns;
	r.p->now += 500 * PAIR_US;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1);
	assert_false(r.a->qp->loss.rtt_timing);
	assert_int_equal(r.a->qp->loss.srtt_ns, srtt);
	assert_int_equal(r.a->qp->loss.pto_ns, pto);
	pair_settle(r.p);
	rig_down(&r);
}

/*
 * A response says that the peer has what was taken for lost before: fewer packets are lost than until then, which is no
 * reason for a larger window.
 */
static void
window_does_not_grow_by_what_was_taken_for_lost(void **state)
{
	enum { BETWEEN = 4 };
	uint8_t response[WIRE_AETH_BYTES + KIB] = { WIRE_AETH_CREDITS_INVALID };
	struct wire_bth b = { .opcode = WIRE_OP_READ_RESP_ONLY, .migreq = true };
	uint32_t psn, cwnd;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r.a->qp->req.psn_next;
	b.mark = sack_mark(r.a->qp->req.sack_nonce);
	b.psn = wire_psn_add(psn, BETWEEN + 1);
	rig_read(&r, 2, 0, KIB);
	for (uint32_t i = 0; i < BETWEEN; i++)
		rig_write(&r, 3 + i, 16 * KIB + i * KIB, KIB);
	rig_read(&r, 3 + BETWEEN, KIB, KIB);
	pair_settle(r.p);
	r.p->stalled = true;
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << (BETWEEN + 1));
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, BETWEEN + 1);
	cwnd = r.a->qp->loss.loss_cwnd;
	pair_inject(r.p, r.a, &b, response, sizeof(response));
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, 1);
	assert_in_range(r.a->qp->loss.loss_cwnd, 1, cwnd);
	rig_down(&r);
}

/* What counts as not in flight makes the window larger, so it must be no more than what the scoreboard says. */
static void
assert_window_fits(const struct rig *r)
{
	const struct tp_scoreboard *b = r->a->qp->req.scoreboard;

	assert_int_equal(r->a->qp->loss.not_in_flight, b != NULL ? b->nb_has + b->nb_lost : 0);
}

static void
a_lost_packet_that_is_sent_as_a_probe_is_in_flight_again(void **state)
{
	struct loss l;
	struct rig r;
	uint32_t psn;

	find_each_other(&r, &l);
	/* A round trip is measured. */
	pair_advance(r.p, TP_RTT_EVERY_NS);
	r.p->stalled = true;
	rig_write(&r, 1000, 0, 16);
	pair_advance(r.p, 10 * PAIR_US);
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1000, UROCE_WC_SUCCESS);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	psn = r.a->qp->req.psn_next;
	rig_write(&r, 2, 0, KIB);
	rig_write(&r, 3, KIB, KIB);
	pair_settle(r.p);
	say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 1);
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, 1);
	/* The engine has no turn until the timer is due. */
	assert_true(r.a->qp->loss.deadline_ns < r.a->qp->loss.giveup_ns);
	r.p->now = r.a->qp->loss.deadline_ns + (UINT64_C(1) << WHEEL_TICK_SHIFT);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->tail_loss_probes, 1);
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, 0);
	assert_window_fits(&r);
	rig_down(&r);
}

/* A scoreboard begins for a response that can't be placed then. What was to be sent again is in it as lost. */
static void
what_a_scoreboard_begins_with_is_not_in_flight(void **state)
{
	uint8_t response[WIRE_AETH_BYTES + KIB] = { WIRE_AETH_CREDITS_INVALID };
	struct wire_bth b = { .opcode = WIRE_OP_READ_RESP_ONLY, .migreq = true };
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 0, .opcode = -1, .count = UINT32_MAX };
	b.psn = wire_psn_add(r.a->qp->req.psn_next, 2);
	for (uint32_t i = 0; i < 4; i++)
		rig_read(&r, 2 + i, i * KIB, KIB);
	pair_settle(r.p);
	/* Without the mark it says only that an earlier response is missing. */
	pair_inject(r.p, r.a, &b, response, sizeof(response));
	assert_true(r.a->qp->loss.restarted);
	assert_null(r.a->qp->req.scoreboard);
	b.mark = sack_mark(r.a->qp->req.sack_nonce);
	pair_inject(r.p, r.a, &b, response, sizeof(response) - 4);
	assert_int_equal(r.a->qp->req.scoreboard->nb_lost, 4);
	assert_window_fits(&r);
	rig_down(&r);
}

/* A stranger's packet was held: everything is sent again, after an offer that makes the peer drop it. */
static void
sack_of_what_was_never_sent_proves_a_stranger(void **state)
{
	for (unsigned int idle = 0; idle < 2; idle++) {
		uint64_t sent_again;
		uint32_t psn, nonce;
		struct loss l;
		struct rig r;

		find_each_other(&r, &l);
		psn = r.a->qp->req.psn_una;
		nonce = r.a->qp->req.sack_nonce;
		sent_again = counters(&r, 0)->retransmitted_packets;
		r.p->stalled = true;
		for (uint32_t i = 0; i < 2 && !idle; i++)
			rig_write(&r, 2 + i, i * KIB, KIB);
		pair_settle(r.p);
		say(&r, wire_psn_add(psn, WIRE_PSN_MASK), 1 << 2);
		r.p->stalled = false;
		assert_int_equal(r.a->qp->req.sack_nonce, (nonce + 1) & SACK_NONCE_MASK);
		assert_int_equal(r.a->qp->req.sack_mark, 0);
		assert_null(r.a->qp->req.scoreboard);
		pair_settle(r.p);
		/* The answer to the offer has told another mark. */
		assert_int_equal(r.b->qp->rcv.sack_nonce, r.a->qp->req.sack_nonce);
		assert_int_equal(r.a->qp->req.sack_mark, r.b->qp->rcv.sack_mark);
		assert_true(r.a->qp->req.sack_peer);
		assert_int_equal(counters(&r, 0)->rx_sack_stranger, 1);
		assert_int_equal(counters(&r, 0)->retransmitted_packets - sent_again, idle ? 0 : 2);
		for (uint32_t i = 0; i < 2 && !idle; i++)
			expect_cqe(&r.a->scq, 2 + i, UROCE_WC_SUCCESS);
		rig_down(&r);
	}
}

/* ---- Packets of an earlier connection, or of another QP of the peer's host ---- */
enum { WRITES = 8 };

static void
stranger(struct rig *r, uint32_t ahead, uint8_t mark)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY, .migreq = true, .mark = mark };
	uint8_t at[WIRE_RETH_BYTES + 64];

	b.psn = wire_psn_add(r->b->qp->rcv.epsn, ahead);
	wire_put_reth(at, ADDR(r->bbuf) + 512 * KIB, r->bmr->key, 64);
	memset(at + WIRE_RETH_BYTES, 0xee, 64);
	pair_inject(r->p, r->b, &b, at, sizeof(at));
}

/* Without the mark a packet beyond a gap isn't held; with it, but never sent by the peer, it is dropped before it can do harm. */
static void
what_a_stranger_writes_is_never_executed(void **state)
{
	for (unsigned int with_mark = 0; with_mark < 2; with_mark++) {
		for (uint32_t ahead = 1; ahead < WRITES; ahead++) {
			struct loss l;
			struct rig r;

			find_each_other(&r, &l);
			stranger(&r, ahead, with_mark ? r.b->qp->rcv.sack_mark : 0);
			assert_int_equal(r.b->qp->rcv.reorder != NULL, with_mark);
			pair_settle(r.p);
			assert_null(r.b->qp->rcv.reorder);
			for (uint32_t i = 0; i < WRITES; i++)
				rig_write(&r, 2 + i, i * KIB, KIB);
			pair_settle(r.p);
			for (uint32_t i = 0; i < WRITES; i++)
				expect_cqe(&r.a->scq, 2 + i, UROCE_WC_SUCCESS);
			assert_memory_equal(r.abuf, r.bbuf, WRITES * KIB);
			assert_int_equal(r.bbuf[512 * KIB], 0);
			assert_int_equal(counters(&r, 1)->rx_sack_unmarked, !with_mark);
			assert_int_equal(counters(&r, 0)->rx_sack_stranger, with_mark);
			assert_int_equal(counters(&r, 1)->duplicate_request, 0);
			rig_down(&r);
		}
	}
}

static void
what_a_stranger_answers_is_never_placed(void **state)
{
	static const uint8_t payload[KIB] = { 0xee };
	uint32_t ahead = 5;
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	fill(r.bbuf, BUF, 7);
	r.p->stalled = true;
	rig_read(&r, 2, 0, WRITES * KIB);
	pair_settle(r.p);
	pair_inject(r.p, r.a,
		    &(struct wire_bth){ .opcode = WIRE_OP_READ_RESP_MIDDLE, .migreq = true,
					.psn = wire_psn_add(r.a->qp->req.psn_una, ahead),
					.mark = sack_mark(r.a->qp->req.sack_nonce + 1) },
		    payload, sizeof(payload));
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, WRITES * KIB);
	assert_int_equal(counters(&r, 0)->rx_response_placed, 0);
	assert_int_equal(counters(&r, 0)->rx_sack_unmarked, 1);
	rig_down(&r);
}

static void
sack_that_acknowledges_what_was_never_sent_is_a_ghost(void **state)
{
	struct loss l;
	struct rig r;

	find_each_other(&r, &l);
	say(&r, r.a->qp->req.psn_max, 0);
	assert_int_equal(counters(&r, 0)->rx_ghost_ack, 1);
	assert_int_equal(counters(&r, 0)->rx_sack_stranger, 0);
	rig_down(&r);
}

/* Of another product, or for an offer of another connection. The peer may have taken such an offer: it gets this one's. */
static void
sacks_that_answer_no_offer_of_this_connection_are_ignored(void **state)
{
	static const uint32_t wrong[] = { 0, 3, SACK_NONCE, SACK_NONCE + 2 };

	for (unsigned int i = 0; i < RTE_DIM(wrong); i++) {
		struct hand_sack s;
		struct loss l;
		struct rig r;

		find_each_other(&r, &l);
		s = hand_sack(&r);
		s.bytes[WIRE_AETH_BYTES + wrong[i]] ^= 1;
		hand_sack_bits(&s, 0, 1);
		for (unsigned int n = 1; n <= 2; n++) {
			hand_sack_inject(&r, &s, r.a->qp->req.psn_una);
			assert_int_equal(counters(&r, 0)->rx_sack_ignored, n);
		}
		assert_null(r.a->qp->req.scoreboard);
		assert_int_equal(r.a->qp->req.sack_peer, wrong[i] < SACK_NONCE);
		pair_settle(r.p);
		assert_true(r.a->qp->req.sack_peer);
		assert_int_equal(counters(&r, 0)->sack_offers_sent, wrong[i] < SACK_NONCE ? 1 : 2);
		rig_down(&r);
	}
}

/* Packets overtake the offer: they are the cause of a NAK, and the offer is answered nevertheless. */
static void
an_offer_behind_a_gap_is_answered(void **state)
{
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY, .migreq = true };
	uint8_t reth[WIRE_RETH_BYTES];
	struct rig r;

	up(&r, NULL);
	r.p->stalled = true;
	b.psn = wire_psn_add(r.b->qp->rcv.epsn, 1);
	wire_put_reth(reth, ADDR(r.bbuf), r.bmr->key, 0);
	pair_inject(r.p, r.b, &b, reth, sizeof(reth));
	assert_int_equal(r.b->qp->resp.reply, TP_REPLY_NAK_SEQ);
	b.psn = (r.b->qp->rcv.epsn - SACK_OFFER_BEHIND) & WIRE_PSN_MASK;
	wire_put24(reth, SACK_OFFER_MAGIC);
	wire_put24(reth + 3, sack_origin(r.a->qp->qpn, r.a->qp->attr.sq_psn));
	wire_put24(reth + 6, r.a->qp->req.sack_nonce);
	wire_put24(reth + 9, r.a->qp->attr.rq_psn);
	wire_put32(reth + 12, 0);
	pair_inject(r.p, r.b, &b, reth, sizeof(reth));
	assert_true(r.b->qp->rcv.sack_on);
	r.p->stalled = false;
	pair_settle(r.p);
	assert_int_equal(pair_count(r.p, 1, WIRE_OPCODE_SACK), 1);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_PSN_SEQ), 1);
	assert_true(r.a->qp->req.sack_peer);
	rig_down(&r);
}

static void
sack_for_a_qp_that_does_not_send_is_dropped(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	say(&r, 0, 0);
	assert_int_equal(counters(&r, 0)->rx_wrong_state, 1);
	assert_int_equal(counters(&r, 0)->rx_sack_ignored, 0);
	rig_down(&r);
}

/* Half the numbers away from what was sent, the highest one that it speaks of seems to be behind. */
static void
sack_half_the_numbers_away_is_no_news(void **state)
{
	struct loss l = { .from = 1, .opcode = -1, .count = UINT32_MAX };
	uint64_t ghosts = 0;
	struct rig r;

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
			struct hand_sack s = hand_sack(&r);

			hand_sack_bits(&s, 3, UINT64_C(1) << 63);
			hand_sack_inject(&r, &s, wire_psn_add(r.a->qp->req.psn_max, (1 << 23) - off));
			ghosts++;
			assert_int_equal(counters(&r, 0)->rx_ghost_ack + counters(&r, 0)->rx_response_ignored, ghosts);
		}
		expect_no_cqe(&r.a->scq);
		ghosts = 0;
		rig_down(&r);
	}
}

/* What a READ has brought is counted once, whether it was placed in order, beyond a gap, or came again. */
static void
bytes_of_responses_are_counted_once(void **state)
{
	enum { BYTES = 32 * 1024 };
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_MIDDLE, .nth = 5, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	/* The loss of the first one lets both ends know that they can do selective repeat. */
	for (uint32_t i = 1; i <= 2; i++) {
		l.seen = 0;
		rig_read(&r, i, 0, BYTES);
		pair_advance(r.p, 10 * PAIR_MS);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
		assert_int_equal(r.a->qp->rcv.rx_bytes, i * BYTES);
	}
	assert_true(counters(&r, 0)->rx_response_placed > 0);
	rig_down(&r);
}

/*
 * A scoreboard that begins while the requester goes back N: what it takes for lost isn't in flight, and the window says so at once. It has a timer
 * again, though it isn't sent yet.
 */
static void
what_a_new_scoreboard_takes_for_lost_is_outside_of_the_window_and_has_a_timer(void **state)
{
	enum { READS = 3 };
	struct loss l;
	struct transport *tp;
	struct rig r;
	struct qp *qp;
	uint16_t cwnd;

	find_each_other(&r, &l);
	l = (struct loss){ .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .count = READS };
	for (uint64_t i = 0; i < READS; i++)
		rig_read(&r, 2 + i, 0, 100);
	pair_settle(r.p);
	tp = r.p->h[0].tp;
	qp = r.a->qp;
	/* As when the timer has fired. */
	loss_go_back(tp, qp);
	qp->loss.deadline_ns = 0;
	cwnd = qp->loss.cwnd;
	assert_int_equal(scoreboard_get(tp, qp)->nb_lost, READS);
	assert_int_equal(qp->loss.cwnd, cwnd + READS);
	assert_int_not_equal(qp->loss.deadline_ns, 0);
	host_turn(&r.p->h[0]);
	pair_settle(r.p);
	for (uint64_t i = 0; i < READS; i++)
		expect_cqe(&r.a->scq, 2 + i, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* Both ends calculate it, and they may be of different versions. */
static void
an_offer_names_its_sender_in_the_same_way_for_ever(void **state)
{
	assert_int_equal(sack_origin(0x123456, 0x654321), 0x993a6c);
	assert_int_equal(sack_origin(0xfffffe, 0xfffff0), 0xb7a46e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_sack_takes_back_is_sent_again),
		cmocka_unit_test(what_was_sent_before_a_retransmission_says_nothing_of_it),
		cmocka_unit_test(what_was_late_says_nothing_of_other_retransmissions),
		cmocka_unit_test(what_was_lost_and_has_no_memory_any_more_fails_in_its_turn),
		cmocka_unit_test(a_packet_that_is_held_says_nothing_of_the_round_trip_of_another),
		cmocka_unit_test(what_a_new_scoreboard_takes_for_lost_is_outside_of_the_window_and_has_a_timer),
		cmocka_unit_test(window_does_not_grow_by_what_was_taken_for_lost),
		cmocka_unit_test(a_lost_packet_that_is_sent_as_a_probe_is_in_flight_again),
		cmocka_unit_test(what_a_scoreboard_begins_with_is_not_in_flight),
		cmocka_unit_test(sack_of_what_was_never_sent_proves_a_stranger),
		cmocka_unit_test(what_a_stranger_writes_is_never_executed),
		cmocka_unit_test(what_a_stranger_answers_is_never_placed),
		cmocka_unit_test(sack_that_acknowledges_what_was_never_sent_is_a_ghost),
		cmocka_unit_test(sacks_that_answer_no_offer_of_this_connection_are_ignored),
		cmocka_unit_test(an_offer_behind_a_gap_is_answered),
		cmocka_unit_test(sack_for_a_qp_that_does_not_send_is_dropped),
		cmocka_unit_test(sack_half_the_numbers_away_is_no_news),
		cmocka_unit_test(bytes_of_responses_are_counted_once),
		cmocka_unit_test(an_offer_names_its_sender_in_the_same_way_for_ever),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
