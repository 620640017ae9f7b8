/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Multicast groups that a port has joined.
 *
 * Own ports: programs the NIC's filter, and sends reports that make switches and routers forward the group to us: two
 * each when it is joined and left, and in answer to queries. We always want all sources, so every report is about
 * EXCLUDE mode with no sources. Reports of other hosts don't suppress ours, as in IGMPv3 and MLDv2; with the older
 * versions that costs a packet.
 * Shared ports: a kernel socket holds the membership.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_random.h>

#include "net/net_priv.h"

static struct group *
group_find(const struct net_port *p, const struct gid *mgid)
{
	struct group *g;

	LIST_FOREACH(g, &p->priv->groups.list, next)
	{
		if (gid_equal(&g->mgid, mgid))
			return g;
	}
	return NULL;
}

static void
group_free(struct group *g)
{
	if (g->fd >= 0)
		close(g->fd);
	LIST_REMOVE(g, next);
	free(g);
}

void
groups_clear(struct net_port *p)
{
	struct group *g;

	while ((g = LIST_FIRST(&p->priv->groups.list)) != NULL)
		group_free(g);
	p->priv->groups.nb = 0;
}

/* ---- The NIC ---- */
static void
add_mac(struct rte_ether_addr *macs, uint32_t *nb, const struct gid *gid)
{
	struct rte_ether_addr mac;

	if (!net_multicast_mac(gid, mac.addr_bytes))
		return;
	for (uint32_t i = 0; i < *nb; i++) {
		if (rte_is_same_ether_addr(&macs[i], &mac))
			return;
	}
	macs[(*nb)++] = mac;
}

/** Program the groups of routers' queries, those of our addresses for neighbour discovery, and the joined groups. */
static int
program_list(struct net_port *p)
{
	static const struct gid all_hosts4 = { { [10] = 0xff, 0xff, 224, 0, 0, 1 } };
	static const struct gid all_hosts6 = { { 0xff, 0x02, [15] = 0x01 } };
	struct rte_ether_addr *macs = calloc(2 + UROCE_MAX_GIDS + p->priv->groups.nb, sizeof(*macs));
	struct gid solicited;
	const struct gid *gid;
	const struct group *g;
	uint32_t nb = 0, i;
	int rc;

	if (macs == NULL)
		return -ENOMEM;
	add_mac(macs, &nb, &all_hosts4);
	add_mac(macs, &nb, &all_hosts6);
	for (i = 0; i < UROCE_MAX_GIDS; i++) {
		gid = net_gid(p, i);
		if (gid == NULL || gid_is_v4(gid))
			continue;
		solicited = pkt_solicited_node(gid);
		add_mac(macs, &nb, &solicited);
	}
	LIST_FOREACH(g, &p->priv->groups.list, next)
	{
		if (g->joins > 0)
			add_mac(macs, &nb, &g->mgid);
	}
	rc = rte_eth_dev_set_mc_addr_list(p->port_id, macs, nb);
	free(macs);
	return rc;
}

int
groups_program_nic(struct net_port *p)
{
	/* Of a port that starts again it is done afterwards. */
	if (p->shared || p->restarting || !p->priv->started || p->priv->allmulticast || program_list(p) == 0)
		return 0;
	/* The NIC takes no list, or none of this length. */
	if (rte_eth_allmulticast_enable(p->port_id) != 0)
		return -1;
	p->priv->allmulticast = true;
	return 0;
}

/* ---- Reports ---- */
/** Groups that every host is in, or that are limited to the host, are never reported (RFC 3376, 6; RFC 3810, 6). */
static bool
is_reported(const struct gid *mgid)
{
	static const struct gid all_hosts4 = { { [10] = 0xff, 0xff, 224, 0, 0, 1 } };
	static const struct gid all_hosts6 = { { 0xff, 0x02, [15] = 0x01 } };
	uint8_t scope = mgid->raw[1] & 15;
	enum { SCOPE_RESERVED = 0, SCOPE_INTERFACE = 1 };

	if (gid_is_v4(mgid))
		return !gid_equal(mgid, &all_hosts4);
	return scope != SCOPE_RESERVED && scope != SCOPE_INTERFACE && !gid_equal(mgid, &all_hosts6);
}

/** Send a report into a VLAN. If that fails it counts as lost: each report is sent twice, and routers query again. */
static void
report_in(struct net_port *p, uint16_t vlan, const struct group *g, enum group_record record, uint64_t now_ns)
{
	struct net_priv *priv = p->priv;
	bool old = now_ns < priv->groups.old_until_ns[!gid_is_v4(&g->mgid)];
	struct rte_mbuf *m;
	unsigned int bytes;

	if (priv->send == NULL)
		return;
	m = rte_pktmbuf_alloc(priv->send_pool);
	if (m == NULL)
		return;
	if (rte_pktmbuf_tailroom(m) < GROUP_FRAME_MAX_BYTES) {
		rte_pktmbuf_free(m);
		return;
	}
	bytes = group_build(p, vlan, &g->mgid, record, old, rte_pktmbuf_mtod(m, uint8_t *));
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	priv->send(priv->send_arg, p, m);
}

/**
 * Send a report into each VLAN in which the port has an address, whichever of them the query came from: a QP that is
 * attached receives from all.
 */
