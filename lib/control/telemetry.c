/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What dpdk-telemetry.py can ask of the daemon: /uroce/config, /uroce/port, /uroce/engine, /uroce/impair.
 *
 * Threads: rte_telemetry answers each client on a thread of that client. Those threads follow the pointers of struct control
 * under a lock for reading; the control thread takes it for writing when it changes one of them. Engines know nothing of it:
 * their counters are read while they count, each one whole (64 bits, aligned), different ones at different moments.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <rte_telemetry.h>

#include "control_priv.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static const struct control *control; /* NULL: nobody is there to ask about */

void
telemetry_lock(void)
{
	pthread_rwlock_wrlock(&lock);
}

void
telemetry_unlock(void)
{
	pthread_rwlock_unlock(&lock);
}

/* ---- Building blocks ---- */
static uint64_t
counter(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/** Add a dictionary of its own under @p name. @return it, or NULL: no memory. */
static struct rte_tel_data *
add_dict(struct rte_tel_data *d, const char *name)
{
	struct rte_tel_data *in = rte_tel_data_alloc();

	if (in == NULL)
		return NULL;
	rte_tel_data_start_dict(in);
	if (rte_tel_data_add_dict_container(d, name, in, 0) == 0)
		return in;
	rte_tel_data_free(in);
	return NULL;
}

static struct rte_tel_data *
add_array(struct rte_tel_data *d, const char *name, enum rte_tel_value_type type)
{
	struct rte_tel_data *in = rte_tel_data_alloc();

	if (in == NULL)
		return NULL;
	rte_tel_data_start_array(in, type);
	if (rte_tel_data_add_dict_container(d, name, in, 0) == 0)
		return in;
	rte_tel_data_free(in);
	return NULL;
}

/** A text of any length: telemetry's strings are short, so it goes out in pieces. */
static void
add_text(struct rte_tel_data *d, const char *name, const char *text)
{
	struct rte_tel_data *a = add_array(d, name, RTE_TEL_STRING_VAL);
	char piece[RTE_TEL_MAX_STRING_LEN];

	for (; a != NULL && text[0] != '\0'; text += strlen(piece)) {
		strlcpy(piece, text, sizeof(piece));
		rte_tel_data_add_array_string(a, piece);
	}
}

/** Items of a list with commas, each a string. */
static void
add_items(struct rte_tel_data *d, const char *name, char *list)
{
	struct rte_tel_data *a = add_array(d, name, RTE_TEL_STRING_VAL);
	char *item;

	while (a != NULL && (item = strsep(&list, ",")) != NULL)
		if (item[0] != '\0')
			rte_tel_data_add_array_string(a, item);
}

/** Answer that what was asked for isn't there, and what is. */
static int
unknown(struct rte_tel_data *d, const char *what, const char *params, const char *known)
{
	char text[CONFIG_ERR_BYTES];

	snprintf(text, sizeof(text), "no %s '%s'; there are: %s", what, params, known);
	rte_tel_data_start_dict(d);
	add_text(d, "error", text);
	return 0;
}

/* ---- Ports ---- */
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

	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		if (strcmp(c->s.ports[i]->conf.name, name) == 0)
			return (int)i;
		strlcat(known, i > 0 ? ", " : "", sizeof(known));
		strlcat(known, c->s.ports[i]->conf.name, sizeof(known));
	}
	unknown(d, "port", name, known);
	return -1;
}

/** What lib/net counted and the key violations, over all engines. */
static void
add_net(const struct control *c, uint16_t port, struct rte_tel_data *d)
{
	struct net_counters sum = { 0 };
	uint64_t bad_pkey = 0, bad_qkey = 0;

	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		const struct net_counters *n = engine_net_counters(c->s.engines[i], port);
		const struct tp_violations *v = transport_violations(engine_transport(c->s.engines[i]), port);

		bad_pkey += counter(&v->bad_pkey);
		bad_qkey += counter(&v->bad_qkey);

#define NET_X(name) sum.name += counter(&n->name);
		NET_COUNTERS(NET_X)
#undef NET_X
	}
#define NET_X(name) rte_tel_data_add_dict_u64(d, #name, sum.name);
	NET_COUNTERS(NET_X)
#undef NET_X
	rte_tel_data_add_dict_u64(d, "bad_pkey", bad_pkey);
	rte_tel_data_add_dict_u64(d, "bad_qkey", bad_qkey);
}

