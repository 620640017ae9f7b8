/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/rsocket/rs_flow.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rsocket/rs_flow.h"

enum { QUEUE = 16, RING = 8192, SENDS = 12 };

/** Two ends, as wide apart as a sequence number and a counter may be from zero. */
struct pair {
	struct rs_tx tx;
	struct rs_rx rx;
	uint32_t slots[QUEUE + 1];
};

static const struct rs_sge first = { 0x1000, 7, RING / 2 };

static void
pair_init(struct pair *p, uint32_t start)
{
	*p = (struct pair){ 0 };
	p->tx.max_wr = SENDS;
	p->tx.ring_bytes = RING;
	p->tx.posted = p->tx.signaled = p->tx.posted_bytes = p->tx.signaled_bytes = start;
	p->tx.done = p->tx.done_bytes = start;
	p->tx.seq = (uint16_t)start;
	p->tx.nb_taken = p->tx.nb_given = start;
	p->rx.ring_bytes = RING;
	p->rx.queue = QUEUE;
	p->rx.nb_slots = QUEUE + 1;
	p->rx.slots = p->slots;
	p->rx.seq = p->rx.granted_seq = (uint16_t)start;
	p->rx.read_bytes = p->rx.arrived_bytes = start;
	p->rx.granted_bytes = start + RING / 2;
	p->rx.grant_at = RING / 2;
	rs_tx_limit(&p->tx, start + QUEUE);
	assert_int_equal(rs_tx_give(&p->tx, &first), 0);
}

static uint64_t
send_data(struct rs_tx *tx, uint32_t bytes)
{
	bool signal;

	assert_true(rs_tx_ready(tx));
	assert_int_equal(rs_tx_fit(tx, bytes), bytes);
	rs_tx_use_chunk(tx, bytes);
	return rs_tx_post(tx, bytes, &signal);
}

/** The reader reads all that is there. */
static void
read_all(struct rs_rx *rx)
{
	while (rs_rx_has_data(rx)) {
		rs_rx_read(rx, rx->slots[rx->head]);
		rs_rx_pop(rx);
	}
}

static void
nothing_is_sent_without_a_chunk(void **state)
{
	struct pair p;
	uint64_t id;

	pair_init(&p, 0);
	id = send_data(&p.tx, RING / 2);
	rs_tx_done(&p.tx, id);
	assert_false(rs_tx_ready(&p.tx));
	assert_int_equal(rs_tx_give(&p.tx, &(struct rs_sge){ 0x9000, 8, 100 }), 0);
	assert_true(rs_tx_ready(&p.tx));
	assert_int_equal(p.tx.chunk.addr, 0x9000);
	assert_int_equal(rs_tx_fit(&p.tx, 5000), 100);
}

static void
a_chunk_is_filled_front_to_back(void **state)
{
	struct pair p;

	pair_init(&p, 0);
	send_data(&p.tx, 100);
	assert_int_equal(p.tx.chunk.addr, first.addr + 100);
	assert_int_equal(p.tx.chunk.length, first.length - 100);
	assert_int_equal(p.tx.chunk.key, first.key);
}

static void
more_chunks_than_there_are_places_are_a_lie(void **state)
{
	struct pair p;

	pair_init(&p, UINT32_MAX);
	assert_int_equal(rs_tx_give(&p.tx, &first), 0);
	assert_int_equal(rs_tx_give(&p.tx, &first), EPROTO);
	assert_true(rs_tx_ready(&p.tx));
	assert_int_equal(rs_tx_give(&p.tx, &first), 0);
	assert_int_equal(rs_tx_give(&p.tx, &first), EPROTO);
}

static void
an_empty_chunk_is_passed(void **state)
{
	struct pair p;

	pair_init(&p, 0);
	p.tx.given[0].length = 0;
	assert_false(rs_tx_ready(&p.tx));
	assert_int_equal(rs_tx_give(&p.tx, &first), 0);
	assert_true(rs_tx_ready(&p.tx));
}

static void
messages_end_where_the_peer_says(void **state)
{
	struct pair p;
	uint64_t id;

	for (uint32_t start = 65520; start < 65540; start++) {
		pair_init(&p, start);
		p.tx.few = QUEUE / 4;
		for (int i = 0; i < QUEUE; i++) {
			assert_int_equal(rs_tx_is_short(&p.tx), QUEUE - i < QUEUE / 4);
			id = send_data(&p.tx, 1);
			rs_tx_done(&p.tx, id);
		}
		assert_false(rs_tx_ready(&p.tx));
		rs_tx_limit(&p.tx, start + QUEUE + 1);
		assert_true(rs_tx_ready(&p.tx));
	}
}

