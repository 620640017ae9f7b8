/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The private part of a port, with members for each directory of lib/net. Thread: control.
 */
#ifndef UROCE_NET_PRIV_H
#define UROCE_NET_PRIV_H

#include "net/group/group_priv.h"
#include "net/kernel/kernel_priv.h"
#include "net/neigh/neigh_priv.h"
#include "net/pkt_priv.h"
#include "net/port/event_priv.h"
#include "net/port/pmd_priv.h"
#include "net/port/wake_priv.h"

enum {
	/** IPv6, UDP, BTH, XRCETH, AtomicETH and ICRC: what Linux subtracts from an interface's MTU (rdma/ib_addr.h,
	   iboe_get_mtu). */
	NET_ROCE_OVERHEAD_BYTES = WIRE_IPV6_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES + WIRE_XRCETH_BYTES +
				  WIRE_ATOMICETH_BYTES + WIRE_ICRC_BYTES,
	NET_MIN_MTU = 256 + NET_ROCE_OVERHEAD_BYTES, /**< a smaller IP MTU can't carry RoCE packets */
	NET_MAX_ROCE_IP_MTU = WIRE_MAX_MTU + NET_ROCE_OVERHEAD_BYTES,
	NET_LINK_LOCAL_PREFIX = 64,
};

/* ---- addr.c ---- */
/** Frees an entry of net_priv.old_gids. */
void net_gids_free(struct deferred *d);
/** Make @p g, from malloc(), the addresses that everybody reads. */
void net_gids_publish(struct net_port *p, struct net_gids *g);

/** VLANs that a NIC lets through. */
struct nic_vlans {
	uint16_t id[UROCE_MAX_GIDS];
	unsigned int nb;
};

struct net_priv {
	net_send_fn send;
	void *send_arg;
	struct rte_mempool *send_pool;
	struct neigh_table *neigh;
	struct groups groups;
	struct net_kernel *kernel; /**< shared ports */
	struct rte_mempool *pool;  /**< a separate RX pool that the PMD needs, or NULL */
	struct pmd_profile pmd;
	struct deferred_list old_gids; /**< old versions of net_port.gids that engines may still read */
	bool configured, started;
	bool interrupts;           /**< the ethdev was asked for RX interrupts */
	struct rte_mempool *open_pool; /**< RX pool of who opened the port */
	uint32_t kernel_mtu;       /**< shared: of the kernel's interface, when it was looked at last */
	uint16_t dev_mtu;          /**< of ethdev before it was configured */
	struct port_events events;
	struct port_reopening reopening;
	net_taken_fn taken; /**< net_port_set_taken() */
	void *taken_arg;
	bool allmulticast;         /**< the NIC's filter lets all multicast groups through */
	struct nic_vlans vlans;    /**< that it has been told to let through, if it filters them */
	struct net_addr last_addrs[UROCE_MAX_GIDS]; /**< that each GID index has, or had last: one that returns gets its index */
};

#endif /* UROCE_NET_PRIV_H */
