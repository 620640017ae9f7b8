/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the lengths and checksums of a frame right. */
#include "fuzz.h"
#include "wire/wire.h"

enum { IP_ICMP = 1, IP_IGMP = 2, IP_UDP = 17, IP_ICMP6 = 58, IP6_HOP_OPTIONS = 0, HOP_OPTIONS_BYTES = 8 };

static uint32_t
sum16(const uint8_t *p, size_t n, uint32_t sum)
{
	for (; n >= 2; p += 2, n -= 2)
		sum += wire_get16(p);
	if (n > 0)
		sum += (uint32_t)*p << 8;
	return sum;
}

static void
put_sum(uint8_t *at, uint32_t sum)
{
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	wire_put16(at, (uint16_t)~sum);
}

/** @param pseudo  Sum of the pseudo-header. */
static void
repair_l4(uint8_t protocol, uint8_t *l4, size_t n, uint32_t pseudo)
{
	if (protocol == IP_UDP && n >= WIRE_UDP_BYTES) {
		wire_put16(l4 + 4, (uint16_t)n);
		wire_put16(l4 + 6, 0);
	} else if ((protocol == IP_ICMP || protocol == IP_IGMP) && n >= 4) {
		wire_put16(l4 + 2, 0);
		put_sum(l4 + 2, sum16(l4, n, 0));
	} else if (protocol == IP_ICMP6 && n >= 4) {
		wire_put16(l4 + 2, 0);
		put_sum(l4 + 2, sum16(l4, n, pseudo + (uint32_t)n + IP_ICMP6));
	}
}

static void
repair_icrc(uint8_t *l3, unsigned int version, size_t n)
{
	size_t l4 = version == 4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES;

	if (l3[version == 4 ? 9 : 6] != IP_UDP || n < l4 + WIRE_UDP_BYTES + WIRE_BTH_BYTES + WIRE_ICRC_BYTES ||
	    wire_get16(l3 + l4 + 2) != WIRE_UDP_PORT)
		return;
	wire_put_icrc(l3 + n - WIRE_ICRC_BYTES, wire_icrc_packet(l3, version, n - WIRE_ICRC_BYTES));
}

static void
repair_ipv4(uint8_t *ip, size_t n)
{
	size_t header;

	if (n < WIRE_IPV4_BYTES || n > UINT16_MAX)
		return;
	header = (size_t)(ip[0] & 15) * 4;
	if (header < WIRE_IPV4_BYTES || header > n)
		return;
	wire_put16(ip + 2, (uint16_t)n);
	wire_put16(ip + 10, 0);
	put_sum(ip + 10, sum16(ip, header, 0));
	repair_l4(ip[9], ip + header, n - header, 0);
	if (header == WIRE_IPV4_BYTES)
		repair_icrc(ip, 4, n);
}

static void
repair_ipv6(uint8_t *ip, size_t n)
{
	uint8_t next, *l4 = ip + WIRE_IPV6_BYTES;

	if (n < WIRE_IPV6_BYTES || n - WIRE_IPV6_BYTES > UINT16_MAX)
		return;
	n -= WIRE_IPV6_BYTES;
	wire_put16(ip + 4, (uint16_t)n);
	next = ip[6];
	/* As MLD has it. */
	if (next == IP6_HOP_OPTIONS && n > HOP_OPTIONS_BYTES) {
		next = l4[0];
		l4 += HOP_OPTIONS_BYTES;
		n -= HOP_OPTIONS_BYTES;
	}
	repair_l4(next, l4, n, sum16(ip + 8, 32, 0));
	repair_icrc(ip, 6, (size_t)(l4 - ip) + n);
}

void
fuzz_frame_repair(uint8_t *frame, size_t size)
{
	size_t l3 = WIRE_ETH_BYTES;
	uint16_t type;

	if (size < WIRE_ETH_BYTES + WIRE_VLAN_BYTES)
		return;
	type = wire_get16(frame + 12);
	if (type == WIRE_ETHERTYPE_VLAN) {
		type = wire_get16(frame + 16);
		l3 += WIRE_VLAN_BYTES;
	}
	if (type == WIRE_ETHERTYPE_IPV4)
		repair_ipv4(frame + l3, size - l3);
	else if (type == WIRE_ETHERTYPE_IPV6)
		repair_ipv6(frame + l3, size - l3);
}
