/* SPDX-License-Identifier: BSD-3-Clause */
/** @file From an address vector to the headers below the BTH. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_priv.h"

static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 2 };

static void
make_port(struct net_port *p)
{
	const uint8_t ip[4] = { 198, 18, 0, 1 };
	static struct net_gids gids;

	memset(p, 0, sizeof(*p));
	memcpy(p->mac, our_mac, 6);
	gids.addr[0] = (struct net_addr){ .gid = gid_link_local(our_mac), .prefix = 64 };
	gids.addr[1] = (struct net_addr){ .gid = gid_from_v4(ip), .prefix = 24 };
	p->gids = &gids;
}

static struct uroce_ah_attr
make_av4(void)
{
	const uint8_t ip[4] = { 198, 18, 0, 2 };
	struct uroce_ah_attr av = { .sgid_index = 1, .is_global = 1, .port_num = 1 };

	memcpy(av.dgid, gid_from_v4(ip).raw, 16);
	return av;
}

static void
ipv4_addresses_stand_in_the_first_four_bytes(void **state)
{
	const uint8_t sip[16] = { 198, 18, 0, 1 }, dip[16] = { 198, 18, 0, 2 };
	struct uroce_ah_attr av = make_av4();
	struct wire_addr w;
	struct net_port p;

	make_port(&p);
	av.traffic_class = 0xb8;
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_int_equal(w.ip_version, 4);
	assert_memory_equal(w.sip, sip, 16);
	assert_memory_equal(w.dip, dip, 16);
	assert_memory_equal(w.smac, our_mac, 6);
	assert_memory_equal(w.dmac, peer_mac, 6);
	assert_int_equal(w.traffic_class, 0xb8);
	assert_false(w.vlan);
}

static void
hop_limits_0_and_1_are_sent_as_64(void **state)
{
	const uint8_t group[4] = { 239, 18, 0, 1 };
	struct uroce_ah_attr av = make_av4();
	struct wire_addr w;
	struct net_port p;

	make_port(&p);
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_int_equal(w.ttl, 64);
	av.hop_limit = 1;
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_int_equal(w.ttl, 64);
	av.hop_limit = 2;
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_int_equal(w.ttl, 2);
	/* To a group it means this link, and must. */
	av.hop_limit = 1;
	memcpy(av.dgid, gid_from_v4(group).raw, 16);
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_int_equal(w.ttl, 1);
}

static void
source_port_comes_from_the_flow_label(void **state)
{
	struct uroce_ah_attr av = make_av4();
	struct wire_addr w;
	struct net_port p;

	make_port(&p);
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_int_equal(w.sport, 0);
	av.flow_label = 0x1234567; /* more than 20 bits: the upper ones are not the label's */
	net_path_addr(&p, 1, &av, peer_mac, &w);
	/* 0x34567: low 14 bits 0x0567, upper six 0x0d; 0x0567 ^ 0x0d = 0x056a (rdma_flow_label_to_udp_sport) */
	assert_int_equal(w.sport, 0xc56a);
	assert_int_equal(w.flow_label, 0);
}

static void
ipv6_carries_the_flow_label(void **state)
{
	struct uroce_ah_attr av = { .flow_label = 0xabcde };
	struct wire_addr w;
	struct net_port p;

	make_port(&p);
	memcpy(av.dgid, gid_link_local(peer_mac).raw, 16);
	net_path_addr(&p, 0, &av, peer_mac, &w);
	assert_int_equal(w.ip_version, 6);
	assert_int_equal(w.flow_label, 0xabcde);
	assert_memory_equal(w.sip, &p.gids->addr[0].gid, 16);
	assert_memory_equal(w.dip, av.dgid, 16);
}

static void
service_level_is_the_vlan_priority(void **state)
{
	struct uroce_ah_attr av = make_av4();
	struct wire_addr w;
	struct net_port p;

	make_port(&p);
	p.gids->addr[1].vlan = 100;
	av.sl = 5;
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_true(w.vlan);
	assert_int_equal(w.vlan_tci, 5 << 13 | 100);
}

static void
the_tag_is_that_of_the_gids_vlan(void **state)
{
	struct uroce_ah_attr av = make_av4();
	struct wire_addr w;
	struct net_port p;

	make_port(&p);
	p.conf.vlan_id = 100;
	p.gids->addr[1].vlan = 5;
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_true(w.vlan);
	assert_int_equal(w.vlan_tci, 5);
	/* Without a VLAN there is no tag, not even for a priority. */
	p.gids->addr[1].vlan = 0;
	av.sl = 5;
	net_path_addr(&p, 1, &av, peer_mac, &w);
	assert_false(w.vlan);
}

static void
multicast_groups_have_their_own_macs(void **state)
{
	const uint8_t group4[4] = { 239, 129, 2, 3 }, mac4[6] = { 0x01, 0x00, 0x5e, 0x01, 0x02, 0x03 };
	const uint8_t group6[16] = { 0xff, 0x0e, [12] = 0xde, 0xad, 0xbe, 0xef },
		      mac6[6] = { 0x33, 0x33, 0xde, 0xad, 0xbe, 0xef };
	struct gid gid;
	uint8_t mac[6];

	gid = gid_from_v4(group4);
	assert_true(net_multicast_mac(&gid, mac));
	assert_memory_equal(mac, mac4, 6);
	assert_true(net_multicast_mac(gid_at(group6), mac));
	assert_memory_equal(mac, mac6, 6);
	gid.raw[12] = 198;
	assert_false(net_multicast_mac(&gid, mac));
	assert_memory_equal(mac, mac6, 6);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4_addresses_stand_in_the_first_four_bytes),
		cmocka_unit_test(hop_limits_0_and_1_are_sent_as_64),
		cmocka_unit_test(source_port_comes_from_the_flow_label),
		cmocka_unit_test(ipv6_carries_the_flow_label),
		cmocka_unit_test(service_level_is_the_vlan_priority),
		cmocka_unit_test(the_tag_is_that_of_the_gids_vlan),
		cmocka_unit_test(multicast_groups_have_their_own_macs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
