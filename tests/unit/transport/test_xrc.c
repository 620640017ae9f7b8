/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC (annex A14): requests name their SRQ; its PD, receives and CQ serve them, if it is of the target's domain. */
#include "record_rig.h"

enum { XRCD = 3, OTHER_XRCD = 4, OTHER_PD = 9, SRQN = 0x120005, SRQN2 = 0x340006, PSN = 100, DEPTH = 16 };

/** An initiator (rig.a) on host 0, a target (rig.b) on host 1, two SRQs of its domain. */
struct xrc {
	struct rig r;
	struct end_srq *s, *s2;
};

static void
up_with(struct xrc *x, const struct conn_opts *co)
{
	struct rig *r = &x->r;

	r->p = pair_new();
	r->a = end_new(&r->p->h[0], &(struct end_opts){ .type = UROCE_QPT_XRC_SEND });
	r->b = end_new(&r->p->h[1], &(struct end_opts){ .type = UROCE_QPT_XRC_RECV, .xrcd = XRCD });
	r->abuf = calloc(1, BUF);
	r->bbuf = calloc(1, BUF);
	r->amr = host_mr(&r->p->h[0], r->abuf, BUF, ACCESS_ALL);
	r->bmr = host_mr(&r->p->h[1], r->bbuf, BUF, ACCESS_ALL);
	fill(r->abuf, BUF, 1);
	ends_connect(r->a, r->b, co);
	x->s = xsrq_new(&r->p->h[1], PAIR_PD, XRCD, SRQN, DEPTH);
	x->s2 = xsrq_new(&r->p->h[1], PAIR_PD, XRCD, SRQN2, DEPTH);
}

static void
up(struct xrc *x)
{
	up_with(x, NULL);
}

static void
down(struct xrc *x)
{
	if (x->s != NULL)
		srq_free(&x->r.p->h[1], x->s);
	srq_free(&x->r.p->h[1], x->s2);
	rig_down(&x->r);
}

static void
post(struct xrc *x, struct end_srq *s, uint64_t id, uint32_t off, uint32_t len)
{
	srq_post(s, id, SGE(x->r.bbuf + off, len, x->r.bmr), 1);
}

static void
send_to(struct xrc *x, uint64_t id, uint32_t srqn, uint32_t off, uint32_t len)
{
	end_send(x->r.a, &(struct wr){ .id = id, .op = UROCE_WR_SEND, .sge = SGE(x->r.abuf + off, len, x->r.amr),
				       .nb_sge = 1, .srqn = srqn });
}

static void
rdma(struct xrc *x, uint64_t id, enum uroce_wr_op op, uint32_t srqn, uint32_t off, uint32_t len)
{
	end_send(x->r.a, &(struct wr){ .id = id, .op = op, .sge = SGE(x->r.abuf + off, len, x->r.amr), .nb_sge = 1,
				       .remote_addr = ADDR(x->r.bbuf) + off, .rkey = x->r.bmr->key, .srqn = srqn });
}

/** A hand-made request packet: XRCETH, then @p len zero bytes. */
static void
inject(struct xrc *x, uint8_t op, uint32_t psn, uint32_t srqn, uint32_t len)
{
	uint8_t after[4 + 2048] = { 0 };
	struct wire_bth b = { .opcode = WIRE_XRC | op, .psn = psn, .migreq = true, .ackreq = true };

	wire_put32(after, srqn);
	pair_inject(x->r.p, x->r.b, &b, after, 4 + len);
}

static void
inject_read(struct xrc *x, uint32_t psn, uint32_t srqn, uint32_t len)
{
	struct wire_bth b = { .opcode = WIRE_XRC | WIRE_OP_READ_REQUEST, .psn = psn, .migreq = true, .ackreq = true };
	uint8_t after[4 + WIRE_RETH_BYTES];

	wire_put32(after, srqn);
	wire_put_reth(after + 4, ADDR(x->r.bbuf), x->r.bmr->key, len);
	pair_inject(x->r.p, x->r.b, &b, after, sizeof(after));
}

