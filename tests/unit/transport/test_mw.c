/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows by work request: BIND_MW, LOCAL_INV and SEND_WITH_INV, in order, with their fences and failures. */
#include "rig.h"

#include "mem/mw.h"

/* A rig whose side b has an MR for windows and a window of each kind. */
struct mw_rig {
	struct rig r;
	struct mr *open;
	struct mw *mw1, *mw2;
};

static void
mw_up(struct mw_rig *m, const struct end_opts *eo, const struct conn_opts *co)
{
	rig_up(&m->r, eo, co);
	/* Only windows give peers any rights. */
	m->open = host_mr(&m->r.p->h[1], m->r.bbuf, BUF, UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_MW_BIND);
	assert_int_equal(mw_create(m->r.p->h[1].sh.mrs, PAIR_PD, MW_TYPE_1, &m->mw1), 0);
	assert_int_equal(mw_create(m->r.p->h[1].sh.mrs, PAIR_PD, MW_TYPE_2, &m->mw2), 0);
}

static void
mw_down(struct mw_rig *m)
{
	mw_destroy_bulk(m->r.p->h[1].sh.mrs, (struct mw *[]){ m->mw1, m->mw2 }, 2);
	assert_true(mr_retire(m->open));
	mr_destroy(m->r.p->h[1].sh.mrs, m->open);
	rig_down(&m->r);
}

/* Post a bind of [off, off + len) with the key's low byte @p low. @return the key. */
static uint32_t
bind(struct mw_rig *m, struct mw *mw, uint64_t id, uint8_t low, uint32_t off, uint32_t len, uint32_t access)
{
	uint32_t key = (mw_key(mw) & ~0xffu) | low;
	struct ring_bind b = { .length = len, .lkey = m->open->key, .access = access };
	struct wr wr = { .id = id, .op = UROCE_WR_BIND_MW, .remote_addr = ADDR(m->r.bbuf) + off, .rkey = key };

	static_assert(sizeof(b) == 16, "operands");
	memcpy(&wr.compare_add, &b, 8);
	memcpy(&wr.swap, (const uint8_t *)&b + 8, 8);
	end_send(m->r.b, &wr);
	return key;
}

static void
invalidate(struct end *e, uint64_t id, uint32_t key, uint8_t flags)
{
	end_send(e, &(struct wr){ .id = id, .op = UROCE_WR_LOCAL_INV, .imm = key, .flags = flags });
}

static void
write_through(struct mw_rig *m, uint64_t id, uint32_t key, uint32_t off, uint32_t len)
{
	end_send(m->r.a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(m->r.abuf + off, len, m->r.amr),
				       .nb_sge = 1, .remote_addr = ADDR(m->r.bbuf) + off, .rkey = key });
}

static void
read_through(struct mw_rig *m, uint64_t id, uint32_t key, uint32_t off, uint32_t len)
{
	end_send(m->r.a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_READ, .sge = SGE(m->r.abuf + off, len, m->r.amr),
				       .nb_sge = 1, .remote_addr = ADDR(m->r.bbuf) + off, .rkey = key });
}

static void
send_inv_with(struct mw_rig *m, uint64_t id, uint32_t key, uint32_t len, uint8_t flags)
{
	end_send(m->r.a, &(struct wr){ .id = id, .op = UROCE_WR_SEND_WITH_INV, .sge = SGE(m->r.abuf, len, m->r.amr),
				       .nb_sge = 1, .imm = key, .flags = flags });
}

static void
send_inv(struct mw_rig *m, uint64_t id, uint32_t key, uint32_t len)
{
	send_inv_with(m, id, key, len, 0);
}

static uint8_t
expect_refused(struct end *e, uint64_t id)
{
	union ring_cqe_ctl ctl;
	struct ring_cqe c;

	assert_true(cq_poll(&e->scq, &c, &ctl));
	assert_int_equal(c.wr_id, id);
	assert_int_equal(c.status, UROCE_WC_MW_BIND_ERR);
	return ctl.vendor_err;
}

