/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Planning: what received packets that wait behind another one will write to memory that isn't mapped, so that one job (core/copy_priv.h) writes it
 * for many packets. Called by transport.c on the QP's engine.
 */
#ifndef UROCE_TP_PLAN_H
#define UROCE_TP_PLAN_H

#include "transport/core/types_priv.h"

/** The job for the first packet that @p qp holds is about to be started: add what those behind it will write. */
void plan(struct transport *tp, struct qp *qp);

#endif /* UROCE_TP_PLAN_H */
