/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules for round trips and windows in figures, on a QP that nothing else touches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/cc/cc_priv.h"
#include "transport/cc/cwnd_priv.h"
#include "transport/core/types_priv.h"

enum { US = 1000, MS = 1000 * US };
enum { UNA = 0xffffe0, MAX = 0x000010, FAR = 100000 };

static struct transport tp;
static struct qp qp;

/* What an algorithm of congestion control was told. */
static struct {
	unsigned int rtts, losses;
	uint64_t rtt_ns, now_ns;
	uint32_t acked;
	bool timeout;
} told;

static void
told_rtt(struct cc *cc, uint64_t rtt_ns, uint32_t acked, uint64_t now_ns)
{
	told.rtts++;
	told.rtt_ns = rtt_ns;
	told.acked = acked;
	told.now_ns = now_ns;
	cc->cwnd = 7;
}

static void
told_loss(struct cc *cc, bool timeout, uint64_t now_ns)
{
	told.losses++;
	told.timeout = timeout;
	told.now_ns = now_ns;
	cc->cwnd--;
}

static const struct cc_ops listener = { .name = "listener", .rtt = told_rtt, .loss = told_loss };
static struct cc cc;

/* A QP in the middle of its life: a window of PSNs that wraps, nothing measured, nothing lost for long. */
static int
begin(void **state)
{
	memset(&told, 0, sizeof(told));
	memset(&qp, 0, sizeof(qp));
	memset(&tp, 0, sizeof(tp));
	tp.c.limits.cwnd = TP_CWND_MAX;
	tp.now_ns = 5 * (uint64_t)TP_RTT_MIN_NS;
	cc = (struct cc){ .ops = &listener, .cwnd = TP_CWND_MAX };
	qp.tp = &tp;
	qp.req.psn_una = UNA;
	qp.req.psn_max = MAX;
	qp.loss.loss_cwnd = qp.loss.cwnd = TP_CWND_START;
	qp.loss.psn_recover = qp.loss.rtt_una = UNA;
	qp.loss.ackreq_mask = TP_ACKREQ_PACKETS - 1;
	return 0;
}

static void
measure(uint64_t rtt)
{
	qp.loss.rtt_sent_ns = tp.now_ns - rtt;
	rtt_measured(&tp, &qp);
}

/* ---- Round trips ---- */
static void
three_round_trips(void **state)
{
	measure(80 * US);
	assert_int_equal(qp.loss.srtt_ns, 80 * US);
	assert_int_equal(qp.loss.rttvar_ns, 40 * US);
	assert_int_equal(qp.loss.pto_ns, 320 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 80 * US);
	measure(160 * US);
	assert_int_equal(qp.loss.rttvar_ns, 50 * US);
	assert_int_equal(qp.loss.srtt_ns, 90 * US);
	assert_int_equal(qp.loss.pto_ns, 380 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 80 * US);
	/* A shorter one is as far off as a longer one. */
	measure(10 * US);
	assert_int_equal(qp.loss.rttvar_ns, 57500);
	assert_int_equal(qp.loss.srtt_ns, 80 * US);
	assert_int_equal(qp.loss.pto_ns, 390 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 10 * US);
}

static void
probes_are_neither_too_early_nor_too_late(void **state)
{
	measure(1);
	assert_int_equal(qp.loss.pto_ns, TP_PROBE_MIN_NS);
	begin(NULL);
	measure(4 * (uint64_t)TP_RTT_MAX_NS);
	assert_int_equal(qp.loss.srtt_ns, TP_RTT_MAX_NS);
	assert_int_equal(qp.loss.rttvar_ns, TP_RTT_MAX_NS / 2);
	assert_int_equal(qp.loss.pto_ns, 4 * (uint64_t)TP_RTT_MAX_NS);
}

