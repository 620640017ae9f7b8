/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat between two uroce endpoints: the protocol, and what both of its sides share.
 *
 * The responder keeps packets that arrive beyond a gap in a reorder buffer (resp/reorder.h) and says in a SACK which it has. The
 * requester notes that on a scoreboard (req/scoreboard_priv.h) and sends only the rest again. READ responses beyond a gap are placed
 * where they belong at once, and only the missing ones are asked for again (req/sack_read.c). Scoreboards and reorder buffers are lent
 * by the transport to QPs that have lost something, for as long as it takes, and bounded there: with none left a QP goes back N, as
 * it does with a foreign peer. A QP that loses nothing pays one branch per request packet and per ACK.
 *
 * How the ends find each other. Nothing is sent before something is lost. A requester that gets a NAK goes back N, as the
 * standard has it, and makes an offer, at most TP_SACK_OFFERS of them: a WRITE of no bytes with a PSN from long ago. To any responder
 * that is a duplicate, which is not executed and whose RETH nobody looks at (C9-105, C9-88); here the RETH says who offers. A responder that
 * understands an offer answers it with a SACK, and from then on buffers instead of sending NAKs. SACKs have a manufacturer-specific
 * opcode and go only to peers that made an offer: some releases of Linux's rxe read beyond a packet with an unknown opcode. The offer
 * names both ends' QPs and first PSNs, so one of an earlier connection means nothing.
 *
 *   offer: BTH of RDMA WRITE Only, PSN SACK_OFFER_BEHIND before the oldest that is not acknowledged; RETH: magic of 24
 *          bits, the sender's QPN, its first PSN, the first that it expected (24 bits each), length 0
 *   SACK:  BTH and AETH as of an ACK, magic, bitmap: bit i of its 256 stands for the PSN of the BTH + 1 + i, buffered
 *
 * What a SACK says is never taken back: a buffered packet is executed when the gap before it is filled, in order, by the same code that
 * executes a packet from the wire. The one exception, a packet that can't be executed after all and counts as lost, shows in bit 0.
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
