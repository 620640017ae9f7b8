/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/post.c: work requests and receives, against the engine's end of the rings, played here. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bed.h"

static void
a_write_fills_its_slot(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 8, 1 }, { 0x2000, 16, 2 } };
	struct ibv_send_wr wr = write_wr(sge, 2), *bad;
	struct ring_sq_wqe *w;
	union ring_sq_ctl ctl;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	assert_false(ring_sq_ready(&b.e_sq, 0));
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(ring_sq_ready(&b.e_sq, 0));
	assert_false(ring_sq_ready(&b.e_sq, 1));
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_true(w->wr_id == 0x1122334455667788);
	assert_true(w->remote_addr == 0xdeadbeef000);
	assert_int_equal(w->rkey, 0x77);
	assert_int_equal(ctl.opcode, UROCE_WR_RDMA_WRITE);
	assert_int_equal(ctl.flags, UROCE_SEND_SIGNALED);
	assert_int_equal(ctl.count, 2);
	assert_memory_equal(w + 1, sge, sizeof(sge));
	/* The engine was looking: nobody was woken. */
	assert_false(bell_rung(&b));
	assert_false(kicked(&b));
	bed_fini(&b);
}

static void
atomics_have_operands_before_their_sge(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = 64, .compare_add = 5, .swap = 6, .rkey = 7 },
	}, *bad;
	struct ring_sq_wqe *w;
	struct ring_atomic *a;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 0);
	a = (struct ring_atomic *)(w + 1);
	assert_true(w->remote_addr == 64 && w->rkey == 7 && a->compare_add == 5 && a->swap == 6);
	assert_memory_equal(a + 1, &sge, sizeof(sge));
	bed_fini(&b);
}

/* man ibv_post_send, ibv_bind_mw: what is bound, with which rights, under which key. */
static void
binds_and_invalidations_fill_their_slots(void **state)
{
	struct ibv_pd pd = { .handle = 1 }, other = { .handle = 2 };
	struct ibv_mr mr = { .pd = &pd, .lkey = 0x123 };
	struct ibv_mw mw = { .pd = &pd, .rkey = 0x4ff, .type = IBV_MW_TYPE_1 };
	struct ibv_mw_bind_info info = { .mr = &mr, .addr = 0x1000, .length = 50,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_mw_bind bind = { .wr_id = 8, .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x456, .num_sge = 1 }, *bad;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct ring_bind *op;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	b.qp.qp.qp_base.pd = &pd;
	mw.context = b.qp.qp.qp_base.context = &b.ctx.v.context;
	b.ctx.v.context.ops.bind_mw = client_bind_mw;
	b.ctx.v.context.ops.post_send = client_post_send;
	assert_int_equal(ibv_bind_mw(&b.qp.qp.qp_base, &mw, &bind), 0);
	/* The 8 bits wrap, the index stays. */
	assert_int_equal(mw.rkey, 0x400);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	op = (struct ring_bind *)(w + 1);
	assert_true(ctl.opcode == UROCE_WR_BIND_MW && ctl.count == 0 && ctl.flags == UROCE_SEND_SIGNALED);
	assert_true(w->wr_id == 8 && w->rkey == 0x400 && w->remote_addr == 0x1000);
	assert_true(op->length == 50 && op->lkey == 0x123 && op->access == UROCE_ACCESS_REMOTE_READ);
	/* Refused: rights that a type 1 window can't have, another PD; the key stays. */
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(ibv_bind_mw(&b.qp.qp.qp_base, &mw, &bind), EINVAL);
	bind.bind_info = info;
	b.qp.qp.qp_base.pd = &other;
	assert_int_equal(ibv_bind_mw(&b.qp.qp.qp_base, &mw, &bind), EPERM);
	assert_int_equal(mw.rkey, 0x400);
	assert_false(ring_sq_ready(&b.e_sq, 1));
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 1);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_LOCAL_INV && ctl.count == 0 && w->imm == 0x456);
	/* A type 2 window: its index, and any low byte; zero based too. */
	mw.type = IBV_MW_TYPE_2;
	info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED;
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW, .bind_mw = { &mw, 0x4aa, info } };
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(((struct ring_sq_wqe *)ring_slot(&b.e_sq, 2))->rkey, 0x4aa);
	assert_int_equal(mw.rkey, 0x400);
	wr.bind_mw.rkey = 0x5aa;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.bind_mw.rkey = 0x4aa;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.bind_mw.bind_info.mw_access_flags = 0;
	wr.bind_mw.bind_info.mr = NULL;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.bind_mw.bind_info.mr = &mr;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	bed_fini(&b);
}

