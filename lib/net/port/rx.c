/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Packets that are not RoCE v2, on an own port: ARP, neighbour discovery, ICMP echo, and routers' queries about groups.
 *
 * Answers are built in place of the requests. All input is from strangers: lengths are checked before fields are read,
 * and checksums before fields are used. No answer is sent that is larger than its request by more than one ND option,
 * that goes to a group, or that is on behalf of another's address.
 */
#include <rte_mbuf.h>

#include "net/group/group_priv.h"

enum {
	IPV4_FLAGS_FRAGMENT = 0x3fff, /* more fragments, or an offset */
	ICMP_BYTES = 8,
	NA_SOLICITED = 1 << 30,
	NA_OVERRIDE = 1 << 29,
	IPPROTO_NUM_HOP_BY_HOP = 0,
	HBH_BYTES = 8, /* the shortest hop-by-hop options header */
};

/** State of the packet being handled. */
struct rx {
	const struct net_port *p;
	struct rte_mbuf *m;
	struct net_counters *c;
	struct net_learned *learned;
	bool *has_learned;
	uint8_t *eth, *l3;
	uint32_t l3_bytes; /* from l3 to the end of the frame */
	uint16_t ethertype;
	uint16_t vlan; /* in which it came; an answer has the same tag */
};

static enum net_action
malformed(struct rx *r)
{
	r->c->rx_malformed++;
	return NET_DROP;
}

static enum net_action
ignored(struct rx *r)
{
	r->c->rx_ignored++;
	return NET_DROP;
}

/** @return true if @p gid is an address that the port has in the packet's VLAN. */
static bool
owns(const struct rx *r, const struct gid *gid)
{
	const struct net_addr *a = net_addr_find(r->p, gid);

	return a != NULL && a->vlan == r->vlan;
}

static bool
owns_ipv4(const struct rx *r, const uint8_t ip[4])
{
	const struct gid gid = gid_from_v4(ip);

	return owns(r, &gid);
}

static bool
to_us(const struct rx *r)
{
	return memcmp(r->eth, r->p->mac, 6) == 0;
}

static void
learn(struct rx *r, const struct gid *gid, const uint8_t mac[6])
{
	if (!mac_is_unicast(mac) || !gid_is_host(gid) || net_port_owns(r->p, gid))
		return;
	r->learned->kind = NET_LEARNED_NEIGH;
	r->learned->port = r->p->index;
	r->learned->vlan = r->vlan;
	r->learned->gid = *gid;
	memcpy(r->learned->mac, mac, sizeof(r->learned->mac));
	r->learned->weak = false;
	*r->has_learned = true;
}

/** Address the Ethernet header to @p dmac, from the port. */
static void
eth_reply(struct rx *r, const uint8_t dmac[6])
{
	memmove(r->eth, dmac, 6);
	memcpy(r->eth + 6, r->p->mac, 6);
}

/** Set the frame's length to @p l3_bytes after the Ethernet header. @return false: no room. */
static bool
set_l3_bytes(struct rx *r, uint32_t l3_bytes)
{
	uint32_t bytes = (uint32_t)(r->l3 - r->eth) + l3_bytes;
	uint32_t have = rte_pktmbuf_data_len(r->m);

	if (bytes <= have)
		return rte_pktmbuf_trim(r->m, (uint16_t)(have - bytes)) == 0;
	return rte_pktmbuf_append(r->m, (uint16_t)(bytes - have)) != NULL;
}

/* ---- ARP (RFC 826) ---- */
static enum net_action
rx_arp(struct rx *r)
{
	uint8_t *a = r->l3;
	uint8_t sip[4], tip[4], smac[6];
	struct gid gid;
	uint16_t op;

	r->c->rx_arp++;
	if (r->l3_bytes < ARP_BYTES)
		return malformed(r);
	if (wire_get16(a) != 1 || wire_get16(a + 2) != WIRE_ETHERTYPE_IPV4 || a[4] != 6 || a[5] != 4)
		return malformed(r);
	op = wire_get16(a + 6);
	if (op != ARP_REQUEST && op != ARP_REPLY)
		return ignored(r);
	memcpy(smac, a + 8, sizeof(smac));
	memcpy(sip, a + 14, sizeof(sip));
	memcpy(tip, a + 24, sizeof(tip));
	gid = gid_from_v4(sip);
	if (!mac_is_unicast(smac) || (!gid_is_host(&gid) && wire_get32(sip) != 0))
		return malformed(r);
	/* An announcement (sender and target are the same) updates our entry, as a reply to us does. */
	if (owns_ipv4(r, tip) || memcmp(sip, tip, sizeof(sip)) == 0)
		learn(r, &gid, smac);
	else
		return ignored(r);
	if (op != ARP_REQUEST || !owns_ipv4(r, tip))
		return NET_DROP;
	/* A probe (RFC 5227) has sender address 0 and gets an answer too: the address is in use. */
	eth_reply(r, smac);
	pkt_put_arp(a, ARP_REPLY, r->p->mac, tip, smac, sip);
	if (!set_l3_bytes(r, ARP_BYTES))
		return malformed(r);
	r->c->tx_arp_reply++;
	return NET_REPLY;
}

