/* SPDX-License-Identifier: BSD-3-Clause */
/* show port, gid, neigh, config. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_ethdev.h>

#include "args.h"
#include "control/observe/inspect.h"
#include "format.h"
#include "hosts.h"
#include "uroce/stack.h"

enum { NEIGHS_MAX = NET_NEIGH_MAX };

static void
format_mac(struct format *f, const char *name, const uint8_t mac[6])
{
	format_text(f, name, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

/* ---- Ports ---- */
static void
add_counters(struct format *f, const struct host *h)
{
	struct net_counters sum;
	struct rte_eth_stats s;

	inspect_net_counters(h->stack->control, h->port, &sum);
#define NET_X(name) format_number(f, #name, sum.name);
	NET_COUNTERS(NET_X)
#undef NET_X
	if (rte_eth_stats_get(h->stack->ports[h->port]->port_id, &s) != 0)
		return;
	format_number(f, "ipackets", s.ipackets);
	format_number(f, "opackets", s.opackets);
	format_number(f, "ibytes", s.ibytes);
	format_number(f, "obytes", s.obytes);
	format_number(f, "imissed", s.imissed);
	format_number(f, "ierrors", s.ierrors);
	format_number(f, "oerrors", s.oerrors);
}

static void
add_port(const struct call *c, struct format *f, const struct host *h)
{
	const struct net_port *p = h->stack->ports[h->port];
	unsigned int i = host_sgid_index(h, false);
	char text[GID_TEXT_BYTES];
	uint32_t mbps = 0;
	bool up = net_port_link(p, &mbps);

	format_host_row(f, h);
	format_text(f, "device", "%s", p->conf.name);
	format_text(f, "ethdev", "%s", p->conf.ethdev);
	format_text(f, "link", "%s", up ? "up" : "down");
	if (mbps != 0 && mbps != RTE_ETH_SPEED_NUM_UNKNOWN)
		format_number(f, "mbps", mbps);
	format_mac(f, "mac", p->mac);
	format_text(f, "address", "%s", gid_text(host_gid(h, i), text));
	format_number(f, "mtu", 128u << p->active_mtu);
	format_text(f, "cc", "%s", tp_cc_name((enum tp_cc)h->stack->conf.ports[h->port].cc));
	format_number(f, "engines", p->nb_queues);
	format_number(f, "lcore", worker_lcore(h->worker));
	format_bool(f, "impaired", h->stack->impairs[h->port] != NULL);
	if (call_has(c, "host"))
		add_counters(f, h);
}

static int
show_port(struct call *c)
{
	return call_show_hosts(c, add_port, call_has(c, "host") ? FORMAT_LIST : FORMAT_TABLE, "no host");
}

/* ---- Addresses ---- */
static void
add_gids(const struct call *c, struct format *f, const struct host *h)
{
	char text[GID_TEXT_BYTES];

	for (unsigned int k = 0; k < UROCE_MAX_GIDS; k++) {
		const struct net_addr *a = net_addr(h->stack->ports[h->port], k);

		if (a == NULL)
			continue;
		format_host_row(f, h);
		format_number(f, "index", k);
		format_text(f, "gid", "%s", gid_text(host_gid(h, k), text));
		format_text(f, "type", "RoCE v2");
		if (a->vlan != 0)
			format_number(f, "vlan", a->vlan);
	}
}

static int
show_gid(struct call *c)
{
	return call_show_hosts(c, add_gids, FORMAT_TABLE, "no addresses");
}

/* ---- Neighbours ---- */
/** @return the time of the clock that lib/control uses, in ns. */
static uint64_t
monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void
add_neighs(const struct call *c, struct format *f, const struct host *h)
{
	static struct net_neigh neighs[NEIGHS_MAX];
	uint64_t now = monotonic_ns();
	char text[GID_TEXT_BYTES];
	unsigned int n;

	control_lock(h->stack->control);
	n = net_neigh_list(h->stack->ports[h->port], neighs, NEIGHS_MAX);
	control_unlock(h->stack->control);
	for (unsigned int i = 0; i < n && i < NEIGHS_MAX; i++) {
		const struct net_neigh *e = &neighs[i];

		format_host_row(f, h);
		format_text(f, "neighbour", "%s", gid_text(&e->hop, text));
		if (e->vlan != 0)
			format_number(f, "vlan", e->vlan);
		format_mac(f, "mac", e->mac);
		format_text(f, "state", "%s", e->state);
		if (e->confirmed_ns != 0 && e->confirmed_ns <= now)
			format_number(f, "age_ms", (now - e->confirmed_ns) / 1000000);
		format_number(f, "waiters", e->waiters);
	}
}

static int
show_neigh(struct call *c)
{
	return call_show_hosts(c, add_neighs, FORMAT_TABLE, "no neighbour has been looked for yet");
}

/* ---- Configuration ---- */
static void
add_config(const struct call *c, struct format *f, const struct host *h)
{
	const struct uroced_config *u = &h->stack->conf;
	const struct config_port *p = &u->ports[h->port];
	char addresses[1024] = "", vlan[8], gid[GID_TEXT_BYTES], impair[IMPAIR_TEXT_BYTES];

	for (unsigned int i = 0; i < p->net.nb_addrs; i++) {
		const struct net_addr *a = &p->net.addrs[i];

		snprintf(vlan, sizeof(vlan), "@%u", a->vlan);
		snprintf(addresses + strlen(addresses), sizeof(addresses) - strlen(addresses), "%s%s/%u%s",
			 i > 0 ? " " : "", gid_text(&a->gid, gid), a->prefix, a->vlan != NET_VLAN_OF_PORT ? vlan : "");
	}
	format_host_row(f, h);
	format_text(f, "file", "%s", h->stack->config_file != NULL ? h->stack->config_file : "(none)");
	format_text(f, "idle", "%s", u->idle == ENGINE_IDLE_POLL ? "poll" : "adaptive");
	format_number(f, "mbufs", u->mbufs);
	format_number(f, "max_pd", u->max_pd);
	format_number(f, "max_mr", u->max_mr);
	format_number(f, "max_cq", u->max_cq);
	format_number(f, "max_srq", u->max_srq);
	format_number(f, "max_qp", u->max_qp);
	format_number(f, "max_ah", u->max_ah);
	format_number(f, "session_max_rings", u->session_max_rings);
	format_text(f, "port", "%s", p->net.name);
	format_text(f, "ethdev", "%s", p->net.ethdev);
	format_text(f, "addresses", "%s", addresses);
	format_number(f, "vlan", p->net.vlan_id);
	format_number(f, "mtu", p->net.mtu);
	format_text(f, "cc", "%s", tp_cc_name((enum tp_cc)p->cc));
	format_text(f, "impair", "%s", p->impaired ? impair_format(&p->impair, impair, sizeof(impair)) : "");
}

static int
show_config(struct call *c)
{
	return call_show_hosts(c, add_config, FORMAT_LIST, "no host");
}

static const struct arg args[] = {
	ARG_WHICH_HOST,
	ARG_JSON,
	{ 0 },
};
static const struct command table[] = {
	{ "show port", "Ports; of one also what it counted.", args, NULL, show_port },
	{ "show gid", "Addresses.", args, NULL, show_gid },
	{ "show neigh", "MAC addresses of neighbours.", args, NULL, show_neigh },
	{ "show config", "What hosts were made of, and what has been set since.", args, NULL, show_config },
	{ 0 },
};
COMMANDS(table)
