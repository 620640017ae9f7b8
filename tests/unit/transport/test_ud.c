/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: AHs, Q_Keys, the 40 bytes before the payload. */
#include <errno.h>

#include <rte_mbuf.h>

#include "transport/core/types_priv.h"
#include "transport/diag/diag.h"
#include "ud_rig.h"

static void
ud_post(struct ud_rig *r, uint64_t id, uint32_t len, uint32_t qkey)
{
	end_send(r->a, &(struct wr){ .id = id,
				     .op = UROCE_WR_SEND_WITH_IMM,
				     .imm = 4711,
				     .sge = SGE(r->buf, len, r->amr),
				     .nb_sge = 1,
				     .rkey = qkey,
				     .remote_addr = (uint64_t)qp_num(r->b->qp) << 32 | r->ah });
}

/* A17.9.4: entropy is in the source port, which begins at 0xc000 also where the AV says nothing. */
static void
source_port_and_flow_label_are_the_qps_own(void **state)
{
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		struct ud_rig r;
		const struct note *n;

		ud_up(&r, v6, 0);
		ud_post(&r, 1, 100, QKEY);
		ud_post(&r, 2, 100, QKEY);
		pair_settle(r.p);
		n = r.p->log;
		assert_int_equal(r.p->nb_log, 2);
		assert_true(n[0].sport >= 0xc000);
		assert_int_equal(n[0].sport, n[1].sport);
		assert_int_equal(n[0].sport, wire_flow_label_to_sport(wire_calc_flow_label(qp_num(r.a->qp), 1)));
		if (v6)
			assert_int_equal(wire_flow_label_to_sport(n[0].flow_label), n[0].sport);
		ud_down(&r);
	}
}

static void
source_port_is_the_one_of_the_ah(void **state)
{
	struct tp_path path = { .pkey = WIRE_PKEY_DEFAULT };
	struct ud_rig r;

	ud_up(&r, false, 0);
	assert_int_equal(ah_destroy(r.p->h[0].sh.ahs, r.ah), 0);
	path.addr = (struct wire_addr){ .ip_version = 4, .ttl = 64, .sport = 0xd123 };
	assert_int_equal(ah_create(r.p->h[0].sh.ahs, PAIR_PD, &path, &r.ah), 0);
	ud_post(&r, 1, 100, QKEY);
	pair_settle(r.p);
	assert_int_equal(r.p->nb_log, 1);
	assert_int_equal(r.p->log[0].sport, 0xd123);
	ud_down(&r);
}

static void
ud_message_comes_with_its_grh(void **state)
{
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		uint8_t *in, sum[2] = { 0 };
		struct ring_cqe e;
		union ring_cqe_ctl ctl;
		struct ud_rig r;
		uint32_t s = 0;

		ud_up(&r, v6, 0);
		in = r.buf + 32768;
		end_recv(r.b, 1, SGE(in, 5000, r.bmr), 1);
		ud_post(&r, 2, 1001, QKEY);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
		assert_true(cq_poll(&r.b->rcq, &e, &ctl));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
		assert_int_equal(e.byte_len, 40 + 1001);
		assert_true(qp_cost_since(r.a->qp, &(struct qp_costs){ 0 }) >= 1001 + TP_COST_WQE);
		assert_true(qp_cost_since(r.b->qp, &(struct qp_costs){ 0 }) >= 1001 + TP_COST_WQE);
		/* The GRH isn't payload. */
		assert_int_equal(r.b->qp->rcv.rx_bytes, 1001);
		assert_int_equal(e.src_qp, qp_num(r.a->qp));
		assert_int_equal(e.imm, 4711);
		assert_int_equal(ctl.wc_flags, UROCE_WC_GRH | UROCE_WC_WITH_IMM);
		assert_int_equal(ctl.sl, v6 ? 0x9 : 0xa);
		assert_memory_equal(in + 40, r.buf, 1001);
		if (v6) {
			assert_int_equal(in[0] >> 4, 6);
			assert_int_equal(in[8], 0xfd);
			assert_int_equal(in[23], 1);
		} else {
			/* ibv_init_ah_from_wc() tells IPv4 by version, IHL and a valid checksum. */
			assert_int_equal(in[20], 0x45);
			assert_memory_equal(in + 20 + 12, ((uint8_t[]){ 198, 18, 0, 1 }), 4);
			for (unsigned int i = 0; i < 20; i += 2)
				s += wire_get16(in + 20 + i);
			s = (s & 0xffff) + (s >> 16);
			wire_put16(sum, (uint16_t)((s & 0xffff) + (s >> 16)));
			assert_int_equal(wire_get16(sum), 0xffff);
		}
		ud_down(&r);
	}
}

