/* SPDX-License-Identifier: BSD-3-Clause */
/* QP 1: what reaches it, what is refused, what it sends; held against captures of Linux's connection manager. */
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../wire/pcap.h"
#include "pair.h"

/** Packets for QP 1 in all captures of tests/golden together. */
#define GOLDEN_MADS 135

struct gsi_host {
	struct transport *tp;
	struct mr_table *mrs;
	struct qp_table *qps;
	struct tp_mad mad;
	unsigned int mads;
};

static void
on_mad(void *arg, const struct tp_mad *mad)
{
	struct gsi_host *h = arg;

	h->mad = *mad;
	h->mads++;
}

static void
host_up(struct gsi_host *h, const uint16_t *pkeys)
{
	struct transport_config c = { .sh.pool = pair_pool(), .nb_ports = 2, .mad = on_mad, .arg = h };

	memset(h, 0, sizeof(*h));
	c.sh.mrs = h->mrs = mr_table_create(4, NULL, 0);
	c.sh.qps = h->qps = qp_table_create(4, NULL, 0);
	memcpy(c.ports[1].pkeys, pkeys, sizeof(c.ports[1].pkeys));
	c.ports[1].features = (struct tp_features)TP_FEATURES_ALL;
	h->tp = transport_create(&c);
	assert_non_null(h->tp);
}

static void
host_down(struct gsi_host *h)
{
	transport_destroy(h->tp);
	qp_table_destroy(h->qps);
	mr_table_destroy(h->mrs);
}

static void
arrive(struct gsi_host *h, const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pair_pool());

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	assert_int_equal(transport_rx(h->tp, 1, &m, 1, false, 1000), 0);
}

static const struct tp_counters *
counters(const struct gsi_host *h)
{
	return transport_counters(h->tp);
}

static const uint16_t default_pkeys[UROCE_MAX_PKEYS] = { WIRE_PKEY_DEFAULT };

/* ---- Captures ---- */
static void
check_golden_rx(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	struct gsi_host *h = arg;
	unsigned int before = h->mads;
	struct wire_pkt p;
	bool v4;

	if (wire_parse(frame, len, true, &p) != WIRE_OK || p.bth.dqpn != WIRE_QPN_GSI)
		return;
	arrive(h, frame, len);
	if (h->mads != before + 1)
		fail_msg("%s, packet %u doesn't reach QP 1", file, number);
	v4 = p.ip_version == 4;
	assert_int_equal(gid_is_v4(&h->mad.sgid), v4);
	assert_int_equal(gid_is_v4(&h->mad.dgid), v4);
	assert_memory_equal(gid_ip(&h->mad.sgid), p.l3 + (v4 ? 12 : 8), v4 ? 4 : 16);
	assert_memory_equal(gid_ip(&h->mad.dgid), p.l3 + (v4 ? 16 : 24), v4 ? 4 : 16);
	assert_memory_equal(h->mad.smac, frame + 6, 6);
	assert_memory_equal(h->mad.data, p.payload, TP_MAD_BYTES);
	assert_int_equal(h->mad.port, 1);
	assert_int_equal(h->mad.src_qpn, 1);
	assert_int_equal(h->mad.pkey, 0xffff);
	assert_int_equal(h->mad.hop_limit, 64);
	assert_int_equal(h->mad.vlan_tci, 0);
}

static void
mads_of_linux_reach_qp1(void **state)
{
	struct gsi_host h;

	host_up(&h, default_pkeys);
	golden_for_each(check_golden_rx, &h);
	assert_int_equal(h.mads, GOLDEN_MADS);
	assert_int_equal(counters(&h)->rx_mads, GOLDEN_MADS);
	host_down(&h);
}

static struct wire_addr
addr_of(const struct wire_pkt *p)
{
	struct wire_addr a = { .ip_version = p->ip_version };

	memcpy(a.dmac, p->l2, 6);
	memcpy(a.smac, p->l2 + 6, 6);
	if (p->ip_version == 4) {
		a.traffic_class = p->l3[1];
		a.ttl = p->l3[8];
		memcpy(a.sip, p->l3 + 12, 4);
		memcpy(a.dip, p->l3 + 16, 4);
	} else {
		a.traffic_class = wire_get32(p->l3) >> 20 & 0xff;
		a.flow_label = wire_get32(p->l3) & 0xfffff;
		a.ttl = p->l3[7];
		memcpy(a.sip, p->l3 + 8, 16);
		memcpy(a.dip, p->l3 + 24, 16);
	}
	return a;
}

/*
 * Soft-RoCE's own ways, see tests/golden/README.md: it counts IPv4's id on (and so has another checksum), computes the source
 * port from a hash of the QPN, sets AckReq, which means nothing for a datagram, and leaves MigReq 0, where hardware has 1.
 * Hence another ICRC.
 */
