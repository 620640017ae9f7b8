/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets between QPs of one engine that go by reference (transport_config.by_reference): messages arrive as ever, without frames, in one turn. */
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "transport/core/local_priv.h"

enum { BYTES = 40000, MANY = 12, MTU = 1024, READ_BYTES = 32 * MTU };

struct bed {
	struct pair *p;
	struct host *h;
	struct end *a, *b;
	uint8_t *buf; /* the first half is a's, the second b's */
	struct mr *mr;
};

static void
bed_up(struct bed *t, const struct end_opts *o)
{
	t->p = pair_new();
	t->h = &t->p->h[0];
	t->h->tp->locals = calloc(1, sizeof(*t->h->tp->locals)); /* what by_reference makes */
	assert_non_null(t->h->tp->locals);
	t->a = end_new(t->h, o);
	t->b = end_new(t->h, o);
	t->buf = calloc(2, BYTES);
	assert_non_null(t->buf);
	t->mr = host_mr(t->h, t->buf, 2 * BYTES, ACCESS_ALL);
	fill(t->buf, BYTES, 7);
	ends_connect(t->a, t->b, NULL);
}

static void
bed_down(struct bed *t)
{
	end_free(t->a);
	end_free(t->b);
	mr_destroy(t->h->sh.mrs, t->mr);
	free(t->buf);
	pair_free(t->p);
}

/* No frame was made, nothing waits, no mbuf is held. */
static void
assert_no_frames(const struct bed *t)
{
	assert_int_equal(transport_loop(t->h->tp)->n, 0);
	assert_int_equal(transport_tx(t->h->tp, 0)->n, 0);
	assert_int_equal(t->h->tp->locals->n, 0);
	assert_true(transport_counters(t->h->tp)->tx_by_reference > 0);
	assert_int_equal(transport_counters(t->h->tp)->tx_by_reference, transport_counters(t->h->tp)->tx_packets);
	assert_int_equal(transport_counters(t->h->tp)->rx_packets, transport_counters(t->h->tp)->tx_packets);
	assert_int_equal(transport_counters(t->h->tp)->rx_bytes, transport_counters(t->h->tp)->tx_bytes);
}

static void
a_write_is_over_in_one_turn(void **state)
{
	struct bed t;

	bed_up(&t, NULL);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.buf, 10001, t.mr), .nb_sge = 1,
				    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key });
	host_turn(t.h);
	assert_no_frames(&t);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.buf, t.buf + BYTES, 10001);
	assert_int_equal(t.buf[BYTES + 10001], 0);
	bed_down(&t);
}

/* An administrator reads the same figures, whichever way packets go. */
static void
bytes_are_counted_as_those_of_frames(void **state)
{
	struct tp_counters n[2];

	for (unsigned int frames = 0; frames < 2; frames++) {
		struct bed t;

		bed_up(&t, NULL);
		if (frames) {
			free(t.h->tp->locals);
			t.h->tp->locals = NULL;
		}
		end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.buf, 3 * MTU + 1, t.mr), .nb_sge = 1,
					    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key });
		pair_settle(t.p);
		expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
		n[frames] = *transport_counters(t.h->tp);
		assert_int_equal(n[frames].tx_by_reference, frames ? 0 : n[frames].tx_packets);
		bed_down(&t);
	}
	assert_int_equal(n[0].tx_packets, n[1].tx_packets);
	assert_int_equal(n[0].tx_bytes, n[1].tx_bytes);
	assert_int_equal(n[0].rx_bytes, n[1].rx_bytes);
}

static void
sends_and_reads_arrive(void **state)
{
	struct bed t;

	bed_up(&t, NULL);
	end_recv(t.b, 2, SGE(t.buf + BYTES, 5000, t.mr), 1);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND_WITH_IMM, .imm = 9, .sge = SGE(t.buf + 1, 5000, t.mr), .nb_sge = 1 });
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&t.b->rcq, 2, UROCE_WC_SUCCESS).byte_len, 5000);
	assert_memory_equal(t.buf + 1, t.buf + BYTES, 5000);
	end_send(t.b, &(struct wr){ .id = 3, .op = UROCE_WR_RDMA_READ, .sge = SGE(t.buf + BYTES, 20001, t.mr), .nb_sge = 1,
				    .remote_addr = ADDR(t.buf) + 3, .rkey = t.mr->key });
	pair_settle(t.p);
	expect_cqe(&t.b->scq, 3, UROCE_WC_SUCCESS);
	assert_memory_equal(t.buf + 3, t.buf + BYTES, 20001);
	assert_no_frames(&t);
	bed_down(&t);
}

/* Pieces are gathered: small ones beside the headers, large ones in an mbuf, which goes back. What is inline is copied, too. */
static void
payload_in_pieces_is_gathered(void **state)
{
	struct bed t;
	struct ring_sge sge[3];

	bed_up(&t, &(struct end_opts){ .max_sge = 3, .max_inline = 200 });
	for (unsigned int n = 20; n <= 2000; n *= 10) {
		sge[0] = *SGE(t.buf, n, t.mr);
		sge[1] = *SGE(t.buf + n + 5, n, t.mr);
		sge[2] = *SGE(t.buf + 3 * n, n, t.mr);
		end_send(t.a, &(struct wr){ .id = n, .op = UROCE_WR_RDMA_WRITE, .sge = sge, .nb_sge = 3, .remote_addr = ADDR(t.buf) + BYTES,
					    .rkey = t.mr->key });
		pair_settle(t.p);
		expect_cqe(&t.a->scq, n, UROCE_WC_SUCCESS);
		assert_memory_equal(t.buf, t.buf + BYTES, n);
		assert_memory_equal(t.buf + n + 5, t.buf + BYTES + n, n);
		assert_memory_equal(t.buf + 3 * n, t.buf + BYTES + 2 * n, n);
	}
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = UROCE_SEND_INLINE, .inline_data = t.buf + 9, .inline_bytes = 200,
				    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key });
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.buf + 9, t.buf + BYTES, 200);
	assert_no_frames(&t);
	bed_down(&t);
}

