/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Selective repeat, the requester's side (the protocol: core/sack.h).
 *
 * Owns: struct tp_scoreboard, lent by the transport to QPs that have lost something. Called on the QP's engine.
 */
#ifndef UROCE_SELECTIVE_H
#define UROCE_SELECTIVE_H

#include "transport/core/sack.h"
#include "transport/req/req.h"

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
