/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Formats of IGMP and MLD: reports about one group, and routers' queries. */
#include "base/assert.h"
#include "net/group/group_priv.h"

enum {
	IPV4_ROUTER_ALERT_BYTES = 4, /* RFC 2113 */
	IPV4_TOS_CONTROL = 0xc0,     /* RFC 3376, 4 */
	IPV4_DF = 0x4000,
	HBH_ROUTER_ALERT_BYTES = 8,  /* RFC 2711, with padding */
	IGMP_V3_REPORT_BYTES = 16,
	MLD_V2_REPORT_BYTES = 28,
	IGMP_CODE_EXP = 0x80,        /* codes from here on are floating-point numbers */
	MLD_CODE_EXP = 0x8000,
	IGMP_V1_DELAY_MS = 10000,    /* RFC 2236, 4: for a query that contains none */
	MS_PER_IGMP_UNIT = 100,
};

static const uint8_t igmp_routers[4] = { 224, 0, 0, 2 }, igmp_v3_routers[4] = { 224, 0, 0, 22 };
static const struct gid mld_routers = { { 0xff, 0x02, [15] = 0x02 } }, mld_v2_routers = { { 0xff, 0x02, [15] = 0x16 } };

/* ---- Reports ---- */
/** @return the first address that the port has in VLAN @p vlan, an IPv4 or a link-local IPv6 one; NULL: it has none. */
static const struct gid *
source(const struct net_port *p, uint16_t vlan, bool v4)
{
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = net_addr(p, i);

		if (a != NULL && a->vlan == vlan && (v4 ? gid_is_v4(&a->gid) : gid_is_link_local(&a->gid)))
			return &a->gid;
	}
	return NULL;
}

static unsigned int
put_igmp(const struct net_port *p, uint16_t vlan, const uint8_t group[4], enum group_record record, bool old,
	 uint8_t *frame)
{
	const uint8_t *dst = !old ? igmp_v3_routers : record == GROUP_LEFT ? igmp_routers : group;
	unsigned int bytes = old ? IGMP_BYTES : IGMP_V3_REPORT_BYTES, n;
	const unsigned int ihl = WIRE_IPV4_BYTES + IPV4_ROUTER_ALERT_BYTES;
	const struct gid gid = gid_from_v4(dst), *own = source(p, vlan, true);
	uint8_t dmac[6], *ip, *igmp;

	net_multicast_mac(&gid, dmac);
	n = pkt_put_eth(frame, p, vlan, dmac, WIRE_ETHERTYPE_IPV4);
	ip = frame + n;
	igmp = ip + ihl;
	memset(ip, 0, ihl + bytes);
	ip[0] = (uint8_t)(4 << 4 | ihl / 4);
	ip[1] = IPV4_TOS_CONTROL;
	wire_put16(ip + 2, (uint16_t)(ihl + bytes));
	wire_put16(ip + 6, IPV4_DF);
	ip[8] = 1;
	ip[9] = IPPROTO_NUM_IGMP;
	/* Without an IPv4 address the source is 0.0.0.0 (RFC 3376, 4.2.13). */
	if (own != NULL)
		memcpy(ip + 12, gid_ip(own), 4);
	memcpy(ip + 16, dst, 4);
	wire_put32(ip + 20, 0x94040000);
	wire_put16(ip + 10, pkt_sum_finish(pkt_sum(ip, ihl, 0)));
	if (old) {
		igmp[0] = record == GROUP_LEFT ? IGMP_V2_LEAVE : IGMP_V2_REPORT;
		memcpy(igmp + 4, group, 4);
	} else {
		igmp[0] = IGMP_V3_REPORT;
		wire_put16(igmp + 6, 1);
		igmp[8] = record;
		memcpy(igmp + 12, group, 4);
	}
	wire_put16(igmp + 2, pkt_sum_finish(pkt_sum(igmp, bytes, 0)));
	return n + ihl + bytes;
}

