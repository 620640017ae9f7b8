/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The roots of lib/control, which may call every part of it: what control.c calls in its loop.
 *
 * Called by: control.c only; no part may call up into them. Thread: control.
 */
#ifndef UROCE_CONTROL_LOOP_PRIV_H
#define UROCE_CONTROL_LOOP_PRIV_H

#include "control/core/session_priv.h"

/** Bytes of the longest request. */
#define CONTROL_RX_BYTES (CTL_REQ_BYTES + CTL_SEGS_PER_MSG * sizeof(struct ctl_seg))

/* ---- dispatch.c ---- */
/** Begin to take the session's requests. @return 0 or an errno value. */
int dispatch_session(struct session *s);

/* ---- session_end.c ---- */
/** Destroy the sessions that were closed in this turn, and all that they have. */
void sessions_reap(struct control *c);

/* ---- events.c ---- */
/** Begin to send packets of lib/net, and see which links are up. */
void events_start(struct control *c);
/** [struct watch] An engine has events. */
void events_engine(struct watch *w, uint32_t events);
/** Look at links, neighbours, connections and the heap. @return ms until it must be called again, at most. */
int events_poll(struct control *c);

#endif /* UROCE_CONTROL_LOOP_PRIV_H */
