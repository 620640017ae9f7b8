/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/net share with each other and with nobody else (their unit tests apart).
 *
 * Owns: struct net_priv, the hidden half of a port. Thread: control, except the helpers on bytes, which any thread may
 * call.
 */
#ifndef UROCE_NET_PRIV_H
#define UROCE_NET_PRIV_H

#include <sys/queue.h>

#include "net/net.h"

struct rte_eth_dev_info;

enum {
	NET_ETH_VLAN_BYTES = WIRE_ETH_BYTES + WIRE_VLAN_BYTES,
	/** IPv6, UDP, BTH, XRCETH, AtomicETH and ICRC: what Linux takes off an interface's MTU (rdma/ib_addr.h,
	   iboe_get_mtu). */
	NET_ROCE_OVERHEAD_BYTES = WIRE_IPV6_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES + WIRE_XRCETH_BYTES +
				  WIRE_ATOMICETH_BYTES + WIRE_ICRC_BYTES,
	NET_MIN_MTU = 256 + NET_ROCE_OVERHEAD_BYTES, /**< a smaller IP MTU carries no RoCE packet */
	NET_MAX_ROCE_IP_MTU = WIRE_MAX_MTU + NET_ROCE_OVERHEAD_BYTES,
	NET_LINK_LOCAL_PREFIX = 64,
};

/* ---- GIDs as addresses ---- */
/** @return true if @p gid is an IPv4-mapped address. */
static inline bool
gid_is_ipv4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

static inline void
gid_from_ipv4(uint8_t gid[16], const uint8_t ip[4])
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, ip, 4);
}

static inline bool
gid_is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, sizeof(zero)) == 0;
}

static inline bool
gid_is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/** @return true if @p gid is a multicast address of either family. */
static inline bool
gid_is_multicast(const uint8_t gid[16])
{
	return gid_is_ipv4(gid) ? (gid[12] & 0xf0) == 0xe0 : gid[0] == 0xff;
}

/** @return true if @p gid can be a host's address: neither unspecified, loopback, multicast nor IPv4's class E and
 * broadcast. */
bool gid_is_host(const uint8_t gid[16]);
/** Link-local address made of a MAC address (RFC 4291, appendix A). */
void gid_link_local(uint8_t gid[16], const uint8_t mac[6]);
/** @return true if both are in the same subnet of @p prefix bits (of the family's own address length). */
bool gid_same_subnet(const uint8_t a[16], const uint8_t b[16], unsigned int prefix);
enum { GID_TEXT_BYTES = 46 };
/** Print a GID as the address it is. @return @p text. */
const char *gid_text(const uint8_t gid[16], char text[GID_TEXT_BYTES]);

static inline bool
mac_is_unicast(const uint8_t mac[6])
{
	static const uint8_t zero[6];

	return (mac[0] & 1) == 0 && memcmp(mac, zero, sizeof(zero)) != 0;
}

/* ---- pkt.c: bytes of ARP, ND and ICMP ---- */
enum {
	ARP_BYTES = 28,
	ARP_REQUEST = 1,
	ARP_REPLY = 2,
	ICMP_ECHO_REPLY = 0,
	ICMP_ECHO_REQUEST = 8,
	ICMP6_ECHO_REQUEST = 128,
	ICMP6_ECHO_REPLY = 129,
	ICMP6_NS = 135,
	ICMP6_NA = 136,
	ND_BYTES = 24,    /**< NS or NA without options */
	ND_OPT_BYTES = 8, /**< source or target link-layer address of Ethernet */
	ND_OPT_SOURCE = 1,
	ND_OPT_TARGET = 2,
	ND_HOP_LIMIT = 255, /**< RFC 4861, 7.1: proof that the packet was not forwarded */
	NET_TTL = 64,
	IPPROTO_NUM_ICMP = 1,
	IPPROTO_NUM_ICMP6 = 58,
	NET_SOLICIT_MAX_BYTES = NET_ETH_VLAN_BYTES + WIRE_IPV6_BYTES + ND_BYTES + ND_OPT_BYTES,
};

