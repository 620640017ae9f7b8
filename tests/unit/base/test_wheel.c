/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/wheel.h"

#define TICK_NS (UINT64_C(1) << WHEEL_TICK_SHIFT)
#define LONGEST_NS (UINT64_C(4096) << 31) /* the longest local ACK timeout */

struct timer {
	struct wheel_entry e;
	uint64_t expiry_ns;
	unsigned int fired;
	struct wheel *w;
	struct timer *other;   /* what the callback acts on */
	uint64_t readd_ns;     /* the callback starts this timer again for then; 0: no */
	uint64_t due_ns;       /* what the wheel is told when it asks */
};

static uint64_t clock_ns;

static void
on_fire(struct wheel_entry *e, void *arg)
{
	struct timer *t = (struct timer *)e;

	assert_ptr_equal(arg, &clock_ns);
	assert_false(wheel_pending(e));
	assert_true(t->expiry_ns <= clock_ns);
	t->fired++;
	if (t->other != NULL)
		wheel_del(t->w, &t->other->e);
	if (t->readd_ns != 0) {
		t->expiry_ns = t->readd_ns;
		wheel_add(t->w, e, t->readd_ns);
	}
}

static uint32_t
advance(struct wheel *w, uint64_t now_ns)
{
	clock_ns = now_ns;
	return wheel_advance(w, now_ns, on_fire, &clock_ns);
}

static void
start(struct wheel *w, struct timer *t, uint64_t expiry_ns)
{
	t->w = w;
	t->expiry_ns = expiry_ns;
	wheel_add(w, &t->e, expiry_ns);
}

static void
empty_wheel_has_no_next(void **state)
{
	struct wheel w;

	wheel_init(&w, 12345678);
	assert_int_equal(wheel_next(&w), UINT64_MAX);
	assert_int_equal(advance(&w, LONGEST_NS), 0);
	assert_int_equal(wheel_next(&w), UINT64_MAX);
}

static void
fires_once_never_early_at_most_a_tick_late(void **state)
{
	static const uint64_t delays[] = { 1, 1023, 1024, 1025, 4096, 65535, 65536, 10000000, 67108864, 655360000,
					   2147483648, LONGEST_NS - 1, LONGEST_NS, 4 * LONGEST_NS };
	static const uint64_t starts[] = { 0, 1, 1023, 65535, 65536, 0x3ffffffffff, 0x123456789abcde };
	struct wheel w;
	size_t i, j;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		for (j = 0; j < sizeof(delays) / sizeof(delays[0]); j++) {
			struct timer t = { 0 };
			uint64_t due = starts[i] + delays[j];

			wheel_init(&w, starts[i]);
			start(&w, &t, due);
			assert_true(wheel_pending(&t.e));
			assert_int_equal(advance(&w, due - 1), 0);
			assert_int_equal(advance(&w, due + TICK_NS - 1), 1);
			assert_int_equal(t.fired, 1);
			assert_int_equal(advance(&w, due + LONGEST_NS), 0);
			assert_int_equal(t.fired, 1);
		}
	}
}

static void
overdue_timer_fires_at_the_next_advance(void **state)
{
	struct timer t = { 0 };
	struct wheel w;

	wheel_init(&w, 1000000);
	start(&w, &t, 5);
	assert_true(wheel_next(&w) <= 1000000);
	assert_int_equal(advance(&w, 1000000), 1);
}

static void
time_that_goes_back_stands_still(void **state)
{
	struct timer t = { 0 };
	struct wheel w;

	wheel_init(&w, 1000000);
	start(&w, &t, 1100000);
	assert_int_equal(advance(&w, 5), 0);
	assert_int_equal(advance(&w, 1102000), 1);
}

static void
del_is_idempotent(void **state)
{
	struct timer t = { 0 };
	struct wheel w;

	wheel_init(&w, 0);
	wheel_del(&w, &t.e);
	start(&w, &t, 100000);
	wheel_del(&w, &t.e);
	wheel_del(&w, &t.e);
	assert_false(wheel_pending(&t.e));
	assert_int_equal(wheel_next(&w), UINT64_MAX);
	assert_int_equal(advance(&w, 1000000), 0);
}

static void
adding_a_running_timer_moves_it(void **state)
{
	struct timer t = { 0 };
	struct wheel w;

	wheel_init(&w, 0);
	start(&w, &t, 100000);
	start(&w, &t, 900000);
	assert_int_equal(advance(&w, 899999), 0);
	assert_int_equal(advance(&w, 902000), 1);
	assert_int_equal(t.fired, 1);
}

static void
restart_from_the_callback_waits_for_the_next_advance(void **state)
{
	struct timer t = { .readd_ns = 1 };
	struct wheel w;

	wheel_init(&w, 0);
	start(&w, &t, 3000);
	assert_int_equal(advance(&w, 50000), 1);
	assert_true(wheel_pending(&t.e));
	t.readd_ns = 0;
	assert_int_equal(advance(&w, 50000), 1);
	assert_int_equal(t.fired, 2);
	assert_false(wheel_pending(&t.e));
}

static void
callback_can_stop_another_that_is_due(void **state)
{
	struct timer a = { 0 }, b = { 0 };
	struct wheel w;

	wheel_init(&w, 0);
	start(&w, &a, 3000);
	start(&w, &b, 3000);
	a.other = &b;
	b.other = &a;
	assert_int_equal(advance(&w, 50000), 1);
	assert_int_equal(a.fired + b.fired, 1);
	assert_int_equal(wheel_next(&w), UINT64_MAX);
}

static unsigned int nb_asked;

static uint64_t
due_ns(const struct wheel_entry *e)
{
	nb_asked++;
	return ((const struct timer *)e)->due_ns;
}

