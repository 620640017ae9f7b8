/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The kernel's side of a shared port: its interface and sockets (shared.c), filters of packet sockets (packet.c), queries of its tables (rtnl.c).
 * Thread: control.
 */
#ifndef UROCE_KERNEL_PRIV_H
#define UROCE_KERNEL_PRIV_H

#include "net/net.h"

struct nlmsghdr;

/* ---- rtnl.c ---- */
/** Operations that lib/net asks the kernel for. A table, so that tests can replace the kernel. */
struct kernel_ops {
	/** @return 0 and the next hop, or EHOSTUNREACH. */
	int (*route)(void *kernel, const struct gid *sgid, const struct gid *dgid, struct gid *hop);
	/**
	 * @return 0 and the MAC address; ENOENT: not known; EAGAIN: the kernel is resolving it; EHOSTUNREACH: it gave
	 * up.
	 */
	int (*neigh)(void *kernel, const struct gid *hop, uint8_t mac[6]);
	/** Make the kernel resolve the next hop to @p dgid. */
	void (*trigger)(void *kernel, const struct gid *dgid);
	/** Make the kernel join a group. @return a socket that holds the membership, or -1 with errno set. */
	int (*join)(void *kernel, const struct gid *mgid);
};
enum {
	KERNEL_RESOLVE_MS =
		4000, /**< the kernel asks three times, a second apart (neigh/default/mcast_solicit, retrans_time_ms) */
	KERNEL_POLL_MIN_US = 500, /**< first check after triggering; the interval doubles each time */
	KERNEL_POLL_MAX_US = 50000,
};

/** @return a rtnetlink socket or -1 with errno set. */
int rtnl_open(void);
int rtnl_route(int fd, uint32_t ifindex, const struct gid *sgid, const struct gid *dgid, struct gid *hop);
int rtnl_neigh(int fd, uint32_t ifindex, const struct gid *hop, uint8_t mac[6]);
/**
 * Read a report about a neighbour.
 * @return true if it is about one of interface @p ifindex that has a MAC address.
 */
bool rtnl_neigh_report(const struct nlmsghdr *nlh, uint32_t ifindex, struct gid *gid, uint8_t mac[6]);
/**
 * Get the addresses of an interface, including link-local ones, but for those that another host turned out to have.
 * @return their number, at most @p max, or -1 with errno set.
 */
int rtnl_addrs(int fd, uint32_t ifindex, struct net_addr *addrs, unsigned int max);

/* ---- links.c ---- */
enum kernel_link_event {
	KERNEL_LINK_SAME,      /**< nothing about this interface */
	KERNEL_LINK_CHANGED,
	KERNEL_LINK_WENT_DOWN, /**< it was down, if only for a moment */
	KERNEL_LINK_REMOVED,   /**< deleted, or moved to another namespace */
};
/** @return a non-blocking socket that is readable when the kernel reports links, their addresses or neighbours, or -1 with errno set. */
int links_open(void);
/** What the kernel has reported about an interface. */
struct kernel_report {
	enum kernel_link_event event; /**< the weightiest */
	bool addrs;                   /**< its addresses may have changed */
	bool lost;                    /**< reports were lost */
};
/** A neighbour of the interface has this MAC address. */
typedef void (*kernel_neigh_fn)(void *arg, const struct gid *gid, const uint8_t mac[6]);
/** Read what the kernel has reported about interface @p ifindex. */
struct kernel_report links_read(int fd, uint32_t ifindex, kernel_neigh_fn on_neigh, void *arg);

/* ---- shared.c ---- */
struct net_kernel {
	int rtnl;                   /**< rtnetlink socket */
	int links;                  /**< links_open() */
	int blackhole4, blackhole6; /**< UDP port 4791, drops everything */
	int trigger4, trigger6;     /**< UDP, used to make the kernel resolve an address */
	uint32_t ifindex;
	const struct kernel_ops *ops;
};
/**
 * Find interface @p p->netdev: puts its index and MAC address into @p p and its MTU into @p mtu; binds UDP port 4791 on
 * it.
 * @return NULL with a message.
 */
struct net_kernel *kernel_open(struct net_port *p, uint32_t *mtu, char *err, size_t err_bytes);
void kernel_close(struct net_kernel *k);
/** Give UDP port 4791 back, for which another daemon may wait; kernel_close() does the rest. */
void kernel_release(struct net_kernel *k);
/**
 * Remove our XDP program from the interface. One found there while no daemon runs was left by a daemon that was killed.
 */
void kernel_detach_xdp(const struct net_port *p);
/** @return the MTU of the interface; 0: it can't be read. */
uint32_t kernel_mtu(const struct net_port *p);
/** @return true if the interface is up and has a carrier. */
bool kernel_link(const struct net_port *p);

/* ---- packet.c ---- */
/** Limit this process's packet sockets on the interface to UDP port 4791. @return number of sockets found. */
unsigned int kernel_filter_packet_sockets(uint32_t ifindex);
/** Have them take nothing, until kernel_filter_packet_sockets(). @return number of sockets found. */
unsigned int kernel_mute_packet_sockets(uint32_t ifindex);
/** @return true if @p fd is a packet socket on the interface. */
bool kernel_is_packet_socket(int fd, uint32_t ifindex);

#endif /* UROCE_KERNEL_PRIV_H */
