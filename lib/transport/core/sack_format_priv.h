/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat between two uroce endpoints: the protocol, and what requester and responder share.
 *
 * The responder keeps packets that arrive beyond a gap in a reorder buffer (reorder_priv.h) and reports them in a SACK.
 * The requester notes that on a scoreboard (req/scoreboard_priv.h) and resends only the other packets. READ responses
 * beyond a gap are placed at once, and only the missing ones are requested again (req/sack_read.c). The transport lends
 * scoreboards and reorder buffers from limited pools to QPs that are recovering from a loss; with none left a QP goes
 * back N, as it does with a foreign peer. A QP that loses nothing pays one branch per request packet and per ACK.
 *
 * How the ends find each other. Nothing is sent before something is lost. A requester that gets a NAK goes back N, as
 * the standard requires, and sends an offer, at most TP_SACK_OFFERS of them: a zero-length WRITE with a PSN far behind.
 * Any responder takes it for a duplicate, does not execute it and ignores its RETH (C9-105, C9-88), so the RETH can
 * carry the offer. A responder that understands the offer answers with a SACK, and from then on buffers packets instead
 * of sending NAKs. SACKs have a manufacturer-specific opcode and go only to peers that made an offer, because some
 * releases of Linux's rxe read past the end of a packet with an unknown opcode. The offer names both ends' QPs and
 * first PSNs, so an offer left over from an earlier connection is recognised and ignored.
 *
 *   offer: BTH of RDMA WRITE Only, PSN SACK_OFFER_BEHIND before the oldest that is not acknowledged; RETH: magic of 24
 *          bits, the sender's QPN, its first PSN, the first that it expected (24 bits each), length 0
 *   SACK:  BTH and AETH as of an ACK, magic, bitmap: bit i of its 256 stands for the PSN of the BTH + 1 + i, buffered
 *
 * What a SACK reports is never taken back: a buffered packet is executed in order once the gap before it is filled, by
 * the same code that executes a packet from the wire. The one exception is a buffered packet that then can't be
 * executed: it counts as lost, and the next SACK shows it by a cleared bit 0.
 */
#ifndef UROCE_CORE_SACK_FORMAT_H
#define UROCE_CORE_SACK_FORMAT_H

#include "transport/core/types_priv.h"

#define SACK_MAGIC UINT32_C(0x75726331)     /* "urc1" */
#define SACK_OFFER_MAGIC UINT32_C(0x757263) /* "urc" */
enum {
	SACK_WORDS = TP_SACK_SPAN / 64,
	SACK_PAYLOAD_BYTES = 4 + 8 * SACK_WORDS,
	SACK_OFFER_BEHIND = 1 << 22,
};

/* Bitmaps of PSNs, indexed by the PSN modulo TP_SACK_SPAN. */
static inline bool
sack_bit(const uint64_t *map, uint32_t psn)
{
	return map[psn / 64 % SACK_WORDS] >> psn % 64 & 1;
}

static inline void
sack_set(uint64_t *map, uint32_t psn)
{
	map[psn / 64 % SACK_WORDS] |= UINT64_C(1) << psn % 64;
}

static inline void
sack_clear(uint64_t *map, uint32_t psn)
{
	map[psn / 64 % SACK_WORDS] &= ~(UINT64_C(1) << psn % 64);
}

#endif /* UROCE_CORE_SACK_FORMAT_H */
