/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs that have to be at one engine together, since only that engine takes what they share: all QPs of an SRQ; and all targets of an XRC domain, with its
 * SRQs. They move as one (qp_move.c). Any other QP is a group by itself, XRC_SEND too: it has nothing of its peer's domain.
 *
 * Owns: nothing; a struct qp_group is good until an object of the session or domain is made or destroyed. Called by: qp_move.c, balancing.c. Thread: control.
 */
#ifndef UROCE_OBJ_QP_GROUP_PRIV_H
#define UROCE_OBJ_QP_GROUP_PRIV_H

#include "control/obj/obj_qp_priv.h"

/** At most one of srq and xrcd. */
struct qp_group {
	struct obj_qp *qp;   /**< one of its QPs */
	struct obj_srq *srq; /**< what its QPs share, or NULL */
	struct xrcd *xrcd;
};

/** @return the group that @p qp is of. */
struct qp_group qp_group_of(struct obj_qp *qp);
/** @return the QP behind @p after, NULL: the first one; NULL: no more. A target has one turn, however many sessions have it open. */
struct obj_qp *qp_group_next(const struct qp_group *g, const struct obj_qp *after);
/** The same for its SRQs. */
struct obj_srq *qp_group_next_srq(const struct qp_group *g, const struct obj_srq *after);
void qp_group_count(const struct qp_group *g, unsigned int *nb_qps, unsigned int *nb_srqs);
/** @return whether this is the first time that somebody looks at the group in the look @p number, of a balancing that goes on; numbers grow from 1. */
bool qp_group_look(const struct qp_group *g, uint64_t number);
/** It has moved. */
void qp_group_set_engine(const struct qp_group *g, unsigned int engine, uint64_t now_ns);

#endif /* UROCE_OBJ_QP_GROUP_PRIV_H */