static void
wrong_qkey_is_dropped(void **state)
{
	struct ud_rig r;

	ud_up(&r, false, 0);
	end_recv(r.b, 1, SGE(r.buf + 32768, 5000, r.bmr), 1);
	ud_post(&r, 2, 10, QKEY + 1);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.b->rcq);
	assert_int_equal(transport_counters(r.p->h[1].tp)->rx_bad_qkey, 1);
	/* Bit 31: the QP's own. */
	ud_post(&r, 3, 10, 0x80000000);
	pair_settle(r.p);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	ud_down(&r);
}

static void
without_a_receive_ud_is_dropped(void **state)
{
	struct ud_rig r;

	ud_up(&r, false, 0);
	ud_post(&r, 2, 10, QKEY);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(transport_counters(r.p->h[1].tp)->rx_ud_no_wqe, 1);
	ud_down(&r);
}

/* Anybody who knows the Q_Key can send one: it must do no harm. One byte too much is too much; the GRH counts. */
static void
longer_than_its_receive_is_dropped_and_the_receive_kept(void **state)
{
	struct ud_rig r;

	for (unsigned int v6 = 0; v6 < 2; v6++) {
		ud_up(&r, v6, 0);
		end_recv(r.b, 1, SGE(r.buf + 32768, 50, r.bmr), 1);
		end_recv(r.b, 2, SGE(r.buf + 32768 + 100, 50, r.bmr), 1);
		ud_post(&r, 2, 11, QKEY);
		ud_post(&r, 3, 300, QKEY);
		pair_settle(r.p);
		expect_no_cqe(&r.b->rcq);
		assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
		assert_int_equal(transport_counters(r.p->h[1].tp)->resp_local_length_error, 2);
		/* Not a byte of them was written. */
		for (unsigned int i = 0; i < 50; i++)
			assert_int_equal(r.buf[32768 + i], 0);
		ud_post(&r, 4, 10, QKEY);
		ud_post(&r, 5, 9, QKEY);
		pair_settle(r.p);
		assert_int_equal(expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS).byte_len, 50);
		assert_int_equal(expect_cqe(&r.b->rcq, 2, UROCE_WC_SUCCESS).byte_len, 49);
		assert_memory_equal(r.buf + 32768 + 40, r.buf, 10);
		assert_int_equal(transport_counters(r.p->h[1].tp)->rx_send_requests, 2);
		ud_down(&r);
	}
}

/* The receive that was taken from the SRQ stays with the QP; it is flushed, and not lost, if the QP ends. */
static void
longer_than_an_srqs_receive_is_dropped_too(void **state)
{
	struct pair *p = pair_new();
	struct end_srq *s = srq_new(&p->h[1], 16, 1);
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
	struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD, .srq = s });
	uint8_t buf[200] = { 0 };
	struct mr *mr = host_mr(&p->h[1], buf, sizeof(buf), ACCESS_ALL);
	uint32_t ah = host_ah(&p->h[0], PAIR_PD, false, false);
	static const uint32_t lengths[] = { 11, 10, 11 };

	ud_to_rts(a, QKEY);
	ud_to_rts(b, QKEY);
	srq_post(s, 1, SGE(buf, 50, mr), 1);
	srq_post(s, 2, SGE(buf + 100, 50, mr), 1);
	for (unsigned int i = 0; i < RTE_DIM(lengths); i++)
		end_send(a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .inline_data = "Hello, world", .inline_bytes = lengths[i],
					  .rkey = QKEY, .remote_addr = (uint64_t)qp_num(b->qp) << 32 | ah });
	pair_settle(p);
	expect_cqe(&b->rcq, 1, UROCE_WC_SUCCESS);
	expect_no_cqe(&b->rcq);
	assert_int_equal(qp_state(b->qp), UROCE_QPS_RTS);
	assert_int_equal(end_state(b, UROCE_QPS_ERR), 0);
	pair_settle(p);
	expect_cqe(&b->rcq, 2, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	end_free(a);
	end_free(b);
	srq_free(&p->h[1], s);
	mr_destroy(p->h[1].sh.mrs, mr);
	pair_free(p);
}

