/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/control/core/closer.c: descriptors of many users at once, and that the threads that close them leave nothing. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/closer_priv.h"

enum {
	USERS = 200,
	ROUNDS = 50,
	PATIENCE_MS = 10000,
#ifdef __SANITIZE_ADDRESS__
	SANITIZER_MAPPINGS = 4, /* which it makes or joins for its own use in later rounds; what threads leave are many in each round */
#else
	SANITIZER_MAPPINGS = 0,
#endif
};

static unsigned int
mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	int c;

	assert_non_null(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void
close_for_each_user(void)
{
	int fds[USERS];

	for (unsigned int i = 0; i < USERS; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	for (unsigned int i = 0; i < USERS; i++)
		closer_close(fds[i], i);
	for (unsigned int ms = 0; closer_pending() > 0; ms++) {
		assert_true(ms < PATIENCE_MS);
		usleep(1000);
	}
	for (unsigned int i = 0; i < USERS; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

static void
threads_that_have_ended_leave_no_mappings(void **state)
{
	unsigned int before;

	(void)state;
	close_for_each_user();
	before = mappings();
	for (unsigned int i = 0; i < ROUNDS; i++)
		close_for_each_user();
	assert_in_range(mappings(), before - SANITIZER_MAPPINGS, before + SANITIZER_MAPPINGS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_that_have_ended_leave_no_mappings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
