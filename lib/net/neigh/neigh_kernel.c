/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Neighbours of a port that shares its interface with the kernel: the kernel resolves and caches them, we look them up.
 *
 * Nothing is cached here: a look-up takes a few microseconds and is always up to date. The kernel starts resolving when
 * something is to be sent, so we send an empty datagram to the destination's discard port.
 */
#include <errno.h>

#include "net/net_priv.h"

#define KERNEL_US UINT64_C(1000)

static int
kernel_next_hop(struct net_port *p, const struct net_addr *from, const struct gid *dgid, struct gid *hop)
{
	struct net_kernel *k = p->priv->kernel;

	return k->ops->route(k, &from->gid, dgid, hop);
}

static int
kernel_step(struct net_port *p, struct neigh *n, uint64_t now_ns)
{
	struct net_kernel *k = p->priv->kernel;
	uint64_t wait_ns;
	int rc = k->ops->neigh(k, &n->hop, n->mac);

	if (rc == 0)
		return 0;
	if (n->tries == 0) {
		k->ops->trigger(k, &n->dgid); /* the failure may be old: start again */
	} else if (rc == EHOSTUNREACH) {
		return ETIMEDOUT;
	} else if (now_ns - n->began_ns >= KERNEL_RESOLVE_MS * NEIGH_MS) {
		return ETIMEDOUT;
	}
	wait_ns = n->tries < 8 ? (KERNEL_POLL_MIN_US * KERNEL_US) << n->tries : KERNEL_POLL_MAX_US * KERNEL_US;
	if (wait_ns > KERNEL_POLL_MAX_US * KERNEL_US)
		wait_ns = KERNEL_POLL_MAX_US * KERNEL_US;
	n->tries++;
	n->next_ns = now_ns + wait_ns;
	return EINPROGRESS;
}

const struct neigh_ops neigh_kernel_ops = {
	.next_hop = kernel_next_hop,
	.step = kernel_step,
	.cache = false,
};

uint64_t
neigh_kernel_look(struct net_port *p, uint64_t now_ns)
{
	struct net_kernel *k = p->priv->kernel;
	struct hops *t = &p->priv->neigh->hops;
	const struct hop *h;
	uint8_t mac[6];

	if (!t->lost)
		return UINT64_MAX;
	if (now_ns < t->look_ns)
		return t->look_ns;
	t->lost = false;
	t->look_ns = now_ns + HOPS_LOOK_MS * NEIGH_MS;
	TAILQ_FOREACH(h, &t->used, used_next)
	if (k->ops->neigh(k, &h->gid, mac) == 0)
		hops_mac(t, &h->gid, h->vlan, mac);
	return UINT64_MAX;
}