static void
add_ethdev(uint16_t port_id, struct rte_tel_data *d)
{
	struct rte_eth_stats s;

	if (rte_eth_stats_get(port_id, &s) != 0)
		return;
	rte_tel_data_add_dict_u64(d, "ipackets", s.ipackets);
	rte_tel_data_add_dict_u64(d, "opackets", s.opackets);
	rte_tel_data_add_dict_u64(d, "ibytes", s.ibytes);
	rte_tel_data_add_dict_u64(d, "obytes", s.obytes);
	rte_tel_data_add_dict_u64(d, "imissed", s.imissed);
	rte_tel_data_add_dict_u64(d, "ierrors", s.ierrors);
	rte_tel_data_add_dict_u64(d, "oerrors", s.oerrors);
	rte_tel_data_add_dict_u64(d, "rx_nombuf", s.rx_nombuf);
}

static int
show_port(const struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct net_port *p;
	struct rte_tel_data *in;
	int i;

	if (params[0] == '\0')
		return list_ports(c, false, d);
	i = find_port(c, params, d);
	if (i < 0)
		return 0;
	p = c->s.ports[i];
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "name", p->conf.name);
	rte_tel_data_add_dict_string(d, "ethdev", p->conf.ethdev);
	rte_tel_data_add_dict_string(d, "netdev", p->netdev);
	rte_tel_data_add_dict_string(d, "link", c->link_up[i] ? "up" : "down");
	rte_tel_data_add_dict_string(d, "cc", tp_cc_name((enum tp_cc)c->s.conf->ports[i].cc));
	rte_tel_data_add_dict_u64(d, "mtu", 128u << p->active_mtu);
	rte_tel_data_add_dict_u64(d, "queues", p->nb_queues);
	in = add_dict(d, "net");
	if (in != NULL)
		add_net(c, (uint16_t)i, in);
	in = add_dict(d, "ethdev_stats");
	if (in != NULL)
		add_ethdev(p->port_id, in);
	return 0;
}

/* ---- Engines ---- */
static const struct {
	const char *name;
	size_t offset;
} engine_counters[] = {
#define E(field) { #field, offsetof(struct engine_stats, field) }
	E(turns), E(busy_turns), E(idle_turns), E(sleeps), E(busy_cycles), E(idle_cycles), E(rx_bursts), E(rx_packets),
	E(tx_packets), E(doorbells), E(mailbox), E(events_lost), E(handoff_dropped),
	E(mads_dropped), E(send_dropped), E(tx_stuck_dropped),
#undef E
};
static_assert(sizeof(engine_counters) / sizeof(engine_counters[0]) * sizeof(uint64_t) == sizeof(struct engine_stats),
	      "every counter of an engine is shown");

