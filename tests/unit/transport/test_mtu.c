/* SPDX-License-Identifier: BSD-3-Clause */
/* The MTU of a port becomes smaller than a QP's packets, and large enough again. */
#include "transport/diag/diag.h"
#include "transport/move.h"
#include "rig.h"
#include "transport/path/changes.h"

/* An IP MTU that permits a path MTU of 512; the ends have 1024. */
enum { IP_MTU = 1000, SHIFT_512 = 9, SHIFT_1024 = 10, SHIFT_4096 = 12, QKEY = 1 };
/* IPv4, UDP, BTH, RETH and ICRC of a WRITE of one packet. */
enum { WRITE_HEADERS = 20 + 8 + 12 + 16 + 4, FITS = IP_MTU - WRITE_HEADERS };

/** @return how many QPs of the host have too large a path MTU. */
static uint32_t
port_mtu(struct host *h, uint32_t ip_mtu, uint8_t shift)
{
	transport_set_mtu(h->tp, 0, ip_mtu, shift);
	return transport_follow_mtu(h->tp, 0, 0, qp_table_slots(h->sh.qps));
}

static uint64_t
too_long(const struct rig *r, unsigned int host)
{
	return transport_counters(r->p->h[host].tp)->tx_too_long;
}

static void
packets_that_do_not_fit_are_dropped_and_the_qp_says_why_it_fails(void **state)
{
	char text[DIAG_TEXT_BYTES];
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct qp_view v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	assert_int_equal(port_mtu(&r.p->h[0], IP_MTU, SHIFT_512), 1);
	rig_write(&r, 1, 0, 3 * 1024);
	pair_settle(r.p);
	assert_int_equal(r.p->nb_log, 0);
	assert_int_equal(too_long(&r, 0), 3);
	qp_look(r.a->qp, r.p->now, &v);
	assert_true(v.mtu_too_large);
	assert_non_null(strstr(qp_explain(&v, text),
			       "its path MTU is 1024, but its port has MTU 1000, which permits 512: packets that don't fit are dropped (tx_too_long)"));
	pair_advance(r.p, 1000 * PAIR_MS);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_MTU);
	qp_look(r.a->qp, r.p->now, &v);
	assert_non_null(strstr(qp_explain(&v, text), "its packets are larger than the port's MTU, which has changed: gave up at PSN 100 after 3 retries"));
	/* No buffer has got lost either. */
	rig_down(&r);
}

/* Nothing is sent again in this case. */
static void
the_reason_is_known_without_a_retry(void **state)
{
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_retry = true });
	port_mtu(&r.p->h[0], IP_MTU, SHIFT_512);
	rig_write(&r, 1, 0, 100);
	rig_write(&r, 2, 0, 1024);
	rig_write(&r, 3, 0, 1024);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_MTU);
	rig_down(&r);
}

static void
packets_that_fit_are_sent(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 1 });
	port_mtu(&r.p->h[0], IP_MTU, SHIFT_512);
	rig_write(&r, 1, 0, FITS);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, FITS);
	assert_int_equal(too_long(&r, 0), 0);
	/* With its padding it is larger by 4 bytes. */
	rig_write(&r, 2, 0, FITS + 1);
	pair_settle(r.p);
	assert_int_equal(too_long(&r, 0), 1);
	expect_no_cqe(&r.a->scq);
	rig_down(&r);
}

static void
a_qp_goes_on_when_the_mtu_is_back(void **state)
{
	struct qp_view v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	port_mtu(&r.p->h[0], IP_MTU, SHIFT_512);
	rig_write(&r, 1, 0, 3000);
	pair_advance(r.p, 100 * PAIR_MS);
	assert_int_equal(port_mtu(&r.p->h[0], 1500, SHIFT_1024), 0);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 3000);
	qp_look(r.a->qp, r.p->now, &v);
	assert_false(v.mtu_too_large);
	rig_down(&r);
}

