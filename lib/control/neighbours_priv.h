/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Neighbours of ports whose MAC address changes while programs run.
 *
 * Called by: events.c. Thread: control.
 */
#ifndef UROCE_CONTROL_NEIGHBOURS_PRIV_H
#define UROCE_CONTROL_NEIGHBOURS_PRIV_H

#include "control/core/control_priv.h"

enum { NEIGHBOURS_FOLLOW_MS = 100 /* whoever announces others all the time doesn't keep engines from their work */ };

/**
 * Have QPs and AHs follow neighbours whose MAC address has changed: at once, but for those that change within NEIGHBOURS_FOLLOW_MS.
 * @return when to call again at the latest, or UINT64_MAX.
 */
uint64_t neighbours_poll(struct control *c, uint64_t now_ns);

#endif /* UROCE_CONTROL_NEIGHBOURS_PRIV_H */
