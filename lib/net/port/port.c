/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Opening and closing a port: from the name of an ethdev to running queues. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_common.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "net/port/port_priv.h"

enum { PORT_NAMES_BYTES = 512 };

int
opening_fail(struct opening *o, const char *format, ...)
{
	va_list ap;
	int n = snprintf(o->err, o->err_bytes, "port %s: ", o->p->conf.name);

	if (n < 0 || (size_t)n >= o->err_bytes)
		return -1;
	va_start(ap, format);
	vsnprintf(o->err + n, o->err_bytes - (size_t)n, format, ap);
	va_end(ap);
	return -1;
}

/* ---- The ethdev ---- */
static const char *
available_names(char *text, size_t bytes)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	size_t n = 0;
	uint16_t id;
	int rc;

	text[0] = '\0';
	RTE_ETH_FOREACH_DEV(id)
	{
		if (rte_eth_dev_get_name_by_port(id, name) != 0)
			continue;
		rc = snprintf(text + n, bytes - n, "%s%s", n != 0 ? ", " : "", name);
		if (rc < 0 || (size_t)rc >= bytes - n)
			break;
		n += (size_t)rc;
	}
	return text;
}

static int
find_ethdev(struct opening *o)
{
	struct net_port *p = o->p;
	char names[PORT_NAMES_BYTES];
	const char *devargs = NULL;
	char why[512];
	int rc;

	if (rte_eth_dev_get_port_by_name(p->conf.ethdev, &p->port_id) != 0) {
		if (pmd_vdev_missing(p->conf.ethdev, why, sizeof(why))[0] != '\0' ||
		    pci_missing("", p->conf.ethdev, why, sizeof(why))[0] != '\0')
			return opening_fail(o, "%s", why);
		if (available_names(names, sizeof(names))[0] == '\0')
			return opening_fail(o,
				    "there is no ethdev %s, and no other: give EAL a NIC (-a PCI-ADDRESS) or a virtual "
				    "device (--vdev)",
				    p->conf.ethdev);
		return opening_fail(o, "there is no ethdev %s; there are: %s", p->conf.ethdev, names);
	}
	rc = rte_eth_dev_info_get(p->port_id, &o->info);
	if (rc != 0)
		return opening_fail(o, "ethdev %s: %s", p->conf.ethdev, rte_strerror(-rc));
	if (rte_dev_devargs(o->info.device) != NULL)
		devargs = rte_dev_devargs(o->info.device)->args;
	if (pmd_profile_get(&o->info, devargs, &p->priv->pmd, why, sizeof(why)) != 0)
		return opening_fail(o, "ethdev %s: %s", p->conf.ethdev, why);
	p->shared = p->priv->pmd.shared;
	memcpy(p->netdev, p->priv->pmd.netdev, sizeof(p->netdev));
	memcpy(p->wire, p->priv->pmd.wire, sizeof(p->wire));
	return 0;
}

static int
check_queues(struct opening *o)
{
	const struct pmd_profile *pmd = &o->p->priv->pmd;
	uint16_t max = RTE_MIN(o->info.max_rx_queues, o->info.max_tx_queues);
	uint16_t want = o->p->nb_queues;

	if (want <= max)
		return 0;
	if (pmd->queue_devarg != NULL)
		return opening_fail(o,
			    "%s has %u queues, but there are %u engines, which need one each: add %s=%u to its "
			    "devargs, or use fewer engines",
			    o->p->conf.ethdev, max, want, pmd->queue_devarg, want);
	return opening_fail(o, "%s has %u queues, but there are %u engines, which need one each: use at most %u engines",
		    o->p->conf.ethdev, max, want, max);
}

static int
open_shared(struct opening *o)
{
	struct net_port *p = o->p;
	char why[256];

	if (p->conf.vlan_id != 0)
		return opening_fail(o,
			    "a port that shares %s with the kernel can't have vlan %u: make a VLAN interface (ip link "
			    "add link %s name %s.%u "
			    "type vlan id %u) and give that to %s",
			    p->netdev, p->conf.vlan_id, p->netdev, p->netdev, p->conf.vlan_id, p->conf.vlan_id,
			    p->conf.ethdev);
	p->priv->kernel = kernel_open(p, &p->priv->kernel_mtu, why, sizeof(why));
	if (p->priv->kernel == NULL)
		return opening_fail(o, "%s", why);
	if (p->priv->pmd.xdp)
		kernel_detach_xdp(p); /* UDP port 4791 was free, so the daemon that attached it is gone */
	return 0;
}

static int
open_all(struct opening *o)
{
	struct net_port *p = o->p;
	struct rte_ether_addr mac;
	struct wake_seen seen;
	int rc;

	if (p->conf.vlan_id > NET_VLAN_MAX)
		return opening_fail(o, "vlan is %u; it must be 1 to %u, or 0 for none", p->conf.vlan_id, NET_VLAN_MAX);
	if (find_ethdev(o) != 0 || check_queues(o) != 0)
		return -1;
	if (p->shared) {
		if (open_shared(o) != 0)
			return -1;
	} else {
		rc = rte_eth_macaddr_get(p->port_id, &mac);
		if (rc != 0)
			return opening_fail(o, "MAC address of %s: %s", p->conf.ethdev, rte_strerror(-rc));
		memcpy(p->mac, mac.addr_bytes, sizeof(p->mac));
	}
	p->priv->neigh = neigh_table_create(p->shared ? &neigh_kernel_ops : &neigh_own_ops);
	if (p->priv->neigh == NULL)
		return opening_fail(o, "out of memory");
	if (gids_open(o) != 0)
		return -1;
	if (rte_eth_dev_get_mtu(p->port_id, &p->priv->dev_mtu) != 0)
		p->priv->dev_mtu = 0;
	if (mtu_choose(o, p->conf.mtu) != 0)
		return -1;
	mtu_use(p, o->ip_mtu);
	wake_begin(p, &seen);
	if (queues_start(o) != 0)
		return -1;
	net_port_filter(p);
	if (wake_find(p, &seen) != 0)
		return opening_fail(o, "out of memory");
	events_begin(p);
	return 0;
}

