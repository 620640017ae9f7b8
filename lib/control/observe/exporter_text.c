/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics as text. All samples of a metric follow its HELP and TYPE lines, as the format requires. */
#include <inttypes.h>

#include "control/cma/gsi_priv.h"
#include "control/core/quota_priv.h"
#include "control/observe/counters_priv.h"
#include "control/observe/exporter_priv.h"
#include "control/observe/inspect_priv.h"
#include "impair.h"

/**
 * Write HELP and TYPE of a metric. Backslashes are escaped; the texts, from docs/counters.md, contain no line breaks.
 */
static void
head(FILE *f, const char *name, const char *suffix, const char *type, const char *help)
{
	fprintf(f, "# HELP %s%s ", name, suffix);
	for (; *help != '\0'; help++) {
		if (*help == '\\')
			fputc('\\', f);
		fputc(*help, f);
	}
	fprintf(f, "\n# TYPE %s%s %s\n", name, suffix, type);
}

/** The instances of a table's counters: one struct per engine or port, or a single one. */
struct source {
	const char *label;        /* NULL: there is a single one */
	const void *base[UROCE_MAX_ENGINES];
	char value[UROCE_MAX_ENGINES][NET_NAME_BYTES];
	unsigned int n;
};

static void
write_table(FILE *f, const struct counter_table *t, const struct source *s)
{
	char name[128];

	for (unsigned int i = 0; i < t->n; i++) {
		const char *help = counter_help(t->group, t->counter[i].name);

		snprintf(name, sizeof(name), "uroce_%s_%s", t->group, t->counter[i].name);
		head(f, name, "_total", "counter", help != NULL ? help : t->counter[i].name);
		for (unsigned int k = 0; k < s->n; k++) {
			if (s->label != NULL)
				fprintf(f, "%s_total{%s=\"%s\"} ", name, s->label, s->value[k]);
			else
				fprintf(f, "%s_total ", name);
			fprintf(f, "%" PRIu64 "\n", counter_value(t, i, s->base[k]));
		}
	}
}

static void
write_engines(struct control *c, FILE *f)
{
	struct inspect_engine *e = calloc(c->s.nb_engines, sizeof(*e));
	struct source stats = { .label = "engine" }, tp = { .label = "engine" };
	unsigned int n = c->s.nb_engines;

	if (e == NULL)
		return;
	for (unsigned int i = 0; i < n; i++) {
		inspect_engine(c, i, &e[i]);
		stats.base[i] = &e[i].stats;
		tp.base[i] = &e[i].transport;
		snprintf(stats.value[i], sizeof(stats.value[i]), "%u", i);
		snprintf(tp.value[i], sizeof(tp.value[i]), "%u", i);
	}
	stats.n = tp.n = n;
	write_table(f, &counters_engine, &stats);
	write_table(f, &counters_transport, &tp);
	head(f, "uroce_engine_load_percent", "", "gauge", "busy cycles of all in the last half second");
	for (unsigned int i = 0; i < n; i++)
		fprintf(f, "uroce_engine_load_percent{engine=\"%u\"} %u\n", i, e[i].load_percent);
	head(f, "uroce_engine_active_qps", "", "gauge", "QPs that have or lately had work");
	for (unsigned int i = 0; i < n; i++)
		fprintf(f, "uroce_engine_active_qps{engine=\"%u\"} %u\n", i, e[i].depths.transport.active_qps);
	free(e);
}

static void
write_ports(struct control *c, FILE *f)
{
	struct net_counters sum[UROCE_MAX_PORTS];
	struct impair_counters im[UROCE_MAX_PORTS];
	struct source net = { .label = "port" }, impaired = { .label = "port" };

	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		inspect_net_counters(c, i, &sum[i]);
		net.base[net.n] = &sum[i];
		snprintf(net.value[net.n++], NET_NAME_BYTES, "%s", c->s.ports[i]->conf.name);
		if (c->s.impairs == NULL || c->s.impairs[i] == NULL)
			continue;
		impair_counters(c->s.impairs[i], &im[i]);
		impaired.base[impaired.n] = &im[i];
		snprintf(impaired.value[impaired.n++], NET_NAME_BYTES, "%s", c->s.ports[i]->conf.name);
	}
	write_table(f, &counters_net, &net);
	if (impaired.n > 0)
		write_table(f, &counters_impair, &impaired);
	head(f, "uroce_port_up", "", "gauge", "1: the port has a link");
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		fprintf(f, "uroce_port_up{port=\"%s\"} %u\n", c->s.ports[i]->conf.name, c->link_up[i]);
}

static void
write_objects(struct control *c, FILE *f)
{
	static const struct {
		const char *name;
		enum obj_type type;
	} objects[] = { { "pd", OBJ_PD }, { "mr", OBJ_MR }, { "mw", OBJ_MW }, { "dm", OBJ_DM }, { "cq", OBJ_CQ }, { "srq", OBJ_SRQ },
			{ "qp", OBJ_QP }, { "ah", OBJ_AH }, { "xrcd", OBJ_XRCD }, { "cm_id", OBJ_CM_ID } };
	const struct session *s;
	uint64_t bytes = 0;

	head(f, "uroce_sessions", "", "gauge", "programs that have a device or an event channel open");
	fprintf(f, "uroce_sessions %u\n", c->nb_sessions);
	head(f, "uroce_objects", "", "gauge", "verbs objects that programs have");
	for (unsigned int i = 0; i < RTE_DIM(objects); i++)
		fprintf(f, "uroce_objects{type=\"%s\"} %u\n", objects[i].name, c->count[objects[i].type]);
	TAILQ_FOREACH(s, &c->sessions, link) {
		bytes += s->used[QUOTA_memory];
	}
	head(f, "uroce_limit_refused", "_total", "counter", "requests beyond a limit of their program or user, by the key without its prefix");
	for (unsigned int i = 0; i < QUOTAS; i++)
		fprintf(f, "uroce_limit_refused_total{limit=\"%s\"} %" PRIu64 "\n", quota_key(i), c->refused[i]);
	fprintf(f, "uroce_limit_refused_total{limit=\"max_sessions\"} %" PRIu64 "\n", c->refused_sessions);
	fprintf(f, "uroce_limit_refused_total{limit=\"hello_timeout\"} %" PRIu64 "\n", c->hello_timeouts);
	head(f, "uroce_unread_mappings", "_total", "counter", "questions about the mappings of a program that were not answered in time");
	fprintf(f, "uroce_unread_mappings_total %" PRIu64 "\n", c->unread_maps);
	head(f, "uroce_identity_refused", "_total", "counter", "connections in the name of QPs of other users, and to their peers");
	fprintf(f, "uroce_identity_refused_total{check=\"qp\"} %" PRIu64 "\n", c->refused_qpns);
	fprintf(f, "uroce_identity_refused_total{check=\"peer\"} %" PRIu64 "\n", c->refused_peers);
	head(f, "uroce_registered_bytes", "", "gauge", "memory that programs have registered");
	fprintf(f, "uroce_registered_bytes %" PRIu64 "\n", bytes);
}

void
exporter_write(struct control *c, FILE *f)
{
	struct source one = { .n = 1 };

	control_lock(c);
	write_engines(c, f);
	write_ports(c, f);
	one.base[0] = gsi_counters(c->gsi);
	write_table(f, &counters_gsi, &one);
	one.base[0] = cm_counters(gsi_cm(c->gsi));
	write_table(f, &counters_cm, &one);
	write_objects(c, f);
	control_unlock(c);
}
