/* SPDX-License-Identifier: BSD-3-Clause */
/* What all algorithms of congestion control share, rule by rule: when a QP may send, and the CNPs that it sends. */
#include <rte_ip.h>

#include "transport/cc/cc_priv.h"
#include "transport/core/tx_priv.h"
#include "rig.h"

enum { TICK = 1 << WHEEL_TICK_SHIFT, NOW = 1000 * TICK };

static struct {
	uint64_t advanced_ns;
	uint32_t sent;
} told;

static void
told_advance(struct cc *cc, uint64_t now_ns)
{
	(void)cc;
	told.advanced_ns = now_ns;
}

static void
told_sent(struct cc *cc, uint32_t bytes)
{
	(void)cc;
	told.sent += bytes;
}

static const struct cc_ops listener = { .name = "listener", .advance = told_advance, .sent = told_sent };
static const struct cc_ops reader = { .name = "reader", .sent = told_sent, .paces_reads = true };
static struct transport tp;
static struct qp qp;
static struct cc cc;

static int
begin(void **state)
{
	memset(&told, 0, sizeof(told));
	memset(&tp, 0, sizeof(tp));
	memset(&qp, 0, sizeof(qp));
	tp.now_ns = NOW;
	wheel_init(&tp.wheel, NOW);
	cc = (struct cc){ .ops = &listener, .qp = &qp, .cwnd = TP_CWND_MAX };
	qp.tp = &tp;
	qp.req.cc = &cc;
	qp.path.mtu_shift = 10;
	return 0;
}

/* ---- Pacing ---- */
static void
without_a_rate_it_may_always_send(void **state)
{
	cc.next_ns = NOW + 1;
	assert_true(cc_may_send(&tp, &qp));
	assert_false(wheel_pending(&cc.pace));
	assert_int_equal(told.advanced_ns, NOW);
	cc_sent(&tp, &cc, 1000);
	assert_int_equal(told.sent, 1000);
	assert_int_equal(cc.next_ns, NOW + 1);
	cc.next_ns = 0;
	cc_sent(&tp, &cc, 1000);
	assert_int_equal(cc.next_ns, 0);
}

/* A byte a nanosecond. */
static void
each_byte_takes_its_time(void **state)
{
	cc.rate_bps = 8e9;
	cc.next_ns = NOW;
	assert_true(cc_may_send(&tp, &qp));
	cc_sent(&tp, &cc, 1000);
	assert_int_equal(cc.next_ns, NOW + 1000);
	assert_false(cc_may_send(&tp, &qp));
	tp.now_ns = NOW + 999;
	assert_false(cc_may_send(&tp, &qp));
	tp.now_ns = NOW + 1000;
	assert_true(cc_may_send(&tp, &qp));
	cc.rate_bps = 1e9;
	cc_sent(&tp, &cc, 1000);
	assert_int_equal(cc.next_ns, NOW + 9000);
	assert_int_equal(told.sent, 2000);
}

/* Who comes late may catch up, but with no more than a burst. */
static void
what_was_not_sent_is_not_saved_up(void **state)
{
	cc.rate_bps = 8e9;
	cc.next_ns = NOW - CC_BURST_NS;
	cc_sent(&tp, &cc, 100);
	assert_int_equal(cc.next_ns, NOW - CC_BURST_NS + 100);
	cc.next_ns = NOW - CC_BURST_NS - 50;
	cc_sent(&tp, &cc, 100);
	assert_int_equal(cc.next_ns, NOW - CC_BURST_NS + 100);
	cc.next_ns = 0;
	cc_sent(&tp, &cc, 100);
	assert_int_equal(cc.next_ns, NOW - CC_BURST_NS + 100);
}

