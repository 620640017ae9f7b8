/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/base/near.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/near.h"

static const char *
nearest(const char *written)
{
	static const char *const words[] = { "socket", "socket_mode", "socket_group", "idle", "mtu", "cc", "ethdev" };
	struct near n = { 0 };

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		near_look(&n, written, words[i]);
	return n.word;
}

static void
slips_of_a_finger_are_seen_through(void **state)
{
	assert_string_equal(nearest("sokcet"), "socket");     /* swapped */
	assert_string_equal(nearest("socket_mod"), "socket_mode");
	assert_string_equal(nearest("socketgroup"), "socket_group");
	assert_string_equal(nearest("idel"), "idle");
	assert_string_equal(nearest("ethdevs"), "ethdev");
	assert_string_equal(nearest("mtv"), "mtu");
	assert_string_equal(nearest("Socket"), "socket");
}

static void
what_is_far_is_nothing(void **state)
{
	char longest[200] = "";

	assert_null(nearest(""));
	assert_null(nearest("speed"));
	assert_null(nearest("xx"));
	assert_null(nearest("m"));
	for (unsigned int i = 0; i + 1 < sizeof(longest); i++)
		longest[i] = 's';
	assert_null(nearest(longest));
}

static void
the_first_of_equals_stays(void **state)
{
	struct near n = { 0 };

	near_look(&n, "axcd", "abcd");
	near_look(&n, "axcd", "aycd");
	assert_string_equal(n.word, "abcd");
	near_look(&n, "axcd", "axcd");
	assert_string_equal(n.word, "axcd");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slips_of_a_finger_are_seen_through),
		cmocka_unit_test(what_is_far_is_nothing),
		cmocka_unit_test(the_first_of_equals_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