static void
check_golden_tx(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t ours[WIRE_MAX_HDR_BYTES + TP_MAD_BYTES + WIRE_ICRC_BYTES], theirs[sizeof(ours)];
	struct wire_pkt p, q;
	struct wire_addr a;
	uint32_t l3, l4, bth;

	if (wire_parse(frame, len, true, &p) != WIRE_OK || p.bth.dqpn != WIRE_QPN_GSI)
		return;
	a = addr_of(&p);
	assert_int_equal(gsi_build(ours, &a, p.bth.pkey, p.bth.psn, p.payload), len);
	assert_int_equal(wire_parse(ours, len, true, &q), WIRE_OK);
	assert_int_equal(q.sport, 0xc001);
	assert_true(q.bth.migreq);
	assert_false(q.bth.ackreq);
	memcpy(theirs, frame, len);
	l3 = (uint32_t)(p.l3 - frame);
	bth = (uint32_t)(p.bthp - frame);
	l4 = bth - WIRE_UDP_BYTES;
	if (p.ip_version == 4) {
		memcpy(theirs + l3 + 4, ours + l3 + 4, 2);
		memcpy(theirs + l3 + 10, ours + l3 + 10, 2);
	}
	wire_put16(theirs + l4, 0xc001);
	theirs[bth + 1] |= 0x40;
	theirs[bth + 8] &= 0x7f;
	if (memcmp(ours, theirs, len - WIRE_ICRC_BYTES) != 0)
		fail_msg("%s, packet %u is built otherwise", file, number);
	(*(unsigned int *)arg)++;
}

static void
what_qp1_sends_is_what_linux_sends(void **state)
{
	unsigned int n = 0;

	golden_for_each(check_golden_tx, &n);
	assert_int_equal(n, GOLDEN_MADS);
}

/* ---- Made to order ---- */
struct order {
	uint16_t pkey;
	uint32_t qkey, src_qpn, mad_bytes;
	uint8_t opcode;
	bool v6, bad_icrc;
};

static void
send_order(struct gsi_host *h, const struct order *o)
{
	uint8_t frame[1024] = { 0 }, *bth;
	struct wire_addr a = { .dmac = { 2, 0, 0, 0, 0, 1 }, .smac = { 2, 0, 0, 0, 0, 2 }, .ip_version = o->v6 ? 6 : 4,
			       .traffic_class = 0x6b, .ttl = 3, .vlan = true, .vlan_tci = 0xa123, .flow_label = 0x54321 };
	uint8_t opcode = o->opcode != 0 ? o->opcode : WIRE_UD | WIRE_OP_SEND_ONLY;
	const struct wire_opcode *op = &wire_opcodes[opcode];
	struct wire_bth b = { .opcode = opcode, .dqpn = WIRE_QPN_GSI, .pkey = o->pkey };
	uint32_t bytes = o->mad_bytes != 0 ? o->mad_bytes : TP_MAD_BYTES;
	uint16_t l4 = (uint16_t)(op->hdr_bytes + bytes + WIRE_ICRC_BYTES);
	struct wire_tmpl t;

	a.sip[0] = a.dip[0] = 0xfd;
	wire_tmpl_build(&t, &a);
	wire_tmpl_write(&t, frame, l4, 0);
	bth = frame + t.bth_off;
	wire_put_bth(bth, &b);
	if (op->flags & WIRE_F_DETH)
		wire_put_deth(bth + op->off_deth, o->qkey != 0 ? o->qkey : WIRE_QKEY_GSI,
			      o->src_qpn != 0 ? o->src_qpn : 1);
	memset(bth + op->hdr_bytes, 0x77, bytes);
	wire_tmpl_seal(&t, frame, l4);
	frame[t.bth_off + l4 - 1] ^= o->bad_icrc;
	arrive(h, frame, t.bth_off + l4);
}

static void
everything_an_answer_needs_is_told(void **state)
{
	struct gsi_host h;

	host_up(&h, default_pkeys);
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		send_order(&h, &(struct order){ .pkey = 0xffff, .src_qpn = 0x123456, .v6 = v6 });
		assert_int_equal(h.mads, v6 + 1);
		assert_int_equal(h.mad.src_qpn, 0x123456);
		assert_int_equal(h.mad.vlan_tci, 0xa123);
		/* Not the congestion that was met on the way here. */
		assert_int_equal(h.mad.traffic_class, 0x68);
		assert_int_equal(h.mad.hop_limit, 3);
		assert_int_equal(h.mad.flow_label, v6 ? 0x54321 : 0);
		assert_int_equal(h.mad.data[255], 0x77);
	}
	host_down(&h);
}

