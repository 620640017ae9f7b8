/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The neighbour table and the resolutions waiting for its entries (neigh.c); how each kind of port resolves
 * (neigh_own.c, neigh_kernel.c). Thread: control.
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

struct neigh_table {
	const struct neigh_ops *ops;
	struct neigh_list bucket[NEIGH_BUCKETS];
	struct neigh_list active;       /**< INCOMPLETE, PROBE */
	struct neigh_list idle;         /**< REACHABLE, least recently confirmed first */
	struct neigh_waiters completed; /**< resolutions whose callback has to be called */
	unsigned int nb_neighs, nb_waiters;
};

/** @return NULL with errno set. */
struct neigh_table *neigh_table_create(const struct neigh_ops *ops);
/** Free the table; every pending resolution ends with ECANCELED. */
void neigh_table_destroy(struct neigh_table *t);
/** @return the entry for @p hop in VLAN @p vlan or NULL. */
struct neigh *neigh_find(struct neigh_table *t, const struct gid *hop, uint16_t vlan);

extern const struct neigh_ops neigh_own_ops, neigh_kernel_ops;

#endif /* UROCE_NEIGH_PRIV_H */
