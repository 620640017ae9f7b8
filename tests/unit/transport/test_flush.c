/* SPDX-License-Identifier: BSD-3-Clause */
/* FLUSH (annex A19): a barrier at the responder, answered by a READ response of no bytes, executed once. */
#include "rig.h"
#include "transport/core/types_priv.h"

enum { FLUSHES = UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT };

/* Both ends grant global flushes, by QP and MR. */
static void
up(struct rig *r, const struct conn_opts *co)
{
	struct conn_opts o = co != NULL ? *co : (struct conn_opts){ 0 };

	if (o.access == 0)
		o.access = ACCESS_ALL | FLUSHES;
	rig_up(r, NULL, &o);
	mr_destroy(r->p->h[1].sh.mrs, r->bmr);
	r->bmr = host_mr(&r->p->h[1], r->bbuf, BUF, ACCESS_ALL | UROCE_ACCESS_FLUSH_GLOBAL);
}

/* As lib/verbs puts it into the ring; ring_flush lies where the rig has operands. */
static void
flush(struct rig *r, uint64_t id, uint64_t addr, uint32_t rkey, const struct ring_flush *f)
{
	struct wr wr = { .id = id, .op = UROCE_WR_FLUSH, .remote_addr = addr, .rkey = rkey };

	static_assert(sizeof(*f) == sizeof(wr.compare_add) + sizeof(wr.swap), "operands");
	memcpy(&wr.compare_add, f, sizeof(wr.compare_add));
	memcpy(&wr.swap, (const uint8_t *)f + sizeof(wr.compare_add), sizeof(wr.swap));
	end_send(r->a, &wr);
}

static void
flush_range(struct rig *r, uint64_t id, uint32_t off, uint32_t len)
{
	flush(r, id, ADDR(r->bbuf) + off, r->bmr->key, &(struct ring_flush){ .length = len, .type = UROCE_FLUSH_GLOBAL });
}

static void
comes_behind_writes_and_is_answered_by_a_read_response_of_none(void **state)
{
	struct ring_cqe e;
	struct rig r;

	up(&r, NULL);
	rig_write(&r, 1, 0, 5000);
	flush_range(&r, 2, 0, 5000);
	rig_write(&r, 3, 8192, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	e = expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_FLUSH);
	assert_int_equal(e.byte_len, 0);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_memory_equal(r.bbuf, r.abuf, 5000);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_FLUSH), 1);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_ONLY), 1);
	for (uint32_t i = 0; i < r.p->nb_log; i++) {
		if (r.p->log[i].bth.opcode != WIRE_OP_FLUSH)
			continue;
		assert_int_equal(r.p->log[i].payload, 0);
		assert_true(r.p->log[i].bth.ackreq);
		/* The length is the range's, it takes one PSN all the same. */
		assert_int_equal(r.p->log[i].reth_len, 5000);
		assert_int_equal(r.p->log[i + 1].bth.psn, wire_psn_add(r.p->log[i].bth.psn, 1));
	}
	assert_int_equal(counters(&r, 1)->rx_flush_requests, 1);
	rig_down(&r);
}

static bool
keep_packet(struct pair *p, const struct note *n, void *arg)
{
	uint8_t *kept = arg;
	struct tp_txvec *v = transport_tx(p->h[0].tp, 0);

	for (uint16_t i = 0; i < v->n; i++) {
		const uint8_t *bth = rte_pktmbuf_mtod_offset(v->pkts[i], const uint8_t *,
							     WIRE_ETH_BYTES + WIRE_IPV4_BYTES + WIRE_UDP_BYTES);

		if (n->from == 0 && bth[0] == WIRE_OP_FLUSH)
			memcpy(kept, bth, WIRE_BTH_BYTES + WIRE_FETH_BYTES + WIRE_RETH_BYTES);
	}
	return false;
}