static void
inline_data_is_gathered_into_the_slot(void **state)
{
	char x[] = "hello, ", y[] = "world";
	struct ibv_sge sge[2] = { { (uintptr_t)x, 7, 0 }, { (uintptr_t)y, 6, 0 } };
	struct ibv_send_wr wr = write_wr(sge, 2), *bad;
	struct ring_sq_wqe *w;
	union ring_sq_ctl ctl;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_int_equal(ctl.count, 13);
	assert_string_equal((char *)(w + 1), "hello, world");
	bed_fini(&b);
}

static void
ud_carries_its_address_handle(void **state)
{
	struct ibv_ah ah = { .handle = 17 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .wr.ud = { .ah = &ah, .remote_qpn = 0x1234, .remote_qkey = 0x11111111 } },
			   *bad = NULL;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_UD);
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 0);
	assert_true(w->remote_addr == (17 | UINT64_C(0x1234) << 32));
	assert_int_equal(w->rkey, 0x11111111);
	wr.wr.ud.ah = NULL;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.wr.ud.ah = &ah;
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	bed_fini(&b);
}

/* Posts one good WR and @p wr behind it; the good one must stand. */
static void
assert_refused(struct ibv_send_wr *wr, int error)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr good = write_wr(&sge, 1), *bad = NULL;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	good.next = wr;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &good, &bad), error);
	assert_ptr_equal(bad, wr);
	assert_true(ring_sq_ready(&b.e_sq, 0));
	assert_false(ring_sq_ready(&b.e_sq, 1));
	assert_int_equal(b.qp.sq.counter, 1);
	bed_fini(&b);
}

static void
bad_work_requests_are_refused_where_they_stand(void **state)
{
	uint8_t buf[MAX_INLINE + 1] = { 0 };
	struct ibv_sge sge[MAX_SGE + 1] = { { (uintptr_t)buf, sizeof(buf), 1 } };
	struct ibv_send_wr wr = write_wr(sge, MAX_SGE + 1);

	assert_refused(&wr, EINVAL);
	wr.num_sge = -1;
	assert_refused(&wr, EINVAL);
	wr.num_sge = 1;
	wr.opcode = 77;
	assert_refused(&wr, EINVAL);
	wr.opcode = IBV_WR_TSO;
	assert_refused(&wr, EINVAL);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_INLINE;
	sge[0].length = 4;
	assert_refused(&wr, EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge[0].length = sizeof(buf);
	assert_refused(&wr, EINVAL);
	/* The sum of the lengths doesn't wrap. */
	sge[0].length = 4;
	sge[1] = (struct ibv_sge){ (uintptr_t)buf, UINT32_MAX - 2, 1 };
	wr.num_sge = 2;
	assert_refused(&wr, EINVAL);
}

static void
states_before_rts_refuse_and_later_ones_take(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_recv_wr rr = { .sg_list = &sge, .num_sge = 1 }, *bad_rr;
	struct bed b;

	for (uint32_t s = 0; s < UROCE_QPS_STATES; s++) {
		bed_init(&b, IBV_QPT_RC);
		b.qp_shared.state = s;
		bad = NULL;
		bad_rr = NULL;
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), s < UROCE_QPS_RTS ? EINVAL : 0);
		assert_ptr_equal(bad, s < UROCE_QPS_RTS ? &wr : NULL);
		assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &rr, &bad_rr), s == UROCE_QPS_RESET ? EINVAL : 0);
		bed_fini(&b);
	}
}

static void
a_full_queue_is_enomem_until_completions_are_polled(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_wc wc[8];
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	for (uint32_t lap = 0; lap < 40; lap++) {
		for (int i = 0; i < SQ_WR; i++)
			assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		/* A completion stands for all WQEs up to its own. */
		for (int i = 0; i < SQ_WR; i++)
			assert_true(ring_sq_ready(&b.e_sq, b.e_sq.counter++));
		complete(&b, b.e_sq.counter - 3, 1, false);
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 1);
		for (int i = 0; i < SQ_WR - 2; i++)
			assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		for (int i = 0; i < SQ_WR - 2; i++)
			assert_true(ring_sq_ready(&b.e_sq, b.e_sq.counter++));
		assert_false(ring_sq_ready(&b.e_sq, b.e_sq.counter));
		complete(&b, b.e_sq.counter - 1, 2, false);
		assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 1);
	}
	bed_fini(&b);
}

