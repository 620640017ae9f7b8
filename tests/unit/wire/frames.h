/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Frames made to order, to be spoiled by tests of lib/wire.
 */
#ifndef TEST_WIRE_FRAMES_H
#define TEST_WIRE_FRAMES_H

#include "wire/wire.h"

/** What kind of frame. */
struct frame_spec {
	uint8_t ip_version;
	bool vlan;
	uint16_t vlan_tci;
	uint8_t opcode;
	uint32_t payload_bytes;
};

/** A frame with a deterministic content for every field. */
struct frame {
	uint8_t bytes[WIRE_MAX_FRAME_BYTES];
	uint32_t len;
	uint32_t l3, l4, bth; /**< offsets */
};

/** Build a good frame, by lib/wire. */
void frame_make(struct frame *f, const struct frame_spec *spec);
/** Compute IPv4 header checksum and ICRC again after a field was changed. */
void frame_repair(struct frame *f);
/** Parse a copy in memory of exactly the frame's size, so that a sanitizer sees any byte read behind it. */
enum wire_verdict frame_parse(const uint8_t *bytes, uint32_t len, bool check_icrc);

#endif /* TEST_WIRE_FRAMES_H */
