/* SPDX-License-Identifier: BSD-3-Clause */
/** @file From an address vector to the parameters of the headers below the BTH. */
#include "base/assert.h"
#include "net/net_priv.h"

#define FLOW_LABEL_MASK 0xfffffu

bool
net_multicast_mac(const struct gid *gid, uint8_t mac[6])
{
	if (!gid_is_multicast(gid))
		return false;
	if (gid_is_v4(gid)) {
		mac[0] = 0x01; /* RFC 1112, 6.4: the lower 23 bits */
		mac[1] = 0x00;
		mac[2] = 0x5e;
		mac[3] = gid->raw[13] & 0x7f;
		mac[4] = gid->raw[14];
		mac[5] = gid->raw[15];
	} else {
		mac[0] = mac[1] = 0x33; /* RFC 2464, 7: the lower 32 bits */
		memcpy(mac + 2, gid->raw + 12, 4);
	}
	return true;
}

/*
 * Programs written for InfiniBand pass 0 or 1 to stay in their subnet (ibv_rc_pingpong does), which no IP router would
 * forward. Linux replaces whatever a program passes by the route's own limit (ib_resolve_unicast_gid_dmac).
 */
static uint8_t
hop_limit(const struct uroce_ah_attr *av)
{
	if (av->hop_limit > 1)
		return av->hop_limit;
	return av->hop_limit == 1 && gid_is_multicast(gid_at(av->dgid)) ? 1 : NET_TTL;
}

void
net_path_addr(const struct net_port *p, unsigned int sgid_index, const struct uroce_ah_attr *av, const uint8_t mac[6],
	      struct wire_addr *out)
{
	const struct net_addr *from = net_addr(p, sgid_index);
	const struct gid *sgid, *dgid = gid_at(av->dgid);
	uint32_t fl = av->flow_label & FLOW_LABEL_MASK;

	UROCE_ASSERT(from != NULL);
	sgid = &from->gid;
	memset(out, 0, sizeof(*out));
	memcpy(out->dmac, mac, sizeof(out->dmac));
	memcpy(out->smac, p->mac, sizeof(out->smac));
	out->ip_version = gid_is_v4(sgid) ? 4 : 6;
	out->traffic_class = av->traffic_class;
	out->ttl = hop_limit(av);
	if (from->vlan != 0) {
		out->vlan = true;
		out->vlan_tci = (uint16_t)((av->sl & 7) << 13 | from->vlan);
	}
	if (fl != 0)
		out->sport = wire_flow_label_to_sport(fl);
	out->flow_label = out->ip_version == 6 ? fl : 0;
	memcpy(out->sip, gid_ip(sgid), gid_ip_bytes(sgid));
	memcpy(out->dip, gid_ip(dgid), gid_ip_bytes(dgid));
}
