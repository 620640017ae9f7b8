/* SPDX-License-Identifier: BSD-3-Clause */
/* Brief turns: what shares that send much get while another one sends a little now and then. */
#include "share_rig.h"

enum { BRIEF_COST = TP_SHARE_QUANTUM / TP_BRIEF, PAUSE_TURNS = TP_LIGHT_NS / STEP_NS + 1 };

/* Send a message of a share that sends little, in a turn of all. @return what that turn cost the others together. */
static uint64_t
turn_with(struct bench *b, struct flood *little)
{
	uint64_t all = b->tp->cost, own = look(b, little).stats.cost;
	struct ring_cqe e;

	while (cq_poll(&little->ends[0]->scq, &e, NULL))
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
	post(b, little->ends[0], 8);
	bench_turn(b);
	return b->tp->cost - all - (look(b, little).stats.cost - own);
}

static struct flood *
add_little(struct bench *b)
{
	struct flood *f = flood_add(b, 1, 8, &(struct share_params){ 0 });

	f->pauses = true;
	return f;
}

static void
turns_are_brief_while_another_share_sends_little(void **state)
{
	struct flood *little;
	uint64_t before, sum = 0;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	little = add_little(&b);
	bench_run(&b, PAUSE_TURNS);
	/* The first message comes as a surprise; the next ones find brief turns. */
	turn_with(&b, little);
	for (int i = 0; i < 5; i++) {
		uint64_t cost = turn_with(&b, little);

		/* In some the others only pay what they owe for the packet before. */
		assert_in_range(cost, 0, BRIEF_COST + BIG + TP_COST_PACKET + TP_COST_WQE + 100);
		sum += cost;
	}
	assert_in_range(sum, BIG, 5 * BRIEF_COST + BIG + TP_COST_PACKET + TP_COST_WQE + 100);
	assert_true(share_is_light(b.tp, little->share));
	assert_false(share_is_light(b.tp, b.f[0].share));
	/* Brief turns go on until it has been silent for a while. */
	before = b.tp->cost;
	bench_turn(&b);
	assert_in_range(b.tp->cost - before, 1, BRIEF_COST + BIG + TP_COST_PACKET + TP_COST_WQE + 200);
	bench_run(&b, PAUSE_TURNS);
	assert_int_equal(bench_turn(&b), TP_TURN_BUDGET);
	assert_false(share_is_light(b.tp, little->share));
	bench_down(&b);
}

/* Nobody's turns are cut for them: they have no reason to believe that what they wait for comes soon. */
static void
shares_that_all_send_little_are_not_light(void **state)
{
	struct flood *one, *two;
	struct bench b;

	bench_up(&b);
	one = add_little(&b);
	two = add_little(&b);
	bench_run(&b, PAUSE_TURNS);
	for (int i = 0; i < 5; i++) {
		post(&b, one->ends[0], 8);
		post(&b, two->ends[0], 8);
		bench_turn(&b);
	}
	assert_false(share_is_light(b.tp, one->share));
	assert_false(share_is_light(b.tp, two->share));
	bench_down(&b);
}

static void
a_share_does_not_cut_its_own_turns(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, 8, &(struct share_params){ 0 })->pauses = true;
	post(&b, b.f[0].ends[0], 8);
	bench_turn(&b);
	b.f[0].pauses = false;
	assert_int_equal(bench_turn(&b), 2 * TP_QP_BUDGET);
	bench_down(&b);
}

static void
in_a_brief_turn_each_share_gets_its_part(void **state)
{
	struct flood *little;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ .weight = 200 });
	flood_add(&b, 8, BIG, &(struct share_params){ .weight = 100 });
	little = add_little(&b);
	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t cost = turn_with(&b, little);

		if (i > 0)
			assert_in_range(cost, 0, 3 * BRIEF_COST + 2 * (BIG + TP_COST_PACKET + TP_COST_WQE + 100));
		assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 2, 1);
	}
	assert_int_equal(look(&b, little).stats.packets, MANY);
	bench_down(&b);
}

