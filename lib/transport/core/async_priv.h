/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Asynchronous events (11.6.3), passed to the transport's user, who reports them to the program. Called on the engine's
 * thread.
 */
#ifndef UROCE_TP_ASYNC_H
#define UROCE_TP_ASYNC_H

#include "transport/core/types_priv.h"

/** Report an event of the QP, CQ or SRQ with this cookie and owner. */
static inline void
tp_event(struct transport *tp, enum uroce_event type, uint64_t cookie, void *owner)
{
	struct tp_event ev = { .type = type, .cookie = cookie, .owner = owner };

	if (tp->c.event != NULL)
		tp->c.event(tp->c.arg, &ev);
}

#endif /* UROCE_TP_ASYNC_H */
