/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DCQCN's rates against a reaction point that is written down here as the paper has it (Zhu et al., SIGCOMM 2015, section 3.1, figure 7): with
 * timers that run, one microsecond after the other.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/cc/cc_priv.h"

#define LINE_BPS 40e9
#define LEAST_BPS 100e6
#define GAIN (1.0 / 256)
enum { US = 1000, TIMER_US = 55, CUT_US = 4, RECOVERY = 5, COUNTER_BYTES = 10000000, IDLE_TIMERS = 1024 };

struct reference {
	double current, target, alpha; /* current 0: no CNP has come yet */
	uint64_t cut_us, alpha_us, timer_us;
	uint64_t sent;
	uint32_t timers, counters;
};

static void
raise_rate(struct reference *r)
{
	uint32_t lower = r->timers < r->counters ? r->timers : r->counters, higher = r->timers + r->counters - lower;

	if (lower > RECOVERY)
		r->target += 100e6 * (lower - RECOVERY);
	else if (higher > RECOVERY)
		r->target += 40e6;
	r->target = fmin(r->target, LINE_BPS);
	r->current = fmin((r->target + r->current) / 2, LINE_BPS);
}

/* A microsecond has passed. */
static void
tick(struct reference *r, uint64_t now_us)
{
	if (r->current == 0)
		return;
	if (now_us - r->alpha_us == TIMER_US) {
		r->alpha *= 1 - GAIN;
		r->alpha_us = now_us;
	}
	if (now_us - r->timer_us == TIMER_US) {
		r->timer_us = now_us;
		r->timers++;
		raise_rate(r);
	}
}

static void
cnp(struct reference *r, uint64_t now_us)
{
	if (r->current == 0)
		r->current = LINE_BPS;
	else if (now_us - r->cut_us < CUT_US)
		return;
	r->cut_us = r->alpha_us = r->timer_us = now_us;
	r->target = r->current;
	r->current = fmax(r->current * (1 - r->alpha / 2), LEAST_BPS);
	r->alpha = (1 - GAIN) * r->alpha + GAIN;
	r->timers = r->counters = 0;
	r->sent = 0;
}

static void
sent(struct reference *r, uint32_t bytes)
{
	if (r->current == 0)
		return;
	r->sent += bytes;
	if (r->sent >= COUNTER_BYTES) {
		r->sent -= COUNTER_BYTES;
		r->counters++;
		raise_rate(r);
	}
}

static uint32_t
draw(uint64_t *state, uint32_t below)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33) % below;
}

static void
same_rate(const struct cc *cc, const struct reference *r)
{
	double want = r->current < LINE_BPS ? r->current : 0;

	assert_true(fabs(cc->rate_bps - want) <= 1e-9 * LINE_BPS);
	if (r->current != 0) {
		assert_true(fabs(cc->dcqcn.target - r->target) <= 1e-9 * LINE_BPS);
		assert_true(fabs(cc->dcqcn.alpha - r->alpha) <= 1e-9);
	}
}

/*
 * CNPs and packets at random: bursts of CNPs, calm in which the rate comes back to the line, and few or many bytes, so that timer and counter lead
 * by turns. DCQCN hears only of packets and CNPs.
 */
static void
rates_are_those_of_the_paper(void **state)
{
	enum { SEEDS = 200, LENGTH_US = 20000 };
	unsigned int cuts = 0, hyper = 0, line = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct qp qp = { 0 };
		struct cc cc = { .ops = &cc_dcqcn, .qp = &qp, .line_bps = LINE_BPS };
		struct reference r = { .alpha = 1 };
		uint64_t random = seed;
		uint32_t cnps = 2 + draw(&random, 5000), sends = 2 + draw(&random, 500), most = 1 << draw(&random, 24);

		cc.ops->init(&cc, 0);
		for (uint64_t now = 1; now < LENGTH_US; now++) {
			tick(&r, now);
			if (draw(&random, cnps) == 0) {
				for (uint32_t i = 1 + draw(&random, 3); i > 0; i--) {
					cuts += r.current != 0 && now - r.cut_us >= CUT_US;
					cnp(&r, now);
					cc.ops->cnp(&cc, now * US);
				}
				same_rate(&cc, &r);
			}
			if (draw(&random, sends) == 0) {
				uint32_t bytes = 1 + draw(&random, most);

				cc.ops->advance(&cc, now * US);
				same_rate(&cc, &r);
				sent(&r, bytes);
				cc.ops->sent(&cc, bytes);
				same_rate(&cc, &r);
				hyper += r.timers > RECOVERY && r.counters > RECOVERY;
				line += r.current == LINE_BPS;
			}
		}
	}
	/* All of it was there. */
	assert_true(cuts > 1000 && hyper > 1000 && line > 1000);
}

/* To the byte, from the last CNP on. */
static void
the_counter_counts_ten_million_bytes(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = { .ops = &cc_dcqcn, .qp = &qp, .line_bps = LINE_BPS };

	cc.ops->init(&cc, 0);
	cc.ops->sent(&cc, 5000);
	cc.ops->cnp(&cc, 0);
	cc.ops->sent(&cc, 123);
	cc.ops->cnp(&cc, 10 * US);
	for (unsigned int i = 0; i < 2; i++) {
		double before = cc.rate_bps;

		cc.ops->sent(&cc, COUNTER_BYTES - 1);
		assert_true(cc.rate_bps == before);
		cc.ops->sent(&cc, 1);
		assert_true(cc.rate_bps > before);
	}
}

/* After so long without packets what was known of the path is worth nothing. */
static void
a_long_pause_ends_it(void **state)
{
	static const struct { uint64_t us; bool ends; } cases[] = {
		{ UINT64_C(1) + IDLE_TIMERS * TIMER_US, true }, { IDLE_TIMERS * TIMER_US, false },
	};

	for (unsigned int i = 0; i < 2; i++) {
		struct qp qp = { 0 };
		struct cc cc = { .ops = &cc_dcqcn, .qp = &qp, .line_bps = LINE_BPS };

		cc.ops->init(&cc, 0);
		for (uint64_t now = 0; now < 1000; now += CUT_US)
			cc.ops->cnp(&cc, now * US);
		cc.ops->advance(&cc, (996 + cases[i].us) * US);
		assert_int_equal(cc.dcqcn.current == 0, cases[i].ends);
		if (!cases[i].ends)
			continue;
		assert_true(cc.rate_bps == 0 && cc.dcqcn.alpha == 1);
		/* As if there had never been one. */
		cc.ops->cnp(&cc, (1000 + cases[i].us) * US);
		assert_true(cc.rate_bps == LINE_BPS / 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_those_of_the_paper),
		cmocka_unit_test(the_counter_counts_ten_million_bytes),
		cmocka_unit_test(a_long_pause_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
