/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Completion queues: CQEs are written here only, and completion events raised.
 *
 * Owns: struct cq. A CQ that is `multi` has QPs of several transports; its fields say which are atomic. Called by whoever completes a
 * WQE, on the QP's engine.
 */
#ifndef UROCE_TP_CQ_H
#define UROCE_TP_CQ_H

#include "transport/core/types_priv.h"

/** Fields of a CQE; ctl without phase. */
struct tp_cqe {
	uint64_t wr_id;
	uint32_t byte_len, imm, src_qp;
	uint8_t status, opcode;
	union ring_cqe_ctl ctl;
};
/** Write a CQE of @p qp. An overrun takes CQ and QP to error. */
void cq_push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e);
/** End of a turn: one fence, then the channels of armed CQs. */
void cq_flush_touched(struct transport *tp);
/** Raise the events that were held back and are due. */
void cq_run_deferred(struct transport *tp);

#endif /* UROCE_TP_CQ_H */