#define RW (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ)

static void
bound_windows_carry_writes_reads_and_atomics(void **state)
{
	struct mw_rig m;
	struct ring_cqe c;
	uint32_t key;

	for (int type = 1; type <= 2; type++) {
		mw_up(&m, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
		key = bind(&m, type == 1 ? m.mw1 : m.mw2, 70, 0x33, 8192, 8192,
			   RW | UROCE_ACCESS_REMOTE_ATOMIC);
		pair_settle(m.r.p);
		c = expect_cqe(&m.r.b->scq, 70, UROCE_WC_SUCCESS);
		assert_int_equal(c.opcode, UROCE_WC_BIND_MW);
		write_through(&m, 1, key, 8192, 8192);
		pair_settle(m.r.p);
		expect_cqe(&m.r.a->scq, 1, UROCE_WC_SUCCESS);
		assert_memory_equal(m.r.bbuf + 8192, m.r.abuf + 8192, 8192);
		fill(m.r.bbuf, BUF, 9);
		read_through(&m, 2, key, 8200, 8000);
		end_send(m.r.a, &(struct wr){ .id = 3, .op = UROCE_WR_ATOMIC_FETCH_AND_ADD, .nb_sge = 1,
					      .sge = SGE(m.r.abuf, 8, m.r.amr), .compare_add = 1, .rkey = key,
					      .remote_addr = ADDR(m.r.bbuf) + 8192 });
		pair_settle(m.r.p);
		expect_cqe(&m.r.a->scq, 2, UROCE_WC_SUCCESS);
		expect_cqe(&m.r.a->scq, 3, UROCE_WC_SUCCESS);
		assert_memory_equal(m.r.bbuf + 8200, m.r.abuf + 8200, 8000);
		/* Nothing crossed the wire for the bind. */
		assert_int_equal(counters(&m.r, 1)->mw_binds, 1);
		write_through(&m, 4, key, 8191, 2);
		pair_settle(m.r.p);
		expect_cqe(&m.r.a->scq, 4, UROCE_WC_REM_ACCESS_ERR);
		mw_down(&m);
	}
}

static void
zero_based_window_is_addressed_from_zero(void **state)
{
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	key = bind(&m, m.mw2, 70, 1, 4096, 2000, RW | UROCE_ACCESS_ZERO_BASED);
	pair_settle(m.r.p);
	end_send(m.r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(m.r.abuf, 2000, m.r.amr),
				      .nb_sge = 1, .remote_addr = 0, .rkey = key });
	pair_settle(m.r.p);
	expect_cqe(&m.r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(m.r.bbuf + 4096, m.r.abuf, 2000);
	assert_int_equal(m.r.bbuf[4095] | m.r.bbuf[6096], 0);
	end_send(m.r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_READ, .sge = SGE(m.r.abuf + 10000, 1000, m.r.amr),
				      .nb_sge = 1, .remote_addr = 1000, .rkey = key });
	pair_settle(m.r.p);
	expect_cqe(&m.r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(m.r.abuf + 10000, m.r.abuf + 1000, 1000);
	mw_down(&m);
}

/* Binds, and what is posted around them, take effect in the order in which they were posted. */
static void
bind_takes_its_place_in_the_order_of_the_queue(void **state)
{
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	end_recv(m.r.a, 50, SGE(m.r.abuf + 1000, 4000, m.r.amr), 1);
	end_recv(m.r.a, 51, SGE(m.r.abuf + 9000, 4000, m.r.amr), 1);
	/* The first SEND and the bind are posted together; the bind may not be done before the SEND is acknowledged. */
	end_send(m.r.b, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(m.r.bbuf, 4000, m.r.bmr), .nb_sge = 1 });
	key = bind(&m, m.mw1, 2, 5, 0, 4096, RW);
	end_send(m.r.b, &(struct wr){ .id = 3, .op = UROCE_WR_SEND, .sge = SGE(m.r.bbuf, 4000, m.r.bmr), .nb_sge = 1 });
	host_turn(&m.r.p->h[1]);
	expect_no_cqe(&m.r.b->scq);
	assert_int_not_equal(mw_key(m.mw1), key);
	assert_int_equal(transport_tx(m.r.p->h[1].tp, 0)->n, 16);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&m.r.b->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&m.r.b->scq, 3, UROCE_WC_SUCCESS);
	assert_int_equal(mw_key(m.mw1), key);
	expect_cqe(&m.r.a->rcq, 50, UROCE_WC_SUCCESS);
	expect_cqe(&m.r.a->rcq, 51, UROCE_WC_SUCCESS);
	mw_down(&m);
}