/* Two periods: what was shortest in the last whole one counts until the next has ended. */
static void
the_shortest_round_trip_is_forgotten_after_its_period_and_the_next(void **state)
{
	measure(10 * US);
	tp.now_ns += TP_RTT_MIN_NS - 1;
	measure(30 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 10 * US);
	tp.now_ns += 1;
	measure(40 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 10 * US);
	measure(50 * US);
	tp.now_ns += TP_RTT_MIN_NS - 1;
	measure(60 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 10 * US);
	tp.now_ns += 1;
	measure(70 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 40 * US);
	tp.now_ns += TP_RTT_MIN_NS;
	measure(90 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 70 * US);
	/* The shortest of a period needn't be its first. */
	measure(80 * US);
	measure(85 * US);
	tp.now_ns += TP_RTT_MIN_NS;
	measure(90 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 80 * US);
	/* A shorter one counts at once. */
	measure(5 * US);
	assert_int_equal(qp.loss.rtt_min_ns, 5 * US);
}

static void
an_answer_ends_what_was_tried_without(void **state)
{
	qp.loss.pto_shift = 3;
	qp.loss.probe = TP_PROBE_SENT;
	qp.loss.rtt_timing = true;
	qp.req.psn_una = 0x000004;
	measure(20 * US);
	assert_int_equal(qp.loss.pto_shift, 0);
	assert_int_equal(qp.loss.probe, TP_PROBE_NONE);
	assert_false(qp.loss.rtt_timing);
	assert_int_equal(qp.loss.rtt_una, 0x000004);
	assert_int_equal(qp.loss.rtt_next_ns, tp.now_ns + TP_RTT_EVERY_NS);
}

/* It hears of each, without a pause between, and its window is the QP's at once. */
static void
congestion_control_hears_of_round_trips(void **state)
{
	qp.req.cc = &cc;
	qp.req.psn_una = 0x000004;
	measure(20 * US);
	assert_int_equal(told.rtts, 1);
	assert_int_equal(told.rtt_ns, 20 * US);
	assert_int_equal(told.acked, 0x24);
	assert_int_equal(told.now_ns, tp.now_ns);
	assert_int_equal(qp.loss.rtt_next_ns, tp.now_ns);
	assert_int_equal(qp.loss.cwnd, 7);
	qp.req.psn_una = 0x000005;
	measure(20 * US);
	assert_int_equal(told.acked, 1);
}

static void
one_packet_in_flight_is_timed(void **state)
{
	qp.req.psn_cur = MAX;
	qp.loss.rtt_next_ns = tp.now_ns + 1;
	rtt_start(&tp, &qp);
	assert_false(qp.loss.rtt_timing);
	qp.loss.rtt_next_ns = tp.now_ns;
	/* It was sent before. */
	qp.req.psn_cur = MAX - 1;
	rtt_start(&tp, &qp);
	assert_false(qp.loss.rtt_timing);
	qp.req.psn_cur = MAX;
	rtt_start(&tp, &qp);
	assert_true(qp.loss.rtt_timing);
	assert_int_equal(qp.loss.rtt_psn, MAX);
	assert_int_equal(qp.loss.rtt_sent_ns, tp.now_ns);
	assert_true(qp.loss.rtt_next_ns == UINT64_MAX);
	rtt_untime(&qp);
	assert_false(qp.loss.rtt_timing);
	assert_int_equal(qp.loss.rtt_next_ns, 0);
}

/* ---- The window ---- */
static void
the_smallest_limit_is_the_window(void **state)
{
	cwnd_update(&qp);
	assert_int_equal(qp.loss.cwnd, TP_CWND_START);
	qp.req.cc = &cc;
	cc.cwnd = TP_CWND_START - 1;
	cwnd_update(&qp);
	assert_int_equal(qp.loss.cwnd, TP_CWND_START - 1);
	tp.c.limits.cwnd = 3;
	cwnd_update(&qp);
	assert_int_equal(qp.loss.cwnd, 3);
	/* What a SACK has reported takes no room on the path, but a place among those that are kept. */
	qp.loss.not_in_flight = 5;
	cwnd_update(&qp);
	assert_int_equal(qp.loss.cwnd, 8);
	qp.loss.not_in_flight = TP_CWND_MAX - 2;
	cwnd_update(&qp);
	assert_int_equal(qp.loss.cwnd, TP_CWND_MAX);
}

