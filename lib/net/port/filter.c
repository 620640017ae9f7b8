/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a NIC lets through: multicast groups (group/group.c), and VLANs where it filters them. */
#include "net/port/port_priv.h"

static bool
has(const struct nic_vlans *v, uint16_t vlan)
{
	for (unsigned int i = 0; i < v->nb; i++)
		if (v->id[i] == vlan)
			return true;
	return false;
}

/** The VLANs of the port's addresses. 0 is among them if one is untagged: the NIC asks for it where a tag has a priority only. */
static struct nic_vlans
wanted(const struct net_port *p)
{
	struct nic_vlans v = { .nb = 0 };

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = net_addr(p, i);

		if (a != NULL && !has(&v, a->vlan))
			v.id[v.nb++] = a->vlan;
	}
	return v;
}

/** @return 0, or -1: the NIC doesn't take them. */
static int
program_vlans(struct net_port *p)
{
	struct nic_vlans *told = &p->priv->vlans, now = wanted(p);

	if (!p->priv->pmd.filters_vlans || p->restarting || !p->priv->started)
		return 0;
	for (unsigned int i = 0; i < told->nb; i++)
		if (!has(&now, told->id[i]))
			rte_eth_dev_vlan_filter(p->port_id, told->id[i], 0);
	for (unsigned int i = 0; i < now.nb; i++)
		if (!has(told, now.id[i]) && rte_eth_dev_vlan_filter(p->port_id, now.id[i], 1) != 0)
			return -1;
	*told = now;
	return 0;
}

void
net_port_filter(struct net_port *p)
{
	/* A PMD that supports none of these (memif, ring) has no filter that could drop anything. */
	if (!p->shared && (groups_program_nic(p) != 0 || program_vlans(p) != 0))
		rte_eth_promiscuous_enable(p->port_id);
}
