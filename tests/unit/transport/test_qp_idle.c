/* SPDX-License-Identifier: BSD-3-Clause */
/* What a QP costs that has nothing to do: memory and time. And what busy QPs borrow, when there is none left of it. */
#include <malloc.h>
#include <time.h>

#include "rig.h"
#include "transport/core/types_priv.h"

enum {
	IDLE_QPS = 10000,
	IDLE_BYTES = 2048,
	IDLE_SAMPLES = 200,
	IDLE_TURNS = 200,
	ENGINE_POINTER_BYTES = 8, /* struct engine_session */
	TABLE_BYTES = 16,         /* struct qp_table: a slot, its number, its generation */
};

/* Many QPs of which none ever does anything: they share rings and CQs. */
struct crowd {
	struct transport *tp;
	struct mr_table *mrs;
	struct qp_table *qps;
	struct cq *cq;
	struct ring_cq_shared cq_shared;
	struct ring_qp_shared shared;
	struct srq *srq;
	struct ring_srq_shared srq_shared;
	struct qp *qp[IDLE_QPS];
	uint32_t n;
	uint64_t now;
	void *ring;
};

static void
crowd_up(struct crowd *c, enum tp_cc cc)
{
	struct transport_config tc = { .sh.pool = pair_pool(), .nb_ports = 1, .ports[0] = { .cc = cc, .mbps = 100000, .features = TP_FEATURES_ALL } };
	struct cq_params cp = { .shared = &c->cq_shared, .channel = -1 };
	struct srq_params sp = { .pd = PAIR_PD, .max_sge = UROCE_MAX_SGE, .shared = &c->srq_shared };

	memset(c, 0, sizeof(*c));
	c->now = 1000000;
	c->ring = calloc(16, 4096);
	tc.sh.mrs = c->mrs = mr_table_create(16, NULL, 0);
	tc.sh.qps = c->qps = qp_table_create(16384, NULL, 0);
	c->tp = transport_create(&tc);
	assert_non_null(c->tp);
	cp.ring = (struct ring){ .base = c->ring, RING_SIZE(1, 6) };
	assert_int_equal(cq_create(&cp, &c->cq), 0);
	sp.ring = (struct ring){ .base = c->ring, RING_SIZE(1, 10) };
	assert_int_equal(srq_create(c->tp, &sp, &c->srq), 0);
}

static void
crowd_down(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		qp_destroy(c->tp, c->qp[i]);
	assert_int_equal(srq_destroy(c->tp, c->srq), 0);
	cq_destroy(c->cq);
	transport_destroy(c->tp);
	qp_table_destroy(c->qps);
	mr_table_destroy(c->mrs);
	free(c->ring);
}

