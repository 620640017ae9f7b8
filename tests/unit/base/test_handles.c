/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/handles.h"

static int things[100000];

static void
a_handle_leads_to_its_object(void **state)
{
	static uint32_t h[100000];
	struct handles t;
	uint32_t i;

	handles_init(&t, NULL);
	for (i = 0; i < 100000; i++) {
		h[i] = handles_add(&t, &things[i]);
		assert_int_not_equal(h[i], HANDLE_NONE);
	}
	for (i = 0; i < 100000; i++)
		assert_ptr_equal(handles_get(&t, h[i]), &things[i]);
	assert_int_equal(t.used, 100000);
	handles_fini(&t);
}

static void
a_freed_handle_leads_nowhere_even_when_its_place_is_taken(void **state)
{
	struct handles t;
	uint32_t a, b;

	handles_init(&t, NULL);
	a = handles_add(&t, &things[0]);
	handles_remove(&t, a);
	assert_null(handles_get(&t, a));
	b = handles_add(&t, &things[1]);
	assert_int_not_equal(a, b);
	assert_null(handles_get(&t, a));
	assert_ptr_equal(handles_get(&t, b), &things[1]);
	handles_fini(&t);
}

static void
invented_handles_lead_nowhere(void **state)
{
	struct handles t;
	uint32_t h, i;

	handles_init(&t, NULL);
	assert_null(handles_get(&t, 0));
	h = handles_add(&t, &things[0]);
	for (i = 0; i < 32; i++)
		assert_null(handles_get(&t, h ^ 1u << i));
	assert_null(handles_get(&t, HANDLE_NONE));
	handles_fini(&t);
}

static void
a_walk_finds_each_object_once_also_while_they_are_removed(void **state)
{
	struct handles t;
	uint32_t h[50], pos = 0, n = 0, i;
	int *p;

	handles_init(&t, NULL);
	for (i = 0; i < 50; i++)
		h[i] = handles_add(&t, &things[i]);
	for (i = 0; i < 50; i += 2)
		handles_remove(&t, h[i]);
	while ((p = handles_next(&t, &pos)) != NULL) {
		assert_int_equal((p - things) % 2, 1);
		handles_remove(&t, h[p - things]);
		n++;
	}
	assert_int_equal(n, 25);
	assert_int_equal(t.used, 0);
	handles_fini(&t);
}

static void
with_a_secret_handles_are_random(void **state)
{
	uint32_t differ = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct secret secret = { .key[0] = seed };
		struct handles t, again;

		handles_init(&t, &secret);
		handles_init(&again, &secret);
		for (uint32_t i = 0; i < 40; i++) {
			uint32_t h = handles_add(&t, &things[i]);

			assert_int_not_equal(h, HANDLE_NONE);
			assert_int_equal(handles_add(&again, &things[i]), h);
			assert_ptr_equal(handles_get(&t, h), &things[i]);
			differ += h >> HANDLES_INDEX_BITS != 0;
			handles_remove(&t, h);
			handles_remove(&again, h);
			assert_null(handles_get(&t, h));
			assert_int_not_equal(handles_add(&t, &things[i]), h);
			handles_add(&again, &things[i]);
		}
		handles_fini(&t);
		handles_fini(&again);
	}
	assert_in_range(differ, 3950, 4000);
}

static void
a_slots_low_bytes_come_again_when_all_were_used(void **state)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct secret secret = { .key[0] = seed };
		uint8_t seen[256] = { 0 }, last = 0;
		uint32_t counts = 0;
		struct handles t;

		handles_init(&t, &secret);
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t h = handles_add(&t, &things[0]);
			uint8_t low = (uint8_t)(h >> HANDLES_INDEX_BITS);

			assert_int_equal(seen[low]++, 0);
			counts += low == (uint8_t)(last + 1);
			last = low;
			handles_remove(&t, h);
		}
		/* They don't count. */
		assert_in_range(counts, 0, 8);
		handles_fini(&t);
	}
}

static void
handles_of_another_table_lead_to_their_objects_here(void **state)
{
	struct handles from, to;
	uint32_t h[40], more;

	handles_init(&from, NULL);
	handles_init(&to, NULL);
	for (uint32_t i = 0; i < 40; i++) {
		handles_remove(&from, handles_add(&from, &things[i]));
		h[i] = handles_add(&from, &things[i]);
	}
	/* Backwards, with a gap. */
	for (uint32_t i = 40; i-- > 0;)
		assert_true(i == 7 || handles_add_as(&to, &things[i], h[i]));
	assert_false(handles_add_as(&to, &things[0], h[0]));
	assert_false(handles_add_as(&to, &things[0], HANDLE_NONE));
	for (uint32_t i = 0; i < 40; i++)
		assert_ptr_equal(handles_get(&to, h[i]), i != 7 ? &things[i] : NULL);
	assert_int_equal(to.used, 39);
	/* What is free is given to others, once each. */
	for (uint32_t i = 40; i < 100; i++) {
		more = handles_add(&to, &things[i]);
		for (uint32_t k = 0; k < 40; k++)
			assert_true(k == 7 || more != h[k]);
	}
	assert_int_equal(to.used, 99);
	/* A handle that is removed doesn't come again at once. */
	handles_remove(&to, h[3]);
	assert_int_not_equal(handles_add(&to, &things[3]), h[3]);
	handles_fini(&from);
	handles_fini(&to);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_leads_to_its_object),
		cmocka_unit_test(a_freed_handle_leads_nowhere_even_when_its_place_is_taken),
		cmocka_unit_test(invented_handles_lead_nowhere),
		cmocka_unit_test(with_a_secret_handles_are_random),
		cmocka_unit_test(a_slots_low_bytes_come_again_when_all_were_used),
		cmocka_unit_test(handles_of_another_table_lead_to_their_objects_here),
		cmocka_unit_test(a_walk_finds_each_object_once_also_while_they_are_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
