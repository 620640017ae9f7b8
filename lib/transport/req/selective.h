/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat between two uroce endpoints: the responder holds what arrives beyond a gap, tells the requester
 * what it has, and the requester sends only the rest again. READ responses beyond a gap are placed where they belong at
 * once, and only those that are missing are asked for again.
 *
 * Owns: struct tp_scoreboard (requester's side), struct tp_reorder and struct tp_reorder_pkt (responder's side). All are lent by
 * the transport to QPs that have lost something, for as long as it takes, and bounded there: with nothing left to
 * lend a QP goes back N, as it does with a foreign peer. A QP that loses nothing pays one branch per request packet
 * and per ACK. Called on the QP's engine.
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
#ifndef UROCE_SELECTIVE_H
#define UROCE_SELECTIVE_H

#include "transport/core/internal.h"

#define SACK_MAGIC UINT32_C(0x75726331)  /* "urc1" */
#define SACK_OFFER_MAGIC UINT32_C(0x757263) /* "urc" */
enum {
	SACK_WORDS = TP_SACK_SPAN / 64,
	SACK_PAYLOAD_BYTES = 4 + 8 * SACK_WORDS,
	SACK_OFFER_BEHIND = 1 << 22,
};

/** The requester's: what became of the packets in [psn_una, psn_max). Arrays are indexed by PSN modulo the span. */
struct tp_scoreboard {
	uint64_t has[SACK_WORDS];   /**< SEND, WRITE: the peer holds it or has executed it; else: its response is here */
	uint64_t held[SACK_WORDS];  /**< READ, atomic: the peer holds the request that begins here */
	uint64_t lost[SACK_WORDS];  /**< to be sent again */
	uint32_t nb_has, nb_lost;
	uint32_t una;               /**< psn_una as the board knows it */
	uint32_t acked;             /**< the peer has executed everything before this */
	uint32_t end;               /**< once this is acknowledged the board has nothing left to tell */
	uint32_t nth;               /**< packets sent again so far */
	/*
	 * Transmissions are ordered: one sent again comes after the first one of the PSN before psn_max, in the order
	 * of nth. What was sent before the latest that has arrived, and isn't there, was lost (RFC 8985, 6.2, with
	 * this order in place of time).
	 */
	uint32_t seen_psn, seen_nth; /**< the latest transmission that has arrived */
	struct {
		uint32_t psn;       /**< psn_max when it was sent again */
		uint32_t nth;       /**< 0: was sent once */
	} again[TP_SACK_SPAN];
};

/** The responder's: which PSNs beyond the gap are held, and where. */
struct tp_reorder {
	uint64_t map[SACK_WORDS];
	uint32_t nb;
	uint32_t base;              /**< epsn as this knows it */
	uint16_t held[TP_SACK_SPAN];
};

/** A packet that is held: a copy from the BTH on, so the port's mbufs go back to where they are needed. */
struct tp_reorder_pkt {
	struct wire_pkt p;
	uint8_t bytes[WIRE_MAX_FRAME_BYTES];
};

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

/* ---- selective_rx.c: the responder ---- */
/** [control] @return 0 or ENOMEM. */
int selective_create(struct transport *tp);
void selective_destroy(struct transport *tp);
/** A duplicate WRITE. @return true if it was an offer, which has been taken. */
bool selective_offer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A request beyond a gap. @return false: it can't be held. */
bool selective_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** epsn has moved while packets are held: execute those that are next. */
void selective_drain(struct transport *tp, struct qp *qp);
/** @return false: no room to send it now. */
bool selective_send_sack(struct transport *tp, struct qp *qp);
/** The connection is over: give back what it holds. */
void selective_stop(struct transport *tp, struct qp *qp);

/* ---- selective_tx.c: the requester ---- */
/** The peer has sent a NAK, or a response was lost: say that there is a better way. */
void selective_offer(struct transport *tp, struct qp *qp);
/** A packet of a SACK's opcode for @p qp, whatever its service and state. */
void selective_sack_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** psn_una has moved, and there is a board. */
void selective_progress(struct transport *tp, struct qp *qp);
/** Send what was lost again. @return packets. */
uint32_t selective_resend(struct transport *tp, struct qp *qp, uint32_t budget);
/** The request that psn_una belongs to has been sent again. */
void selective_probed(struct qp *qp);
/** Whatever isn't known to be there counts as lost. */
void selective_all_lost(struct transport *tp, struct qp *qp);
/** Forget the board: everything from psn_una on will be sent again. */
void selective_forget(struct transport *tp, struct qp *qp);
/** @return packets that don't fill the window: they are there, or were lost. */
static inline uint32_t
scoreboard_not_in_flight(const struct qp *qp)
{
	return qp->req.scoreboard->nb_has + qp->req.scoreboard->nb_lost;
}
static inline bool
selective_pending(const struct qp *qp)
{
	return qp->req.scoreboard != NULL && qp->req.scoreboard->nb_lost != 0;
}

/* ---- selective_read.c: the requester's READs and atomics ---- */
/** A response behind one that is missing. @return false: it can't be placed, everything has to be asked for again. */
bool selective_response_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Everything up to @p psn was executed, but a response before it is missing. @return false: as above. */
bool selective_ack_rx(struct transport *tp, struct qp *qp, uint32_t psn);
/** psn_una may have reached what was placed, or acknowledged, behind a gap: complete it. */
void selective_advance(struct transport *tp, struct qp *qp);

/* ---- Between the requester's files ---- */
/** A request: one packet. A READ's has the PSNs of its responses. */
struct sb_request {
	uint32_t counter;   /**< of its WQE */
	uint32_t psn, next;
	uint8_t kind;       /**< enum tp_req_kind */
	bool rest;          /**< of a READ of which a part has been answered */
};
/** The request that begins at u->next, which is below psn_max. */
void sb_request_step(struct qp *qp, struct sb_request *u);
#define FOREACH_REQUEST(qp, u, end) \
	for ((u).counter = (qp)->req.sq_tail, (u).next = (qp)->req.psn_una; \
	     wire_psn_diff((u).next, (end)) < 0 && (sb_request_step((qp), &(u)), true);)
#define FOREACH_PSN(at, u) for ((at) = (u).psn; (at) != (u).next; (at) = wire_psn_add((at), 1))

/** @return the QP's board, a new one if need be; NULL: none is left. */
struct tp_scoreboard *scoreboard_get(struct transport *tp, struct qp *qp);
/** The packet of psn has arrived, at the peer or here. @return false: that was known. */
bool scoreboard_set_has(struct tp_scoreboard *b, uint32_t psn);
void scoreboard_set_lost(struct tp_scoreboard *b, uint32_t psn);
/** Since there were @p before of them more packets have been found lost: what follows from that. */
void scoreboard_new_losses(struct transport *tp, struct qp *qp, uint32_t before);

#endif /* UROCE_SELECTIVE_H */
