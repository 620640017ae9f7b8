/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Fetching QPs from memory before they are needed. Owns nothing. Called on the QP's engine.
 *
 * What a packet needs of its QP is spread over several cache lines, and one that is in no cache takes as long as some hundred instructions. A transport of at most
 * TP_CACHED_QPS QPs has them in the CPU's second-level cache, and none is fetched beforehand. If there are more, those are fetched that have their turns
 * soon, and those for which packets have been received, all of their lines at the same time. Then the QP says where more is: its next WQE, what is in
 * flight, its next receive.
 *
 * Lines of struct qp, 64 bytes each, and who needs them:
 *
 *   line  members                                     turn that sends  request received  answer received
 *   0     identity, share                             x                x                 x
 *   1     sched                                       x                x                 x
 *   2-4   req, loss                                   x                                  x
 *   5     loss: deadlines; resp: what is to be sent   x                x                 x
 *   6-7   resp: results; rcv                                           x
 *   8     rcv: the receive that is filled; its CQ                      with a receive
 *   9-10  path, and the template of headers           x                x                 x
 *   11    own_inflight                                x                                  x
 */
#ifndef UROCE_TP_PREFETCH_H
#define UROCE_TP_PREFETCH_H

#include "transport/core/qp_table_priv.h"
#include "transport/core/types_priv.h"

enum {
	QP_LINE = 64,
	PREFETCH_TURNS = 4, /**< a QP is fetched when so many are left until its turn: a turn without work is shorter than an access to memory */
};

static_assert(offsetof(struct qp, sched) == 1 * QP_LINE && offsetof(struct qp, req) == 2 * QP_LINE && offsetof(struct qp, loss.deadline_ns) < 5 * QP_LINE &&
	      offsetof(struct qp, resp.res) == 6 * QP_LINE && offsetof(struct qp, rcv.rwqe) == 8 * QP_LINE && offsetof(struct qp, path) == 9 * QP_LINE &&
	      offsetof(struct qp, own_inflight) == 11 * QP_LINE, "the table above");

/** @return whether QPs of @p tp that have been idle for a while are no longer in a cache. */
static inline bool
prefetch_pays(const struct transport *tp)
{
	return tp->nb_qps > tp->c.limits.cached_qps;
}

/** Fetch lines @p first to @p last of @p qp. Both are constants. */
static __rte_always_inline void
prefetch_lines(const struct qp *qp, unsigned int first, unsigned int last)
{
	for (unsigned int line = first; line <= last; line++)
		rte_prefetch0((const uint8_t *)qp + line * QP_LINE);
}

/* ---- What the client's core has just written, however few QPs there are: a line from there takes longer than a small message ---- */
enum {
	PREFETCH_SQ_AHEAD = 2, /**< WQEs; sq_fetch() has the next one fetched */
	PREFETCH_RQ_AHEAD = 4, /**< receives with one SGE each: two lines */
};

/** Fetch a WQE that comes soon. Only for a client that posts several at a time: another one would wait for a line that it is about to write. */
static inline void
prefetch_sq_ahead(const struct ring *sq)
{
	rte_prefetch0(ring_slot(sq, sq->counter + PREFETCH_SQ_AHEAD));
}

/** Fetch a receive that comes soon after the one of @p counter. Programs post receives long before they are needed. */
static inline void
prefetch_rq_ahead(const struct ring *rq, uint32_t counter)
{
	rte_prefetch0(ring_slot(rq, counter + PREFETCH_RQ_AHEAD));
}

/* ---- Turns ---- */
/** Fetch what a turn of @p qp needs. */
static inline void
prefetch_turn(const struct qp *qp)
{
	/* Line 1 first: the link to the QP behind this one is in it, and the next turn needs that (prefetch_next()). */
	prefetch_lines(qp, 1, 5);
	prefetch_lines(qp, 0, 0);
	prefetch_lines(qp, 9, 11);
}

/** Fetch the next WQE of @p qp, and its place among those in flight. For a QP whose own lines were fetched some time before. */
static inline void
prefetch_wqe(const struct qp *qp)
{
	rte_prefetch0(ring_slot(&qp->req.sq, qp->req.sq.counter));
	rte_prefetch0(&qp->req.inflight[qp->req.sq.counter & qp->req.inflight_mask]);
}

/** A QP of @p s has its turn now, and is the last one of the list: fetch what the next turns need. @return the QP that is next, whose WQE was fetched a turn ago. */
static inline const struct qp *
prefetch_next(const struct share *s)
{
	const struct qp *next = TAILQ_FIRST(&s->active), *qp = TAILQ_NEXT(next, sched.active_link);

	if (qp == NULL)
		return next;
	prefetch_wqe(qp);
	for (unsigned int i = 2; i < PREFETCH_TURNS && qp != NULL; i++)
		qp = TAILQ_NEXT(qp, sched.active_link);
	if (qp != NULL)
		prefetch_turn(qp);
	return next;
}

/* ---- Received packets ---- */
/** Fetch what a packet with these WIRE_F_* needs of its QP. @param qp  Is not looked at: it may be another one, or not be there any more. */
static inline void
prefetch_receiver(const struct qp *qp, uint32_t flags)
{
	prefetch_lines(qp, 0, 1);
	prefetch_lines(qp, 5, 5);
	if (flags & WIRE_F_RESPONSE) {
		prefetch_lines(qp, 2, 4);
		prefetch_lines(qp, 11, 11);
	} else {
		prefetch_lines(qp, 6, 7);
		if (flags & WIRE_F_RQ)
			prefetch_lines(qp, 8, 8);
	}
	prefetch_lines(qp, 9, 10);
}

/** Fetch the WQE in flight that is answered, or the receive that the packet takes or that its ACK tells of. For a QP whose own lines were fetched some time before. */
static inline void
prefetch_referred(const struct qp *qp, uint32_t flags)
{
	if (flags & WIRE_F_RESPONSE)
		rte_prefetch0(&qp->req.inflight[qp->req.sq_tail & qp->req.inflight_mask]);
	else if (qp->rcv.rq.base != NULL)
		rte_prefetch0(ring_slot(&qp->rcv.rq, flags & WIRE_F_RQ ? qp->rcv.rq.counter : qp->rcv.rq_seen));
}

#endif /* UROCE_TP_PREFETCH_H */
