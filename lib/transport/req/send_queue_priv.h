/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Work requests of a send queue: fetching them from their slots, checking them, and keeping them while they are in
 * flight.
 *
 * Owns: struct tp_swqe, and the blocks of them that the transport lends to busy QPs. Called on the QP's engine by the
 * files of req/.
 */
#ifndef UROCE_REQ_SEND_QUEUE_H
#define UROCE_REQ_SEND_QUEUE_H

#include "transport/core/slot_priv.h"
#include "transport/core/types_priv.h"

static inline struct tp_swqe *
qp_inflight(struct qp *qp, uint32_t counter)
{
	return &qp->req.inflight[counter & qp->req.inflight_mask];
}

/** Mark a WQE as bad; it completes with @p status. @return @p status. */
static inline uint8_t
wqe_error(struct tp_swqe *w, uint8_t status, uint8_t verr)
{
	w->status = status;
	w->verr = verr;
	return status;
}

/**
 * Fetch the next posted WQE and check it. A bad WQE is fetched too: its status is set, and it completes in error after
 * all WQEs before it.
 * @return false: none is posted, or there is no room for more WQEs in flight (REQ_WAIT_INFLIGHT).
 */
bool sq_fetch(struct transport *tp, struct qp *qp);
/** Fetch a WQE that was in flight when the journal was written. It isn't bad because its keys are gone since it was sent. @return as sq_fetch(). */
bool sq_fetch_again(struct transport *tp, struct qp *qp);
/** SQD: undo the fetching of WQEs of which nothing has been sent. */
void sq_unfetch(struct qp *qp);
/** Return a lent block for WQEs in flight to the transport, if nothing is in flight. */
void inflight_return(struct transport *tp, struct qp *qp);

/**
 * @return true if the next packet waits for an event (wait is beyond REQ_WAIT_TX), so that trying again before is
 * useless.
 */
static inline bool
req_blocked(const struct qp *qp)
{
	return qp->req.wait > REQ_WAIT_TX;
}

/** @return receives that the message uses up at the peer. */
static inline uint32_t
swqe_recvs(const struct tp_swqe *w)
{
	return tp_req_ops[w->opcode].recvs;
}

/** @return enum tp_req_kind; TP_REQ_NONE for a WQE that is marked as bad. */
static inline uint8_t
swqe_kind(const struct tp_swqe *w)
{
	return w->status != 0 ? TP_REQ_NONE : tp_req_ops[w->opcode].kind;
}

/**
 * @return the last PSN of a READ request that begins at @p psn. READs are requested in chunks (TP_READ_CHUNK_PACKETS).
 */
static inline uint32_t
swqe_read_chunk_end(const struct tp_swqe *w, uint32_t psn)
{
	uint32_t nth = (psn - w->first_psn) & WIRE_PSN_MASK;
	uint32_t last = RTE_MIN(nth | (TP_READ_CHUNK_PACKETS - 1), (w->last_psn - w->first_psn) & WIRE_PSN_MASK);

	return wire_psn_add(w->first_psn, last);
}

#endif /* UROCE_REQ_SEND_QUEUE_H */
