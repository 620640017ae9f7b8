/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours get another MAC address: QPs and AHs send there. */
#include "rig.h"
#include "transport/path/changes.h"

static const uint8_t new_mac[6] = { 2, 9, 9, 9, 9, 9 };

/** Who has moved, and how often paths were asked about. */
struct moved {
	struct gid gid;
	unsigned int asked;
};

/** [tp_mac_fn] */
static bool
moves(const void *arg, const struct gid *sgid, const struct gid *dgid, uint8_t mac[6])
{
	struct moved *m = *(struct moved *const *)arg;

	m->asked++;
	if (!gid_equal(dgid, &m->gid) || memcmp(mac, new_mac, 6) == 0)
		return false;
	memcpy(mac, new_mac, 6);
	return true;
}

static uint32_t
follow(struct host *h, struct moved *m)
{
	return transport_follow_mac(h->tp, 0, moves, &m, 0, qp_table_slots(h->sh.qps));
}

static struct gid
peer_of(const struct qp *qp)
{
	struct wire_addr a;

	assert_true(qp_path_addr(qp, &a));
	return gid_from_ip(a.ip_version, a.dip);
}

static const uint8_t *
last_mac(const struct rig *r)
{
	return r->p->log[r->p->nb_log - 1].dmac;
}

static void
what_a_qp_sends_from_then_on_goes_there(void **state)
{
	struct moved m = { .asked = 0 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	m.gid = peer_of(r.a->qp);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_not_equal(r.p->log[0].dmac, new_mac, 6);
	assert_int_equal(follow(&r.p->h[0], &m), 1);
	assert_int_equal(m.asked, 1);
	assert_int_equal(follow(&r.p->h[0], &m), 0);
	r.p->nb_log = 0;
	rig_write(&r, 2, 0, 3000);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		assert_int_equal(memcmp(r.p->log[i].dmac, new_mac, 6) == 0, r.p->log[i].from == 0);
	assert_memory_equal(r.abuf, r.bbuf, 3000);
	rig_down(&r);
}

static bool
lose_what_goes_to_the_old_one(struct pair *p, const struct note *n, void *arg)
{
	return n->from == 0 && memcmp(n->dmac, new_mac, 6) != 0;
}

/* What the old router has swallowed. */
static void
what_was_lost_is_sent_again_to_the_new_address(void **state)
{
	struct moved m = { .asked = 0 };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 3 });
	m.gid = peer_of(r.a->qp);
	r.p->lose = lose_what_goes_to_the_old_one;
	rig_write(&r, 1, 0, 3000);
	pair_settle(r.p);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(follow(&r.p->h[0], &m), 1);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 3000);
	rig_down(&r);
}

