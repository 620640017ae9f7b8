/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * CM messages as bytes, written down from the specification (12.6 to 12.11, 13.4.3) and without lib/cm/mad.c: what that encodes and
 * decodes with one table is compared with these. Owns: nothing. Used by the simulator of lib/cm.
 */
#ifndef TEST_CM_SIM_WIRE_H
#define TEST_CM_SIM_WIRE_H

#include "cm/mad.h"

/** Where the messages' IDs are, in bytes from the beginning of the MAD. */
enum { WIRE_LOCAL_ID = 24, WIRE_REMOTE_ID = 28, WIRE_TID = 8, WIRE_ATTR = 16 };

/** @return @p bits bits of @p mad, the first of which is bit @p bit, counted from the most significant one, of byte @p byte. */
uint64_t wire_bits(const uint8_t *mad, unsigned int byte, unsigned int bit, unsigned int bits);
void wire_set_bits(uint8_t *mad, unsigned int byte, unsigned int bit, unsigned int bits, uint64_t value);

/** Make the bytes of @p m. Of its header only tid and attr_id are read. */
void wire_build(const struct cm_msg *m, uint8_t mad[CM_MAD_BYTES]);

#endif /* TEST_CM_SIM_WIRE_H */
