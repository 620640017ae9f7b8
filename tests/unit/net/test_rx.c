/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ARP, ND and ICMP echo: golden answers, and what strangers may send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rte_mbuf.h>

#include "net/net_priv.h"

enum { TAILROOM = 64, FRAME_MAX = 2048 };

static const uint8_t our_mac[6] = { 0x02, 0, 0, 0, 0, 0x01 };
static const uint8_t peer_mac[6] = { 0x02, 0, 0, 0, 0, 0x02 };
static const uint8_t our_ip[4] = { 198, 18, 0, 1 };
static const uint8_t peer_ip[4] = { 198, 18, 0, 2 };
static const uint8_t our_ip6[16] = { 0xfd, 0, 0, 0x18, [15] = 1 };
static const uint8_t peer_ip6[16] = { 0xfd, 0, 0, 0x18, [15] = 2 };

/** An mbuf whose buffer ends where its data (and tailroom) ends, so that valgrind and ASan see a byte read too far. */
struct pkt {
	struct rte_mbuf m;
	uint8_t *buf;
};

static void
pkt_init(struct pkt *k, const uint8_t *frame, uint16_t len, uint16_t tailroom)
{
	memset(k, 0, sizeof(*k));
	k->buf = malloc((size_t)len + tailroom + 1);
	assert_non_null(k->buf);
	memcpy(k->buf, frame, len);
	k->m.buf_addr = k->buf;
	k->m.buf_len = len + tailroom;
	k->m.nb_segs = 1;
	k->m.data_len = len;
	k->m.pkt_len = len;
	rte_mbuf_refcnt_set(&k->m, 1);
}

static void
make_port(struct net_port *p)
{
	static struct net_gids gids;

	memset(p, 0, sizeof(*p));
	p->index = 3;
	memcpy(p->mac, our_mac, 6);
	gids.addr[0] = (struct net_addr){ .gid = gid_link_local(our_mac), .prefix = 64 };
	gids.addr[1] = (struct net_addr){ .gid = gid_from_v4(our_ip), .prefix = 24 };
	gids.addr[2] = (struct net_addr){ .gid = *gid_at(our_ip6), .prefix = 64 };
	p->gids = &gids;
}

/** What net_rx() made of a frame. */
struct result {
	enum net_action action;
	struct net_counters c;
	struct net_learned learned;
	bool has_learned;
	uint8_t frame[FRAME_MAX];
	uint16_t len;
};

static void
run(const struct net_port *p, const uint8_t *frame, uint16_t len, uint16_t tailroom, struct result *r)
{
	struct pkt k;

	memset(r, 0, sizeof(*r));
	r->has_learned = true;
	pkt_init(&k, frame, len, tailroom);
	r->action = net_rx(p, &k.m, &r->c, &r->learned, &r->has_learned);
	r->len = k.m.data_len;
	assert_int_equal(k.m.data_len, k.m.pkt_len);
	memcpy(r->frame, k.m.buf_addr, r->len);
	free(k.buf);
}

static uint16_t
unhex(const char *text, uint8_t *out)
{
	uint16_t n = 0;
	unsigned int v;
	int used;

	while (sscanf(text, " %2x%n", &v, &used) == 1) {
		out[n++] = (uint8_t)v;
		text += used;
	}
	return n;
}

/* Written out by hand from RFC 826, 792, 4861 and 4443; checksums by scapy 2.5. */
static const char arp_request[] =
	"ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 c6120002 000000000000 c6120001";
static const char arp_answer[] =
	"020000000002 020000000001 0806 0001 0800 06 04 0002 020000000001 c6120001 020000000002 c6120002";
static const char arp_reply_to_us[] =
	"020000000001 020000000002 0806 0001 0800 06 04 0002 020000000002 c6120002 020000000001 c6120001";
static const char ns_frame[] = "3333ff000001 020000000002 86dd 60000000 0020 3a ff fd000018000000000000000000000002 "
			       "ff0200000000000000000001ff000001"
			       "8700 7d67 00000000 fd000018000000000000000000000001 0101 020000000002";
static const char na_answer[] = "020000000002 020000000001 86dd 60000000 0020 3a ff fd000018000000000000000000000001 "
				"fd000018000000000000000000000002"
				"8800 1c54 60000000 fd000018000000000000000000000001 0201 020000000001";
