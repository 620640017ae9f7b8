/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a port's driver reports, for net_priv.h. */
#ifndef UROCE_PORT_EVENT_PRIV_H
#define UROCE_PORT_EVENT_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_spinlock.h>

/** Put there by EAL's interrupt thread, or a driver's own; taken by the control thread. */
struct port_events {
	_Atomic uint32_t bits;   /**< enum port_event */
	rte_spinlock_t lock;     /**< of wake_fd: it is closed by its owner once it isn't this any more */
	int wake_fd;             /**< eventfd that is written when there are new ones; -1: none */
	_Atomic bool destroyed;  /**< there is no ethdev any more */
	bool registered;         /**< the callbacks are */
	bool reset;              /**< of the restart that is under way */
	char err[256];           /**< why a restart failed; written before PORT_EV_RESTART_FAILED is */
};

#endif /* UROCE_PORT_EVENT_PRIV_H */