static unsigned int
put_mld(const struct net_port *p, uint16_t vlan, const struct gid *group, enum group_record record, bool old,
	uint8_t *frame)
{
	static const uint8_t router_alert[HBH_ROUTER_ALERT_BYTES] = { IPPROTO_NUM_ICMP6, 0, 5, 2, 0, 0, 1, 0 };
	const struct gid *dst = !old ? &mld_v2_routers : record == GROUP_LEFT ? &mld_routers : group;
	const struct gid *own = source(p, vlan, false);
	const uint16_t bytes = old ? MLD_V1_BYTES : MLD_V2_REPORT_BYTES;
	uint8_t dmac[6], *ip, *icmp;
	unsigned int n;

	net_multicast_mac(dst, dmac);
	n = pkt_put_eth(frame, p, vlan, dmac, WIRE_ETHERTYPE_IPV6);
	ip = frame + n;
	wire_put32(ip, UINT32_C(6) << 28);
	wire_put16(ip + 4, (uint16_t)(sizeof(router_alert) + bytes));
	ip[6] = 0; /* hop-by-hop options */
	ip[7] = 1;
	/*
	 * Routers take reports from link-local addresses only (RFC 3810, 5.2.13). In a VLAN without one it is GID 0,
	 * which is made from the MAC address, so that nobody else has it there.
	 */
	if (own == NULL)
		own = net_gid(p, 0);
	UROCE_ASSERT(own != NULL); /* every own port has it */
	memcpy(ip + 8, own, 16);
	memcpy(ip + 24, dst, 16);
	memcpy(ip + WIRE_IPV6_BYTES, router_alert, sizeof(router_alert));
	icmp = ip + WIRE_IPV6_BYTES + sizeof(router_alert);
	memset(icmp, 0, bytes);
	if (old) {
		icmp[0] = record == GROUP_LEFT ? MLD_V1_DONE : MLD_V1_REPORT;
		memcpy(icmp + 8, group, 16);
	} else {
		icmp[0] = MLD_V2_REPORT;
		wire_put16(icmp + 6, 1);
		icmp[8] = record;
		memcpy(icmp + 12, group, 16);
	}
	wire_put16(icmp + 2, pkt_sum_finish(pkt_sum(icmp, bytes, pkt_sum_pseudo6(ip, bytes, IPPROTO_NUM_ICMP6))));
	return n + WIRE_IPV6_BYTES + sizeof(router_alert) + bytes;
}

unsigned int
group_build(const struct net_port *p, uint16_t vlan, const struct gid *mgid, enum group_record record, bool old,
	    uint8_t frame[GROUP_FRAME_MAX_BYTES])
{
	return gid_is_v4(mgid) ? put_igmp(p, vlan, gid_ip(mgid), record, old, frame) :
				 put_mld(p, vlan, mgid, record, old, frame);
}

/* ---- Queries ---- */
bool
group_parse_igmp(const uint8_t *igmp, uint32_t len, struct net_learned *l)
{
	uint32_t units = igmp[1];

	/* 8 bytes: IGMPv2 or 1; 12 or more: IGMPv3; other lengths are invalid (RFC 3376, 7.1). */
	if (len > IGMP_BYTES && len < IGMP_V3_QUERY_BYTES)
		return false;
	if (wire_get32(igmp + 4) != 0 && (igmp[4] & 0xf0) != 0xe0)
		return false;
	*l = (struct net_learned){ .kind = NET_LEARNED_QUERY, .old = len == IGMP_BYTES };
	l->gid = gid_from_v4(igmp + 4);
	if (!l->old && units >= IGMP_CODE_EXP)
		units = ((units & 15) | 16) << ((units >> 4 & 7) + 3);
	l->max_delay_ms = l->old && units == 0 ? IGMP_V1_DELAY_MS : units * MS_PER_IGMP_UNIT;
	return true;
}

bool
group_parse_mld(const uint8_t *icmp, uint32_t len, struct net_learned *l)
{
	uint32_t ms;

	if (len < MLD_V1_BYTES || (len > MLD_V1_BYTES && len < MLD_V2_QUERY_BYTES)) /* RFC 3810, 8.1 */
		return false;
	if (!gid_is_zero(gid_at(icmp + 8)) && icmp[8] != 0xff)
		return false;
	*l = (struct net_learned){ .kind = NET_LEARNED_QUERY, .ipv6 = true, .old = len == MLD_V1_BYTES };
	l->gid = *gid_at(icmp + 8);
	ms = wire_get16(icmp + 4);
	if (!l->old && ms >= MLD_CODE_EXP)
		ms = ((ms & 0xfff) | 0x1000) << ((ms >> 12 & 7) + 3);
	l->max_delay_ms = ms;
	return true;
}