/* Another reason to get no answer stays the reason: what was dropped has long been sent again. */
static void
a_peer_that_is_silent_is_the_reason_if_packets_fit(void **state)
{
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 2 });
	port_mtu(&r.p->h[0], IP_MTU, SHIFT_512);
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 1000 * PAIR_MS);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_TIMEOUT);
	rig_down(&r);
}

/* Responses of READs are dropped on the responder's side, which says so; its small ACKs are not. */
static void
a_responder_drops_responses_that_do_not_fit(void **state)
{
	char text[DIAG_TEXT_BYTES];
	struct qp_view v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 2 });
	assert_int_equal(port_mtu(&r.p->h[1], IP_MTU, SHIFT_512), 1);
	rig_write(&r, 1, 0, 3000);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(too_long(&r, 1), 0);
	rig_read(&r, 2, 0, 3000);
	pair_settle(r.p);
	assert_true(too_long(&r, 1) > 0);
	qp_look(r.b->qp, r.p->now, &v);
	assert_non_null(strstr(qp_explain(&v, text), "packets that don't fit are dropped"));
	pair_advance(r.p, 2000 * PAIR_MS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_RETRY_EXC_ERR);
	rig_down(&r);
}

/* Not even 256 bytes fit. */
static void
no_path_mtu_may_fit(void **state)
{
	char text[DIAG_TEXT_BYTES];
	struct qp_view v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256, .retry_cnt = 2 });
	assert_int_equal(port_mtu(&r.p->h[0], 300, 0), 1);
	rig_write(&r, 1, 0, 256);
	pair_settle(r.p);
	assert_int_equal(too_long(&r, 0), 1);
	qp_look(r.a->qp, r.p->now, &v);
	assert_non_null(strstr(qp_explain(&v, text), "its path MTU is 256, but its port has MTU 300, which permits 0"));
	rig_down(&r);
}

static void
a_qp_that_connects_later_heeds_it_too(void **state)
{
	struct rig r;
	struct end *a, *b;

	rig_up(&r, NULL, NULL);
	a = end_new(&r.p->h[0], NULL);
	b = end_new(&r.p->h[1], NULL);
	transport_set_mtu(r.p->h[0].tp, 0, IP_MTU, SHIFT_512);
	ends_connect(a, b, NULL);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 1024, r.amr), .nb_sge = 1, .remote_addr = ADDR(r.bbuf),
				  .rkey = r.bmr->key });
	pair_settle(r.p);
	assert_int_equal(too_long(&r, 0), 1);
	end_free(a);
	end_free(b);
	rig_down(&r);
}

static void
move(struct rig *r, struct transport *from, struct transport *to)
{
	struct qp_move *m = qp_move_create(to, 1, 0);

	assert_non_null(m);
	qp_move_add(m, r->a->qp, NULL);
	assert_int_equal(qp_move_check(m, from, r->p->now), 0);
	qp_move_leave(m, from);
	/* While it is on its way it is nobody's. */
	assert_int_equal(transport_follow_mtu(from, 0, 0, qp_table_slots(r->p->h[0].sh.qps)), 0);
	qp_move_arrive(m, r->p->now);
	qp_move_end(m);
	qp_move_destroy(m);
}

static void
a_qp_heeds_the_mtu_of_the_engine_to_which_it_moves(void **state)
{
	struct transport_config c = { .nb_ports = 1, .engine = 1,
				      .ports[0] = { .ip_mtu = IP_MTU, .mtu_shift = SHIFT_512, .features = TP_FEATURES_ALL } };
	struct transport *second;
	struct qp_view v;
	struct rig r;

	rig_up(&r, NULL, NULL);
	c.sh = r.p->h[0].sh;
	second = transport_create(&c);
	assert_non_null(second);
	move(&r, r.p->h[0].tp, second);
	qp_look(r.a->qp, r.p->now, &v);
	assert_true(v.mtu_too_large);
	move(&r, second, r.p->h[0].tp);
	qp_look(r.a->qp, r.p->now, &v);
	assert_false(v.mtu_too_large);
	transport_destroy(second);
	rig_down(&r);
}