/* A bind has no PSN: a retransmission around it neither skips a packet nor binds again. */
static void
losses_around_a_bind_dont_repeat_it(void **state)
{
	struct loss l = { .from = 1, .opcode = -1, .nth = 0, .count = 2 };
	struct mw_rig m;

	mw_up(&m, NULL, NULL);
	m.r.p->lose = lose;
	m.r.p->lose_arg = &l;
	for (uint32_t i = 0; i < 6; i++) {
		end_send(m.r.b, &(struct wr){ .id = 10 + i, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1,
					      .sge = SGE(m.r.bbuf, 100, m.r.bmr), .remote_addr = ADDR(m.r.abuf),
					      .rkey = m.r.amr->key });
		bind(&m, m.mw1, 20 + i, (uint8_t)i, 0, 100, RW);
	}
	for (uint32_t i = 0; i < 6; i++) {
		/* Each WRITE waits for the bind before it, so its loss is found by the timer. */
		pair_advance(m.r.p, (uint64_t)1000 * PAIR_MS);
		l.nth = l.seen + 1;
	}
	for (uint32_t i = 0; i < 6; i++) {
		expect_cqe(&m.r.b->scq, 10 + i, UROCE_WC_SUCCESS);
		expect_cqe(&m.r.b->scq, 20 + i, UROCE_WC_SUCCESS);
	}
	assert_int_equal(counters(&m.r, 1)->mw_binds, 6);
	assert_true(counters(&m.r, 1)->retransmitted_packets > 0);
	assert_int_equal(counters(&m.r, 0)->rx_write_requests, 6);
	mw_down(&m);
}

static void
refused_bind_completes_with_mw_bind_err_and_flushes_what_follows(void **state)
{
	struct mw_rig m;

	mw_up(&m, NULL, NULL);
	bind(&m, m.mw2, 1, 1, 0, 100, RW);
	/* o10-37.2.30: it is bound already. */
	bind(&m, m.mw2, 2, 2, 0, 100, RW);
	bind(&m, m.mw1, 3, 3, 0, 100, RW);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(expect_refused(m.r.b, 2), TP_VERR_MW);
	expect_cqe(&m.r.b->scq, 3, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(m.r.b->qp), UROCE_QPS_ERR);
	assert_int_equal(counters(&m.r, 1)->req_mw_errors, 1);
	assert_int_equal(counters(&m.r, 1)->mw_binds, 1);
	mw_down(&m);
}

static void
local_invalidate_makes_the_key_stale(void **state)
{
	struct mw_rig m;
	struct ring_cqe c;
	uint32_t key;

	mw_up(&m, NULL, NULL);
	key = bind(&m, m.mw2, 1, 1, 0, 100, RW);
	invalidate(m.r.b, 2, key, 0);
	bind(&m, m.mw2, 3, 2, 0, 100, RW);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 1, UROCE_WC_SUCCESS);
	c = expect_cqe(&m.r.b->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(c.opcode, UROCE_WC_LOCAL_INV);
	expect_cqe(&m.r.b->scq, 3, UROCE_WC_SUCCESS);
	write_through(&m, 4, key, 0, 100);
	pair_settle(m.r.p);
	expect_cqe(&m.r.a->scq, 4, UROCE_WC_REM_ACCESS_ERR);
	assert_int_equal(counters(&m.r, 1)->local_invalidates, 1);
	mw_down(&m);
}

