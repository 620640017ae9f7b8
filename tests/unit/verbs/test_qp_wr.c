/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/qp_wr.c: work requests built in place, against the engine's end of the rings, played here. */
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
builders_bind_invalidate_and_write_atomically(void **state)
{
	struct ibv_mr mr = { .lkey = 0x123 };
	struct ibv_mw mw = { .rkey = 0x4ff, .type = IBV_MW_TYPE_2 };
	struct ibv_mw_bind_info info = { .mr = &mr, .addr = 0x1000, .length = 50, .mw_access_flags = 1 << 1 };
	struct ibv_qp_ex *q;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	q = &b.qp.qp;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UD, IBV_QP_EX_WITH_BIND_MW), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC,
						IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
							IBV_QP_EX_WITH_SEND_WITH_INV |
							IBV_QP_EX_WITH_ATOMIC_WRITE), 0);
	ibv_wr_start(q);
	ibv_wr_bind_mw(q, &mw, ibv_inc_rkey(mw.rkey), &info);
	ibv_wr_local_inv(q, 0x400);
	ibv_wr_send_inv(q, 0x77);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_atomic_write(q, 0x88, 0x2000, "abcdefg");
	assert_int_equal(ibv_wr_complete(q), 0);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_BIND_MW && ctl.count == 0 && w->rkey == 0x400);
	assert_int_equal(((struct ring_bind *)(w + 1))->access, UROCE_ACCESS_REMOTE_WRITE);
	w = ring_slot(&b.e_sq, 1);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_LOCAL_INV && w->imm == 0x400);
	w = ring_slot(&b.e_sq, 2);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_SEND_WITH_INV && ctl.count == 1 && w->imm == 0x77);
	w = ring_slot(&b.e_sq, 3);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_ATOMIC_WRITE && ctl.count == 8 && ctl.flags & UROCE_SEND_INLINE);
	assert_true(w->rkey == 0x88 && w->remote_addr == 0x2000);
	assert_string_equal((char *)(w + 1), "abcdefg");
	ibv_wr_start(q);
	ibv_wr_bind_mw(q, &mw, 0x500, &info);
	assert_int_equal(ibv_wr_complete(q), EINVAL);
	assert_false(ring_sq_ready(&b.e_sq, 4));
	bed_fini(&b);
}

/*
 * What a program sees that was built with headers of rdma-core 46 or later: FLUSH is bit 11 of the send operations, and
 * wr_flush is the member behind wr_atomic_write.
 */
static void
flush_is_where_later_headers_have_it(void **state)
{
	struct later {
		uint8_t before[offsetof(struct ibv_qp_ex, wr_atomic_write)];
		void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *value);
		void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);
	};
	enum { LATER_QP_EX_WITH_FLUSH = 1 << 11, LATER_WR_FLUSH = 14, LATER_FLUSH_GLOBAL = 1, LATER_FLUSH_MR = 1 };
	struct ibv_send_wr wr = { .opcode = (enum ibv_wr_opcode)LATER_WR_FLUSH }, *bad;
	const struct later *later;
	const struct ring_flush *f;
	struct ibv_qp_ex *q;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	q = &b.qp.qp;
	later = (const void *)q;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UC, LATER_QP_EX_WITH_FLUSH), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UD, LATER_QP_EX_WITH_FLUSH), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_XRC_SEND, LATER_QP_EX_WITH_FLUSH), 0);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, LATER_QP_EX_WITH_FLUSH), 0);
	ibv_wr_start(q);
	q->wr_id = 5;
	q->wr_flags = IBV_SEND_SIGNALED;
	later->wr_flush(q, 0x88, 0x2000, 4096, LATER_FLUSH_GLOBAL, 0);
	/* Of a whole MR the length is of no meaning. */
	later->wr_flush(q, 0x89, 0, SIZE_MAX, 3, LATER_FLUSH_MR);
	assert_int_equal(ibv_wr_complete(q), 0);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	f = (const void *)(w + 1);
	assert_true(ctl.opcode == UROCE_WR_FLUSH && ctl.count == 0 && ctl.flags == UROCE_SEND_SIGNALED);
	assert_true(w->wr_id == 5 && w->rkey == 0x88 && w->remote_addr == 0x2000);
	assert_true(f->length == 4096 && f->type == UROCE_FLUSH_GLOBAL && f->level == UROCE_FLUSH_RANGE);
	w = ring_slot(&b.e_sq, 1);
	f = (const void *)(w + 1);
	assert_true(f->length == 0 && f->type == UROCE_FLUSH_TYPES && f->level == UROCE_FLUSH_MR);
	/* Nothing of it, or too much. */
	for (uint32_t i = 0; i < 4; i++) {
		ibv_wr_start(q);
		later->wr_flush(q, 0x88, 0x2000, i == 3 ? (size_t)1 << 32 : 8, i == 0 ? 0 : i == 1 ? 4 : 1, i == 2 ? 2 : 0);
		assert_int_equal(ibv_wr_complete(q), EINVAL);
	}
	/* struct ibv_send_wr has no way to ask for it. */
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	bed_fini(&b);
}

static void
builders_publish_all_or_nothing(void **state)
{
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	struct ibv_qp_ex *q;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	q = &b.qp.qp;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, ops), 0);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
	ibv_wr_start(q);
	q->wr_id = 1;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, 7, 64);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	q->wr_id = 2;
	ibv_wr_send(q);
	ibv_wr_set_inline_data(q, (void *)"abc", 4);
	assert_false(ring_sq_ready(&b.e_sq, 0));
	assert_int_equal(ibv_wr_complete(q), 0);
	assert_true(ring_sq_ready(&b.e_sq, 0) && ring_sq_ready(&b.e_sq, 1) && !ring_sq_ready(&b.e_sq, 2));
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_true(w->wr_id == 1 && w->rkey == 7 && w->remote_addr == 64);
	assert_true(ctl.opcode == UROCE_WR_RDMA_WRITE && ctl.count == 1 && ctl.flags == UROCE_SEND_SIGNALED);
	w = ring_slot(&b.e_sq, 1);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_SEND && ctl.count == 4 &&
		    ctl.flags == (UROCE_SEND_SIGNALED | UROCE_SEND_INLINE));
	assert_string_equal((char *)(w + 1), "abc");

	ibv_wr_start(q);
	ibv_wr_atomic_fetch_add(q, 7, 64, 1);
	ibv_wr_abort(q);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	/* One bad one spoils the list. */
	ibv_wr_start(q);
	ibv_wr_send(q);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_send(q);
	ibv_wr_set_sge_list(q, MAX_SGE + 1, (struct ibv_sge[MAX_SGE + 1]){ { 0 } });
	assert_int_equal(ibv_wr_complete(q), EINVAL);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	ibv_wr_start(q);
	for (int i = 0; i < SQ_WR - 1; i++)
		ibv_wr_send(q);
	assert_int_equal(ibv_wr_complete(q), ENOMEM);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	ibv_wr_start(q);
	for (int i = 0; i < SQ_WR - 2; i++)
		ibv_wr_send(q);
	assert_int_equal(ibv_wr_complete(q), 0);
	assert_true(ring_sq_ready(&b.e_sq, SQ_WR - 1));
	bed_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(builders_bind_invalidate_and_write_atomically),
		cmocka_unit_test(flush_is_where_later_headers_have_it),
		cmocka_unit_test(builders_publish_all_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
