/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include "hosts.h"
#include "uroce/stack.h"
#include "uroce_verbs.h"

enum {
	SETTING_BYTES = 256,
	SETTINGS_MAX = OPTIONS_MAX + 8,
	LOOPBACK_MBUFS = 8192, /* for each engine */
};

/** A stack and its configuration. */
struct stack {
	struct uroce *u;
	const char *config;
	char sets[SETTINGS_MAX][SETTING_BYTES];
	const char *set_list[SETTINGS_MAX];
	unsigned int nb_sets;
};
static struct stack made[HOSTS_MAX];
static unsigned int nb_made;
static struct host hosts[HOSTS_MAX];
static unsigned int nb_hosts;
static bool running;

unsigned int
hosts_count(void)
{
	return nb_hosts;
}

struct host *
host_at(unsigned int i)
{
	return i < nb_hosts ? &hosts[i] : NULL;
}

struct host *
host_find(const char *name)
{
	for (unsigned int i = 0; i < nb_hosts; i++)
		if (strcmp(hosts[i].name, name) == 0)
			return &hosts[i];
	return NULL;
}

const char *
host_names(unsigned int i)
{
	return i < nb_hosts ? hosts[i].name : NULL;
}

const struct gid *
host_gid(const struct host *h, unsigned int index)
{
	static const struct gid none;
	const struct gid *gid = net_gid(h->stack->ports[h->port], index);

	return gid != NULL ? gid : &none;
}

unsigned int
host_sgid_index(const struct host *h, bool ipv6)
{
	const struct net_port *p = h->stack->ports[h->port];

	for (unsigned int i = 1; i < UROCE_MAX_GIDS; i++)
		if (net_gid(p, i) != NULL && gid_is_v4(net_gid(p, i)) != ipv6)
			return i;
	return ipv6 ? 0 : host_sgid_index(h, true);
}

static void add_set(struct stack *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
add_set(struct stack *s, const char *fmt, ...)
{
	va_list ap;

	if (s->nb_sets == SETTINGS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(s->sets[s->nb_sets], SETTING_BYTES, fmt, ap);
	va_end(ap);
	s->set_list[s->nb_sets] = s->sets[s->nb_sets];
	s->nb_sets++;
}

/** Convert "ETHDEV,ADDRESS/PREFIX,..." to settings of the configuration. */
static void
set_port(struct stack *s, const char *text)
{
	char addresses[SETTING_BYTES];
	size_t n = strcspn(text, ",");

	snprintf(addresses, sizeof(addresses), "%s", text + n + 1);
	for (char *c = addresses; *c != '\0'; c++)
		if (*c == ',')
			*c = ' ';
	add_set(s, "port uroce0.ethdev=%.*s", (int)n, text);
	add_set(s, "port uroce0.addresses=%s", addresses);
}

static void
set_loopback(struct stack *s, unsigned int i, unsigned int engines)
{
	char port[64];

	wires_port(i, port, sizeof(port));
	add_set(s, "port uroce0.ethdev=%s", port);
	add_set(s, "port uroce0.addresses=198.18.0.%u/24 fd00:18::%u/64", i + 1, i + 1);
	add_set(s, "daemon.mbufs=%u", LOOPBACK_MBUFS * engines);
}

/**
 * Collect the settings of each stack.
 * @return the number of stacks, -1: too many.
 */
static int
describe(const struct options *o)
{
	unsigned int n = o->loopback + o->nb_configs + o->nb_ports;

	if (n > HOSTS_MAX) {
		fprintf(stderr, "uroce-test: %u hosts: at most %d\n", n, HOSTS_MAX);
		return -1;
	}
	for (unsigned int i = 0; i < n; i++) {
		struct stack *s = &made[i];

		if (i < o->loopback)
			set_loopback(s, i, o->engines);
		else if (i < o->loopback + o->nb_configs)
			s->config = o->configs[i - o->loopback];
		else
			set_port(s, o->ports[i - o->loopback - o->nb_configs]);
		for (unsigned int k = 0; k < o->nb_sets; k++)
			add_set(s, "%s", o->sets[k]);
	}
	return (int)n;
}

/**
 * Open the verbs devices of the hosts from @p first on.
 * @return 0 or -1.
 */
static int
open_contexts(unsigned int first)
{
	for (unsigned int i = first; i < nb_hosts; i++) {
		hosts[i].ctx = uroce_open_device(hosts[i].stack, hosts[i].stack->ports[hosts[i].port]->conf.name);
		if (hosts[i].ctx == NULL) {
			fprintf(stderr, "uroce-test: %s: its verbs device can't be opened: %s\n", hosts[i].name, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static int
make_stack(struct stack *s, const struct options *o, unsigned int number)
{
	unsigned int lcores[OPTIONS_MAX_ENGINES], n = workers_count(), first = nb_hosts;
	struct uroce_params p = { .config_file = s->config, .sets = s->set_list, .nb_sets = s->nb_sets,
				  .nb_engines = o->engines, .lcores = lcores };
	char err[UROCE_ERR_BYTES];

	for (unsigned int e = 0; e < o->engines; e++)
		lcores[e] = worker_lcore((number * o->engines + e) % n);
	s->u = uroce_create(&p, err);
	if (s->u == NULL) {
		fprintf(stderr, "uroce-test: host %u: %s\n", number + 1, err);
		return -1;
	}
	nb_made++;
	for (unsigned int e = 0; e < o->engines; e++)
		worker_add_engine((number * o->engines + e) % n, s->u, e);
	for (unsigned int i = 0; i < s->u->nb_ports && nb_hosts < HOSTS_MAX; i++) {
		struct host *h = &hosts[nb_hosts++];

		snprintf(h->name, sizeof(h->name), "h%u", nb_hosts);
		h->stack = s->u;
		h->port = i;
		h->worker = number * o->engines % n;
	}
	if (uroce_control_start(s->u, err) != 0) {
		fprintf(stderr, "uroce-test: host %u: %s\n", number + 1, err);
		return -1;
	}
	/*
	 * Open them now, while the other hosts don't exist yet, so that the first link that comes up is reported as an
	 * event.
	 */
	return open_contexts(first);
}

int
hosts_start(const struct options *o)
{
	int n;

	if (workers_count() == 0) {
		fputs("uroce-test: no lcore for engines; give EAL two or more, for example -l 0-1, or on a machine with one "
		      "core --lcores '0@0,1@0'\n", stderr);
		return -1;
	}
	if (o->loopback > 0 && wires_create(o->loopback, o->engines) != 0)
		return -1;
	n = describe(o);
	if (n < 0)
		return -1;
	for (unsigned int i = 0; i < (unsigned int)n; i++)
		if (make_stack(&made[i], o, i) != 0)
			return -1;
	if (o->loopback > 0 && !wires_wait())
		return -1;
	if (wires_switch() != NULL)
		worker_attach(0, wires_switch());
	if (workers_start() != 0)
		return -1;
	running = true;
	return 0;
}

void
hosts_stop(void)
{
	for (unsigned int i = nb_hosts; i-- > 0;)
		if (hosts[i].ctx != NULL)
			ibv_close_device(hosts[i].ctx);
	for (unsigned int i = nb_made; i-- > 0;)
		uroce_shutdown(made[i].u);
	if (running)
		workers_stop();
	for (unsigned int i = nb_made; i-- > 0;) {
		uroce_destroy(made[i].u);
		wires_settle();
	}
	nb_hosts = 0;
	nb_made = 0;
	wires_destroy();
}