/** Sum of 16-bit words, not folded. @p len may be odd. */
uint32_t pkt_sum(const void *data, size_t len, uint32_t sum);
/** Fold and complement: what a checksum field holds. Over data with its checksum in place: 0. */
uint16_t pkt_sum_finish(uint32_t sum);
/** Sum of the IPv6 pseudo-header (RFC 8200, 8.1). @p ip6 is the IP header. */
uint32_t pkt_sum_pseudo6(const uint8_t *ip6, uint32_t len, uint8_t next_header);
/** Write Ethernet header, with the port's VLAN tag if it has one. @return bytes. */
unsigned int pkt_put_eth(uint8_t *p, const struct net_port *port, const uint8_t dmac[6], uint16_t ethertype);
/** Fill an ARP packet. @p tmac NULL: zero. */
void pkt_put_arp(uint8_t *p, uint16_t op, const uint8_t smac[6], const uint8_t sip[4], const uint8_t *tmac,
		 const uint8_t tip[4]);
/** Fill IPv6 header and NS or NA with one link-layer address option. @return bytes. */
unsigned int pkt_put_nd(uint8_t *p, uint8_t type, uint32_t flags, const uint8_t src[16], const uint8_t dst[16],
			const uint8_t target[16], const uint8_t mac[6]);
/** Solicited-node multicast address of @p gid (RFC 4291, 2.7.1). */
void pkt_solicited_node(uint8_t group[16], const uint8_t gid[16]);
/** Build the request that asks who has @p target: ARP or NS, from GID @p sgid. @return bytes of @p frame. */
unsigned int pkt_build_solicit(const struct net_port *port, const uint8_t sgid[16], const uint8_t target[16],
			       uint8_t frame[NET_SOLICIT_MAX_BYTES]);

/* ---- group_pkt.c: bytes of IGMP (RFC 2236, 3376) and MLD (RFC 2710, 3810) ---- */
enum {
	IPPROTO_NUM_IGMP = 2,
	IGMP_QUERY = 0x11,
	IGMP_V2_REPORT = 0x16,
	IGMP_V2_LEAVE = 0x17,
	IGMP_V3_REPORT = 0x22,
	IGMP_BYTES = 8,          /**< of an IGMPv2 message, and of the head of the others */
	IGMP_V3_QUERY_BYTES = 12,
	MLD_QUERY = 130,
	MLD_V1_REPORT = 131,
	MLD_V1_DONE = 132,
	MLD_V2_REPORT = 143,
	MLD_V1_BYTES = 24,
	MLD_V2_QUERY_BYTES = 28,
	GROUP_FRAME_MAX_BYTES = NET_ETH_VLAN_BYTES + WIRE_IPV6_BYTES + 8 + 28,
};
/** What is said of a group. In the old versions there is a report for the first two, and a leave. */
enum group_record {
	GROUP_IS_MEMBER = 2, /**< MODE_IS_EXCLUDE nothing: an answer to a query */
	GROUP_JOINED = 4,    /**< CHANGE_TO_EXCLUDE_MODE nothing */
	GROUP_LEFT = 3,      /**< CHANGE_TO_INCLUDE_MODE nothing */
};
/** Build a report about one group. @return bytes of @p frame. */
unsigned int group_build(const struct net_port *p, const uint8_t mgid[16], enum group_record record, bool old,
			 uint8_t frame[GROUP_FRAME_MAX_BYTES]);
/** Read a query: @p igmp or @p icmp of @p len bytes, checksum verified. @return false: it isn't a good one. */
bool group_parse_igmp(const uint8_t *igmp, uint32_t len, struct net_learned *l);
bool group_parse_mld(const uint8_t *icmp, uint32_t len, struct net_learned *l);

/* ---- group.c: multicast groups ---- */
enum {
	GROUP_REPORTS = 2,             /**< RFC 3376, 8.1 and 3810, 9.1: robustness variable */
	GROUP_REPORT_INTERVAL_MS = 1000, /**< RFC 3376, 8.11 and 3810, 9.11 */
	GROUP_OLD_QUERIER_MS = 260000, /**< RFC 3376, 8.12: robustness * query interval + response interval, by default */
	GROUP_MIN_DELAY_MS = 100,      /**< between a query and all its answers, whatever the query says */
};
struct group {
	LIST_ENTRY(group) next;
	uint8_t mgid[16];
	uint32_t joins;      /**< 0: left, and the reports of that aren't done */
	int fd;              /**< shared ports: the kernel's membership; else -1 */
	uint32_t reports;    /**< of joining or leaving, still to be sent */
	uint64_t change_ns;  /**< when the next of these is due */
	uint64_t answer_ns;  /**< when a query is to be answered; 0: none */
};
struct groups {
	LIST_HEAD(, group) list;
	uint32_t nb;         /**< joined */
	uint64_t old_until_ns[2]; /**< by IPv4 and IPv6: until then there is a router that knows the old version only */
};
/** Free them; nothing is sent. */
void groups_clear(struct net_port *p);
void groups_query(struct net_port *p, const struct net_learned *l, uint64_t now_ns);
/** Send what is due. @return when to call again at the latest. */
uint64_t groups_poll(struct net_port *p, uint64_t now_ns);
/** Own ports: let the NIC's filter through what the port needs. @return 0, or -1: it takes neither list nor mode. */
int groups_program_nic(struct net_port *p);