/* ---- ICMP echo (RFC 792) ---- */
/** Replace 16-bit word @p from by @p to in a checksum (RFC 1624). */
static void
sum_replace(uint8_t *sum, uint16_t from, uint16_t to)
{
	uint32_t s = (uint16_t)~wire_get16(sum);

	s += (uint16_t)~from;
	s += to;
	wire_put16(sum, pkt_sum_finish(s));
}

static enum net_action
rx_icmp(struct rx *r, uint32_t total, uint32_t ihl)
{
	uint8_t *ip = r->l3, *icmp = ip + ihl;
	uint32_t len = total - ihl;
	uint8_t sip[4], dmac[6];
	struct gid gid;

	if (len < ICMP_BYTES || pkt_sum_finish(pkt_sum(icmp, len, 0)) != 0)
		return malformed(r);
	if (icmp[0] != ICMP_ECHO_REQUEST || icmp[1] != 0 || !to_us(r))
		return ignored(r);
	r->c->rx_icmp_echo++;
	memcpy(sip, ip + 12, sizeof(sip));
	memcpy(dmac, r->eth + 6, sizeof(dmac));
	gid = gid_from_v4(sip);
	/* Answering a group, or ourselves, would amplify an attack or make a loop. */
	if (!gid_is_host(&gid) || !mac_is_unicast(dmac) || net_port_owns(r->p, &gid))
		return malformed(r);

	memcpy(ip + 12, ip + 16, 4);
	memcpy(ip + 16, sip, 4);
	ip[8] = NET_TTL;
	wire_put16(ip + 10, 0);
	wire_put16(ip + 10, pkt_sum_finish(pkt_sum(ip, ihl, 0)));
	icmp[0] = ICMP_ECHO_REPLY;
	sum_replace(icmp + 2, ICMP_ECHO_REQUEST << 8, ICMP_ECHO_REPLY << 8);
	eth_reply(r, dmac);
	if (!set_l3_bytes(r, total))
		return malformed(r);
	r->c->tx_icmp_reply++;
	return NET_REPLY;
}

/* ---- Queries of routers for members of groups: the control thread answers them later ---- */
/**
 * Accept a query only from on link, that is with TTL 1, so that nobody has forwarded it (RFC 3376, 9.1 leaves the check
 * to us; RFC 3810, 5.1.14 requires it), and only if it was sent to a group.
 */
static enum net_action
rx_igmp(struct rx *r, uint32_t total, uint32_t ihl)
{
	const uint8_t *ip = r->l3, *igmp = ip + ihl;
	uint32_t len = total - ihl;

	if (len < IGMP_BYTES || pkt_sum_finish(pkt_sum(igmp, len, 0)) != 0)
		return malformed(r);
	if (igmp[0] != IGMP_QUERY || ip[8] != 1 || (ip[16] & 0xf0) != 0xe0)
		return ignored(r);
	if (!group_parse_igmp(igmp, len, r->learned))
		return malformed(r);
	r->c->rx_mcast_query++;
	r->learned->port = r->p->index;
	*r->has_learned = true;
	return NET_DROP;
}

static enum net_action
rx_ipv4(struct rx *r)
{
	uint8_t *ip = r->l3;
	uint32_t total, ihl;

	if (r->l3_bytes < WIRE_IPV4_BYTES || ip[0] >> 4 != 4)
		return malformed(r);
	ihl = (ip[0] & 15) * 4u;
	total = wire_get16(ip + 2);
	if (ihl < WIRE_IPV4_BYTES || total < ihl || total > r->l3_bytes || pkt_sum_finish(pkt_sum(ip, ihl, 0)) != 0)
		return malformed(r);
	if (ip[9] == IPPROTO_NUM_IGMP && (wire_get16(ip + 6) & IPV4_FLAGS_FRAGMENT) == 0)
		return rx_igmp(r, total, ihl);
	/* Options would have to be reversed as well (RFC 1122, 3.2.2.6), which nobody needs. */
	if (ihl != WIRE_IPV4_BYTES || ip[9] != IPPROTO_NUM_ICMP || (wire_get16(ip + 6) & IPV4_FLAGS_FRAGMENT) != 0)
		return ignored(r);
	if (!owns_ipv4(r, ip + 16))
		return ignored(r);
	return rx_icmp(r, total, ihl);
}