/* 9.2 with annex A19: BTH, FETH (type in bits 3 to 0, level in 5 and 4), RETH. */
static void
looks_like_this_on_the_wire(void **state)
{
	uint8_t bth[WIRE_BTH_BYTES + WIRE_FETH_BYTES + WIRE_RETH_BYTES] = { 0 };
	struct rig r;

	up(&r, NULL);
	r.p->lose = keep_packet;
	r.p->lose_arg = bth;
	flush(&r, 1, 0x1122334455667788, r.bmr->key,
	      &(struct ring_flush){ .length = 77, .type = UROCE_FLUSH_GLOBAL, .level = UROCE_FLUSH_MR });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(bth[0], 0x1c);
	assert_memory_equal(bth + 12, "\x00\x00\x00\x11", 4);
	assert_memory_equal(bth + 16, "\x11\x22\x33\x44\x55\x66\x77\x88", 8);
	assert_true(wire_get32(bth + 24) == r.bmr->key && wire_get32(bth + 28) == 77);
	rig_down(&r);
}

static void
a_lost_answer_is_given_again(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .nth = 0, .count = 1 };
	struct rig r;

	up(&r, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	flush_range(&r, 1, 0, 64);
	pair_advance(r.p, 200 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->rx_flush_requests, 1);
	assert_true(counters(&r, 1)->duplicate_request > 0);
	rig_down(&r);
}

static void
counts_as_a_read(void **state)
{
	struct rig r;

	/* Refused at home, where none may be outstanding; at the peer, where it has no place for any. */
	up(&r, &(struct conn_opts){ .no_rd_atomic = true });
	flush_range(&r, 1, 0, 8);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_LOC_QP_OP_ERR);
	rig_down(&r);
	up(&r, &(struct conn_opts){ .no_dest_rd_atomic = true });
	flush_range(&r, 1, 0, 8);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
	rig_down(&r);
	/* One at a time. */
	up(&r, &(struct conn_opts){ .rd_atomic = 1, .dest_rd_atomic = 1 });
	for (uint32_t i = 0; i < 10; i++)
		flush_range(&r, i, 64 * i, 64);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 10; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->resp_rd_atomic_exceeded, 0);
	rig_down(&r);
}

/* Of a whole MR only the key counts. */
static void
the_range_is_checked_unless_it_is_the_whole_region(void **state)
{
	const struct ring_flush whole = { .length = 12345, .type = UROCE_FLUSH_GLOBAL, .level = UROCE_FLUSH_MR };
	struct rig r;

	up(&r, NULL);
	flush(&r, 1, 7, r.bmr->key, &whole);
	flush_range(&r, 2, BUF - 8, 8);
	flush_range(&r, 3, BUF, 0);
	flush_range(&r, 4, BUF - 8, 9);
	pair_settle(r.p);
	for (uint32_t i = 1; i < 4; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 4, UROCE_WC_REM_ACCESS_ERR);
	assert_int_equal(counters(&r, 1)->resp_remote_access_errors, 1);
	rig_down(&r);
}

static void
what_is_not_granted_is_refused(void **state)
{
	const struct ring_flush global = { .type = UROCE_FLUSH_GLOBAL }, persistent = { .type = UROCE_FLUSH_PERSISTENT },
				both = { .type = UROCE_FLUSH_GLOBAL | UROCE_FLUSH_PERSISTENT };
	/* The MR grants no flush; the QP doesn't; nobody grants persistence; a stale key, also of a whole MR. */
	const struct {
		uint32_t qp, mr, key;
		const struct ring_flush *f;
	} cases[] = {
		{ FLUSHES, 0, 0, &global },
		{ UROCE_ACCESS_REMOTE_WRITE, UROCE_ACCESS_FLUSH_GLOBAL, 0, &global },
		{ FLUSHES, UROCE_ACCESS_FLUSH_GLOBAL, 0, &persistent },
		{ FLUSHES, UROCE_ACCESS_FLUSH_GLOBAL, 0, &both },
		{ FLUSHES, UROCE_ACCESS_FLUSH_GLOBAL, 1, &global },
		{ FLUSHES, UROCE_ACCESS_FLUSH_GLOBAL, 1,
		  &(const struct ring_flush){ .type = UROCE_FLUSH_GLOBAL, .level = UROCE_FLUSH_MR } },
	};
	struct rig r;

	for (uint32_t i = 0; i < RTE_DIM(cases); i++) {
		up(&r, &(struct conn_opts){ .access = cases[i].qp });
		mr_destroy(r.p->h[1].sh.mrs, r.bmr);
		r.bmr = host_mr(&r.p->h[1], r.bbuf, BUF, ACCESS_ALL | cases[i].mr);
		flush(&r, 1, ADDR(r.bbuf), r.bmr->key ^ cases[i].key, cases[i].f);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
		assert_int_equal(host_events(&r.p->h[1], UROCE_EVENT_QP_ACCESS_ERR), 1);
		rig_down(&r);
	}
}

