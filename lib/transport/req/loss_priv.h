/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Loss recovery of a QP (struct qp_loss): how losses are detected, when packets are resent, and how much may be in
 * flight. Called on the QP's engine.
 *
 *   detection    a NAK, a missing response, a SACK (scoreboard_priv.h), the probe timeout (PTO, RFC 8985), the ACK timeout
 *   reaction     going back N, or resending only the lost packets; tail loss probes; retry_cnt and path migration; the RNR timer
 *   window       grows as packets are acknowledged, shrinks with losses (cc/cwnd.c); congestion control may limit it further (cc/)
 *   round trips  measured one packet at a time (Karn), smoothed as in RFC 6298 (cc/cwnd.c)
 */
#ifndef UROCE_REQ_LOSS_H
#define UROCE_REQ_LOSS_H

#include "transport/cc/cwnd_priv.h"

/* ---- loss.c: detection and reaction ---- */
/** Start the timer if it isn't running and something is in flight. */
void loss_arm(struct transport *tp, struct qp *qp);
/** The timer of @p qp has fired. */
void loss_timer(struct transport *tp, struct qp *qp);
/** psn_una has moved: renew the retry budgets and restart the timer. */
void loss_progress(struct transport *tp, struct qp *qp);
/** The peer is alive and packets arrive, though psn_una hasn't moved: restart the timer. */
void loss_alive(struct transport *tp, struct qp *qp);
/**
 * A NAK for a PSN sequence error that names psn_una came while something is in flight: go back N, if retries are left.
 * It is only counted if it came too early to be about the retransmission of that packet.
 */
void loss_sequence_nak(struct transport *tp, struct qp *qp);
/** The ACK timeout has been changed: it holds for what is in flight already, from now on. */
void loss_timeout_changed(struct transport *tp, struct qp *qp);
/**
 * An RNR NAK with timer code @p code came: go back N and wait, if RNR retries are left. One that is repeated before psn_una was sent
 * again makes the wait longer, within limits, and uses up no retry.
 */
void loss_rnr_nak(struct transport *tp, struct qp *qp, uint8_t code);
/** A response was lost: go back N, but only once until there is progress. */
void loss_lost_response(struct transport *tp, struct qp *qp);
/** Go back N: resend everything that is not acknowledged. */
void loss_go_back(struct transport *tp, struct qp *qp);
/** @return the ACK timeout as lengthened by the timeouts so far. */
uint64_t loss_ack_timeout_ns(const struct qp *qp);

/* ---- sack_offer.c ---- */
/** Send the peer an offer of selective repeat, unless it already got TP_SACK_OFFERS of them. */
void sack_offer(struct transport *tp, struct qp *qp);
/** As sack_offer(), for a peer that knows selective repeat, whether anything is in flight or not. */
void sack_offer_anew(struct transport *tp, struct qp *qp);

#endif /* UROCE_REQ_LOSS_H */
