/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/rsocket/rs_table.c: the table of rsockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/rs_priv.h"

enum {
	WAIT_MS = 5000,
	SETTLE_US = 50000, /* for a thread to get as far as it can */
};

/* ---- What it calls ---- */
const struct rs_sizes *
rs_conf_sizes(void)
{
	static const struct rs_sizes sizes;

	return &sizes;
}

/* ---- Tests ---- */
static void
entered_is_found_until_it_leaves(void **state)
{
	struct rsocket a = { 0 }, b = { 0 };
	int fd;

	assert_int_equal(rs_enter(&a, NULL, SOCK_STREAM, AF_INET), 0);
	assert_int_equal(rs_enter(&b, NULL, SOCK_DGRAM, AF_INET6), 0);
	assert_int_not_equal(a.fd, b.fd);
	assert_ptr_equal(rs_find(a.fd), &a);
	assert_ptr_equal(rs_find(b.fd), &b);
	fd = a.fd;
	rs_leave(&a);
	assert_null(rs_find(fd));
	assert_ptr_equal(rs_find(b.fd), &b);
	rs_leave(&b);
}

static void
renumbered_has_the_lowest_free_number(void **state)
{
	struct rsocket a = { 0 }, b = { 0 };
	int low = dup(0), taken, old;

	assert_int_equal(rs_enter(&a, NULL, SOCK_STREAM, AF_INET), 0);
	assert_int_equal(rs_enter(&b, NULL, SOCK_STREAM, AF_INET), 0);
	old = a.fd;
	assert_int_equal(close(low), 0);
	rs_renumber(&a);
	assert_int_equal(a.fd, low);
	assert_ptr_equal(rs_find(low), &a);
	assert_null(rs_find(old));
	assert_ptr_equal(rs_find(b.fd), &b);
	/* Its old number is free again. */
	taken = dup(0);
	assert_int_equal(taken, old);
	rs_renumber(&a);
	assert_true(a.fd > b.fd);
	assert_ptr_equal(rs_find(a.fd), &a);
	assert_null(rs_find(low));
	close(taken);
	rs_leave(&a);
	rs_leave(&b);
}

static void
without_a_free_number_it_keeps_its_own(void **state)
{
	struct rlimit before, none;
	struct rsocket a = { 0 };
	int fd;

	assert_int_equal(rs_enter(&a, NULL, SOCK_STREAM, AF_INET), 0);
	fd = a.fd;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rs_renumber(&a);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(a.fd, fd);
	assert_ptr_equal(rs_find(fd), &a);
	rs_leave(&a);
}

static atomic_bool visited, go_on, left;

static void
visit(struct rsocket *rs)
{
	atomic_store(&visited, true);
	while (!atomic_load(&go_on))
		usleep(100);
}

static void *
visit_all(void *unused)
{
	rs_each(visit);
	return NULL;
}

static void *
leave(void *rs)
{
	rs_leave(rs);
	atomic_store(&left, true);
	return NULL;
}

static void
nobody_leaves_who_is_being_visited(void **state)
{
	struct rsocket rs = { 0 };
	pthread_t th[2];

	assert_int_equal(rs_enter(&rs, NULL, SOCK_STREAM, AF_INET), 0);
	pthread_create(&th[0], NULL, visit_all, NULL);
	for (int i = 0; i < WAIT_MS && !atomic_load(&visited); i++)
		usleep(1000);
	pthread_create(&th[1], NULL, leave, &rs);
	usleep(SETTLE_US);
	assert_false(atomic_load(&left));
	atomic_store(&go_on, true);
	pthread_join(th[0], NULL);
	pthread_join(th[1], NULL);
	assert_true(atomic_load(&left));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entered_is_found_until_it_leaves),
		cmocka_unit_test(renumbered_has_the_lowest_free_number),
		cmocka_unit_test(without_a_free_number_it_keeps_its_own),
		cmocka_unit_test(nobody_leaves_who_is_being_visited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