/** The request that the target was sent is refused as invalid. */
static void
expect_refused(struct xrc *x)
{
	pair_settle(x->r.p);
	assert_int_equal(pair_count_syndrome(x->r.p, 1, WIRE_NAK_INV_REQ), 1);
	assert_int_equal(host_events(&x->r.p->h[1], UROCE_EVENT_QP_REQ_ERR), 1);
	assert_int_equal(counters(&x->r, 1)->resp_bad_xrceth, 1);
	assert_int_equal(qp_state(x->r.b->qp), UROCE_QPS_ERR);
}

static void
sends_take_receives_of_the_srq_they_name_and_complete_on_its_cq(void **state)
{
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 4096);
	post(&x, x.s2, 20, 8192, 4096);
	post(&x, x.s, 11, 16384, 4096);
	send_to(&x, 1, SRQN2, 0, 3000);
	send_to(&x, 2, SRQN, 5000, 100);
	send_to(&x, 3, SRQN, 6000, 4096);
	pair_settle(x.r.p);
	for (uint32_t i = 1; i <= 3; i++)
		expect_cqe(&x.r.a->scq, i, UROCE_WC_SUCCESS);
	assert_true(cq_poll(&x.s2->cq, &e, &ctl));
	assert_int_equal(e.wr_id, 20);
	assert_int_equal(e.byte_len, 3000);
	assert_int_equal(e.qpn, qp_num(x.r.b->qp));
	assert_int_equal(e.src_qp, qp_num(x.r.a->qp));
	assert_true(ctl.xrc && ctl.is_recv);
	assert_int_equal(ctl.wqe_counter, SRQN2 & 0xffff);
	expect_cqe(&x.s->cq, 10, UROCE_WC_SUCCESS);
	expect_cqe(&x.s->cq, 11, UROCE_WC_SUCCESS);
	expect_no_cqe(&x.s->cq);
	expect_no_cqe(&x.s2->cq);
	assert_memory_equal(x.r.bbuf + 8192, x.r.abuf, 3000);
	assert_memory_equal(x.r.bbuf, x.r.abuf + 5000, 100);
	assert_memory_equal(x.r.bbuf + 16384, x.r.abuf + 6000, 4096);
	down(&x);
}

/* In the middle of a message: the receive of the SRQ goes on to be filled, in the SRQ's PD, and is completed on its CQ. */
static void
a_target_goes_on_from_its_record(void **state)
{
	static uint64_t memory[ROOM / 8];
	struct loss l = { .from = 0, .opcode = WIRE_XRC | WIRE_OP_SEND_MIDDLE, .count = UINT32_MAX };
	struct xrc x;
	uint32_t users;

	up(&x);
	post(&x, x.s, 10, 8192, 4096);
	x.r.p->lose = lose;
	x.r.p->lose_arg = &l;
	send_to(&x, 1, SRQN, 0, 3000);
	pair_settle(x.r.p);
	assert_true(x.r.b->qp->rcv.rwqe.valid);
	x.r.p->lose = NULL;
	users = x.s->srq->users;
	replace(x.r.b, memory);
	assert_int_equal(x.s->srq->users, users);
	assert_int_equal(x.r.b->qp->pd, PAIR_PD);
	assert_ptr_equal(x.r.b->qp->recv_cq, x.s->cq.cq);
	pair_advance(x.r.p, 500 * (uint64_t)PAIR_MS);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&x.s->cq, 10, UROCE_WC_SUCCESS).byte_len, 3000);
	assert_memory_equal(x.r.bbuf + 8192, x.r.abuf, 3000);
	down(&x);
}