/* Of what was posted before, not of what is posted afterwards; a QP that doesn't send in its state has nothing left to send. */
static void
what_was_posted_is_left_until_it_is_sent(void **state)
{
	uint32_t budget = 1, next;
	struct ud_rig r;

	ud_up(&r, false, 0);
	next = qp_posted_next(r.a->qp);
	assert_false(qp_posted_left(r.a->qp, next));
	for (uint32_t i = 0; i < 3; i++)
		ud_post(&r, i, 10, QKEY);
	assert_true(qp_posted_left(r.a->qp, next));
	qp_work_posted(r.p->h[0].tp, r.a->qp, &budget, r.p->now);
	assert_int_equal(budget, 0);
	assert_true(qp_posted_left(r.a->qp, next));
	/* As many have been sent since as the SQ holds. */
	assert_false(qp_posted_left(r.a->qp, qp_posted_next(r.a->qp) - (UINT32_C(1) << r.a->sq.order)));
	assert_true(qp_posted_left(r.a->qp, qp_posted_next(r.a->qp) - (UINT32_C(1) << r.a->sq.order) + 1));
	end_state(r.a, UROCE_QPS_ERR);
	assert_false(qp_posted_left(r.a->qp, next));
	pair_settle(r.p);
	ud_down(&r);
}

/* The receiver's own mistake: it is told, and its peer, which gets no answers from a UD QP, is not. */
static void
a_receive_with_a_bad_key_ends_the_qp_without_an_answer(void **state)
{
	struct ud_rig r;

	ud_up(&r, false, 0);
	end_recv(r.b, 1, &(struct ring_sge){ .addr = ADDR(r.buf) + 32768, .length = 1000, .lkey = r.bmr->key + 1 }, 1);
	ud_post(&r, 2, 100, QKEY);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_LOC_PROT_ERR);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
	assert_int_equal(pair_count(r.p, 1, -1), 0);
	assert_int_equal(r.b->qp->resp.reply, TP_REPLY_NONE);
	ud_down(&r);
}

static void
longer_than_the_mtu_is_refused(void **state)
{
	struct ud_rig r;

	ud_up(&r, false, UROCE_MTU_1024);
	end_recv(r.b, 1, SGE(r.buf + 32768, 5000, r.bmr), 1);
	ud_post(&r, 1, 1024, QKEY);
	ud_post(&r, 2, 1025, QKEY);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_LOC_LEN_ERR);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_SQE);
	ud_down(&r);
}

/* What a hostile client writes as AH: nothing, a stale one, another PD's, anything. */
static void
only_the_pds_own_ahs_are_taken(void **state)
{
	struct ud_rig r;
	uint32_t bad[4];

	for (unsigned int i = 0; i < 4; i++) {
		ud_up(&r, false, 0);
		bad[0] = 0;
		bad[1] = host_ah(&r.p->h[0], PAIR_PD, false, false);
		assert_int_equal(ah_destroy(r.p->h[0].sh.ahs, bad[1]), 0);
		assert_int_equal(ah_destroy(r.p->h[0].sh.ahs, bad[1]), EINVAL);
		bad[2] = host_ah(&r.p->h[0], PAIR_PD + 1, false, false);
		bad[3] = 0xffffffff;
		end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .rkey = QKEY,
					    .remote_addr = (uint64_t)qp_num(r.b->qp) << 32 | bad[i] });
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 1, UROCE_WC_LOC_QP_OP_ERR);
		assert_int_equal(pair_count(r.p, 0, -1), 0);
		assert_int_equal(ah_destroy(r.p->h[0].sh.ahs, bad[2]), 0);
		ud_down(&r);
	}
}