/* Everything that a program may ask for, and to RTS. */
static void
crowd_add(struct crowd *c, enum uroce_qp_type type, bool srq)
{
	struct qp_params qp = {
		.type = type, .pd = PAIR_PD, .send_cq = c->cq, .recv_cq = c->cq, .shared = &c->shared,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = UROCE_MAX_SGE,
			 .max_recv_sge = UROCE_MAX_SGE, .max_inline_data = UROCE_MAX_INLINE },
		.sq = { .base = c->ring, RING_SIZE(1, 11) },
		.rq = { .base = c->ring, RING_SIZE(1, 10) },
	};
	struct tp_path path = { .addr = { .ip_version = 4, .dip = { 198, 18, 0, 2 } }, .pkey = WIRE_PKEY_DEFAULT };
	struct uroce_qp_attr a = {
		.port_num = 1, .qkey = 1, .path_mtu = UROCE_MTU_1024, .dest_qp_num = 77, .timeout = 14, .retry_cnt = 7,
		.max_dest_rd_atomic = UROCE_MAX_RD_ATOMIC, .max_rd_atomic = UROCE_MAX_RD_ATOMIC,
		.ah = { .is_global = 1, .port_num = 1, .hop_limit = 64, .dgid = { [15] = 1 } },
		.alt_ah = { .is_global = 1, .port_num = 1, .hop_limit = 64, .dgid = { [15] = 2 } }, .alt_port_num = 1,
		.path_mig_state = 1,
	};
	static const enum uroce_qp_state to[] = { UROCE_QPS_INIT, UROCE_QPS_RTR, UROCE_QPS_RTS };
	static const uint32_t rc[] = {
		UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN | UROCE_QP_MAX_DEST_RD_ATOMIC |
			UROCE_QP_MIN_RNR_TIMER,
		UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_SQ_PSN | UROCE_QP_MAX_QP_RD_ATOMIC,
	}, uc[] = {
		UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN,
		UROCE_QP_SQ_PSN,
	}, xrc[] = {
		UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
		UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN | UROCE_QP_MAX_DEST_RD_ATOMIC |
			UROCE_QP_MIN_RNR_TIMER,
		UROCE_QP_TIMEOUT | UROCE_QP_SQ_PSN,
	}, ud[] = { UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY, 0, UROCE_QP_SQ_PSN };
	const uint32_t *mask = type == UROCE_QPT_RC ? rc : type == UROCE_QPT_UC ? uc : type == UROCE_QPT_UD ? ud : xrc;
	struct qp *q;

	if (type == UROCE_QPT_XRC_RECV) {
		qp.xrcd = 1;
		qp.send_cq = qp.recv_cq = NULL;
		qp.sq.base = qp.rq.base = NULL;
	} else if (srq) {
		qp.srq = c->srq;
		qp.rq.base = NULL;
	}
	assert_int_equal(qp_create(c->tp, &qp, &q), 0);
	c->qp[c->n++] = q;
	for (uint32_t i = 0; i < RTE_DIM(to); i++) {
		a.qp_state = to[i];
		assert_int_equal(qp_modify(c->tp, q, &a, mask[i] | UROCE_QP_STATE,
					   mask[i] & UROCE_QP_AV ? &path : NULL, c->now), 0);
	}
	if (type != UROCE_QPT_UD)
		assert_int_equal(qp_modify_paths(c->tp, q, &a, UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE, NULL, &path,
						 c->now), 0);
}

/* Nothing to do for longer than a QP is watched. */
static void
crowd_rest(struct crowd *c)
{
	for (uint32_t i = 0; i < 1000; i++) {
		c->now += TP_WATCH_NS;
		transport_run(c->tp, c->now);
	}
}

static void
an_idle_qp_costs_at_most_2_kib(void **state)
{
	static const enum uroce_qp_type types[] = { UROCE_QPT_RC, UROCE_QPT_UC, UROCE_QPT_UD, UROCE_QPT_XRC_RECV };
	static struct crowd c;

	for (uint32_t cc = 0; cc < TP_CC_ALGORITHMS; cc++) {
		for (uint32_t t = 0; t < 2 * RTE_DIM(types); t++) {
			size_t before, each;

			crowd_up(&c, cc);
			before = mallinfo2().uordblks;
			for (uint32_t i = 0; i < 256; i++)
				crowd_add(&c, types[t / 2], t & 1);
			crowd_rest(&c);
			each = (mallinfo2().uordblks - before) / 256 + TABLE_BYTES + ENGINE_POINTER_BYTES;
			crowd_down(&c);
			/* A sanitizer's allocator doesn't say. */
			if (before == 0)
				continue;
			assert_true(each > sizeof(struct qp));
			if (each > IDLE_BYTES)
				fail_msg("QP type %u with congestion control %s: %zu bytes", types[t / 2], tp_cc_name(cc),
					 each);
		}
	}
}