static void
work_requests_end_with_the_queue_and_come_back(void **state)
{
	struct pair p;
	uint64_t id = 0, half = 0;

	for (uint32_t start = UINT32_MAX - 20; start != 20; start++) {
		pair_init(&p, start);
		for (int i = 0; i < SENDS; i++) {
			id = send_data(&p.tx, 10);
			if (i == SENDS / 2 - 1)
				half = id;
		}
		assert_false(rs_tx_ready(&p.tx));
		/* One completion speaks for all before it. */
		rs_tx_done(&p.tx, half);
		assert_true(rs_tx_ready(&p.tx));
		assert_int_equal(p.tx.posted - p.tx.done, SENDS / 2);
		rs_tx_done(&p.tx, id);
		assert_int_equal(p.tx.posted, p.tx.done);
		assert_int_equal(rs_tx_free_bytes(&p.tx), RING);
	}
}

static void
a_count_of_24_bits_is_enough(void **state)
{
	struct pair p;
	uint64_t id;

	pair_init(&p, RS_WR_COUNT_MASK - 1);
	for (int i = 0; i < 5; i++)
		id = send_data(&p.tx, 1);
	rs_tx_done(&p.tx, id);
	assert_int_equal(p.tx.done, RS_WR_COUNT_MASK - 1u + 5);
}

static void
the_send_buffer_is_a_ring(void **state)
{
	struct pair p;
	uint64_t id;

	pair_init(&p, 0);
	p.tx.given[0].length = 1 << 20;
	id = send_data(&p.tx, RING - RS_SEND_LOW_BYTES + 1);
	assert_false(rs_tx_ready(&p.tx));
	rs_tx_done(&p.tx, id);
	send_data(&p.tx, RS_SEND_LOW_BYTES);
	assert_int_equal(p.tx.at, 1);
}

static void
what_is_under_way_without_a_completion_never_blocks_the_rest(void **state)
{
	static const uint32_t sizes[] = { 1, 64, 100, 2000, 2048, 4096 };
	uint64_t last_signaled;
	struct pair p;
	bool signal;

	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		pair_init(&p, 0);
		rs_tx_limit(&p.tx, 0xffff);
		p.tx.given[0].length = UINT32_MAX;
		last_signaled = 0;
		while (rs_tx_ready(&p.tx)) {
			uint32_t n = rs_tx_fit(&p.tx, sizes[k]);
			uint64_t id;

			rs_tx_use_chunk(&p.tx, n);
			id = rs_tx_post(&p.tx, n, &signal);
			if (signal)
				last_signaled = id;
		}
		assert_true(last_signaled != 0);
		rs_tx_done(&p.tx, last_signaled);
		assert_true(rs_tx_ready(&p.tx));
	}
}

static void
the_second_half_is_granted_at_once(void **state)
{
	struct pair p;
	int64_t half;

	pair_init(&p, 3);
	assert_true(rs_rx_grant_due(&p.rx));
	assert_int_equal(rs_rx_grant(&p.rx, &half), 3 + QUEUE);
	assert_int_equal(half, RING / 2);
	assert_false(rs_rx_grant_due(&p.rx));
}

static void
a_half_is_granted_when_a_half_was_read(void **state)
{
	struct pair p;
	int64_t half;

	pair_init(&p, 0);
	rs_rx_grant(&p.rx, &half);
	assert_int_equal(rs_rx_arrived(&p.rx, RING / 2), 0);
	assert_false(rs_rx_grant_due(&p.rx));
	rs_rx_read(&p.rx, RING / 2 - 1);
	assert_false(rs_rx_grant_due(&p.rx));
	rs_rx_read(&p.rx, 1);
	rs_rx_pop(&p.rx);
	assert_true(rs_rx_grant_due(&p.rx));
	assert_int_equal(rs_rx_grant(&p.rx, &half), 1 + QUEUE);
	assert_int_equal(half, 0);
}