/* The timer wakes it when it may send, also when that is sooner than it had been. */
static void
the_timer_follows_the_rate(void **state)
{
	cc.rate_bps = 8e9;
	cc.next_ns = NOW + 20 * TICK;
	assert_false(cc_may_send(&tp, &qp));
	assert_true(wheel_pending(&cc.pace));
	assert_int_equal(cc.pace.tick, 1020);
	cc.next_ns = NOW + 30 * TICK;
	assert_false(cc_may_send(&tp, &qp));
	assert_int_equal(cc.pace.tick, 1020);
	cc.next_ns = NOW + 20 * TICK + 1;
	assert_false(cc_may_send(&tp, &qp));
	assert_int_equal(cc.pace.tick, 1020);
	cc.next_ns = NOW + 10 * TICK;
	assert_false(cc_may_send(&tp, &qp));
	assert_int_equal(cc.pace.tick, 1010);
	cc_stop(&tp, &qp);
	assert_false(wheel_pending(&cc.pace));
}

static void
a_read_is_charged_for_its_answer(void **state)
{
	cc_sent_request(&tp, &qp, 74, 3);
	assert_int_equal(told.sent, 74);
	cc.ops = &reader;
	cc_sent_request(&tp, &qp, 74, 3);
	assert_int_equal(told.sent, 74 + 74 + 3 * 1024);
	cc_sent_request(&tp, &qp, 74, 0);
	assert_int_equal(told.sent, 74 + 74 + 3 * 1024 + 74);
}

/* ---- Who is controlled ---- */
static void
the_port_decides(void **state)
{
	static const struct { struct tp_port_config port; double bps; } cases[] = {
		{ { .cc = TP_CC_DCQCN, .mbps = 25000, .features = TP_FEATURES_ALL }, 25e9 },
		{ { .cc = TP_CC_SWIFT, .features = TP_FEATURES_ALL }, 100e9 },
	};
	const struct tp_path loopback = { .loopback = true }, away = { 0 };
	const struct cc *c;
	struct rig r;

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		rig_up_cc(&r, NULL, NULL, &cases[i].port);
		c = r.a->qp->req.cc;
		assert_int_equal(c->algorithm, cases[i].port.cc);
		assert_ptr_equal(c->qp, r.a->qp);
		assert_true(c->line_bps == cases[i].bps);
		assert_int_equal(cc_attach(r.p->h[0].tp, r.a->qp, &loopback), 0);
		assert_null(r.a->qp->req.cc);
		/* What never leaves the host has the bits that the program gave it. */
		assert_int_equal(cc_traffic_class(r.a->qp, 0x2b), 0x2b);
		assert_int_equal(cc_attach(r.p->h[0].tp, r.a->qp, &away), 0);
		assert_int_equal(cc_traffic_class(r.a->qp, 0x2b), 0x2a);
		assert_int_equal(r.a->qp->req.cc->cwnd, i == 0 ? TP_CWND_MAX : TP_CWND_MIN);
		rig_down(&r);
	}
}

/* ---- CNPs ---- */
/* The header's checksum is changed, not computed: it must be right for each value that it can have. */
static void
a_cnp_has_its_class_and_a_right_checksum(void **state)
{
	enum { IDS = 1 << 16 };
	struct tp_txvec *v;
	struct rig r;

	rig_up(&r, NULL, NULL);
	v = transport_tx(r.p->h[0].tp, 0);
	for (uint32_t i = 0; i < IDS; i++) {
		struct rte_ipv4_hdr *ip;

		r.a->qp->rcv.cnp_next_ns = 0;
		cc_marked_rx(r.p->h[0].tp, r.a->qp);
		assert_int_equal(v->n, 1);
		ip = rte_pktmbuf_mtod_offset(v->pkts[0], struct rte_ipv4_hdr *, WIRE_ETH_BYTES);
		assert_int_equal(ip->type_of_service, CC_CNP_TCLASS);
		assert_int_equal(rte_raw_cksum(ip, sizeof(*ip)), 0xffff);
		rte_pktmbuf_free(v->pkts[0]);
		v->n = 0;
	}
	assert_int_equal(counters(&r, 0)->np_cnp_sent, IDS);
	rig_down(&r);
}