static uint64_t
idle_turn_ns(struct crowd *c)
{
	uint64_t best = UINT64_MAX;

	for (uint32_t s = 0; s < IDLE_SAMPLES; s++) {
		struct timespec a, b;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		for (uint32_t i = 0; i < IDLE_TURNS; i++)
			transport_run(c->tp, c->now += 100);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		best = RTE_MIN(best, (uint64_t)((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec));
	}
	return best;
}

static void
an_idle_turn_does_not_feel_10000_idle_qps(void **state)
{
	static struct crowd c;
	uint64_t alone, crowded;

	crowd_up(&c, TP_CC_NONE);
	alone = idle_turn_ns(&c);
	for (uint32_t i = 0; i < IDLE_QPS; i++)
		crowd_add(&c, UROCE_QPT_RC, false);
	crowd_rest(&c);
	assert_int_equal(qp_table_count(c.qps), IDLE_QPS);
	/* Not only is nothing done for them: nothing is due. */
	assert_int_equal(transport_run(c.tp, c.now), 0);
	assert_int_equal(transport_next_timeout(c.tp), UINT64_MAX);
	crowded = idle_turn_ns(&c);
	/* Looking at each would cost a thousand times as much. */
	if (crowded > 3 * alone + 1000)
		fail_msg("%u idle turns: %lu ns with %u QPs, %lu ns without", IDLE_TURNS, (unsigned long)crowded, IDLE_QPS,
			 (unsigned long)alone);
	crowd_down(&c);
}

/* ---- Pools that are empty ---- */
static void
without_a_window_to_borrow_wqes_go_a_few_at_a_time(void **state)
{
	struct transport *tp;
	uint32_t windows;
	struct rig r;

	rig_up(&r, NULL, NULL);
	tp = r.p->h[0].tp;
	windows = tp->inflight_blocks.left;
	tp->inflight_blocks.left = 0;
	for (uint32_t i = 0; i < 60; i++) {
		if (i % 3 == 0)
			rig_read(&r, i, 64 * i, 64);
		else
			rig_write(&r, i, 64 * i, 3000);
	}
	pair_settle(r.p);
	for (uint32_t i = 0; i < 60; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->retransmitted_packets, 0);
	tp->inflight_blocks.left = windows;
	rig_down(&r);
}

/* The pool of SGE copies is that of host 1, whose SRQ's receives have 3 SGEs. */
static struct end_srq *
srq_rig(struct rig *r, uint32_t receives)
{
	struct ring_sge sge[3];
	struct end_srq *srq;

	rig_up(r, NULL, &(struct conn_opts){ .min_rnr_timer = 12 });
	end_free(r->b);
	srq = srq_new(&r->p->h[1], 64, 3);
	r->b = end_new(&r->p->h[1], &(struct end_opts){ .srq = srq });
	assert_int_equal(end_state(r->a, UROCE_QPS_RESET), 0);
	ends_connect(r->a, r->b, &(struct conn_opts){ .min_rnr_timer = 12 });
	for (uint32_t i = 0; i < receives; i++) {
		for (uint32_t k = 0; k < 3; k++)
			sge[k] = *SGE(r->bbuf + 6000 * i + 2000 * k, 2000, r->bmr);
		srq_post(srq, 100 + i, sge, 3);
	}
	return srq;
}

static void
srq_rig_down(struct rig *r, struct end_srq *srq)
{
	end_free(r->b);
	srq_free(&r->p->h[1], srq);
	r->b = end_new(&r->p->h[1], NULL);
	rig_down(r);
}

static void
without_a_copy_of_sges_a_send_waits_as_if_none_was_posted(void **state)
{
	struct end_srq *srq;
	struct transport *tp;
	uint32_t blocks;
	struct rig r;

	srq = srq_rig(&r, 2);
	tp = r.p->h[1].tp;
	blocks = tp->sge_blocks.left;
	assert_int_equal(blocks, TP_SGE_BLOCKS);
	tp->sge_blocks.left = 0;
	rig_send(&r, 1, 0, 5000);
	pair_settle(r.p);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(counters(&r, 1)->rnr_nak_sent, 1);
	assert_int_equal(counters(&r, 1)->srq_no_sges, 1);
	/* The receive is still there. */
	assert_int_equal(atomic_load(&srq->shared.head), 0);
	tp->sge_blocks.left = blocks;
	pair_advance(r.p, 2 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&r.b->rcq, 100, UROCE_WC_SUCCESS).byte_len, 5000);
	assert_memory_equal(r.abuf, r.bbuf, 5000);
	assert_int_equal(tp->sge_blocks.left, TP_SGE_BLOCKS);
	srq_rig_down(&r, srq);
}

