/* SPDX-License-Identifier: BSD-3-Clause */
/* `balance` with loads at random: QPs come to rest, and nothing is left to be done for a hot engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rte_common.h>

#include "balance_world.h"

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
		cmocka_unit_test(loads_at_random_come_to_rest),
		cmocka_unit_test(groups_at_random_come_to_rest),
		cmocka_unit_test(noise_moves_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