static void
every_operation_of_rc_works_with_opcodes_of_xrc(void **state)
{
	static const uint8_t requests[] = {
		WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST_IMM, WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST,
		WIRE_OP_WRITE_ONLY_IMM, WIRE_OP_READ_REQUEST, WIRE_OP_FETCH_ADD, WIRE_OP_CMP_SWAP, WIRE_OP_ATOMIC_WRITE,
		WIRE_OP_FLUSH,
	};
	static const uint8_t responses[] = {
		WIRE_OP_ATOMIC_ACK, WIRE_OP_READ_RESP_FIRST, WIRE_OP_READ_RESP_LAST, WIRE_OP_READ_RESP_ONLY,
	};
	struct ring_cqe e;
	struct xrc x;
	uint32_t i;

	up_with(&x, &(struct conn_opts){ .access = ACCESS_ALL | UROCE_ACCESS_FLUSH_GLOBAL });
	mr_destroy(x.r.p->h[1].sh.mrs, x.r.bmr);
	x.r.bmr = host_mr(&x.r.p->h[1], x.r.bbuf, BUF, ACCESS_ALL | UROCE_ACCESS_FLUSH_GLOBAL);
	post(&x, x.s, 10, 65536, 4096);
	post(&x, x.s, 11, 0, 0);
	rdma(&x, 1, UROCE_WR_RDMA_WRITE, SRQN, 0, 2048);
	end_send(x.r.a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND_WITH_IMM, .sge = SGE(x.r.abuf, 3000, x.r.amr),
				      .nb_sge = 1, .imm = 0x01020304, .srqn = SRQN });
	rdma(&x, 3, UROCE_WR_RDMA_WRITE_WITH_IMM, SRQN, 4096, 100);
	rdma(&x, 4, UROCE_WR_ATOMIC_FETCH_AND_ADD, SRQN, 8192, 8);
	rdma(&x, 5, UROCE_WR_ATOMIC_CMP_AND_SWP, SRQN, 8192, 8);
	rdma(&x, 6, UROCE_WR_ATOMIC_WRITE, SRQN, 8200, 8);
	rdma(&x, 7, UROCE_WR_RDMA_READ, SRQN2, 16384, 2000);
	/* Type global, level range, 8 bytes: as struct ring_flush has them. */
	end_send(x.r.a, &(struct wr){ .id = 8, .op = UROCE_WR_FLUSH, .remote_addr = ADDR(x.r.bbuf), .rkey = x.r.bmr->key,
				      .compare_add = (uint64_t)UROCE_FLUSH_GLOBAL << 32 | 8, .srqn = SRQN });
	pair_settle(x.r.p);
	for (i = 1; i <= 8; i++)
		expect_cqe(&x.r.a->scq, i, UROCE_WC_SUCCESS);
	e = expect_cqe(&x.s->cq, 10, UROCE_WC_SUCCESS);
	assert_int_equal(e.imm, 0x01020304);
	e = expect_cqe(&x.s->cq, 11, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_RECV_RDMA_WITH_IMM);
	expect_no_cqe(&x.s2->cq);
	assert_memory_equal(x.r.bbuf, x.r.abuf, 2048);
	assert_memory_equal(x.r.bbuf + 65536, x.r.abuf, 3000);
	assert_memory_equal(x.r.bbuf + 4096, x.r.abuf + 4096, 100);
	assert_memory_equal(x.r.bbuf + 8200, x.r.abuf + 8200, 8);
	assert_memory_equal(x.r.bbuf + 16384, x.r.abuf + 16384, 2000);
	for (i = 0; i < sizeof(requests); i++)
		assert_true(pair_count(x.r.p, 0, WIRE_XRC | requests[i]) > 0);
	for (i = 0; i < sizeof(responses); i++)
		assert_true(pair_count(x.r.p, 1, WIRE_XRC | responses[i]) > 0);
	for (i = 0; i < x.r.p->nb_log; i++)
		assert_int_equal(WIRE_OPCODE_SERVICE(x.r.p->log[i].bth.opcode), WIRE_XRC);
	down(&x);
}

