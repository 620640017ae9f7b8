/* SPDX-License-Identifier: BSD-3-Clause */
/* In which VLAN a packet has to come: that of the address which it was sent to. */
#include <rte_mbuf.h>

#include "transport/core/types_priv.h"
#include "rig.h"

enum { QKEY = 0x11111111, UNTAGGED = -1, OTHER_VLAN = 9 };

/** Host 1's addresses, and what was asked about them. */
static struct world {
	uint16_t vlan; /* of the addresses */
	bool shared;   /* with the kernel: all VLANs are right */
	unsigned int asked;
} world;

/** As lib/net answers, with one more address, of OTHER_VLAN: groups are in the VLANs of all addresses. */
static bool
takes(void *arg, uint16_t port, const struct gid *dgid, uint16_t vlan)
{
	assert_int_equal(port, 0);
	world.asked++;
	if (!gid_is_multicast(dgid))
		assert_int_equal(dgid->raw[15], 2);
	return world.shared || vlan == world.vlan || (gid_is_multicast(dgid) && vlan == OTHER_VLAN);
}

static const struct {
	int tci; /* -1: untagged */
	uint16_t vlan;
} tags[] = { { UNTAGGED, 0 }, { 0, 0 }, { 5 << 13, 0 }, { 5, 5 }, { 3 << 13 | 5, 5 }, { 6, 6 }, { OTHER_VLAN, OTHER_VLAN }, { 0xffff, 0xfff } };

/** Have the world of addresses in @p vlan, and @p h ask it. */
static void
world_up(struct host *h, uint16_t vlan)
{
	world = (struct world){ .vlan = vlan };
	h->tp->c.takes = takes;
}

/** Put the packets that @p qp sends into @p vlan, as those of a QP whose address is there. */
static void
send_in(struct qp *qp, uint16_t vlan)
{
	struct wire_addr a = wire_tmpl_addr(&qp->path.tmpl);

	a.vlan = vlan != 0;
	a.vlan_tci = vlan;
	wire_tmpl_build(&qp->path.tmpl, &a);
	qp->path.vlan = vlan;
}

/** Take host 0's only packet off its TX vector and give it to host 1 with a tag. */
static void
deliver(struct pair *p, int tci, bool trusted)
{
	struct tp_txvec *v = transport_tx(p->h[0].tp, 0);
	struct rte_mbuf *m;
	uint8_t *eth;

	p->stalled = true;
	pair_settle(p);
	assert_int_equal(v->n, 1);
	v->n = 0;
	m = v->pkts[0];
	if (tci != UNTAGGED) {
		assert_non_null(rte_pktmbuf_prepend(m, WIRE_VLAN_BYTES));
		eth = rte_pktmbuf_mtod(m, uint8_t *);
		memmove(eth, eth + WIRE_VLAN_BYTES, 12);
		wire_put16(eth + 12, WIRE_ETHERTYPE_VLAN);
		wire_put16(eth + 14, (uint16_t)tci);
	}
	m->port = 0;
	assert_int_equal(transport_rx(p->h[1].tp, 0, &m, 1, trusted, p->now), 0);
}

static void
check_connection(enum uroce_qp_type type, bool v6, uint16_t vlan, unsigned int t, bool trusted)
{
	bool good = trusted || tags[t].vlan == vlan;
	struct ring_cqe e;
	struct rig r;

	rig_up(&r, &(struct end_opts){ .type = type }, &(struct conn_opts){ .v6 = v6 });
	world_up(&r.p->h[1], vlan);
	send_in(r.b->qp, vlan);
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	rig_send(&r, 2, 0, 10);
	deliver(r.p, tags[t].tci, trusted);
	assert_int_equal(cq_poll(&r.b->rcq, &e, NULL), good);
	assert_int_equal(counters(&r, 1)->rx_bad_vlan, !good);
	assert_int_equal(counters(&r, 1)->rx_bad_address, 0);
	/* Nobody is asked about what comes as it should. */
	assert_int_equal(world.asked, !good);
	rig_down(&r);
}

