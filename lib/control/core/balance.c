/* SPDX-License-Identifier: BSD-3-Clause */
/* Which QPs should move to which engine. */
#include <assert.h>
#include <string.h>

#include <rte_common.h>

#include "base/assert.h"
#include "control/core/balance_priv.h"

static_assert(BALANCE_HOT_FOR <= BALANCE_LITTLE_FOR, "balance_engine.loads has them");
static_assert(BALANCE_LITTLE + BALANCE_GAP <= BALANCE_HOT, "engines that become one must not be hot then, even if they have a little more to do");
static_assert((uint64_t)BALANCE_BUSY_QP * BALANCE_HEAVIEST >= BALANCE_LITTLE, "of an engine with little to do all busy QPs are among the heaviest");

/* A plan in the making. */
struct plan {
	struct balance *b;
	uint32_t measured[UROCE_MAX_ENGINES]; /* what each engine did in the last interval; balance_engine.loads change with each move */
	uint32_t gone[UROCE_MAX_ENGINES];     /* bit i: heaviest[i] has a move */
	struct balance_move *moves;
	unsigned int n;
};
static_assert(BALANCE_HEAVIEST <= 32, "plan.gone has a bit for each");

void
balance_init(struct balance *b, unsigned int nb_engines, bool sleeps)
{
	UROCE_ASSERT(nb_engines <= UROCE_MAX_ENGINES);
	memset(b, 0, sizeof(*b));
	b->nb_engines = nb_engines;
	b->sleeps = sleeps;
}

void
balance_begin(struct balance *b, const uint32_t *loads)
{
	for (unsigned int i = 0; i < b->nb_engines; i++) {
		struct balance_engine *e = &b->engines[i];

		memmove(&e->loads[1], &e->loads[0], sizeof(e->loads) - sizeof(e->loads[0]));
		e->loads[0] = loads[i];
		e->cost = e->movable_cost = 0;
		e->n = 0;
	}
	b->intervals = RTE_MIN(b->intervals + 1, (unsigned int)BALANCE_LITTLE_FOR);
}

void
balance_add(struct balance *b, unsigned int engine, const struct balance_qp *qp, bool may_move)
{
	struct balance_engine *e = &b->engines[engine];
	uint32_t at;

	e->cost += qp->cost;
	if (!may_move || qp->cost == 0)
		return;
	e->movable_cost += qp->cost;
	if (e->n == BALANCE_HEAVIEST && qp->cost <= e->heaviest[e->n - 1].cost)
		return;
	e->n = RTE_MIN(e->n + 1, (uint32_t)BALANCE_HEAVIEST);
	for (at = e->n - 1; at > 0 && e->heaviest[at - 1].cost < qp->cost; at--)
		e->heaviest[at] = e->heaviest[at - 1];
	e->heaviest[at] = *qp;
}

/* ---- What is known ---- */
/** @return the part that QPs of @p engine with @p cost have in what it did. What it did for others, as packets handed over, is taken for theirs, too. */
static uint32_t
load_of(const struct plan *p, unsigned int engine, uint64_t cost)
{
	uint64_t all = p->b->engines[engine].cost;

	return all != 0 ? (uint32_t)((double)p->measured[engine] * (double)cost / (double)all) : 0;
}

/** @return the load of an engine as it will be, after the moves so far. */
static uint32_t
load_now(const struct plan *p, unsigned int engine)
{
	return p->b->engines[engine].loads[0];
}

static bool
is_hot(const struct balance *b, unsigned int engine)
{
	for (unsigned int i = 0; i < BALANCE_HOT_FOR; i++)
		if (b->engines[engine].loads[i] <= BALANCE_HOT)
			return false;
	return true;
}

static uint32_t
highest_load(const struct balance_engine *e)
{
	uint32_t most = 0;

	for (unsigned int i = 0; i < BALANCE_LITTLE_FOR; i++)
		most = RTE_MAX(most, e->loads[i]);
	return most;
}

/** Move heaviest[i] of @p from. The loads of earlier intervals change as if it had been there all the time, so that they say what is to be expected. */
static void
take(struct plan *p, unsigned int from, uint32_t i, unsigned int to)
{
	struct balance_engine *old = &p->b->engines[from], *new = &p->b->engines[to];
	uint32_t load = load_of(p, from, old->heaviest[i].cost);

	p->moves[p->n++] = (struct balance_move){ old->heaviest[i], from, to, load, load_now(p, from), load_now(p, to) };
	p->gone[from] |= UINT32_C(1) << i;
	for (unsigned int k = 0; k < BALANCE_LITTLE_FOR; k++) {
		old->loads[k] -= RTE_MIN(load, old->loads[k]);
		new->loads[k] += load;
	}
}

/* ---- A hot engine gives QPs away ---- */
/** @return the engine with the least load; on a tie, the first. */
static unsigned int
coolest(const struct plan *p)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i < p->b->nb_engines; i++)
		if (load_now(p, i) < load_now(p, best))
			best = i;
	return best;
}

/**
 * @return whether a QP may go to @p to: the new engine must end well below what @p from has now, or below what @p from will have. A group that is more than
 *         what would make the two equal must not make the new engine a hot one: it can't be divided there either.
 */