static const char echo_request[] =
	"020000000001 020000000002 0800 4500 0020 1234 4000 40 01 9c81 c6120002 c6120001 0800 c7aa abcd 0001 41424344";
static const char echo_answer[] =
	"020000000002 020000000001 0800 4500 0020 1234 4000 40 01 9c81 c6120001 c6120002 0000 cfaa abcd 0001 41424344";
static const char echo6_request[] = "020000000001 020000000002 86dd 60012345 000d 3a 33 "
				    "fd000018000000000000000000000002 fd000018000000000000000000000001"
				    "8000 102e abcd 0001 4142434445";
static const char echo6_answer[] = "020000000002 020000000001 86dd 60012345 000d 3a 40 "
				   "fd000018000000000000000000000001 fd000018000000000000000000000002"
				   "8100 0f2e abcd 0001 4142434445";

static void
expect_answer(const char *question, const char *answer, struct result *r)
{
	uint8_t q[FRAME_MAX], a[FRAME_MAX];
	uint16_t qn = unhex(question, q), an = unhex(answer, a);
	struct net_port p;

	make_port(&p);
	run(&p, q, qn, TAILROOM, r);
	assert_int_equal(r->action, NET_REPLY);
	assert_int_equal(r->len, an);
	assert_memory_equal(r->frame, a, an);
	assert_int_equal(r->c.rx_malformed + r->c.rx_ignored, 0);
}

static void
arp_request_is_answered_and_teaches(void **state)
{
	struct result r;

	expect_answer(arp_request, arp_answer, &r);
	assert_int_equal(r.c.rx_arp, 1);
	assert_int_equal(r.c.tx_arp_reply, 1);
	assert_true(r.has_learned);
	assert_int_equal(r.learned.port, 3);
	assert_memory_equal(r.learned.mac, peer_mac, 6);
	assert_memory_equal(r.learned.gid.raw + 12, peer_ip, 4);
}

static void
arp_reply_teaches_and_is_not_answered(void **state)
{
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX];
	uint16_t n = unhex(arp_reply_to_us, f);

	make_port(&p);
	run(&p, f, n, 0, &r);
	assert_int_equal(r.action, NET_DROP);
	assert_true(r.has_learned);
	assert_memory_equal(r.learned.mac, peer_mac, 6);
}

static void
neighbour_solicitation_is_answered_and_teaches(void **state)
{
	struct result r;

	expect_answer(ns_frame, na_answer, &r);
	assert_int_equal(r.c.rx_nd, 1);
	assert_int_equal(r.c.tx_nd_advert, 1);
	assert_true(r.has_learned);
	assert_memory_equal(&r.learned.gid, peer_ip6, 16);
}

static void
neighbour_advertisement_teaches(void **state)
{
	struct net_port p;
	struct result r;
	uint8_t f[NET_SOLICIT_MAX_BYTES];
	uint16_t n;

	make_port(&p);
	n = (uint16_t)pkt_put_eth(f, &p, 0, our_mac, WIRE_ETHERTYPE_IPV6);
	memcpy(f + 6, peer_mac, 6);
	n += (uint16_t)pkt_put_nd(f + n, ICMP6_NA, 0x60000000, gid_at(peer_ip6), gid_at(our_ip6), gid_at(peer_ip6), peer_mac);
	run(&p, f, n, 0, &r);
	assert_int_equal(r.action, NET_DROP);
	assert_true(r.has_learned);
	assert_memory_equal(r.learned.mac, peer_mac, 6);
	assert_memory_equal(&r.learned.gid, peer_ip6, 16);
}

static void
echo_requests_are_answered(void **state)
{
	struct result r;

	expect_answer(echo_request, echo_answer, &r);
	assert_int_equal(r.c.rx_icmp_echo, 1);
	assert_int_equal(r.c.tx_icmp_reply, 1);
	expect_answer(echo6_request, echo6_answer, &r);
	assert_int_equal(r.c.tx_icmp_reply, 1);
}

