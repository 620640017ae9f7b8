/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC: work requests that name an SRQ, receives of one, against the engine's end of the rings, played here. */
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
xrc_work_requests_name_their_srq(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	union ring_sq_ctl ctl;
	struct ibv_qp_ex *q;
	struct bed b;

	bed_init(&b, IBV_QPT_XRC_SEND);
	wr.qp_type.xrc.remote_srqn = 0xabcdef;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 0))->ctl;
	assert_int_equal(ctl.srqn, 0xabcdef);
	assert_int_equal(ctl.opcode, UROCE_WR_RDMA_WRITE);
	q = &b.qp.qp;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_XRC_SEND,
						IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
							IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP),
			 0);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_XRC_RECV, IBV_QP_EX_WITH_SEND), EOPNOTSUPP);
	ibv_wr_start(q);
	ibv_wr_send(q);
	ibv_wr_set_xrc_srqn(q, 0x123456);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_rdma_read(q, 7, 64);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_set_xrc_srqn(q, 0x7);
	assert_int_equal(ibv_wr_complete(q), 0);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 1))->ctl;
	assert_true(ctl.srqn == 0x123456 && ctl.opcode == UROCE_WR_SEND && ctl.count == 1);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 2))->ctl;
	assert_int_equal(ctl.srqn, 0x7);
	/* Others don't have one. */
	b.qp.type_bit = 1u << IBV_QPT_RC;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 3))->ctl;
	assert_int_equal(ctl.srqn, 0);
	bed_fini(&b);
}

/* The engine completes a receive of an XRC SRQ through a QP that this program doesn't have. */
static void
complete_xrc(struct bed *b, uint64_t wr_id, uint32_t srqn)
{
	struct ring_cqe *e = ring_slot(&b->e_cq, b->e_cq.counter);
	union ring_cqe_ctl ctl = { .xrc = 1, .is_recv = 1, .wqe_counter = (uint16_t)srqn };

	*e = (struct ring_cqe){ .wr_id = wr_id, .qpn = QPN + 1, .opcode = UROCE_WC_RECV };
	ctl.phase = ring_phase(b->e_cq.counter++, CQ_ORDER);
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
}

static void
receives_of_an_xrc_srq_come_by_any_qp_and_go_with_the_srq(void **state)
{
	struct ibv_wc wc[8];
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	complete_xrc(&b, 1, 0x50001);
	complete_xrc(&b, 2, 0x50002);
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 2);
	assert_true(wc[0].wr_id == 1 && wc[1].wr_id == 2);
	assert_int_equal(wc[0].qp_num, QPN + 1);
	/* What is in wqe_counter there is no counter. */
	assert_int_equal(b.qp.rq_tail, 0);
	complete_xrc(&b, 3, 0x50001);
	complete_xrc(&b, 4, 0x50002);
	complete(&b, 0, 5, true);
	client_cq_forget_srq(&b.cq, 0x50001);
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 2);
	assert_true(wc[0].wr_id == 4 && wc[1].wr_id == 5);
	bed_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_work_requests_name_their_srq),
		cmocka_unit_test(receives_of_an_xrc_srq_come_by_any_qp_and_go_with_the_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