/* 10.6.5.1: with or without the fence flag. */
static void
local_invalidate_waits_for_everything_before_it(void **state)
{
	struct mw_rig m;
	uint32_t key;

	for (int fence = 0; fence < 2; fence++) {
		mw_up(&m, NULL, NULL);
		key = bind(&m, m.mw2, 1, 1, 0, 100, RW);
		pair_settle(m.r.p);
		end_send(m.r.b, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_READ, .sge = SGE(m.r.bbuf, 100, m.r.bmr),
					      .nb_sge = 1, .remote_addr = ADDR(m.r.abuf), .rkey = m.r.amr->key });
		invalidate(m.r.b, 3, key, fence ? UROCE_SEND_FENCE : 0);
		host_turn(&m.r.p->h[1]);
		host_turn(&m.r.p->h[1]);
		assert_int_equal(counters(&m.r, 1)->local_invalidates, 0);
		pair_settle(m.r.p);
		assert_int_equal(counters(&m.r, 1)->local_invalidates, 1);
		for (uint64_t id = 1; id <= 3; id++)
			expect_cqe(&m.r.b->scq, id, UROCE_WC_SUCCESS);
		mw_down(&m);
	}
}

static void
local_invalidate_of_anything_else_is_refused(void **state)
{
	for (int what = 0; what < 4; what++) {
		struct mw_rig m;
		uint32_t key = 0;

		mw_up(&m, NULL, NULL);
		if (what == 1)
			key = m.r.bmr->key;
		else if (what == 2)
			key = mw_key(m.mw2);
		else if (what == 3)
			key = bind(&m, m.mw1, 0, 1, 0, 100, RW);
		invalidate(m.r.b, 1, key, 0);
		pair_settle(m.r.p);
		if (what == 3)
			expect_cqe(&m.r.b->scq, 0, UROCE_WC_SUCCESS);
		assert_int_equal(expect_refused(m.r.b, 1), TP_VERR_MW);
		assert_non_null(mr_get(m.r.p->h[1].sh.mrs, m.r.bmr->key));
		mw_down(&m);
	}
}

static void
unsignalled_local_work_completes_silently(void **state)
{
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, NULL, NULL);
	key = bind(&m, m.mw2, 1, 1, 0, 100, RW);
	end_send(m.r.b, &(struct wr){ .id = 2, .op = UROCE_WR_LOCAL_INV, .imm = key, .unsignaled = true });
	bind(&m, m.mw2, 3, 2, 0, 100, RW);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&m.r.b->scq, 3, UROCE_WC_SUCCESS);
	mw_down(&m);
}

static void
send_with_inv_invalidates_and_says_so(void **state)
{
	for (uint32_t len = 100; len <= 3000; len += 2900) {
		union ring_cqe_ctl ctl;
		struct ring_cqe c;
		struct mw_rig m;
		uint32_t key;

		mw_up(&m, NULL, NULL);
		key = bind(&m, m.mw2, 70, 0x42, 0, 4096, RW);
		end_recv(m.r.b, 50, SGE(m.r.bbuf + 8192, 4000, m.r.bmr), 1);
		pair_settle(m.r.p);
		send_inv(&m, 1, key, len);
		pair_settle(m.r.p);
		expect_cqe(&m.r.a->scq, 1, UROCE_WC_SUCCESS);
		assert_true(cq_poll(&m.r.b->rcq, &c, &ctl));
		assert_int_equal(c.status, UROCE_WC_SUCCESS);
		assert_int_equal(c.opcode, UROCE_WC_RECV);
		assert_int_equal(c.byte_len, len);
		assert_int_equal(ctl.wc_flags, UROCE_WC_WITH_INV);
		assert_int_equal(c.imm, key);
		assert_memory_equal(m.r.bbuf + 8192, m.r.abuf, len);
		assert_int_equal(pair_count(m.r.p, 0, len == 100 ? WIRE_OP_SEND_ONLY_INV : WIRE_OP_SEND_LAST_INV), 1);
		assert_int_equal(counters(&m.r, 1)->rx_invalidate_requests, 1);
		write_through(&m, 2, key, 0, 100);
		pair_settle(m.r.p);
		expect_cqe(&m.r.a->scq, 2, UROCE_WC_REM_ACCESS_ERR);
		mw_down(&m);
	}
}

