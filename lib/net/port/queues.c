/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The queues of a port: set up, started, started again, stopped. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "net/port/port_priv.h"

enum {
	PORT_DEFAULT_DESC = 1024,
	PORT_POOL_CACHE = 256,
	PORT_POOL_SPARE = 1024, /* per queue, held by the engine */
	PORT_START_TRIES = 10, /* for a PMD that needs its peer */
	PORT_START_INTERVAL_US = 500000,
	DISCARD_BURST = 32,
	PORT_STOP_STEP_US = 100,
	PORT_STOP_STEPS = 100000, /* 10 s */
};

uint32_t
pool_room(const struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size((struct rte_mempool *)(uintptr_t)pool) - RTE_PKTMBUF_HEADROOM;
}

static void
choose_desc(struct opening *o)
{
	const struct net_port_config *c = &o->p->conf;

	o->rx_desc = o->info.default_rxportconf.ring_size != 0 ? o->info.default_rxportconf.ring_size
							       : PORT_DEFAULT_DESC;
	o->tx_desc = o->info.default_txportconf.ring_size != 0 ? o->info.default_txportconf.ring_size
							       : PORT_DEFAULT_DESC;
	if (c->rx_desc != 0)
		o->rx_desc = c->rx_desc;
	if (c->tx_desc != 0)
		o->tx_desc = c->tx_desc;
	if (o->p->priv->pmd.xdp) /* rings of XDP sockets are powers of two; the PMD gives the RX size to both */
		o->rx_desc = (uint16_t)RTE_MIN(rte_align32pow2(o->rx_desc), 1u << 15);
}

/** @return the caller's pool if it suits the PMD, else one created for the port. */
static struct rte_mempool *
rx_pool(struct opening *o)
{
	struct net_port *p = o->p;
	struct net_priv *priv = p->priv;
	char name[RTE_MEMPOOL_NAMESIZE], why[256];
	int socket = rte_eth_dev_socket_id(p->port_id);
	unsigned int nb = p->nb_queues * (uint32_t)(o->rx_desc + PORT_POOL_SPARE);

	if (!priv->pmd.xdp && pool_room(o->pool) >= priv->pmd.pool_room)
		return o->pool;
	if (priv->pool != NULL) /* the port starts again */
		return priv->pool;
	snprintf(name, sizeof(name), "net_rx_%u", p->port_id);
	if (priv->pmd.xdp) {
		priv->pool = pmd_xdp_pool_create(name, p->nb_queues, o->rx_desc, socket, why, sizeof(why));
		if (priv->pool == NULL)
			opening_fail(o, "%s", why);
		return priv->pool;
	}
	priv->pool = rte_pktmbuf_pool_create(name, nb, PORT_POOL_CACHE, 0,
					     (uint16_t)(priv->pmd.pool_room + RTE_PKTMBUF_HEADROOM), socket);
	if (priv->pool == NULL)
		opening_fail(o, "RX pool of %u buffers of %u bytes for %s: %s", nb, priv->pmd.pool_room, p->conf.ethdev,
		     rte_strerror(rte_errno));
	return priv->pool;
}