static void
slots_are_counted_right_beyond_65536_work_requests(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	for (uint32_t i = 0; i < 200000; i++) {
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		complete(&b, i, i, false);
		assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
		assert_true(wc.wr_id == i);
	}
	assert_int_equal(b.qp.sq_tail, 200000);
	bed_fini(&b);
}

static void
a_cold_engine_is_rung_and_a_sleeping_one_woken(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	b.qp_shared.sq_watch = 0;
	b.db->hot = 1;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(bell_rung(&b));
	assert_true(b.db->mid[4321 >> 12] & UINT64_C(1) << (4321 >> 6 & 63));
	assert_true(b.db->top & UINT64_C(1) << (4321 >> 12));
	assert_false(kicked(&b));
	b.db->hot = 0;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(kicked(&b));
	bed_fini(&b);
}

static void
receives_are_posted_and_freed_by_their_completions(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 8, 1 }, { 0x3000, 9, 2 } };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = sge, .num_sge = 2 }, *bad;
	struct ring_rq_wqe *w;
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	for (int i = 0; i < 1 << RQ_ORDER; i++)
		assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	assert_true(ring_rq_ready(&b.e_rq, 0));
	w = ring_slot(&b.e_rq, 0);
	assert_true(w->wr_id == 5);
	assert_memory_equal(w->sge, sge, sizeof(sge));
	assert_false(bell_rung(&b));
	complete(&b, 0, 5, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	/* A QP that flushes wants to be told. */
	b.qp_shared.rq_watch = 0;
	assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(bell_rung(&b));
	wr.num_sge = MAX_SGE + 1;
	complete(&b, 1, 5, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	bed_fini(&b);
}

/* ---- a real engine thread on the other end ---- */

enum { RACE_WRS = 200000 };

static void *
race_engine(void *arg)
{
	struct bed *b = arg;

	for (uint32_t i = 0; i < RACE_WRS; i++) {
		struct ring_sq_wqe *w = ring_slot(&b->e_sq, i);

		while (!ring_sq_ready(&b->e_sq, i))
			sched_yield();
		if (w->wr_id != i || w->remote_addr != i * 3ull)
			return (void *)1;
		while (b->e_cq.counter - b->cq_shared.cons == 1u << CQ_ORDER)
			sched_yield();
		complete(b, i, i, false);
	}
	return NULL;
}

static void
posting_and_polling_race_with_an_engine(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_wc wc[4];
	uint32_t posted = 0, done = 0;
	struct bed b;
	pthread_t t;
	void *result;

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(pthread_create(&t, NULL, race_engine, &b), 0);
	while (done < RACE_WRS) {
		int n;

		wr.wr_id = posted;
		wr.wr.rdma.remote_addr = posted * 3ull;
		if (posted < RACE_WRS && !client_post_send(&b.qp.qp.qp_base, &wr, &bad))
			posted++;
		else
			sched_yield();
		n = client_poll_cq(&b.cq.cq, 4, wc);
		for (int i = 0; i < n; i++)
			assert_int_equal(wc[i].wr_id, done++);
	}
	pthread_join(t, &result);
	assert_null(result);
	bed_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_fills_its_slot),
		cmocka_unit_test(atomics_have_operands_before_their_sge),
		cmocka_unit_test(binds_and_invalidations_fill_their_slots),
		cmocka_unit_test(inline_data_is_gathered_into_the_slot),
		cmocka_unit_test(ud_carries_its_address_handle),
		cmocka_unit_test(bad_work_requests_are_refused_where_they_stand),
		cmocka_unit_test(states_before_rts_refuse_and_later_ones_take),
		cmocka_unit_test(a_full_queue_is_enomem_until_completions_are_polled),
		cmocka_unit_test(slots_are_counted_right_beyond_65536_work_requests),
		cmocka_unit_test(a_cold_engine_is_rung_and_a_sleeping_one_woken),
		cmocka_unit_test(receives_are_posted_and_freed_by_their_completions),
		cmocka_unit_test(posting_and_polling_race_with_an_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