static void
duplicate_send_with_inv_invalidates_once(void **state)
{
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, NULL, NULL);
	key = bind(&m, m.mw2, 70, 0x42, 0, 4096, RW);
	end_recv(m.r.b, 50, SGE(m.r.bbuf, 4000, m.r.bmr), 1);
	pair_settle(m.r.p);
	m.r.p->duplicate = true;
	send_inv(&m, 1, key, 100);
	pair_settle(m.r.p);
	expect_cqe(&m.r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(qp_state(m.r.b->qp), UROCE_QPS_RTS);
	assert_int_equal(counters(&m.r, 1)->rx_invalidate_requests, 1);
	mw_down(&m);
}

/* Class J (9.9.3): the peer is told nothing, neither ACK nor NAK. */
static void
failed_invalidation_ends_the_responder_in_silence(void **state)
{
	for (int what = 0; what < 3; what++) {
		union ring_cqe_ctl ctl;
		struct ring_cqe c;
		struct mw_rig m;
		uint32_t key;

		mw_up(&m, NULL, &(struct conn_opts){ .retry_cnt = 1 });
		end_recv(m.r.b, 50, SGE(m.r.bbuf, 4000, m.r.bmr), 1);
		end_recv(m.r.b, 51, SGE(m.r.bbuf, 4000, m.r.bmr), 1);
		/* An MR's key; a type 1 window; a type 2 window that isn't bound. */
		key = what == 0 ? m.r.bmr->key : what == 1 ? bind(&m, m.mw1, 70, 1, 0, 100, RW) : mw_key(m.mw2);
		pair_settle(m.r.p);
		m.r.p->nb_log = 0;
		send_inv(&m, 1, key, 100);
		pair_settle(m.r.p);
		assert_int_equal(pair_count(m.r.p, 1, -1), 0);
		assert_true(cq_poll(&m.r.b->rcq, &c, &ctl));
		assert_int_equal(c.wr_id, 50);
		assert_int_equal(c.status, UROCE_WC_REM_INV_REQ_ERR);
		assert_int_equal(ctl.vendor_err, TP_VERR_MW);
		assert_int_equal(ctl.wc_flags, 0);
		expect_cqe(&m.r.b->rcq, 51, UROCE_WC_WR_FLUSH_ERR);
		assert_int_equal(qp_state(m.r.b->qp), UROCE_QPS_ERR);
		assert_int_equal(counters(&m.r, 1)->resp_invalidate_errors, 1);
		assert_int_equal(counters(&m.r, 1)->rx_invalidate_requests, 0);
		/* What the key stands for is as it was. */
		assert_non_null(mr_get(m.r.p->h[1].sh.mrs, m.r.bmr->key));
		pair_advance(m.r.p, (uint64_t)1000 * PAIR_MS);
		expect_cqe(&m.r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
		mw_down(&m);
	}
}

/* 9.4.1.1.3: a READ posted before it without a fence is answered in full. */
static void
send_with_inv_comes_after_the_reads_before_it(void **state)
{
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	fill(m.r.bbuf, BUF, 5);
	key = bind(&m, m.mw2, 70, 1, 0, BUF, RW);
	end_recv(m.r.b, 50, SGE(m.r.bbuf + BUF / 2, 4000, m.r.bmr), 1);
	pair_settle(m.r.p);
	for (uint32_t i = 0; i < 4; i++)
		read_through(&m, i, key, 100 + i * 8000, 8000);
	send_inv(&m, 4, key, 100);
	/* All requests arrive in one burst, before the first response is made. */
	pair_settle(m.r.p);
	for (uint32_t i = 0; i < 5; i++)
		expect_cqe(&m.r.a->scq, i, UROCE_WC_SUCCESS);
	assert_memory_equal(m.r.abuf + 100, m.r.bbuf + 100, 32000);
	expect_cqe(&m.r.b->rcq, 50, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&m.r, 1)->resp_remote_access_errors, 0);
	mw_down(&m);
}