static void
ethernet_padding_is_not_sent_back(void **state)
{
	uint8_t q[FRAME_MAX], a[FRAME_MAX];
	uint16_t qn = unhex(echo_request, q), an = unhex(echo_answer, a);
	struct net_port p;
	struct result r;

	make_port(&p);
	memset(q + qn, 0xee, 60 - qn);
	run(&p, q, 60, 0, &r);
	assert_int_equal(r.action, NET_REPLY);
	assert_int_equal(r.len, an);
	assert_memory_equal(r.frame, a, an);
}

static void
duplicate_address_detection_is_told_to_all_nodes(void **state)
{
	static const uint8_t all_nodes_mac[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	static const uint8_t all_nodes[16] = { 0xff, 0x02, [15] = 1 };
	struct net_port p;
	struct result r;
	uint8_t f[NET_SOLICIT_MAX_BYTES];
	struct gid group, none = { 0 };
	uint8_t *ip = f + WIRE_ETH_BYTES, *ns = ip + WIRE_IPV6_BYTES;
	const uint16_t len = WIRE_ETH_BYTES + WIRE_IPV6_BYTES + ND_BYTES;

	make_port(&p);
	group = pkt_solicited_node(gid_at(our_ip6));
	pkt_put_eth(f, &p, 0, all_nodes_mac, WIRE_ETHERTYPE_IPV6);
	memcpy(f + 6, peer_mac, 6);
	pkt_put_nd(ip, ICMP6_NS, 0, &none, &group, gid_at(our_ip6), peer_mac);
	wire_put16(ip + 4, ND_BYTES); /* without the option */
	wire_put16(ns + 2, 0);
	wire_put16(ns + 2, pkt_sum_finish(pkt_sum(ns, ND_BYTES, pkt_sum_pseudo6(ip, ND_BYTES, IPPROTO_NUM_ICMP6))));

	run(&p, f, len, ND_OPT_BYTES, &r);
	assert_int_equal(r.action, NET_REPLY);
	assert_int_equal(r.len, len + ND_OPT_BYTES);
	assert_memory_equal(r.frame, all_nodes_mac, 6);
	assert_memory_equal(r.frame + WIRE_ETH_BYTES + 24, all_nodes, 16);
	assert_int_equal(wire_get32(r.frame + WIRE_ETH_BYTES + WIRE_IPV6_BYTES + 4),
			 0x20000000); /* override, not solicited */
	assert_false(r.has_learned);

	run(&p, f, len, 0, &r); /* no room for the answer's option */
	assert_int_equal(r.action, NET_DROP);
	assert_int_equal(r.c.rx_malformed, 1);
}

/** Put a VLAN tag into an untagged frame. */
static uint16_t
tag(uint8_t *f, uint16_t n, uint16_t tci)
{
	memmove(f + 16, f + 12, n - 12);
	wire_put16(f + 12, WIRE_ETHERTYPE_VLAN);
	wire_put16(f + 14, tci);
	return n + WIRE_VLAN_BYTES;
}

/** Put the link-local, the IPv4 and the IPv6 address into a VLAN. */
static void
set_vlans(struct net_port *p, uint16_t link_local, uint16_t ipv4, uint16_t ipv6)
{
	p->conf.vlan_id = link_local;
	p->gids->addr[0].vlan = link_local;
	p->gids->addr[1].vlan = ipv4;
	p->gids->addr[2].vlan = ipv6;
}

static void
only_our_vlan_is_answered(void **state)
{
	static const struct {
		uint16_t port_vlan;
		int tci; /* -1: untagged */
		enum net_action action;
	} cases[] = {
		{ 0, -1, NET_REPLY }, { 0, 0, NET_REPLY }, { 0, 5 << 13, NET_REPLY },
		{ 0, 7, NET_DROP },   { 7, 7, NET_REPLY }, { 7, 5 << 13 | 7, NET_REPLY },
		{ 7, -1, NET_DROP },  { 7, 8, NET_DROP },  { 7, 0, NET_DROP },
	};
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX];
	uint16_t n;

	make_port(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		n = unhex(arp_request, f);
		if (cases[i].tci >= 0)
			n = tag(f, n, (uint16_t)cases[i].tci);
		set_vlans(&p, cases[i].port_vlan, cases[i].port_vlan, cases[i].port_vlan);
		run(&p, f, n, 0, &r);
		assert_int_equal(r.action, cases[i].action);
		if (cases[i].action == NET_DROP)
			assert_int_equal(r.c.rx_ignored, 1);
		else if (cases[i].tci >= 0)
			assert_int_equal(wire_get16(r.frame + 14),
					 cases[i].tci); /* the answer goes back with the tag */
	}
}

