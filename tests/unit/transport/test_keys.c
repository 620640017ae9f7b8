/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may talk to whom: P_Keys, Q_Keys, and the addresses of the QP's AV. */
#include <errno.h>

#include <rte_mbuf.h>

#include "rig.h"

enum { QKEY = 0x11111111 };

/** Two partitions, in each a full and a limited member. */
static const struct tp_port_config partitions = { .pkeys = { 0xffff, 0x7fff, 0x8001, 0x0001 }, .features = TP_FEATURES_ALL };

/** Change P_Key index or Q_Key of a QP in RTS, by way of SQD. */
static void
change(struct end *e, const struct uroce_qp_attr *a, uint32_t mask)
{
	struct uroce_qp_attr rts = { .qp_state = UROCE_QPS_RTS };

	assert_int_equal(end_state(e, UROCE_QPS_SQD), 0);
	assert_int_equal(qp_modify(e->host->tp, e->qp, a, mask, NULL, e->host->pair->now), 0);
	assert_int_equal(qp_modify(e->host->tp, e->qp, &rts, UROCE_QP_STATE, NULL, e->host->pair->now), 0);
}

static void
set_pkey(struct end *e, uint16_t index)
{
	const struct uroce_qp_attr a = { .pkey_index = index };

	change(e, &a, UROCE_QP_PKEY_INDEX);
}

/** What 10.9.3 says, written down for these four. */
static bool
may_talk(uint16_t i, uint16_t j)
{
	static const bool yes[4][4] = {
		[0] = { true, true, false, false },
		[1] = { true, false, false, false },
		[2] = { false, false, true, true },
		[3] = { false, false, true, false },
	};

	return yes[i][j];
}

static void
check_membership(enum uroce_qp_type type, uint16_t i, uint16_t j)
{
	uint32_t ah = 0;
	struct ring_cqe e;
	struct rig r;
	bool ok;

	if (type == UROCE_QPT_UD) {
		r.p = pair_new_cc(&partitions);
		r.a = end_new(&r.p->h[0], &(struct end_opts){ .type = type });
		r.b = end_new(&r.p->h[1], &(struct end_opts){ .type = type });
		r.abuf = calloc(1, BUF);
		r.bbuf = calloc(1, BUF);
		r.amr = host_mr(&r.p->h[0], r.abuf, BUF, ACCESS_ALL);
		r.bmr = host_mr(&r.p->h[1], r.bbuf, BUF, ACCESS_ALL);
		ud_to_rts(r.a, QKEY);
		ud_to_rts(r.b, QKEY);
		ah = host_ah(&r.p->h[0], PAIR_PD, false, false);
	} else {
		rig_up_cc(&r, &(struct end_opts){ .type = type }, NULL, &partitions);
	}
	set_pkey(r.a, i);
	set_pkey(r.b, j);
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .inline_data = "hello", .inline_bytes = 5,
				    .rkey = QKEY, .remote_addr = (uint64_t)qp_num(r.b->qp) << 32 | ah });
	pair_settle(r.p);
	ok = cq_poll(&r.b->rcq, &e, NULL);
	assert_int_equal(ok, may_talk(i, j));
	assert_int_equal(r.p->log[0].bth.pkey, partitions.pkeys[i]);
	assert_int_equal(counters(&r, 1)->rx_bad_pkey, !ok);
	assert_int_equal(transport_violations(r.p->h[1].tp, 0)->bad_pkey, !ok);
	if (ah != 0)
		assert_int_equal(ah_destroy(r.p->h[0].sh.ahs, ah), 0);
	rig_down(&r);
}

static void
pkeys_match_by_15_bits_and_one_side_is_a_full_member(void **state)
{
	static const enum uroce_qp_type types[] = { UROCE_QPT_RC, UROCE_QPT_UC, UROCE_QPT_UD };

	for (unsigned int t = 0; t < 3; t++)
		for (uint16_t i = 0; i < 4; i++)
			for (uint16_t j = 0; j < 4; j++)
				check_membership(types[t], i, j);
}

static void
unused_entry_of_the_pkey_table_is_refused(void **state)
{
	static const struct tp_port_config two = { .pkeys = { 0x8001, 0x8002 }, .features = TP_FEATURES_ALL };
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1, .pkey_index = 2 };
	const uint32_t mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS;
	struct pair *p = pair_new_cc(&two);
	struct end *e = end_new(&p->h[0], NULL);

	assert_int_equal(qp_modify(p->h[0].tp, e->qp, &a, mask, NULL, 0), EINVAL);
	assert_int_equal(qp_state(e->qp), UROCE_QPS_RESET);
	a.pkey_index = 1;
	assert_int_equal(qp_modify(p->h[0].tp, e->qp, &a, mask, NULL, 0), 0);
	end_free(e);
	pair_free(p);
}

