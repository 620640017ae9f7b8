/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a switch reads and changes in the ECN bits of a frame without a VLAN tag (RFC 3168). Used by the networks of tests/sim and tests/scale.
 */
#ifndef SIM_ECN_H
#define SIM_ECN_H

#include "wire/wire.h"

/** Mark congestion experienced, as a switch does: the IPv4 header checksum follows (RFC 1624). */
static inline void
ecn_mark_ce(uint8_t *frame)
{
	uint8_t *l3 = frame + WIRE_ETH_BYTES;
	uint32_t sum;
	uint16_t old;

	if (l3[0] >> 4 == 4) {
		old = wire_get16(l3);
		l3[1] |= 3;
		sum = (uint16_t)~wire_get16(l3 + 10) + (uint16_t)~old + (uint32_t)wire_get16(l3);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		wire_put16(l3 + 10, (uint16_t)~sum);
	} else {
		l3[1] |= 3 << 4;
	}
}

/** @return whether the sender said that it reacts to marks. */
static inline bool
ecn_capable(const uint8_t *frame)
{
	const uint8_t *l3 = frame + WIRE_ETH_BYTES;

	return ((l3[0] >> 4 == 4 ? l3[1] : l3[1] >> 4) & 3) != 0;
}

#endif /* SIM_ECN_H */