static void
it_grows_by_a_step_a_window(void **state)
{
	unsigned int n = 0;

	for (; qp.loss.loss_cwnd < TP_CWND_MAX; n++) {
		uint16_t was = qp.loss.loss_cwnd;

		cwnd_grow(&qp);
		assert_int_equal(qp.loss.loss_cwnd, was + TP_CWND_STEP);
		assert_int_equal(qp.loss.cwnd, qp.loss.loss_cwnd);
		assert_int_equal(qp.loss.psn_grow, (UNA + qp.loss.cwnd) & WIRE_PSN_MASK);
	}
	assert_int_equal(n, (TP_CWND_MAX - TP_CWND_START) / TP_CWND_STEP);
	cwnd_grow(&qp);
	assert_int_equal(qp.loss.loss_cwnd, TP_CWND_MAX);
	qp.loss.loss_cwnd = TP_CWND_MAX - 1;
	cwnd_grow(&qp);
	assert_int_equal(qp.loss.loss_cwnd, TP_CWND_MAX);
	assert_int_equal(qp.loss.ackreq_mask, TP_ACKREQ_PACKETS - 1);
	assert_int_equal(qp.loss.lossy, 0);
}

/* After a loss only as long as round trips are short: without a queue for go-back-N, with one as long as the path for selective repeat. */
static void
on_a_lossy_path_it_grows_as_long_as_nothing_queues(void **state)
{
	static const struct { bool sack; uint32_t srtt_us; uint32_t ago; bool grows; } cases[] = {
		{ false, 100, 10, true },  { false, 124, 10, true },  { false, 125, 10, false }, { false, 199, 10, false },
		{ true, 125, 10, true },   { true, 199, 10, true },   { true, 200, 10, false },  { false, 50, 10, true },
		{ false, 100, 64, true },  { false, 100, 65, false }, { true, 100, 65, false },  { false, 0, 10, true }, /* nothing was measured */
	};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		begin(NULL);
		qp.loss.lossy = 2;
		qp.loss.ackreq_mask = TP_ACKREQ_LOSSY - 1;
		qp.req.sack_peer = cases[i].sack;
		qp.loss.rtt_min_ns = cases[i].srtt_us != 0 ? 100 * US : 0;
		qp.loss.srtt_ns = cases[i].srtt_us * US;
		qp.loss.rtt_una = (UNA - cases[i].ago) & WIRE_PSN_MASK;
		cwnd_grow(&qp);
		assert_int_equal(qp.loss.loss_cwnd, TP_CWND_START + (cases[i].grows ? TP_CWND_STEP : 0));
		assert_int_equal(qp.loss.lossy, 1);
		assert_int_equal(qp.loss.ackreq_mask, TP_ACKREQ_LOSSY - 1);
		cwnd_grow(&qp);
		assert_int_equal(qp.loss.lossy, 0);
		assert_int_equal(qp.loss.ackreq_mask, TP_ACKREQ_PACKETS - 1);
	}
}

static void
what_has_been_recovered_stays_close_behind(void **state)
{
	qp.loss.psn_recover = MAX;
	cwnd_grow(&qp);
	assert_int_equal(qp.loss.psn_recover, MAX);
	qp.loss.psn_recover = (UNA - FAR) & WIRE_PSN_MASK;
	cwnd_grow(&qp);
	assert_int_equal(qp.loss.psn_recover, UNA);
}

/* ---- Losses ---- */
/* A window on a path whose shortest round trip takes 100 us. */
static void
begin_on_path(uint16_t cwnd, uint32_t srtt_us)
{
	begin(NULL);
	qp.loss.loss_cwnd = cwnd;
	qp.loss.rtt_min_ns = 100 * US;
	qp.loss.srtt_ns = srtt_us * US;
}

static void
shrunk_to(uint16_t cwnd)
{
	assert_int_equal(qp.loss.loss_cwnd, cwnd);
	assert_int_equal(qp.loss.cwnd, cwnd);
	assert_int_equal(qp.loss.lossy, TP_CWND_CALM);
	assert_int_equal(qp.loss.ackreq_mask, TP_ACKREQ_LOSSY - 1);
	assert_int_equal(qp.loss.psn_recover, MAX);
	assert_int_equal(qp.loss.psn_grow, MAX);
}