static void
error_and_reset_give_the_copy_of_sges_back(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_SEND_LAST, .count = 1000 };
	struct end_srq *srq;
	struct transport *tp;
	struct rig r;

	for (uint32_t how = 0; how < 2; how++) {
		srq = srq_rig(&r, 1);
		tp = r.p->h[1].tp;
		r.p->lose = lose;
		r.p->lose_arg = &l;
		rig_send(&r, 1, 0, 5000);
		pair_settle(r.p);
		assert_int_equal(tp->sge_blocks.left, TP_SGE_BLOCKS - 1);
		assert_int_equal(end_state(r.b, how == 0 ? UROCE_QPS_ERR : UROCE_QPS_RESET), 0);
		pair_settle(r.p);
		if (how == 0)
			expect_cqe(&r.b->rcq, 100, UROCE_WC_WR_FLUSH_ERR);
		assert_int_equal(tp->sge_blocks.left, TP_SGE_BLOCKS);
		r.p->lose = NULL;
		srq_rig_down(&r, srq);
	}
}

static void
destroying_a_qp_gives_its_copy_of_sges_back(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_SEND_LAST, .count = 1000 };
	struct end_srq *srq;
	struct transport *tp;
	struct rig r;

	srq = srq_rig(&r, 1);
	tp = r.p->h[1].tp;
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_send(&r, 1, 0, 5000);
	pair_settle(r.p);
	assert_int_equal(tp->sge_blocks.left, TP_SGE_BLOCKS - 1);
	end_free(r.b);
	assert_int_equal(tp->sge_blocks.left, TP_SGE_BLOCKS);
	srq_free(&r.p->h[1], srq);
	r.b = end_new(&r.p->h[1], NULL);
	rig_down(&r);
}

/* A READ of all of b's buffer arrives there; its response takes many turns. Nothing leaves. */
static void
ask_for_all(struct rig *r)
{
	uint8_t reth[WIRE_RETH_BYTES];

	wire_put_reth(reth, ADDR(r->bbuf), r->bmr->key, BUF);
	r->p->stalled = true;
	pair_inject(r->p, r->b, &(struct wire_bth){ .opcode = WIRE_OP_READ_REQUEST, .psn = r->b->qp->rcv.epsn, .ackreq = true },
		    reth, sizeof(reth));
	host_turn(&r->p->h[1]);
	assert_true(r->b->qp->resp.pending != 0);
	assert_int_equal(r->p->h[1].tp->read_blocks.left, TP_READ_BLOCKS - 1);
}

static void
places_for_reads_are_lent_while_they_are_answered(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .sq_depth = 256, .cq_depth = 256 },
	       &(struct conn_opts){ .rd_atomic = UROCE_MAX_RD_ATOMIC, .dest_rd_atomic = UROCE_MAX_RD_ATOMIC });
	fill(r.bbuf, BUF, 2);
	for (uint32_t i = 0; i < 3 * UROCE_MAX_RD_ATOMIC; i++)
		rig_read(&r, i, 64 * i, 64);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 3 * UROCE_MAX_RD_ATOMIC; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 3 * UROCE_MAX_RD_ATOMIC * 64);
	assert_int_equal(r.p->h[1].tp->read_blocks.left, TP_READ_BLOCKS);
	rig_down(&r);
}

static void
without_a_place_for_reads_the_peer_waits_as_for_a_receive(void **state)
{
	struct transport *tp;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .min_rnr_timer = 12 });
	tp = r.p->h[1].tp;
	fill(r.bbuf, BUF, 2);
	tp->read_blocks.left = 0;
	/* The result of an atomic needs no more than what the QP has. */
	rig_fetch_add(&r, 0, 9000, 7);
	rig_read(&r, 1, 0, 5000);
	rig_write(&r, 2, 6000, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 0, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(counters(&r, 1)->read_no_places, 1);
	assert_int_equal(counters(&r, 1)->rnr_nak_sent, 1);
	assert_int_equal(counters(&r, 1)->rx_read_requests, 1);
	tp->read_blocks.left = TP_READ_BLOCKS;
	pair_advance(r.p, 2 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 5000);
	rig_down(&r);
}

static void
without_a_place_for_reads_a_duplicate_is_dropped_and_comes_again(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .count = 1 };
	struct transport *tp;
	struct rig r;

	rig_up(&r, NULL, NULL);
	tp = r.p->h[1].tp;
	fill(r.bbuf, BUF, 2);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_read(&r, 1, 0, 100);
	pair_settle(r.p);
	tp->read_blocks.left = 0;
	pair_advance(r.p, 100 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	assert_true(counters(&r, 1)->rx_duplicate_dropped >= 1);
	assert_int_equal(counters(&r, 1)->rnr_nak_sent, 0);
	tp->read_blocks.left = TP_READ_BLOCKS;
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 100);
	rig_down(&r);
}

