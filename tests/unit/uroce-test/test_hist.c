/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hist.h"

static struct hist h, other;

static int
empty(void **state)
{
	h = other = (struct hist){ 0 };
	return 0;
}

static void
small_values_have_a_class_each(void **state)
{
	for (uint64_t v = 0; v < HIST_SUBS; v++) {
		assert_int_equal(hist_class(v), v);
		assert_int_equal(hist_value((unsigned int)v), v);
	}
}

static void
classes_ascend_without_gap_or_overlap(void **state)
{
	unsigned int before = 0;

	for (uint64_t v = 1; v < 1 << 20; v++) {
		unsigned int c = hist_class(v);

		assert_in_range(c, before, before + 1);
		before = c;
	}
	/* At each power of two a new row begins. */
	for (unsigned int bit = HIST_SUB_BITS + 1; bit < 64; bit++)
		assert_int_equal(hist_class(UINT64_C(1) << bit), hist_class((UINT64_C(1) << bit) - 1) + 1);
	assert_int_equal(hist_class(UINT64_MAX), HIST_CLASSES - 1);
}

static void
a_class_stands_for_its_values_within_1_6_percent(void **state)
{
	for (uint64_t v = 1; v < UINT64_MAX / 3; v = v * 3 + 1) {
		uint64_t got = hist_value(hist_class(v)), off = got > v ? got - v : v - got;

		assert_true((double)off <= 0.016 * (double)v);
	}
}

static void
percentiles_of_an_even_spread(void **state)
{
	for (uint64_t v = 1; v <= 100000; v++)
		hist_add(&h, v);
	assert_int_equal(hist_count(&h), 100000);
	assert_in_range(hist_percentile(&h, 0.5), 49200, 50800);
	assert_in_range(hist_percentile(&h, 0.99), 97500, 100500);
	assert_in_range(hist_percentile(&h, 0.999), 98500, 101500);
	assert_int_equal(hist_percentile(&h, 0), 1);
}

static void
percentiles_count_from_the_first_value_on(void **state)
{
	/* 999 fast ones and a slow one: p99.9 is still fast, all of them aren't. */
	for (unsigned int i = 0; i < 999; i++)
		hist_add(&h, 10);
	hist_add(&h, 60);
	assert_int_equal(hist_percentile(&h, 0.999), 10);
	assert_int_equal(hist_percentile(&h, 1), 60);
}

static void
nothing_has_no_percentile(void **state)
{
	assert_int_equal(hist_count(&h), 0);
	assert_int_equal(hist_percentile(&h, 0.5), 0);
}

static void
merge_and_subtract_are_inverse(void **state)
{
	struct hist before;

	hist_add(&h, 5);
	hist_add(&h, 1000000);
	before = h;
	hist_add(&other, 7);
	hist_add(&other, 1000000);
	hist_merge(&h, &other);
	assert_int_equal(hist_count(&h), 4);
	hist_subtract(&h, &before);
	assert_memory_equal(&h, &other, sizeof(h));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(small_values_have_a_class_each, empty),
		cmocka_unit_test_setup(classes_ascend_without_gap_or_overlap, empty),
		cmocka_unit_test_setup(a_class_stands_for_its_values_within_1_6_percent, empty),
		cmocka_unit_test_setup(percentiles_of_an_even_spread, empty),
		cmocka_unit_test_setup(percentiles_count_from_the_first_value_on, empty),
		cmocka_unit_test_setup(nothing_has_no_percentile, empty),
		cmocka_unit_test_setup(merge_and_subtract_are_inverse, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
