/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control: CNPs in both directions, ECN bits, pacing, and the rules of DCQCN. */
#include <math.h>

#include "transport/cc/cc_priv.h"
#include "transport/req/loss_priv.h"
#include "rig.h"

enum { LINE_MBPS = 40000 };
static const struct tp_port_config no_cc = { .cc = TP_CC_NONE, .features = TP_FEATURES_ALL };
static const struct tp_port_config dcqcn = { .cc = TP_CC_DCQCN, .mbps = LINE_MBPS, .features = TP_FEATURES_ALL };
static const struct tp_port_config swift = { .cc = TP_CC_SWIFT, .mbps = LINE_MBPS, .features = TP_FEATURES_ALL };

static uint8_t *
l3_of(struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod_offset(m, uint8_t *, WIRE_ETH_BYTES);
}

/* What host @p i sends in its next turn arrives marked; answers stay in the other's TX vector. */
static void
send_marked(struct rig *r, unsigned int i)
{
	struct tp_txvec *v;

	host_turn(&r->p->h[i]);
	v = transport_tx(r->p->h[i].tp, 0);
	assert_true(v->n > 0);
	for (uint16_t k = 0; k < v->n; k++)
		packet_mark_ce(v->pkts[k]);
	assert_int_equal(transport_rx(r->p->h[!i].tp, 0, v->pkts, v->n, false, r->p->now), 0);
	v->n = 0;
}

/* ---- Notification point ---- */
static void
cnp_is_as_hardware_sends_it(void **state)
{
	/* The BTH of a ConnectX-4's CNP (tests/unit/wire/test_formats.c), its QPN replaced, and 16 zeros. */
	uint8_t want[28] = { 0x81, 0x00, 0xff, 0xff, 0x40 };
	const uint8_t *l3;
	struct wire_pkt p;
	struct rte_mbuf *m;
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &no_cc);
	rig_write(&r, 1, 0, 100);
	send_marked(&r, 0);
	assert_int_equal(transport_tx(r.p->h[1].tp, 0)->n, 1);
	m = transport_tx(r.p->h[1].tp, 0)->pkts[0];
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, &p), WIRE_OK);
	l3 = l3_of(m);
	assert_int_equal(m->data_len, WIRE_ETH_BYTES + 60);
	assert_int_equal(l3[1], 0xc2);
	assert_int_equal(wire_get16(l3 + 2), 60);
	assert_int_equal(wire_get16(l3 + WIRE_IPV4_BYTES + 4), 40);
	wire_put24(want + 5, qp_num(r.a->qp));
	assert_memory_equal(p.bthp, want, sizeof(want));
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
cnp_over_ipv6_has_its_class(void **state)
{
	struct rte_mbuf *m;
	struct rig r;

	rig_up_cc(&r, NULL, &(struct conn_opts){ .v6 = true }, &dcqcn);
	rig_write(&r, 1, 0, 100);
	send_marked(&r, 0);
	m = transport_tx(r.p->h[1].tp, 0)->pkts[0];
	assert_int_equal(wire_get32(l3_of(m)) >> 20, 0x6c2);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->rp_cnp_handled, 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
one_cnp_per_interval(void **state)
{
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &no_cc);
	for (uint32_t i = 0; i < 5; i++) {
		rig_write(&r, i, 0, 3000);
		send_marked(&r, 0);
		pair_settle(r.p);
		/* At 0, 12, 24, 36, 48 us. */
		pair_advance(r.p, 12 * PAIR_US);
	}
	assert_int_equal(counters(&r, 1)->np_ecn_marked_roce_packets, 15);
	assert_int_equal(counters(&r, 1)->np_cnp_sent, 1);
	/* At 60 us. */
	rig_write(&r, 5, 0, 100);
	send_marked(&r, 0);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 1)->np_cnp_sent, 2);
	assert_int_equal(pair_count(r.p, 1, WIRE_OPCODE_CNP), 2);
	for (uint32_t i = 0; i < 6; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
marked_responses_are_answered_too(void **state)
{
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &dcqcn);
	fill(r.bbuf, BUF, 3);
	rig_read(&r, 1, 0, 4000);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, transport_tx(r.p->h[0].tp, 0)->pkts, 1, false, r.p->now), 0);
	transport_tx(r.p->h[0].tp, 0)->n = 0;
	send_marked(&r, 1);
	assert_int_equal(counters(&r, 0)->np_cnp_sent, 1);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 1)->rp_cnp_handled, 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 4000);
	rig_down(&r);
}