static void
whoever_stops_answering_gives_places_for_reads_back(void **state)
{
	struct transport *tp;
	struct rig r;

	for (uint32_t how = 0; how < 3; how++) {
		rig_up(&r, NULL, NULL);
		tp = r.p->h[1].tp;
		ask_for_all(&r);
		if (how == 2) {
			end_free(r.b);
			r.b = end_new(&r.p->h[1], NULL);
		} else {
			assert_int_equal(end_state(r.b, how == 0 ? UROCE_QPS_ERR : UROCE_QPS_RESET), 0);
		}
		assert_int_equal(tp->read_blocks.left, TP_READ_BLOCKS);
		r.p->stalled = false;
		pair_settle(r.p);
		rig_down(&r);
	}
}

/* What it was to read is gone before all of it has been answered. */
static void
a_read_that_fails_midway_gives_its_place_back(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	ask_for_all(&r);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = NULL;
	r.p->stalled = false;
	pair_settle(r.p);
	assert_int_equal(r.b->qp->state, UROCE_QPS_ERR);
	assert_int_equal(counters(&r, 1)->resp_remote_access_errors, 1);
	assert_int_equal(r.p->h[1].tp->read_blocks.left, TP_READ_BLOCKS);
	rig_down(&r);
}

/* ---- What is read from a posted receive again and again ---- */
static void
a_receive_that_is_shortened_while_it_is_used_ends_in_error(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_SEND_LAST, .count = 1 };
	struct ring_rq_wqe *slot;
	struct rig r;

	rig_up(&r, NULL, NULL);
	slot = ring_slot(&r.b->rq, r.b->rq.counter);
	end_recv(r.b, 5, SGE(r.bbuf, 5000, r.bmr), 1);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_send(&r, 1, 0, 4000);
	pair_settle(r.p);
	slot->sge[0].length = 10;
	/* What is behind it in the slot is none of the receive's. */
	slot->sge[1] = *SGE(r.bbuf + 8192, 5000, r.bmr);
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.b->rcq, 5, UROCE_WC_LOC_LEN_ERR);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
	/* Not a byte beyond. */
	assert_int_equal(r.bbuf[5000], 0);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(r.bbuf[8192 + i], 0);
	rig_down(&r);
}

/* ---- Stored results ---- */
static void
a_duplicate_atomic_gets_the_newest_result_of_its_psn(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ATOMIC_ACK, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_fetch_add(&r, 1, 0, 7);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	/* 2^24 PSNs later. */
	r.b->qp->rcv.epsn = r.a->qp->req.psn_una = r.a->qp->req.psn_cur = r.a->qp->req.psn_max = r.a->qp->req.psn_next = 100;
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_fetch_add(&r, 2, 8, 7);
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)r.abuf, 0);
	assert_int_equal(*(uint64_t *)(r.abuf + 8), 7);
	assert_int_equal(*(uint64_t *)r.bbuf, 14);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_qp_costs_at_most_2_kib),
		cmocka_unit_test(an_idle_turn_does_not_feel_10000_idle_qps),
		cmocka_unit_test(without_a_window_to_borrow_wqes_go_a_few_at_a_time),
		cmocka_unit_test(without_a_copy_of_sges_a_send_waits_as_if_none_was_posted),
		cmocka_unit_test(error_and_reset_give_the_copy_of_sges_back),
		cmocka_unit_test(destroying_a_qp_gives_its_copy_of_sges_back),
		cmocka_unit_test(places_for_reads_are_lent_while_they_are_answered),
		cmocka_unit_test(without_a_place_for_reads_the_peer_waits_as_for_a_receive),
		cmocka_unit_test(without_a_place_for_reads_a_duplicate_is_dropped_and_comes_again),
		cmocka_unit_test(whoever_stops_answering_gives_places_for_reads_back),
		cmocka_unit_test(a_read_that_fails_midway_gives_its_place_back),
		cmocka_unit_test(a_receive_that_is_shortened_while_it_is_used_ends_in_error),
		cmocka_unit_test(a_duplicate_atomic_gets_the_newest_result_of_its_psn),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
