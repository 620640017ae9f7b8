/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A port whose device has gone, or was not there when the daemon started: the ethdev is closed and its device removed, and when the device is there
 * again it is opened anew, as another struct net_port, of which the old one then takes everything. Both take long, so they are done on EAL's interrupt
 * thread, where alarms run and where drivers expect it.
 */
#include <net/if.h>
#include <stdlib.h>

#include <bsd/string.h>
#include <rte_alarm.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_kvargs.h>
#include <rte_log.h>

#include "net/port/port_priv.h"
#include "net/port/track.h"

/** Drivers of --vdev that make the same device again from the same arguments. */
static const char *const vdevs[] = { "net_af_packet", "net_af_xdp", "net_memif", "net_tap", "net_vhost" };

static bool
can_be_made_again(const char *name)
{
	for (unsigned int i = 0; i < RTE_DIM(vdevs); i++)
		if (strncmp(name, vdevs[i], strlen(vdevs[i])) == 0)
			return true;
	return false;
}

/** Remember what EAL was told of the device, which forgets it when the device is removed. */
static void
remember(struct port_reopening *r, const char *bus, const struct rte_devargs *d)
{
	struct rte_kvargs *kv = d->args != NULL ? rte_kvargs_parse(d->args, NULL) : NULL;
	const char *iface = kv != NULL && !vhost_has_name(d->name) ? rte_kvargs_get(kv, "iface") : NULL;

	if (strlcpy(r->name, d->name, sizeof(r->name)) < sizeof(r->name) &&
	    strlcpy(r->args, d->args != NULL ? d->args : "", sizeof(r->args)) < sizeof(r->args) &&
	    (iface == NULL || strlcpy(r->iface, iface, sizeof(r->iface)) < sizeof(r->iface)))
		strlcpy(r->bus, bus, sizeof(r->bus));
	rte_kvargs_free(kv);
}

void
reopen_begin(struct net_port *p)
{
	struct port_reopening *r = &p->priv->reopening;
	const char *ethdev = p->conf.ethdev;
	const struct rte_devargs *d;

	RTE_EAL_DEVARGS_FOREACH("vdev", d)
		if (strcmp(d->name, ethdev) == 0 && can_be_made_again(ethdev))
			remember(r, "vdev", d);
	RTE_EAL_DEVARGS_FOREACH("pci", d)
		if (strcmp(d->name, ethdev) == 0)
			remember(r, "pci", d);
	/* A PCI address that EAL was not told of: it takes all that have the right driver. */
	if (r->bus[0] == '\0' && pci_is_address(ethdev)) {
		strlcpy(r->name, ethdev, sizeof(r->name));
		strlcpy(r->bus, "pci", sizeof(r->bus));
	}
}

bool
net_port_is_gone(const struct net_port *p)
{
	/* Whoever makes a port without lib/net, as tests of engines do, has its device. */
	return p->priv != NULL && p->priv->reopening.abandoned;
}

/* ---- Closing ---- */
/** [EAL's interrupt thread] */
static void
close_now(void *arg)
{
	struct net_port *p = arg;
	struct port_reopening *r = &p->priv->reopening;

	if (!atomic_load(&p->priv->events.destroyed)) {
		if (p->priv->started)
			rte_eth_dev_stop(r->port_id);
		if (p->priv->configured)
			rte_eth_dev_close(r->port_id);
		if (r->device != NULL)
			rte_dev_remove(r->device);
	}
	p->priv->started = p->priv->configured = false;
	atomic_store(&p->priv->events.destroyed, false);
	r->closing = false;
	events_put(p, PORT_EV_CLOSED);
}

/** Nothing of the kernel's interface is left. */
static void
leave_kernel(struct net_port *p)
{
	struct net_priv *priv = p->priv;

	if (priv->pmd.xdp && priv->kernel != NULL)
		kernel_detach_xdp(p);
	kernel_close(priv->kernel);
	priv->kernel = NULL;
}

void
net_port_abandon(struct net_port *p)
{
	struct net_priv *priv = p->priv;
	struct port_reopening *r = &priv->reopening;
	struct neigh_table *neigh = priv->neigh, *none = neigh_table_create(p->shared ? &neigh_kernel_ops : &neigh_own_ops);
	struct rte_eth_dev_info info;

	atomic_store(&p->restarting, true);
	r->abandoned = true;
	gids_clear(p);
	/* Those who wait for an answer may ask again at once; they are told that there is no address. */
	if (none != NULL) {
		priv->neigh = none;
		neigh_table_destroy(neigh);
	}
	events_end(p);
	leave_kernel(p);
	r->port_id = p->port_id;
	r->device = !atomic_load(&priv->events.destroyed) && rte_eth_dev_info_get(p->port_id, &info) == 0 ? info.device : NULL;
	p->port_id = RTE_MAX_ETHPORTS;
	r->closing = true;
	if (rte_eal_alarm_set(1, close_now, p) != 0)
		close_now(p);
}