static void
messages_to_several_srqs_survive_losses(void **state)
{
	enum { N = 12 };
	struct loss l = { .from = 0, .opcode = -1, .nth = 3, .count = 2 };
	struct xrc x;

	up(&x);
	x.r.p->lose = lose;
	x.r.p->lose_arg = &l;
	for (uint32_t i = 0; i < N; i++) {
		post(&x, i & 1 ? x.s2 : x.s, i, i * 4096, 4096);
		send_to(&x, i, i & 1 ? SRQN2 : SRQN, i * 4096, 2500);
	}
	pair_advance(x.r.p, (uint64_t)1000 * PAIR_MS);
	for (uint32_t i = 0; i < N; i++) {
		expect_cqe(&x.r.a->scq, i, UROCE_WC_SUCCESS);
		expect_cqe(i & 1 ? &x.s2->cq : &x.s->cq, i, UROCE_WC_SUCCESS);
		assert_memory_equal(x.r.bbuf + i * 4096, x.r.abuf + i * 4096, 2500);
	}
	down(&x);
}

/* The target has no PD: it is the named SRQ's that keys are held against. */
static void
pd_of_the_srq_opens_memory(void **state)
{
	struct end_srq *other;
	struct xrc x;

	up(&x);
	other = xsrq_new(&x.r.p->h[1], OTHER_PD, XRCD, 77, DEPTH);
	rdma(&x, 1, UROCE_WR_RDMA_WRITE, SRQN, 0, 100);
	rdma(&x, 2, UROCE_WR_RDMA_WRITE, 77, 4096, 100);
	pair_settle(x.r.p);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&x.r.a->scq, 2, UROCE_WC_REM_ACCESS_ERR);
	assert_true(x.r.bbuf[4096] == 0 && x.r.bbuf[4097] == 0);
	srq_free(&x.r.p->h[1], other);
	down(&x);
}

static void
unknown_srq_is_an_invalid_request(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 100);
	send_to(&x, 1, SRQN + 1, 0, 100);
	expect_refused(&x);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
	expect_no_cqe(&x.s->cq);
	down(&x);
}

static void
srq_of_another_domain_is_an_invalid_request(void **state)
{
	struct end_srq *other;
	struct xrc x;

	up(&x);
	other = xsrq_new(&x.r.p->h[1], PAIR_PD, OTHER_XRCD, 77, DEPTH);
	post(&x, other, 10, 0, 100);
	rdma(&x, 1, UROCE_WR_RDMA_WRITE, 77, 0, 100);
	expect_refused(&x);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
	expect_no_cqe(&other->cq);
	assert_true(x.r.bbuf[0] == 0 && x.r.bbuf[1] == 0);
	srq_free(&x.r.p->h[1], other);
	down(&x);
}

static void
a_message_stays_with_the_srq_that_it_began_with(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 4096);
	post(&x, x.s2, 20, 0, 4096);
	inject(&x, WIRE_OP_SEND_FIRST, PSN, SRQN, 1024);
	inject(&x, WIRE_OP_SEND_LAST, PSN + 1, SRQN2, 512);
	expect_refused(&x);
	expect_cqe(&x.s->cq, 10, UROCE_WC_WR_FLUSH_ERR);
	expect_no_cqe(&x.s2->cq);
	assert_int_equal(host_events(&x.r.p->h[1], UROCE_EVENT_QP_LAST_WQE_REACHED), 1);
	down(&x);
}

/* What comes again, or too early, changes nothing of the message under way. */
static void
duplicates_that_name_another_srq_leave_the_message_alone(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s2, 20, 0, 4096);
	post(&x, x.s, 10, 8192, 4096);
	inject(&x, WIRE_OP_SEND_ONLY, PSN, SRQN2, 512);
	inject(&x, WIRE_OP_SEND_FIRST, PSN + 1, SRQN, 1024);
	inject(&x, WIRE_OP_SEND_ONLY, PSN, SRQN2, 512);
	inject(&x, WIRE_OP_SEND_ONLY, PSN + 5, SRQN2, 512);
	inject(&x, WIRE_OP_SEND_LAST, PSN + 2, SRQN, 512);
	pair_settle(x.r.p);
	expect_cqe(&x.s2->cq, 20, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&x.s->cq, 10, UROCE_WC_SUCCESS).byte_len, 1536);
	assert_int_equal(counters(&x.r, 1)->resp_bad_xrceth, 0);
	down(&x);
}

