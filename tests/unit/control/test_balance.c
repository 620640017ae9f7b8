/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of `balance`: which QPs move where, by loads that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "balance_world.h"

/* ---- A hot engine ---- */
static void
hot_engine_gives_half_of_its_qps_away(void **state)
{
	struct world *w = world(2);

	add(w, 0, 16, BALANCE_ALL / 16);
	assert_int_equal(interval(w), 0);
	assert_int_equal(interval(w), BALANCE_MOVES);
	assert_int_equal(qps_at(w, 1), 8);
	assert_int_equal(intervals(w, 100), 0);
	free(w);
}

static void
engine_that_was_hot_for_one_interval_keeps_its_qps(void **state)
{
	struct world *w = world(2);

	add(w, 0, 16, 5 * PERCENT);
	for (int i = 0; i < 20; i++) {
		w->own[0] = (i & 1) != 0 ? 15 * PERCENT : 0;
		assert_int_equal(interval(w), 0);
	}
	free(w);
}

static void
engine_that_is_not_hot_keeps_its_qps(void **state)
{
	struct world *w = world(2);

	add(w, 0, 16, BALANCE_HOT / 16);
	assert_int_equal(intervals(w, 20), 0);
	free(w);
}

static void
qp_that_alone_is_the_load_stays(void **state)
{
	struct world *w = world(2);

	add(w, 0, 1, 2 * BALANCE_ALL);
	add(w, 0, 50, 0);
	assert_int_equal(intervals(w, 100), 0);
	free(w);
}

static void
qps_without_load_stay_at_a_hot_engine(void **state)
{
	struct world *w = world(2);
	uint32_t light;

	w->qp[add(w, 0, 1, 60 * PERCENT)].stays = true;
	light = add(w, 0, 4, 10 * PERCENT);
	add(w, 0, 20, 0);
	assert_int_equal(intervals(w, 30), 4);
	for (uint32_t i = 0; i < w->nb_qps; i++)
		assert_int_equal(w->qp[i].engine, i >= light && i < light + 4);
	free(w);
}

static void
small_gain_is_no_reason_to_move(void **state)
{
	struct world *w = world(2);

	/* The heavy one can't go anywhere, and the others are too light to matter. */
	add(w, 0, 1, 90 * PERCENT);
	add(w, 0, 9, PERCENT);
	assert_int_equal(intervals(w, 30), 0);
	/* With one more they are worth it. */
	add(w, 0, 1, PERCENT + PERCENT / 2);
	assert_int_not_equal(intervals(w, 2), 0);
	free(w);
}

static void
small_gap_is_no_reason_to_move(void **state)
{
	struct world *w = world(2);

	add(w, 0, 9, 10 * PERCENT);
	add(w, 1, 7, 10 * PERCENT);
	assert_int_equal(intervals(w, 30), 0);
	w->qp[w->nb_qps - 1].load = 0;
	assert_int_not_equal(intervals(w, 2), 0);
	free(w);
}

static void
the_other_engine_ends_below_what_the_hot_one_had(void **state)
{
	struct world *w = world(2);
	uint32_t heavy = add(w, 0, 1, 60 * PERCENT);

	/* 35 + 60 + the margin is more than 100. */
	w->qp[add(w, 0, 1, 40 * PERCENT)].stays = true;
	w->own[1] = 35 * PERCENT;
	assert_int_equal(intervals(w, 10), 0);
	w->own[1] = 30 * PERCENT;
	assert_int_equal(intervals(w, 1), 1);
	assert_int_equal(w->qp[heavy].engine, 1);
	free(w);
}

/* It can't be divided there either: the load would only have another place. */
static void
group_that_is_most_of_the_load_does_not_make_the_other_engine_hot(void **state)
{
	struct world *w = world(2);
	uint32_t group;

	w->qp[add(w, 0, 1, 10 * PERCENT)].stays = true;
	group = add_group(w, 0, 8, 85 * PERCENT);
	assert_int_equal(intervals(w, 30), 0);
	/* The other engine has room for as much. */
	w->qp[group].load = 75 * PERCENT;
	assert_int_equal(intervals(w, 2), 1);
	assert_int_equal(w->qp[group].engine, 1);
	free(w);
	/* One QP goes. */
	w = world(2);
	w->qp[add(w, 0, 1, 10 * PERCENT)].stays = true;
	add(w, 0, 1, 85 * PERCENT);
	assert_int_equal(intervals(w, 3), 1);
	free(w);
}