/* 10.2.5: the upper bit of the work request's Q_Key says that the QP's own is meant, whatever stands in the others. */
static void
qkey_of_a_wr_with_bit_31_is_the_qps_own(void **state)
{
	static const struct {
		uint32_t wr, own, peers;
		bool arrives;
	} cases[] = {
		{ QKEY, 5, QKEY, true },		   { QKEY, 5, 5, false },
		{ 0x80000000, 5, 5, true },		   { 0xffffffff, 5, 5, true },
		{ 0x80000000 | QKEY, 5, QKEY, false },	   { 0x7fffffff, 5, 5, false },
		{ 0x80010000, 0x80010000, 0x80010000, true }, { 0x80010000, 5, 0x80010000, false },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *p = pair_new();
		struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
		struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD });
		uint32_t ah = host_ah(&p->h[0], PAIR_PD, false, false);
		uint8_t buf[64];
		struct mr *mr = host_mr(&p->h[1], buf, sizeof(buf), ACCESS_ALL);
		struct ring_cqe e;

		ud_to_rts(a, cases[i].own);
		ud_to_rts(b, cases[i].peers);
		end_recv(b, 1, SGE(buf, sizeof(buf), mr), 1);
		end_send(a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .inline_data = "hello", .inline_bytes = 5,
					  .rkey = cases[i].wr,
					  .remote_addr = (uint64_t)qp_num(b->qp) << 32 | ah });
		pair_settle(p);
		assert_int_equal(cq_poll(&b->rcq, &e, NULL), cases[i].arrives);
		assert_int_equal(transport_violations(p->h[1].tp, 0)->bad_qkey, !cases[i].arrives);
		assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
		end_free(a);
		end_free(b);
		mr_destroy(p->h[1].sh.mrs, mr);
		pair_free(p);
	}
}

/** Take host 0's only packet off its TX vector. */
static struct rte_mbuf *
take_packet(struct pair *p)
{
	struct tp_txvec *v = transport_tx(p->h[0].tp, 0);

	p->stalled = true;
	pair_settle(p);
	assert_int_equal(v->n, 1);
	v->n = 0;
	return v->pkts[0];
}

/* 9.6.1.1.1: from the peer's address to ours, as the AV has them. Packets within this host carry no ICRC. */
static void
check_addresses(enum uroce_qp_type type, bool v6)
{
	const uint32_t src = v6 ? 8 : 12, dst = v6 ? 24 : 16, bytes = v6 ? 16 : 4;

	for (uint32_t spoil = 0; spoil <= 2 * bytes; spoil++) {
		struct rte_mbuf *m;
		struct ring_cqe e;
		struct rig r;
		uint8_t *l3;

		rig_up(&r, &(struct end_opts){ .type = type }, &(struct conn_opts){ .v6 = v6 });
		end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
		rig_send(&r, 2, 0, 10);
		m = take_packet(r.p);
		l3 = rte_pktmbuf_mtod_offset(m, uint8_t *, WIRE_ETH_BYTES);
		if (spoil < bytes)
			l3[src + spoil] ^= 1;
		else if (spoil < 2 * bytes)
			l3[dst + spoil - bytes] ^= 1;
		if (!v6) {
			uint32_t sum = 0;

			wire_put16(l3 + 10, 0);
			for (unsigned int i = 0; i < WIRE_IPV4_BYTES; i += 2)
				sum += wire_get16(l3 + i);
			sum = (sum & 0xffff) + (sum >> 16);
			wire_put16(l3 + 10, (uint16_t)~((sum & 0xffff) + (sum >> 16)));
		}
		assert_int_equal(transport_rx(r.p->h[1].tp, 0, &m, 1, true, r.p->now), 0);
		assert_int_equal(cq_poll(&r.b->rcq, &e, NULL), spoil == 2 * bytes);
		assert_int_equal(counters(&r, 1)->rx_bad_address, spoil != 2 * bytes);
		rig_down(&r);
	}
}

static void
packets_from_and_to_other_addresses_than_the_avs_are_dropped(void **state)
{
	check_addresses(UROCE_QPT_RC, false);
	check_addresses(UROCE_QPT_RC, true);
	check_addresses(UROCE_QPT_UC, false);
	check_addresses(UROCE_QPT_UC, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pkeys_match_by_15_bits_and_one_side_is_a_full_member),
		cmocka_unit_test(unused_entry_of_the_pkey_table_is_refused),
		cmocka_unit_test(qkey_of_a_wr_with_bit_31_is_the_qps_own),
		cmocka_unit_test(packets_from_and_to_other_addresses_than_the_avs_are_dropped),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
