/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Returning what the transport lent to a QP once the QP no longer needs it (for reorder buffers see reorder_priv.h).
 * Called on the QP's engine.
 */
#ifndef UROCE_TP_LEND_H
#define UROCE_TP_LEND_H

#include "transport/core/copy_priv.h"
#include "transport/core/share_priv.h"

/** Return the READ block if no response is pending. */
static inline void
responder_return_reads(struct transport *tp, struct qp *qp)
{
	if (qp->resp.reads == NULL || qp->resp.pending != 0)
		return;
	if (unlikely(qp->copy != NULL))
		copy_drop(tp, qp, COPY_READ);
	share_give(tp, qp, TP_POOL_READS, &tp->read_blocks, qp->resp.reads);
	qp->resp.reads = NULL;
}

/** Return the scoreboard. If the QP goes on sending, cwnd_update() has to follow. */
static inline void
scoreboard_return(struct transport *tp, struct qp *qp)
{
	if (qp->req.scoreboard == NULL)
		return;
	share_give(tp, qp, TP_POOL_SCOREBOARDS, &tp->scoreboards, qp->req.scoreboard);
	qp->req.scoreboard = NULL;
}

#endif /* UROCE_TP_LEND_H */