static void
group_that_makes_two_busy_engines_equal_goes(void **state)
{
	for (uint32_t percent = 12; percent <= 13; percent++) {
		struct world *w = world(2);
		uint32_t group;

		w->qp[add(w, 0, 1, (100 - percent) * PERCENT)].stays = true;
		group = add_group(w, 0, 3, percent * PERCENT);
		w->own[1] = 75 * PERCENT;
		intervals(w, 3);
		/* Half of the gap is 12.5. */
		assert_int_equal(w->qp[group].engine, percent == 12);
		free(w);
	}
}

static void
the_qp_that_helps_most_goes(void **state)
{
	struct world *w = world(2);
	uint32_t best;

	add(w, 0, 1, 55 * PERCENT);
	best = add(w, 0, 1, 30 * PERCENT);
	add(w, 0, 1, 15 * PERCENT);
	w->own[1] = 30 * PERCENT;
	assert_int_equal(intervals(w, 30), 1);
	assert_int_equal(w->qp[best].engine, 1);
	free(w);
}

static void
the_coolest_engine_gets_qps(void **state)
{
	struct world *w = world(4);

	add(w, 0, 10, 10 * PERCENT);
	w->own[1] = 50 * PERCENT;
	w->own[2] = 10 * PERCENT;
	w->own[3] = 20 * PERCENT;
	intervals(w, 2);
	assert_int_equal(w->moves[0].to, 2);
	assert_int_equal(qps_at(w, 1), 0);
	assert_true(qps_at(w, 2) >= qps_at(w, 3) && qps_at(w, 3) > 0);
	free(w);
}

static void
the_hottest_engine_gives_first(void **state)
{
	struct world *w = world(3);

	add(w, 0, 9, 10 * PERCENT);
	add(w, 1, 10, 10 * PERCENT);
	intervals(w, 2);
	assert_int_equal(w->moves[0].from, 1);
	assert_true(qps_at(w, 0) < 9);
	free(w);
}

/** Each QP is lighter than anything that would count. */
static void
many_light_qps_are_spread_little_by_little(void **state)
{
	struct world *w = world(2);

	add(w, 0, 400, BALANCE_ALL / 400);
	assert_int_equal(intervals(w, 2), BALANCE_MOVES);
	intervals(w, 100);
	assert_true(load(w, 0) <= BALANCE_HOT);
	assert_int_equal(intervals(w, 100), 0);
	free(w);
}

static void
qps_of_other_kinds_stay_and_count(void **state)
{
	struct world *w = world(2);
	uint32_t first = add(w, 0, 4, 20 * PERCENT), light = add(w, 0, 2, 10 * PERCENT);

	for (uint32_t i = first; i < light; i++)
		w->qp[i].stays = true;
	intervals(w, 2);
	assert_int_equal(qps_at(w, 0), 4);
	assert_int_equal(w->moves[0].load, 10 * PERCENT);
	free(w);
}

/** What has moved stays, even where it makes an engine hot. */
static void
qp_that_has_moved_stays_for_a_while(void **state)
{
	struct world *w = world(2);

	add(w, 0, 16, BALANCE_ALL / 16);
	assert_int_equal(intervals(w, 2), BALANCE_MOVES);
	for (uint32_t i = 0; i < w->nb_qps; i++)
		w->qp[i].load = w->qp[i].engine == 1 ? BALANCE_ALL / 8 : 0;
	assert_int_equal(intervals(w, STAY), 0);
	assert_int_not_equal(intervals(w, 1), 0);
	free(w);
}

/* ---- Little to do ---- */
static void
engines_with_little_to_do_become_one(void **state)
{
	struct world *w = world(4);

	for (unsigned int i = 0; i < 4; i++)
		add(w, i, 3, (3 + i) * PERCENT);
	assert_int_equal(intervals(w, BALANCE_LITTLE_FOR - 1), 0);
	/* The lightest goes to the heaviest that has room: 9 and 18, and so on, as long as they are no more than half of an engine. */
	assert_int_equal(interval(w), 3);
	assert_int_equal(w->moves[0].from, 0);
	assert_int_equal(w->moves[0].to, 3);
	intervals(w, 100);
	assert_int_equal(qps_at(w, 0) + qps_at(w, 1), 0);
	assert_true(qps_at(w, 2) > 0 && qps_at(w, 3) > 0);
	free(w);
}