static int
show_engine(const struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct tp_counters *t;
	const char *stats;
	struct rte_tel_data *in;
	unsigned long id;
	char *end, known[32];

	if (params[0] == '\0') {
		rte_tel_data_start_array(d, RTE_TEL_U64_VAL);
		for (unsigned int i = 0; i < c->s.nb_engines; i++)
			rte_tel_data_add_array_u64(d, i);
		return 0;
	}
	id = strtoul(params, &end, 10);
	if (*end != '\0' || params[0] < '0' || params[0] > '9' || id >= c->s.nb_engines) {
		snprintf(known, sizeof(known), "0 to %u", c->s.nb_engines - 1);
		return unknown(d, "engine", params, known);
	}
	stats = (const char *)engine_stats(c->s.engines[id]);
	t = transport_counters(engine_transport(c->s.engines[id]));
	rte_tel_data_start_dict(d);
	in = add_dict(d, "load");
	for (unsigned int i = 0; in != NULL && i < RTE_DIM(engine_counters); i++)
		rte_tel_data_add_dict_u64(in, engine_counters[i].name,
					  counter((const uint64_t *)(stats + engine_counters[i].offset)));
	in = add_dict(d, "transport");
#define TP_X(name) \
	if (in != NULL) \
		rte_tel_data_add_dict_u64(in, #name, counter(&t->name));
	TP_COUNTERS(TP_X)
#undef TP_X
	return 0;
}

/* ---- Impairments ---- */
static int
show_impair(const struct control *c, const char *params, struct rte_tel_data *d)
{
	char text[IMPAIR_TEXT_BYTES];
	struct impair_counters n;
	struct rte_tel_data *a;
	int i;

	if (params[0] == '\0')
		return list_ports(c, true, d);
	i = find_port(c, params, d);
	if (i < 0)
		return 0;
	rte_tel_data_start_dict(d);
	if (c->s.impairs == NULL || c->s.impairs[i] == NULL) {
		add_items(d, "settings", NULL);
		return 0;
	}
	add_items(d, "settings", impair_format(&c->s.conf->ports[i].impair, text, sizeof(text)));
	impair_counters(c->s.impairs[i], &n);
#define IMPAIR_X(name) rte_tel_data_add_dict_u64(d, #name, n.name);
	IMPAIR_COUNTERS(IMPAIR_X)
#undef IMPAIR_X
	a = add_array(d, "rules", RTE_TEL_U64_VAL);
	for (unsigned int r = 0; a != NULL && r < c->s.conf->ports[i].impair.nb_rules; r++)
		rte_tel_data_add_array_u64(a, n.rules[r]);
	return 0;
}

/* ---- Connections ---- */
static int
show_cm(const struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct cm_counters *n = cm_counters(gsi_cm(c->gsi));
	const struct gsi_counters *g = gsi_counters(c->gsi);
	struct rte_tel_data *in;
	struct cm_usage u;

	cm_usage(gsi_cm(c->gsi), &u);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "ids", c->count[OBJ_CM_ID]);
	rte_tel_data_add_dict_u64(d, "listeners", u.listeners);
	rte_tel_data_add_dict_u64(d, "connections", u.conns);
	rte_tel_data_add_dict_u64(d, "half_open", u.half_open);
	rte_tel_data_add_dict_u64(d, "kept", u.kept);
	rte_tel_data_add_dict_u64(d, "peers", u.peers);
	in = add_dict(d, "cm");
#define CM_X(name) \
	if (in != NULL) \
		rte_tel_data_add_dict_u64(in, #name, counter(&n->name));
	CM_COUNTERS(CM_X)
#undef CM_X
	in = add_dict(d, "gsi");
#define GSI_X(name) \
	if (in != NULL) \
		rte_tel_data_add_dict_u64(in, #name, counter(&g->name));
	GSI_COUNTERS(GSI_X)
#undef GSI_X
	return 0;
}

/* ---- The configuration ---- */
static int
show_config(const struct control *c, const char *params, struct rte_tel_data *d)
{
	rte_tel_data_start_dict(d);
	add_text(d, "file", c->s.config_file != NULL ? c->s.config_file : "");
	rte_tel_data_add_dict_u64(d, "reloads", c->reloads.done);
	rte_tel_data_add_dict_u64(d, "refused", c->reloads.refused);
	add_text(d, "error", c->reloads.error);
	add_text(d, "needs_restart", c->reloads.restart);
	return 0;
}

/* ---- rte_telemetry ---- */
static const struct {
	const char *cmd, *help;
	int (*show)(const struct control *c, const char *params, struct rte_tel_data *d);
} commands[] = {
	{ "/uroce/config", "What became of SIGHUPs. No parameters.", show_config },
	{ "/uroce/port", "Verbs devices; with a name (uroce0): addresses, link and packets beside RoCE.", show_port },
	{ "/uroce/engine", "Engines; with a number: load, and what the transport counted.", show_engine },
	{ "/uroce/cm", "Connections of rdma_cm: how many, and what the connection manager and QP 1 counted. No parameters.",
	  show_cm },
	{ "/uroce/impair", "Ports that are impaired on purpose; with a name: settings and what was done.", show_impair },
};

static int
on_command(const char *cmd, const char *params, struct rte_tel_data *d)
{
	int rc = -ENOENT;

	pthread_rwlock_rdlock(&lock);
	for (unsigned int i = 0; i < RTE_DIM(commands) && control != NULL; i++)
		if (strcmp(commands[i].cmd, cmd) == 0)
			rc = commands[i].show(control, params != NULL ? params : "", d);
	pthread_rwlock_unlock(&lock);
	return rc;
}

void
telemetry_start(struct control *c)
{
	static bool registered; /* there is no way back */

	telemetry_lock();
	/* In a process with several the first one answers: commands carry no name of a stack. */
	if (control == NULL)
		control = c;
	telemetry_unlock();
	for (unsigned int i = 0; i < RTE_DIM(commands) && !registered; i++)
		if (rte_telemetry_register_cmd(commands[i].cmd, on_command, commands[i].help) != 0)
			CTL_LOG(WARNING, "telemetry has no place for %s", commands[i].cmd);
	registered = true;
}

void
telemetry_stop(struct control *c)
{
	telemetry_lock();
	if (control == c)
		control = NULL;
	telemetry_unlock();
}
