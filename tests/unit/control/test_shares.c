/* SPDX-License-Identifier: BSD-3-Clause */
/* What sessions get of the engines' time and of the control thread's, while they are live. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/quota_priv.h"
#include "control/observe/inspect.h"
#include "daemon.h"

enum { MAX_SESSIONS = 40, MAX_QP = 10, TURNS = 50 };

/** Read a configuration with these lines in addition, as on SIGHUP. */
static void
reload(const char *lines)
{
	struct control *c = daemon_control();
	char path[] = "/tmp/uroce-shares-XXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");

	assert_non_null(f);
	fputs(lines, f);
	assert_int_equal(fclose(f), 0);
	control_lock(c);
	c->s.config_file = path;
	assert_int_equal(control_reload(c), 0);
	c->s.config_file = NULL;
	control_unlock(c);
	unlink(path);
}

/** @return the newest session. */
static struct session *
newest(void)
{
	return TAILQ_LAST(&daemon_control()->sessions, session_list);
}

static uint32_t
weight_of(struct session *s)
{
	struct inspect_session i;

	control_lock(daemon_control());
	assert_int_equal(inspect_session(daemon_control(), s->id, &i), 0);
	control_unlock(daemon_control());
	return i.share.weight;
}

static void
a_reload_changes_the_shares_of_live_sessions(void **state)
{
	char lines[256];
	struct session *s;
	struct peer p;

	peer_open(&p);
	s = newest();
	assert_int_equal(weight_of(s), SHARE_WEIGHT_USUAL);
	snprintf(lines, sizeof(lines), "[share test]\nusers = %u\nweight = 300\nrate_mbps = 50\nrate_packets = 1000\n", (unsigned int)getuid());
	reload(lines);
	assert_int_equal(weight_of(s), 300);
	assert_int_equal(s->user->rates[0].bits, 50000000);
	assert_int_equal(s->user->rates[0].packets, 1000);
	snprintf(lines, sizeof(lines), "[share other]\nusers = %u\nweight = 7\n[share test]\nusers = *\nweight = 20\n", (unsigned int)getuid() + 1);
	reload(lines);
	assert_int_equal(weight_of(s), 20);
	reload("");
	assert_int_equal(weight_of(s), SHARE_WEIGHT_USUAL);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** A session whose request took long waits, one turn of the thread for each part of a turn; others don't. */
static void
a_session_whose_request_took_long_waits_for_as_many_turns(void **state)
{
	struct control *c = daemon_control();
	struct peer slow, other;
	struct session *s;
	uint64_t turns;

	peer_open(&slow);
	s = newest();
	peer_open(&other);
	control_lock(c);
	session_took(s, control_now_ns() - (TURNS + UINT64_C(1)) * CONTROL_SESSION_NS);
	assert_true(s->busy_ns >= (TURNS + UINT64_C(1)) * CONTROL_SESSION_NS);
	turns = s->busy_turn = c->turns;
	control_unlock(c);
	peer_pd(other.sock);
	peer_pd(slow.sock);
	control_lock(c);
	assert_true(c->turns - turns > TURNS);
	assert_int_equal(s->busy_ns, 0);
	/* One that took a part of a turn owes nothing. */
	session_took(s, control_now_ns() - CONTROL_SESSION_NS / 2);
	assert_int_equal(s->busy_ns, 0);
	control_unlock(c);
	peer_close(&slow);
	peer_close(&other);
	assert_true(daemon_wait_empty());
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reload_changes_the_shares_of_live_sessions),
		cmocka_unit_test(a_session_whose_request_took_long_waits_for_as_many_turns),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, NULL);
}