static void
each_address_answers_in_its_vlan(void **state)
{
	static const struct {
		const char *frame;
		uint16_t vlan; /* of the address that it asks */
		bool teaches;
	} cases[] = { { arp_request, 4, true }, { echo_request, 4, false }, { ns_frame, 6, true }, { echo6_request, 6, false } };
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX];

	make_port(&p);
	set_vlans(&p, 0, 4, 6);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint16_t vlan = 0; vlan < 8; vlan++) {
			uint16_t n = unhex(cases[i].frame, f);

			if (vlan != 0)
				n = tag(f, n, vlan);
			run(&p, f, n, TAILROOM, &r);
			if (vlan != cases[i].vlan) {
				assert_int_equal(r.action, NET_DROP);
				assert_int_equal(r.c.rx_ignored, 1);
				assert_false(r.has_learned);
				continue;
			}
			assert_int_equal(r.action, NET_REPLY);
			assert_int_equal(wire_get16(r.frame + 14), vlan);
			assert_int_equal(r.has_learned, cases[i].teaches);
			if (cases[i].teaches)
				assert_int_equal(r.learned.vlan, vlan);
		}
	}
}

static void
shared_port_leaves_everything_to_the_kernel(void **state)
{
	static const char *const all[] = { arp_request, ns_frame, echo_request, echo6_request };
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX];

	make_port(&p);
	p.shared = true;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		run(&p, f, unhex(all[i], f), TAILROOM, &r);
		assert_int_equal(r.action, NET_DROP);
		assert_false(r.has_learned);
		assert_int_equal(r.c.rx_ignored, 1);
	}
}

enum fix { FIX_NOTHING, FIX_IP = 1, FIX_ICMP = 2, FIX_ICMP6 = 4 };

/** Make the checksums fit again after a change, so that the change is what is found, not the checksum. */
static void
fix_sums(uint8_t *f, uint16_t n, unsigned int fix)
{
	uint8_t *ip = f + WIRE_ETH_BYTES;
	uint8_t *icmp = ip + ((fix & FIX_ICMP6) != 0 ? WIRE_IPV6_BYTES : WIRE_IPV4_BYTES);
	uint32_t len;

	if ((fix & FIX_IP) != 0) {
		wire_put16(ip + 10, 0);
		wire_put16(ip + 10, pkt_sum_finish(pkt_sum(ip, (ip[0] & 15) * 4u, 0)));
	}
	if ((fix & FIX_ICMP) != 0) {
		wire_put16(icmp + 2, 0);
		wire_put16(icmp + 2, pkt_sum_finish(pkt_sum(icmp, n - (size_t)(icmp - f), 0)));
	}
	if ((fix & FIX_ICMP6) != 0) {
		len = wire_get16(ip + 4);
		if (len + WIRE_ETH_BYTES + WIRE_IPV6_BYTES > n)
			return;
		wire_put16(icmp + 2, 0);
		wire_put16(icmp + 2, pkt_sum_finish(pkt_sum(icmp, len, pkt_sum_pseudo6(ip, len, IPPROTO_NUM_ICMP6))));
	}
}

enum verdict { MALFORMED, IGNORED };

/** One change to a good frame that makes it one that must not be answered. */
struct hostile {
	const char *what, *base;
	uint16_t off;
	const char *bytes; /* hex, written at off */
	unsigned int fix;
	enum verdict verdict;
};

enum { E = WIRE_ETH_BYTES, I6 = WIRE_ETH_BYTES + WIRE_IPV6_BYTES, I4 = WIRE_ETH_BYTES + WIRE_IPV4_BYTES };

