/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole way of an RDMA WRITE in one process: a program's rings and doorbell, its engine, a wire made of rings,
 * the peer's engine, the peer's memory, and the completion. Real transport, engines on threads of their own.
 */
#include "path.h"

static void
write_crosses_the_wire(void **state)
{
	struct program a, b;
	struct host h[2];

	host_up(&h[0], 1, 1);
	host_up(&h[1], 2, 1);
	program_up(&a, &h[0], 0);
	program_up(&b, &h[1], 0);
	program_connect(&a, &b, false);
	program_connect(&b, &a, false);
	writes_arrive(&a, &b);
	writes_arrive(&b, &a);
	/* All data of the longest and of the small ones; how many ACKs there are besides depends on how they coalesce. */
	assert_true(engine_stats(h[0].engines[0])->tx_packets >= MEM_BYTES / 4096 + 200);
	assert_int_equal(engine_stats(h[0].engines[0])->tx_stuck_dropped, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h[0]);
	host_end(&h[1]);
}

static void
write_to_the_same_engine_loops_back(void **state)
{
	struct program a, b;
	struct host h;

	host_up(&h, 1, 1);
	program_up(&a, &h, 0);
	program_up(&b, &h, 0);
	program_connect(&a, &b, true);
	program_connect(&b, &a, true);
	writes_arrive(&a, &b);
	assert_int_equal(engine_stats(h.engines[0])->tx_packets, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h);
}

static void
write_to_another_engine_is_handed_over(void **state)
{
	struct program a, b;
	struct host h;

	host_up(&h, 1, 2);
	program_up(&a, &h, 0);
	program_up(&b, &h, 1);
	program_connect(&a, &b, true);
	program_connect(&b, &a, true);
	writes_arrive(&a, &b);
	writes_arrive(&b, &a);
	assert_true(transport_counters(engine_transport(h.engines[0]))->rx_handoff > 0);
	assert_true(transport_counters(engine_transport(h.engines[1]))->rx_handoff > 0);
	program_down(&a);
	program_down(&b);
	host_end(&h);
}

static void
packets_received_by_the_wrong_engine_are_handed_over(void **state)
{
	struct program a, b;
	struct host h[2];

	host_up(&h[0], 1, 2);
	host_up(&h[1], 2, 2);
	program_up(&a, &h[0], 1);
	program_up(&b, &h[1], 1);
	program_connect(&a, &b, false);
	program_connect(&b, &a, false);
	writes_arrive(&a, &b);
	assert_true(transport_counters(engine_transport(h[1].engines[0]))->rx_handoff > MEM_BYTES / 4096);
	assert_int_equal(engine_stats(h[1].engines[1])->rx_packets, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h[0]);
	host_end(&h[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_crosses_the_wire),
		cmocka_unit_test(write_to_the_same_engine_loops_back),
		cmocka_unit_test(write_to_another_engine_is_handed_over),
		cmocka_unit_test(packets_received_by_the_wrong_engine_are_handed_over),
	};

	if (eal_up("test_engine_path") != 0)
		return 1;
	wires_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