/* ---- neigh.c: the neighbour table and those who wait ---- */
enum neigh_state {
	NEIGH_INCOMPLETE, /**< asked, no answer yet */
	NEIGH_REACHABLE,  /**< answered within NEIGH_REACHABLE_NS */
	NEIGH_PROBE,      /**< known, and asked again to see if it still holds */
	NEIGH_STATES,
};
const char *neigh_state_name(enum neigh_state s);

struct neigh_waiter {
	TAILQ_ENTRY(neigh_waiter) next;
	net_resolved_fn done;
	void *arg;
	int status;
	uint8_t mac[6];
};
TAILQ_HEAD(neigh_waiters, neigh_waiter);

struct neigh {
	TAILQ_ENTRY(neigh) hash_next;
	TAILQ_ENTRY(neigh) list_next; /**< in active or idle list */
	struct neigh_waiters waiters;
	uint8_t hop[16];  /**< whose MAC address this is: host or gateway */
	uint8_t sgid[16]; /**< from which address we ask */
	uint8_t dgid[16]; /**< shared: for which destination */
	uint8_t mac[6];
	enum neigh_state state;
	unsigned int tries;
	uint64_t began_ns;
	uint64_t next_ns;      /**< active: when to step */
	uint64_t confirmed_ns; /**< last answer */
};
TAILQ_HEAD(neigh_list, neigh);

enum {
	NEIGH_BUCKETS = 1024,
	NEIGH_REACHABLE_MS = 30000, /**< RFC 4861, REACHABLE_TIME */
};
#define NEIGH_MS UINT64_C(1000000)
#define NEIGH_REACHABLE_NS (NEIGH_REACHABLE_MS * NEIGH_MS)

/** How a kind of port finds neighbours. */
struct neigh_ops {
	/** @return 0 and the next hop on the way from @p sgid to @p dgid, or EHOSTUNREACH. */
	int (*next_hop)(struct net_port *p, const uint8_t sgid[16], const uint8_t dgid[16], uint8_t hop[16]);
	/**
	 * Begin or go on: ask, or look whether there is an answer.
	 * @return 0: n->mac is valid now; EINPROGRESS: call again at n->next_ns; else the error with which it ends.
	 */
	int (*step)(struct net_port *p, struct neigh *n, uint64_t now_ns);
	bool cache; /**< keep answers; else each resolution asks step() */
};

struct neigh_table {
	const struct neigh_ops *ops;
	struct neigh_list bucket[NEIGH_BUCKETS];
	struct neigh_list active;       /**< INCOMPLETE, PROBE */
	struct neigh_list idle;         /**< REACHABLE, least recently confirmed first */
	struct neigh_waiters completed; /**< to be called */
	unsigned int nb_neighs, nb_waiters;
};

/** @return NULL with errno set. */
struct neigh_table *neigh_table_create(const struct neigh_ops *ops);
/** Ends every resolution with ECANCELED. */
void neigh_table_destroy(struct neigh_table *t);
/** @return the entry for @p hop or NULL. */
struct neigh *neigh_find(struct neigh_table *t, const uint8_t hop[16]);

extern const struct neigh_ops neigh_own_ops, neigh_kernel_ops;

