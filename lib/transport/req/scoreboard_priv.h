/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The requester's scoreboard for selective repeat: the state of each packet in flight after a loss.
 *
 * Owns: struct tp_scoreboard, lent by the transport to a QP from its first loss until everything in flight at that time
 * is acknowledged. Called on the QP's engine. The protocol is described in core/sack_format_priv.h.
 */
#ifndef UROCE_REQ_SCOREBOARD_H
#define UROCE_REQ_SCOREBOARD_H

#include "transport/core/sack_format_priv.h"
#include "transport/req/send_queue_priv.h"

/** State of the packets in [psn_una, psn_max). Arrays are indexed by PSN modulo the span. */
struct tp_scoreboard {
	uint64_t has[SACK_WORDS];   /**< SEND, WRITE: the peer has it, buffered or executed; else: its response is here */
	uint64_t held[SACK_WORDS];  /**< READ, atomic: the peer has buffered the request with this PSN */
	uint64_t lost[SACK_WORDS];  /**< has to be resent */
	uint32_t nb_has, nb_lost;
	uint32_t una;               /**< psn_una when the scoreboard was last updated */
	uint32_t acked;             /**< the peer has executed everything before this */
	uint32_t end;               /**< the scoreboard is returned once everything before this is acknowledged */
	uint32_t nth;               /**< number of packets resent so far */
	/*
	 * Transmissions are totally ordered: a retransmission follows the first transmission of the PSN before its
	 * psn_max, and retransmissions are ordered by nth. A packet sent before the latest one that has arrived, and
	 * not arrived itself, was lost (RFC 8985, 6.2, with this order in place of time).
	 */
	uint32_t seen_psn, seen_nth; /**< the latest transmission that has arrived */
	struct sb_again {
		uint32_t psn;       /**< psn_max at its last retransmission */
		uint32_t nth;       /**< its last retransmission was the nth; 0: sent only once */
		uint64_t sent_ns;   /**< when that was */
	} again[TP_SACK_SPAN];
};

/** A request. It is one packet; a READ request covers the PSNs of its responses. */
struct sb_request {
	uint32_t counter;   /**< of its WQE */
	uint32_t psn, next; /**< its first PSN; first PSN of the following request */
	uint8_t kind;       /**< enum tp_req_kind */
	bool rest;          /**< a READ of which a part has been answered already */
};
/** Step to the request that begins at u->next, which is below psn_max. */
void sb_request_step(struct qp *qp, struct sb_request *u);
/** Iterate over the requests from psn_una up to PSN @p end. */
#define FOREACH_REQUEST(qp, u, end) \
	for ((u).counter = (qp)->req.sq_tail, (u).next = (qp)->req.psn_una; \
	     wire_psn_diff((u).next, (end)) < 0 && (sb_request_step((qp), &(u)), true);)
/** Iterate over the PSNs of a request. */
#define FOREACH_PSN(at, u) for ((at) = (u).psn; (at) != (u).next; (at) = wire_psn_add((at), 1))

/** @return the QP's scoreboard; gets it one if it has none. NULL: the transport has none left. */
struct tp_scoreboard *scoreboard_get(struct transport *tp, struct qp *qp);
/** Return the scoreboard, because everything from psn_una on will be resent. */
void scoreboard_forget(struct transport *tp, struct qp *qp);

/** The packet of @p psn, or its response, has arrived. @return false: that was known. */
bool scoreboard_set_has(struct tp_scoreboard *b, uint32_t psn);
void scoreboard_set_lost(struct tp_scoreboard *b, uint32_t psn);
/** The peer holds the request in its reorder buffer. */
void scoreboard_set_held(const struct transport *tp, struct qp *qp, const struct sb_request *u);
/** The packet of @p psn has been resent. */
void scoreboard_resent(const struct transport *tp, struct qp *qp, uint32_t psn);
/** The request that psn_una belongs to has been resent as a tail loss probe. */
void scoreboard_probed(const struct transport *tp, struct qp *qp);
/** psn_una has moved: bring the scoreboard, which exists, up to date. */
void scoreboard_progress(struct transport *tp, struct qp *qp);

/** The scoreboard has changed: recompute what counts as in flight, and the congestion window. */
void scoreboard_update_cwnd(struct qp *qp);
/** Find lost requests: those sent before the latest one that has arrived, which haven't arrived themselves. */
void scoreboard_judge(struct transport *tp, struct qp *qp);
/** Consider everything lost that isn't known to have arrived. */
void scoreboard_all_lost(struct transport *tp, struct qp *qp);
/** Losses were found since there were @p before lost packets: shrink the congestion window and log them. */
void scoreboard_new_losses(struct transport *tp, struct qp *qp, uint32_t before);

static inline bool
scoreboard_has_lost(const struct qp *qp)
{
	return qp->req.scoreboard != NULL && qp->req.scoreboard->nb_lost != 0;
}

#endif /* UROCE_REQ_SCOREBOARD_H */