static void
marked_datagram_is_counted_only(void **state)
{
	struct pair *p = pair_new_cc(&dcqcn);
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
	struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD });
	static uint8_t from[100], to[140];
	struct mr *amr = host_mr(&p->h[0], from, sizeof(from), ACCESS_ALL);
	struct mr *bmr = host_mr(&p->h[1], to, sizeof(to), ACCESS_ALL);
	struct rig r = { .p = p };

	ud_to_rts(a, 5);
	ud_to_rts(b, 5);
	end_recv(b, 1, SGE(to, sizeof(to), bmr), 1);
	end_send(a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .sge = SGE(from, 100, amr), .nb_sge = 1, .rkey = 5,
				  .remote_addr = (uint64_t)qp_num(b->qp) << 32 |
						 host_ah(&p->h[0], PAIR_PD, false, false) });
	send_marked(&r, 0);
	pair_settle(p);
	expect_cqe(&b->rcq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->np_ecn_marked_roce_packets, 1);
	assert_int_equal(counters(&r, 1)->np_cnp_sent, 0);
	end_free(a);
	end_free(b);
	mr_destroy(p->h[0].sh.mrs, amr);
	mr_destroy(p->h[1].sh.mrs, bmr);
	pair_free(p);
}

/* ---- ECN bits of what is sent ---- */
static uint8_t
ecn_sent(enum uroce_qp_type type, const struct tp_port_config *port)
{
	struct rig r;
	uint8_t ecn;

	rig_up_cc(&r, &(struct end_opts){ .type = type }, NULL, port);
	rig_write(&r, 1, 0, 100);
	host_turn(&r.p->h[0]);
	ecn = l3_of(transport_tx(r.p->h[0].tp, 0)->pkts[0])[1] & 3;
	pair_settle(r.p);
	rig_down(&r);
	return ecn;
}

static void
controlled_packets_are_ect0(void **state)
{
	assert_int_equal(ecn_sent(UROCE_QPT_RC, &no_cc), 0);
	assert_int_equal(ecn_sent(UROCE_QPT_RC, &dcqcn), 2);
	assert_int_equal(ecn_sent(UROCE_QPT_UC, &dcqcn), 2);
	assert_int_equal(ecn_sent(UROCE_QPT_RC, &swift), 2);
	/* Without ACKs there are no round trips: not controlled, so it mustn't say that it is. */
	assert_int_equal(ecn_sent(UROCE_QPT_UC, &swift), 0);
}

/* ---- Reaction point ---- */
static void
inject_cnp(struct rig *r)
{
	static const uint8_t zeros[WIRE_CNP_PAYLOAD_BYTES];

	pair_inject(r->p, r->a, &(struct wire_bth){ .opcode = WIRE_OPCODE_CNP, .becn = true }, zeros, sizeof(zeros));
}

static void
cnp_counts_for_every_algorithm(void **state)
{
	static const struct { const struct tp_port_config *port; uint32_t handled; } cases[] = {
		{ &no_cc, 0 }, { &swift, 1 }, { &dcqcn, 1 },
	};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		struct rig r;

		rig_up_cc(&r, NULL, NULL, cases[i].port);
		inject_cnp(&r);
		assert_int_equal(counters(&r, 0)->rx_cnp, 1);
		assert_int_equal(counters(&r, 0)->rp_cnp_handled, cases[i].handled);
		assert_int_equal(counters(&r, 0)->rp_cnp_ignored, !cases[i].handled);
		rig_down(&r);
	}
}