/* A handle has 16 bits of generation. A program that makes an AH per message comes by the same one again after a while. */
static void
an_ah_with_the_handle_of_another_leads_to_its_own_peer(void **state)
{
	struct tp_path path = { .addr = pair_address(0, false), .pkey = WIRE_PKEY_DEFAULT };
	struct ud_rig r;
	uint32_t first;

	ud_up(&r, false, 0);
	first = r.ah;
	ud_post(&r, 1, 10, QKEY);
	pair_settle(r.p);
	assert_int_equal(r.p->log[0].sport, wire_flow_label_to_sport(wire_calc_flow_label(qp_num(r.a->qp), 1)));
	path.addr.sport = 0xd123;
	do {
		assert_int_equal(ah_destroy(r.p->h[0].sh.ahs, r.ah), 0);
		assert_int_equal(ah_create(r.p->h[0].sh.ahs, PAIR_PD, &path, &r.ah), 0);
	} while (r.ah != first);
	ud_post(&r, 2, 10, QKEY);
	pair_settle(r.p);
	assert_int_equal(r.p->nb_log, 2);
	assert_int_equal(r.p->log[1].sport, 0xd123);
	ud_down(&r);
}

static void
ud_loops_back_with_a_grh(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
	uint8_t *buf = calloc(1, 4096);
	struct mr *mr = host_mr(&p->h[0], buf, 4096, ACCESS_ALL);
	uint32_t ah = host_ah(&p->h[0], PAIR_PD, false, true);

	ud_to_rts(a, QKEY);
	end_recv(a, 1, SGE(buf, 100, mr), 1);
	end_send(a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .inline_data = "self", .inline_bytes = 4, .rkey = QKEY,
				  .remote_addr = (uint64_t)qp_num(a->qp) << 32 | ah });
	pair_settle(p);
	expect_cqe(&a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&a->rcq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(buf + 40, "self", 4);
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	end_free(a);
	mr_destroy(p->h[0].sh.mrs, mr);
	free(buf);
	pair_free(p);
}

static void
ah_table_fills_and_empties(void **state)
{
	struct ah_table *t = ah_table_create(4, NULL);
	struct tp_path path = { .addr = { .ip_version = 4 } };
	uint32_t h[4], extra;

	assert_non_null(t);
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < 4; i++)
			assert_int_equal(ah_create(t, 1, &path, &h[i]), 0);
		assert_int_equal(ah_create(t, 1, &path, &extra), ENOMEM);
		assert_int_equal(ah_table_count(t), 4);
		for (unsigned int i = 0; i < 4; i++)
			assert_int_equal(ah_destroy(t, h[i]), 0);
	}
	ah_table_destroy(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ud_message_comes_with_its_grh),
		cmocka_unit_test(source_port_and_flow_label_are_the_qps_own),
		cmocka_unit_test(source_port_is_the_one_of_the_ah),
		cmocka_unit_test(wrong_qkey_is_dropped),
		cmocka_unit_test(without_a_receive_ud_is_dropped),
		cmocka_unit_test(longer_than_its_receive_is_dropped_and_the_receive_kept),
		cmocka_unit_test(longer_than_an_srqs_receive_is_dropped_too),
		cmocka_unit_test(what_was_posted_is_left_until_it_is_sent),
		cmocka_unit_test(a_receive_with_a_bad_key_ends_the_qp_without_an_answer),
		cmocka_unit_test(longer_than_the_mtu_is_refused),
		cmocka_unit_test(only_the_pds_own_ahs_are_taken),
		cmocka_unit_test(an_ah_with_the_handle_of_another_leads_to_its_own_peer),
		cmocka_unit_test(ud_loops_back_with_a_grh),
		cmocka_unit_test(ah_table_fills_and_empties),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