static void
empty_srq_is_not_ready_whatever_others_have(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s2, 20, 0, 4096);
	send_to(&x, 1, SRQN, 0, 100);
	pair_settle(x.r.p);
	assert_int_equal(pair_count_syndrome(x.r.p, 1, WIRE_AETH_RNR_NAK), 1);
	expect_no_cqe(&x.s2->cq);
	post(&x, x.s, 10, 0, 4096);
	pair_advance(x.r.p, (uint64_t)100 * PAIR_MS);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&x.s->cq, 10, UROCE_WC_SUCCESS);
	down(&x);
}

static void
limit_event_is_of_the_srq_that_gets_low(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 100);
	post(&x, x.s, 11, 0, 100);
	post(&x, x.s2, 20, 0, 100);
	srq_set_limit(x.s->srq, 2);
	srq_set_limit(x.s2->srq, 1);
	send_to(&x, 1, SRQN, 0, 100);
	pair_settle(x.r.p);
	assert_int_equal(host_events(&x.r.p->h[1], UROCE_EVENT_SRQ_LIMIT_REACHED), 1);
	assert_true(x.r.p->h[1].events[x.r.p->h[1].nb_events - 1].cookie == ADDR(x.s));
	assert_int_equal(srq_limit(x.s2->srq), 1);
	down(&x);
}

static void
receive_too_small_fails_on_the_srqs_cq(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 99);
	send_to(&x, 1, SRQN, 0, 100);
	pair_settle(x.r.p);
	expect_cqe(&x.s->cq, 10, UROCE_WC_LOC_LEN_ERR);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
	assert_int_equal(host_events(&x.r.p->h[1], UROCE_EVENT_QP_LAST_WQE_REACHED), 1);
	down(&x);
}

/* The program that has the SRQ may end at any time; the target may be another's. */
static void
srq_that_goes_in_the_midst_of_a_message_takes_its_receive_along(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 4096);
	inject(&x, WIRE_OP_SEND_FIRST, PSN, SRQN, 1024);
	srq_free(&x.r.p->h[1], x.s);
	x.s = NULL;
	inject(&x, WIRE_OP_SEND_LAST, PSN + 1, SRQN, 512);
	expect_refused(&x);
	down(&x);
}

static void
srq_that_goes_between_messages_leaves_the_target_to_others(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 4096);
	post(&x, x.s2, 20, 0, 4096);
	send_to(&x, 1, SRQN, 0, 100);
	pair_settle(x.r.p);
	expect_cqe(&x.s->cq, 10, UROCE_WC_SUCCESS);
	srq_free(&x.r.p->h[1], x.s);
	x.s = NULL;
	send_to(&x, 2, SRQN2, 0, 100);
	pair_settle(x.r.p);
	expect_cqe(&x.s2->cq, 20, UROCE_WC_SUCCESS);
	assert_int_equal(qp_state(x.r.b->qp), UROCE_QPS_RTS);
	down(&x);
}

static void
read_whose_srq_is_gone_is_refused(void **state)
{
	struct xrc x;

	up(&x);
	inject_read(&x, PSN, SRQN, 100);
	srq_free(&x.r.p->h[1], x.s);
	x.s = NULL;
	pair_settle(x.r.p);
	assert_int_equal(pair_count_syndrome(x.r.p, 1, WIRE_NAK_REM_ACCESS), 1);
	assert_int_equal(pair_count(x.r.p, 1, WIRE_XRC | WIRE_OP_READ_RESP_ONLY), 0);
	down(&x);
}

