/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Requests that end later than at once:
 * - Replies to requests that take memory or a QP away: they are put off while a copier (lib/mem/copier.h) still changes memory for the
 *   session, because the program may use the memory for something else when it has the reply. A program whose page fault never ends waits
 *   for ever, and nobody with it.
 * - Requests that wait for an engine: they are handled again.
 *
 * The session accepts no other requests meanwhile.
 *
 * Owns: struct settling. Called by: dispatch.c, control.c, session_end.c. Thread: control.
 */
#ifndef UROCE_CONTROL_SETTLE_PRIV_H
#define UROCE_CONTROL_SETTLE_PRIV_H

#include "control/core/session_priv.h"

/** After this time the reply is put off; until then the control thread waits, because a copy usually takes a few microseconds. */
enum { SETTLE_SPIN_NS = 50000, SETTLE_POLL_MS = 1 };

/** Handles a request again and answers it. */
typedef void settle_again_fn(struct session *s, struct request *r);

/**
 * A request takes memory or a QP away. The program may have seen bytes that a copier has written of a packet which the engine hasn't executed yet:
 * such packets are executed first, with the keys that they came for.
 * @return false: copies are under way for longer than is worth waiting for; the request is to be handled again.
 */
bool settle_before(struct session *s);
/**
 * The request has succeeded, after a grace period of RCU or a call of the engine. Cut the copies that were begun before it.
 * @return true: the reply is sent later.
 */
bool settle_later(struct session *s, const struct request *r);
/**
 * Have @p again called with a request in SETTLE_POLL_MS, as if it had come then.
 * @return false: no memory.
 */
bool settle_again(struct session *s, const struct request *r, settle_again_fn *again);
/** Send the replies whose time has come, and handle requests again. @return ms until it must be called again; INT_MAX: none is put off. */
int settle_poll(struct control *c);
/** The session ends. */
void settle_cancel(struct session *s);

#endif /* UROCE_CONTROL_SETTLE_PRIV_H */
