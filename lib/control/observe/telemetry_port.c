/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: ports and their impairments. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>
#include <rte_ethdev.h>

#include "control/core/impairing_priv.h"
#include "control/obj/obj_device_priv.h"
#include "control/observe/counters_priv.h"
#include "control/observe/inspect_priv.h"
#include "control/observe/telemetry_priv.h"

static int
list_ports(const struct control *c, bool impaired, struct rte_tel_data *d)
{
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		if (!impaired || (c->s.impairs != NULL && c->s.impairs[i] != NULL))
			rte_tel_data_add_array_string(d, c->s.ports[i]->conf.name);
	return 0;
}

/** @return the port called @p name, or -1 with the answer in @p d. */
static int
find_port(const struct control *c, const char *name, struct rte_tel_data *d)
{
	char known[CONFIG_ERR_BYTES / 2] = "";
	int index = tel_port_index(c, name);

	if (index >= 0)
		return index;
	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		strlcat(known, i > 0 ? ", " : "", sizeof(known));
		strlcat(known, c->s.ports[i]->conf.name, sizeof(known));
	}
	tel_unknown(d, "port", name, known);
	return -1;
}

/** Add lib/net's counters and the key violations, summed over all engines. */
static void
add_net(const struct control *c, uint16_t port, struct rte_tel_data *d)
{
	uint64_t bad_pkey, bad_qkey;
	struct net_counters sum;

	if (d == NULL)
		return;
	inspect_net_counters(c, port, &sum);
	tel_counters(d, &counters_net, &sum);
	port_violations(c, port, &bad_pkey, &bad_qkey);
	rte_tel_data_add_dict_uint(d, "bad_pkey", bad_pkey);
	rte_tel_data_add_dict_uint(d, "bad_qkey", bad_qkey);
}

static void
add_ethdev(const struct net_port *p, struct rte_tel_data *d)
{
	struct rte_eth_stats s;

	if (d == NULL || p->restarting || rte_eth_stats_get(p->port_id, &s) != 0)
		return;
	rte_tel_data_add_dict_uint(d, "ipackets", s.ipackets);
	rte_tel_data_add_dict_uint(d, "opackets", s.opackets);
	rte_tel_data_add_dict_uint(d, "ibytes", s.ibytes);
	rte_tel_data_add_dict_uint(d, "obytes", s.obytes);
	rte_tel_data_add_dict_uint(d, "imissed", s.imissed);
	rte_tel_data_add_dict_uint(d, "ierrors", s.ierrors);
	rte_tel_data_add_dict_uint(d, "oerrors", s.oerrors);
	rte_tel_data_add_dict_uint(d, "rx_nombuf", s.rx_nombuf);
}

static void
add_addresses(const struct net_port *p, struct rte_tel_data *d)
{
	struct rte_tel_data *a = tel_array(d, "addresses", RTE_TEL_STRING_VAL);
	char text[INET6_ADDRSTRLEN], vlan[8], line[INET6_ADDRSTRLEN + 16];

	for (unsigned int i = 0; a != NULL && i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *n = net_addr(p, i);
		bool v4 = n != NULL && gid_is_v4(&n->gid);

		if (n == NULL)
			continue;
		inet_ntop(v4 ? AF_INET : AF_INET6, n->gid.raw + (v4 ? 12 : 0), text, sizeof(text));
		snprintf(vlan, sizeof(vlan), "@%u", n->vlan);
		snprintf(line, sizeof(line), "%s/%u%s", text, n->prefix, n->vlan != 0 ? vlan : "");
		rte_tel_data_add_array_string(a, line);
	}
}

/** Add what kind of interface the port is. */
static void
add_interface(const struct net_port *p, struct rte_tel_data *d)
{
	struct rte_eth_dev_info info;
	struct rte_eth_link link;
	char mac[RTE_ETHER_ADDR_FMT_SIZE];

	rte_ether_format_addr(mac, sizeof(mac), (const struct rte_ether_addr *)p->mac);
	rte_tel_data_add_dict_string(d, "mac", mac);
	if (!net_port_is_gone(p) && rte_eth_dev_info_get(p->port_id, &info) == 0)
		rte_tel_data_add_dict_string(d, "driver", info.driver_name);
	/* Mb/s; 0: the driver doesn't know. */
	if (!p->restarting && rte_eth_link_get_nowait(p->port_id, &link) == 0)
		rte_tel_data_add_dict_uint(d, "speed", link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed);
}

