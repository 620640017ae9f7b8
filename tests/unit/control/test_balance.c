/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of `balance`: which QPs move where, by loads that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_common.h>

#include "control/core/balance_priv.h"

enum {
	PERCENT = BALANCE_ALL / 100,
	QPS_MOST = 400,
	STAY = BALANCE_STAY_MS / BALANCE_INTERVAL_MS,
	LONG_AGO = -STAY,
};

struct world_qp {
	uint32_t load;      /* that it causes wherever it is */
	unsigned int engine;
	int moved;          /* the interval in which it moved last */
	bool stays;         /* it is of a kind that can't move */
	uint32_t nb_qps;    /* more than 1: it is a group */
};

/* Engines and QPs with loads, and what has been planned. */
struct world {
	struct balance b;
	struct world_qp qp[QPS_MOST];
	uint32_t nb_qps;
	uint32_t own[UROCE_MAX_ENGINES]; /* what an engine has to do beside its QPs */
	int interval;
	struct balance_move moves[BALANCE_MOVES];
	unsigned int n;
};

static struct world *
world(unsigned int nb_engines)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	balance_init(&w->b, nb_engines, true);
	return w;
}

/** @return the number of the first of @p n QPs. */
static uint32_t
add(struct world *w, unsigned int engine, uint32_t n, uint32_t load)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_in_range(w->nb_qps, 0, QPS_MOST - 1);
		w->qp[w->nb_qps++] = (struct world_qp){ load, engine, LONG_AGO, false, 1 };
	}
	return w->nb_qps - n;
}

/** What its QPs want, which may be more than an engine has. */
static uint32_t
wanted(const struct world *w, unsigned int engine)
{
	uint32_t load = w->own[engine];

	for (uint32_t i = 0; i < w->nb_qps; i++)
		load += w->qp[i].engine == engine ? w->qp[i].load : 0;
	return load;
}

static uint32_t
load(const struct world *w, unsigned int engine)
{
	return RTE_MIN(wanted(w, engine), (uint32_t)BALANCE_ALL);
}

/** An interval ends, with costs in a unit of their own; QPs without load have cost a little, too. @return how many moves are planned; they are made. */
static unsigned int
interval(struct world *w)
{
	uint32_t loads[UROCE_MAX_ENGINES];

	w->interval++;
	for (unsigned int i = 0; i < w->b.nb_engines; i++)
		loads[i] = load(w, i);
	balance_begin(&w->b, loads);
	for (uint32_t i = 0; i < w->nb_qps; i++) {
		const struct balance_qp q = { .session = 7, .handle = i, .nb_qps = w->qp[i].nb_qps,
					       .cost = w->qp[i].load * UINT64_C(3000) + 1 };

		balance_add(&w->b, w->qp[i].engine, &q, !w->qp[i].stays && w->interval - w->qp[i].moved > STAY);
	}
	w->n = balance_plan(&w->b, w->moves);
	assert_in_range(w->n, 0, BALANCE_MOVES);
	for (unsigned int i = 0; i < w->n; i++) {
		struct world_qp *q = &w->qp[w->moves[i].qp.handle];

		assert_int_equal(w->moves[i].qp.session, 7);
		assert_int_equal(q->engine, w->moves[i].from);
		assert_int_not_equal(w->moves[i].to, w->moves[i].from);
		assert_in_range(w->moves[i].to, 0, w->b.nb_engines - 1);
		assert_false(q->stays || w->interval - q->moved <= STAY);
		/* A group that makes another engine hot is no more than what the two differ by. */
		if (w->moves[i].qp.nb_qps > 1 && w->moves[i].to_load + w->moves[i].load > BALANCE_HOT)
			assert_in_range(w->moves[i].load, 0, (w->moves[i].from_load - w->moves[i].to_load) / 2);
		q->engine = w->moves[i].to;
		q->moved = w->interval;
	}
	return w->n;
}

/** Let so many intervals pass. @return the moves in all of them. */
static unsigned int
intervals(struct world *w, unsigned int n)
{
	unsigned int moves = 0;

	while (n-- > 0)
		moves += interval(w);
	return moves;
}

static uint32_t
qps_at(const struct world *w, unsigned int engine)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->nb_qps; i++)
		n += w->qp[i].engine == engine;
	return n;
}

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

/** @return the number of a group of @p n QPs with @p load together. */
static uint32_t
add_group(struct world *w, unsigned int engine, uint32_t n, uint32_t load)
{
	uint32_t i = add(w, engine, 1, load);

	w->qp[i].nb_qps = n;
	return i;
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

/* ---- Loads at random ---- */
static uint32_t
heaviest(const struct world *w)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < w->nb_qps; i++)
		most = RTE_MAX(most, w->qp[i].load);
	return most;
}

