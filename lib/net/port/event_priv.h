/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a port's driver reports, for net_priv.h. */
#ifndef UROCE_PORT_EVENT_PRIV_H
#define UROCE_PORT_EVENT_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_spinlock.h>

struct net_port;
struct rte_device;

/** How the device of a port can be made again after it has gone: reopen.c. */
struct port_reopening {
	char bus[8], name[64], args[512]; /**< for rte_eal_hotplug_add(); bus "": it can't, it must come by itself */
	char iface[16];          /**< the kernel's interface that it needs; "": none */
	bool abandoned;          /**< there is no ethdev, nothing of the kernel's, and no address */
	bool closing;            /**< queues must be closed on EAL's interrupt thread */
	uint16_t port_id;        /**< the ethdev that is being closed */
	struct rte_device *device; /**< the one to remove with it, or NULL */
	struct net_port *opened; /**< for reopen_adopt() */
};

/** Put there by EAL's interrupt thread, or a driver's own; taken by the control thread. */
struct port_events {
	_Atomic uint32_t bits;   /**< enum port_event */
	rte_spinlock_t lock;     /**< of wake_fd: it is closed by its owner once it isn't this any more */
	int wake_fd;             /**< eventfd that is written when there are new ones; -1: none */
	_Atomic bool destroyed;  /**< there is no ethdev any more */
	bool registered;         /**< the callbacks are */
	char device[64];         /**< EAL's name of the device whose removal is reported; "": none */
	bool reset;              /**< of the restart that is under way */
	char err[640];           /**< why a restart failed, or opening again; written before the event is */
};

#endif /* UROCE_PORT_EVENT_PRIV_H */
