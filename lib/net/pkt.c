/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Formats of ARP (RFC 826), neighbour discovery (RFC 4861) and their checksums. */
#include "net/pkt_priv.h"

uint32_t
pkt_sum(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;
	uint64_t s = sum;
	size_t i;

	for (i = 0; i + 1 < len; i += 2)
		s += wire_get16(p + i);
	if (i < len)
		s += (uint32_t)p[i] << 8;
	while (s >> 32 != 0)
		s = (s & UINT32_MAX) + (s >> 32);
	return (uint32_t)s;
}

uint16_t
pkt_sum_finish(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

uint32_t
pkt_sum_pseudo6(const uint8_t *ip6, uint32_t len, uint8_t next_header)
{
	uint32_t sum = pkt_sum(ip6 + 8, 32, 0); /* source and destination */

	return sum + (len >> 16) + (len & 0xffff) + next_header;
}

unsigned int
pkt_put_eth(uint8_t *p, const struct net_port *port, uint16_t vlan, const uint8_t dmac[6], uint16_t ethertype)
{
	memcpy(p, dmac, 6);
	memcpy(p + 6, port->mac, 6);
	if (vlan == 0) {
		wire_put16(p + 12, ethertype);
		return WIRE_ETH_BYTES;
	}
	wire_put16(p + 12, WIRE_ETHERTYPE_VLAN);
	wire_put16(p + 14, vlan);
	wire_put16(p + 16, ethertype);
	return NET_ETH_VLAN_BYTES;
}

void
pkt_put_arp(uint8_t *p, uint16_t op, const uint8_t smac[6], const uint8_t sip[4], const uint8_t *tmac,
	    const uint8_t tip[4])
{
	wire_put16(p, 1); /* Ethernet */
	wire_put16(p + 2, WIRE_ETHERTYPE_IPV4);
	p[4] = 6;
	p[5] = 4;
	wire_put16(p + 6, op);
	memcpy(p + 8, smac, 6);
	memcpy(p + 14, sip, 4);
	if (tmac != NULL)
		memcpy(p + 18, tmac, 6);
	else
		memset(p + 18, 0, 6);
	memcpy(p + 24, tip, 4);
}

unsigned int
pkt_put_nd(uint8_t *p, uint8_t type, uint32_t flags, const struct gid *src, const struct gid *dst,
	   const struct gid *target, const uint8_t mac[6])
{
	uint8_t *icmp = p + WIRE_IPV6_BYTES;
	uint8_t *opt = icmp + ND_BYTES;
	const uint16_t len = ND_BYTES + ND_OPT_BYTES;
	uint32_t sum;

	wire_put32(p, 6u << 28);
	wire_put16(p + 4, len);
	p[6] = IPPROTO_NUM_ICMP6;
	p[7] = ND_HOP_LIMIT;
	memcpy(p + 8, src, 16);
	memcpy(p + 24, dst, 16);

	icmp[0] = type;
	icmp[1] = 0;
	wire_put16(icmp + 2, 0);
	wire_put32(icmp + 4, flags);
	memcpy(icmp + 8, target, 16);
	opt[0] = type == ICMP6_NS ? ND_OPT_SOURCE : ND_OPT_TARGET;
	opt[1] = ND_OPT_BYTES / 8;
	memcpy(opt + 2, mac, 6);

	sum = pkt_sum(icmp, len, pkt_sum_pseudo6(p, len, IPPROTO_NUM_ICMP6));
	wire_put16(icmp + 2, pkt_sum_finish(sum));
	return WIRE_IPV6_BYTES + len;
}

struct gid
pkt_solicited_node(const struct gid *gid)
{
	struct gid group = { { 0xff, 0x02, [11] = 0x01, [12] = 0xff } };

	memcpy(group.raw + 13, gid->raw + 13, 3);
	return group;
}

unsigned int
pkt_build_solicit(const struct net_port *port, const struct gid *sgid, uint16_t vlan, const struct gid *target,
		  uint8_t frame[NET_SOLICIT_MAX_BYTES])
{
	static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct gid group;
	uint8_t dmac[6];
	unsigned int n;

	if (gid_is_v4(target)) {
		n = pkt_put_eth(frame, port, vlan, broadcast, WIRE_ETHERTYPE_ARP);
		pkt_put_arp(frame + n, ARP_REQUEST, port->mac, gid_ip(sgid), NULL, gid_ip(target));
		return n + ARP_BYTES;
	}
	group = pkt_solicited_node(target);
	net_multicast_mac(&group, dmac);
	n = pkt_put_eth(frame, port, vlan, dmac, WIRE_ETHERTYPE_IPV6);
	return n + pkt_put_nd(frame + n, ICMP6_NS, 0, sgid, &group, target, port->mac);
}
