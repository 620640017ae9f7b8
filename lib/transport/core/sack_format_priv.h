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
 * Strangers. A BTH doesn't say from which QP a packet comes. What protects a connection from packets of an earlier one,
 * or of another QP of the same host, is that only one PSN of 2^24 is accepted at a time. A responder that buffers
 * requests accepts TP_SACK_SPAN of them, and a requester that places responses beyond a gap as many. So a packet that is
 * not the very next one is taken only if it bears a mark (wire_bth.mark) that is this connection's:
 *
 *   requests   bear the mark that the responder chose. The requester learns it from a SACK.
 *   responses  bear the mark that follows from the nonce of the requester's offer, sack_mark().
 *   SACKs      carry that nonce. One with another nonce is ignored.
 *
 * Each end chooses what its peer must show, and another one for each connection of a QP, so nothing that an earlier
 * connection has left behind, be it an offer or a SACK, makes an end take old packets. A packet without the mark beyond
 * a gap is handled as without selective repeat: a request is answered with a NAK, a response means that an earlier one
 * was lost.
 *
 * Two connections of one host may have the same mark by chance. A SACK that reports PSNs which were never sent proves
 * that the peer holds a stranger's packet. The requester then goes back N with another nonce: the offer with it makes
 * the responder drop what it holds, and choose another mark.
 *
 *   offer: BTH of RDMA WRITE Only, PSN SACK_OFFER_BEHIND before the oldest that is not acknowledged; RETH: magic of 24
 *          bits, sack_origin() of the sender's QPN and first PSN, its nonce, the first PSN that it expected (24 bits
 *          each), length 0
 *   SACK:  BTH and AETH as of an ACK, magic, nonce of the offer (24 bits), mark for requests (8 bits), bitmap: bit i of
 *          its 256 stands for the PSN of the BTH + 1 + i, buffered
 *
 * What a SACK reports is never taken back: a buffered packet is executed in order once the gap before it is filled, by
 * the same code that executes a packet from the wire. There are two exceptions: a buffered packet that then can't be
 * executed counts as lost, and the next SACK shows it by a cleared bit 0; and an offer with another nonce.
 */
#ifndef UROCE_CORE_SACK_FORMAT_H
#define UROCE_CORE_SACK_FORMAT_H

#include "base/mix.h"
#include "transport/core/types_priv.h"

#define SACK_MAGIC UINT32_C(0x75726332)     /* "urc2" */
#define SACK_OFFER_MAGIC UINT32_C(0x757232) /* "ur2" */
enum {
	SACK_WORDS = TP_SACK_SPAN / 64,
	/* Offsets in a SACK's payload. */
	SACK_NONCE = 4,
	SACK_MARK = 7,
	SACK_BITMAP = 8,
	SACK_PAYLOAD_BYTES = SACK_BITMAP + 8 * SACK_WORDS,
	SACK_OFFER_BEHIND = 1 << 22,
	SACK_MARKS = 127,   /**< marks are 1 to this */
	SACK_NONCE_MASK = 0xffffff,
};

/** @return the mark of responses to a requester whose offer has @p nonce. Those of successive nonces differ. */
static inline uint8_t
sack_mark(uint32_t nonce)
{
	return (uint8_t)(1 + nonce % SACK_MARKS);
}

/** @return 24 bits that tell one sender from another: its QPN and its first PSN. */
static inline uint32_t
sack_origin(uint32_t qpn, uint32_t first_psn)
{
	return (uint32_t)mix64((uint64_t)qpn << 24 | first_psn) & 0xffffff;
}

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
