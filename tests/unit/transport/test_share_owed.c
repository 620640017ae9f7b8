/* SPDX-License-Identifier: BSD-3-Clause */
/* What shares are owed that were away. */
#include "share_rig.h"

enum {
	SLICE_NS = 3000000,
	SLICES = 20,
	ROUNDS = 1000,
	UNDER_WAY = 16,
};

static uint64_t
cost_of(const struct bench *b, const struct flood *f)
{
	return look(b, f).stats.cost;
}

static struct flood *
add(struct bench *b, struct share_group *g)
{
	return flood_add(b, 1, BIG, &(struct share_params){ .group = g });
}

/* A program with few messages under way, which it replaces when they are complete. */
static void
top_up(struct bench *b, struct flood *f)
{
	struct ring_cqe e;

	while (cq_poll(&f->ends[0]->scq, &e, NULL))
		;
	while (f->ends[0]->sq.counter - f->ends[0]->scq.ring.counter < UNDER_WAY)
		post(b, f->ends[0], 8);
}

/* A turn that takes the time that it costs. */
static void
timed_turn(struct bench *b)
{
	uint64_t before = b->tp->cost;

	bench_turn(b);
	b->p->now += (b->tp->cost - before) / TP_COST_PER_NS;
}

/* Two programs share a CPU that the kernel gives to each for a while: in each second slice the @p n sessions at @p f aren't there. */
static void
slices(struct bench *b, struct flood *f, uint32_t n, bool bounded)
{
	for (uint32_t i = 0; i < 2 * SLICES; i++) {
		uint64_t until = b->p->now + SLICE_NS;

		for (uint32_t k = 0; k < n; k++)
			f[k].pauses = bounded || i % 2 == 0;
		while (b->p->now < until) {
			if (bounded && i % 2 != 0)
				top_up(b, f);
			timed_turn(b);
		}
	}
}

/* @param bounded  It has few messages under way. @return the part of the @p n sessions at @p f of what all have used, in percent. */
static uint64_t
part_of(struct bench *b, struct flood *f, uint32_t n, bool bounded)
{
	uint64_t own = 0;

	slices(b, f, n, bounded);
	for (uint32_t k = 0; k < n; k++)
		own += cost_of(b, &f[k]);
	return 100 * own / b->tp->cost;
}

static void
who_runs_half_of_the_time_gets_more_than_a_quarter(void **state)
{
	struct bench b;

	bench_up(&b);
	add(&b, NULL);
	/* Four parts of five for half of the time. */
	assert_in_range(part_of(&b, add(&b, NULL), 1, false), 37, 42);
	bench_down(&b);
}

static void
so_does_who_never_fills_a_turn(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, 8, &(struct share_params){ 0 });
	assert_in_range(part_of(&b, add(&b, NULL), 1, true), 32, 42);
	bench_down(&b);
}

static void
who_is_never_away_gets_half(void **state)
{
	struct flood *f, *other;
	struct bench b;

	bench_up(&b);
	other = add(&b, NULL);
	f = add(&b, NULL);
	for (uint32_t i = 0; i < ROUNDS; i++)
		timed_turn(&b);
	assert_fair(cost_of(&b, f), cost_of(&b, other), 1, 1);
	assert_int_equal(f->share->owed.cost, 0);
	bench_down(&b);
}

/* One is away for @p ns, a multiple of STEP_NS, while the other one works, or not. @return what it is owed then. */
static int64_t
owed_after(uint64_t ns, bool works)
{
	struct share_owed *owed;
	struct flood *f, *other;
	struct bench b;
	int64_t cost;

	bench_up(&b);
	other = add(&b, NULL);
	f = add(&b, NULL);
	owed = &f->share->owed;
	/* Enough for all of the time. */
	b.room = 2;
	other->pauses = !works;
	bench_turn(&b);
	f->pauses = true;
	do
		bench_turn(&b);
	while (b.p->now + STEP_NS < owed->worked_ns + ns);
	f->pauses = false;
	bench_turn(&b);
	/* With what it has spent already. */
	cost = owed->cost + (int64_t)owed->quanta * TP_SHARE_QUANTUM;
	bench_down(&b);
	return cost;
}

