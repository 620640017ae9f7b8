/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that fail are in the daemon's log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/session_priv.h"
#include "pair.h"

enum { FAILING = 25 };

/** Make all pairs fail: both QPs of each, the one for the NAK that it gets, the other for what it refused. */
static void
fail_all(struct pair *t)
{
	struct ring_cqe e;

	for (int i = 0; i < FAILING; i++)
		pair_post_with(&t[i], 0, UROCE_WR_RDMA_WRITE, t[i].mem, 8, t[i].mem, t[i].lkey ^ 1);
	for (int i = 0; i < FAILING; i++) {
		assert_true(pair_poll(&t[i], &e));
		assert_int_equal(e.status, UROCE_WC_REM_ACCESS_ERR);
	}
	/* The control thread looks so often whether there is more to tell. */
	usleep(2 * CONTROL_LINK_POLL_MS * 1000);
}

/** @return how often a QP's failure is in the log: once, or not at all. */
static unsigned int
lines_of(const char *log, uint32_t qpn, const char *why)
{
	const char *at, *end;
	char start[32];

	snprintf(start, sizeof(start), "QP %#x (RC, test pid", qpn);
	at = strstr(log, start);
	if (at == NULL)
		return 0;
	end = strchr(at, '\n');
	assert_non_null(end);
	if (memmem(at, (size_t)(end - at), why, strlen(why)) == NULL)
		fail_msg("'%s' isn't in '%.*s'", why, (int)(end - at), at);
	assert_null(strstr(end, start));
	return 1;
}

static void
each_failure_is_in_the_log_once_and_a_flood_of_them_as_a_number(void **state)
{
	static struct pair t[FAILING];
	const struct engine_stats *stats = engine_stats(daemon_control()->s.engines[0]);
	uint64_t before, unsaid, told = 0;
	unsigned int lines = 0;
	size_t bytes;
	char *log;
	FILE *f = open_memstream(&log, &bytes);

	for (int i = 0; i < FAILING; i++)
		pair_open(&t[i], CTL_SEG_CONVERTED);
	before = stats->failures_unsaid;
	rte_log_set_global_level(RTE_LOG_NOTICE);
	rte_log_set_level((uint32_t)control_logtype, RTE_LOG_NOTICE);
	rte_openlog_stream(f);
	fail_all(t);
	rte_openlog_stream(NULL);
	rte_log_set_global_level(RTE_LOG_ERR);
	fclose(f);
	for (int i = 0; i < FAILING; i++) {
		lines += lines_of(log, t[i].end[0].qp.qpn, "ERR: the peer refused the request of PSN 100: remote access error");
		lines += lines_of(log, t[i].end[1].qp.qpn, "ERR: the peer's request of PSN 100 was refused: remote access error");
		peer_close(&t[i].p);
		munmap(t[i].mem, 2 * PAIR_BYTES);
	}
	assert_true(daemon_wait_empty());
	for (const char *at = log; (at = strstr(at, " more QPs of engine 0 failed")) != NULL; at++) {
		const char *number = at;

		while (number > log && number[-1] >= '0' && number[-1] <= '9')
			number--;
		told += strtoul(number, NULL, 10);
	}
	unsaid = stats->failures_unsaid - before;
	assert_true(lines >= ENGINE_FAILURES);
	assert_int_equal(lines + unsaid, 2 * FAILING);
	assert_int_equal(told, unsaid);
	free(log);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_failure_is_in_the_log_once_and_a_flood_of_them_as_a_number),
	};

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