static const struct hostile hostile[] = {
	{ "ethertype nobody knows", arp_request, 12, "88cc", 0, IGNORED },
	{ "our own source MAC", arp_request, 6, "020000000001", 0, IGNORED },
	{ "ARP: hardware type", arp_request, E + 0, "0006", 0, MALFORMED },
	{ "ARP: protocol type", arp_request, E + 2, "86dd", 0, MALFORMED },
	{ "ARP: hardware length", arp_request, E + 4, "08", 0, MALFORMED },
	{ "ARP: protocol length", arp_request, E + 5, "10", 0, MALFORMED },
	{ "ARP: opcode", arp_request, E + 6, "0003", 0, IGNORED },
	{ "ARP: multicast sender MAC", arp_request, E + 8, "ffffffffffff", 0, MALFORMED },
	{ "ARP: zero sender MAC", arp_request, E + 8, "000000000000", 0, MALFORMED },
	{ "ARP: multicast sender IP", arp_request, E + 14, "e0000001", 0, MALFORMED },
	{ "ARP: broadcast sender IP", arp_request, E + 14, "ffffffff", 0, MALFORMED },
	{ "ARP: loopback sender IP", arp_request, E + 14, "7f000001", 0, MALFORMED },
	{ "ARP: for somebody else", arp_request, E + 24, "c6120009", 0, IGNORED },
	{ "IPv4: version", echo_request, E, "65", 0, MALFORMED },
	{ "IPv4: header length 4", echo_request, E, "44", FIX_IP, MALFORMED },
	{ "IPv4: header longer than packet", echo_request, E, "4f", 0, MALFORMED },
	{ "IPv4: options", echo_request, E, "46", FIX_IP, IGNORED },
	{ "IPv4: total length beyond the frame", echo_request, E + 2, "0021", FIX_IP, MALFORMED },
	{ "IPv4: total length of nothing", echo_request, E + 2, "0000", FIX_IP, MALFORMED },
	{ "IPv4: total length ends in ICMP header", echo_request, E + 2, "001b", FIX_IP, MALFORMED },
	{ "IPv4: checksum", echo_request, E + 10, "0001", 0, MALFORMED },
	{ "IPv4: first fragment", echo_request, E + 6, "2000", FIX_IP, IGNORED },
	{ "IPv4: later fragment", echo_request, E + 6, "0001", FIX_IP, IGNORED },
	{ "IPv4: not ICMP", echo_request, E + 9, "06", FIX_IP, IGNORED },
	{ "IPv4: for somebody else", echo_request, E + 16, "c6120009", FIX_IP, IGNORED },
	{ "IPv4: to a broadcast address", echo_request, E + 16, "ffffffff", FIX_IP, IGNORED },
	{ "IPv4: from broadcast", echo_request, E + 12, "ffffffff", FIX_IP, MALFORMED },
	{ "IPv4: from multicast", echo_request, E + 12, "e0000001", FIX_IP, MALFORMED },
	{ "IPv4: from nobody", echo_request, E + 12, "00000000", FIX_IP, MALFORMED },
	{ "IPv4: from our own address", echo_request, E + 12, "c6120001", FIX_IP, MALFORMED },
	{ "ICMP: to broadcast Ethernet", echo_request, 0, "ffffffffffff", 0, IGNORED },
	{ "ICMP: from multicast Ethernet", echo_request, 6, "010000000002", 0, MALFORMED },
	{ "ICMP: checksum", echo_request, I4 + 2, "dead", 0, MALFORMED },
	{ "ICMP: reply", echo_request, I4, "00", FIX_ICMP, IGNORED },
	{ "ICMP: code", echo_request, I4 + 1, "01", FIX_ICMP, IGNORED },
	{ "IPv6: version", ns_frame, E, "40", 0, MALFORMED },
	{ "IPv6: payload beyond the frame", ns_frame, E + 4, "0021", FIX_ICMP6, MALFORMED },
	{ "IPv6: payload 65535", ns_frame, E + 4, "ffff", 0, MALFORMED },
	{ "IPv6: payload of nothing", ns_frame, E + 4, "0000", 0, MALFORMED },
	{ "IPv6: extension header", ns_frame, E + 6, "00", 0, IGNORED },
	{ "ICMPv6: checksum", ns_frame, I6 + 2, "dead", 0, MALFORMED },
	{ "ICMPv6: router advertisement", ns_frame, I6, "86", FIX_ICMP6, IGNORED },
	{ "ICMPv6: redirect", ns_frame, I6, "89", FIX_ICMP6, IGNORED },
	{ "ND: hop limit 254: was forwarded", ns_frame, E + 7, "fe", FIX_ICMP6, MALFORMED },
	{ "ND: code", ns_frame, I6 + 1, "01", FIX_ICMP6, MALFORMED },
	{ "ND: ends before the target", ns_frame, E + 4, "0017", FIX_ICMP6, MALFORMED },
	{ "ND: ends in an option's header", ns_frame, E + 4, "0019", FIX_ICMP6, MALFORMED },
	{ "ND: ends in an option", ns_frame, E + 4, "001f", FIX_ICMP6, MALFORMED },
	{ "ND: option of length 0", ns_frame, I6 + 25, "00", FIX_ICMP6, MALFORMED },
	{ "ND: option longer than packet", ns_frame, I6 + 25, "ff", FIX_ICMP6, MALFORMED },
	{ "ND: multicast target", ns_frame, I6 + 8, "ff02", FIX_ICMP6, MALFORMED },
	{ "ND: for somebody else", ns_frame, I6 + 23, "09", FIX_ICMP6, IGNORED },
	{ "ND: multicast source", ns_frame, E + 8, "ff02", FIX_ICMP6, MALFORMED },
	{ "ND: unspecified source with a source address option", ns_frame, E + 8, "00000000000000000000000000000000",
	  FIX_ICMP6, MALFORMED },
	{ "ND: multicast MAC in the option", ns_frame, I6 + 26, "010000000002", FIX_ICMP6, MALFORMED },
	{ "ND: zero MAC in the option", ns_frame, I6 + 26, "000000000000", FIX_ICMP6, MALFORMED },
	{ "NA: solicited, to a group", ns_frame, I6, "88000000 40", FIX_ICMP6, MALFORMED },
	{ "NA: no target address option", ns_frame, I6, "88", FIX_ICMP6, IGNORED },
	{ "ICMPv6 echo: to a group", echo6_request, E + 24, "ff02", FIX_ICMP6, IGNORED },
	{ "ICMPv6 echo: for somebody else", echo6_request, E + 39, "09", FIX_ICMP6, IGNORED },
	{ "ICMPv6 echo: to broadcast Ethernet", echo6_request, 0, "ffffffffffff", 0, IGNORED },
	{ "ICMPv6 echo: from a group", echo6_request, E + 8, "ff02", FIX_ICMP6, MALFORMED },
	{ "ICMPv6 echo: from our own address", echo6_request, E + 23, "01", FIX_ICMP6, MALFORMED },
	{ "ICMPv6 echo: ends in the header", echo6_request, E + 4, "0007", FIX_ICMP6, MALFORMED },
};

