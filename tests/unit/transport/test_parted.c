/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC: a QP that is destroyed while its last ACK is on its way, or lost. What it had received completes at its peer.
 */
#include "rig.h"
#include "transport/core/types_priv.h"

enum {
	SPAN_MS = 5000,    /* so long it is remembered */
	GIVEUP_MS = 10000, /* every retry is used up */
};

/* Host 1 receives SEND 1, and all that it answers gets lost. */
static void
receive_unacknowledged(struct rig *r, struct loss *l, uint32_t bytes)
{
	*l = (struct loss){ .from = 1, .opcode = -1, .count = UINT32_MAX };
	r->p->lose = lose;
	r->p->lose_arg = l;
	end_recv(r->b, 7, SGE(r->bbuf, 1 << 16, r->bmr), 1);
	rig_send(r, 1, 0, bytes);
	pair_settle(r->p);
	expect_cqe(&r->b->rcq, 7, UROCE_WC_SUCCESS);
}

static void
parted_up(struct rig *r, struct loss *l, uint32_t bytes, const struct conn_opts *co)
{
	rig_up(r, NULL, co);
	receive_unacknowledged(r, l, bytes);
}

/* Its program goes; a QP of another number takes its place. */
static void
destroy(struct rig *r)
{
	end_free(r->b);
	r->b = end_new(&r->p->h[1], NULL);
	r->p->nb_log = 0;
}

/* From now on nothing gets lost; host 0 sends again until it has its answer or gives up. */
static void
send_again(struct rig *r, struct loss *l)
{
	l->count = 0;
	pair_advance(r->p, GIVEUP_MS * (uint64_t)PAIR_MS);
}

static void
what_was_received_is_acknowledged(void **state)
{
	struct loss l;
	struct rig r;

	parted_up(&r, &l, 10000, NULL);
	destroy(&r);
	send_again(&r, &l);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 10000);
	assert_true(counters(&r, 1)->time_wait_acks_sent >= 1);
	assert_int_equal(counters(&r, 1)->rx_unknown_qp, 0);
	rig_down(&r);
}

/* rdma_disconnect() has moved it to ERR before. */
static void
and_by_way_of_err(void **state)
{
	struct loss l;
	struct rig r;

	parted_up(&r, &l, 100, &(struct conn_opts){ .v6 = true, .psn = WIRE_PSN_MASK });
	rig_write(&r, 2, 0, 3000);
	pair_settle(r.p);
	assert_int_equal(end_state(r.b, UROCE_QPS_ERR), 0);
	pair_settle(r.p);
	destroy(&r);
	send_again(&r, &l);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
what_never_came_is_not(void **state)
{
	/* The second message's last packet gets lost. */
	struct loss l;
	struct rig r;

	parted_up(&r, &l, 100, NULL);
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_LAST, .count = 1 };
	rig_write(&r, 2, 0, 3000);
	pair_settle(r.p);
	destroy(&r);
	pair_advance(r.p, GIVEUP_MS * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_RETRY_EXC_ERR);
	assert_true(counters(&r, 1)->rx_unknown_qp > 0);
	rig_down(&r);
}

/* The stored result went with the QP; what came before it is acknowledged, and no more. */
static void
nor_is_an_atomic(void **state)
{
	uint32_t send_psn, first = 0;
	struct loss l;
	struct rig r;

	parted_up(&r, &l, 100, NULL);
	rig_fetch_add(&r, 2, 0, 1);
	rig_write(&r, 3, 0, 100);
	pair_settle(r.p);
	send_psn = r.a->qp->req.psn_una;
	destroy(&r);
	send_again(&r, &l);
	while (first < r.p->nb_log && r.p->log[first].from != 1)
		first++;
	assert_int_equal(r.p->log[first].bth.psn, send_psn);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_RETRY_EXC_ERR);
	expect_cqe(&r.a->scq, 3, UROCE_WC_WR_FLUSH_ERR);
	rig_down(&r);
}

