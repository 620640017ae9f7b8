/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The requester's scoreboard of selective repeat: what became of each packet in flight after a loss.
 *
 * Owns: struct tp_scoreboard, lent by the transport to a QP from its first loss until everything then in flight is acknowledged.
 * Called on the QP's engine. The protocol is in core/sack_format_priv.h.
 */
#ifndef UROCE_REQ_SCOREBOARD_H
#define UROCE_REQ_SCOREBOARD_H

#include "transport/core/sack_format_priv.h"
#include "transport/req/send_queue_priv.h"

/** What became of the packets in [psn_una, psn_max). Arrays are indexed by PSN modulo the span. */
struct tp_scoreboard {
	uint64_t has[SACK_WORDS];   /**< SEND, WRITE: the peer has it, buffered or executed; else: its response has come */
	uint64_t held[SACK_WORDS];  /**< READ, atomic: the peer has the request that begins here */
	uint64_t lost[SACK_WORDS];  /**< to be sent again */
	uint32_t nb_has, nb_lost;
	uint32_t una;               /**< psn_una as the scoreboard knows it */
	uint32_t acked;             /**< the peer has executed everything before this */
	uint32_t end;               /**< once this is acknowledged the scoreboard is of no use any more */
	uint32_t nth;               /**< packets sent again so far */
	/*
	 * Transmissions are ordered: a retransmission comes after the first transmission of the PSN before psn_max, retransmissions
	 * in the order of nth. What was sent before the latest that has arrived, and hasn't arrived, was lost (RFC 8985, 6.2, with
	 * this order in place of time).
	 */
	uint32_t seen_psn, seen_nth; /**< the latest transmission that has arrived */
	struct {
		uint32_t psn;       /**< psn_max when it was sent again */
		uint32_t nth;       /**< 0: was sent once */
	} again[TP_SACK_SPAN];
};

/** A request: one packet. A READ's has the PSNs of its responses. */
struct sb_request {
	uint32_t counter;   /**< of its WQE */
	uint32_t psn, next; /**< first PSN; first PSN of the request behind it */
	uint8_t kind;       /**< enum tp_req_kind */
	bool rest;          /**< of a READ of which a part has been answered */
};
/** Step to the request that begins at u->next, which is below psn_max. */
void sb_request_step(struct qp *qp, struct sb_request *u);
/** All requests from psn_una up to PSN @p end. */
#define FOREACH_REQUEST(qp, u, end) \
	for ((u).counter = (qp)->req.sq_tail, (u).next = (qp)->req.psn_una; \
	     wire_psn_diff((u).next, (end)) < 0 && (sb_request_step((qp), &(u)), true);)
/** All PSNs of a request. */
#define FOREACH_PSN(at, u) for ((at) = (u).psn; (at) != (u).next; (at) = wire_psn_add((at), 1))

/** @return the QP's scoreboard, a new one if need be; NULL: the transport has none left. */
struct tp_scoreboard *scoreboard_get(struct transport *tp, struct qp *qp);
/** Give it back: everything from psn_una on will be sent again. */
void scoreboard_forget(struct transport *tp, struct qp *qp);

/** The packet of @p psn has arrived, at the peer or here. @return false: that was known. */
bool scoreboard_set_has(struct tp_scoreboard *b, uint32_t psn);
void scoreboard_set_lost(struct tp_scoreboard *b, uint32_t psn);
/** The peer has the request in its reorder buffer. */
void scoreboard_set_held(struct tp_scoreboard *b, const struct sb_request *u);
/** The packet of @p psn has been sent again. */
void scoreboard_resent(struct qp *qp, uint32_t psn);
/** The request that psn_una belongs to has been sent again. */
void scoreboard_probed(struct qp *qp);
/** psn_una has moved, and there is a scoreboard. */
void scoreboard_progress(struct transport *tp, struct qp *qp);

/** What is known of packets in flight has changed: so may the congestion window. */
void scoreboard_update_cwnd(struct qp *qp);
/** Find what was lost: requests that were sent before the latest that has arrived, and haven't arrived. */
void scoreboard_judge(struct transport *tp, struct qp *qp);
/** Whatever isn't known to have arrived counts as lost. */
void scoreboard_all_lost(struct transport *tp, struct qp *qp);
/** There were @p before lost packets; react to those that have been found since: the congestion window, diagnosis. */
void scoreboard_new_losses(struct transport *tp, struct qp *qp, uint32_t before);

static inline bool
scoreboard_has_lost(const struct qp *qp)
{
	return qp->req.scoreboard != NULL && qp->req.scoreboard->nb_lost != 0;
}

#endif /* UROCE_REQ_SCOREBOARD_H */