static void
packets_of_a_connection_come_in_the_vlan_of_its_address(void **state)
{
	static const enum uroce_qp_type types[] = { UROCE_QPT_RC, UROCE_QPT_UC };

	for (unsigned int type = 0; type < 2; type++)
		for (unsigned int v6 = 0; v6 < 2; v6++)
			for (uint16_t vlan = 0; vlan < 10; vlan += 5)
				for (unsigned int t = 0; t < sizeof(tags) / sizeof(tags[0]); t++)
					check_connection(types[type], v6, vlan, t, false);
}

/* Addresses of one daemon reach each other whatever their VLANs. */
static void
what_stays_inside_has_no_vlan(void **state)
{
	for (uint16_t vlan = 0; vlan < 10; vlan += 5)
		for (unsigned int t = 0; t < sizeof(tags) / sizeof(tags[0]); t++)
			check_connection(UROCE_QPT_RC, false, vlan, t, true);
}

static void
a_shared_ports_tags_are_the_kernels_affair(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	world_up(&r.p->h[1], 0);
	world.shared = true;
	end_recv(r.b, 1, SGE(r.bbuf, 100, r.bmr), 1);
	rig_send(&r, 2, 0, 10);
	deliver(r.p, 6, false);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
a_cnp_from_another_vlan_is_ignored(void **state)
{
	for (unsigned int good = 0; good < 2; good++) {
		struct rig r;

		rig_up_cc(&r, NULL, NULL, &(struct tp_port_config){ .cc = TP_CC_DCQCN, .mbps = 40000, .features = TP_FEATURES_ALL });
		world_up(&r.p->h[1], good ? 0 : 5);
		send_in(r.b->qp, good ? 0 : 5);
		pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_OPCODE_CNP, .becn = true }, (uint8_t[WIRE_CNP_PAYLOAD_BYTES]){ 0 }, WIRE_CNP_PAYLOAD_BYTES);
		assert_int_equal(counters(&r, 1)->rp_cnp_handled, good);
		assert_int_equal(counters(&r, 1)->rp_cnp_ignored, !good);
		rig_down(&r);
	}
}

static void
datagrams_come_in_the_vlan_of_the_address(void **state)
{
	for (unsigned int group = 0; group < 2; group++) {
		for (unsigned int t = 0; t < sizeof(tags) / sizeof(tags[0]); t++) {
			struct pair *p = pair_new();
			struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD });
			struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD });
			uint32_t ah = group ? host_group_ah(&p->h[0], PAIR_PD, false) : host_ah(&p->h[0], PAIR_PD, false, false);
			uint32_t qpn = group ? WIRE_QPN_MULTICAST : qp_num(b->qp);
			uint8_t buf[64];
			struct mr *mr = host_mr(&p->h[1], buf, sizeof(buf), ACCESS_ALL);
			const struct tp_counters *c = transport_counters(p->h[1].tp);
			bool good = tags[t].vlan == 5 || (group && tags[t].vlan == OTHER_VLAN);
			struct ring_cqe e;

			world_up(&p->h[1], 5);
			ud_to_rts(a, QKEY);
			ud_to_rts(b, QKEY);
			if (group)
				assert_int_equal(mcast_attach(p->h[1].sh.mcasts, 0, pair_group(false), qp_num(b->qp)), 0);
			end_recv(b, 1, SGE(buf, sizeof(buf), mr), 1);
			end_send(a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .inline_data = "hello", .inline_bytes = 5, .rkey = QKEY,
						  .remote_addr = (uint64_t)qpn << 32 | ah });
			deliver(p, tags[t].tci, false);
			assert_int_equal(cq_poll(&b->rcq, &e, NULL), good);
			assert_int_equal(c->rx_bad_vlan, !good);
			assert_int_equal(c->rx_mcast, group && good);
			if (group)
				assert_int_equal(mcast_detach(p->h[1].sh.mcasts, 0, pair_group(false), qp_num(b->qp)), 0);
			assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
			end_free(a);
			end_free(b);
			mr_destroy(p->h[1].sh.mrs, mr);
			pair_free(p);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_a_connection_come_in_the_vlan_of_its_address),
		cmocka_unit_test(what_stays_inside_has_no_vlan),
		cmocka_unit_test(a_shared_ports_tags_are_the_kernels_affair),
		cmocka_unit_test(a_cnp_from_another_vlan_is_ignored),
		cmocka_unit_test(datagrams_come_in_the_vlan_of_the_address),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
