/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns that take long are in the log, with the program that is being served, and are counted. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/control_priv.h"
#include "control/observe/inspect.h"
#include "control/observe/stall_priv.h"
#include "daemon.h"
#include "engine/engine.h"

enum { HELD_MS = STALL_MS + 3 * STALL_LOOK_MS };

static _Atomic bool held;

static int
hold(struct engine *e, void *arg, uint64_t now_ns)
{
	held = true;
	usleep(HELD_MS * 1000);
	return 0;
}

static void *
hold_engine(void *arg)
{
	engine_call(daemon_control()->s.engines[0], hold, NULL);
	return NULL;
}

static void
an_engine_and_a_request_that_take_long_are_named(void **state)
{
	struct inspect_engine e;
	struct peer p;
	pthread_t t;
	size_t bytes;
	char *log;
	FILE *f = open_memstream(&log, &bytes);

	peer_open(&p);
	rte_log_set_global_level(RTE_LOG_NOTICE);
	rte_log_set_level((uint32_t)control_logtype, RTE_LOG_NOTICE);
	rte_openlog_stream(f);
	assert_int_equal(pthread_create(&t, NULL, hold_engine, NULL), 0);
	while (!held)
		usleep(100);
	/* It makes a CQ known to the engine, and waits with it. */
	peer_new_qp(&p, UROCE_QPT_RC);
	pthread_join(t, NULL);
	/* Another second would be needed for another line. */
	usleep(2 * STALL_LOOK_MS * 1000);
	rte_openlog_stream(NULL);
	rte_log_set_global_level(RTE_LOG_ERR);
	fclose(f);
	assert_non_null(strstr(log, " has been "));
	assert_null(strstr(strstr(log, " has been ") + 1, " has been "));
	assert_true(strstr(log, "engine 0 has been in one turn for 1") != NULL || strstr(log, "_CREATE of test (pid ") != NULL);
	free(log);
	assert_int_equal(inspect_engine(daemon_control(), 0, &e), 0);
	assert_int_equal(e.stalls, 1);
	assert_int_equal(e.control_stalls, 1);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_engine_and_a_request_that_take_long_are_named),
	};

	return DAEMON_TESTS(tests, 10, 100, NULL);
}
