/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Addresses of ports that change while programs run.
 *
 * Called by: ports.c, reload.c. Thread: control.
 */
#ifndef UROCE_CONTROL_ADDRESSES_PRIV_H
#define UROCE_CONTROL_ADDRESSES_PRIV_H

#include "control/core/control_priv.h"

/** The GID table before a change. */
struct addresses_before {
	struct gid gid[UROCE_MAX_GIDS];
	unsigned int left_out; /**< addresses that had no index, as the log has said */
};

/** Before any program: see that no address is that of two ports. */
void addresses_begin(struct control *c, struct net_port *p);
/** Read it. */
void addresses_look(const struct net_port *p, struct addresses_before *before);
/** @return a bit for each GID index of the port that QPs and AHs of programs have been given. */
uint32_t addresses_busy(const struct control *c, const struct net_port *p);
/**
 * The GID table of @p p has changed: IBV_EVENT_GID_CHANGE for its programs; what QPs send from an address that is gone is lost, until it is back.
 * @param before  The table as it was.
 */
void addresses_changed(struct control *c, struct net_port *p, const struct addresses_before *before, const struct net_gid_change *change);
/** The kernel has reported that addresses of the port's interface have changed. */
void addresses_follow(struct control *c, struct net_port *p);

#endif /* UROCE_CONTROL_ADDRESSES_PRIV_H */