/* To a little more than what the path holds, judged by round trips, but at most by half; and no further below the least window. */
static void
lost_it_is_not_known_what(void **state)
{
	static const struct { uint16_t cwnd; uint32_t srtt_us; bool timeout; uint16_t want; } cases[] = {
		/* Without a queue, nothing says that the window is too large. */
		{ 64, 100, false, 64 },
		/* Round trips of 1.25, 1.5 and 1.75 of the shortest: 4/5, 4/6 and 4/7 of the window, and a quarter more. */
		{ 200, 125, false, 200 },
		{ 200, 150, false, 166 },
		{ 200, 175, false, 142 },
		/* Half of the window. */
		{ 200, 400, false, 100 },
		{ 20, 400, false, TP_CWND_MIN },
		{ 200, 100, true, TP_CWND_MIN },
	};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		begin_on_path(cases[i].cwnd, cases[i].srtt_us);
		cwnd_loss(&tp, &qp, cases[i].timeout);
		shrunk_to(cases[i].want);
		assert_int_equal(qp.diag.losses, 1);
	}
	/* Nothing was measured. */
	begin(NULL);
	qp.loss.loss_cwnd = 200;
	cwnd_loss(&tp, &qp, false);
	assert_int_equal(qp.loss.loss_cwnd, 200);
}

/* Of packets that were in flight together: the window shrinks once, unless the ACK timeout expires. */
static void
lost_once_more_in_the_same_window(void **state)
{
	begin_on_path(200, 400);
	qp.req.cc = &cc;
	cwnd_loss(&tp, &qp, false);
	assert_int_equal(told.losses, 1);
	assert_false(told.timeout);
	assert_int_equal(told.now_ns, tp.now_ns);
	assert_int_equal(qp.loss.cwnd, 100);
	qp.req.psn_una = MAX - 1;
	cwnd_loss(&tp, &qp, false);
	assert_int_equal(told.losses, 1);
	assert_int_equal(qp.loss.loss_cwnd, 100);
	assert_int_equal(qp.diag.losses, 2);
	cwnd_loss(&tp, &qp, true);
	assert_int_equal(told.losses, 2);
	assert_true(told.timeout);
	assert_int_equal(qp.loss.loss_cwnd, TP_CWND_MIN);
	/* All of them were acknowledged. */
	qp.loss.loss_cwnd = 100;
	qp.req.psn_una = MAX;
	cwnd_loss(&tp, &qp, false);
	assert_int_equal(told.losses, 3);
	assert_int_equal(qp.loss.loss_cwnd, 50);
}

static void
lost_it_is_known_what(void **state)
{
	static const struct { uint16_t cwnd; uint32_t srtt_us, n; uint16_t want; } cases[] = {
		{ 64, 100, 1, 62 },
		{ 64, 100, 10, 44 },
		{ 64, 100, 24, TP_CWND_MIN },
		{ 64, 100, 25, TP_CWND_MIN },
		{ 64, 100, 200, TP_CWND_MIN },
		/* At most twice what the path holds. */
		{ 200, 150, 1, 198 },
		{ 200, 300, 1, 130 },
		{ 200, 400, 3, 94 },
	};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		begin_on_path(cases[i].cwnd, cases[i].srtt_us);
		cwnd_lost(&tp, &qp, cases[i].n);
		shrunk_to(cases[i].want);
	}
}

/* Each costs its own retransmission; congestion control hears of the first. */
static void
known_losses_of_a_window_are_one_for_congestion_control(void **state)
{
	qp.req.cc = &cc;
	cwnd_lost(&tp, &qp, 1);
	assert_int_equal(told.losses, 1);
	assert_false(told.timeout);
	assert_int_equal(told.now_ns, tp.now_ns);
	qp.req.psn_una = MAX - 1;
	cwnd_lost(&tp, &qp, 1);
	assert_int_equal(told.losses, 1);
	assert_int_equal(qp.loss.loss_cwnd, TP_CWND_START - 4);
	qp.req.psn_una = MAX;
	cwnd_lost(&tp, &qp, 1);
	assert_int_equal(told.losses, 2);
}

