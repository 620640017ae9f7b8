/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/gen_table.h"

enum { SLOTS = 5 };

static struct gen_table *
table_new(uint32_t generation)
{
	struct gen_table *t = calloc(1, sizeof(*t) + gen_table_bytes(SLOTS));

	assert_non_null(t);
	assert_int_equal(gen_table_init(t, SLOTS, generation), 0);
	return t;
}

static void
table_free(struct gen_table *t)
{
	gen_table_fini(t);
	free(t);
}

static void
all_slots_are_used_and_no_more(void **state)
{
	struct gen_table *t = table_new(0);

	assert_int_equal(t->slot_bits, 3);
	assert_int_equal(t->slot_mask, 7);
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_false(gen_table_full(t));
		assert_int_equal(gen_table_count(t), i);
		assert_int_equal(gen_table_take(t), i);
	}
	assert_true(gen_table_full(t));
	table_free(t);
}

static void
a_slot_rests_as_long_as_others_are_free(void **state)
{
	struct gen_table *t = table_new(0);

	for (uint32_t i = 0; i < 3 * SLOTS; i++) {
		assert_int_equal(gen_table_take(t), i % SLOTS);
		gen_table_give(t, i % SLOTS);
	}
	assert_int_equal(gen_table_count(t), 0);
	table_free(t);
}

static void
each_object_of_a_slot_has_another_generation(void **state)
{
	struct gen_table *t = table_new(7);

	assert_int_equal(gen_table_next(t, 2), 7);
	assert_int_equal(gen_table_next(t, 2), 8);
	assert_int_equal(gen_table_next(t, 3), 7);
	table_free(t);
}

static void
readers_find_what_is_published(void **state)
{
	struct gen_table *t = table_new(0);
	uint32_t slot = gen_table_take(t);
	int obj;

	assert_null(gen_table_get(t, slot));
	gen_table_publish(t, slot, &obj);
	assert_ptr_equal(gen_table_get(t, slot), &obj);
	gen_table_publish(t, slot, NULL);
	assert_null(gen_table_get(t, slot));
	for (uint32_t beyond = SLOTS; beyond != 0; beyond <<= 1)
		assert_null(gen_table_get(t, beyond));
	table_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_slots_are_used_and_no_more),
		cmocka_unit_test(a_slot_rests_as_long_as_others_are_free),
		cmocka_unit_test(each_object_of_a_slot_has_another_generation),
		cmocka_unit_test(readers_find_what_is_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
