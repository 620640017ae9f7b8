/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a port: what engines and programs are told when the link or the device changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/port/track.h"

#define MS UINT64_C(1000000)
enum { T0 = 1000 };

static struct port_track
opened(bool needs_peer)
{
	struct port_track t;

	port_track_init(&t, needs_peer, false, T0);
	return t;
}

/** @return a port whose link has come up. */
static struct port_track
up_port(bool needs_peer)
{
	struct port_track t = opened(needs_peer);

	assert_int_equal(port_track_step(&t, 0, true, T0), PORT_SAY_UP);
	assert_int_equal(t.state, PORT_UP);
	return t;
}

static void
programs_are_told_once_per_change_of_the_link(void **state)
{
	struct port_track t = opened(false);

	assert_int_equal(port_track_step(&t, 0, false, T0), 0);
	assert_int_equal(port_track_step(&t, 0, true, T0), PORT_SAY_UP);
	assert_int_equal(port_track_step(&t, PORT_EV_LINK, true, T0), 0);
	assert_int_equal(port_track_step(&t, PORT_EV_LINK, false, T0), PORT_SAY_DOWN);
	assert_int_equal(port_track_step(&t, PORT_EV_LINK | PORT_EV_WENT_DOWN, false, T0), 0);
	assert_int_equal(t.downs, 1);
	assert_true(port_track_due(&t) == UINT64_MAX);
}

static void
a_link_that_was_down_between_two_looks_was_down(void **state)
{
	struct port_track t = up_port(false);

	assert_int_equal(port_track_step(&t, PORT_EV_LINK | PORT_EV_WENT_DOWN, true, T0), PORT_SAY_DOWN | PORT_SAY_UP);
	assert_int_equal(t.state, PORT_UP);
	assert_int_equal(t.downs, 1);
}

static void
a_reset_pauses_engines_restarts_and_resumes(void **state)
{
	struct port_track t = up_port(false);

	assert_int_equal(port_track_step(&t, PORT_EV_RESET, true, T0), PORT_DO_PAUSE | PORT_DO_RESTART | PORT_DO_RESET | PORT_SAY_DOWN);
	assert_int_equal(t.state, PORT_RESTARTING);
	/* The link says nothing while the device is being restarted. */
	assert_int_equal(port_track_step(&t, PORT_EV_LINK | PORT_EV_WENT_DOWN, true, T0), 0);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTARTED, false, T0), PORT_DO_RESUME);
	assert_int_equal(port_track_step(&t, PORT_EV_LINK, true, T0), PORT_SAY_UP);
	assert_int_equal(t.restarts, 1);
}

static void
a_reset_during_a_restart_restarts_once_more(void **state)
{
	struct port_track t = up_port(false);

	port_track_step(&t, PORT_EV_RESET, true, T0);
	assert_int_equal(port_track_step(&t, PORT_EV_RESET, true, T0), 0);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTARTED, true, T0), PORT_DO_RESTART | PORT_DO_RESET);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTARTED, true, T0), PORT_DO_RESUME | PORT_SAY_UP);
	assert_int_equal(t.restarts, 2);
}

static void
a_failed_restart_is_tried_again_with_the_reset(void **state)
{
	struct port_track t = up_port(false);
	uint64_t due = T0 + PORT_RETRY_MS * MS;

	port_track_step(&t, PORT_EV_RESET, true, T0);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTART_FAILED, true, T0), 0);
	assert_int_equal(t.state, PORT_WAITING);
	assert_true(port_track_due(&t) == due);
	assert_int_equal(port_track_step(&t, PORT_EV_LINK, true, due - 1), 0);
	assert_int_equal(port_track_step(&t, 0, true, due), PORT_DO_RESTART | PORT_DO_RESET);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTARTED, true, due), PORT_DO_RESUME | PORT_SAY_UP);
	assert_int_equal(t.restart_failures, 1);
	/* The next one needs no reset: none was asked for. */
	assert_false(t.reset);
}

static void
a_driver_that_recovers_by_itself_is_left_alone_meanwhile(void **state)
{
	struct port_track t = up_port(false);

	assert_int_equal(port_track_step(&t, PORT_EV_RECOVERING, true, T0), PORT_DO_PAUSE | PORT_SAY_DOWN);
	assert_int_equal(port_track_step(&t, PORT_EV_LINK, true, T0), 0);
	assert_int_equal(port_track_step(&t, PORT_EV_RECOVERED, true, T0), PORT_DO_RESUME | PORT_SAY_UP);
	/* Both between two looks. */
	assert_int_equal(port_track_step(&t, PORT_EV_RECOVERING | PORT_EV_RECOVERED, true, T0),
			 PORT_DO_PAUSE | PORT_DO_RESUME | PORT_SAY_DOWN | PORT_SAY_UP);
	assert_int_equal(t.state, PORT_UP);
}