static void
invalidation_in_the_middle_of_a_write_stops_it(void **state)
{
	struct mw_rig m;
	struct tp_txvec *v;
	uint32_t key;

	mw_up(&m, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	key = bind(&m, m.mw2, 70, 1, 0, 65536, RW);
	pair_settle(m.r.p);
	write_through(&m, 1, key, 0, 60000);
	host_turn(&m.r.p->h[0]);
	v = transport_tx(m.r.p->h[0].tp, 0);
	assert_int_equal(transport_rx(m.r.p->h[1].tp, 0, v->pkts, v->n, false, m.r.p->now), 0);
	v->n = 0;
	invalidate(m.r.b, 71, key, 0);
	pair_settle(m.r.p);
	expect_cqe(&m.r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	assert_int_equal(m.r.bbuf[59999], 0);
	mw_down(&m);
}

static void
type_2b_window_is_refused_to_another_qp(void **state)
{
	struct end *a2, *b2;
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, NULL, NULL);
	a2 = end_new(&m.r.p->h[0], NULL);
	b2 = end_new(&m.r.p->h[1], NULL);
	ends_connect(a2, b2, NULL);
	key = bind(&m, m.mw2, 70, 1, 0, 4096, RW);
	pair_settle(m.r.p);
	end_send(a2, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(m.r.abuf, 10, m.r.amr), .nb_sge = 1,
				   .remote_addr = ADDR(m.r.bbuf), .rkey = key });
	write_through(&m, 2, key, 0, 10);
	pair_settle(m.r.p);
	expect_cqe(&a2->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	expect_cqe(&m.r.a->scq, 2, UROCE_WC_SUCCESS);
	end_free(a2);
	end_free(b2);
	mw_down(&m);
}

static void
uc_binds_and_invalidates_but_has_no_send_with_inv(void **state)
{
	struct mw_rig m;
	uint32_t key;

	mw_up(&m, &(struct end_opts){ .type = UROCE_QPT_UC }, NULL);
	key = bind(&m, m.mw2, 70, 1, 0, 4096, UROCE_ACCESS_REMOTE_WRITE);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 70, UROCE_WC_SUCCESS);
	write_through(&m, 1, key, 0, 4000);
	pair_settle(m.r.p);
	assert_memory_equal(m.r.bbuf, m.r.abuf, 4000);
	invalidate(m.r.b, 71, key, 0);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 71, UROCE_WC_SUCCESS);
	write_through(&m, 2, key, 4000, 10);
	send_inv(&m, 3, key, 10);
	pair_settle(m.r.p);
	assert_int_equal(m.r.bbuf[4000], 0);
	assert_int_equal(counters(&m.r, 1)->resp_remote_access_errors, 1);
	expect_cqe(&m.r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&m.r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&m.r.a->scq, 3, UROCE_WC_LOC_QP_OP_ERR);
	mw_down(&m);
}

/* SQD gives a bind back that hasn't begun, and RTS goes on with it. */
static void
bind_behind_a_drain_waits_for_rts(void **state)
{
	struct mw_rig m;

	mw_up(&m, NULL, NULL);
	end_send(m.r.b, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(m.r.bbuf, 100, m.r.bmr),
				      .nb_sge = 1, .remote_addr = ADDR(m.r.abuf), .rkey = m.r.amr->key });
	bind(&m, m.mw1, 2, 1, 0, 100, RW);
	host_turn(&m.r.p->h[1]);
	assert_int_equal(end_state(m.r.b, UROCE_QPS_SQD), 0);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 1, UROCE_WC_SUCCESS);
	expect_no_cqe(&m.r.b->scq);
	assert_int_equal(end_state(m.r.b, UROCE_QPS_RTS), 0);
	pair_settle(m.r.p);
	expect_cqe(&m.r.b->scq, 2, UROCE_WC_SUCCESS);
	mw_down(&m);
}

