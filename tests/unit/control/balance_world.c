/* SPDX-License-Identifier: BSD-3-Clause */
#include "balance_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rte_common.h>

struct world *
world(unsigned int nb_engines)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	balance_init(&w->b, nb_engines, true);
	return w;
}

uint32_t
add(struct world *w, unsigned int engine, uint32_t n, uint32_t load)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_in_range(w->nb_qps, 0, QPS_MOST - 1);
		w->qp[w->nb_qps++] = (struct world_qp){ load, engine, LONG_AGO, false, 1 };
	}
	return w->nb_qps - n;
}

uint32_t
wanted(const struct world *w, unsigned int engine)
{
	uint32_t load = w->own[engine];

	for (uint32_t i = 0; i < w->nb_qps; i++)
		load += w->qp[i].engine == engine ? w->qp[i].load : 0;
	return load;
}

uint32_t
load(const struct world *w, unsigned int engine)
{
	return RTE_MIN(wanted(w, engine), (uint32_t)BALANCE_ALL);
}

unsigned int
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

unsigned int
intervals(struct world *w, unsigned int n)
{
	unsigned int moves = 0;

	while (n-- > 0)
		moves += interval(w);
	return moves;
}

uint32_t
qps_at(const struct world *w, unsigned int engine)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->nb_qps; i++)
		n += w->qp[i].engine == engine;
	return n;
}

uint32_t
add_group(struct world *w, unsigned int engine, uint32_t n, uint32_t load)
{
	uint32_t i = add(w, engine, 1, load);

	w->qp[i].nb_qps = n;
	return i;
}
