/* SPDX-License-Identifier: BSD-3-Clause */
/* The address that a QP or AH sends from goes from the port, and comes back. */
#include "transport/diag/diag.h"
#include "rig.h"
#include "transport/path/changes.h"

static void
a_qp_loses_what_it_sends_and_says_why_it_fails(void **state)
{
	char text[DIAG_TEXT_BYTES];
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct qp_view v;
	struct gid own;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	assert_true(qp_own_gid(r.a->qp, &own));
	assert_true(qp_address_gone(r.a->qp, &own, true));
	rig_write(&r, 1, 0, 3000);
	pair_settle(r.p);
	assert_int_equal(r.p->nb_log, 0);
	assert_int_equal(counters(&r, 0)->tx_no_address, 3);
	qp_look(r.a->qp, r.p->now, &v);
	assert_true(v.address_gone);
	assert_non_null(strstr(qp_explain(&v, text), "its own address 198.18.0.1 is no address of its port any more"));
	pair_advance(r.p, 1000 * PAIR_MS);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_ADDRESS);
	qp_look(r.a->qp, r.p->now, &v);
	assert_non_null(strstr(qp_explain(&v, text), "its own address is no address of its port any more: gave up at PSN 100 after 3 retries"));
	assert_int_equal(r.p->nb_log, 0);
	/* No buffer has got lost either. */
	rig_down(&r);
}

static void
a_qp_goes_on_when_the_address_is_back(void **state)
{
	struct gid own;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	assert_true(qp_own_gid(r.a->qp, &own));
	qp_address_gone(r.a->qp, &own, true);
	rig_write(&r, 1, 0, 3000);
	pair_advance(r.p, 100 * PAIR_MS);
	qp_address_gone(r.a->qp, &own, false);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 3000);
	rig_down(&r);
}

/* The responder's ACKs and responses are lost as well. */
static void
a_responder_answers_nobody(void **state)
{
	struct gid own;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 2 });
	assert_true(qp_own_gid(r.b->qp, &own));
	qp_address_gone(r.b->qp, &own, true);
	rig_read(&r, 1, 0, 3000);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(pair_count(r.p, 1, -1), 0);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
	rig_down(&r);
}

static void
only_qps_that_have_it_are_concerned(void **state)
{
	static const uint8_t other[4] = { 198, 18, 0, 99 };
	const struct gid gid = gid_from_v4(other);
	struct gid own;
	struct rig r;
	struct end *fresh;

	rig_up(&r, NULL, NULL);
	fresh = end_new(&r.p->h[0], NULL);
	assert_false(qp_own_gid(fresh->qp, &own));
	assert_false(qp_address_gone(r.a->qp, &gid, true));
	rig_write(&r, 1, 0, 3000);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->tx_no_address, 0);
	end_free(fresh);
	rig_down(&r);
}

/* Between two QPs of one host it makes no difference how packets go. */
static void
a_loopback_qp_loses_its_packets_too_and_finds_back(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[0], NULL);
	uint8_t *buf = calloc(2, 4096);
	struct mr *mr = host_mr(&p->h[0], buf, 8192, ACCESS_ALL);
	struct gid own;

	ends_connect(a, b, &(struct conn_opts){ .retry_cnt = 3 });
	fill(buf, 4096, 3);
	assert_true(qp_own_gid(a->qp, &own));
	qp_address_gone(a->qp, &own, true);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(buf, 4096, mr), .nb_sge = 1, .remote_addr = ADDR(buf) + 4096,
				  .rkey = mr->key });
	pair_settle(p);
	assert_memory_not_equal(buf, buf + 4096, 4096);
	qp_address_gone(a->qp, &own, false);
	pair_advance(p, 1000 * PAIR_MS);
	expect_cqe(&a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(buf, buf + 4096, 4096);
	end_free(a);
	end_free(b);
	mr_destroy(p->h[0].sh.mrs, mr);
	free(buf);
	pair_free(p);
}

static void
datagrams_to_an_ah_are_lost_meanwhile(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
	struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD });
	uint8_t *buf = calloc(1, 8192);
	struct mr *amr = host_mr(&p->h[0], buf, 4096, ACCESS_ALL), *bmr = host_mr(&p->h[1], buf + 4096, 4096, ACCESS_ALL);
	uint32_t ah = host_ah(&p->h[0], PAIR_PD, true, false);
	struct gid own, no = { { 1 } };
	struct tp_path path;

	ud_to_rts(a, 1);
	ud_to_rts(b, 1);
	assert_true(ah_path(p->h[0].sh.ahs, ah, &path));
	own = gid_from_ip(path.addr.ip_version, path.addr.sip);
	assert_false(ah_address_gone(p->h[0].sh.ahs, ah, &no, true));
	for (unsigned int i = 0; i < 3; i++) {
		/* The QP has made its template from the AH before. */
		if (i > 0)
			assert_true(ah_address_gone(p->h[0].sh.ahs, ah, &own, i == 1));
		end_recv(b, i, SGE(buf + 4096, 4096, bmr), 1);
		end_send(a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(buf, 100, amr), .nb_sge = 1, .rkey = 1,
					  .remote_addr = (uint64_t)qp_num(b->qp) << 32 | ah });
		pair_settle(p);
		expect_cqe(&a->scq, i, UROCE_WC_SUCCESS);
		assert_int_equal(p->nb_log, i == 0 ? 1 : i);
		assert_int_equal(transport_counters(p->h[0].tp)->tx_no_address, i == 0 ? 0 : 1);
	}
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
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
		cmocka_unit_test(a_qp_loses_what_it_sends_and_says_why_it_fails),
		cmocka_unit_test(a_qp_goes_on_when_the_address_is_back),
		cmocka_unit_test(a_responder_answers_nobody),
		cmocka_unit_test(only_qps_that_have_it_are_concerned),
		cmocka_unit_test(a_loopback_qp_loses_its_packets_too_and_finds_back),
		cmocka_unit_test(datagrams_to_an_ah_are_lost_meanwhile),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