static void
duplicate_read_must_name_the_same_srq(void **state)
{
	struct xrc x;

	up(&x);
	inject_read(&x, PSN, SRQN, 100);
	pair_settle(x.r.p);
	inject_read(&x, PSN, SRQN2, 100);
	pair_settle(x.r.p);
	assert_int_equal(counters(&x.r, 1)->rx_duplicate_dropped, 1);
	assert_int_equal(pair_count(x.r.p, 1, WIRE_XRC | WIRE_OP_READ_RESP_ONLY), 1);
	inject_read(&x, PSN, SRQN, 100);
	pair_settle(x.r.p);
	assert_int_equal(pair_count(x.r.p, 1, WIRE_XRC | WIRE_OP_READ_RESP_ONLY), 2);
	down(&x);
}

static void
an_initiator_takes_no_requests_and_a_target_no_rc(void **state)
{
	struct wire_bth b = { .opcode = WIRE_XRC | WIRE_OP_WRITE_ONLY, .psn = PSN, .migreq = true };
	uint8_t after[4 + WIRE_RETH_BYTES + 8] = { 0 };
	struct xrc x;

	up(&x);
	wire_put_reth(after + 4, ADDR(x.r.abuf), x.r.amr->key, 8);
	pair_inject(x.r.p, x.r.a, &b, after, sizeof(after));
	assert_int_equal(counters(&x.r, 0)->rx_wrong_state, 1);
	b.opcode = WIRE_RC | WIRE_OP_SEND_ONLY;
	pair_inject(x.r.p, x.r.b, &b, after, 8);
	assert_int_equal(counters(&x.r, 1)->rx_wrong_service, 1);
	b.opcode = WIRE_XRC | WIRE_OP_ACK;
	pair_inject(x.r.p, x.r.b, &b, after, 4);
	pair_settle(x.r.p);
	assert_int_equal(x.r.p->nb_log, 0);
	assert_int_equal(qp_state(x.r.a->qp), UROCE_QPS_RTS);
	assert_int_equal(qp_state(x.r.b->qp), UROCE_QPS_RTS);
	down(&x);
}

static void
a_target_can_be_reset_in_the_midst_of_a_message(void **state)
{
	struct xrc x;

	up(&x);
	post(&x, x.s, 10, 0, 4096);
	inject(&x, WIRE_OP_SEND_FIRST, PSN, SRQN, 1024);
	assert_int_equal(end_state(x.r.b, UROCE_QPS_RESET), 0);
	srq_free(&x.r.p->h[1], x.s);
	x.s = NULL;
	end_to_rtr(x.r.b, x.r.a, NULL);
	post(&x, x.s2, 20, 0, 4096);
	inject(&x, WIRE_OP_SEND_ONLY, PSN, SRQN2, 8);
	pair_settle(x.r.p);
	expect_cqe(&x.s2->cq, 20, UROCE_WC_SUCCESS);
	down(&x);
}

static void
parts_that_a_type_doesnt_have_are_refused(void **state)
{
	struct xrc x;
	struct qp_params p = { .type = UROCE_QPT_XRC_RECV };
	struct srq_params sp = { .xrcd = XRCD, .srqn = 1 };
	struct srq *srq;
	struct qp *qp;

	up(&x);
	p.shared = &x.r.b->shared;
	assert_int_equal(qp_create(x.r.p->h[1].tp, &p, &qp), EINVAL); /* no domain */
	p.xrcd = XRCD;
	p.recv_cq = x.r.b->rcq.cq;
	assert_int_equal(qp_create(x.r.p->h[1].tp, &p, &qp), EINVAL);
	p = (struct qp_params){ .type = UROCE_QPT_XRC_SEND, .shared = &x.r.b->shared, .send_cq = x.r.b->scq.cq,
				.recv_cq = x.r.b->rcq.cq, .sq = x.r.b->sq };
	assert_int_equal(qp_create(x.r.p->h[1].tp, &p, &qp), EINVAL);
	assert_int_equal(srq_create(x.r.p->h[1].tp, &sp, &srq), EINVAL); /* no CQ */
	sp.cq = x.r.b->rcq.cq;
	sp.srqn = 0;
	assert_int_equal(srq_create(x.r.p->h[1].tp, &sp, &srq), EINVAL);
	down(&x);
}

