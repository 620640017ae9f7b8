/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Giving back what the transport lent to a QP, once there is no more use for it. Reorder buffers: reorder_priv.h.
 * Called on the QP's engine.
 */
#ifndef UROCE_TP_LEND_H
#define UROCE_TP_LEND_H

#include "transport/core/types_priv.h"

/** No READ is left to be answered: give back the block for them. */
static inline void
responder_return_reads(struct transport *tp, struct qp *qp)
{
	if (qp->resp.reads == NULL || qp->resp.pending != 0)
		return;
	pool_put(&tp->read_blocks, qp->resp.reads);
	qp->resp.reads = NULL;
}

/** Nothing that was lost is to be sent again: give back the scoreboard. cwnd_update() has to follow if the QP goes on sending. */
static inline void
scoreboard_return(struct transport *tp, struct qp *qp)
{
	if (qp->req.scoreboard == NULL)
		return;
	pool_put(&tp->scoreboards, qp->req.scoreboard);
	qp->req.scoreboard = NULL;
}

#endif /* UROCE_TP_LEND_H */