static void
hostile_packets_are_dropped_and_counted(void **state)
{
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX], b[64];
	uint16_t n, bn;

	make_port(&p);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		const struct hostile *h = &hostile[i];
		uint64_t want = h->verdict == MALFORMED ? 1 : 0;

		n = unhex(h->base, f);
		bn = unhex(h->bytes, b);
		assert_true(h->off + bn <= n);
		memcpy(f + h->off, b, bn);
		fix_sums(f, n, h->fix);
		run(&p, f, n, TAILROOM, &r);
		if (r.action != NET_DROP || r.has_learned || r.c.rx_malformed != want || r.c.rx_ignored != 1 - want)
			fail_msg("%s: action %d, learned %d, malformed %u, ignored %u", h->what, r.action,
				 r.has_learned, (unsigned int)r.c.rx_malformed, (unsigned int)r.c.rx_ignored);
	}
}

static void
every_truncation_is_dropped(void **state)
{
	static const char *const all[] = { arp_request, arp_reply_to_us, ns_frame, echo_request, echo6_request };
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX];
	uint16_t n, cut;

	make_port(&p);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		n = unhex(all[i], f);
		for (cut = 0; cut < n; cut++) {
			run(&p, f, cut, 0, &r);
			assert_int_equal(r.action, NET_DROP);
			assert_false(r.has_learned);
			assert_int_equal(r.c.rx_malformed, 1);
		}
	}
}

