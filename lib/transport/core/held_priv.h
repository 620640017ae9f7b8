/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Packets of QPs that are another engine's: handed to it, or held while the QP is on its way from one engine to another (transport/move.h).
 *
 * A QP on its way has no transport: qp.tp is NULL. Whoever receives a packet for it holds it, in the order of arrival. When the QP has arrived, what
 * its former engine held goes first, then what the new one held, then what the others held: each hands it over before anything that came later.
 *
 * Owns: struct transport.held. Called on the transport's engine.
 */
#ifndef UROCE_TP_HELD_H
#define UROCE_TP_HELD_H

#include "transport/core/types_priv.h"

/** @return the transport of a QP that may be another engine's; NULL: it is on its way. */
static inline struct transport *
qp_transport(const struct qp *qp)
{
	return __atomic_load_n(&qp->tp, __ATOMIC_RELAXED);
}

/**
 * Hand a packet to the engine of @p qp, which isn't this one, or hold it. Takes ownership of @p m.
 * @param trusted  Its ICRC has been checked.
 */
void held_or_handoff(struct transport *tp, const struct qp *qp, uint16_t port, struct rte_mbuf *m, bool trusted);
/** Hand over what is held for QPs that have arrived; the rest stays. */
void held_forward(struct transport *tp);
/** [any] @return an empty list; NULL: no memory. */
struct tp_held_list *held_create(void);
/** [any] Drop all that it has, and free it. @param l  Or NULL. */
void held_destroy(struct tp_held_list *l);

#endif /* UROCE_TP_HELD_H */