/* Between two QPs of one host no packet has to fit into a port. */
static void
a_loopback_qp_is_not_concerned(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[0], NULL);
	uint8_t *buf = calloc(2, 4096);
	struct mr *mr = host_mr(&p->h[0], buf, 8192, ACCESS_ALL);

	ends_connect(a, b, NULL);
	fill(buf, 4096, 3);
	assert_int_equal(port_mtu(&p->h[0], IP_MTU, SHIFT_512), 0);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(buf, 4096, mr), .nb_sge = 1, .remote_addr = ADDR(buf) + 4096,
				  .rkey = mr->key });
	pair_settle(p);
	expect_cqe(&a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(buf, buf + 4096, 4096);
	end_free(a);
	end_free(b);
	mr_destroy(p->h[0].sh.mrs, mr);
	free(buf);
	pair_free(p);
}

/* As the specification has it for datagrams (C10-93.1.1): nothing is sent, and that is no error. */
static void
datagrams_may_be_as_large_as_the_port_permits(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD, .max_mtu = UROCE_MTU_1024 });
	struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD, .max_mtu = UROCE_MTU_1024 });
	uint8_t *buf = calloc(2, 8192);
	struct mr *amr = host_mr(&p->h[0], buf, 8192, ACCESS_ALL), *bmr = host_mr(&p->h[1], buf + 8192, 8192, ACCESS_ALL);
	uint32_t ah = host_ah(&p->h[0], PAIR_PD, true, false), group = host_group_ah(&p->h[0], PAIR_PD, true);

	ud_to_rts(a, QKEY);
	ud_to_rts(b, QKEY);
	/* Its own packets to the group come back to it, but for those that were dropped. */
	assert_int_equal(mcast_attach(p->h[0].sh.mcasts, 0, pair_group(true), qp_num(a->qp)), 0);
	assert_int_equal(port_mtu(&p->h[0], 4200, SHIFT_4096), 0);
	assert_int_equal(port_mtu(&p->h[1], 4200, SHIFT_4096), 0);
	for (unsigned int i = 0; i < 3; i++) {
		if (i == 1)
			assert_int_equal(port_mtu(&p->h[0], 1500, SHIFT_1024), 1);
		end_recv(b, i, SGE(buf + 8192, 8192, bmr), 1);
		end_send(a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(buf, 4096, amr), .nb_sge = 1, .rkey = QKEY,
					  .remote_addr = i == 2 ? (uint64_t)WIRE_QPN_MULTICAST << 32 | group : (uint64_t)qp_num(b->qp) << 32 | ah });
		pair_settle(p);
		expect_cqe(&a->scq, i, UROCE_WC_SUCCESS);
		assert_int_equal(p->nb_log, 1);
		assert_int_equal(transport_counters(p->h[0].tp)->tx_too_long, i);
	}
	assert_int_equal(transport_counters(p->h[0].tp)->mcast_loop_dropped, 0);
	assert_int_equal(mcast_detach(p->h[0].sh.mcasts, 0, pair_group(true), qp_num(a->qp)), 0);
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, group), 0);
	end_free(a);
	end_free(b);
	mr_destroy(p->h[0].sh.mrs, amr);
	mr_destroy(p->h[1].sh.mrs, bmr);
	free(buf);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_that_do_not_fit_are_dropped_and_the_qp_says_why_it_fails),
		cmocka_unit_test(the_reason_is_known_without_a_retry),
		cmocka_unit_test(packets_that_fit_are_sent),
		cmocka_unit_test(a_qp_goes_on_when_the_mtu_is_back),
		cmocka_unit_test(a_peer_that_is_silent_is_the_reason_if_packets_fit),
		cmocka_unit_test(a_responder_drops_responses_that_do_not_fit),
		cmocka_unit_test(no_path_mtu_may_fit),
		cmocka_unit_test(a_qp_that_connects_later_heeds_it_too),
		cmocka_unit_test(a_qp_heeds_the_mtu_of_the_engine_to_which_it_moves),
		cmocka_unit_test(a_loopback_qp_is_not_concerned),
		cmocka_unit_test(datagrams_may_be_as_large_as_the_port_permits),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