/* ---- ICMPv6 ---- */
/** Find an ND option. @return false: the options are malformed (RFC 4861, 4.6). *@p mac is NULL if there is none. */
static bool
nd_option(const uint8_t *opt, uint32_t bytes, uint8_t type, const uint8_t **mac)
{
	uint32_t len;

	*mac = NULL;
	while (bytes != 0) {
		if (bytes < 2)
			return false;
		len = opt[1] * 8u;
		if (len == 0 || len > bytes)
			return false;
		if (opt[0] == type && len == ND_OPT_BYTES && *mac == NULL)
			*mac = opt + 2;
		opt += len;
		bytes -= len;
	}
	return true;
}

static enum net_action
rx_ns(struct rx *r, uint32_t len)
{
	static const struct gid all_nodes = { { 0xff, 0x02, [15] = 0x01 } };
	uint8_t *ip = r->l3, *ns = ip + WIRE_IPV6_BYTES;
	const struct gid src = *gid_at(ip + 8), target = *gid_at(ns + 8), group = pkt_solicited_node(&target);
	uint8_t dmac[6];
	const uint8_t *mac;
	bool dad;

	if (gid_is_multicast(&target) || !nd_option(ns + ND_BYTES, len - ND_BYTES, ND_OPT_SOURCE, &mac))
		return malformed(r);
	dad = gid_is_zero(&src);
	if (dad && (mac != NULL || !gid_equal(gid_at(ip + 24), &group))) /* RFC 4861, 7.1.1 */
		return malformed(r);
	if (!dad && !gid_is_host(&src))
		return malformed(r);
	if (!owns(r, &target) || net_port_owns(r->p, &src))
		return ignored(r);
	memcpy(dmac, mac != NULL ? mac : r->eth + 6, sizeof(dmac));
	if (!mac_is_unicast(dmac))
		return malformed(r);
	if (!set_l3_bytes(r, WIRE_IPV6_BYTES + ND_BYTES + ND_OPT_BYTES))
		return malformed(r);
	if (dad) {
		/* Somebody probes for our address: tell everybody that it is in use (RFC 4862, 5.4.3). */
		net_multicast_mac(&all_nodes, dmac);
		pkt_put_nd(ip, ICMP6_NA, NA_OVERRIDE, &target, &all_nodes, &target, r->p->mac);
	} else {
		learn(r, &src, dmac);
		pkt_put_nd(ip, ICMP6_NA, NA_SOLICITED | NA_OVERRIDE, &target, &src, &target, r->p->mac);
	}
	eth_reply(r, dmac);
	r->c->tx_nd_advert++;
	return NET_REPLY;
}

static enum net_action
rx_na(struct rx *r, uint32_t len)
{
	uint8_t *ip = r->l3, *na = ip + WIRE_IPV6_BYTES;
	const uint8_t *mac;

	if (gid_is_multicast(gid_at(na + 8)) || !nd_option(na + ND_BYTES, len - ND_BYTES, ND_OPT_TARGET, &mac))
		return malformed(r);
	if ((wire_get32(na + 4) & NA_SOLICITED) != 0 && gid_is_multicast(gid_at(ip + 24))) /* RFC 4861, 7.1.2 */
		return malformed(r);
	if (mac == NULL)
		return ignored(r);
	learn(r, gid_at(na + 8), mac);
	r->learned->weak = (wire_get32(na + 4) & NA_OVERRIDE) == 0;
	return NET_DROP;
}

static enum net_action
rx_echo6(struct rx *r, uint32_t len)
{
	uint8_t *ip = r->l3, *icmp = ip + WIRE_IPV6_BYTES;
	const struct gid src = *gid_at(ip + 8);
	uint8_t dmac[6];

	if (!owns(r, gid_at(ip + 24)) || !to_us(r))
		return ignored(r);
	r->c->rx_icmp_echo++;
	memcpy(dmac, r->eth + 6, sizeof(dmac));
	if (!gid_is_host(&src) || !mac_is_unicast(dmac) || net_port_owns(r->p, &src))
		return malformed(r);
	memcpy(ip + 8, ip + 24, 16);
	memcpy(ip + 24, &src, 16);
	ip[7] = NET_TTL;
	icmp[0] = ICMP6_ECHO_REPLY;
	/* Swapping the addresses doesn't change the pseudo-header's sum. */
	sum_replace(icmp + 2, ICMP6_ECHO_REQUEST << 8, ICMP6_ECHO_REPLY << 8);
	eth_reply(r, dmac);
	if (!set_l3_bytes(r, WIRE_IPV6_BYTES + len))
		return malformed(r);
	r->c->tx_icmp_reply++;
	return NET_REPLY;
}

