/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The neighbour table and the resolutions waiting for its entries (neigh.c); how each kind of port resolves
 * (neigh_own.c, neigh_kernel.c); where paths lead (hop.c). Thread: control.
 */
#ifndef UROCE_NEIGH_PRIV_H
#define UROCE_NEIGH_PRIV_H

#include <sys/queue.h>

#include "net/net.h"

enum neigh_state {
	NEIGH_INCOMPLETE, /**< being resolved, no answer yet */
	NEIGH_REACHABLE,  /**< answered within NEIGH_REACHABLE_NS */
	NEIGH_PROBE,      /**< known, and being resolved again to confirm it */
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
	struct gid hop;  /**< the host or gateway that has this MAC address */
	struct gid sgid; /**< the address that we ask from */
	struct gid dgid; /**< shared ports: the destination */
	uint16_t vlan;   /**< of @p hop and @p sgid */
	uint8_t mac[6];
	enum neigh_state state;
	unsigned int tries;
	uint64_t began_ns;
	uint64_t next_ns;      /**< active: time of the next step */
	uint64_t confirmed_ns; /**< time of the last answer */
};
TAILQ_HEAD(neigh_list, neigh);

enum {
	NEIGH_BUCKETS = 1024,
	NEIGH_REACHABLE_MS = 30000, /**< RFC 4861, REACHABLE_TIME */
};
#define NEIGH_MS UINT64_C(1000000)
#define NEIGH_REACHABLE_NS (NEIGH_REACHABLE_MS * NEIGH_MS)

/** How a kind of port resolves neighbours. */
struct neigh_ops {
	/** @return 0 and the next hop from @p from to @p dgid, or EHOSTUNREACH. */
	int (*next_hop)(struct net_port *p, const struct net_addr *from, const struct gid *dgid, struct gid *hop);
	/**
	 * Start or continue a resolution: send a request, or check for an answer.
	 * @return 0: n->mac is valid now; EINPROGRESS: call again at n->next_ns; otherwise the error with which the
	 * resolution ends.
	 */
	int (*step)(struct net_port *p, struct neigh *n, uint64_t now_ns);
	bool cache; /**< keep answers; otherwise each resolution calls step() */
};

/** A host on the link to which paths lead. */
struct hop {
	TAILQ_ENTRY(hop) hash_next;
	TAILQ_ENTRY(hop) used_next;
	TAILQ_ENTRY(hop) change_next; /**< if changed */
	struct gid gid;
	uint16_t vlan;
	uint8_t mac[6];    /**< zero: not known yet */
	uint8_t before[6]; /**< if changed: what paths had when they were last told */
	bool router;       /**< to which paths to other hosts lead */
	bool changed;
};
TAILQ_HEAD(hop_list, hop);
enum { HOP_BUCKETS = 1024, HOPS_LOOK_MS = 1000 };
struct hops {
	struct hop_list bucket[HOP_BUCKETS];
	struct hop_list used;    /**< all, least recently used first */
	struct hop_list changed; /**< routers first */
	unsigned int nb, nb_changed;
	uint64_t changes;
	bool lost;        /**< shared ports: reports of the kernel about neighbours were lost */
	uint64_t look_ns; /**< when the kernel may be asked about all again */
};
void hops_init(struct hops *t);
void hops_fini(struct hops *t);
/** A path to @p dgid leads by @p gid in VLAN @p vlan, or will if that answers. In a full table it replaces who was not used for longest. */
void hops_use(struct hops *t, const struct gid *gid, uint16_t vlan, const struct gid *dgid);
/** @p gid has this MAC address. Whoever is not in the table stays unknown. */
void hops_mac(struct hops *t, const struct gid *gid, uint16_t vlan, const uint8_t mac[6]);

struct neigh_table {
	const struct neigh_ops *ops;
	struct hops hops;
	struct neigh_list bucket[NEIGH_BUCKETS];
	struct neigh_list active;       /**< INCOMPLETE, PROBE */
	struct neigh_list idle;         /**< REACHABLE, least recently confirmed first */
	struct neigh_waiters completed; /**< resolutions whose callback has to be called */
	unsigned int nb_neighs, nb_waiters;
};

uint32_t neigh_hash(const struct gid *gid);
/** @return NULL with errno set. */
struct neigh_table *neigh_table_create(const struct neigh_ops *ops);
/** Free the table; every pending resolution ends with ECANCELED. */
void neigh_table_destroy(struct neigh_table *t);
/** @return the entry for @p hop in VLAN @p vlan or NULL. */
struct neigh *neigh_find(struct neigh_table *t, const struct gid *hop, uint16_t vlan);

extern const struct neigh_ops neigh_own_ops, neigh_kernel_ops;
/**
 * Shared ports: if reports of changes were lost, ask the kernel for the MAC addresses of all to whom paths lead, once in HOPS_LOOK_MS at most.
 * @return when to call again at the latest, or UINT64_MAX.
 */
uint64_t neigh_kernel_look(struct net_port *p, uint64_t now_ns);

#endif /* UROCE_NEIGH_PRIV_H */
