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
table_new(uint64_t seed)
{
	struct gen_table *t = calloc(1, sizeof(*t) + gen_table_bytes(SLOTS));

	assert_non_null(t);
	assert_int_equal(gen_table_init(t, SLOTS, seed), 0);
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
	struct gen_table *t = table_new(0);

	assert_int_equal(gen_table_next(t, 2), 0);
	assert_int_equal(gen_table_next(t, 2), 1);
	assert_int_equal(gen_table_next(t, 3), 0);
	table_free(t);
}

/* With a seed a table is as good as without one, but begins where nobody can know. */
static void
a_seed_makes_first_slot_and_generations_its_own(void **state)
{
	uint32_t first[SLOTS] = { 0 }, same = 0;

	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct gen_table *t = table_new(seed), *again = table_new(seed);
		uint32_t slots = 0;

		for (uint32_t i = 0; i < SLOTS; i++) {
			uint32_t slot = gen_table_take(t), generation = gen_table_next(t, slot);

			first[slot] += i == 0;
			slots |= UINT32_C(1) << slot;
			assert_int_equal(gen_table_take(again), slot);
			assert_int_equal(gen_table_next(again, slot), generation);
			assert_int_equal(gen_table_next(t, slot), generation + 1);
			same += slot != 0 && (uint8_t)generation == (uint8_t)t->generation[0];
		}
		assert_int_equal(slots, (1 << SLOTS) - 1);
		table_free(t);
		table_free(again);
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_in_range(first[i], 100, 300);
	/* Of 4000 bytes 16 are expected to be those of slot 0. */
	assert_in_range(same, 1, 50);
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
		cmocka_unit_test(a_seed_makes_first_slot_and_generations_its_own),
		cmocka_unit_test(readers_find_what_is_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