static bool
lose_some(struct pair *p, const struct note *n, void *arg)
{
	uint32_t *seed = arg;

	(void)p;
	(void)n;
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 24 < 26;
}

/* A window's whole life, again and again, over a link that loses a tenth and doubles the rest. */
static void
windows_live_through_loss_and_duplication(void **state)
{
	for (uint32_t seed = 1; seed <= 5; seed++) {
		uint32_t rng = seed, key, rounds = 60;
		union ring_cqe_ctl ctl;
		struct mw_rig m;
		struct ring_cqe c;

		mw_up(&m, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256, .timeout = 8 });
		m.r.p->lose = lose_some;
		m.r.p->lose_arg = &rng;
		m.r.p->duplicate = true;
		for (uint32_t i = 0; i < rounds; i++) {
			key = bind(&m, m.mw2, 1, (uint8_t)(i * 37), 4096, 8192, RW);
			end_recv(m.r.b, 2, SGE(m.r.bbuf + 65536, 1000, m.r.bmr), 1);
			pair_settle(m.r.p);
			expect_cqe(&m.r.b->scq, 1, UROCE_WC_SUCCESS);
			fill(m.r.abuf, 16384, seed * 1000 + i);
			write_through(&m, 3, key, 4096, 8192);
			read_through(&m, 4, key, 4096, 3000);
			/* Fenced: a READ whose response got lost has to be asked for again, through the same key. */
			send_inv_with(&m, 5, key, 1000, UROCE_SEND_FENCE);
			pair_advance(m.r.p, (uint64_t)2000 * PAIR_MS);
			for (uint64_t id = 3; id <= 5; id++)
				expect_cqe(&m.r.a->scq, id, UROCE_WC_SUCCESS);
			assert_true(cq_poll(&m.r.b->rcq, &c, &ctl));
			assert_int_equal(c.status, UROCE_WC_SUCCESS);
			assert_true(c.imm == key && ctl.wc_flags == UROCE_WC_WITH_INV);
			assert_memory_equal(m.r.bbuf + 4096, m.r.abuf + 4096, 8192);
			assert_memory_equal(m.r.bbuf + 65536, m.r.abuf, 1000);
		}
		assert_int_equal(counters(&m.r, 1)->rx_invalidate_requests, rounds);
		assert_int_equal(counters(&m.r, 1)->mw_binds, rounds);
		assert_true(counters(&m.r, 0)->retransmitted_packets > rounds);
		mw_down(&m);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bound_windows_carry_writes_reads_and_atomics),
		cmocka_unit_test(zero_based_window_is_addressed_from_zero),
		cmocka_unit_test(bind_takes_its_place_in_the_order_of_the_queue),
		cmocka_unit_test(losses_around_a_bind_dont_repeat_it),
		cmocka_unit_test(refused_bind_completes_with_mw_bind_err_and_flushes_what_follows),
		cmocka_unit_test(local_invalidate_makes_the_key_stale),
		cmocka_unit_test(local_invalidate_waits_for_everything_before_it),
		cmocka_unit_test(local_invalidate_of_anything_else_is_refused),
		cmocka_unit_test(unsignalled_local_work_completes_silently),
		cmocka_unit_test(send_with_inv_invalidates_and_says_so),
		cmocka_unit_test(duplicate_send_with_inv_invalidates_once),
		cmocka_unit_test(failed_invalidation_ends_the_responder_in_silence),
		cmocka_unit_test(send_with_inv_comes_after_the_reads_before_it),
		cmocka_unit_test(invalidation_in_the_middle_of_a_write_stops_it),
		cmocka_unit_test(type_2b_window_is_refused_to_another_qp),
		cmocka_unit_test(uc_binds_and_invalidates_but_has_no_send_with_inv),
		cmocka_unit_test(bind_behind_a_drain_waits_for_rts),
		cmocka_unit_test(windows_live_through_loss_and_duplication),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
