/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The log of rare events of a transport's QPs, and each QP's struct qp_diagnosis. diag/ turns both into text.
 *
 * Owns: one ring of TP_EVENTS events for all QPs, so that idle QPs need no memory for it. Called on the QP's engine
 * where something went wrong or changed, never for each packet.
 */
#ifndef UROCE_TP_EVENT_LOG_H
#define UROCE_TP_EVENT_LOG_H

#include "transport/core/types_priv.h"

/** Why a QP went to ERR or SQE. */
struct tp_because {
	uint8_t why;     /**< enum qp_why */
	uint16_t detail;
};
#define TP_BECAUSE(why, detail) ((struct tp_because){ QP_WHY_##why, (uint16_t)(detail) })

/** [control] @return 0 or ENOMEM. */
int diag_create(struct transport *tp);
void diag_destroy(struct transport *tp);
/** Log an event. enum qp_event_kind says what @p a, @p b and @p psn mean for each kind. */
void diag_note(struct transport *tp, const struct qp *qp, enum qp_event_kind kind, uint8_t a, uint16_t b, uint32_t psn);
/** psn_una has not moved since @p since_ns or earlier: remember when that began. */
void diag_stuck(struct qp *qp, uint64_t since_ns);
/** The QP has gone to ERR or SQE: record why, and notify the transport's user. */
void diag_failed(struct transport *tp, struct qp *qp, struct tp_because because);
/** @return the number of retries that a QP which gave up had been allowed. */
uint8_t diag_retries(const struct qp *qp);

#endif /* UROCE_TP_EVENT_LOG_H */