static void
cnp_from_a_stranger_is_ignored(void **state)
{
	uint8_t *peer;
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &dcqcn);
	peer = r.a->qp->path.tmpl.hdr + r.a->qp->path.tmpl.l3_off + 16;
	peer[3] ^= 1;
	inject_cnp(&r);
	peer[3] ^= 1;
	assert_int_equal(counters(&r, 0)->rp_cnp_ignored, 1);
	/* To a QP that isn't. */
	r.a->qp->qpn ^= 1;
	inject_cnp(&r);
	r.a->qp->qpn ^= 1;
	assert_int_equal(counters(&r, 0)->rp_cnp_ignored, 2);
	assert_int_equal(counters(&r, 0)->rx_cnp, 2);
	assert_int_equal(counters(&r, 0)->rx_unknown_qp, 0);
	assert_int_equal(counters(&r, 0)->rp_cnp_handled, 0);
	rig_down(&r);
}

/* Bytes of WRITE payload that a QP sends in 10 ms after many CNPs. */
static uint64_t
paced_bytes(enum uroce_qp_type type, const struct tp_port_config *port)
{
	uint64_t sent = 0;
	struct rig r;

	rig_up_cc(&r, &(struct end_opts){ .type = type }, NULL, port);
	for (uint32_t i = 0; i < 200; i++) {
		inject_cnp(&r);
		r.p->now += 5 * PAIR_US;
		host_turn(&r.p->h[0]);
	}
	if (port->cc == TP_CC_DCQCN)
		assert_true(r.a->qp->req.cc->rate_bps == 100e6);
	for (uint32_t i = 0; i < 10; i++)
		rig_write(&r, i, 0, 100 * 1024);
	for (uint32_t i = 0; i < 100; i++) {
		pair_advance(r.p, 20 * PAIR_US);
		inject_cnp(&r);
	}
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		sent += r.p->log[i].from == 0 ? r.p->log[i].payload : 0;
	assert_int_equal(counters(&r, 0)->tail_loss_probes, 0);
	assert_int_equal(counters(&r, 0)->retransmitted_packets, 0);
	end_state(r.a, UROCE_QPS_ERR);
	pair_settle(r.p);
	rig_down(&r);
	return sent;
}

static void
dcqcn_paces_what_is_sent(void **state)
{
	/* 2 ms at 100 Mb/s: 25000 bytes, headers included. */
	assert_in_range(paced_bytes(UROCE_QPT_RC, &dcqcn), 22000, 26500);
	assert_in_range(paced_bytes(UROCE_QPT_UC, &dcqcn), 22000, 26500);
	assert_int_equal(paced_bytes(UROCE_QPT_RC, &no_cc), 10 * 100 * 1024);
}

static void
dcqcn_paces_read_responses(void **state)
{
	uint64_t sent = 0;
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &dcqcn);
	fill(r.bbuf, BUF, 5);
	r.b->qp->req.cc->ops->cnp(r.b->qp->req.cc, r.p->now);
	r.b->qp->req.cc->rate_bps = 100e6;
	rig_read(&r, 1, 0, 64 * 1024);
	pair_advance(r.p, 54 * PAIR_US);
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		sent += r.p->log[i].from == 1 ? r.p->log[i].payload : 0;
	/* One packet of 1 KiB takes 88 us. */
	assert_int_equal(sent, 1024);
	pair_advance(r.p, 10 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 64 * 1024);
	rig_down(&r);
}

/* Packets that were lost are sent again at the rate. */
static void
dcqcn_paces_what_is_sent_again(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &dcqcn);
	r.p->h[0].tp->c.ports[0].features.tail_loss_probe = false;
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 8 * 1024);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_true(r.a->qp->req.sack_peer);
	l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 3 };
	rig_write(&r, 2, 0, 8 * 1024);
	host_turn(&r.p->h[0]);
	r.a->qp->req.cc->ops->cnp(r.a->qp->req.cc, r.p->now);
	r.a->qp->req.cc->rate_bps = 100e6;
	r.p->nb_log = 0;
	pair_settle(r.p);
	assert_int_equal(pair_count(r.p, 0, -1), 8 + 1);
	/* One packet of 1 KiB takes 88 us. */
	pair_advance(r.p, 54 * PAIR_US);
	assert_int_equal(pair_count(r.p, 0, -1), 8 + 1);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(pair_count(r.p, 0, -1), 8 + 3);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* ---- DCQCN, rule by rule ---- */