/* The offer names the SRQ that the request in trouble names: a target may look at it before it looks at the PSN. */
static void
initiator_and_target_repeat_only_what_was_lost(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_XRC | WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	struct xrc x;

	up(&x);
	x.r.p->lose = lose;
	x.r.p->lose_arg = &l;
	rdma(&x, 1, UROCE_WR_RDMA_WRITE, SRQN, 0, 8 << 10);
	pair_settle(x.r.p);
	expect_cqe(&x.r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&x.r, 0)->sack_offers_sent, 1);
	assert_int_equal(counters(&x.r, 1)->sack_offers_received, 1);
	assert_int_equal(counters(&x.r, 1)->resp_bad_xrceth, 0);
	x.r.p->nb_log = 0;
	l = (struct loss){ .from = 0, .opcode = WIRE_XRC | WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	rdma(&x, 2, UROCE_WR_RDMA_WRITE, SRQN, 0, 20 << 10);
	pair_settle(x.r.p);
	expect_cqe(&x.r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(x.r.p, 0, -1), 20 + 1);
	assert_memory_equal(x.r.abuf, x.r.bbuf, 20 << 10);
	/* And of READs. */
	x.r.p->nb_log = 0;
	l = (struct loss){ .from = 1, .opcode = WIRE_XRC | WIRE_OP_READ_RESP_MIDDLE, .nth = 2, .count = 1 };
	fill(x.r.bbuf, BUF, 3);
	rdma(&x, 3, UROCE_WR_RDMA_READ, SRQN2, 0, 20 << 10);
	pair_settle(x.r.p);
	expect_cqe(&x.r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_memory_equal(x.r.abuf, x.r.bbuf, 20 << 10);
	assert_int_equal(pair_count(x.r.p, 1, -1), 20 + 1);
	down(&x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_take_receives_of_the_srq_they_name_and_complete_on_its_cq),
		cmocka_unit_test(a_target_goes_on_from_its_record),
		cmocka_unit_test(every_operation_of_rc_works_with_opcodes_of_xrc),
		cmocka_unit_test(messages_to_several_srqs_survive_losses),
		cmocka_unit_test(pd_of_the_srq_opens_memory),
		cmocka_unit_test(unknown_srq_is_an_invalid_request),
		cmocka_unit_test(srq_of_another_domain_is_an_invalid_request),
		cmocka_unit_test(a_message_stays_with_the_srq_that_it_began_with),
		cmocka_unit_test(duplicates_that_name_another_srq_leave_the_message_alone),
		cmocka_unit_test(empty_srq_is_not_ready_whatever_others_have),
		cmocka_unit_test(limit_event_is_of_the_srq_that_gets_low),
		cmocka_unit_test(receive_too_small_fails_on_the_srqs_cq),
		cmocka_unit_test(srq_that_goes_in_the_midst_of_a_message_takes_its_receive_along),
		cmocka_unit_test(srq_that_goes_between_messages_leaves_the_target_to_others),
		cmocka_unit_test(read_whose_srq_is_gone_is_refused),
		cmocka_unit_test(duplicate_read_must_name_the_same_srq),
		cmocka_unit_test(an_initiator_takes_no_requests_and_a_target_no_rc),
		cmocka_unit_test(a_target_can_be_reset_in_the_midst_of_a_message),
		cmocka_unit_test(parts_that_a_type_doesnt_have_are_refused),
		cmocka_unit_test(initiator_and_target_repeat_only_what_was_lost),
	};

	return cmocka_run_group_tests_name("xrc", tests, pair_group_setup, pair_group_teardown);
}