/* ---- rtnl.c: questions to the kernel ---- */
/** How lib/net asks the kernel; a table so that tests can be the kernel. */
struct kernel_ops {
	/** @return 0 and the next hop, or EHOSTUNREACH. */
	int (*route)(void *kernel, const uint8_t sgid[16], const uint8_t dgid[16], uint8_t hop[16]);
	/** @return 0 and the MAC address, ENOENT: not known, EAGAIN: the kernel is asking, EHOSTUNREACH: it gave up. */
	int (*neigh)(void *kernel, const uint8_t hop[16], uint8_t mac[6]);
	/** Make the kernel resolve the way to @p dgid. */
	void (*trigger)(void *kernel, const uint8_t dgid[16]);
	/** Have the kernel join a group. @return a descriptor that is the membership, or -1 with errno set. */
	int (*join)(void *kernel, const uint8_t mgid[16]);
};
enum {
	KERNEL_RESOLVE_MS =
		4000, /**< the kernel asks three times, a second apart (neigh/default/mcast_solicit, retrans_time_ms) */
	KERNEL_POLL_MIN_US = 500, /**< first look after asking; doubles */
	KERNEL_POLL_MAX_US = 50000,
};

/** @return a rtnetlink socket or -1 with errno set. */
int rtnl_open(void);
int rtnl_route(int fd, uint32_t ifindex, const uint8_t sgid[16], const uint8_t dgid[16], uint8_t hop[16]);
int rtnl_neigh(int fd, uint32_t ifindex, const uint8_t hop[16], uint8_t mac[6]);
/** Addresses of an interface, link-local ones included. @return their number, at most @p max, or -1 with errno set. */
int rtnl_addrs(int fd, uint32_t ifindex, struct net_addr *addrs, unsigned int max);

/* ---- pmd.c: what each PMD can carry ---- */
/** A PMD's properties for one ethdev. */
struct pmd_profile {
	bool shared;      /**< shares a kernel interface */
	bool carries_mtu; /**< set: IP MTU is not ethdev's but a matter of max_frame (and, if shared, the kernel) */
	bool needs_peer;  /**< starts only if the other side is there (memif, role=client) */
	bool xdp;         /**< RX memory is the pool itself, in pieces of at most a page */
	char netdev[NET_NAME_BYTES]; /**< shared: kernel interface */
	char xdp_prog[256];          /**< af_xdp: devarg xdp_prog */
	uint32_t max_frame;          /**< bytes, VLAN tag included */
	uint32_t pool_room;          /**< data room that the PMD wants in an mbuf, without headroom; 0: the frame's */
	const char *queue_devarg;    /**< devarg that sets the number of queues, or NULL */
	const char *size_devarg;     /**< what to change for larger frames, or NULL */
};
/** Fill @p prof from driver name and devargs. @return 0, or EINVAL with a message. */
int pmd_profile_get(const struct rte_eth_dev_info *info, const char *devargs, struct pmd_profile *prof, char *err,
		    size_t err_bytes);
/** RX pool for net_af_xdp. @return NULL with a message. */
struct rte_mempool *pmd_xdp_pool_create(const char *name, unsigned int nb_queues, unsigned int desc, int socket,
					char *err, size_t err_bytes);
/** Frame bytes that fit the chunks of pmd_xdp_pool_create(). */
uint32_t pmd_xdp_max_frame(void);

/* ---- shared.c: the kernel beside us ---- */
struct net_kernel {
	int rtnl;                   /**< rtnetlink socket */
	int blackhole4, blackhole6; /**< UDP 4791, everything dropped */
	int trigger4, trigger6;     /**< UDP, for making the kernel resolve */
	uint32_t ifindex;
	const struct kernel_ops *ops;
};
/**
 * Find the interface @p p->netdev: index and MAC address into @p p, its MTU into @p mtu; take UDP port 4791 on it.
 * @return NULL with a message.
 */
struct net_kernel *kernel_open(struct net_port *p, uint32_t *mtu, char *err, size_t err_bytes);
void kernel_close(struct net_kernel *k);
/** Remove our XDP program from the interface; one that is there without a daemon is of a daemon that was killed. */
void kernel_detach_xdp(const struct net_port *p);
/** Make this process's packet sockets on the interface see UDP port 4791 only. @return sockets found. */
unsigned int kernel_filter_packet_sockets(uint32_t ifindex);
/** @return true if the interface is up and has a carrier. */
bool kernel_link(const struct net_port *p);

struct net_priv {
	net_send_fn send;
	void *send_arg;
	struct rte_mempool *send_pool;
	struct neigh_table *neigh;
	struct groups groups;
	struct net_kernel *kernel; /**< shared ports */
	struct rte_mempool *pool;  /**< RX pool that the PMD needs for itself, or NULL */
	struct pmd_profile pmd;
	bool configured, started;
	bool allmulticast;         /**< the NIC's filter for groups is open altogether */
};

#endif /* UROCE_NET_PRIV_H */
