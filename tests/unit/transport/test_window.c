/* SPDX-License-Identifier: BSD-3-Clause */
/* Round trips as measured, and the window that losses leave, of connections with traffic; test_cwnd.c has the rules one by one. */
#include "rig.h"
#include "transport/cc/cwnd_priv.h"
#include "transport/core/types_priv.h"

/* One WRITE whose answer takes @p rtt ns, so long after the last that it is measured and old ones are forgotten. */
static void
round_trip(struct rig *r, uint64_t id, uint64_t rtt)
{
	pair_advance(r->p, TP_RTT_MIN_NS + PAIR_US);
	r->p->stalled = true;
	rig_write(r, id, 0, 100);
	pair_advance(r->p, rtt);
	r->p->stalled = false;
	pair_settle(r->p);
	expect_cqe(&r->a->scq, id, UROCE_WC_SUCCESS);
}

/*
 * Rare samples: what is remembered as the shortest may be far longer than the smoothed round trip. No probe comes within
 * TP_PROBE_MIN_NS, so both round trips count.
 */
static void
loss_after_a_way_became_longer(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	round_trip(&r, 1, PAIR_US / 4);
	round_trip(&r, 2, PAIR_US / 4);
	round_trip(&r, 3, 15 * PAIR_US);
	round_trip(&r, 4, 15 * PAIR_US);
	assert_true(4 * r.a->qp->loss.srtt_ns < r.a->qp->loss.rtt_min_ns);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 5, 0, 16 * 1024);
	pair_advance(r.p, 100 * PAIR_MS);
	expect_cqe(&r.a->scq, 5, UROCE_WC_SUCCESS);
	assert_memory_equal(r.bbuf, r.abuf, 16 * 1024);
	assert_true(l.seen > l.nth);
	/* No queues, no reason to believe that the way holds more or less than the window. */
	assert_in_range(r.a->qp->loss.loss_cwnd, TP_CWND_START / 2, TP_CWND_MAX);
	rig_down(&r);
}

/* While a loss is remembered answers are asked for often; many windows without another one end that. */
static void
a_loss_of_long_ago_is_forgotten(void **state)
{
	enum { BYTES = 256 * 1024, MOST = 100 };
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	uint32_t i;
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 0, 0, BYTES);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 0, UROCE_WC_SUCCESS);
	assert_int_equal(r.a->qp->loss.ackreq_mask, TP_ACKREQ_LOSSY - 1);
	for (i = 0; i < MOST && r.a->qp->loss.lossy != 0; i++) {
		r.p->nb_log = 0;
		rig_write(&r, 1 + i, 0, BYTES);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 1 + i, UROCE_WC_SUCCESS);
	}
	/* Not at once, and not never: a window is 256 packets at most, as long as each of these WRITEs. */
	assert_in_range(i, TP_CWND_CALM / 8, MOST - 1);
	assert_int_equal(r.a->qp->loss.ackreq_mask, TP_ACKREQ_PACKETS - 1);
	rig_down(&r);
}

/* In a long message every 32nd packet asks for an ACK, and so does the last one. */
static void
a_long_message_asks_for_acks_now_and_then(void **state)
{
	enum { PACKETS = 100, EVERY = 32, MTU = 1024 };
	uint32_t asked = 0;
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, PACKETS * MTU);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	for (uint32_t i = 0; i < r.p->nb_log; i++) {
		const struct wire_bth *b = &r.p->log[i].bth;

		if (r.p->log[i].from != 0)
			continue;
		asked += b->ackreq;
		if (b->psn % EVERY == EVERY - 1 || b->opcode == WIRE_OP_WRITE_LAST)
			assert_true(b->ackreq);
	}
	assert_in_range(asked, PACKETS / EVERY, PACKETS / EVERY + 3);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_after_a_way_became_longer),
		cmocka_unit_test(a_loss_of_long_ago_is_forgotten),
		cmocka_unit_test(a_long_message_asks_for_acks_now_and_then),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