/** Handle a packet with hop-by-hop options. Only MLD queries are of interest (RFC 3810, 5). */
static enum net_action
rx_hop_by_hop(struct rx *r, uint32_t len)
{
	const uint8_t *ip = r->l3, *opt = ip + WIRE_IPV6_BYTES, *icmp;
	uint32_t opt_bytes;

	if (len < HBH_BYTES)
		return malformed(r);
	opt_bytes = (opt[1] + 1u) * 8;
	if (opt[0] != IPPROTO_NUM_ICMP6)
		return ignored(r);
	if (len < opt_bytes + ICMP_BYTES)
		return malformed(r);
	icmp = opt + opt_bytes;
	len -= opt_bytes;
	if (pkt_sum_finish(pkt_sum(icmp, len, pkt_sum_pseudo6(ip, len, IPPROTO_NUM_ICMP6))) != 0)
		return malformed(r);
	if (icmp[0] != MLD_QUERY || ip[7] != 1 || !gid_is_link_local(gid_at(ip + 8)) || ip[24] != 0xff)
		return ignored(r);
	if (!group_parse_mld(icmp, len, r->learned))
		return malformed(r);
	r->c->rx_mcast_query++;
	r->learned->port = r->p->index;
	*r->has_learned = true;
	return NET_DROP;
}

static enum net_action
rx_ipv6(struct rx *r)
{
	uint8_t *ip = r->l3, *icmp = ip + WIRE_IPV6_BYTES;
	uint32_t len;

	if (r->l3_bytes < WIRE_IPV6_BYTES || ip[0] >> 4 != 6)
		return malformed(r);
	len = wire_get16(ip + 4);
	if (len > r->l3_bytes - WIRE_IPV6_BYTES)
		return malformed(r);
	if (ip[6] == IPPROTO_NUM_HOP_BY_HOP)
		return rx_hop_by_hop(r, len);
	if (ip[6] != IPPROTO_NUM_ICMP6)
		return ignored(r);
	if (len < ICMP_BYTES || pkt_sum_finish(pkt_sum(icmp, len, pkt_sum_pseudo6(ip, len, IPPROTO_NUM_ICMP6))) != 0)
		return malformed(r);
	if (icmp[0] == ICMP6_ECHO_REQUEST && icmp[1] == 0)
		return rx_echo6(r, len);
	if (icmp[0] != ICMP6_NS && icmp[0] != ICMP6_NA)
		return ignored(r);
	r->c->rx_nd++;
	if (ip[7] != ND_HOP_LIMIT || icmp[1] != 0 || len < ND_BYTES)
		return malformed(r);
	return icmp[0] == ICMP6_NS ? rx_ns(r, len) : rx_na(r, len);
}

/** Find the network header after Ethernet and VLAN tag. @return NET_REPLY: continue. */
static enum net_action
rx_ethernet(struct rx *r)
{
	uint32_t len = rte_pktmbuf_data_len(r->m);
	uint32_t off = WIRE_ETH_BYTES;

	/* The RX pool's buffers hold any frame of the port, so a chained mbuf is larger than anything meant for us. */
	if (r->m->nb_segs != 1 || len < WIRE_ETH_BYTES)
		return malformed(r);
	r->eth = rte_pktmbuf_mtod(r->m, uint8_t *);
	r->ethertype = wire_get16(r->eth + 12);
	if (r->ethertype == WIRE_ETHERTYPE_VLAN) {
		if (len < NET_ETH_VLAN_BYTES)
			return malformed(r);
		r->vlan = wire_get16(r->eth + 14) & WIRE_VID; /* 0: priority only, the same as untagged */
		r->ethertype = wire_get16(r->eth + 16);
		off = NET_ETH_VLAN_BYTES;
	}
	if (!net_port_in_vlan(r->p, r->vlan))
		return ignored(r);
	r->l3 = r->eth + off;
	r->l3_bytes = len - off;
	return NET_REPLY;
}

enum net_action
net_rx(const struct net_port *p, struct rte_mbuf *m, struct net_counters *c, struct net_learned *learned,
       bool *has_learned)
{
	struct rx r = { .p = p, .m = m, .c = c, .learned = learned, .has_learned = has_learned };

	*has_learned = false;
	if (p->shared) /* the kernel gets the same packet and answers it */
		return ignored(&r);
	if (rx_ethernet(&r) == NET_DROP)
		return NET_DROP;
	if (memcmp(r.eth + 6, p->mac, 6) == 0) /* our own packet, returned by a hub or a loop */
		return ignored(&r);
	switch (r.ethertype) {
	case WIRE_ETHERTYPE_ARP:
		return rx_arp(&r);
	case WIRE_ETHERTYPE_IPV4:
		return rx_ipv4(&r);
	case WIRE_ETHERTYPE_IPV6:
		return rx_ipv6(&r);
	default:
		return ignored(&r);
	}
}