/* It has a bounded number of messages under way, and learns of their ends only when the turn is over. */
static void
who_fills_the_turn_gets_no_more_than_who_waits_for_its_end(void **state)
{
	enum { UNDER_WAY = 16 };
	struct flood *bounded;
	struct ring_cqe e;
	uint64_t first = 0, cost;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	bounded = add_little(&b);
	for (uint32_t i = 0; i < MANY; i++) {
		while (cq_poll(&bounded->ends[0]->scq, &e, NULL))
			;
		while (bounded->ends[0]->sq.counter - bounded->ends[0]->scq.ring.counter < UNDER_WAY)
			post(&b, bounded->ends[0], 8);
		bench_turn(&b);
		/* The first turn comes as a surprise. */
		if (i == 0)
			first = look(&b, &b.f[0]).stats.cost;
	}
	/* Not ten times as much. */
	cost = look(&b, bounded).stats.cost;
	assert_in_range(look(&b, &b.f[0]).stats.cost - first, cost / 2, cost + cost / 2);
	assert_false(share_is_light(b.tp, bounded->share));
	bench_down(&b);
}

static void
turns_are_brief_after_a_request_of_the_control_thread(void **state)
{
	struct bench b;
	uint64_t cost;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	bench_turn(&b);
	transport_called(b.tp, b.p->now);
	for (uint32_t i = 1; i < TP_CALLED_NS / STEP_NS; i++) {
		cost = b.tp->cost;
		bench_turn(&b);
		assert_in_range(b.tp->cost - cost, 1, BRIEF_COST + BIG + TP_COST_PACKET + TP_COST_WQE + 200);
	}
	assert_int_equal(bench_turn(&b), TP_TURN_BUDGET);
	bench_down(&b);
}

/* One packet and nobody else: whoever comes next finds that this share sends little. */
static void
a_share_that_was_alone_is_remembered(void **state)
{
	struct flood *f;
	struct bench b;

	bench_up(&b);
	f = add_little(&b);
	post(&b, f->ends[0], 8);
	assert_int_equal(bench_turn(&b), 1);
	assert_ptr_equal(b.tp->light[0].share, f->share);
	bench_down(&b);
}

static void
two_shares_that_send_little_are_remembered(void **state)
{
	struct flood *one, *two;
	struct bench b;

	bench_up(&b);
	one = add_little(&b);
	two = add_little(&b);
	post(&b, two->ends[0], 8);
	bench_turn(&b);
	/* The last one that sent little begins to send much: the other one's messages still find brief turns. */
	post(&b, one->ends[0], 8);
	bench_turn(&b);
	one->pauses = false;
	assert_in_range(bench_turn(&b), 1, 2 * (BRIEF_COST / (TP_COST_PACKET + TP_COST_WQE) + 1));
	bench_down(&b);
}

static void
a_share_that_has_ended_is_not_followed(void **state)
{
	struct share *s;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	s = add_little(&b)->share;
	turn_with(&b, &b.f[1]);
	end_free(b.f[1].ends[0]);
	share_destroy(b.tp, s);
	b.nb_floods = 1;
	bench_run(&b, PAUSE_TURNS);
	assert_int_equal(bench_turn(&b), TP_TURN_BUDGET);
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_are_brief_while_another_share_sends_little),
		cmocka_unit_test(shares_that_all_send_little_are_not_light),
		cmocka_unit_test(a_share_does_not_cut_its_own_turns),
		cmocka_unit_test(in_a_brief_turn_each_share_gets_its_part),
		cmocka_unit_test(who_fills_the_turn_gets_no_more_than_who_waits_for_its_end),
		cmocka_unit_test(turns_are_brief_after_a_request_of_the_control_thread),
		cmocka_unit_test(a_share_that_was_alone_is_remembered),
		cmocka_unit_test(two_shares_that_send_little_are_remembered),
		cmocka_unit_test(a_share_that_has_ended_is_not_followed),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