static void
cnps_keep_their_distance(void **state)
{
	struct tp_txvec *v;
	struct rig r;

	rig_up(&r, NULL, NULL);
	v = transport_tx(r.p->h[0].tp, 0);
	cc_marked_rx(r.p->h[0].tp, r.a->qp);
	assert_int_equal(v->n, 1);
	r.p->h[0].tp->now_ns += CC_CNP_INTERVAL_NS - 1;
	cc_marked_rx(r.p->h[0].tp, r.a->qp);
	assert_int_equal(v->n, 1);
	r.p->h[0].tp->now_ns += 1;
	cc_marked_rx(r.p->h[0].tp, r.a->qp);
	assert_int_equal(v->n, 2);
	assert_int_equal(counters(&r, 0)->np_ecn_marked_roce_packets, 3);
	assert_int_equal(counters(&r, 0)->np_cnp_sent, 2);
	r.p->now = r.p->h[0].tp->now_ns;
	pair_settle(r.p);
	assert_int_equal(counters(&r, 1)->rx_cnp, 2);
	rig_down(&r);
}

/* Over IPv6 the class lies across two bytes that it shares with version and flow label. */
static void
a_cnp_has_the_flow_label_of_its_qp(void **state)
{
	enum { LABEL = 0xabcde };
	struct tp_txvec *v;
	uint8_t *ip;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .v6 = true });
	v = transport_tx(r.p->h[0].tp, 0);
	ip = r.a->qp->path.tmpl.hdr + r.a->qp->path.tmpl.l3_off;
	wire_put32(ip, (wire_get32(ip) & 0xfff00000) | LABEL);
	cc_marked_rx(r.p->h[0].tp, r.a->qp);
	assert_int_equal(v->n, 1);
	assert_int_equal(wire_get32(rte_pktmbuf_mtod_offset(v->pkts[0], uint8_t *, WIRE_ETH_BYTES)), 0x60000000 | CC_CNP_TCLASS << 20 | LABEL);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 1)->rx_cnp, 1);
	rig_down(&r);
}

/* It isn't sent later: if marks go on, the next one brings it. */
static void
a_cnp_without_room_was_not_sent(void **state)
{
	struct transport *from;
	struct tp_txvec *v;
	uint16_t had;
	struct rig r;

	rig_up(&r, NULL, NULL);
	from = r.p->h[0].tp;
	v = transport_tx(from, 0);
	had = from->c.limits.tx_packets;
	from->c.limits.tx_packets = 0;
	cc_marked_rx(from, r.a->qp);
	assert_int_equal(v->n, 0);
	assert_int_equal(counters(&r, 0)->np_ecn_marked_roce_packets, 1);
	assert_int_equal(counters(&r, 0)->np_cnp_sent, 0);
	from->c.limits.tx_packets = had;
	cc_marked_rx(from, r.a->qp);
	assert_int_equal(v->n, 1);
	assert_int_equal(counters(&r, 0)->np_cnp_sent, 1);
	pair_settle(r.p);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_a_rate_it_may_always_send, begin),
		cmocka_unit_test_setup(each_byte_takes_its_time, begin),
		cmocka_unit_test_setup(what_was_not_sent_is_not_saved_up, begin),
		cmocka_unit_test_setup(the_timer_follows_the_rate, begin),
		cmocka_unit_test_setup(a_read_is_charged_for_its_answer, begin),
		cmocka_unit_test(the_port_decides),
		cmocka_unit_test(a_cnp_has_its_class_and_a_right_checksum),
		cmocka_unit_test(a_cnp_has_the_flow_label_of_its_qp),
		cmocka_unit_test(cnps_keep_their_distance),
		cmocka_unit_test(a_cnp_without_room_was_not_sent),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
