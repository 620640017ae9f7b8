/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The log of rare events of a transport's QPs, and each QP's struct qp_diagnosis: what diag/ tells people.
 *
 * Owns: one ring of TP_EVENTS events for all QPs, so that a QP that does nothing needs no memory for it. Called where something
 * has gone wrong or changed, on the QP's engine. Not for what happens packet by packet.
 */
#ifndef UROCE_TP_EVENT_LOG_H
#define UROCE_TP_EVENT_LOG_H

#include "transport/core/types_priv.h"

/** Why a QP can't go on. */
struct tp_because {
	uint8_t why;     /**< enum qp_why */
	uint16_t detail;
};
#define TP_BECAUSE(why, detail) ((struct tp_because){ QP_WHY_##why, (uint16_t)(detail) })

/** [control] @return 0 or ENOMEM. */
int diag_create(struct transport *tp);
void diag_destroy(struct transport *tp);
/** Remember an event; what @p a, @p b and @p psn are, enum qp_event_kind says. */
void diag_note(struct transport *tp, const struct qp *qp, enum qp_event_kind kind, uint8_t a, uint16_t b, uint32_t psn);
/** psn_una has not moved, as far as is known since @p since_ns. */
void diag_stuck(struct qp *qp, uint64_t since_ns);
/** The QP has gone to ERR or SQE: remember why, and tell the transport's user. */
void diag_failed(struct transport *tp, struct qp *qp, struct tp_because because);
/** @return the retries that a QP which gave up was allowed. */
uint8_t diag_retries(const struct qp *qp);

#endif /* UROCE_TP_EVENT_LOG_H */