static struct cc
make(const struct cc_ops *ops, struct qp *qp)
{
	struct cc cc = { .ops = ops, .qp = qp, .line_bps = LINE_MBPS * 1e6, .cwnd = TP_CWND_MAX };

	qp->path.mtu_shift = 10;
	ops->init(&cc, 0);
	return cc;
}

static void
dcqcn_is_not_limited_before_the_first_cnp(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&cc_dcqcn, &qp);

	cc.ops->advance(&cc, 1000 * PAIR_MS);
	cc.ops->sent(&cc, 1 << 30);
	assert_true(cc.rate_bps == 0);
}

static void
dcqcn_first_cnp_halves_and_later_ones_cut_less(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&cc_dcqcn, &qp);
	double before;

	cc.ops->cnp(&cc, 0);
	assert_true(cc.rate_bps == 20e9);
	/* Quiet for long: little congestion is remembered, so the next cut is small. */
	cc.ops->advance(&cc, 50 * PAIR_MS);
	assert_true(cc.rate_bps > 39e9 || cc.rate_bps == 0);
	before = cc.dcqcn.current;
	cc.ops->cnp(&cc, 50 * PAIR_MS);
	assert_true(cc.rate_bps > 0.95 * before && cc.rate_bps < before);
}

static void
dcqcn_comes_back_half_way_five_times_then_adds(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&cc_dcqcn, &qp);
	double want = 20e9;

	cc.ops->cnp(&cc, 0);
	cc.ops->cnp(&cc, 10 * PAIR_US);
	/* Target 20, rate 10 Gb/s and a little more: alpha was 1 and stays so without a quiet period. */
	assert_true(fabs(cc.rate_bps - 10e9) < 1e6);
	want = cc.rate_bps;
	for (uint32_t i = 1; i <= 5; i++) {
		cc.ops->advance(&cc, 10 * PAIR_US + i * 55 * PAIR_US);
		want = (want + 20e9) / 2;
		assert_true(fabs(cc.rate_bps - want) < 1);
	}
	cc.ops->advance(&cc, 10 * PAIR_US + 6 * 55 * PAIR_US);
	assert_true(fabs(cc.dcqcn.target - 20.04e9) < 1);
	/* Bytes too, more than five times 10 MB: hyper increase. */
	for (uint32_t i = 0; i < 6; i++)
		cc.ops->sent(&cc, 10000000);
	assert_true(cc.dcqcn.target > 20.2e9);
}

static void
dcqcn_counts_bytes_from_the_last_cnp_on(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&cc_dcqcn, &qp);

	cc.ops->cnp(&cc, 0);
	cc.ops->sent(&cc, 6000000);
	cc.ops->cnp(&cc, 10 * PAIR_US);
	/* Less than 10 MB since then. */
	cc.ops->sent(&cc, 6000000);
	assert_true(fabs(cc.rate_bps - 10e9) < 1e6);
	cc.ops->sent(&cc, 6000000);
	assert_true(fabs(cc.rate_bps - 15e9) < 1e6);
}

static void
dcqcn_stays_between_its_smallest_rate_and_the_line(void **state)
{
	struct qp qp = { 0 };
	struct cc cc = make(&cc_dcqcn, &qp);
	uint64_t now = 0;

	for (uint32_t i = 0; i < 100; i++, now += 10 * PAIR_US)
		cc.ops->cnp(&cc, now);
	assert_true(cc.rate_bps == 100e6);
	/* Two CNPs at once are one. */
	cc.dcqcn.current = 10e9;
	cc.ops->cnp(&cc, now);
	cc.ops->cnp(&cc, now + PAIR_US);
	assert_true(fabs(cc.rate_bps - 5e9) < 1e6);
	for (uint32_t i = 0; i < 2000; i++, now += 55 * PAIR_US) {
		cc.ops->advance(&cc, now);
		cc.ops->sent(&cc, 10000000);
	}
	assert_true(cc.rate_bps == 0 && cc.dcqcn.current == 40e9);
}