/** The first one sends packets of the control thread, too. */
static void
of_two_equal_engines_the_second_gives(void **state)
{
	struct world *w = world(2);

	add(w, 0, 2, 5 * PERCENT);
	add(w, 1, 2, 5 * PERCENT);
	assert_int_equal(intervals(w, BALANCE_LITTLE_FOR), 2);
	assert_int_equal(qps_at(w, 1), 0);
	free(w);
}

static void
half_of_an_engine_is_the_limit(void **state)
{
	struct world *w = world(2);

	add(w, 0, 5, 5 * PERCENT);
	add(w, 1, 6, 5 * PERCENT);
	assert_int_equal(intervals(w, 100), 0);
	w->qp[0].load = 0;
	intervals(w, BALANCE_LITTLE_FOR);
	/* The one without load stays. */
	assert_int_equal(qps_at(w, 0), 1);
	assert_int_equal(load(w, 0), 0);
	free(w);
}

static void
engine_that_had_more_to_do_a_moment_ago_is_left_alone(void **state)
{
	struct world *w = world(2);
	uint32_t q = add(w, 0, 1, 5 * PERCENT);

	add(w, 1, 1, 10 * PERCENT);
	for (int i = 0; i < 40; i++) {
		w->qp[q].load = i % BALANCE_LITTLE_FOR == 0 ? 45 * PERCENT : 5 * PERCENT;
		assert_int_equal(interval(w), 0);
	}
	free(w);
}

static void
engine_that_could_not_sleep_keeps_its_qps(void **state)
{
	struct world *w = world(2);
	uint32_t q = add(w, 0, 1, 4 * PERCENT);

	add(w, 0, 1, 5 * PERCENT);
	add(w, 1, 1, 20 * PERCENT);
	w->qp[q].stays = true;
	assert_int_equal(intervals(w, 30), 0);
	w->qp[q].load = BALANCE_REST - 1;
	assert_int_equal(intervals(w, BALANCE_LITTLE_FOR), 1);
	assert_int_equal(w->qp[q].engine, 0);
	free(w);
}

/** Its programs ring the doorbell for each message, which is at its home. */
static void
qps_with_next_to_nothing_stay(void **state)
{
	struct world *w = world(2);

	add(w, 0, 1, BALANCE_BUSY_QP - 1);
	add(w, 1, 1, 20 * PERCENT);
	assert_int_equal(intervals(w, 30), 0);
	free(w);
}

static void
idle_qps_stay(void **state)
{
	struct world *w = world(2);

	add(w, 0, 100, 0);
	add(w, 1, 1, 20 * PERCENT);
	add(w, 1, 100, 0);
	assert_int_equal(intervals(w, 30), 0);
	free(w);
}

static void
engines_that_never_sleep_do_not_become_one(void **state)
{
	struct world *w = world(2);

	balance_init(&w->b, 2, false);
	add(w, 0, 1, 10 * PERCENT);
	add(w, 1, 1, 10 * PERCENT);
	assert_int_equal(intervals(w, 30), 0);
	free(w);
}

static void
many_qps_go_in_small_numbers(void **state)
{
	struct world *w = world(2);

	add(w, 0, 10, 2 * PERCENT);
	add(w, 1, 1, 25 * PERCENT);
	assert_int_equal(intervals(w, BALANCE_LITTLE_FOR), BALANCE_MOVES);
	assert_int_equal(interval(w), 2);
	assert_int_equal(qps_at(w, 0), 0);
	free(w);
}

/** One QP keeps an engine busy for good; that is no reason for two others to stay apart. */
static void
others_become_one_beside_a_hot_engine_that_can_give_nothing(void **state)
{
	struct world *w = world(3);

	add(w, 0, 1, BALANCE_ALL);
	add(w, 1, 1, 10 * PERCENT);
	add(w, 2, 1, 15 * PERCENT);
	assert_int_equal(intervals(w, BALANCE_LITTLE_FOR), 1);
	assert_int_equal(qps_at(w, 2), 2);
	assert_int_equal(intervals(w, 50), 0);
	free(w);
}

/** In an interval in which it gives something away, others stay apart. */
static void
a_hot_engine_comes_first(void **state)
{
	struct world *w = world(3);

	add(w, 1, 1, 10 * PERCENT);
	add(w, 2, 1, 15 * PERCENT);
	intervals(w, BALANCE_LITTLE_FOR - 2);
	w->qp[add(w, 0, 1, 85 * PERCENT)].stays = true;
	add(w, 0, 1, 12 * PERCENT);
	assert_int_equal(intervals(w, 2), 1);
	assert_int_equal(w->moves[0].from, 0);
	free(w);
}