/** @param interrupts  Ask for RX interrupts, if the ethdev has them. */
static int
configure_queues(struct opening *o, bool interrupts)
{
	struct net_port *p = o->p;
	struct rte_eth_conf conf = { 0 };
	struct rte_mempool *pool;
	int rc;

	/* Spread by UDP source port, which RoCE v2 derives from the flow label for this purpose (A17.9.4). */
	if (p->nb_queues > 1 && !p->priv->pmd.spreads_unasked && (o->info.flow_type_rss_offloads & RTE_ETH_RSS_UDP) != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = o->info.flow_type_rss_offloads & (RTE_ETH_RSS_UDP | RTE_ETH_RSS_IP);
	}
	/* No more than RoCE v2 can use: drivers want buffers for all of it, and some for headers of their own. */
	if (!p->priv->pmd.carries_mtu)
		conf.rxmode.mtu = RTE_MIN(o->ip_mtu, (uint32_t)NET_MAX_ROCE_IP_MTU);
	if (p->priv->pmd.filters_vlans)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
	conf.intr_conf.rxq = interrupts;
	conf.intr_conf.lsc = !p->priv->pmd.looks_at_link && (*o->info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
	conf.intr_conf.rmv = (*o->info.dev_flags & RTE_ETH_DEV_INTR_RMV) != 0;
	rc = rte_eth_dev_configure(p->port_id, p->nb_queues, p->nb_queues, &conf);
	if (rc != 0 && interrupts)
		return configure_queues(o, false);
	p->priv->interrupts = interrupts;
	if (rc != 0)
		return opening_fail(o, "ethdev %s does not take %u queues with MTU %u: %s", p->conf.ethdev, p->nb_queues,
			    o->ip_mtu, rte_strerror(-rc));
	p->priv->configured = true;
	choose_desc(o);
	rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->port_id, &o->rx_desc, &o->tx_desc);
	if (rc != 0)
		return opening_fail(o, "ethdev %s does not take %u RX and %u TX descriptors: %s", p->conf.ethdev, o->rx_desc,
			    o->tx_desc, rte_strerror(-rc));
	pool = rx_pool(o);
	if (pool == NULL)
		return -1;
	for (uint16_t q = 0; q < p->nb_queues; q++) {
		rc = rte_eth_rx_queue_setup(p->port_id, q, o->rx_desc, rte_eth_dev_socket_id(p->port_id), NULL, pool);
		if (rc != 0)
			return opening_fail(o, "RX queue %u of %s with %u descriptors: %s; EAL's log says more", q,
				    p->conf.ethdev, o->rx_desc, rte_strerror(-rc));
		rc = rte_eth_tx_queue_setup(p->port_id, q, o->tx_desc, rte_eth_dev_socket_id(p->port_id), NULL);
		if (rc != 0)
			return opening_fail(o, "TX queue %u of %s with %u descriptors: %s; EAL's log says more", q,
				    p->conf.ethdev, o->tx_desc, rte_strerror(-rc));
	}
	return 0;
}

/** Throw away what has been received so far. */
static void
discard(const struct net_port *p)
{
	struct rte_mbuf *pkts[DISCARD_BURST];
	uint16_t n;

	for (uint16_t q = 0; q < p->nb_queues; q++)
		while ((n = rte_eth_rx_burst(p->port_id, q, pkts, DISCARD_BURST)) > 0)
			rte_pktmbuf_free_bulk(pkts, n);
}

static int
start(struct opening *o, unsigned int tries)
{
	struct net_port *p = o->p;
	bool packets = p->shared && !p->priv->pmd.xdp;
	int rc;

	if (packets && kernel_mute_packet_sockets(p->ifindex) == 0)
		return opening_fail(o, "no packet socket on %s takes a filter; is /proc mounted?", p->netdev);
	rc = rte_eth_dev_start(p->port_id);
	for (unsigned int i = 1; rc != 0 && p->priv->pmd.needs_peer && i < tries; i++) {
		usleep(PORT_START_INTERVAL_US);
		rc = rte_eth_dev_start(p->port_id);
	}
	if (rc != 0 && p->priv->pmd.needs_peer)
		return opening_fail(o,
			    "ethdev %s has role=client and finds no server at its socket: start the other side first",
			    p->conf.ethdev);
	if (rc != 0)
		return opening_fail(o, "ethdev %s does not start: %s; EAL's log says more", p->conf.ethdev, rte_strerror(-rc));
	p->priv->started = true;
	if (packets) {
		/* What came before there was a filter isn't for us, or is as old as a standby. */
		discard(p);
		if (kernel_filter_packet_sockets(p->ifindex) == 0)
			return opening_fail(o, "no packet socket on %s takes the filter for UDP port %u", p->netdev, WIRE_UDP_PORT);
	}
	return 0;
}