static void
messages_are_granted_when_half_of_them_were_read(void **state)
{
	struct pair p;
	int64_t half;

	for (uint32_t start = 65530; start < 65540; start++) {
		pair_init(&p, start);
		rs_rx_grant(&p.rx, &half);
		for (int i = 0; i < QUEUE / 2; i++) {
			assert_false(rs_rx_grant_due(&p.rx));
			assert_int_equal(rs_rx_arrived(&p.rx, 1), 0);
			read_all(&p.rx);
		}
		assert_true(rs_rx_grant_due(&p.rx));
		assert_int_equal(rs_rx_grant(&p.rx, &half), (uint16_t)(start + QUEUE / 2 + QUEUE));
		assert_int_equal(half, -1);
	}
}

static void
more_messages_than_granted_are_a_lie(void **state)
{
	struct pair p;

	pair_init(&p, 0);
	for (int i = 0; i < QUEUE; i++)
		assert_int_equal(rs_rx_arrived(&p.rx, 1), 0);
	assert_int_equal(rs_rx_arrived(&p.rx, 1), EPROTO);
}

static void
more_bytes_than_granted_are_a_lie(void **state)
{
	struct pair p;
	int64_t half;

	pair_init(&p, UINT32_MAX - 100);
	assert_int_equal(rs_rx_arrived(&p.rx, RING / 2 + 1), EPROTO);
	assert_int_equal(rs_rx_arrived(&p.rx, RS_MSG_DATA_MASK), EPROTO);
	assert_int_equal(rs_rx_arrived(&p.rx, RING / 2), 0);
	assert_int_equal(rs_rx_arrived(&p.rx, 1), EPROTO);
	rs_rx_grant(&p.rx, &half);
	assert_int_equal(rs_rx_arrived(&p.rx, RING / 2), 0);
	assert_int_equal(rs_rx_arrived(&p.rx, 1), EPROTO);
}

/* Both ends against each other: the sender never does what the receiver calls a lie, and all gets through. */
static void
ends_that_keep_the_rules_get_along(void **state)
{
	uint32_t sent = 0, total = 1 << 20, read_at = 0;
	struct rs_sge chunk;
	uint64_t id = 0;
	struct pair p;
	int64_t half;
	bool signal;

	srand(1);
	pair_init(&p, UINT32_MAX - (total / 2));
	while (p.rx.read_bytes - (UINT32_MAX - total / 2) < total) {
		if (rs_tx_ready(&p.tx) && sent < total && rand() % 3) {
			uint32_t want = 1 + (uint32_t)rand() % 3000, n;

			n = rs_tx_fit(&p.tx, want < total - sent ? want : total - sent);
			assert_int_equal((p.tx.chunk.addr - first.addr) % RING, read_at % RING);
			rs_tx_use_chunk(&p.tx, n);
			id = rs_tx_post(&p.tx, n, &signal);
			assert_int_equal(rs_rx_arrived(&p.rx, n), 0);
			sent += n;
			read_at += n;
		}
		if (rand() % 4 == 0)
			rs_tx_done(&p.tx, id);
		if (rand() % 4 == 0)
			read_all(&p.rx);
		if (rs_rx_grant_due(&p.rx)) {
			rs_tx_limit(&p.tx, rs_rx_grant(&p.rx, &half));
			if (half >= 0) {
				chunk = (struct rs_sge){ first.addr + (uint64_t)half, 7, RING / 2 };
				assert_int_equal(rs_tx_give(&p.tx, &chunk), 0);
			}
		}
	}
	assert_int_equal(sent, total);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_sent_without_a_chunk),
		cmocka_unit_test(a_chunk_is_filled_front_to_back),
		cmocka_unit_test(more_chunks_than_there_are_places_are_a_lie),
		cmocka_unit_test(an_empty_chunk_is_passed),
		cmocka_unit_test(messages_end_where_the_peer_says),
		cmocka_unit_test(work_requests_end_with_the_queue_and_come_back),
		cmocka_unit_test(a_count_of_24_bits_is_enough),
		cmocka_unit_test(the_send_buffer_is_a_ring),
		cmocka_unit_test(what_is_under_way_without_a_completion_never_blocks_the_rest),
		cmocka_unit_test(the_second_half_is_granted_at_once),
		cmocka_unit_test(a_half_is_granted_when_a_half_was_read),
		cmocka_unit_test(messages_are_granted_when_half_of_them_were_read),
		cmocka_unit_test(more_messages_than_granted_are_a_lie),
		cmocka_unit_test(more_bytes_than_granted_are_a_lie),
		cmocka_unit_test(ends_that_keep_the_rules_get_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
