/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Asynchronous events (11.6.3): handed to the transport's user, who tells the program. Called on the engine's thread.
 */
#ifndef UROCE_TP_ASYNC_H
#define UROCE_TP_ASYNC_H

#include "transport/core/types_priv.h"

/** Tell the program of an event of a QP, CQ or SRQ, whose cookie and owner these are. */
static inline void
tp_event(struct transport *tp, enum uroce_event type, uint64_t cookie, void *owner)
{
	struct tp_event ev = { .type = type, .cookie = cookie, .owner = owner };

	if (tp->c.event != NULL)
		tp->c.event(tp->c.arg, &ev);
}

#endif /* UROCE_TP_ASYNC_H */
