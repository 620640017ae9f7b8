/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The roots of lib/control, which may call every part of it: functions that control.c calls in its loop.
 *
 * Called by: control.c only; no part may call them. Thread: control.
 */
#ifndef UROCE_CONTROL_LOOP_PRIV_H
#define UROCE_CONTROL_LOOP_PRIV_H

#include "control/core/session_priv.h"

/** Size of the longest request in bytes. */
#define CONTROL_RX_BYTES (CTL_REQ_BYTES + CTL_SEGS_PER_MSG * sizeof(struct ctl_seg))

/* ---- dispatch.c ---- */
/** Start accepting the session's requests. @return 0 or an errno value. */
int dispatch_session(struct session *s);
/** The same for a session of the daemon before, whose process is known. */
int dispatch_resume(struct session *s);

/* ---- session_end.c ---- */
/**
 * Destroy sessions that were closed, and everything they have: at least one, and as many as this turn has time for.
 * @param all  Destroy all.
 */
void sessions_reap(struct control *c, bool all);

/* ---- ports.c ---- */
/** Begin to follow the ports' states. */
void ports_start(struct control *c);
/** The control thread ends: the ports stay as they are. */
void ports_stop(struct control *c);
/** Look at what the ports' drivers have reported, and from time to time at the links. @return when to call again at the latest. */
uint64_t ports_poll(struct control *c, uint64_t now_ns);

/* ---- balancing.c ---- */
enum { BALANCING_SLICE = 512 /**< QPs looked at in a turn at most */ };
/** Do what is next for `balance`: look at some QPs, or move one. @return when to call again at the latest. */
uint64_t balancing_poll(struct control *c, uint64_t now_ns);

/* ---- events.c ---- */
/** Start sending lib/net's packets, and read the state of the links. */
void events_start(struct control *c);
/** [struct watch] An engine has events. */
void events_engine(struct watch *w, uint32_t events);
/** Check links, neighbours, connections and the heap. @return ms until it must be called again, at most. */
int events_poll(struct control *c);

#endif /* UROCE_CONTROL_LOOP_PRIV_H */