/* Five messages arrive, and the CQ has room for four completions: the program never learns of the fifth. */
static void
nor_is_a_message_whose_completion_found_no_room(void **state)
{
	for (unsigned int imm = 0; imm < 2; imm++) {
		struct rig r;

		rig_up(&r, &(struct end_opts){ .cq_depth = 4 }, NULL);
		for (uint32_t i = 0; i < 5; i++) {
			end_recv(r.b, 10 + i, SGE(r.bbuf, 100, r.bmr), 1);
			end_send(r.a, &(struct wr){ .id = i, .op = imm ? UROCE_WR_RDMA_WRITE_WITH_IMM : UROCE_WR_SEND,
						    .unsignaled = i < 3, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
		}
		pair_settle(r.p);
		assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
		for (uint32_t i = 0; i < 4; i++)
			expect_cqe(&r.b->rcq, 10 + i, UROCE_WC_SUCCESS);
		destroy(&r);
		pair_advance(r.p, GIVEUP_MS * (uint64_t)PAIR_MS);
		expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 4, UROCE_WC_RETRY_EXC_ERR);
		assert_int_equal(counters(&r, 1)->cq_overrun, 1);
		rig_down(&r);
	}
}

/* It may be connected anew, with the same PSNs. */
static void
a_qp_that_stays_says_nothing(void **state)
{
	static const enum uroce_qp_state states[] = { UROCE_QPS_ERR, UROCE_QPS_RESET };

	for (unsigned int i = 0; i < RTE_DIM(states); i++) {
		struct loss l;
		struct rig r;

		parted_up(&r, &l, 100, NULL);
		assert_int_equal(end_state(r.b, states[i]), 0);
		send_again(&r, &l);
		expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
		assert_int_equal(counters(&r, 1)->time_wait_acks_sent, 0);
		rig_down(&r);
	}
}

static void
nobody_is_remembered_for_ever(void **state)
{
	struct loss l;
	struct rig r;

	parted_up(&r, &l, 100, NULL);
	destroy(&r);
	r.p->now += SPAN_MS * (uint64_t)PAIR_MS;
	pair_advance(r.p, GIVEUP_MS * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(counters(&r, 1)->time_wait_acks_sent, 0);
	rig_down(&r);
}

static void
of_another_partition(struct qp *qp)
{
	qp->path.pkey = 0x8123;
}

static void
of_another_address(struct qp *qp)
{
	qp->path.tmpl.hdr[qp->path.tmpl.l3_off + 15] ^= 1;
	qp->path.tmpl.crc_len[0] = qp->path.tmpl.crc_len[1] = 0;
	qp->path.tmpl.ip_sum += qp->path.tmpl.hdr[qp->path.tmpl.l3_off + 15] & 1 ? 1 : 0xfffe;
}

static void
of_another_service(struct qp *qp)
{
	qp->prefix = WIRE_XRC;
}

/* Only who it was connected to is answered. */
static void
strangers_are_not_answered(void **state)
{
	static void (*const strange[])(struct qp * qp) = { of_another_partition, of_another_address,
							   of_another_service };

	for (unsigned int i = 0; i < RTE_DIM(strange); i++) {
		struct loss l;
		struct rig r;

		parted_up(&r, &l, 100, NULL);
		destroy(&r);
		strange[i](r.a->qp);
		l.count = 0;
		pair_advance(r.p, 100 * (uint64_t)PAIR_MS);
		assert_true(pair_count(r.p, 0, -1) > 0);
		assert_int_equal(counters(&r, 1)->rx_unknown_qp, pair_count(r.p, 0, -1));
		assert_int_equal(pair_count(r.p, 1, -1), 0);
		rig_down(&r);
	}
}

/* So far back no peer begins again: they are other packets. */
static void
nor_are_old_psns(void **state)
{
	enum { PSNS = 4096 };

	for (uint32_t too_old = 0; too_old < 2; too_old++) {
		struct loss l;
		struct rig r;

		parted_up(&r, &l, 100, NULL);
		r.b->qp->rcv.epsn += PSNS - 1 + too_old;
		destroy(&r);
		send_again(&r, &l);
		/* What it says it has executed was never sent: the peer believes no such ACK. */
		expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
		assert_int_equal(counters(&r, 1)->time_wait_acks_sent != 0, !too_old);
		rig_down(&r);
	}
}

/* Others that part after it don't take its place. */
static void
the_last_ones_are_remembered(void **state)
{
	struct end *here[PAIR_MAX_ENDS / 2], *there[PAIR_MAX_ENDS / 2];
	struct loss l;
	struct rig r;

	parted_up(&r, &l, 100, NULL);
	destroy(&r);
	for (unsigned int i = 0; i < RTE_DIM(here); i++) {
		here[i] = end_new(&r.p->h[0], NULL);
		there[i] = end_new(&r.p->h[1], NULL);
		ends_connect(here[i], there[i], NULL);
		/* It has received something. */
		there[i]->qp->rcv.epsn++;
	}
	for (unsigned int i = 0; i < RTE_DIM(here); i++) {
		end_free(here[i]);
		end_free(there[i]);
	}
	send_again(&r, &l);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* Also one whose number is larger than there are places. */
static void
whatever_its_number_is(void **state)
{
	enum { PLACES = 1024, TRIES = 100000 };
	struct loss l;
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_free(r.a);
	r.a = end_new(&r.p->h[0], NULL);
	for (uint32_t i = 0; i < TRIES && (qp_num(r.b->qp) & PLACES) == 0; i++)
		destroy(&r);
	assert_true(qp_num(r.b->qp) & PLACES);
	ends_connect(r.a, r.b, NULL);
	receive_unacknowledged(&r, &l, 100);
	destroy(&r);
	send_again(&r, &l);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_received_is_acknowledged),
		cmocka_unit_test(and_by_way_of_err),
		cmocka_unit_test(what_never_came_is_not),
		cmocka_unit_test(nor_is_an_atomic),
		cmocka_unit_test(nor_is_a_message_whose_completion_found_no_room),
		cmocka_unit_test(a_qp_that_stays_says_nothing),
		cmocka_unit_test(nobody_is_remembered_for_ever),
		cmocka_unit_test(strangers_are_not_answered),
		cmocka_unit_test(nor_are_old_psns),
		cmocka_unit_test(the_last_ones_are_remembered),
		cmocka_unit_test(whatever_its_number_is),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