/* ---- What is known ---- */
static void
nothing_is_planned_before_enough_intervals_are_known(void **state)
{
	struct world *w = world(2);

	add(w, 0, 16, BALANCE_ALL / 16);
	assert_int_equal(intervals(w, BALANCE_HOT_FOR - 1), 0);
	balance_init(&w->b, 2, true);
	assert_int_equal(intervals(w, BALANCE_HOT_FOR - 1), 0);
	assert_int_not_equal(interval(w), 0);
	free(w);
}

static void
the_heaviest_qps_are_found_in_any_order(void **state)
{
	static const struct balance_qp zero;
	struct balance *b = calloc(1, sizeof(*b));
	const uint32_t loads[1] = { BALANCE_ALL };
	struct balance_engine *e = &b->engines[0];

	balance_init(b, 1, true);
	balance_begin(b, loads);
	for (uint32_t i = 0; i < 3 * BALANCE_HEAVIEST; i++)
		balance_add(b, 0, &(struct balance_qp){ 1, i, 1, 1 + i * 37 % (3 * BALANCE_HEAVIEST) }, i % 2 == 0);
	balance_add(b, 0, &zero, true);
	assert_int_equal(e->n, BALANCE_HEAVIEST);
	for (uint32_t i = 0; i < e->n; i++) {
		assert_int_equal(e->heaviest[i].handle % 2, 0);
		assert_int_equal(e->heaviest[i].cost, 1 + e->heaviest[i].handle * 37 % (3 * BALANCE_HEAVIEST));
		assert_true(i == 0 || e->heaviest[i].cost < e->heaviest[i - 1].cost);
	}
	/* 37 is odd and so keeps the order of even and odd: those that may move have the odd costs. */
	assert_int_equal(e->heaviest[0].cost, 3 * BALANCE_HEAVIEST - 1);
	assert_int_equal(e->heaviest[e->n - 1].cost, 3 * BALANCE_HEAVIEST - 1 - 2 * (BALANCE_HEAVIEST - 1));
	free(b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hot_engine_gives_half_of_its_qps_away),
		cmocka_unit_test(engine_that_was_hot_for_one_interval_keeps_its_qps),
		cmocka_unit_test(engine_that_is_not_hot_keeps_its_qps),
		cmocka_unit_test(qp_that_alone_is_the_load_stays),
		cmocka_unit_test(qps_without_load_stay_at_a_hot_engine),
		cmocka_unit_test(small_gain_is_no_reason_to_move),
		cmocka_unit_test(small_gap_is_no_reason_to_move),
		cmocka_unit_test(the_other_engine_ends_below_what_the_hot_one_had),
		cmocka_unit_test(group_that_is_most_of_the_load_does_not_make_the_other_engine_hot),
		cmocka_unit_test(group_that_makes_two_busy_engines_equal_goes),
		cmocka_unit_test(the_qp_that_helps_most_goes),
		cmocka_unit_test(the_coolest_engine_gets_qps),
		cmocka_unit_test(the_hottest_engine_gives_first),
		cmocka_unit_test(many_light_qps_are_spread_little_by_little),
		cmocka_unit_test(qps_of_other_kinds_stay_and_count),
		cmocka_unit_test(qp_that_has_moved_stays_for_a_while),
		cmocka_unit_test(engines_with_little_to_do_become_one),
		cmocka_unit_test(of_two_equal_engines_the_second_gives),
		cmocka_unit_test(half_of_an_engine_is_the_limit),
		cmocka_unit_test(engine_that_had_more_to_do_a_moment_ago_is_left_alone),
		cmocka_unit_test(engine_that_could_not_sleep_keeps_its_qps),
		cmocka_unit_test(qps_with_next_to_nothing_stay),
		cmocka_unit_test(idle_qps_stay),
		cmocka_unit_test(engines_that_never_sleep_do_not_become_one),
		cmocka_unit_test(many_qps_go_in_small_numbers),
		cmocka_unit_test(others_become_one_beside_a_hot_engine_that_can_give_nothing),
		cmocka_unit_test(a_hot_engine_comes_first),
		cmocka_unit_test(nothing_is_planned_before_enough_intervals_are_known),
		cmocka_unit_test(the_heaviest_qps_are_found_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
