/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What drivers report about a port (link, reset, removal), and starting it again. Drivers report on EAL's interrupt thread or on one of
 * their own, and a start may take long; so what is reported is noted for the control thread, which never waits, and a port is started
 * again on the interrupt thread, where alarms run.
 */
#include <unistd.h>

#include <bsd/string.h>
#include <rte_alarm.h>
#include <rte_dev.h>

#include "net/port/port_priv.h"
#include "net/port/track.h"

enum { UNREGISTER_STEP_US = 100, UNREGISTER_STEPS = 10000 };

/** What is asked for. DESTROY: the application has taken the device away without a word before. */
static const enum rte_eth_event_type types[] = {
	RTE_ETH_EVENT_INTR_LSC,       RTE_ETH_EVENT_INTR_RESET,       RTE_ETH_EVENT_INTR_RMV,        RTE_ETH_EVENT_DESTROY,
	RTE_ETH_EVENT_ERR_RECOVERING, RTE_ETH_EVENT_RECOVERY_SUCCESS, RTE_ETH_EVENT_RECOVERY_FAILED,
};

void
events_put(struct net_port *p, uint32_t events)
{
	struct port_events *e = &p->priv->events;
	const uint64_t one = 1;
	ssize_t n = 0;

	atomic_fetch_or_explicit(&e->bits, events, memory_order_release);
	rte_spinlock_lock(&e->lock);
	if (e->wake_fd >= 0)
		n = write(e->wake_fd, &one, sizeof(one));
	rte_spinlock_unlock(&e->lock);
	RTE_SET_USED(n); /* if the eventfd is full, the thread is awake already */
}

