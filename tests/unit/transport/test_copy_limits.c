/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that isn't mapped: what one copy holds at most, what there is for those that wait, and when they try again. */
#include "copy_rig.h"
#include "transport/core/copy_priv.h"

enum { SMALL = 8, PACKET = 256, LARGEST = 4096, MANY = 8, ALL = 1000 };
static_assert((int)MANY > (int)TP_COPY_PARTS_EACH, "more QPs than a share has places of its own");

static const struct conn_opts plain = { .mtu = UROCE_MTU_1024 };

/** Only B's memory isn't mapped, and a copy of an earlier packet is being made there: all that comes now is held. */
static void
receiver_waits(struct rig *r, uint32_t mtu)
{
	remote_up_opts(r, &(struct end_opts){ .sq_depth = 256, .cq_depth = 256 }, &(struct conn_opts){ .mtu = mtu });
	mr_destroy(r->p->h[0].sh.mrs, r->amr);
	r->amr = host_mr(&r->p->h[0], r->abuf, BUF, ACCESS_ALL);
	r->a->qp->loss.loss_cwnd = r->a->qp->loss.cwnd = TP_CWND_MAX;
	rig_write(r, 0, BUF - SMALL, SMALL);
	pair_settle(r->p);
	assert_int_equal(r->p->h[1].nb_copies, 1);
}

/** @return the bytes of the copy that comes next. */
static uint32_t
next_copy(struct rig *r)
{
	pair_settle(r->p);
	assert_int_equal(host_copy(&r->p->h[1], 1), 1);
	assert_int_equal(r->p->h[1].nb_copies, 1);
	return r->p->h[1].copies[0]->length;
}

static void
all_is_written(struct rig *r, uint64_t last_id, uint32_t bytes)
{
	host_copy(&r->p->h[1], ALL);
	for (uint64_t id = 0; id <= last_id; id++)
		expect_cqe(&r->a->scq, id, UROCE_WC_SUCCESS);
	assert_memory_equal(r->abuf, r->bbuf, bytes);
	rig_down(r);
}

static void
a_copy_of_packets_holds_its_bytes_and_not_one_more(void **state)
{
	enum { FULL = TP_COPY_BYTES / LARGEST - 1 };
	struct rig r;

	receiver_waits(&r, UROCE_MTU_4096);
	for (uint32_t i = 0; i < FULL; i++)
		rig_write(&r, 1 + i, i * LARGEST, LARGEST);
	rig_write(&r, 1 + FULL, FULL * LARGEST, LARGEST - 1);
	rig_write(&r, 2 + FULL, TP_COPY_BYTES - 1, 2);
	assert_int_equal(next_copy(&r), TP_COPY_BYTES - 1);
	assert_int_equal(next_copy(&r), 2);
	all_is_written(&r, 2 + FULL, TP_COPY_BYTES + 1);
}

static void
a_copy_has_no_more_packets_than_parts(void **state)
{
	struct rig r;

	receiver_waits(&r, UROCE_MTU_256);
	rig_write(&r, 1, 0, (TP_COPY_PARTS_OF_JOB + 1) * PACKET);
	assert_int_equal(next_copy(&r), TP_COPY_PARTS_OF_JOB * PACKET);
	assert_int_equal(next_copy(&r), PACKET);
	all_is_written(&r, 1, (TP_COPY_PARTS_OF_JOB + 1) * PACKET);
}

/* The end of each message begins a piece. */
static void
a_copy_has_no_more_messages_than_pieces(void **state)
{
	struct rig r;

	receiver_waits(&r, UROCE_MTU_1024);
	for (uint32_t i = 0; i <= MEM_JOB_PIECES; i++)
		rig_write(&r, 1 + i, i * SMALL, SMALL);
	assert_int_equal(next_copy(&r), MEM_JOB_PIECES * SMALL);
	assert_int_equal(next_copy(&r), SMALL);
	all_is_written(&r, 1 + MEM_JOB_PIECES, (1 + MEM_JOB_PIECES) * SMALL);
}

static void
a_fetch_holds_its_bytes_and_not_one_more(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, TP_COPY_BYTES + 100);
	pair_settle(r.p);
	assert_int_equal(r.p->h[0].copies[0]->length, TP_COPY_BYTES);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, TP_COPY_BYTES + 100);
	rig_down(&r);
}