static bool
fits(const struct plan *p, unsigned int from, unsigned int to, const struct balance_qp *q)
{
	uint32_t load = load_of(p, from, q->cost), then = load_now(p, to) + load;

	if (load == 0 || then + RTE_MIN(load, (uint32_t)BALANCE_MARGIN) > load_now(p, from))
		return false;
	return q->nb_qps <= 1 || load <= (load_now(p, from) - load_now(p, to)) / 2 || then <= BALANCE_HOT;
}

/** @return whether the QPs that fit make a difference, all together. Those that are too heavy for it are among the heaviest. */
static bool
is_worth(const struct plan *p, unsigned int from, unsigned int to)
{
	const struct balance_engine *e = &p->b->engines[from];
	uint64_t cost = e->movable_cost;

	for (uint32_t i = 0; i < e->n && !fits(p, from, to, &e->heaviest[i]); i++)
		cost -= e->heaviest[i].cost;
	return load_of(p, from, cost) >= BALANCE_MARGIN;
}

/** @return the QP of @p from after whose move the busier one of the two has the least load, or e->n: none fits. */
static uint32_t
best_qp(const struct plan *p, unsigned int from, unsigned int to)
{
	const struct balance_engine *e = &p->b->engines[from];
	uint32_t best = e->n, least = UINT32_MAX;

	for (uint32_t i = 0; i < e->n; i++) {
		uint32_t load = load_of(p, from, e->heaviest[i].cost), then;

		if ((p->gone[from] >> i & 1) != 0 || !fits(p, from, to, &e->heaviest[i]))
			continue;
		then = RTE_MAX(load_now(p, from) - load, load_now(p, to) + load);
		if (then < least) {
			least = then;
			best = i;
		}
	}
	return best;
}

static void
spread_from(struct plan *p, unsigned int from)
{
	const struct balance_engine *e = &p->b->engines[from];
	unsigned int to = coolest(p);
	uint32_t i;

	if (load_now(p, from) - load_now(p, to) <= BALANCE_GAP || !is_worth(p, from, to))
		return;
	while (p->n < BALANCE_MOVES) {
		to = coolest(p);
		i = best_qp(p, from, to);
		if (i == e->n)
			return;
		take(p, from, i, to);
	}
}

/** The hottest first. */
static void
spread(struct plan *p)
{
	uint64_t hot = 0;

	for (unsigned int i = 0; i < p->b->nb_engines; i++)
		hot |= is_hot(p->b, i) ? UINT64_C(1) << i : 0;
	while (hot != 0) {
		unsigned int from = (unsigned int)__builtin_ctzll(hot);

		for (unsigned int i = from + 1; i < p->b->nb_engines; i++)
			if ((hot >> i & 1) != 0 && load_now(p, i) > load_now(p, from))
				from = i;
		hot &= ~(UINT64_C(1) << from);
		spread_from(p, from);
	}
}

/* ---- Two engines with little to do become one ---- */
/** @return how many of heaviest[] are busy QPs; these are the first ones. */
static uint32_t
nb_busy(const struct plan *p, unsigned int engine)
{
	const struct balance_engine *e = &p->b->engines[engine];
	uint32_t n = 0;

	while (n < e->n && load_of(p, engine, e->heaviest[n].cost) >= BALANCE_BUSY_QP)
		n++;
	return n;
}

/** @return whether @p engine has something to do, and would sleep without its busy QPs. */
static bool
may_be_left(const struct plan *p, unsigned int engine)
{
	const struct balance_engine *e = &p->b->engines[engine];
	uint32_t n = nb_busy(p, engine);
	uint64_t rest = e->cost;

	for (uint32_t i = 0; i < n; i++)
		rest -= e->heaviest[i].cost;
	return n != 0 && load_of(p, engine, rest) <= BALANCE_REST;
}

/** @return the busiest engine that can do what @p from does as well, or @p from: there is none. */
static unsigned int
room_for(const struct plan *p, unsigned int from)
{
	const struct balance *b = p->b;
	unsigned int best = from;

	for (unsigned int i = 0; i < b->nb_engines; i++) {
		/* The one with less gives; of two equal ones the second. */
		if (i == from || load_now(p, i) < load_now(p, from) || (load_now(p, i) == load_now(p, from) && i > from))
			continue;
		if (highest_load(&b->engines[i]) + highest_load(&b->engines[from]) > BALANCE_LITTLE)
			continue;
		if (best == from || load_now(p, i) > load_now(p, best))
			best = i;
	}
	return best;
}

/** Leave one engine without busy QPs: the one with the least to do of those that can be. */
static void
join(struct plan *p)
{
	unsigned int nb = p->b->nb_engines, from = nb, to;

	if (!p->b->sleeps || p->b->intervals < BALANCE_LITTLE_FOR)
		return;
	for (unsigned int i = 0; i < nb; i++)
		if (may_be_left(p, i) && room_for(p, i) != i && (from == nb || load_now(p, i) < load_now(p, from)))
			from = i;
	if (from == nb)
		return;
	to = room_for(p, from);
	for (uint32_t i = 0, n = nb_busy(p, from); i < n && p->n < BALANCE_MOVES; i++)
		take(p, from, i, to);
}

unsigned int
balance_plan(struct balance *b, struct balance_move *moves)
{
	struct plan p = { .b = b, .moves = moves };

	for (unsigned int i = 0; i < b->nb_engines; i++)
		p.measured[i] = load_now(&p, i);
	spread(&p);
	if (p.n == 0)
		join(&p);
	return p.n;
}
