/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/control/core/closer.c: descriptors of many users at once, and that the threads that close them leave nothing. */
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* A file system that doesn't answer: close() of these descriptors waits. */
static struct {
	int first, last;
	sem_t opens;
} shut = { .first = -1, .last = -1 };

int
close(int fd)
{
	if (fd >= shut.first && fd <= shut.last)
		while (sem_wait(&shut.opens) != 0)
			;
	return (int)syscall(SYS_close, fd);
}

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
wait_until_closed(void)
{
	for (unsigned int ms = 0; closer_pending() > 0; ms++) {
		assert_true(ms < PATIENCE_MS);
		usleep(1000);
	}
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
	wait_until_closed();
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

enum { HONEST = 7, OTHER = 8, BASE = 2000 };

/* @p n descriptors of a user whose file system doesn't answer. */
static void
begin_to_close(unsigned int n)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct rlimit most;

	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
	if (most.rlim_max < BASE + CLOSER_USER_MOST)
		skip();
	most.rlim_cur = most.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
	assert_int_equal(sem_init(&shut.opens, 0, 0), 0);
	shut.first = BASE;
	shut.last = BASE + (int)n - 1;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(dup2(fd, BASE + (int)i), BASE + (int)i);
	for (unsigned int i = 0; i < n; i++)
		closer_close(BASE + (int)i, HONEST);
	syscall(SYS_close, fd);
}

static void
let_them_close(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sem_post(&shut.opens);
	wait_until_closed();
	assert_int_equal(closer_stuck(HONEST), 0);
	shut.first = shut.last = -1;
	sem_destroy(&shut.opens);
}

/* Many programs that end together, as on a busy machine. */
static void
many_descriptors_for_a_moment_are_nobodys_fault(void **state)
{
	(void)state;
	begin_to_close(CLOSER_USER_PENDING * 8);
	assert_int_equal(closer_stuck(HONEST), 0);
	let_them_close(CLOSER_USER_PENDING * 8);
}

static void
descriptors_that_do_not_close_are_counted(void **state)
{
	(void)state;
	begin_to_close(CLOSER_USER_PENDING);
	usleep((CLOSER_STUCK_MS + 100) * 1000);
	assert_int_equal(closer_stuck(HONEST), CLOSER_USER_PENDING);
	assert_int_equal(closer_stuck(OTHER), 0);
	let_them_close(CLOSER_USER_PENDING);
	/* A few may take as long as they like. */
	begin_to_close(CLOSER_USER_PENDING - 1);
	usleep((CLOSER_STUCK_MS + 100) * 1000);
	assert_int_equal(closer_stuck(HONEST), 0);
	let_them_close(CLOSER_USER_PENDING - 1);
}

static void
too_many_descriptors_are_too_many_at_once(void **state)
{
	(void)state;
	begin_to_close(CLOSER_USER_MOST - 1);
	assert_int_equal(closer_stuck(HONEST), 0);
	let_them_close(CLOSER_USER_MOST - 1);
	begin_to_close(CLOSER_USER_MOST);
	assert_int_equal(closer_stuck(HONEST), CLOSER_USER_MOST);
	let_them_close(CLOSER_USER_MOST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_descriptors_for_a_moment_are_nobodys_fault),
		cmocka_unit_test(descriptors_that_do_not_close_are_counted),
		cmocka_unit_test(too_many_descriptors_are_too_many_at_once),
		cmocka_unit_test(threads_that_have_ended_leave_no_mappings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