static void
chains_are_dropped(void **state)
{
	struct net_counters c = { 0 };
	struct net_learned learned;
	struct net_port p;
	struct pkt k;
	uint8_t f[FRAME_MAX];
	bool has;

	make_port(&p);
	pkt_init(&k, f, unhex(arp_request, f), 0);
	k.m.nb_segs = 2;
	assert_int_equal(net_rx(&p, &k.m, &c, &learned, &has), NET_DROP);
	assert_int_equal(c.rx_malformed, 1);
	free(k.buf);
}

static void
random_damage_never_reads_too_far_or_answers_with_too_much(void **state)
{
	static const char *const all[] = { arp_request, arp_reply_to_us, ns_frame,
					   na_answer,   echo_request,    echo6_request };
	const unsigned int rounds = 200000;
	struct net_port p;
	struct result r;
	uint8_t f[FRAME_MAX];
	uint64_t x = 88172645463325252ull; /* xorshift64 */
	unsigned int i, k;
	uint16_t n, len;

	make_port(&p);
	for (i = 0; i < rounds; i++) {
		n = unhex(all[i % (sizeof(all) / sizeof(all[0]))], f);
		for (k = 0; k <= i % 4; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			f[x % n] = (uint8_t)(x >> 32);
		}
		fix_sums(f, n, wire_get16(f + 12) == WIRE_ETHERTYPE_IPV6 ? FIX_ICMP6 : FIX_NOTHING);
		len = (x >> 40) % 8 == 0 ? (uint16_t)((x >> 44) % n) : n;
		run(&p, f, len, (x >> 50) % 16, &r);
		if (r.action == NET_REPLY) {
			assert_in_range(r.len, WIRE_ETH_BYTES, len + ND_OPT_BYTES);
			assert_memory_equal(r.frame + 6, our_mac, 6);
		}
		if (r.has_learned)
			assert_true(mac_is_unicast(r.learned.mac) && gid_is_host(&r.learned.gid));
	}
}

static void
requests_we_send_are_golden(void **state)
{
	/* Who has 198.18.0.2? and its IPv6 counterpart: the peer's mirror images of the questions above. */
	static const char arp[] =
		"ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 c6120001 000000000000 c6120002";
	static const char ns[] = "3333ff000002 020000000001 86dd 60000000 0020 3a ff fd000018000000000000000000000001 "
				 "ff0200000000000000000001ff000002"
				 "8700 7d67 00000000 fd000018000000000000000000000002 0101 020000000001";
	struct gid gid;
	uint8_t f[NET_SOLICIT_MAX_BYTES], want[FRAME_MAX];
	struct net_port p;
	uint16_t n;

	make_port(&p);
	gid = gid_from_v4(peer_ip);
	n = unhex(arp, want);
	assert_int_equal(pkt_build_solicit(&p, &p.gids->addr[1].gid, 0, &gid, f), n);
	assert_memory_equal(f, want, n);
	n = unhex(ns, want);
	assert_int_equal(pkt_build_solicit(&p, &p.gids->addr[2].gid, 0, gid_at(peer_ip6), f), n);
	assert_memory_equal(f, want, n);

	n = tag(want, n, 100);
	assert_int_equal(pkt_build_solicit(&p, &p.gids->addr[2].gid, 100, gid_at(peer_ip6), f), n);
	assert_memory_equal(f, want, n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arp_request_is_answered_and_teaches),
		cmocka_unit_test(arp_reply_teaches_and_is_not_answered),
		cmocka_unit_test(neighbour_solicitation_is_answered_and_teaches),
		cmocka_unit_test(neighbour_advertisement_teaches),
		cmocka_unit_test(echo_requests_are_answered),
		cmocka_unit_test(ethernet_padding_is_not_sent_back),
		cmocka_unit_test(duplicate_address_detection_is_told_to_all_nodes),
		cmocka_unit_test(only_our_vlan_is_answered),
		cmocka_unit_test(each_address_answers_in_its_vlan),
		cmocka_unit_test(shared_port_leaves_everything_to_the_kernel),
		cmocka_unit_test(hostile_packets_are_dropped_and_counted),
		cmocka_unit_test(every_truncation_is_dropped),
		cmocka_unit_test(chains_are_dropped),
		cmocka_unit_test(random_damage_never_reads_too_far_or_answers_with_too_much),
		cmocka_unit_test(requests_we_send_are_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
