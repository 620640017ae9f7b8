/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Flushing a QP's queues in its turns while it is in ERR or SQE. Owns nothing. Called by transport.c on the QP's
 * engine.
 */
#ifndef UROCE_TP_FLUSH_H
#define UROCE_TP_FLUSH_H

#include "transport/core/types_priv.h"

/** Flush posted WQEs: in ERR those of SQ and RQ, in SQE those of the SQ. @return WQEs flushed, at most @p budget. */
uint32_t qp_flush_run(struct transport *tp, struct qp *qp, uint32_t budget);

#endif /* UROCE_TP_FLUSH_H */
