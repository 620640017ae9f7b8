/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Parsing received packets whose headers before the BTH are those of an earlier one.
 *
 * Packets of a connection that have the same length have the same Ethernet, IP and UDP headers, byte for byte, if their sender leaves the IPv4 identification 0, as
 * uroce and most NICs do. Headers that were found to be right once need not be looked at again, and the ICRC goes on from behind them. Nothing depends on a cache but
 * speed.
 */
#ifndef UROCE_WIRE_HEADER_CACHE_H
#define UROCE_WIRE_HEADER_CACHE_H

#include "wire/wire.h"

/** Headers that a struct wire_header_cache holds, a power of two. */
#define WIRE_CACHED_HEADERS 32
/** Ethernet, IPv4 and UDP of a frame without a VLAN tag. */
#define WIRE_CACHED_BYTES (WIRE_ETH_BYTES + WIRE_IPV4_BYTES + WIRE_UDP_BYTES)

/** Headers that are right. Begins zeroed; what is in it never becomes wrong. Not for IPv6, VLAN tags and UDP checksums. */
struct wire_header_cache {
	uint32_t misses;
	struct wire_cached_headers {
		uint8_t bytes[WIRE_CACHED_BYTES];
		uint16_t udp_bytes;  /**< what UDP says; 0: nothing is here */
		uint32_t crc;        /**< ICRC state behind them */
	} at[WIRE_CACHED_HEADERS];
};

/** As wire_parse(), with the same results, and faster for headers that are in @p c. Others may take their place. One thread at a time. */
enum wire_verdict wire_parse_cached(struct wire_header_cache *c, const uint8_t *frame, uint32_t len, bool check_icrc, struct wire_pkt *p);

#endif /* UROCE_WIRE_HEADER_CACHE_H */
