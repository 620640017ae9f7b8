/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The parts of creating and destroying a QP that record/ needs. Owns nothing. Called on the QP's engine, or while it is stopped.
 */
#ifndef UROCE_TP_QP_H
#define UROCE_TP_QP_H

#include "transport/core/types_priv.h"

/**
 * As qp_create(), under a number that the QP has had before.
 * @param qpn  0: it gets a new one, and the words that its client shares are set.
 * @return as qp_create(); EEXIST: the number is in use; EINVAL: also, no QP can have it.
 */
int qp_create_as(struct transport *tp, const struct qp_params *p, uint32_t qpn, struct qp **out);
/** As qp_destroy(), for a QP that nobody has seen: nothing is acknowledged on its behalf, and its client isn't told. */
void qp_discard(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_QP_H */
