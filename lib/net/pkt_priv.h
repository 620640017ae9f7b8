/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Formats of Ethernet, ARP (RFC 826), ICMP and neighbour discovery (RFC 4861), and their checksums. Thread: any.
 */
#ifndef UROCE_PKT_PRIV_H
#define UROCE_PKT_PRIV_H

#include "net/net.h"

static inline bool
mac_is_unicast(const uint8_t mac[6])
{
	static const uint8_t zero[6];

	return (mac[0] & 1) == 0 && memcmp(mac, zero, sizeof(zero)) != 0;
}

enum {
	NET_ETH_VLAN_BYTES = WIRE_ETH_BYTES + WIRE_VLAN_BYTES,
	ARP_BYTES = 28,
	ARP_REQUEST = 1,
	ARP_REPLY = 2,
	ICMP_ECHO_REPLY = 0,
	ICMP_ECHO_REQUEST = 8,
	ICMP6_ECHO_REQUEST = 128,
	ICMP6_ECHO_REPLY = 129,
	ICMP6_NS = 135,
	ICMP6_NA = 136,
	ND_BYTES = 24,    /**< NS or NA without options */
	ND_OPT_BYTES = 8, /**< source or target link-layer address of Ethernet */
	ND_OPT_SOURCE = 1,
	ND_OPT_TARGET = 2,
	ND_HOP_LIMIT = 255, /**< RFC 4861, 7.1: proof that the packet was not forwarded */
	NET_TTL = 64,
	IPPROTO_NUM_ICMP = 1,
	IPPROTO_NUM_ICMP6 = 58,
	NET_SOLICIT_MAX_BYTES = NET_ETH_VLAN_BYTES + WIRE_IPV6_BYTES + ND_BYTES + ND_OPT_BYTES,
};

/** Sum of 16-bit words, not folded. @p len may be odd. */
uint32_t pkt_sum(const void *data, size_t len, uint32_t sum);
/** Fold and complement a sum, which gives the checksum. Over data that includes a correct checksum it is 0. */
uint16_t pkt_sum_finish(uint32_t sum);
/** Sum of the IPv6 pseudo-header (RFC 8200, 8.1). @p ip6 is the IP header. */
uint32_t pkt_sum_pseudo6(const uint8_t *ip6, uint32_t len, uint8_t next_header);
/** Write the Ethernet header. @param vlan  Of the tag; 0: it has none. @return its size in bytes. */
unsigned int pkt_put_eth(uint8_t *p, const struct net_port *port, uint16_t vlan, const uint8_t dmac[6],
			 uint16_t ethertype);
/** Write an ARP packet. @p tmac NULL: zero. */
void pkt_put_arp(uint8_t *p, uint16_t op, const uint8_t smac[6], const uint8_t sip[4], const uint8_t *tmac,
		 const uint8_t tip[4]);
/** Write the IPv6 header and an NS or NA with one link-layer address option. @return their size in bytes. */
unsigned int pkt_put_nd(uint8_t *p, uint8_t type, uint32_t flags, const struct gid *src, const struct gid *dst,
			const struct gid *target, const uint8_t mac[6]);
/** @return the solicited-node multicast address of @p gid (RFC 4291, 2.7.1). */
struct gid pkt_solicited_node(const struct gid *gid);
/**
 * Build the request for the MAC address of @p target: ARP or NS, from GID @p sgid, which is in VLAN @p vlan.
 * @return size of @p frame in bytes.
 */
unsigned int pkt_build_solicit(const struct net_port *port, const struct gid *sgid, uint16_t vlan,
			       const struct gid *target, uint8_t frame[NET_SOLICIT_MAX_BYTES]);

#endif /* UROCE_PKT_PRIV_H */
