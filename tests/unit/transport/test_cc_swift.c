/* SPDX-License-Identifier: BSD-3-Clause */
/* Swift, rule by rule: what round trips, losses and marks do to the window. test_cc_incast.c has many senders. */
#include <math.h>

#include "transport/cc/cc_priv.h"
#include "rig.h"

static struct cc
make(struct qp *qp)
{
	struct cc cc = { .ops = &cc_swift, .qp = qp, .line_bps = 40e9, .cwnd = TP_CWND_MAX };

	qp->path.mtu_shift = 10;
	cc.ops->init(&cc, 0);
	return cc;
}

static void
swift_grows_by_a_packet_per_round_trip(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);
	double before = cc.swift.cwnd;

	assert_int_equal(cc.cwnd, TP_CWND_MIN);
	cc.ops->rtt(&cc, 10 * PAIR_US, (uint32_t)before, PAIR_MS);
	assert_true(fabs(cc.swift.cwnd - before - 1) < 0.01);
	assert_int_equal(cc.cwnd, TP_CWND_MIN + 1);
}

static void
swift_shrinks_with_the_excess_once_per_round_trip(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);
	double before;

	cc.ops->rtt(&cc, 10 * PAIR_US, 1, PAIR_MS);
	before = cc.swift.cwnd;
	cc.ops->rtt(&cc, 40 * PAIR_US, 1, 2 * PAIR_MS);
	assert_true(cc.swift.cwnd < before && cc.swift.cwnd > before / 2);
	before = cc.swift.cwnd;
	cc.ops->rtt(&cc, 40 * PAIR_US, 1, 2 * PAIR_MS + PAIR_US);
	assert_true(cc.swift.cwnd == before);
	/* Never by more than half. */
	cc.ops->rtt(&cc, 10 * PAIR_MS, 1, 20 * PAIR_MS);
	assert_true(cc.swift.cwnd == before / 2);
}

static void
swift_lets_out_no_more_than_a_window(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);

	for (uint32_t i = 1; i <= 1000; i++)
		cc.ops->rtt(&cc, 1000, TP_CWND_MAX, i * PAIR_MS);
	assert_int_equal(cc.cwnd, TP_CWND_MAX);
}

static void
swift_window_below_a_packet_is_a_rate(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);
	uint64_t now = PAIR_MS;

	cc.ops->rtt(&cc, 10 * PAIR_US, 1, now);
	while (cc.swift.cwnd >= 1)
		cc.ops->rtt(&cc, 200 * PAIR_US, 1, now += PAIR_MS);
	assert_int_equal(cc.cwnd, 1);
	/* One packet of 1 KiB per srtt / cwnd. */
	assert_true(fabs(cc.rate_bps - cc.swift.cwnd * 8192e9 / (double)cc.swift.srtt_ns) < 1);
	cc.ops->rtt(&cc, 10 * PAIR_US, 1, now += PAIR_MS);
	assert_true(cc.swift.cwnd > 1 && cc.rate_bps == 0);
	/* A peer that is slow: a packet in so many of its round trips would wait for longer than the peer's timeout. */
	cc = make(&qp);
	for (unsigned int i = 0; cc.swift.cwnd > 0.01; i++)
		cc_swift.loss(&cc, true, (i + 1) * 1000000000);
	cc_swift.rtt(&cc, 12000000, 1, 1);
	cc_swift.loss(&cc, true, UINT64_C(1) << 40);
	assert_true(fabs(cc.rate_bps - 8192 / 0.004) < 1);
}

static void
swift_takes_longer_ways_for_longer(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);

	/* 100 us is no congestion where nothing is ever faster. */
	for (uint32_t i = 1; i < 50; i++)
		cc.ops->rtt(&cc, 100 * PAIR_US, cc.cwnd, i * PAIR_MS);
	assert_true(cc.swift.cwnd > TP_CWND_MIN + 40);
}

/*
 * @return the window after 50 round trips, none of which is shorter than @p rtt_ns, on a port of @p line_bps. @p marked_of_two: how many of two bring
 * a CNP.
 */
