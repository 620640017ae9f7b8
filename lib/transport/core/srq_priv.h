/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shared receive queues, and the transport's table of XRC SRQs.
 *
 * Owns: struct srq. Called by the receiving side, on the engine that the SRQ belongs to.
 */
#ifndef UROCE_TP_SRQ_H
#define UROCE_TP_SRQ_H

#include "transport/core/types_priv.h"

/** Take the next receive WQE into @p w. @return false if none is posted, or there is no block to copy its SGEs to. */
bool srq_take(struct transport *tp, struct qp *qp, struct tp_rwqe *w);
/** A QP no longer uses @p srq. Frees it if it was destroyed meanwhile and this was its last user. */
void srq_release(struct srq *srq);
/** It leaves @p tp, before its QPs. */
void srq_leave(struct srq *srq, struct transport *tp);
/** It arrives at @p tp, before its QPs. */
void srq_arrive(struct srq *srq, struct transport *tp);
/** @return where the XRC SRQ of this number is listed. */
static inline uint32_t
srq_bucket(uint32_t srqn)
{
	uint32_t i = srqn & (TP_XRC_BUCKETS - 1);

	UROCE_ASSERT(i < TP_XRC_BUCKETS);
	return i;
}

/** @return the XRC SRQ of this number, or NULL. */
static inline struct srq *
srq_find(const struct transport *tp, uint32_t srqn)
{
	struct srq *srq;

	LIST_FOREACH(srq, &tp->xrc_srqs[srq_bucket(srqn)], link)
		if (srq->srqn == srqn)
			return srq;
	return NULL;
}

#endif /* UROCE_TP_SRQ_H */
