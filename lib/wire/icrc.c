/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC (9.2.8, A17.9.1): CRC-32 of IEEE 802.3, bit-reflected, over everything in the packet
 * that no switch or router may change.
 */
#include <isa-l/crc.h>

#include "wire.h"

/** BTH byte 4 holds FECN, BECN and reserved bits. */
#define BTH_OFF_VARIANT 4

uint32_t
wire_crc(uint32_t state, const void *data, size_t len)
{
	/* ISA-L complements the register on the way in and out, as gzip does. */
	return ~crc32_gzip_refl(~state, data, len);
}

uint32_t
wire_icrc_lower(const uint8_t *l3, unsigned int ip_version)
{
	uint8_t masked[WIRE_IPV6_BYTES + WIRE_UDP_BYTES];

	if (ip_version == 4) {
		memcpy(masked, l3, WIRE_IPV4_BYTES + WIRE_UDP_BYTES);
		masked[1] = 0xff;             /* TOS */
		masked[8] = 0xff;             /* TTL */
		memset(masked + 10, 0xff, 2); /* header checksum */
		memset(masked + WIRE_IPV4_BYTES + 6, 0xff, 2); /* UDP checksum */
		return wire_crc(WIRE_ICRC_SEED, masked, WIRE_IPV4_BYTES + WIRE_UDP_BYTES);
	}
	memcpy(masked, l3, WIRE_IPV6_BYTES + WIRE_UDP_BYTES);
	masked[0] |= 0x0f; /* traffic class and flow label */
	memset(masked + 1, 0xff, 3);
	masked[7] = 0xff; /* hop limit */
	memset(masked + WIRE_IPV6_BYTES + 6, 0xff, 2);
	return wire_crc(WIRE_ICRC_SEED, masked, WIRE_IPV6_BYTES + WIRE_UDP_BYTES);
}

uint32_t
wire_icrc_transport(uint32_t state, const uint8_t *bth, size_t len)
{
	uint8_t masked[WIRE_BTH_BYTES];

	memcpy(masked, bth, WIRE_BTH_BYTES);
	masked[BTH_OFF_VARIANT] = 0xff;
	state = wire_crc(state, masked, WIRE_BTH_BYTES);
	return wire_crc(state, bth + WIRE_BTH_BYTES, len - WIRE_BTH_BYTES);
}

uint32_t
wire_icrc_headers(const uint8_t *l3, unsigned int ip_version)
{
	size_t lower = (ip_version == 4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES) + WIRE_UDP_BYTES;

	return wire_icrc_transport(wire_icrc_lower(l3, ip_version), l3 + lower, WIRE_BTH_BYTES);
}