static void
wrong_keys_are_refused(void **state)
{
	struct bed t;

	bed_up(&t, NULL);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.buf, 100, t.mr), .nb_sge = 1,
				    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key + 1 });
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	assert_int_equal(t.buf[BYTES], 0);
	assert_int_equal(t.p->h[0].tp->locals->n, 0);
	bed_down(&t);
}

static void
a_wrong_local_key_sends_nothing(void **state)
{
	struct bed t;

	bed_up(&t, NULL);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE,
				    .sge = &(struct ring_sge){ .addr = ADDR(t.buf), .length = 100, .lkey = t.mr->key + 1 }, .nb_sge = 1,
				    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key });
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_LOC_PROT_ERR);
	assert_int_equal(transport_counters(t.h->tp)->tx_packets, 0);
	bed_down(&t);
}

/* The peer has no receive yet. When the message is sent again, its client has shortened it, and behind it in the slot is an SGE that isn't the message's. */
static void
sges_behind_those_of_a_message_are_not_sent(void **state)
{
	struct ring_sge *sge;
	struct bed t;

	bed_up(&t, &(struct end_opts){ .max_sge = 3 });
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(t.buf, 100, t.mr), .nb_sge = 1 });
	pair_settle(t.p);
	expect_no_cqe(&t.a->scq);
	end_recv(t.b, 2, SGE(t.buf + BYTES, 100, t.mr), 1);
	sge = wqe_sges(ring_slot(&t.a->sq, 0), UROCE_WR_SEND);
	sge[0].length = 0;
	sge[1] = *SGE(t.buf + 200, 100, t.mr);
	pair_advance(t.p, 100 * (uint64_t)PAIR_MS);
	expect_cqe(&t.a->scq, 1, UROCE_WC_LOC_LEN_ERR);
	assert_int_equal(t.buf[BYTES], 0);
	bed_down(&t);
}

/* UC completes a WQE as it is sent, so the bytes have to be copied by then. */
static void
uc_has_frames(void **state)
{
	struct bed t;

	bed_up(&t, &(struct end_opts){ .type = UROCE_QPT_UC });
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.buf, 100, t.mr), .nb_sge = 1,
				    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key });
	host_turn(t.h);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	memset(t.buf, 0, 100);
	assert_int_equal(transport_counters(t.h->tp)->tx_by_reference, 0);
	pair_settle(t.p);
	fill(t.buf, BYTES, 7);
	assert_memory_equal(t.buf, t.buf + BYTES, 100);
	bed_down(&t);
}

/* More answers than the vector holds: what finds no room is sent later. */
static void
a_full_vector_loses_nothing(void **state)
{
	struct end *from[MANY], *to[MANY];
	struct bed t;

	bed_up(&t, NULL);
	t.h->tp->c.limits.local_packets = MANY / 2;
	for (unsigned int i = 0; i < MANY; i++) {
		from[i] = end_new(t.h, NULL);
		to[i] = end_new(t.h, NULL);
		ends_connect(from[i], to[i], NULL);
		end_send(from[i], &(struct wr){ .id = i, .op = UROCE_WR_RDMA_READ, .sge = SGE(t.buf + BYTES, READ_BYTES, t.mr), .nb_sge = 1,
						.remote_addr = ADDR(t.buf), .rkey = t.mr->key });
	}
	pair_settle(t.p);
	for (unsigned int i = 0; i < MANY; i++)
		expect_cqe(&from[i]->scq, i, UROCE_WC_SUCCESS);
	assert_memory_equal(t.buf, t.buf + BYTES, READ_BYTES);
	assert_true(transport_counters(t.h->tp)->tx_no_room > 0);
	assert_int_equal(transport_counters(t.h->tp)->retransmitted_packets, 0);
	assert_no_frames(&t);
	for (unsigned int i = 0; i < MANY; i++) {
		end_free(from[i]);
		end_free(to[i]);
	}
	bed_down(&t);
}

/* A peer that is gone, or another engine's, gets frames. */
static void
a_peer_that_is_gone_gets_frames(void **state)
{
	struct bed t;

	bed_up(&t, NULL);
	end_free(t.b);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.buf, 100, t.mr), .nb_sge = 1,
				    .remote_addr = ADDR(t.buf) + BYTES, .rkey = t.mr->key });
	host_turn(t.h);
	assert_int_equal(transport_counters(t.h->tp)->tx_by_reference, 0);
	assert_true(transport_loop(t.h->tp)->n > 0);
	t.b = end_new(t.h, NULL);
	pair_settle(t.p);
	bed_down(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_is_over_in_one_turn),
		cmocka_unit_test(bytes_are_counted_as_those_of_frames),
		cmocka_unit_test(sends_and_reads_arrive),
		cmocka_unit_test(payload_in_pieces_is_gathered),
		cmocka_unit_test(wrong_keys_are_refused),
		cmocka_unit_test(a_wrong_local_key_sends_nothing),
		cmocka_unit_test(sges_behind_those_of_a_message_are_not_sent),
		cmocka_unit_test(uc_has_frames),
		cmocka_unit_test(a_full_vector_loses_nothing),
		cmocka_unit_test(a_peer_that_is_gone_gets_frames),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