/* ---- Connections and paths ---- */
/* A QP that has seen all that can happen to it. */
static void
grow_old(void)
{
	qp.loss.rtt_timing = true;
	qp.loss.rtt_next_ns = UINT64_MAX;
	qp.loss.lossy = 5;
	qp.loss.ackreq_mask = TP_ACKREQ_LOSSY - 1;
	qp.loss.pto_ns = qp.loss.rtt_min_ns = qp.loss.srtt_ns = 30 * US;
	qp.loss.pto_shift = 4;
	qp.loss.probe = TP_PROBE_ANSWERED;
	qp.loss.probes = 3;
	qp.loss.loss_cwnd = 200;
	qp.loss.psn_recover = qp.loss.rtt_una = 0x123456;
	qp.req.sack_peer = true;
	qp.req.sack_offers = 0;
}

static void
path_is_new(void)
{
	assert_false(qp.loss.rtt_timing);
	assert_int_equal(qp.loss.rtt_next_ns, 0);
	assert_int_equal(qp.loss.lossy, 0);
	assert_int_equal(qp.loss.ackreq_mask, TP_ACKREQ_PACKETS - 1);
	assert_int_equal(qp.loss.pto_ns, 0);
	assert_int_equal(qp.loss.rtt_min_ns, 0);
	assert_int_equal(qp.loss.srtt_ns, 0);
	assert_int_equal(qp.loss.pto_shift, 0);
	assert_int_equal(qp.loss.probe, TP_PROBE_NONE);
	assert_int_equal(qp.loss.probes, 0);
}

static void
a_new_path_is_not_the_old_one(void **state)
{
	grow_old();
	cwnd_new_path(&qp);
	path_is_new();
	assert_int_equal(qp.loss.cwnd, 200);
	assert_true(qp.req.sack_peer);
}

static void
a_connection_begins(void **state)
{
	grow_old();
	cwnd_start(&qp);
	path_is_new();
	assert_int_equal(qp.loss.loss_cwnd, TP_CWND_START);
	assert_int_equal(qp.loss.cwnd, TP_CWND_START);
	assert_int_equal(qp.loss.rtt_una, UNA);
	assert_int_equal(qp.loss.psn_recover, UNA);
	assert_int_equal(qp.loss.psn_grow, (UNA + TP_CWND_START) & WIRE_PSN_MASK);
	assert_false(qp.req.sack_peer);
	assert_int_equal(qp.req.sack_offers, TP_SACK_OFFERS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(three_round_trips, begin),
		cmocka_unit_test_setup(probes_are_neither_too_early_nor_too_late, begin),
		cmocka_unit_test_setup(the_shortest_round_trip_is_forgotten_after_its_period_and_the_next, begin),
		cmocka_unit_test_setup(an_answer_ends_what_was_tried_without, begin),
		cmocka_unit_test_setup(congestion_control_hears_of_round_trips, begin),
		cmocka_unit_test_setup(one_packet_in_flight_is_timed, begin),
		cmocka_unit_test_setup(the_smallest_limit_is_the_window, begin),
		cmocka_unit_test_setup(it_grows_by_a_step_a_window, begin),
		cmocka_unit_test_setup(on_a_lossy_path_it_grows_as_long_as_nothing_queues, begin),
		cmocka_unit_test_setup(what_has_been_recovered_stays_close_behind, begin),
		cmocka_unit_test_setup(lost_it_is_not_known_what, begin),
		cmocka_unit_test_setup(lost_once_more_in_the_same_window, begin),
		cmocka_unit_test_setup(lost_it_is_known_what, begin),
		cmocka_unit_test_setup(known_losses_of_a_window_are_one_for_congestion_control, begin),
		cmocka_unit_test_setup(a_new_path_is_not_the_old_one, begin),
		cmocka_unit_test_setup(a_connection_begins, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
