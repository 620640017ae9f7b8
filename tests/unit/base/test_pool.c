/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"

enum { ITEMS = 5 };
struct item {
	uint64_t words[3];
};

static void
every_item_is_lent_once(void **state)
{
	struct item *got[ITEMS];
	struct pool p;

	assert_int_equal(pool_init(&p, sizeof(struct item), ITEMS), 0);
	for (uint32_t i = 0; i < ITEMS; i++) {
		assert_int_equal(pool_left(&p), ITEMS - i);
		got[i] = pool_get(&p);
		assert_non_null(got[i]);
		assert_int_equal(pool_index(&p, struct item, got[i]), i);
		assert_ptr_equal(pool_item(&p, struct item, i), got[i]);
		got[i]->words[0] = got[i]->words[2] = i;
	}
	assert_int_equal(pool_left(&p), 0);
	assert_null(pool_get(&p));
	for (uint32_t i = 0; i < ITEMS; i++)
		assert_true(got[i]->words[0] == i && got[i]->words[2] == i);
	pool_fini(&p);
	assert_null(pool_get(&p));
}

static void
what_came_back_last_is_lent_first(void **state)
{
	struct item *a, *b;
	struct pool p;

	assert_int_equal(pool_init(&p, sizeof(struct item), ITEMS), 0);
	a = pool_get(&p);
	b = pool_get(&p);
	pool_put(&p, a);
	pool_put(&p, b);
	assert_int_equal(pool_left(&p), ITEMS);
	assert_ptr_equal(pool_get(&p), b);
	assert_ptr_equal(pool_get(&p), a);
	/* Then those that were never lent. */
	assert_int_equal(pool_index(&p, struct item, pool_get(&p)), 2);
	pool_fini(&p);
}

static void
items_that_were_never_lent_are_untouched(void **state)
{
	struct pool p;

	assert_int_equal(pool_init(&p, sizeof(struct item), ITEMS), 0);
	pool_put(&p, pool_get(&p));
	for (uint32_t i = 1; i < ITEMS; i++)
		assert_int_equal(pool_item(&p, struct item, i)->words[0], 0);
	pool_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_item_is_lent_once),
		cmocka_unit_test(what_came_back_last_is_lent_first),
		cmocka_unit_test(items_that_were_never_lent_are_untouched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
