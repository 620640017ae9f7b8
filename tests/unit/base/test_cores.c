/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cores.h"

static void
cores_are_scarce_when_pollers_share_one_or_lose_it(void **state)
{
	assert_false(cores_scarce(&(struct cores){ .pollers = 2, .cpus = 2 }));
	assert_false(cores_scarce(&(struct cores){ .pollers = 2, .cpus = 64 }));
	assert_true(cores_scarce(&(struct cores){ .pollers = 3, .cpus = 2 }));
	assert_true(cores_scarce(&(struct cores){ .pollers = 2, .cpus = 64, .late_turns = 1 }));
}

static void
the_line_counts_pollers_cores_and_late_turns(void **state)
{
	char text[CORES_TEXT_BYTES];

	assert_string_equal(cores_text(&(struct cores){ .pollers = 4, .cpus = 2, .late_turns = 132 }, text, sizeof(text)),
			    "4 pollers on 2 cores, 132 late turns: the figures suffer from threads that wait for a core");
	assert_string_equal(cores_text(&(struct cores){ .pollers = 1, .cpus = 1, .late_turns = 1 }, text, sizeof(text)),
			    "1 poller on 1 core, 1 late turn: the figures suffer from threads that wait for a core");
}

static void
the_longest_line_has_room(void **state)
{
	const struct cores most = { .pollers = UINT32_MAX, .cpus = UINT32_MAX, .late_turns = UINT64_MAX };
	char text[CORES_TEXT_BYTES];

	cores_text(&most, text, sizeof(text));
	assert_non_null(strstr(text, "wait for a core"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cores_are_scarce_when_pollers_share_one_or_lose_it),
		cmocka_unit_test(the_line_counts_pollers_cores_and_late_turns),
		cmocka_unit_test(the_longest_line_has_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