static void
a_removed_device_is_closed_from_any_state(void **state)
{
	for (enum port_state s = PORT_DOWN; s < PORT_GONE; s++) {
		struct port_track t = opened(false);
		bool used = s == PORT_DOWN || s == PORT_UP;

		t.state = s;
		assert_int_equal(port_track_step(&t, PORT_EV_REMOVED | PORT_EV_RESTARTED, true, T0),
				 PORT_SAY_GONE | (used ? PORT_DO_PAUSE : 0) | (s == PORT_UP ? PORT_SAY_DOWN : 0));
		/* Nothing else happens before it is closed. */
		assert_int_equal(port_track_step(&t, PORT_EV_PRESENT | PORT_EV_LINK | PORT_EV_RESET | PORT_EV_REMOVED, true, T0 + 3600000 * MS), 0);
		assert_true(port_track_due(&t) == UINT64_MAX);
		assert_int_equal(t.state, PORT_GONE);
	}
}

static void
a_device_that_is_there_again_is_opened(void **state)
{
	const uint64_t again = PORT_RETRY_MS * MS, late = PORT_REOPEN_MS * MS;
	struct port_track t = up_port(false);
	uint64_t now = T0;

	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(port_track_step(&t, PORT_EV_REMOVED, true, now), PORT_DO_PAUSE | PORT_SAY_DOWN | PORT_SAY_GONE);
		assert_int_equal(port_track_step(&t, PORT_EV_CLOSED, false, now), 0);
		assert_true(port_track_due(&t) == now + again);
		/* It isn't there. */
		now += again;
		assert_int_equal(port_track_step(&t, 0, false, now), 0);
		/* It is there before it is looked for. */
		assert_int_equal(port_track_step(&t, PORT_EV_PRESENT, false, now + 1), 0);
		now += again;
		assert_int_equal(port_track_step(&t, PORT_EV_PRESENT, false, now), PORT_DO_REOPEN);
		assert_int_equal(port_track_step(&t, PORT_EV_PRESENT, false, now + 1000 * again), 0);
		/* There, but it doesn't open: that is not tried as often. */
		assert_int_equal(port_track_step(&t, PORT_EV_REOPEN_FAILED, false, now), 0);
		assert_true(port_track_due(&t) == now + late);
		now += late;
		assert_int_equal(port_track_step(&t, PORT_EV_PRESENT, false, now), PORT_DO_REOPEN);
		assert_int_equal(port_track_step(&t, PORT_EV_REOPENED, false, now), PORT_SAY_BACK | PORT_DO_RESUME);
		assert_int_equal(t.state, PORT_DOWN);
		assert_int_equal(t.returns, i);
		assert_int_equal(port_track_step(&t, 0, true, now), PORT_SAY_UP);
	}
}

static void
a_port_may_begin_without_a_device(void **state)
{
	struct port_track t;

	port_track_init(&t, false, true, T0);
	assert_int_equal(t.state, PORT_GONE);
	assert_int_equal(port_track_step(&t, PORT_EV_PRESENT, false, T0), 0);
	assert_int_equal(port_track_step(&t, PORT_EV_PRESENT, false, port_track_due(&t)), PORT_DO_REOPEN);
	assert_int_equal(port_track_step(&t, PORT_EV_REOPENED, true, T0 + 3600000 * MS), PORT_SAY_BACK | PORT_DO_RESUME | PORT_SAY_UP);
}

static void
a_client_that_lost_its_server_starts_again_until_it_is_back(void **state)
{
	struct port_track t = up_port(true);
	uint64_t due = T0 + PORT_RETRY_MS * MS;

	assert_int_equal(port_track_step(&t, PORT_EV_LINK, false, T0), PORT_DO_PAUSE | PORT_DO_RESTART | PORT_SAY_DOWN);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTART_FAILED, false, T0), 0);
	assert_int_equal(port_track_step(&t, 0, false, due), PORT_DO_RESTART);
	/* It found somebody at the socket, who does nothing more. */
	assert_int_equal(port_track_step(&t, PORT_EV_RESTARTED, false, due), PORT_DO_RESUME);
	assert_true(port_track_due(&t) == due + PORT_CONNECT_MS * MS);
	assert_int_equal(port_track_step(&t, 0, false, due + PORT_CONNECT_MS * MS), PORT_DO_PAUSE | PORT_DO_RESTART);
	assert_int_equal(port_track_step(&t, PORT_EV_RESTARTED, true, due), PORT_DO_RESUME | PORT_SAY_UP);
}

static void
each_state_has_a_name(void **state)
{
	assert_string_equal(port_state_name(PORT_DOWN), "down");
	assert_string_equal(port_state_name(PORT_UP), "up");
	assert_string_equal(port_state_name(PORT_GONE), "removed");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_are_told_once_per_change_of_the_link),
		cmocka_unit_test(a_link_that_was_down_between_two_looks_was_down),
		cmocka_unit_test(a_reset_pauses_engines_restarts_and_resumes),
		cmocka_unit_test(a_reset_during_a_restart_restarts_once_more),
		cmocka_unit_test(a_failed_restart_is_tried_again_with_the_reset),
		cmocka_unit_test(a_driver_that_recovers_by_itself_is_left_alone_meanwhile),
		cmocka_unit_test(a_removed_device_is_closed_from_any_state),
		cmocka_unit_test(a_device_that_is_there_again_is_opened),
		cmocka_unit_test(a_port_may_begin_without_a_device),
		cmocka_unit_test(a_client_that_lost_its_server_starts_again_until_it_is_back),
		cmocka_unit_test(each_state_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
