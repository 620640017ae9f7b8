/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a READ that are asked for again, by hand. */
#include "rig.h"
#include "transport/resp/resp_priv.h"

enum { KIB = 1024 };

/* A part of a READ, asked for by hand. */
static void
ask_for(struct rig *r, uint32_t psn, uint32_t from, uint32_t len)
{
	uint8_t reth[WIRE_RETH_BYTES];

	wire_put_reth(reth, ADDR(r->bbuf) + from, r->bmr->key, len);
	pair_inject(r->p, r->b, &(struct wire_bth){ .opcode = WIRE_OP_READ_REQUEST, .psn = psn, .migreq = true, .ackreq = true },
		    reth, sizeof(reth));
	pair_settle(r->p);
}

static void
parts_that_no_chunk_has_are_not_answered(void **state)
{
	struct rig r;
	struct mr gone;
	uint32_t psn;

	rig_up(&r, NULL, NULL);
	psn = r.b->qp->rcv.epsn;
	/* Longer than a chunk: only the rest of it may be asked for. */
	ask_for(&r, psn, 0, 40 * KIB);
	r.p->nb_log = 0;
	ask_for(&r, psn, 0, 39 * KIB);
	assert_int_equal(counters(&r, 1)->rx_duplicate_dropped, 1);
	ask_for(&r, wire_psn_add(psn, 38), 38 * KIB, 2 * KIB);
	assert_int_equal(pair_count(r.p, 1, -1), 2);
	/* Beyond its end, not whole packets, none at all, other bytes. */
	psn = r.b->qp->rcv.epsn;
	ask_for(&r, psn, 0, 10 * KIB);
	r.p->nb_log = 0;
	ask_for(&r, wire_psn_add(psn, 5), 5 * KIB, 6 * KIB);
	ask_for(&r, wire_psn_add(psn, 5), 5 * KIB, 3 * KIB + 1);
	ask_for(&r, wire_psn_add(psn, 5), 5 * KIB, 0);
	ask_for(&r, wire_psn_add(psn, 5), 4 * KIB, 3 * KIB);
	assert_int_equal(counters(&r, 1)->rx_duplicate_dropped, 5);
	assert_int_equal(pair_count(r.p, 1, -1), 0);
	/* The key has gone: dropped, for errors of duplicates are never told. */
	ask_for(&r, wire_psn_add(psn, 5), 5 * KIB, 3 * KIB);
	assert_int_equal(pair_count(r.p, 1, -1), 3);
	gone = *r.bmr;
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = &gone;
	ask_for(&r, wire_psn_add(psn, 5), 5 * KIB, 3 * KIB);
	r.bmr = NULL;
	assert_int_equal(counters(&r, 1)->rx_duplicate_dropped, 6);
	assert_int_equal(r.b->qp->state, UROCE_QPS_RTS);
	rig_down(&r);
}

/* Of a READ of 32 packets 10 are on their way, and the next one may not leave. @return its first PSN. */
static uint32_t
answer_in_part(struct rig *r)
{
	struct wire_bth b = { .opcode = WIRE_OP_READ_REQUEST, .migreq = true, .ackreq = true };
	uint8_t reth[WIRE_RETH_BYTES];

	rig_up(r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	r->p->stalled = true;
	b.psn = r->b->qp->rcv.epsn;
	wire_put_reth(reth, ADDR(r->bbuf), r->bmr->key, 32 * 256);
	pair_inject(r->p, r->b, &b, reth, sizeof(reth));
	responder_run(r->p->h[1].tp, r->b->qp, 10);
	return b.psn;
}

/* Ask for packets @p nth to @p nth + @p n - 1 of it again. */
static void
ask_for_part(struct rig *r, uint32_t psn, uint32_t nth, uint32_t n)
{
	struct wire_bth b = { .opcode = WIRE_OP_READ_REQUEST, .migreq = true, .ackreq = true, .psn = wire_psn_add(psn, nth) };
	uint8_t reth[WIRE_RETH_BYTES];

	wire_put_reth(reth, ADDR(r->bbuf) + nth * 256, r->bmr->key, n * 256);
	pair_inject(r->p, r->b, &b, reth, sizeof(reth));
}

/* All that leaves are responses from b, with these PSNs behind @p psn: the first 10, @p n given ones, and those from @p rest on. */
static void
expect_responses(struct rig *r, uint32_t psn, const uint32_t *again, uint32_t n, uint32_t rest)
{
	r->p->stalled = false;
	r->p->nb_log = 0;
	pair_settle(r->p);
	assert_int_equal(pair_count(r->p, 1, -1), 10 + n + 32 - rest);
	for (uint32_t i = 0; i < 10 + n + 32 - rest; i++)
		assert_int_equal(r->p->log[i].bth.psn, wire_psn_add(psn, i < 10 ? i : i < 10 + n ? again[i - 10] : rest + i - 10 - n));
}

/* While the READ is still being answered: what is behind comes again first, what is ahead comes anyway. */
static void
a_part_of_a_read_that_is_being_answered_comes_once(void **state)
{
	struct rig r;
	uint32_t psn = answer_in_part(&r);

	ask_for_part(&r, psn, 8, 4);
	expect_responses(&r, psn, (uint32_t[]){ 8, 9 }, 2, 10);
	assert_int_equal(r.p->log[10].bth.opcode, WIRE_OP_READ_RESP_FIRST);
	assert_int_equal(r.p->log[11].bth.opcode, WIRE_OP_READ_RESP_LAST);
	rig_down(&r);
}

static void
all_parts_of_a_read_that_are_asked_for_come_again(void **state)
{
	struct rig r;
	uint32_t psn = answer_in_part(&r);

	ask_for_part(&r, psn, 2, 2);
	ask_for_part(&r, psn, 6, 1);
	expect_responses(&r, psn, (uint32_t[]){ 2, 3, 6 }, 3, 10);
	rig_down(&r);
}

/* The rest of it is asked for again behind parts that have still to be sent again. */
static void
parts_come_again_before_the_rest_of_their_read(void **state)
{
	struct rig r;
	uint32_t psn = answer_in_part(&r);

	ask_for_part(&r, psn, 2, 2);
	ask_for_part(&r, psn, 7, 2);
	ask_for_part(&r, psn, 8, 32 - 8);
	expect_responses(&r, psn, (uint32_t[]){ 2, 3, 7 }, 3, 8);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_that_no_chunk_has_are_not_answered),
		cmocka_unit_test(a_part_of_a_read_that_is_being_answered_comes_once),
		cmocka_unit_test(all_parts_of_a_read_that_are_asked_for_come_again),
		cmocka_unit_test(parts_come_again_before_the_rest_of_their_read),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
