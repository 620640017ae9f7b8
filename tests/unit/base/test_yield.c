/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread learns from its yields. sched_yield() and the clock are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/yield.h"

static uint64_t clock_ns, yield_ns;
static unsigned int yields;

int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int
__wrap_sched_yield(void)
{
	yields++;
	clock_ns += yield_ns;
	return 0;
}

int
__wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	*t = (struct timespec){ .tv_sec = (time_t)(clock_ns / 1000000000), .tv_nsec = (long)(clock_ns % 1000000000) };
	return 0;
}

static void
short_yields_go_on(void **state)
{
	yields = 0;
	yield_ns = YIELD_LONG_NS;
	for (int i = 0; i < 1000; i++)
		assert_true(yield_core());
	assert_int_equal(yields, 1000);
}

static void
after_a_long_yield_there_are_none_for_a_while(void **state)
{
	yields = 0;
	yield_ns = YIELD_LONG_NS + 1;
	assert_true(yield_core());
	for (int i = 0; i < YIELD_SKIPS; i++)
		assert_false(yield_core());
	assert_int_equal(yields, 1);
	/* Then it is tried again. */
	yield_ns = 0;
	assert_true(yield_core());
	assert_true(yield_core());
	assert_int_equal(yields, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_yields_go_on),
		cmocka_unit_test(after_a_long_yield_there_are_none_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