static void
report(struct net_port *p, const struct group *g, enum group_record record, uint64_t now_ns)
{
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = net_addr(p, i);
		bool first = a != NULL;

		for (unsigned int k = 0; k < i && first; k++)
			first = net_addr(p, k) == NULL || net_addr(p, k)->vlan != a->vlan;
		if (first)
			report_in(p, a->vlan, g, record, now_ns);
	}
}

static uint64_t
soon(uint64_t now_ns, uint32_t max_ms)
{
	return now_ns + rte_rand_max((uint64_t)max_ms * NEIGH_MS) + 1;
}

/** The group was joined or left: report it at once, and again within a second. */
static void
changed(struct net_port *p, struct group *g, uint64_t now_ns)
{
	g->reports = is_reported(&g->mgid) ? GROUP_REPORTS : 0;
	g->change_ns = now_ns;
	if (g->joins == 0)
		g->answer_ns = 0;
}

void
groups_query(struct net_port *p, const struct net_learned *l, uint64_t now_ns)
{
	uint32_t ms = l->max_delay_ms < GROUP_MIN_DELAY_MS ? GROUP_MIN_DELAY_MS : l->max_delay_ms;
	bool all = wire_get32(l->gid.raw + 12) == 0;
	struct group *g;
	uint64_t at;

	if (p->shared)
		return;
	if (l->old)
		p->priv->groups.old_until_ns[l->ipv6] = now_ns + GROUP_OLD_QUERIER_MS * NEIGH_MS;
	LIST_FOREACH(g, &p->priv->groups.list, next)
	{
		if (g->joins == 0 || gid_is_v4(&g->mgid) == l->ipv6 || !is_reported(&g->mgid) ||
		    (!all && !gid_equal(&g->mgid, &l->gid)))
			continue;
		at = soon(now_ns, ms);
		if (g->answer_ns == 0 || at < g->answer_ns)
			g->answer_ns = at;
	}
}

/** Send the due reports of @p g. @return when to call again. */
static uint64_t
group_step(struct net_port *p, struct group *g, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	if (g->reports > 0 && g->change_ns <= now_ns) {
		report(p, g, g->joins > 0 ? GROUP_JOINED : GROUP_LEFT, now_ns);
		g->reports--;
		g->change_ns = soon(now_ns, GROUP_REPORT_INTERVAL_MS);
	}
	if (g->answer_ns != 0 && g->answer_ns <= now_ns) {
		report(p, g, GROUP_IS_MEMBER, now_ns);
		g->answer_ns = 0;
	}
	if (g->reports > 0)
		next = g->change_ns;
	if (g->answer_ns != 0 && g->answer_ns < next)
		next = g->answer_ns;
	return next;
}

uint64_t
groups_poll(struct net_port *p, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, at;
	struct group *g, *after;

	for (g = LIST_FIRST(&p->priv->groups.list); g != NULL; g = after) {
		after = LIST_NEXT(g, next);
		at = group_step(p, g, now_ns);
		if (at < next)
			next = at;
		if (g->joins == 0 && g->reports == 0)
			group_free(g);
	}
	return next;
}

/* ---- Joining and leaving ---- */
int
net_group_join(struct net_port *p, const struct gid *mgid, uint64_t now_ns)
{
	struct group *g = group_find(p, mgid);

	if (!gid_is_multicast(mgid))
		return EINVAL;
	if (p->priv->reopening.abandoned)
		return ENODEV;
	if (g != NULL && g->joins > 0) {
		g->joins++;
		return 0;
	}
	if (p->priv->groups.nb == NET_GROUPS_MAX)
		return ENOSPC;
	if (g == NULL) {
		g = calloc(1, sizeof(*g));
		if (g == NULL)
			return ENOMEM;
		g->mgid = *mgid;
		g->fd = -1;
		if (p->shared) {
			g->fd = p->priv->kernel->ops->join(p->priv->kernel, mgid);
			if (g->fd < 0) {
				int e = errno;

				free(g);
				return e;
			}
		}
		LIST_INSERT_HEAD(&p->priv->groups.list, g, next);
	}
	g->joins = 1;
	p->priv->groups.nb++;
	if (!p->shared) {
		changed(p, g, now_ns);
		groups_program_nic(p);
		group_step(p, g, now_ns);
	}
	return 0;
}

int
net_group_leave(struct net_port *p, const struct gid *mgid, uint64_t now_ns)
{
	struct group *g = group_find(p, mgid);

	if (g == NULL || g->joins == 0)
		return EINVAL;
	if (--g->joins > 0)
		return 0;
	p->priv->groups.nb--;
	if (p->shared || p->priv->reopening.abandoned) {
		group_free(g);
		return 0;
	}
	changed(p, g, now_ns);
	groups_program_nic(p);
	group_step(p, g, now_ns);
	if (g->reports == 0)
		group_free(g);
	return 0;
}

void
groups_rejoin(struct net_port *p)
{
	struct group *g;

	LIST_FOREACH(g, &p->priv->groups.list, next)
	{
		if (g->fd >= 0)
			close(g->fd);
		g->fd = -1;
		if (g->joins == 0)
			continue;
		/* If it can't be joined its datagrams don't arrive, as on a network that doesn't forward them. */
		if (p->shared && p->priv->kernel != NULL)
			g->fd = p->priv->kernel->ops->join(p->priv->kernel, &g->mgid);
		else if (!p->shared)
			changed(p, g, 0); /* reported with the next groups_poll() */
	}
}
