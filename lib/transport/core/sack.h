/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat between two uroce endpoints: the responder holds what arrives beyond a gap, tells the requester
 * what it has, and the requester sends only the rest again. READ responses beyond a gap are placed where they belong at
 * once, and only those that are missing are asked for again.
 *
 * Here: the protocol and the bitmaps of PSNs that both sides use. The requester's side is in req/ (struct tp_scoreboard), the
 * responder's in resp/sack_reply.c and core/reorder.h (struct tp_reorder). A QP has a scoreboard or a reorder buffer only while
 * something is lost: the transport lends them. With none left to lend a QP goes back N, as it does with a foreign peer. A QP that
 * loses nothing pays one branch per request packet and per ACK.
 *
 * How the ends find each other. Nothing is sent before something is lost. A requester that gets a NAK goes back N, as
 * the standard has it, and makes an offer, at most TP_SACK_OFFERS of them: a WRITE of no bytes with a PSN from long ago.
 * To any responder that is a duplicate, which is not executed and whose RETH nobody looks at (C9-105, C9-88); here the
 * RETH says who offers. A responder that understands an offer answers it with a SACK, and from then on doesn't NAK but
 * hold. SACKs have a manufacturer-specific opcode, and nobody gets one who hasn't offered: there are releases of
 * Linux's rxe that unknown opcodes make read beyond the packet. The offer names both ends' QPs and first PSNs, so one
 * of an earlier connection means nothing.
 *
 *   offer: BTH of RDMA WRITE Only, PSN SACK_OFFER_BEHIND before the oldest that is not acknowledged; RETH: magic of 24
 *          bits, the sender's QPN, its first PSN, the first that it expected (24 bits each), length 0
 *   SACK:  BTH and AETH as of an ACK, magic, bitmap: bit i of its 256 stands for the PSN of the BTH + 1 + i, held
 *
 * READ responses. The requester knows the place of each PSN, so nothing is held; what was placed is remembered, and completes
 * when its turn comes, with all that the peer has acknowledged behind it. The missing packets of a READ are asked for by
 * a READ request that begins and ends with them: a duplicate of a part, which the specification doesn't forbid, but which
 * responders treat differently, so only one that has answered an offer gets it. Of atomics the request is repeated.
 *
 * What a SACK says is never taken back: what is held is executed when the gap before it is filled, in order, by the
 * same code that executes a packet from the wire. The one exception, a packet that can't be executed after all and
 * counts as lost, shows in bit 0.
 */
#ifndef UROCE_TP_SACK_H
#define UROCE_TP_SACK_H

#include "transport/core/types.h"

#define SACK_MAGIC UINT32_C(0x75726331)     /* "urc1" */
#define SACK_OFFER_MAGIC UINT32_C(0x757263) /* "urc" */
enum {
	SACK_WORDS = TP_SACK_SPAN / 64,
	SACK_PAYLOAD_BYTES = 4 + 8 * SACK_WORDS,
	SACK_OFFER_BEHIND = 1 << 22,
};

/* A bitmap of TP_SACK_SPAN PSNs in a row has SACK_WORDS words and is indexed by the PSN modulo the span. */
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

#endif /* UROCE_TP_SACK_H */
