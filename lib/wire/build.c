/* SPDX-License-Identifier: BSD-3-Clause */
/* Header templates: everything below the BTH, made once per path; per packet only lengths and checksum change. */
#include "wire/wire.h"

#define IPV4_VERSION_IHL 0x45
#define IPV4_DF 0x4000
#define IPPROTO_UDP_BYTE 17

static uint8_t *
put_ether(uint8_t *p, const struct wire_addr *a)
{
	memcpy(p, a->dmac, 6);
	memcpy(p + 6, a->smac, 6);
	p += 12;
	if (a->vlan) {
		wire_put16(p, WIRE_ETHERTYPE_VLAN);
		wire_put16(p + 2, a->vlan_tci);
		p += WIRE_VLAN_BYTES;
	}
	wire_put16(p, a->ip_version == 4 ? WIRE_ETHERTYPE_IPV4 : WIRE_ETHERTYPE_IPV6);
	return p + 2;
}

/* Length, id and checksum stay 0; wire_tmpl_write() fills them. */
static uint8_t *
put_ipv4(uint8_t *p, const struct wire_addr *a, uint32_t *sum)
{
	p[0] = IPV4_VERSION_IHL;
	p[1] = a->traffic_class;
	wire_put16(p + 6, IPV4_DF);
	p[8] = a->ttl;
	p[9] = IPPROTO_UDP_BYTE;
	memcpy(p + 12, a->sip, 4);
	memcpy(p + 16, a->dip, 4);
	*sum = 0;
	for (unsigned int i = 0; i < WIRE_IPV4_BYTES; i += 2)
		*sum += wire_get16(p + i);
	return p + WIRE_IPV4_BYTES;
}

static uint8_t *
put_ipv6(uint8_t *p, const struct wire_addr *a)
{
	wire_put32(p, UINT32_C(6) << 28 | (uint32_t)a->traffic_class << 20 | (a->flow_label & 0xfffff));
	p[6] = IPPROTO_UDP_BYTE;
	p[7] = a->ttl;
	memcpy(p + 8, a->sip, 16);
	memcpy(p + 24, a->dip, 16);
	return p + WIRE_IPV6_BYTES;
}

void
wire_tmpl_build(struct wire_tmpl *t, const struct wire_addr *a)
{
	uint8_t *p;

	memset(t, 0, sizeof(*t));
	t->ip_version = a->ip_version;
	p = put_ether(t->hdr, a);
	t->l3_off = (uint8_t)(p - t->hdr);
	p = a->ip_version == 4 ? put_ipv4(p, a, &t->ip_sum) : put_ipv6(p, a);
	t->l4_off = (uint8_t)(p - t->hdr);
	wire_put16(p, a->sport);
	wire_put16(p + 2, WIRE_UDP_PORT);
	t->bth_off = t->l4_off + WIRE_UDP_BYTES;
}

struct wire_addr
wire_tmpl_addr(const struct wire_tmpl *t)
{
	const uint8_t *ip = t->hdr + t->l3_off;
	struct wire_addr a;

	memset(&a, 0, sizeof(a));
	memcpy(a.dmac, t->hdr, 6);
	memcpy(a.smac, t->hdr + 6, 6);
	a.vlan = t->l3_off != WIRE_ETH_BYTES;
	if (a.vlan)
		a.vlan_tci = wire_get16(t->hdr + WIRE_ETH_BYTES);
	a.ip_version = t->ip_version;
	a.sport = wire_get16(t->hdr + t->l4_off);
	if (t->ip_version == 4) {
		a.traffic_class = ip[1];
		a.ttl = ip[8];
		memcpy(a.sip, ip + 12, 4);
		memcpy(a.dip, ip + 16, 4);
	} else {
		a.traffic_class = (uint8_t)(wire_get32(ip) >> 20);
		a.flow_label = wire_get32(ip) & 0xfffff;
		a.ttl = ip[7];
		memcpy(a.sip, ip + 8, 16);
		memcpy(a.dip, ip + 24, 16);
	}
	return a;
}

uint32_t
wire_tmpl_crc_miss(struct wire_tmpl *t, uint16_t l4_payload_bytes)
{
	uint8_t hdr[sizeof(t->hdr) + WIRE_UDP_BYTES + WIRE_BTH_BYTES];

	wire_tmpl_write(t, hdr, l4_payload_bytes, 0);
	memcpy(t->hdr, hdr, t->bth_off);
	t->crc_len[1] = t->crc_len[0];
	t->crc_state[1] = t->crc_state[0];
	t->crc_len[0] = l4_payload_bytes;
	t->crc_state[0] = wire_icrc_lower(hdr + t->l3_off, t->ip_version);
	return t->crc_state[0];
}