int
tel_port(struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct port_track *t;
	const struct net_port *p;
	int i;

	if (params[0] == '\0')
		return list_ports(c, false, d);
	i = find_port(c, params, d);
	if (i < 0)
		return 0;
	p = c->s.ports[i];
	t = &c->ports[i].track;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "name", p->conf.name);
	rte_tel_data_add_dict_string(d, "ethdev", p->conf.ethdev);
	rte_tel_data_add_dict_string(d, "netdev", p->netdev);
	rte_tel_data_add_dict_string(d, "link", c->link_up[i] ? "up" : "down");
	rte_tel_data_add_dict_string(d, "state", port_state_name(t->state));
	rte_tel_data_add_dict_uint(d, "link_downs", t->downs);
	rte_tel_data_add_dict_uint(d, "restarts", t->restarts);
	rte_tel_data_add_dict_uint(d, "restart_failures", t->restart_failures);
	rte_tel_data_add_dict_uint(d, "returns", t->returns);
	rte_tel_data_add_dict_uint(d, "neighbour_changes", net_neigh_changes(p, NULL));
	rte_tel_data_add_dict_uint(d, "paths_followed", c->ports[i].followed);
	rte_tel_data_add_dict_string(d, "cc", tp_cc_name((enum tp_cc)c->s.conf->ports[i].cc));
	rte_tel_data_add_dict_uint(d, "mtu", 128u << p->active_mtu);
	rte_tel_data_add_dict_uint(d, "queues", p->nb_queues);
	add_interface(p, d);
	add_addresses(p, d);
	add_net(c, (uint16_t)i, tel_dict(d, "net"));
	add_ethdev(p, tel_dict(d, "ethdev_stats"));
	return 0;
}

/* ---- Impairments ---- */
enum { TEL_PARAMS_BYTES = 1024 /* of a port's name and its settings */ };

/** Set the impairments of port @p i. @return true; false: the answer is in @p d. */
static bool
set_impair(struct control *c, unsigned int i, const char *settings, struct rte_tel_data *d)
{
	bool none = strcmp(settings, "none") == 0;
	struct impair_params p;
	char err[CONFIG_ERR_BYTES];
	int rc;

	if (!none && impair_parse(settings, &p, err, sizeof(err)) != 0) {
		tel_error(d, err);
		return false;
	}
	rc = impairing_set(c, i, none ? NULL : &p);
	if (rc == 0) {
		CTL_LOG(NOTICE, "%s: impairments by telemetry: %s", c->s.ports[i]->conf.name, settings);
		return true;
	}
	snprintf(err, sizeof(err), "%s can't be impaired: %s", c->s.ports[i]->conf.name, strerror(rc));
	tel_error(d, err);
	return false;
}

/* PORT shows, PORT,KEY=VALUE,... or PORT,none changes. Telemetry's socket has checked who may do the latter. */
int
tel_impair(struct control *c, const char *params, struct rte_tel_data *d)
{
	char text[IMPAIR_TEXT_BYTES], port[TEL_PARAMS_BYTES], *settings = port;
	struct impair_counters n;
	struct rte_tel_data *a;
	int i;

	if (params[0] == '\0')
		return list_ports(c, true, d);
	if (strlcpy(port, params, sizeof(port)) >= sizeof(port)) {
		tel_error(d, "the settings are too long");
		return 0;
	}
	strsep(&settings, ",");
	i = find_port(c, port, d);
	if (i < 0 || (settings != NULL && !set_impair(c, (unsigned int)i, settings, d)))
		return 0;
	rte_tel_data_start_dict(d);
	if (c->s.impairs == NULL || c->s.impairs[i] == NULL) {
		tel_strings(d, "settings", NULL, ",");
		return 0;
	}
	tel_strings(d, "settings", impair_format(&c->s.conf->ports[i].impair, text, sizeof(text)), ",");
	impair_counters(c->s.impairs[i], &n);
	tel_counters(d, &counters_impair, &n);
	a = tel_array(d, "rules", RTE_TEL_UINT_VAL);
	for (unsigned int r = 0; a != NULL && r < c->s.conf->ports[i].impair.nb_rules; r++)
		rte_tel_data_add_array_uint(a, n.rules[r]);
	return 0;
}