/* ---- Room ---- */
/* With places for waiting QPs that are all taken a send waits, is counted, and goes on when there is one again. */
static void
a_send_without_a_place_to_wait_waits_for_one(void **state)
{
	static void *others[TP_COPY_PARTS];
	struct transport *tp;
	unsigned int n = 0;
	struct rig r;

	remote_up(&r, &plain);
	tp = r.p->h[0].tp;
	while (pool_left(&tp->copy_parts) > 0)
		others[n++] = pool_get(&tp->copy_parts);
	rig_write(&r, 1, 0, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(counters(&r, 0)->copy_no_room, 1);
	assert_int_equal(r.p->h[0].nb_copies, 0);
	while (n > 0)
		pool_put(&tp->copy_parts, others[--n]);
	pair_advance(r.p, PAIR_MS);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* A session's QPs may wait at the same time, also more of them than the places that are its own. */
static void
many_qps_wait_for_copies_at_the_same_time(void **state)
{
	struct end *a[MANY], *b[MANY];
	struct rig r;

	remote_up(&r, &plain);
	/* However many sessions have places of their own, there are these as well. */
	assert_int_equal(pool_left(&r.p->h[0].tp->copy_parts), 1024 + TP_SHARES * TP_COPY_PARTS_EACH);
	for (unsigned int i = 0; i < MANY; i++) {
		a[i] = end_new(&r.p->h[0], NULL);
		b[i] = end_new(&r.p->h[1], NULL);
		ends_connect(a[i], b[i], &plain);
		end_send(a[i], &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf + i * 100, 100, r.amr), .nb_sge = 1,
					     .remote_addr = ADDR(r.bbuf) + i * 100, .rkey = r.bmr->key });
	}
	pair_settle(r.p);
	assert_int_equal(r.p->h[0].nb_copies, MANY);
	assert_int_equal(counters(&r, 0)->copy_no_room, 0);
	host_copy(&r.p->h[0], MANY);
	assert_int_equal(r.p->h[1].nb_copies, MANY);
	host_copy(&r.p->h[1], MANY);
	for (unsigned int i = 0; i < MANY; i++) {
		expect_cqe(&a[i]->scq, i, UROCE_WC_SUCCESS);
		end_free(a[i]);
		end_free(b[i]);
	}
	rig_down(&r);
}

/* Every 50 us, and no more often. */
static void
a_packet_without_room_tries_again_after_a_while(void **state)
{
	uint64_t tries;
	struct rig r;

	remote_up(&r, &plain);
	r.p->h[1].no_copies = true;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	pair_advance(r.p, 50 * PAIR_US);
	tries = counters(&r, 1)->copy_no_room;
	pair_advance(r.p, 49 * PAIR_US);
	assert_int_equal(counters(&r, 1)->copy_no_room, tries);
	pair_advance(r.p, PAIR_US);
	assert_int_equal(counters(&r, 1)->copy_no_room, tries + 1);
	r.p->h[1].no_copies = false;
	pair_advance(r.p, 50 * PAIR_US);
	assert_int_equal(host_copy(&r.p->h[1], 1), 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* A packet that waits keeps its place until it is done with, however many copies it needs, though those behind it have taken all others. */
static void
a_packet_that_is_held_needs_no_other_place_for_its_next_copy(void **state)
{
	enum { HALF = 100 };
	static void *others[TP_COPY_PKTS];
	struct ring_sge to[2];
	struct transport *tp;
	unsigned int n = 0;
	struct rig r;

	remote_up(&r, &plain);
	mr_destroy(r.p->h[0].sh.mrs, r.amr);
	r.amr = host_mr(&r.p->h[0], r.abuf, BUF, ACCESS_ALL);
	to[0] = *SGE(r.bbuf, HALF, r.bmr);
	to[1] = *SGE(r.bbuf + HALF + SMALL, HALF, r.bmr);
	end_recv(r.b, 7, to, 2);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(r.abuf, 2 * HALF, r.amr), .nb_sge = 1 });
	pair_settle(r.p);
	tp = r.p->h[1].tp;
	while (pool_left(&tp->copy_pkts) > 0)
		others[n++] = pool_get(&tp->copy_pkts);
	assert_int_equal(host_copy(&r.p->h[1], 1), 1);
	assert_int_equal(counters(&r, 1)->copy_no_room, 0);
	assert_int_equal(host_copy(&r.p->h[1], 1), 1);
	expect_cqe(&r.b->rcq, 7, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, HALF);
	assert_memory_equal(r.abuf + HALF, r.bbuf + HALF + SMALL, HALF);
	while (n > 0)
		pool_put(&tp->copy_pkts, others[--n]);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_of_packets_holds_its_bytes_and_not_one_more),
		cmocka_unit_test(a_copy_has_no_more_packets_than_parts),
		cmocka_unit_test(a_copy_has_no_more_messages_than_pieces),
		cmocka_unit_test(a_fetch_holds_its_bytes_and_not_one_more),
		cmocka_unit_test(a_send_without_a_place_to_wait_waits_for_one),
		cmocka_unit_test(many_qps_wait_for_copies_at_the_same_time),
		cmocka_unit_test(a_packet_that_is_held_needs_no_other_place_for_its_next_copy),
		cmocka_unit_test(a_packet_without_room_tries_again_after_a_while),
	};

	return cmocka_run_group_tests(tests, open_memory, close_memory);
}
