/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's log: nobody waits for what reads it, no line is lost without a word, and the last ones of a process that aborts are written. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_log.h>

#include "log.h"

enum { PIPE_BYTES = 4096, LINES = 40000, ALL_BYTES = 4 << 20 };

static char all[ALL_BYTES];
static size_t nb_all;
static int ends[2];

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void *
read_all(void *arg)
{
	ssize_t n;

	while ((n = read(ends[0], all + nb_all, sizeof(all) - 1 - nb_all)) > 0)
		nb_all += (size_t)n;
	all[nb_all] = '\0';
	return arg;
}

static void
begin(void)
{
	nb_all = 0;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
	assert_int_equal(log_begin(ends[1]), 0);
}

/* Every line that there should be, in order, until some are lost. @return how many there are; the log must say that the others are lost. */
static unsigned int
check_lines(unsigned int of)
{
	unsigned int n = 0, lost = 0;

	for (char *line = all, *end; *line != '\0'; line = end + 1) {
		char want[64];

		end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		snprintf(want, sizeof(want), "line %u", n + lost);
		if (strcmp(line, want) == 0)
			n++;
		else
			assert_int_equal(sscanf(line, "uroced: %u lines of the log are lost here: what reads it is too slow", &lost), 1);
	}
	assert_int_equal(n + lost, of);
	return n;
}

static void
lines_arrive_in_order(void **state)
{
	pthread_t reader;

	begin();
	pthread_create(&reader, NULL, read_all, NULL);
	for (unsigned int i = 0; i < 1000; i++) {
		if (i % 2 == 0)
			rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_USER1, "line %u\n", i);
		else
			fprintf(log_stream(), "line %u\n", i);
	}
	log_end();
	assert_ptr_equal(log_stream(), stderr);
	close(ends[1]);
	pthread_join(reader, NULL);
	close(ends[0]);
	assert_int_equal(check_lines(1000), 1000);
}

static void
nobody_waits_for_who_reads_the_log(void **state)
{
	uint64_t from = now_ms();
	pthread_t reader;

	begin();
	/* Nobody reads, and the pipe has room for a hundredth of it. */
	for (unsigned int i = 0; i < LINES; i++)
		rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_USER1, "line %u\n", i);
	assert_true(now_ms() - from < LOG_WAIT_MS);
	pthread_create(&reader, NULL, read_all, NULL);
	log_end();
	close(ends[1]);
	pthread_join(reader, NULL);
	close(ends[0]);
	assert_in_range(check_lines(LINES), 1000, LINES - 1);
}

/* It ends all the same, after some time. */
static void
a_log_that_nobody_reads_ends(void **state)
{
	uint64_t from = now_ms(), took;

	begin();
	for (unsigned int i = 0; i < LINES; i++)
		rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_USER1, "line %u\n", i);
	/* One critical line waits, and nothing after it. */
	rte_log(RTE_LOG_CRIT, RTE_LOGTYPE_USER1, "critical\n");
	took = now_ms() - from;
	assert_in_range(took, LOG_WAIT_MS, 10 * LOG_WAIT_MS);
	from = now_ms();
	for (unsigned int i = 0; i < LINES; i++)
		rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_USER1, "line %u\n", i);
	assert_true(now_ms() - from < LOG_WAIT_MS);
	from = now_ms();
	log_end();
	took = now_ms() - from;
	assert_in_range(took, LOG_WAIT_MS, 10 * LOG_WAIT_MS);
	/* Its thread ends with the pipe. */
	close(ends[0]);
}

/* What a process says before it aborts. */
static void
critical_lines_are_written_before_their_callers_go_on(void **state)
{
	char line[64] = "";

	begin();
	rte_log(RTE_LOG_CRIT, RTE_LOGTYPE_USER1, "PANIC\n");
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(read(ends[0], line, sizeof(line)), 6);
	assert_string_equal(line, "PANIC\n");
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "0: main+2\n");
	assert_int_equal(read(ends[0], line, sizeof(line)), 10);
	log_end();
	close(ends[1]);
	close(ends[0]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_arrive_in_order),
		cmocka_unit_test(nobody_waits_for_who_reads_the_log),
		cmocka_unit_test(critical_lines_are_written_before_their_callers_go_on),
		cmocka_unit_test(a_log_that_nobody_reads_ends),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