/* ACKs and responses go by the same path. */
static void
a_responder_answers_there(void **state)
{
	struct moved m = { .asked = 0 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	m.gid = peer_of(r.b->qp);
	assert_int_equal(follow(&r.p->h[1], &m), 1);
	rig_read(&r, 1, 0, 3000);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(r.p->log[r.p->nb_log - 1].from, 1);
	assert_memory_equal(last_mac(&r), new_mac, 6);
	rig_down(&r);
}

static void
others_stay(void **state)
{
	struct moved m = { .gid = { { [10] = 0xff, 0xff, 198, 18, 0, 99 } } };
	struct end *fresh;
	struct rig r;

	rig_up(&r, NULL, NULL);
	fresh = end_new(&r.p->h[0], NULL); /* has no path yet */
	assert_int_equal(follow(&r.p->h[0], &m), 0);
	assert_int_equal(m.asked, 1);
	/* Those of another port aren't even asked about. */
	m.gid = peer_of(r.a->qp);
	m.asked = 0;
	assert_int_equal(transport_follow_mac(r.p->h[0].tp, 1, moves, &(struct moved *){ &m }, 0, qp_table_slots(r.p->h[0].sh.qps)), 0);
	assert_int_equal(m.asked, 0);
	end_free(fresh);
	rig_down(&r);
}

static void
an_alternate_path_follows_too(void **state)
{
	struct uroce_qp_attr a = { .alt_ah = { .is_global = 1, .port_num = 1, .hop_limit = 63, .sgid_index = 1, .dgid = { [15] = 2 } },
				   .alt_port_num = 1, .alt_timeout = 12, .path_mig_state = 1 /* IBV_MIG_REARM */ };
	struct moved m = { .gid = { { [10] = 0xff, 0xff, 198, 18, 7, 2 } } };
	struct tp_path alt = { .addr = { .ip_version = 4, .ttl = 64, .dmac = { 2, 5, 5, 5, 5, 5 } }, .pkey = 0xffff };
	struct rig r;

	rig_up(&r, NULL, NULL);
	memcpy(alt.addr.sip, (uint8_t[]){ 198, 18, 7, 1 }, 4);
	memcpy(alt.addr.dip, (uint8_t[]){ 198, 18, 7, 2 }, 4);
	assert_int_equal(qp_modify_paths(r.p->h[0].tp, r.a->qp, &a, UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE, NULL, &alt, r.p->now), 0);
	assert_int_equal(follow(&r.p->h[0], &m), 1);
	assert_int_equal(m.asked, 2);
	assert_int_equal(follow(&r.p->h[0], &m), 0);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_not_equal(r.p->log[0].dmac, new_mac, 6);
	rig_down(&r);
}

static void
between_qps_of_one_host_there_is_no_address_to_follow(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[0], NULL);
	struct moved m = { .asked = 0 };

	ends_connect(a, b, NULL);
	m.gid = peer_of(a->qp);
	assert_int_equal(follow(&p->h[0], &m), 0);
	assert_int_equal(m.asked, 0);
	end_free(a);
	end_free(b);
	pair_free(p);
}

static void
datagrams_follow_their_ah(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
	struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD });
	struct ah_table *ahs = p->h[0].sh.ahs;
	uint8_t *buf = calloc(1, 8192);
	struct mr *amr = host_mr(&p->h[0], buf, 4096, ACCESS_ALL), *bmr = host_mr(&p->h[1], buf + 4096, 4096, ACCESS_ALL);
	uint32_t ah = host_ah(&p->h[0], PAIR_PD, false, false), local = host_ah(&p->h[0], PAIR_PD, false, true), nb = ah_table_count(ahs);
	struct moved m = { .asked = 0 }, *arg = &m;
	struct tp_path path;

	ud_to_rts(a, 1);
	ud_to_rts(b, 1);
	assert_true(ah_path(ahs, ah, &path));
	assert_false(ah_path(ahs, ah ^ 1u << 20, &path));
	m.gid = gid_from_ip(path.addr.ip_version, path.addr.dip);
	for (unsigned int i = 0; i < 3; i++) {
		/* The QP has made its template from the AH before. */
		if (i > 0)
			assert_int_equal(ah_follow_mac(ahs, ah, moves, &arg), i == 1);
		end_recv(b, i, SGE(buf + 4096, 4096, bmr), 1);
		end_send(a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(buf, 100, amr), .nb_sge = 1, .rkey = 1,
					  .remote_addr = (uint64_t)qp_num(b->qp) << 32 | ah });
		pair_settle(p);
		expect_cqe(&a->scq, i, UROCE_WC_SUCCESS);
		expect_cqe(&b->rcq, i, UROCE_WC_SUCCESS);
		assert_int_equal(memcmp(p->log[p->nb_log - 1].dmac, new_mac, 6) == 0, i > 0);
	}
	assert_false(ah_follow_mac(ahs, local, moves, &arg));
	assert_false(ah_follow_mac(ahs, ah ^ 1u << 20, moves, &arg));
	assert_int_equal(ah_table_count(ahs), nb);
	assert_int_equal(ah_destroy(ahs, local), 0);
	assert_int_equal(ah_destroy(ahs, ah), 0);
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
		cmocka_unit_test(what_a_qp_sends_from_then_on_goes_there),
		cmocka_unit_test(what_was_lost_is_sent_again_to_the_new_address),
		cmocka_unit_test(a_responder_answers_there),
		cmocka_unit_test(others_stay),
		cmocka_unit_test(an_alternate_path_follows_too),
		cmocka_unit_test(between_qps_of_one_host_there_is_no_address_to_follow),
		cmocka_unit_test(datagrams_follow_their_ah),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
