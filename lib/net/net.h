/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ports: ethdevs, their addresses (GIDs), neighbours (ARP, ND), ICMP echo, and sharing an interface with the kernel.
 *
 * Owns: struct net_port, one per verbs device; its GID table, its neighbour table, and the multicast groups that it has
 * joined.
 *
 * There are two kinds of ports. An *own* port has its interface for itself (a PCI NIC, memif, tap, ring): we answer
 * ARP, ND and ICMP echo, and send our own requests to resolve neighbours. A *shared* port (net_af_packet, net_af_xdp)
 * shares the interface with the kernel: the kernel keeps all of its traffic and continues to answer ARP, ND and ICMP;
 * neighbours are looked up in the kernel's tables (netlink). A UDP socket bound to port 4791, whose filter drops
 * everything, keeps the kernel from answering RoCE packets with port unreachable. With af_xdp our XDP program redirects
 * UDP port 4791 and passes everything else.
 *
 * Threads: [control] the control thread; [engine] any engine lcore. The neighbour table belongs to the control thread:
 * address handles are resolved before engines see them. What an engine learns from packets (ARP and ND replies,
 * routers' queries about groups) is passed to the control thread as struct net_learned.
 */
#ifndef UROCE_NET_H
#define UROCE_NET_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rcu.h"
#include "base/shared.h"
#include "ring/abi.h"
#include "base/gid.h"
#include "wire/wire.h"

struct rte_mbuf;
struct rte_mempool;

enum {
	NET_NAME_BYTES = 64,
	NET_WIRE_BYTES = 128,
	NET_RESOLVE_TRIES = 5, /**< ARP or ND requests before a resolution fails */
	NET_RESOLVE_INTERVAL_MS = 200,
	NET_NEIGH_MAX = 4096,         /**< neighbour entries per port */
	NET_NEIGH_PENDING_MAX = 1024, /**< pending resolutions per port */
	NET_GROUPS_MAX = UROCE_MAX_MCAST_GROUPS, /**< multicast groups joined per port */
	NET_VLAN_MAX = 4094,          /**< the largest VLAN ID (IEEE 802.1Q, 9.6) */
	NET_VLAN_OF_PORT = 0xffff,    /**< of a configured address: the VLAN of its port */
};

/** An address with its prefix, and the VLAN that it is in. */
struct net_addr {
	struct gid gid; /**< zero: none */
	uint8_t prefix; /**< of the address family: 0 to 32 or 0 to 128 */
	bool deprecated; /**< not for new connections, as long as there is another one (RFC 4862, 5.5.4) */
	uint16_t vlan;   /**< 1 to NET_VLAN_MAX, 0: untagged; in a configuration also NET_VLAN_OF_PORT */
};
static_assert(sizeof(struct net_addr) == 20, "without padding: arrays of addresses are compared by memcmp()");

/**
 * The addresses of a port at one time, indexed as in the GID table. Index 0 is the link-local address: derived from the
 * MAC address, or on shared ports the kernel's; unused if the kernel has none. So configured addresses always begin at
 * 1. An address keeps its index for as long as the port has it, and gets it back when it returns.
 */
struct net_gids {
	struct net_addr addr[UROCE_MAX_GIDS];
	bool other_vlans; /**< some address is in another VLAN than net_port_config.vlan_id */
	struct deferred deferred;
};

enum { NET_MAX_ROUTES = 16 };

/** A router for the hosts of a network. */
struct net_route {
	struct gid net;
	uint8_t prefix; /**< bits of the network's own addresses: 0 to 32 for IPv4, 0 to 128 for IPv6 */
	struct gid router;
};

/** The configuration of a port. */
struct net_port_config {
	char name[NET_NAME_BYTES];   /**< verbs device: uroce0 */
	char ethdev[NET_NAME_BYTES]; /**< DPDK's name: net_memif0, 0000:03:00.0 */
	struct net_addr addrs[UROCE_MAX_GIDS];
	unsigned int nb_addrs;
	uint8_t gateway4[4], gateway6[16]; /**< for hosts that no route is for; zero: none */
	struct net_route routes[NET_MAX_ROUTES];
	unsigned int nb_routes;
	uint16_t vlan_id; /**< of GID 0 and of addresses that name no other: 1 to NET_VLAN_MAX, 0: untagged */
	uint16_t mtu;                      /**< of IP packets, in bytes; 0: the ethdev's own MTU */
	uint16_t pkeys[UROCE_MAX_PKEYS];   /**< 0: unused; [0] defaults to 0xffff */
	uint16_t rx_desc, tx_desc;         /**< 0: default */
};

/**
 * Parse "198.18.0.1/24", "fd00:18::1/64" or, in a VLAN of its own, "198.18.5.1/24@5"; "@0" is untagged. Without "@" the
 * VLAN is NET_VLAN_OF_PORT.
 * @return 0, or EINVAL with a message in @p err that says what was wrong and what would be right.
 */
int net_addr_parse(const char *text, struct net_addr *a, char *err, size_t err_bytes);

/**
 * Parse the address of a router.
 * @param family  AF_INET or AF_INET6: @p ip gets 4 or 16 bytes.
 * @return 0, or EINVAL with a message in @p err that says what would be right.
 */
int net_gateway_parse(const char *text, int family, uint8_t *ip, char *err, size_t err_bytes);

/**
 * Parse "203.0.113.0/24 via 198.18.0.253" or "2001:db8::/32 via fd00:18::fd".
 * @return 0, or EINVAL with a message in @p err that says what was wrong and what would be right.
 */
int net_route_parse(const char *text, struct net_route *r, char *err, size_t err_bytes);

/** @return the VLAN of @p a, one of the addresses of @p c; 0: untagged. */
static inline uint16_t
net_addr_vlan(const struct net_port_config *c, const struct net_addr *a)
{
	return a->vlan == NET_VLAN_OF_PORT ? c->vlan_id : a->vlan;
}

struct net_port {
	struct net_port_config conf;
	uint16_t index;     /**< order in the configuration, 0 to UROCE_MAX_PORTS - 1 */
	uint16_t port_id;   /**< ethdev */
	uint16_t nb_queues; /**< RX and TX queues: one per engine */
	uint8_t mac[6];
	bool shared;                 /**< with the kernel */
	char netdev[NET_NAME_BYTES]; /**< shared: the kernel's interface, else "" */
	uint32_t ifindex;            /**< shared: of the kernel's interface */
	uint32_t ip_mtu;             /**< of IP packets, in bytes: what the interface, the configuration and the PMD's buffers permit; 0: no device yet */
	uint32_t active_mtu;         /**< UROCE_MTU_*: largest path MTU that fits ip_mtu; UROCE_MTU_256 if none does */
	uint32_t max_frame;          /**< largest frame the PMD can send and receive, bytes */
	char wire[NET_WIRE_BYTES];   /**< memif: what both ends of a wire have in common; else "" */
	/** Nothing arrives while the thread of the port's engines sleeps: the other end belongs to the same thread. */
	_Atomic bool joined;
	_Atomic bool impaired;       /**< packets may become due at any time */
	_Atomic bool restarting;     /**< from net_port_restart() until net_port_events() has said how it ended, and while the device is gone: nobody
	                                else may use the ethdev */
	struct net_wake *wake;       /**< what wakes engines when packets arrive; NULL: nothing */
	_Atomic(struct net_gids *) gids; /**< read by net_addr() and its like, changed by net_addr_set(); never NULL once open */
	struct net_priv *priv;
};

/**
 * [control, before engines start] Configure and start the ethdev of @p conf with @p nb_queues RX and TX queues.
 * @param sh  Its pool provides mbufs for RX; its qsbr, which may be NULL, is the RCU variable that the engines report
 * to.
 * @return the port, or NULL with a message in @p err: what is wrong and what would be right (no such port: lists the
 * existing ones; too few queues; MTU too large ...).
 */
struct net_port *net_port_open(const struct net_port_config *conf, uint16_t index, uint16_t nb_queues,
			       const struct shared *sh, char *err, size_t err_bytes);
/**
 * [control, before engines start] A port whose device can't be opened yet: without link and addresses, until net_port_reopen() has succeeded.
 * @return NULL: no memory.
 */
struct net_port *net_port_absent(const struct net_port_config *conf, uint16_t index, uint16_t nb_queues, const struct shared *sh);
/** [control] @return true if there is no device: the port is from net_port_absent(), or net_port_abandon() was called. */
bool net_port_is_gone(const struct net_port *p);
/**
 * [control, engines stopped] Close the ethdev and everything that was opened with it. Pending resolutions end with
 * ECANCELED; their callbacks must not use the port.
 */
void net_port_close(struct net_port *p);
/**
 * [control, engines stopped] As net_port_close(), in a process that may only end afterwards, and for whose end another one waits: what takes time and ends
 * with the process anyway is left to that.
 */
void net_port_leave(struct net_port *p);

/*
 * ---- Addresses ----
 * Any thread may read them. A result is valid until the thread reports a quiescent state, or [control] changes addresses.
 */
/** [any] @return the address at @p index of the GID table, or NULL. */
static inline const struct net_addr *
net_addr(const struct net_port *p, unsigned int index)
{
	const struct net_gids *g = atomic_load_explicit(&p->gids, memory_order_acquire);

	return index < UROCE_MAX_GIDS && !gid_is_zero(&g->addr[index].gid) ? &g->addr[index] : NULL;
}
/** [any] @return the GID at @p index, or NULL. */
static inline const struct gid *
net_gid(const struct net_port *p, unsigned int index)
{
	const struct net_addr *a = net_addr(p, index);

	return a != NULL ? &a->gid : NULL;
}
/** [any] @return the index of @p gid, or -1 if it is not an address of the port. */
int net_gid_index(const struct net_port *p, const struct gid *gid);
/** [any] @return the address of the port that is @p gid, or NULL. */
const struct net_addr *net_addr_find(const struct net_port *p, const struct gid *gid);
/** [any] @return true if @p gid is one of this port's own addresses. */
bool net_port_owns(const struct net_port *p, const struct gid *gid);
/** [any] @return the index of the first address of VLAN @p vlan in whose subnet @p gid is, or -1. */
int net_addr_on_link(const struct net_port *p, uint16_t vlan, const struct gid *gid);
/** [any] @return true if @p vlan is that of one of this port's addresses. */
bool net_port_in_vlan(const struct net_port *p, uint16_t vlan);
/**
 * [any] @return true if a packet to @p dgid that came in VLAN @p vlan is for this port: the address is in that VLAN,
 * or, if it isn't the port's (a group's), any of them is. With a shared port always: the kernel has removed the tag.
 */
bool net_port_takes(const struct net_port *p, const struct gid *dgid, uint16_t vlan);
/**
 * Find the router for a host that isn't on the link: that of the route with the longest prefix, else the gateway.
 * Routers of other VLANs than @p vlan don't count. A router is of the VLANs of the addresses in whose network it is;
 * one that is in none of these networks is of the port's own VLAN.
 * @return false: there is none.
 */
bool net_router_for(const struct net_port *p, uint16_t vlan, const struct gid *dgid, struct gid *router);
/**
 * [control] Add or replace the address at @p index of the GID table, or remove it (@p a NULL). Engines see either all
 * old or all new addresses. The caller must update what else depends on the addresses (the NIC's filter, connections).
 * @return 0; EINVAL (@p index, or a multicast address); EEXIST (it has another index already); ENOMEM.
 */
int net_addr_set(struct net_port *p, unsigned int index, const struct net_addr *a);
/** [control] @return true if @p a can't be an address of @p p, although the kernel's interface has it. */
typedef bool (*net_taken_fn)(void *arg, const struct net_port *p, const struct net_addr *a);
/** [control] Ask @p taken about each address that the kernel has given, from now on; link-local ones are not asked about. */
void net_port_set_taken(struct net_port *p, net_taken_fn taken, void *arg);
/** What a change of a port's addresses has done; a bit per GID index. One that has another address now has both. */
struct net_gid_change {
	uint32_t added, removed;
	unsigned int left_out; /**< addresses for which the GID table has no index */
};
/**
 * [control] Shared ports: have the GID table follow the addresses that the kernel's interface has now.
 * @param busy  A bit for each GID index that somebody uses; no other address gets it, but for index 0.
 * @return 0 or an errno value: nothing was changed.
 */
int net_port_addrs_follow(struct net_port *p, uint32_t busy, struct net_gid_change *change);
/**
 * [control] Configure other addresses; those that stay keep their indices.
 * @param busy  As for net_port_addrs_follow().
 * @param change  NULL: only find out whether that is possible.
 * @return 0; or an errno value with a message in @p err, and nothing was changed: EADDRNOTAVAIL (it is not an address
 * of the kernel's interface), EINVAL (the VLAN of an address can't be that), ENOSPC (no free index), ENOMEM, or the
 * kernel's.
 */
int net_port_addrs_configure(struct net_port *p, const struct net_addr *addrs, unsigned int nb, uint32_t busy, struct net_gid_change *change,
			     char *err, size_t err_bytes);
/** [any] @return the largest UROCE_MTU_* whose packets fit IP packets of @p ip_mtu bytes; 0: none. */
uint32_t net_roce_mtu(uint32_t ip_mtu);
/** [control] @return log2 of the largest path MTU that fits the port's ip_mtu; 0: none does, or there is no device yet. */
uint8_t net_port_mtu_shift(const struct net_port *p);
/**
 * [control] Shared ports: have the port's MTU follow that of the kernel's interface, as far as configuration and buffers permit.
 * @return true: the interface's MTU has changed. The port's may be the same. While the port is being started it is left for later.
 */
bool net_port_mtu_follow(struct net_port *p);
/** [control] @return the MTU of a shared port's interface; 0: the port is not shared. */
uint32_t net_port_kernel_mtu(const struct net_port *p);
/**
 * [control] @return the devargs with which the PMD's buffers would carry a larger RoCE MTU, if only they keep the port from what its interface and
 * configuration permit; "": it is the PMD itself; NULL: they don't.
 */
const char *net_port_mtu_lacks(const struct net_port *p);
/**
 * [control] Configure another MTU. That of a shared port's interface stays as it is.
 * @param mtu  As net_port_config.mtu; 0: the ethdev's own.
 * @return 0; or an errno value with a message in @p err, and nothing was changed: EINVAL (more than interface or buffers carry, or less than RoCE v2
 * needs), EBUSY (the driver can't change it while the device is started, or the port is being started), or the driver's.
 */
int net_port_mtu_configure(struct net_port *p, uint16_t mtu, char *err, size_t err_bytes);
/** [control] Link state of the ethdev, down while it starts again; @p speed_mbps may be NULL. */
bool net_port_link(const struct net_port *p, uint32_t *speed_mbps);

/* ---- Events [control]; what follows from them: port/track.h ---- */
/** [control] Have eventfd @p fd written when net_port_events() has events; -1: no more. */
void net_port_notify(struct net_port *p, int fd);
/** [control] Take what happened since the last call. @return enum port_event. */
uint32_t net_port_events(struct net_port *p);
/** [control] @return a descriptor that is readable when net_port_link_read() should be called; -1: there is none. */
int net_port_link_fd(const struct net_port *p);
/**
 * [control] Shared ports: read what the kernel reports about its interfaces, for net_port_events(). If the port's is up again, send what the PMD's
 * sockets kept meanwhile.
 */
void net_port_link_read(struct net_port *p);
/**
 * [control, no engine uses the ethdev] Begin to stop and start the ethdev. PORT_EV_RESTARTED or PORT_EV_RESTART_FAILED says that it has
 * ended.
 * @param reset  Reset the device in between, if its driver can.
 */
void net_port_restart(struct net_port *p, bool reset);
/**
 * [control, no engine uses the ethdev] The device has gone: the port has no address and no link from now on, resolutions end with ECANCELED, and the
 * ethdev is closed. PORT_EV_CLOSED says that it is.
 */
void net_port_abandon(struct net_port *p);
/** [control] Of a port that is gone. @return whether its device seems to be there, so that net_port_reopen() is worth a try. */
bool net_port_present(const struct net_port *p);
/** [control] Begin to open the device of a port that is gone. PORT_EV_REOPENED or PORT_EV_REOPEN_FAILED says that it has ended. */
void net_port_reopen(struct net_port *p);
/** [control] @return why the last restart failed, or why the device couldn't be opened. */
const char *net_port_restart_error(const struct net_port *p);
/** [control] Have the NIC let through what the port needs: multicast groups that it has joined, VLANs and solicited-node groups of its addresses. */
void net_port_filter(struct net_port *p);
/** @return true if the port starts only when its peer is there (memif, role=client). */
bool net_port_needs_peer(const struct net_port *p);
/**
 * [control] @return a descriptor that an edge-triggered epoll reports when packets arrive on RX queue @p queue and whoever handles it sleeps; -1:
 * there is none, so the queue must be looked at.
 */
int net_port_wake_fd(const struct net_port *p, uint16_t queue);
/**
 * @return true if these descriptors are interrupts of a device, which may never come: net_e1000_em does not set up the MSI-X vectors of its
 * devices, and says nothing.
 */
bool net_port_wake_is_doubtful(const struct net_port *p);
/** [engine] About to sleep. @return false: there are packets already. */
bool net_port_wake_arm(const struct net_port *p, uint16_t queue);
/** [engine] The sleep is over. */
void net_port_wake_disarm(const struct net_port *p, uint16_t queue);
/** [control] The link has come up: send what the port's sockets kept while it was down. */
void net_port_came_up(const struct net_port *p);
/** [control] Make ready what the PMD has mapped since the link came up, so that the first packets are as fast as the others. It takes milliseconds. */
void net_port_populate(const struct net_port *p);

/**
 * [any] For whoever cleans up after a stack that has lost the right to do so itself.
 * @return the index of the interface on which the port has an XDP program; 0: it has none.
 */
uint32_t net_port_xdp_ifindex(const struct net_port *p);
/** [any] @return the ID of the XDP program on interface @p ifindex; 0: there is none, or it can't be read. */
uint32_t net_xdp_program(uint32_t ifindex);
/** [any] Remove program @p id from interface @p ifindex, if it is that one (CAP_NET_ADMIN). */
void net_xdp_detach(uint32_t ifindex, uint32_t id);

/**
 * [any] Whoever opens a device of net_af_packet beside a daemon that has the interface: have the device's sockets take nothing until net_port_open().
 * @return false: there is none on interface @p netdev in this process, or it takes no filter.
 */
bool net_packet_sockets_mute(const char *netdev);
/**
 * [any] The sockets of a device of net_af_packet form a group in which the kernel distributes packets (PACKET_FANOUT). Its number is that of the process, by 16 bits, and in
 * another PID namespace another process may have the same.
 * @return whether the number of the group that this process's device on interface @p netdev would have is taken: it would take the other one's packets.
 */
bool net_packet_group_is_taken(const char *netdev);
/** [any] @return whether this process has a packet socket on interface @p netdev: an interface that has been made anew has none. */
bool net_packet_sockets_there(const char *netdev);
/** [any] @return whether UDP port 4791 is taken on interface @p netdev: then no port can be opened there. */
bool net_roce_port_is_taken(const char *netdev);

/** What an engine learned from a packet. */
enum net_learned_kind {
	NET_LEARNED_NEIGH = 0, /**< a neighbour's MAC address */
	NET_LEARNED_QUERY,     /**< a router asks which multicast groups have members here */
};
struct net_learned {
	enum net_learned_kind kind;
	uint16_t port;
	uint8_t mac[6];
	bool weak;             /**< NEIGH: it doesn't replace another MAC address that is known (RFC 4861, 7.2.5: no Override flag) */
	uint16_t vlan;         /**< NEIGH: in which it is, 0: untagged */
	struct gid gid;        /**< the neighbour; QUERY: the group, or the family's zero address for all groups */
	bool ipv6, old;        /**< QUERY: it is MLD, not IGMP; its version is the older one (IGMPv2, MLDv1) */
	uint32_t max_delay_ms; /**< QUERY: answer within this */
};

/** Counters of lib/net, per port and engine. */
#define NET_COUNTERS(X) \
	X(rx_arp) X(rx_mcast_query) \
	X(rx_nd) X(rx_icmp_echo) X(rx_ignored) X(rx_malformed) X(tx_arp_reply) X(tx_nd_advert) X(tx_icmp_reply)
struct net_counters {
#define NET_X(name) uint64_t name;
	NET_COUNTERS(NET_X)
#undef NET_X
};

/** What the caller of net_rx() must do with the packet. */
enum net_action {
	NET_DROP,  /**< free it */
	NET_REPLY, /**< the packet was turned into its answer: send it on the same port */
};
/**
 * [engine] Handle a packet that isn't RoCE v2. Reads only the port's immutable parts.
 * @param learned  Filled in if something was learned from the packet; then *@p has_learned is true.
 */
enum net_action net_rx(const struct net_port *p, struct rte_mbuf *m, struct net_counters *c,
		       struct net_learned *learned, bool *has_learned);

/* ---- Neighbours [control] ---- */
/** Called when a resolution ends. @param status  0, ETIMEDOUT, EHOSTUNREACH (no route) or ECANCELED. */
typedef void (*net_resolved_fn)(void *arg, int status, const uint8_t mac[6]);

/** [control] Sends a packet of lib/net itself: on own ports, through an engine. Takes ownership. */
typedef void (*net_send_fn)(void *arg, struct net_port *p, struct rte_mbuf *m);
void net_port_set_sender(struct net_port *p, net_send_fn send, void *arg, struct rte_mempool *pool);

/**
 * [control] Resolve the MAC address of the next hop to @p dgid from GID @p sgid_index: that of the host itself if it is
 * on link, else of the gateway, in that GID's VLAN. Multicast and own addresses need no packets.
 * @return 0: *@p mac is set and @p done is not called; EINPROGRESS: @p done will be called from net_port_poll() or
 * net_learn(); EINVAL (GID index unused, or address families differ), EHOSTUNREACH (no route), ENOBUFS (too many
 * pending resolutions).
 */
int net_resolve(struct net_port *p, unsigned int sgid_index, const struct gid *dgid, uint64_t now_ns, uint8_t mac[6],
		net_resolved_fn done, void *arg);
/** [control] Cancel the resolution that was started with @p arg; its callback is not called any more. */
void net_resolve_cancel(struct net_port *p, void *arg);
/** What is known of a neighbour. */
struct net_neigh {
	struct gid hop; /**< the host or gateway that has the MAC address; IPv4 addresses are mapped */
	uint16_t vlan;  /**< in which it is, 0: untagged */
	uint8_t mac[6];  /**< zero: not known yet */
	const char *state;      /**< "INCOMPLETE", "REACHABLE", "PROBE" */
	uint64_t confirmed_ns;  /**< when it last answered; 0: never */
	unsigned int waiters;   /**< number of resolutions waiting for it */
};
/**
 * [control] List the neighbours that the port knows or is resolving. A shared port has none: the kernel has them.
 * @return the number of neighbours, of which at most @p max were put into @p out.
 */
unsigned int net_neigh_list(const struct net_port *p, struct net_neigh *out, unsigned int max);

/*
 * ---- Neighbours whose MAC address changes ----
 * A router or an address that fails over, a new card: paths that exist have to follow. An announcement of the neighbour's tells (gratuitous ARP,
 * unsolicited neighbour advertisement), or the kernel.
 */
/**
 * [control] @param pending  Gets how many neighbours have another MAC address than paths have been told; may be NULL.
 * @return how often one has changed so far.
 */
uint64_t net_neigh_changes(const struct net_port *p, unsigned int *pending);
/**
 * [control; or an engine while the control thread waits for it] Does a path have to follow?
 * @param sgid, dgid  Its addresses.
 * @param mac  Where its packets go now; set to where they have to go.
 * @return true: that is another MAC address.
 */
bool net_neigh_follow(const struct net_port *p, const struct gid *sgid, const struct gid *dgid, uint8_t mac[6]);
/** [control] All paths follow: take the next neighbour for whom that was so. @return false: there is none. */
bool net_neigh_followed(struct net_port *p, struct gid *gid, uint8_t mac[6]);
/**
 * [control] A path that a daemon before has made leads to @p mac. Behind a router it is noted on own ports only.
 */
void net_neigh_remember(struct net_port *p, const struct gid *sgid, const struct gid *dgid, const uint8_t mac[6]);

/* ---- Multicast groups [control] ---- */
/**
 * [control] Receive packets sent to @p mgid, an IPv6 or IPv4-mapped multicast address. Joins are counted: each needs a
 * net_group_leave(). On own ports the NIC's filter is opened and membership is reported to the routers and
 * switches of each VLAN in which the port has an address (IGMPv3 and MLDv2, or the previous version where there are
 * older routers); on shared ports the kernel does that.
 * @return 0; EINVAL (no multicast address), ENOSPC (NET_GROUPS_MAX), ENOMEM, on shared ports the kernel's error.
 */
int net_group_join(struct net_port *p, const struct gid *mgid, uint64_t now_ns);
/** [control] @return 0; EINVAL (not joined). */
int net_group_leave(struct net_port *p, const struct gid *mgid, uint64_t now_ns);

/** [control] Handle what an engine learned. */
void net_learn(struct net_port *p, const struct net_learned *l, uint64_t now_ns);
/**
 * [control] Do what is due: retries and timeouts of resolutions, reports about groups.
 * @return when to call again at the latest, or UINT64_MAX.
 */
uint64_t net_port_poll(struct net_port *p, uint64_t now_ns);

/**
 * [control] Get the parameters of all headers below the BTH for packets from GID @p sgid_index to @p av with
 * destination @p mac. sport is derived from the AV's flow label, 0 if that is 0.
 */
void net_path_addr(const struct net_port *p, unsigned int sgid_index, const struct uroce_ah_attr *av,
		   const uint8_t mac[6], struct wire_addr *out);

/**
 * [any] Get the Ethernet address for multicast GID @p gid.
 * @return false if it is not a multicast address; then @p mac is unchanged.
 */
bool net_multicast_mac(const struct gid *gid, uint8_t mac[6]);

#endif /* UROCE_NET_H */