static void
one_that_is_put_off_moves_only_when_it_would_have_fired(void **state)
{
	const uint64_t first = 100 * TICK_NS, later = 70000 * TICK_NS;
	struct timer t = { 0 };
	struct wheel w;

	wheel_init(&w, 0);
	w.due_ns = due_ns;
	start(&w, &t, first);
	t.expiry_ns = t.due_ns = later;
	nb_asked = 0;
	/* It comes a level down before 64 ticks are over. */
	assert_int_equal(advance(&w, 63 * TICK_NS), 0);
	assert_int_equal(nb_asked, 0);
	for (uint64_t now = 64; now < later / TICK_NS; now++)
		assert_int_equal(advance(&w, now * TICK_NS), 0);
	assert_true(nb_asked >= 1 && nb_asked <= WHEEL_LEVELS);
	assert_int_equal(advance(&w, later), 1);
	assert_int_equal(t.fired, 1);
}

static void
one_that_would_be_due_earlier_is_due_when_it_was_told(void **state)
{
	struct timer t = { .due_ns = 5 };
	struct wheel w;

	wheel_init(&w, 0);
	w.due_ns = due_ns;
	start(&w, &t, 100 * TICK_NS);
	assert_int_equal(advance(&w, 99 * TICK_NS), 0);
	assert_int_equal(advance(&w, 100 * TICK_NS), 1);
}

static void
one_that_is_not_needed_any_more_does_not_fire(void **state)
{
	struct timer gone = { 0 }, stays = { .due_ns = 100 * TICK_NS };
	struct wheel w;

	wheel_init(&w, 0);
	w.due_ns = due_ns;
	start(&w, &gone, 100 * TICK_NS);
	start(&w, &stays, 100 * TICK_NS);
	assert_int_equal(advance(&w, 100 * TICK_NS), 1);
	assert_int_equal(stays.fired, 1);
	assert_false(wheel_pending(&gone.e));
	assert_int_equal(wheel_next(&w), UINT64_MAX);
	/* It can be started again. */
	gone.due_ns = 200 * TICK_NS;
	start(&w, &gone, 200 * TICK_NS);
	assert_int_equal(advance(&w, 200 * TICK_NS), 1);
	assert_int_equal(gone.fired, 1);
}

static void
next_is_never_late_and_leads_to_the_timer(void **state)
{
	struct timer t = { 0 };
	struct wheel w;
	unsigned int wakes = 0;
	uint64_t next;

	wheel_init(&w, 777);
	start(&w, &t, LONGEST_NS - 12345);
	while (t.fired == 0) {
		next = wheel_next(&w);
		assert_true(next >= clock_ns || wakes == 0);
		assert_true(next < t.expiry_ns + TICK_NS);
		advance(&w, next);
		wakes++;
	}
	assert_true(wakes <= WHEEL_LEVELS);
}

/* Random adds, moves, stops and steps of the clock against a flat list of expiry times. */
static void
behaves_as_a_flat_list(void **state)
{
	enum { TIMERS = 200, STEPS = 200000 };
	static struct timer t[TIMERS];
	static bool running[TIMERS];
	uint64_t now = 0xffffff0000, earliest;
	struct wheel w;
	unsigned int step, i, bits;

	srandom(1);
	wheel_init(&w, now);
	for (step = 0; step < STEPS; step++) {
		i = (unsigned int)random() % TIMERS;
		bits = (unsigned int)random() % 44;
		switch (random() % 4) {
		case 0:
		case 1:
			start(&w, &t[i], now + (((uint64_t)random() << 31 | (uint64_t)random()) &
						((UINT64_C(1) << bits) - 1)));
			running[i] = true;
			break;
		case 2:
			wheel_del(&w, &t[i].e);
			running[i] = false;
			break;
		case 3:
			now += (uint64_t)random() & ((UINT64_C(1) << bits % 40) - 1);
			advance(&w, now);
			for (i = 0; i < TIMERS; i++) {
				if (running[i] && t[i].expiry_ns + TICK_NS <= now)
					assert_int_equal(t[i].fired, 1);
				assert_int_equal(t[i].fired, running[i] && !wheel_pending(&t[i].e));
				if (t[i].fired) {
					t[i].fired = 0;
					running[i] = false;
				}
			}
			break;
		}
		earliest = UINT64_MAX;
		for (i = 0; i < TIMERS; i++) {
			assert_int_equal(wheel_pending(&t[i].e), running[i]);
			if (running[i] && t[i].expiry_ns < earliest)
				earliest = t[i].expiry_ns;
		}
		if (earliest == UINT64_MAX)
			assert_int_equal(wheel_next(&w), UINT64_MAX);
		else
			assert_true(wheel_next(&w) < (earliest > now ? earliest : now) + TICK_NS);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_wheel_has_no_next),
		cmocka_unit_test(fires_once_never_early_at_most_a_tick_late),
		cmocka_unit_test(overdue_timer_fires_at_the_next_advance),
		cmocka_unit_test(time_that_goes_back_stands_still),
		cmocka_unit_test(del_is_idempotent),
		cmocka_unit_test(adding_a_running_timer_moves_it),
		cmocka_unit_test(restart_from_the_callback_waits_for_the_next_advance),
		cmocka_unit_test(callback_can_stop_another_that_is_due),
		cmocka_unit_test(one_that_is_put_off_moves_only_when_it_would_have_fired),
		cmocka_unit_test(one_that_would_be_due_earlier_is_due_when_it_was_told),
		cmocka_unit_test(one_that_is_not_needed_any_more_does_not_fire),
		cmocka_unit_test(next_is_never_late_and_leads_to_the_timer),
		cmocka_unit_test(behaves_as_a_flat_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