static int
on_event(uint16_t port_id, enum rte_eth_event_type type, void *arg, void *ret)
{
	struct net_port *p = arg;
	struct rte_eth_link link;

	switch (type) {
	case RTE_ETH_EVENT_INTR_LSC:
		if (rte_eth_link_get_nowait(port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_DOWN)
			events_put(p, PORT_EV_LINK | PORT_EV_WENT_DOWN);
		else
			events_put(p, PORT_EV_LINK);
		break;
	case RTE_ETH_EVENT_INTR_RESET:
		events_put(p, PORT_EV_RESET);
		break;
	case RTE_ETH_EVENT_ERR_RECOVERING:
		events_put(p, PORT_EV_RECOVERING);
		break;
	case RTE_ETH_EVENT_RECOVERY_SUCCESS:
		events_put(p, PORT_EV_RECOVERED);
		break;
	case RTE_ETH_EVENT_DESTROY:
		atomic_store(&p->priv->events.destroyed, true);
		events_put(p, PORT_EV_REMOVED);
		break;
	default: /* RMV, RECOVERY_FAILED */
		events_put(p, PORT_EV_REMOVED);
		break;
	}
	return 0;
}

/**
 * What buses report: vfio-pci asks for the device, which the kernel removes only when nobody has it open. Few drivers of NICs report a removal themselves.
 */
static void
on_device(const char *name, enum rte_dev_event_type type, void *arg)
{
	if (type == RTE_DEV_EVENT_REMOVE)
		events_put(arg, PORT_EV_REMOVED);
}

/** Call on_device() for the ethdev's device. */
static void
follow_device(struct net_port *p)
{
	struct port_events *e = &p->priv->events;
	struct rte_eth_dev_info info;

	e->device[0] = '\0';
	if (rte_eth_dev_info_get(p->port_id, &info) == 0 && rte_dev_event_callback_register(rte_dev_name(info.device), on_device, p) == 0)
		strlcpy(e->device, rte_dev_name(info.device), sizeof(e->device));
}

void
events_init(struct net_port *p)
{
	rte_spinlock_init(&p->priv->events.lock);
	p->priv->events.wake_fd = -1;
}

void
events_begin(struct net_port *p)
{
	for (unsigned int i = 0; i < RTE_DIM(types); i++)
		rte_eth_dev_callback_register(p->port_id, types[i], on_event, p);
	follow_device(p);
	p->priv->events.registered = true;
}

static void restart_now(void *arg);

void
events_end(struct net_port *p)
{
	/* Waits for one that is running. */
	rte_eal_alarm_cancel(restart_now, p);
	if (!p->priv->events.registered)
		return;
	for (unsigned int i = 0; i < RTE_DIM(types); i++)
		for (unsigned int k = 0; k < UNREGISTER_STEPS; k++) {
			if (rte_eth_dev_callback_unregister(p->port_id, types[i], on_event, p) != -EAGAIN)
				break;
			usleep(UNREGISTER_STEP_US); /* it is running */
		}
	for (unsigned int k = 0; k < UNREGISTER_STEPS && p->priv->events.device[0] != '\0'; k++) {
		if (rte_dev_event_callback_unregister(p->priv->events.device, on_device, p) != -EAGAIN)
			break;
		usleep(UNREGISTER_STEP_US);
	}
	p->priv->events.registered = false;
}

void
net_port_notify(struct net_port *p, int fd)
{
	struct port_events *e = &p->priv->events;

	rte_spinlock_lock(&e->lock);
	e->wake_fd = fd;
	rte_spinlock_unlock(&e->lock);
}

uint32_t
net_port_events(struct net_port *p)
{
	struct port_events *e = &p->priv->events;
	uint32_t events = 0;

	if (atomic_load_explicit(&e->bits, memory_order_relaxed) != 0)
		events = atomic_exchange_explicit(&e->bits, 0, memory_order_acquire);
	if (events & PORT_EV_REOPENED)
		reopen_adopt(p);
	if (events & (PORT_EV_RESTARTED | PORT_EV_RESTART_FAILED))
		atomic_store_explicit(&p->restarting, false, memory_order_relaxed);
	if (events & PORT_EV_RESTARTED) {
		/* A device that was reset has forgotten them. */
		p->priv->allmulticast = false;
		p->priv->vlans.nb = 0;
		net_port_filter(p);
		wake_again(p);
	}
	return events;
}

static void
restart_now(void *arg)
{
	struct net_port *p = arg;
	struct port_events *e = &p->priv->events;

	events_put(p, queues_restart(p, e->reset, e->err, sizeof(e->err)) == 0 ? PORT_EV_RESTARTED : PORT_EV_RESTART_FAILED);
}

void
net_port_restart(struct net_port *p, bool reset)
{
	struct port_events *e = &p->priv->events;

	e->reset = reset;
	atomic_store_explicit(&p->restarting, true, memory_order_relaxed);
	if (rte_eal_alarm_set(1, restart_now, p) == 0)
		return;
	snprintf(e->err, sizeof(e->err), "EAL sets no alarm");
	events_put(p, PORT_EV_RESTART_FAILED);
}

const char *
net_port_restart_error(const struct net_port *p)
{
	return p->priv->events.err;
}

int
net_port_link_fd(const struct net_port *p)
{
	return p->priv->kernel != NULL ? p->priv->kernel->links : -1;
}

static void
on_neigh(void *arg, const struct gid *gid, const uint8_t mac[6])
{
	struct net_port *p = arg;

	hops_mac(&p->priv->neigh->hops, gid, 0, mac);
}

void
net_port_link_read(struct net_port *p)
{
	static const uint32_t events[] = {
		[KERNEL_LINK_SAME] = 0,
		[KERNEL_LINK_CHANGED] = PORT_EV_LINK,
		[KERNEL_LINK_WENT_DOWN] = PORT_EV_LINK | PORT_EV_WENT_DOWN,
		[KERNEL_LINK_REMOVED] = PORT_EV_REMOVED,
	};
	struct kernel_report r = links_read(p->priv->kernel->links, p->ifindex, on_neigh, p);
	uint32_t bits = events[r.event] | (r.addrs ? PORT_EV_ADDRS : 0);

	p->priv->neigh->hops.lost |= r.lost;
	/*
	 * The kernel says at once that an interface is up, but counts its link as up only when it looks at carriers, at most once a second. A QP
	 * that has nothing but a retransmission to send can't wait for that: the interface may go down again before.
	 */
	if ((events[r.event] & PORT_EV_LINK) && !p->priv->pmd.xdp)
		wake_sending(p);
	if (bits != 0)
		events_put(p, bits);
}

bool
net_port_needs_peer(const struct net_port *p)
{
	return p->priv->pmd.needs_peer;
}