/* 10.9.3: any P_Key of the port's table, compared by 15 bits, not between two limited members. */
static void
qp1_takes_every_pkey_of_the_table(void **state)
{
	static const uint16_t table[UROCE_MAX_PKEYS] = { 0xffff, 0x8001, 0x7002, 0x0001 };
	static const struct {
		uint16_t arrives, own; /* 0: refused */
	} cases[] = {
		{ 0xffff, 0xffff }, { 0x7fff, 0xffff }, { 0x8001, 0x8001 }, { 0x0001, 0x8001 },
		{ 0xf002, 0x7002 }, { 0x7002, 0 },	{ 0x8003, 0 },	    { 0x0000, 0 },
		{ 0x8000, 0 },
		/* As two features that are on, which are behind the table in struct tp_port_config. */
		{ 0x8101, 0 },
	};
	uint64_t refused = 0;
	struct gsi_host h;

	host_up(&h, table);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		h.mads = 0;
		send_order(&h, &(struct order){ .pkey = cases[i].arrives });
		refused += cases[i].own == 0;
		assert_int_equal(h.mads, cases[i].own != 0);
		if (cases[i].own != 0)
			assert_int_equal(h.mad.pkey, cases[i].own);
		assert_int_equal(counters(&h)->rx_bad_pkey, refused);
	}
	host_down(&h);
}

/** VLAN 0x123 is that of the second answer. */
static bool
takes(void *arg, uint16_t port, const struct gid *dgid, uint16_t vlan)
{
	static unsigned int asked;

	assert_int_equal(port, 1);
	assert_int_equal(gid_ip(dgid)[0], 0xfd);
	assert_int_equal(vlan, 0x123);
	return ++asked == 2;
}

static void
a_mad_in_another_vlan_than_its_addresss_is_dropped(void **state)
{
	struct transport_config c = { .sh.pool = pair_pool(), .nb_ports = 2, .mad = on_mad, .takes = takes };
	struct gsi_host h;

	host_up(&h, default_pkeys);
	transport_destroy(h.tp);
	c.sh.mrs = h.mrs;
	c.sh.qps = h.qps;
	c.arg = &h;
	h.tp = transport_create(&c);
	assert_non_null(h.tp);
	for (unsigned int i = 0; i < 2; i++) {
		send_order(&h, &(struct order){ .pkey = 0xffff });
		assert_int_equal(counters(&h)->rx_bad_vlan, 1);
		assert_int_equal(h.mads, i);
	}
	host_down(&h);
}

static void
what_is_no_mad_is_dropped_and_counted(void **state)
{
	struct gsi_host h;

	host_up(&h, default_pkeys);
	send_order(&h, &(struct order){ .pkey = 0xffff, .qkey = 0x80010001 });
	assert_int_equal(counters(&h)->rx_bad_qkey, 1);
	send_order(&h, &(struct order){ .pkey = 0xffff, .mad_bytes = 252 });
	send_order(&h, &(struct order){ .pkey = 0xffff, .mad_bytes = 260 });
	assert_int_equal(counters(&h)->rx_mad_length, 2);
	send_order(&h, &(struct order){ .pkey = 0xffff, .opcode = WIRE_UD | WIRE_OP_SEND_ONLY_IMM });
	send_order(&h, &(struct order){ .pkey = 0xffff, .opcode = WIRE_RC | WIRE_OP_SEND_ONLY });
	assert_int_equal(counters(&h)->rx_wrong_service, 2);
	send_order(&h, &(struct order){ .pkey = 0xffff, .bad_icrc = true });
	assert_int_equal(counters(&h)->rx_icrc_encapsulated, 1);
	assert_int_equal(h.mads, 0);
	assert_int_equal(counters(&h)->rx_mads, 0);
	host_down(&h);
}

static void
flow_label_chooses_the_source_port(void **state)
{
	const struct wire_addr a = { .ip_version = 6, .ttl = 64, .sport = wire_flow_label_to_sport(0x54321),
				     .flow_label = 0x54321 };
	uint8_t frame[WIRE_MAX_HDR_BYTES + TP_MAD_BYTES + WIRE_ICRC_BYTES], mad[TP_MAD_BYTES] = { 1 };
	uint32_t len = gsi_build(frame, &a, 0x8001, 0x1fffffe, mad);
	struct wire_pkt p;

	assert_int_equal(wire_parse(frame, len, true, &p), WIRE_OK);
	assert_int_equal(p.sport, 0xc000 | ((0x54321 & 0x3fff) ^ (0x54321 >> 14)));
	assert_int_equal(p.bth.psn, 0xfffffe);
	assert_int_equal(p.bth.pkey, 0x8001);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mads_of_linux_reach_qp1),
		cmocka_unit_test(what_qp1_sends_is_what_linux_sends),
		cmocka_unit_test(everything_an_answer_needs_is_told),
		cmocka_unit_test(qp1_takes_every_pkey_of_the_table),
		cmocka_unit_test(a_mad_in_another_vlan_than_its_addresss_is_dropped),
		cmocka_unit_test(what_is_no_mad_is_dropped_and_counted),
		cmocka_unit_test(flow_label_chooses_the_source_port),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