/* ---- Opening ---- */
bool
net_port_present(const struct net_port *p)
{
	const struct port_reopening *r = &p->priv->reopening;
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(p->conf.ethdev, &id) == 0)
		return true;
	if (r->iface[0] != '\0')
		return if_nametoindex(r->iface) != 0;
	if (strcmp(r->bus, "pci") == 0)
		return pci_may_be_opened("", r->name);
	return r->bus[0] != '\0';
}

/** Make the device anew: what is left of an earlier one, a socket of an interface that has gone, is of no use. */
static void
make_device(const struct net_port *p)
{
	static const char *const noisy[] = { "lib.eal", "lib.ethdev", "pmd.net.af_packet", "pmd.net.af_xdp", "pmd.net.memif", "pmd.net.vhost",
					    "lib.vhost.config", "pmd.net.virtio.init" };
	const struct port_reopening *r = &p->priv->reopening;
	uint32_t levels[RTE_DIM(noisy)];
	uint16_t id;

	if (r->bus[0] == '\0' || (strcmp(r->bus, "pci") == 0 && rte_eth_dev_get_port_by_name(p->conf.ethdev, &id) == 0))
		return;
	/* A try that fails is told by us, once. */
	for (unsigned int i = 0; i < RTE_DIM(noisy); i++) {
		uint32_t type = (uint32_t)rte_log_register(noisy[i]);

		levels[i] = (uint32_t)rte_log_get_level(type);
		rte_log_set_level(type, RTE_LOG_EMERG);
	}
	rte_eal_hotplug_remove(r->bus, r->name);
	rte_eal_hotplug_add(r->bus, r->name, r->args);
	for (unsigned int i = 0; i < RTE_DIM(noisy); i++)
		rte_log_set_level((uint32_t)rte_log_register(noisy[i]), levels[i]);
}

/** [EAL's interrupt thread] */
static void
open_now(void *arg)
{
	struct net_port *p = arg;
	struct port_events *e = &p->priv->events;

	make_device(p);
	p->priv->reopening.opened = port_open_again(p, p->priv->pool, e->err, sizeof(e->err));
	events_put(p, p->priv->reopening.opened != NULL ? PORT_EV_REOPENED : PORT_EV_REOPEN_FAILED);
}

void
net_port_reopen(struct net_port *p)
{
	if (rte_eal_alarm_set(1, open_now, p) == 0)
		return;
	snprintf(p->priv->events.err, sizeof(p->priv->events.err), "EAL sets no alarm");
	events_put(p, PORT_EV_REOPEN_FAILED);
}

/** Have what @p q has; what is left in it is freed. */
static void
take(struct net_port *p, struct net_port *q)
{
	struct net_priv *to = p->priv, *from = q->priv;
	struct neigh_table *neigh = to->neigh;

	p->port_id = q->port_id;
	p->shared = q->shared;
	p->ifindex = q->ifindex;
	p->ip_mtu = q->ip_mtu;
	p->active_mtu = q->active_mtu;
	p->max_frame = q->max_frame;
	memcpy(p->mac, q->mac, sizeof(p->mac));
	memcpy(p->netdev, q->netdev, sizeof(p->netdev));
	memcpy(p->wire, q->wire, sizeof(p->wire));
	free(p->wake);
	p->wake = q->wake;
	to->neigh = from->neigh;
	neigh_table_destroy(neigh);
	to->kernel = from->kernel;
	to->pool = from->pool;
	to->pmd = from->pmd;
	to->configured = from->configured;
	to->started = from->started;
	to->interrupts = from->interrupts;
	to->kernel_mtu = from->kernel_mtu;
	to->dev_mtu = from->dev_mtu;
	to->allmulticast = from->allmulticast;
	to->vlans = from->vlans;
	gids_take(p, q);
	deferred_free_all(&from->old_gids);
	free(q->gids);
	free(from);
	free(q);
}

void
reopen_adopt(struct net_port *p)
{
	struct net_port *q = p->priv->reopening.opened;
	uint32_t bits;

	p->priv->reopening.opened = NULL;
	events_end(q);
	/* What was reported meanwhile. */
	bits = atomic_load(&q->priv->events.bits);
	if (atomic_load(&q->priv->events.destroyed))
		atomic_store(&p->priv->events.destroyed, true);
	take(p, q);
	events_begin(p);
	p->priv->reopening.abandoned = false;
	atomic_store(&p->restarting, false);
	groups_rejoin(p);
	net_port_filter(p);
	if (bits != 0)
		events_put(p, bits);
}

void
reopen_end(struct net_port *p)
{
	struct port_reopening *r = &p->priv->reopening;

	/* Waits for one that is running. */
	rte_eal_alarm_cancel(open_now, p);
	rte_eal_alarm_cancel(close_now, p);
	if (r->closing)
		close_now(p);
	if (r->opened == NULL)
		return;
	if (r->opened->priv->pool == p->priv->pool)
		r->opened->priv->pool = NULL;
	net_port_close(r->opened);
	r->opened = NULL;
}
