/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/objtab.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verbs/objtab.h"

static void
a_cookie_finds_its_object_until_it_is_removed(void **state)
{
	struct objtab t;
	int a, b;
	uint64_t ca, cb;

	objtab_init(&t);
	ca = objtab_add(&t, &a);
	cb = objtab_add(&t, &b);
	assert_true(ca != cb);
	assert_ptr_equal(objtab_get(&t, ca), &a);
	assert_ptr_equal(objtab_get(&t, cb), &b);
	objtab_remove(&t, ca);
	assert_null(objtab_get(&t, ca));
	assert_ptr_equal(objtab_get(&t, cb), &b);
	objtab_fini(&t);
}

static void
a_stale_cookie_does_not_find_its_slots_next_object(void **state)
{
	struct objtab t;
	int a, b;
	uint64_t old, new;

	objtab_init(&t);
	old = objtab_add(&t, &a);
	objtab_remove(&t, old);
	objtab_remove(&t, old);
	new = objtab_add(&t, &b);
	assert_int_equal((uint32_t)old, (uint32_t) new);
	assert_null(objtab_get(&t, old));
	assert_ptr_equal(objtab_get(&t, new), &b);
	objtab_fini(&t);
}

static void
invented_cookies_find_nothing(void **state)
{
	struct objtab t;
	int a;

	objtab_init(&t);
	assert_null(objtab_get(&t, 0));
	objtab_add(&t, &a);
	assert_null(objtab_get(&t, UINT64_MAX));
	assert_null(objtab_get(&t, UINT64_C(1) << 32));
	assert_null(objtab_get(&t, 5));
	objtab_fini(&t);
}

static void
it_grows(void **state)
{
	static int objs[1000];
	static uint64_t cookies[1000];
	struct objtab t;

	objtab_init(&t);
	for (int i = 0; i < 1000; i++)
		cookies[i] = objtab_add(&t, &objs[i]);
	for (int i = 0; i < 1000; i++)
		assert_ptr_equal(objtab_get(&t, cookies[i]), &objs[i]);
	objtab_fini(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cookie_finds_its_object_until_it_is_removed),
		cmocka_unit_test(a_stale_cookie_does_not_find_its_slots_next_object),
		cmocka_unit_test(invented_cookies_find_nothing),
		cmocka_unit_test(it_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
