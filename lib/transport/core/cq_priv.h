/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Completion queues: the only place that writes CQEs and raises completion events.
 *
 * Owns: struct cq. A CQ that is `multi` serves QPs of several transports; its fields say which of them are atomic.
 * Called on the engine of the QP whose WQE completes.
 */
#ifndef UROCE_TP_CQ_H
#define UROCE_TP_CQ_H

#include "transport/core/types_priv.h"

/** The fields of a CQE; ctl without the phase bit. */
struct tp_cqe {
	uint64_t wr_id;
	uint32_t byte_len, imm, src_qp;
	uint8_t status, opcode;
	union ring_cqe_ctl ctl;
};
/** Write a CQE of @p qp. If the CQ overruns, CQ and QP go to error. */
void cq_push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e);
/** A CQE of @p cq, which has a channel, was shown, or that it has overrun. @param flags  TP_TOUCHED_*. */
void cq_shown(struct transport *tp, struct cq *cq, uint8_t flags);
/** At the end of a turn: one fence for all CQEs written, then raise the events of armed CQs. */
void cq_flush_touched(struct transport *tp);
/** Tell clients of the events that wait for transport_tell(). */
void cq_tell(struct transport *tp);
/** @return TP_TOUCHED_* of the event of @p cq that moderation holds back in @p tp, or the end of the turn will raise; 0: there is none. */
uint8_t cq_held(const struct transport *tp, const struct cq *cq);
/** Raise an event at the end of a turn that was held back before (@p held, TP_TOUCHED_*), and @p owed events for which the channel had no room. */
void cq_tell_again(struct transport *tp, struct cq *cq, uint8_t held, uint32_t owed);
/** Raise the events that moderation held back and that are due, and those again for which channels had no room. */
void cq_run_deferred(struct transport *tp);

#endif /* UROCE_TP_CQ_H */