static void
it_is_owed_its_part_of_what_others_used(void **state)
{
	const uint64_t ns = 1500000;

	assert_int_equal(owed_after(ns, true), ns * TP_COST_PER_NS / 2);
	/* They are looked at until they are no longer watched. */
	assert_in_range(owed_after(ns, false), 1, TP_WATCH_NS / STEP_NS * TP_COST_LOOK);
}

static void
there_are_limits(void **state)
{
	assert_int_equal(owed_after(TP_AWAY_NS - STEP_NS, true), 0);
	assert_int_equal(owed_after(TP_AWAY_NS, true), TP_AWAY_NS * TP_COST_PER_NS / 2);
	assert_int_equal(owed_after(TP_AWAY_MAX_NS, true), TP_OWED_MAX);
	assert_int_equal(owed_after(TP_AWAY_MAX_NS + STEP_NS, true), 0);
}

/* What they may use in a round takes 650 us, so each waits for more than 1 ms. */
static void
who_waits_for_its_turn_is_not_away(void **state)
{
	struct bench b;

	bench_up(&b);
	for (uint32_t i = 0; i < 3; i++)
		flood_add(&b, 1, BIG, &(struct share_params){ .weight = SHARE_WEIGHT_MAX });
	assert_true((uint64_t)b.f[0].share->quantum / TP_COST_PER_NS > 2 * TP_AWAY_NS);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		timed_turn(&b);
		assert_int_equal(b.f[i % 3].share->owed.cost, 0);
	}
	bench_down(&b);
}

/* Also if the port has hardly any room, so that nobody gets through his part of a round in one turn. */
static void
others_still_get_a_part_of_each_round(void **state)
{
	enum { ROOM = 8, TURNS = 100 };
	struct flood *f, *other;
	struct bench b;
	uint64_t before;

	bench_up(&b);
	other = add(&b, NULL);
	f = add(&b, NULL);
	b.room = ROOM;
	bench_turn(&b);
	f->pauses = true;
	bench_run(&b, SLICE_NS / STEP_NS);
	f->pauses = false;
	bench_turn(&b);
	before = look(&b, other).stats.packets;
	bench_run(&b, TURNS);
	assert_in_range(f->share->owed.cost, 1, TP_OWED_MAX);
	/* One part of five, and no less than half of that. */
	assert_in_range(look(&b, other).stats.packets - before, TURNS * ROOM / 5 / 2, TURNS * ROOM / 5 * 2);
	bench_down(&b);
}

static void
who_has_a_rate_is_owed_nothing(void **state)
{
	struct share_rate rate = { .bits = 1000000000 };
	struct flood *f;
	struct bench b;

	bench_up(&b);
	add(&b, NULL);
	f = flood_add(&b, 1, BIG, &(struct share_params){ .rate = &rate });
	slices(&b, f, 1, false);
	assert_int_equal(f->share->owed.cost, 0);
	bench_down(&b);
}

static void
while_one_of_them_works_a_group_is_not_away(void **state)
{
	struct share_group g;
	struct flood *f;
	struct bench b;

	bench_up(&b);
	share_group_init(&g);
	add(&b, NULL);
	add(&b, &g);
	f = add(&b, &g);
	slices(&b, f, 1, false);
	assert_int_equal(g.owed.cost, 0);
	bench_down(&b);
}

/* Together they are owed what one would be. */
static void
groups_are_owed_what_shares_are(void **state)
{
	struct share_group g;
	struct flood *one;
	struct bench b;

	bench_up(&b);
	share_group_init(&g);
	add(&b, NULL);
	one = add(&b, &g);
	add(&b, &g);
	assert_in_range(part_of(&b, one, 2, false), 33, 42);
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_runs_half_of_the_time_gets_more_than_a_quarter),
		cmocka_unit_test(so_does_who_never_fills_a_turn),
		cmocka_unit_test(who_is_never_away_gets_half),
		cmocka_unit_test(it_is_owed_its_part_of_what_others_used),
		cmocka_unit_test(there_are_limits),
		cmocka_unit_test(who_waits_for_its_turn_is_not_away),
		cmocka_unit_test(others_still_get_a_part_of_each_round),
		cmocka_unit_test(who_has_a_rate_is_owed_nothing),
		cmocka_unit_test(while_one_of_them_works_a_group_is_not_away),
		cmocka_unit_test(groups_are_owed_what_shares_are),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
