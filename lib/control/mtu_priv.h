/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * MTUs of ports that change while programs run.
 *
 * Called by: ports.c, reload.c. Thread: control.
 */
#ifndef UROCE_CONTROL_MTU_PRIV_H
#define UROCE_CONTROL_MTU_PRIV_H

#include "control/core/control_priv.h"

/** Engines have been made with the port's MTU. */
void mtu_begin(struct control *c, const struct net_port *p);
/** Follow the MTU of a shared port's interface: the kernel may have changed it. */
void mtu_follow(struct control *c, struct net_port *p);
/**
 * The port may have another IP MTU than before: engines heed it, and of QPs whose path MTU is too large for it, packets
 * that don't fit are dropped. Programs get no event, as of Linux's drivers.
 */
void mtu_changed(struct control *c, const struct net_port *p);

#endif /* UROCE_CONTROL_MTU_PRIV_H */
