/* SPDX-License-Identifier: BSD-3-Clause */
/* Wires between the hosts of this process, and a switch if there are more than two. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "hosts.h"

enum {
	LINK_TRIES = 500,
	LINK_WAIT_US = 10000,
	BURST = 32,
	SWITCH_MBUFS = 8191,
	SWITCH_ROOM = 4352 + RTE_PKTMBUF_HEADROOM, /* at least memif's bsize below */
	SWITCH_DESC = 1024,
};

static unsigned int nb_hosts, nb_queues;
static char ports[2 * OPTIONS_MAX_LOOPBACK][32]; /* the hosts', then the switch's */
static unsigned int nb_ports;

/* State of the switch, which has a port for each host. */
static struct rte_mempool *pool;
static uint16_t ids[OPTIONS_MAX_LOOPBACK];
static struct rte_ether_addr macs[OPTIONS_MAX_LOOPBACK];

void
wires_port(unsigned int i, char *name, size_t bytes)
{
	snprintf(name, bytes, "%s", i < nb_ports ? ports[i] : "");
}

/** Create one end of wire @p wire. The server must be created before the client. */
static int
add_end(unsigned int wire, bool server)
{
	char args[200], *name = ports[nb_ports];

	snprintf(name, sizeof(ports[0]), "net_memif%u", nb_ports);
	snprintf(args, sizeof(args), "role=%s,id=%u,bsize=4352,rsize=7,socket=uroce-test-%d-%u,socket-abstract=yes,"
		 "mac=02:00:00:00:%02x:%02x", server ? "server" : "client", wire, (int)getpid(), wire, nb_ports >= nb_hosts,
		 nb_ports % nb_hosts + 1);
	if (rte_eal_hotplug_add("vdev", name, args) != 0) {
		fputs("uroce-test: no memif port; is DPDK's memif driver installed?\n", stderr);
		return -1;
	}
	nb_ports++;
	return 0;
}

static int
open_switch_port(unsigned int i)
{
	const struct rte_eth_conf conf = { 0 };
	int rc;

	rc = rte_eth_dev_get_port_by_name(ports[nb_hosts + i], &ids[i]);
	if (rc == 0)
		rc = rte_eth_dev_configure(ids[i], (uint16_t)nb_queues, (uint16_t)nb_queues, &conf);
	for (uint16_t q = 0; rc == 0 && q < nb_queues; q++) {
		rc = rte_eth_rx_queue_setup(ids[i], q, SWITCH_DESC, (unsigned int)SOCKET_ID_ANY, NULL, pool);
		if (rc == 0)
			rc = rte_eth_tx_queue_setup(ids[i], q, SWITCH_DESC, (unsigned int)SOCKET_ID_ANY, NULL);
	}
	/* A memif client can't start without its server: the switch's ports are the clients, the hosts' ports the servers. */
	if (rc == 0)
		rc = rte_eth_dev_start(ids[i]);
	if (rc != 0)
		fprintf(stderr, "uroce-test: the switch's port %s doesn't start: %s\n", ports[nb_hosts + i], strerror(abs(rc)));
	return rc != 0 ? -1 : 0;
}

int
wires_create(unsigned int n, unsigned int queues)
{
	nb_hosts = n;
	nb_queues = queues;
	if (n == 2)
		return add_end(0, true) != 0 || add_end(0, false) != 0 ? -1 : 0;
	pool = rte_pktmbuf_pool_create("uroce_switch", SWITCH_MBUFS, 0, 0, SWITCH_ROOM, SOCKET_ID_ANY);
	if (pool == NULL) {
		fputs("uroce-test: no memory for the switch's packet buffers; give EAL more by -m MIB\n", stderr);
		return -1;
	}
	/* The hosts' ports are created first, so they are the servers. */
	for (unsigned int i = 0; i < n; i++)
		if (add_end(i, true) != 0)
			return -1;
	for (unsigned int i = 0; i < n; i++)
		if (add_end(i, false) != 0)
			return -1;
	return 0;
}

/* ---- The switch ---- */
static void
send_to(unsigned int i, uint16_t queue, struct rte_mbuf *m)
{
	if (rte_eth_tx_burst(ids[i], queue, &m, 1) == 0)
		rte_pktmbuf_free(m);
}

static void
flood(unsigned int from, uint16_t queue, struct rte_mbuf *m)
{
	for (unsigned int i = 0; i < nb_hosts; i++) {
		struct rte_mbuf *copy = i == from ? NULL : rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);

		if (copy != NULL)
			send_to(i, queue, copy);
	}
	rte_pktmbuf_free(m);
}

static void
forward(unsigned int from, uint16_t queue, struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);

	if (m->data_len < sizeof(*eth)) {
		rte_pktmbuf_free(m);
		return;
	}
	if (rte_is_unicast_ether_addr(&eth->src_addr))
		rte_ether_addr_copy(&eth->src_addr, &macs[from]);
	for (unsigned int i = 0; i < nb_hosts; i++)
		if (i != from && rte_is_same_ether_addr(&eth->dst_addr, &macs[i])) {
			send_to(i, queue, m);
			return;
		}
	flood(from, queue, m);
}

static uint32_t
switch_step(struct job *job)
{
	struct rte_mbuf *pkts[BURST];
	uint32_t work = 0;

	for (unsigned int i = 0; i < nb_hosts; i++)
		for (uint16_t q = 0; q < nb_queues; q++) {
			uint16_t n = rte_eth_rx_burst(ids[i], q, pkts, BURST);

			for (uint16_t k = 0; k < n; k++)
				forward(i, q, pkts[k]);
			work += n;
		}
	return work;
}
static struct job switch_job = { .step = switch_step };

struct job *
wires_switch(void)
{
	return pool != NULL ? &switch_job : NULL;
}

/* ---- Links ---- */
static bool
all_up(void)
{
	for (unsigned int i = 0; i < nb_ports; i++) {
		struct rte_eth_link link = { 0 };
		uint16_t id;

		if (rte_eth_dev_get_port_by_name(ports[i], &id) != 0 || rte_eth_link_get_nowait(id, &link) != 0 ||
		    link.link_status != RTE_ETH_LINK_UP)
			return false;
	}
	return true;
}

bool
wires_wait(void)
{
	for (unsigned int i = 0; pool != NULL && i < nb_hosts; i++)
		if (open_switch_port(i) != 0)
			return false;
	for (unsigned int i = 0; i < LINK_TRIES; i++) {
		if (all_up())
			return true;
		usleep(LINK_WAIT_US);
	}
	fputs("uroce-test: the links between the hosts don't come up\n", stderr);
	return false;
}

static void
alarm_went_off(void *arg)
{
	atomic_store_explicit((_Atomic bool *)arg, true, memory_order_release);
}

void
wires_settle(void)
{
	static _Atomic bool through;

	atomic_store_explicit(&through, false, memory_order_release);
	if (nb_ports > 0 && rte_eal_alarm_set(LINK_WAIT_US, alarm_went_off, &through) == 0)
		while (!atomic_load_explicit(&through, memory_order_acquire))
			usleep(LINK_WAIT_US);
}

void
wires_destroy(void)
{
	for (; nb_ports > 0; nb_ports--) {
		if (nb_ports > nb_hosts && pool != NULL)
			rte_eth_dev_stop(ids[nb_ports - 1 - nb_hosts]);
		rte_eal_hotplug_remove("vdev", ports[nb_ports - 1]);
		wires_settle();
	}
}
