/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Loss recovery and the congestion window of a QP: how losses are detected, when something is sent again, and how much may be in
 * flight (struct qp_loss). Called on the QP's engine.
 *
 *   detection    a NAK, a missing response, a SACK (scoreboard_priv.h), the probe timeout (PTO, RFC 8985), the ACK timeout
 *   reaction     going back N, or sending the lost packets alone; tail loss probes; retry_cnt and path migration; the RNR timer
 *   window       grows with what is acknowledged, shrinks with what is lost (cc/cwnd.c); congestion control may make it smaller (cc/)
 *   round trips  measured one packet at a time (Karn), smoothed as in RFC 6298 (cc/cwnd.c)
 */
#ifndef UROCE_REQ_LOSS_H
#define UROCE_REQ_LOSS_H

#include "transport/cc/cwnd_priv.h"

/* ---- loss.c: detection and reaction ---- */
/** Start the timer if it isn't running and something is in flight. */
void loss_arm(struct transport *tp, struct qp *qp);
/** The timer of a QP. */
void loss_timer(struct transport *tp, struct qp *qp);
/** psn_una has moved: a new budget of retries, and the timer starts anew. */
void loss_progress(struct transport *tp, struct qp *qp);
/** The peer is there and packets arrive, though psn_una stays: the timer starts anew. */
void loss_alive(struct transport *tp, struct qp *qp);
/** A NAK for a PSN sequence error, with something in flight: go back, if there are tries left. */
void loss_sequence_nak(struct transport *tp, struct qp *qp);
/** An RNR NAK with timer code @p code: go back and wait, if there are tries left. */
void loss_rnr_nak(struct transport *tp, struct qp *qp, uint8_t code);
/** A response was lost: ask for it again, once until there is progress. */
void loss_lost_response(struct transport *tp, struct qp *qp);
/** Send everything that is not acknowledged again. */
void loss_go_back(struct transport *tp, struct qp *qp);
/** @return for how long the ACK timer runs now. */
uint64_t loss_ack_timeout_ns(const struct qp *qp);

/* ---- sack_offer.c ---- */
/** Offer selective repeat to the peer, if it hasn't been offered too often. */
void sack_offer(struct transport *tp, struct qp *qp);

#endif /* UROCE_REQ_LOSS_H */