/* A client that writes into its ring what lib/verbs never would. */
static void
wqes_that_make_no_sense_are_refused_at_home(void **state)
{
	const struct {
		struct ring_flush f;
		uint8_t flags;
		uint32_t sges;
		enum uroce_wc_status status;
		uint8_t verr;
	} cases[] = {
		{ { .type = 0 }, 0, 0, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_FLUSH },
		{ { .type = 4 }, 0, 0, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_FLUSH },
		{ { .type = 1, .level = 2 }, 0, 0, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_FLUSH },
		{ { .type = 1, .length = UINT32_C(0x80000001) }, 0, 0, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH },
		{ { .type = 1 }, UROCE_SEND_INLINE, 0, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES },
		{ { .type = 1 }, 0, 1, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES },
	};
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct rig r;

	for (uint32_t i = 0; i < RTE_DIM(cases); i++) {
		struct wr wr = { .id = 1, .op = UROCE_WR_FLUSH, .flags = cases[i].flags, .nb_sge = cases[i].sges };

		up(&r, NULL);
		wr.sge = SGE(r.abuf, 8, r.amr);
		memcpy(&wr.compare_add, &cases[i].f, sizeof(wr.compare_add));
		end_send(r.a, &wr);
		pair_settle(r.p);
		assert_true(cq_poll(&r.a->scq, &e, &ctl));
		assert_int_equal(e.status, cases[i].status);
		assert_int_equal(ctl.vendor_err, cases[i].verr);
		assert_int_equal(pair_count(r.p, 0, WIRE_OP_FLUSH), 0);
		rig_down(&r);
	}
}

/* A peer that sends what no requester of ours would. */
static void
requests_that_make_no_sense_are_invalid(void **state)
{
	const uint8_t feths[] = { 0x00, 0x04, 0x05, 0x21, 0x31 };
	struct wire_bth b = { .opcode = WIRE_OP_FLUSH, .migreq = true, .ackreq = true };
	uint8_t eths[WIRE_FETH_BYTES + WIRE_RETH_BYTES] = { 0 };
	struct rig r;

	for (uint32_t i = 0; i <= RTE_DIM(feths); i++) {
		up(&r, NULL);
		eths[3] = i < RTE_DIM(feths) ? feths[i] : 1;
		wire_put_reth(eths + WIRE_FETH_BYTES, ADDR(r.bbuf), r.bmr->key, i < RTE_DIM(feths) ? 8 : 0x80000001);
		b.psn = r.b->qp->rcv.epsn;
		pair_inject(r.p, r.b, &b, eths, sizeof(eths));
		pair_settle(r.p);
		assert_int_equal(counters(&r, 1)->resp_invalid_requests, 1);
		assert_int_equal(r.b->qp->state, UROCE_QPS_ERR);
		rig_down(&r);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_behind_writes_and_is_answered_by_a_read_response_of_none),
		cmocka_unit_test(looks_like_this_on_the_wire),
		cmocka_unit_test(a_lost_answer_is_given_again),
		cmocka_unit_test(counts_as_a_read),
		cmocka_unit_test(the_range_is_checked_unless_it_is_the_whole_region),
		cmocka_unit_test(what_is_not_granted_is_refused),
		cmocka_unit_test(wqes_that_make_no_sense_are_refused_at_home),
		cmocka_unit_test(requests_that_make_no_sense_are_invalid),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