static double
window_on_path(uint64_t rtt_ns, double line_bps, uint32_t marked_of_two)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);

	cc.line_bps = line_bps;
	for (uint32_t i = 1; i <= 50; i++) {
		if (i % 2 < marked_of_two)
			cc.ops->cnp(&cc, i * PAIR_MS);
		cc.ops->rtt(&cc, rtt_ns, cc.cwnd, i * PAIR_MS);
	}
	return cc.swift.cwnd;
}

static void
swift_takes_a_marked_queue_for_no_path(void **state)
{
	assert_true(window_on_path(150 * PAIR_US, 100e9, 0) > TP_CWND_MIN + 40);
	/* The target is 25 us and what the window adds, which is 100 us where it is a tenth of a packet. */
	assert_true(window_on_path(150 * PAIR_US, 100e9, 2) < 0.1);
}

static void
swift_counts_marks_by_how_many_round_trips_have_them(void **state)
{
	double none = window_on_path(100 * PAIR_US, 100e9, 0), half = window_on_path(100 * PAIR_US, 100e9, 1);

	assert_true(half < none / 4 && half > 4 * window_on_path(100 * PAIR_US, 100e9, 2));
}

static void
swift_believes_paths_longer_than_any_queue(void **state)
{
	/* 2.5 MB take 200 us at 100 Gb/s, 2 ms at 10 Gb/s. */
	assert_true(window_on_path(201 * PAIR_US, 100e9, 2) == window_on_path(201 * PAIR_US, 100e9, 0));
	assert_true(window_on_path(199 * PAIR_US, 100e9, 2) < 0.1);
	assert_true(window_on_path(1999 * PAIR_US, 10e9, 2) < 0.1);
	assert_true(window_on_path(2001 * PAIR_US, 10e9, 2) == window_on_path(2001 * PAIR_US, 10e9, 0));
}

static void
swift_forgets_marks(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);
	double before;

	cc.line_bps = 100e9;
	for (uint32_t i = 1; i <= 20; i++) {
		cc.ops->cnp(&cc, i * PAIR_MS);
		cc.ops->rtt(&cc, 150 * PAIR_US, 1, i * PAIR_MS);
	}
	assert_true(cc.swift.marked > 0.99);
	/* A mark counts for as long as the next CNP may take. */
	cc.ops->rtt(&cc, 50 * PAIR_US, 1, 20 * PAIR_MS + 100 * PAIR_US);
	assert_true(cc.swift.marked > 0.99);
	for (uint32_t i = 21; i <= 30; i++)
		cc.ops->rtt(&cc, 50 * PAIR_US, 1, i * PAIR_MS);
	assert_true(cc.swift.marked < 0.01);
	before = cc.swift.cwnd;
	for (uint32_t i = 31; i <= 50; i++)
		cc.ops->rtt(&cc, 50 * PAIR_US, cc.cwnd, i * PAIR_MS);
	assert_true(cc.swift.cwnd > before + 15);
}

static void
swift_halves_on_loss_and_gives_up_after_timeouts(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&qp);
	double before = cc.swift.cwnd;

	cc.ops->loss(&cc, false, PAIR_MS);
	assert_true(cc.swift.cwnd == before / 2);
	for (uint32_t i = 2; i < 7; i++)
		cc.ops->loss(&cc, true, i * PAIR_MS);
	assert_true(cc.swift.cwnd == 0.01);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(swift_grows_by_a_packet_per_round_trip),
		cmocka_unit_test(swift_shrinks_with_the_excess_once_per_round_trip),
		cmocka_unit_test(swift_lets_out_no_more_than_a_window),
		cmocka_unit_test(swift_window_below_a_packet_is_a_rate),
		cmocka_unit_test(swift_takes_longer_ways_for_longer),
		cmocka_unit_test(swift_takes_a_marked_queue_for_no_path),
		cmocka_unit_test(swift_counts_marks_by_how_many_round_trips_have_them),
		cmocka_unit_test(swift_believes_paths_longer_than_any_queue),
		cmocka_unit_test(swift_forgets_marks),
		cmocka_unit_test(swift_halves_on_loss_and_gives_up_after_timeouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