/* ---- Swift between two hosts; test_cc_swift.c has its rules ---- */
/* The way back is a part of the round trip, and the queue of READ responses is there. */
static void
swift_sees_marks_on_what_arrives(void **state)
{
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &swift);
	rig_read(&r, 1, 0, 4000);
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, transport_tx(r.p->h[0].tp, 0)->pkts, 1, false, r.p->now), 0);
	transport_tx(r.p->h[0].tp, 0)->n = 0;
	assert_int_equal(r.a->qp->req.cc->swift.marked_ns, 0);
	send_marked(&r, 1);
	assert_int_equal(r.a->qp->req.cc->swift.marked_ns, r.p->now);
	assert_true(r.a->qp->req.cc->swift.marked == 0.5);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
swift_measures_without_retransmissions(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &swift);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	r.p->stalled = true;
	rig_write(&r, 1, 0, 8 * 1024);
	pair_advance(r.p, 30 * PAIR_US);
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	/* The first packet, which asks for its answer, came through before the loss; the NAK answered it. */
	assert_int_equal(r.a->qp->loss.srtt_ns, 30 * PAIR_US);
	assert_int_equal(r.a->qp->req.cc->swift.srtt_ns, 30 * PAIR_US);
	assert_false(r.a->qp->loss.rtt_timing);
	rig_down(&r);
}

static void
swift_smallest_window_still_gets_through(void **state)
{
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &swift);
	for (uint32_t i = 0; i < 5; i++)
		r.a->qp->req.cc->ops->loss(r.a->qp->req.cc, true, r.p->now);
	cwnd_update(r.a->qp);
	assert_int_equal(r.a->qp->loss.cwnd, 1);
	fill(r.bbuf + 512 * 1024, 64 * 1024, 8);
	rig_write(&r, 1, 0, 64 * 1024);
	rig_read(&r, 2, 512 * 1024, 64 * 1024);
	rig_fetch_add(&r, 3, 900 * 1024, 1);
	pair_advance(r.p, 100 * PAIR_MS);
	for (uint32_t i = 1; i <= 3; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf + 512 * 1024, r.bbuf + 512 * 1024, 64 * 1024);
	rig_down(&r);
}

static void
algorithms_have_names(void **state)
{
	assert_string_equal(tp_cc_name(TP_CC_NONE), "none");
	assert_string_equal(tp_cc_name(TP_CC_DCQCN), "dcqcn");
	assert_string_equal(tp_cc_name(TP_CC_SWIFT), "swift");
	assert_string_equal(tp_cc_name(TP_CC_ALGORITHMS), "?");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cnp_is_as_hardware_sends_it),
		cmocka_unit_test(cnp_over_ipv6_has_its_class),
		cmocka_unit_test(one_cnp_per_interval),
		cmocka_unit_test(marked_responses_are_answered_too),
		cmocka_unit_test(marked_datagram_is_counted_only),
		cmocka_unit_test(controlled_packets_are_ect0),
		cmocka_unit_test(cnp_counts_for_every_algorithm),
		cmocka_unit_test(cnp_from_a_stranger_is_ignored),
		cmocka_unit_test(dcqcn_paces_what_is_sent),
		cmocka_unit_test(dcqcn_paces_read_responses),
		cmocka_unit_test(dcqcn_paces_what_is_sent_again),
		cmocka_unit_test(dcqcn_is_not_limited_before_the_first_cnp),
		cmocka_unit_test(dcqcn_first_cnp_halves_and_later_ones_cut_less),
		cmocka_unit_test(dcqcn_comes_back_half_way_five_times_then_adds),
		cmocka_unit_test(dcqcn_counts_bytes_from_the_last_cnp_on),
		cmocka_unit_test(dcqcn_stays_between_its_smallest_rate_and_the_line),
		cmocka_unit_test(swift_sees_marks_on_what_arrives),
		cmocka_unit_test(swift_measures_without_retransmissions),
		cmocka_unit_test(swift_smallest_window_still_gets_through),
		cmocka_unit_test(algorithms_have_names),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
