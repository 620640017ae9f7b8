/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Builds a frame from the fields of a parsed one, by lib/wire's own builders. Used by the tests of lib/wire.
 */
#ifndef TEST_WIRE_REBUILD_H
#define TEST_WIRE_REBUILD_H

#include "wire/wire.h"

/** Take what is below the BTH from @p p. */
void addr_of_packet(const struct wire_pkt *p, struct wire_addr *a);
/** @return bytes from the BTH to the ICRC. */
uint16_t l4_payload_of_packet(const struct wire_pkt *p);
/** Write the extended headers at @p bth that @p p has. */
void rebuild_ext_headers(const struct wire_pkt *p, uint8_t *bth);
/** Build the frame of @p p at @p out, with IPv4 id @p ip_id. @return its length. */
uint32_t rebuild(const struct wire_pkt *p, uint16_t ip_id, uint8_t *out);

#endif /* TEST_WIRE_REBUILD_H */