/** @return a port without a device, NULL: no memory. */
static struct net_port *
new_port(const struct net_port_config *conf, uint16_t index, uint16_t nb_queues, const struct shared *sh)
{
	struct net_port *p = calloc(1, sizeof(*p));

	if (p == NULL || (p->priv = calloc(1, sizeof(*p->priv))) == NULL) {
		free(p);
		return NULL;
	}
	p->priv->open_pool = sh->pool;
	p->priv->old_gids = (struct deferred_list){ .qsbr = sh->qsbr, .free = net_gids_free };
	p->conf = *conf;
	p->index = index;
	p->nb_queues = nb_queues;
	if (p->conf.pkeys[0] == 0)
		p->conf.pkeys[0] = WIRE_PKEY_DEFAULT;
	events_init(p);
	reopen_begin(p);
	return p;
}

static struct net_port *
no_memory(const struct net_port_config *conf, char *err, size_t err_bytes)
{
	snprintf(err, err_bytes, "port %s: out of memory", conf->name);
	return NULL;
}

struct net_port *
net_port_open(const struct net_port_config *conf, uint16_t index, uint16_t nb_queues, const struct shared *sh,
	      char *err, size_t err_bytes)
{
	struct net_port *p = new_port(conf, index, nb_queues, sh);
	struct opening o = { .p = p, .pool = sh->pool, .err = err, .err_bytes = err_bytes };

	if (p == NULL)
		return no_memory(conf, err, err_bytes);
	if (open_all(&o) != 0) {
		net_port_close(p);
		return NULL;
	}
	return p;
}

struct net_port *
net_port_absent(const struct net_port_config *conf, uint16_t index, uint16_t nb_queues, const struct shared *sh)
{
	struct net_port *p = new_port(conf, index, nb_queues, sh);

	if (p == NULL)
		return NULL;
	p->port_id = RTE_MAX_ETHPORTS;
	p->active_mtu = UROCE_MTU_1024;
	p->priv->reopening.abandoned = true;
	atomic_store(&p->restarting, true);
	p->priv->neigh = neigh_table_create(&neigh_own_ops);
	gids_clear(p);
	if (p->priv->neigh != NULL && p->gids != NULL)
		return p;
	net_port_close(p);
	return NULL;
}

struct net_port *
port_open_again(const struct net_port *p, struct rte_mempool *pool, char *err, size_t err_bytes)
{
	const struct shared sh = { .pool = p->priv->open_pool, .qsbr = p->priv->old_gids.qsbr };
	struct net_port *q = new_port(&p->conf, p->index, p->nb_queues, &sh);
	struct opening o = { .p = q, .pool = sh.pool, .again = true, .err = err, .err_bytes = err_bytes };

	if (q == NULL)
		return no_memory(&p->conf, err, err_bytes);
	/* Engines may still hold buffers of it. */
	q->priv->pool = pool;
	if (open_all(&o) == 0)
		return q;
	if (pool != NULL)
		q->priv->pool = NULL;
	net_port_close(q);
	return NULL;
}

void
net_port_close(struct net_port *p)
{
	struct net_priv *priv;

	if (p == NULL)
		return;
	priv = p->priv;
	reopen_end(p);
	events_end(p);
	kernel_release(priv->kernel);
	if (!queues_close(p))
		return; /* what it may go on using is never freed */
	neigh_table_destroy(priv->neigh);
	groups_clear(p);
	if (priv->pmd.xdp && priv->kernel != NULL)
		kernel_detach_xdp(p);
	kernel_close(priv->kernel);
	rte_mempool_free(priv->pool);
	deferred_free_all(&priv->old_gids);
	free(p->gids);
	free(p->wake);
	free(priv);
	free(p);
}

void
net_port_leave(struct net_port *p)
{
	/* Of net_memif the next process needs nothing but the name of its socket, which it removes itself. */
	if (!p->priv->pmd.peer_messages)
		net_port_close(p);
}

bool
net_port_link(const struct net_port *p, uint32_t *speed_mbps)
{
	struct rte_eth_link link = { 0 };
	bool up = !p->restarting && rte_eth_link_get_nowait(p->port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;

	if (speed_mbps != NULL)
		*speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return up && (!p->shared || kernel_link(p));
}

void
net_port_came_up(const struct net_port *p)
{
	if (p->shared && !p->priv->pmd.xdp)
		wake_sending(p);
}

void
net_port_populate(const struct net_port *p)
{
	pmd_populate(&p->priv->pmd);
}

uint32_t
net_port_xdp_ifindex(const struct net_port *p)
{
	return p->priv->pmd.xdp ? p->ifindex : 0;
}
