/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Neighbours of a port that has its interface for itself: we send ARP requests and neighbour solicitations. */
#include <errno.h>

#include <rte_mbuf.h>

#include "net/net_priv.h"

static int
own_next_hop(struct net_port *p, const struct net_addr *from, const struct gid *dgid, struct gid *hop)
{
	if (gid_is_link_local(dgid) || net_addr_on_link(p, from->vlan, dgid) >= 0) {
		*hop = *dgid;
		return 0;
	}
	return net_router_for(p, from->vlan, dgid, hop) ? 0 : EHOSTUNREACH;
}

/** Send a request. If that fails it counts as lost: the next one may succeed. */
static void
own_solicit(struct net_port *p, const struct neigh *n)
{
	struct net_priv *priv = p->priv;
	uint8_t frame[NET_SOLICIT_MAX_BYTES];
	struct rte_mbuf *m;
	unsigned int len;
	char *to;

	if (priv->send == NULL)
		return;
	m = rte_pktmbuf_alloc(priv->send_pool);
	if (m == NULL)
		return;
	len = pkt_build_solicit(p, &n->sgid, n->vlan, &n->hop, frame);
	to = rte_pktmbuf_append(m, (uint16_t)len);
	if (to == NULL) {
		rte_pktmbuf_free(m);
		return;
	}
	memcpy(to, frame, len);
	priv->send(priv->send_arg, p, m);
}

static int
own_step(struct net_port *p, struct neigh *n, uint64_t now_ns)
{
	if (n->tries == NET_RESOLVE_TRIES)
		return ETIMEDOUT;
	n->tries++;
	n->next_ns = now_ns + NET_RESOLVE_INTERVAL_MS * NEIGH_MS;
	own_solicit(p, n);
	return EINPROGRESS;
}

const struct neigh_ops neigh_own_ops = {
	.next_hop = own_next_hop,
	.step = own_step,
	.cache = true,
};