/** @return what each engine would have if QPs could be divided. */
static uint32_t
mean(const struct world *w)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < w->b.nb_engines; i++)
		sum += wanted(w, i);
	return (uint32_t)(sum / w->b.nb_engines);
}

/** @return whether nothing is left to be done for a hot engine. */
static bool
is_at_its_best(const struct world *w, unsigned int engine)
{
	uint32_t coolest = BALANCE_ALL, here = load(w, engine);

	for (unsigned int i = 0; i < w->b.nb_engines; i++)
		coolest = RTE_MIN(coolest, load(w, i));
	if (here <= BALANCE_HOT || here - coolest <= BALANCE_GAP)
		return true;
	/* Light QPs can be divided as one likes. A heavy one could make the other engine the hot one. */
	if (heaviest(w) < BALANCE_MARGIN)
		return mean(w) > BALANCE_ALL;
	for (uint32_t i = 0; i < w->nb_qps; i++)
		if (w->qp[i].engine == engine && w->qp[i].load >= BALANCE_MARGIN && coolest + w->qp[i].load + BALANCE_MARGIN <= here &&
		    wanted(w, engine) <= BALANCE_ALL)
			return false;
	return true;
}

static void
make_random_qps(struct world *w, uint32_t n)
{
	/* More than the engines can do together, a part of it, or little; most QPs are light. */
	static const uint32_t parts[] = { 150, 70, 50, 10 };
	uint64_t all = (uint64_t)BALANCE_ALL * w->b.nb_engines * parts[rand() % 4] / 100, weights = 0;
	uint32_t *weight = calloc(n, sizeof(*weight));
	bool together = rand() % 2 == 0;

	assert_non_null(weight);
	for (uint32_t i = 0; i < n; i++) {
		weight[i] = rand() % 4 == 0 ? 1 + rand() % 1000 : 1 + rand() % 20;
		weights += weight[i];
	}
	for (uint32_t i = 0; i < n; i++)
		add(w, together ? 0 : (unsigned int)rand() % w->b.nb_engines, 1, (uint32_t)(all * weight[i] / weights));
	free(weight);
}

static void
loads_at_random_come_to_rest(void **state)
{
	for (unsigned int seed = 1; seed <= 2000; seed++) {
		struct world *w;

		srand(seed);
		w = world(2 + rand() % 7);
		make_random_qps(w, 1 + rand() % 150);
		intervals(w, 250);
		if (intervals(w, 3 * STAY) != 0)
			fail_msg("seed %u: QPs go on moving", seed);
		for (unsigned int i = 0; i < w->b.nb_engines; i++)
			if (!is_at_its_best(w, i))
				fail_msg("seed %u: engine %u has %u, where %u is the mean", seed, i, wanted(w, i), mean(w));
		free(w);
	}
}

static void
groups_at_random_come_to_rest(void **state)
{
	for (unsigned int seed = 1; seed <= 1000; seed++) {
		struct world *w;

		srand(seed);
		w = world(2 + rand() % 7);
		make_random_qps(w, 1 + rand() % 40);
		for (uint32_t i = 0; i < w->nb_qps; i++)
			w->qp[i].nb_qps = rand() % 2 == 0 ? 1 : 1 + (uint32_t)rand() % 100;
		intervals(w, 250);
		if (intervals(w, 3 * STAY) != 0)
			fail_msg("seed %u: groups go on moving", seed);
		free(w);
	}
}

/** Loads that change by a fifth from interval to interval, and aren't what their costs say. */
static void
noise_moves_little(void **state)
{
	unsigned int moves = 0;

	for (unsigned int seed = 1; seed <= 200; seed++) {
		struct world *w;
		uint32_t base[QPS_MOST];

		srand(seed);
		w = world(2 + rand() % 3);
		make_random_qps(w, 2 + rand() % 60);
		for (uint32_t i = 0; i < w->nb_qps; i++)
			base[i] = w->qp[i].load;
		for (int i = 0; i < 400; i++) {
			for (uint32_t k = 0; k < w->nb_qps; k++)
				w->qp[k].load = (uint32_t)((uint64_t)base[k] * (80 + (unsigned int)rand() % 41) / 100);
			interval(w);
			moves += i >= 100 ? w->n : 0;
		}
		free(w);
	}
	/* In 200 worlds of five minutes each. */
	assert_in_range(moves, 0, 200);
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
		cmocka_unit_test(loads_at_random_come_to_rest),
		cmocka_unit_test(groups_at_random_come_to_rest),
		cmocka_unit_test(noise_moves_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
