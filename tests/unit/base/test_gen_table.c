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
	const struct secret secret = { .key = { seed, seed + 1 } };
	struct gen_table *t = calloc(1, sizeof(*t) + gen_table_bytes(SLOTS));

	assert_non_null(t);
	assert_int_equal(gen_table_init(t, SLOTS, seed != 0 ? &secret : NULL), 0);
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

/* A table with a secret is as good as one without, but nobody else can know its numbers. */
static void
a_secret_makes_slots_and_generations_random(void **state)
{
	uint32_t first[SLOTS] = { 0 }, counted = 0, same = 0;

	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct gen_table *t = table_new(seed), *again = table_new(seed);
		uint32_t slots = 0, last = 0;

		for (uint32_t i = 0; i < SLOTS; i++) {
			uint32_t slot = gen_table_take(t), generation = gen_table_next(t, slot), next;

			first[slot] += i == 0;
			slots |= UINT32_C(1) << slot;
			assert_int_equal(gen_table_take(again), slot);
			assert_int_equal(gen_table_next(again, slot), generation);
			next = gen_table_next(t, slot);
			assert_int_not_equal((uint8_t)next, (uint8_t)generation);
			counted += (uint8_t)next == (uint8_t)(generation + 1);
			same += i != 0 && (uint8_t)generation == (uint8_t)last;
			last = generation;
			assert_int_equal(gen_table_next(again, slot), next);
		}
		assert_int_equal(slots, (1 << SLOTS) - 1);
		table_free(t);
		table_free(again);
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_in_range(first[i], 100, 300);
	/* Of 5000 the successor of a byte is expected 20 times, of 4000 the same byte 16 times. */
	assert_in_range(counted, 1, 60);
	assert_in_range(same, 1, 50);
}

/* What was given back last is not among those that have rested longest. */
static void
a_random_slot_rests_too(void **state)
{
	struct gen_table *t = table_new(7);

	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t slot = gen_table_take(t);

		gen_table_give(t, slot);
		for (uint32_t k = 0; k < SLOTS / 2 - 1; k++) {
			uint32_t other = gen_table_take(t);

			assert_int_not_equal(other, slot);
			gen_table_give(t, other);
		}
	}
	assert_int_equal(gen_table_count(t), 0);
	table_free(t);
}

/* The vector of SipHash-2-4's authors for a message of eight bytes, 0 to 7, with the key 0 to 15. */
static void
the_numbers_are_siphash(void **state)
{
	const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };

	assert_true(secret_hash(key, UINT64_C(0x0706050403020100)) == UINT64_C(0x93f5f5799a932462));
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

/** Slots are taken, taken as what they were elsewhere, and given back, in an order of @p seed. */
static void
take_and_give(uint64_t seed)
{
	struct gen_table *t = table_new(seed);
	bool used[SLOTS] = { false };
	uint32_t nb_used = 0, random = (uint32_t)seed + 1;

	for (int i = 0; i < 1000; i++) {
		uint32_t slot, what;

		random = random * 1664525 + 1013904223;
		slot = (random >> 8) % SLOTS;
		what = random >> 30;
		if (what == 0 && nb_used < SLOTS) {
			slot = gen_table_take(t);
			assert_false(used[slot]);
		} else if (what == 1 && used[slot]) {
			gen_table_give(t, slot);
			used[slot] = false;
			nb_used--;
			continue;
		} else if (what >= 2) {
			assert_int_equal(gen_table_take_as(t, slot, i), !used[slot]);
			if (used[slot])
				continue;
		} else {
			continue;
		}
		used[slot] = true;
		assert_int_equal(gen_table_count(t), ++nb_used);
	}
	assert_false(gen_table_take_as(t, SLOTS, 0));
	assert_false(gen_table_take_as(t, UINT32_MAX, 0));
	table_free(t);
}

static void
a_certain_slot_is_had_if_it_is_free(void **state)
{
	for (uint64_t seed = 0; seed < 100; seed++)
		take_and_give(seed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_slots_are_used_and_no_more),
		cmocka_unit_test(a_slot_rests_as_long_as_others_are_free),
		cmocka_unit_test(each_object_of_a_slot_has_another_generation),
		cmocka_unit_test(a_secret_makes_slots_and_generations_random),
		cmocka_unit_test(a_random_slot_rests_too),
		cmocka_unit_test(the_numbers_are_siphash),
		cmocka_unit_test(a_certain_slot_is_had_if_it_is_free),
		cmocka_unit_test(readers_find_what_is_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