/** Configure and start, with RX interrupts if @p interrupts and the device has them. */
static int
configure_and_start(struct opening *o, bool interrupts)
{
	const struct net_priv *priv = o->p->priv;
	int rc;

	/*
	 * First without interrupts: net_virtio registers its handler when it is configured with them and takes it back only when it is
	 * stopped after a start. If a queue can't be set up, the port is closed without, and EAL panics over the closed descriptor.
	 */
	if (configure_queues(o, false) != 0 || (interrupts && configure_queues(o, true) != 0))
		return -1;
	rc = start(o, o->again ? 1 : PORT_START_TRIES);
	/* Some NICs find out only now that they have no interrupts left for their queues. */
	if (rc != 0 && priv->interrupts && !priv->pmd.needs_peer)
		rc = configure_queues(o, false) != 0 ? -1 : start(o, o->again ? 1 : PORT_START_TRIES);
	return rc;
}

int
queues_start(struct opening *o)
{
	return configure_and_start(o, o->p->priv->pmd.interrupts);
}

/** memif: a client whose server is away says so in each try; once, by us, is enough. */
static int
start_quietly(struct opening *o)
{
	int type = rte_log_register("pmd.net.memif"), level = rte_log_get_level((uint32_t)type), rc;

	rte_log_set_level((uint32_t)type, RTE_LOG_EMERG);
	rc = start(o, 1);
	rte_log_set_level((uint32_t)type, (uint32_t)level);
	return rc;
}

int
queues_restart(struct net_port *p, bool reset, char *err, size_t err_bytes)
{
	struct net_priv *priv = p->priv;
	struct opening o = { .p = p, .pool = priv->open_pool, .ip_mtu = p->ip_mtu, .err = err, .err_bytes = err_bytes };
	int rc;

	if (priv->started)
		rte_eth_dev_stop(p->port_id);
	priv->started = false;
	/* Its queues stay; what it must do again is to connect. */
	if (priv->pmd.peer_messages)
		return start_quietly(&o);
	rc = reset ? rte_eth_dev_reset(p->port_id) : 0;
	if (rc != 0 && rc != -ENOTSUP)
		return opening_fail(&o, "ethdev %s can't be reset: %s", p->conf.ethdev, rte_strerror(-rc));
	rc = rte_eth_dev_info_get(p->port_id, &o.info);
	if (rc != 0)
		return opening_fail(&o, "ethdev %s: %s", p->conf.ethdev, rte_strerror(-rc));
	return configure_and_start(&o, priv->interrupts);
}

/* ---- The end ---- */
struct port_stop {
	struct net_port *p;
	_Atomic bool done;
};

static void
stop_and_close(struct net_port *p)
{
	if (atomic_load(&p->priv->events.destroyed))
		return;
	if (p->priv->started)
		rte_eth_dev_stop(p->port_id);
	if (p->priv->configured)
		rte_eth_dev_close(p->port_id);
}

static void
stop_on_interrupts(void *arg)
{
	struct port_stop *s = arg;

	stop_and_close(s->p);
	atomic_store_explicit(&s->done, true, memory_order_release);
}

/**
 * net_memif handles its peer's messages on EAL's interrupt thread and takes no lock: there it
 * must be closed as well, else a peer that just connects or leaves makes both threads free the same channel. Alarms run on
 * that thread.
 */
bool
queues_close(struct net_port *p)
{
	struct port_stop *s;
	bool done = false;

	if (!p->priv->pmd.peer_messages || !p->priv->configured) {
		stop_and_close(p);
		return true;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return false;
	s->p = p;
	if (rte_eal_alarm_set(1, stop_on_interrupts, s) != 0) {
		free(s);
		return false;
	}
	for (unsigned int step = 0; step < PORT_STOP_STEPS && !done; step++) {
		usleep(PORT_STOP_STEP_US);
		done = atomic_load_explicit(&s->done, memory_order_acquire);
	}
	if (done) /* else the alarm may still go off */
		free(s);
	return done;
}
