/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Flushing of a QP's queues, in its turns while it is in ERR or SQE. Owns nothing. Called by transport.c on the QP's engine.
 */
#ifndef UROCE_TP_FLUSH_H
#define UROCE_TP_FLUSH_H

#include "transport/core/types_priv.h"

/** In ERR flush the SQ and the RQ, in SQE the SQ. @return WQEs flushed, at most @p budget. */
uint32_t qp_flush_run(struct transport *tp, struct qp *qp, uint32_t budget);

#endif /* UROCE_TP_FLUSH_H */
