/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Asynchronous events (11.6.3), passed to the transport's user, who reports them to the program. Called on the engine's
 * thread.
 */
#ifndef UROCE_TP_ASYNC_H
#define UROCE_TP_ASYNC_H

#include "transport/core/journal_priv.h"

static inline void
tp_event_now(struct transport *tp, enum uroce_event type, uint64_t cookie, void *owner)
{
	struct tp_event ev = { .type = type, .cookie = cookie, .owner = owner };

	if (tp->c.event != NULL)
		tp->c.event(tp->c.arg, &ev);
}

/** Report an event of the QP, CQ or SRQ with this cookie and owner. @param of  JOURNAL_OF_*. @param number  A QP's, or what journals know the object by. */
static inline void
tp_event(struct transport *tp, enum uroce_event type, uint8_t of, uint32_t number, uint64_t cookie, void *owner)
{
	if (unlikely(tp->journal != NULL))
		journal_event(tp, type, of, number, cookie, owner);
	else
		tp_event_now(tp, type, cookie, owner);
}

static inline void
qp_event(struct transport *tp, enum uroce_event type, struct qp *qp)
{
	journal_touch(qp);
	tp_event(tp, type, JOURNAL_OF_QP, qp->qpn, qp->cookie, qp->owner);
}

#endif /* UROCE_TP_ASYNC_H */
