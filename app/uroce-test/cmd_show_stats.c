/* SPDX-License-Identifier: BSD-3-Clause */
/* show stats, engine, cm; clear stats: counters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/counter.h"
#include "cm/cm.h"
#include "format.h"
#include "control/cma/gsi.h"
#include "hosts.h"
#include "control/observe/inspect.h"
#include "uroce/stack.h"

/** Names in the order of the members; the structs consist of 64-bit counters only. */
#define NAME(x) #x,
static const char *const tp_names[] = { TP_COUNTERS(NAME) };
static const char *const cm_names[] = { CM_COUNTERS(NAME) };
static const char *const gsi_names[] = { GSI_COUNTERS(NAME) };
#undef NAME
enum {
	TP_N = sizeof(tp_names) / sizeof(tp_names[0]),
	CM_N = sizeof(cm_names) / sizeof(cm_names[0]),
	GSI_N = sizeof(gsi_names) / sizeof(gsi_names[0]),
};
_Static_assert(sizeof(struct tp_counters) == TP_N * sizeof(uint64_t), "every counter has a name");
_Static_assert(sizeof(struct cm_counters) == CM_N * sizeof(uint64_t), "every counter has a name");
_Static_assert(sizeof(struct gsi_counters) == GSI_N * sizeof(uint64_t), "every counter has a name");

/** The values at the last `clear stats`, for each host. */
static struct base {
	uint64_t tp[TP_N], cm[CM_N], gsi[GSI_N];
} bases[HOSTS_MAX];

static struct base *
base_of(const struct host *h)
{
	unsigned int i;

	for (i = 0; host_at(i) != h; i++)
		;
	return &bases[i];
}

static uint64_t
counter(const void *counters, unsigned int i)
{
	return counter_read((const uint64_t *)counters + i);
}

/** Sum up the transports of all engines. */
static void
tp_sum(const struct host *h, uint64_t *sum)
{
	memset(sum, 0, TP_N * sizeof(*sum));
	for (unsigned int e = 0; e < h->stack->nb_engines; e++)
		for (unsigned int i = 0; i < TP_N; i++)
			sum[i] += counter(transport_counters(engine_transport(h->stack->engines[e])), i);
}

/** Add the counts since @p base; @p prefix is put before the names. */
static void
add_counters(const struct call *c, struct format *f, const char *prefix, const char *const *names, unsigned int n,
	     const uint64_t *now, const uint64_t *base)
{
	char name[64];

	for (unsigned int i = 0; i < n; i++)
		if (call_has(c, "zeros") || now[i] != base[i]) {
			snprintf(name, sizeof(name), "%s%s", prefix, names[i]);
			format_number(f, name, now[i] - base[i]);
		}
}

static void
add_stats(const struct call *c, struct format *f, const struct host *h)
{
	uint64_t now[TP_N];

	tp_sum(h, now);
	format_host_row(f, h);
	add_counters(c, f, "", tp_names, TP_N, now, base_of(h)->tp);
}

static int
show_stats(struct call *c)
{
	return call_show_hosts(c, add_stats, FORMAT_LIST, "no host");
}

static void
take_cm(const struct host *h, uint64_t *cm, uint64_t *gsi)
{
	for (unsigned int i = 0; i < CM_N; i++)
		cm[i] = counter(control_cm_counters(h->stack->control), i);
	for (unsigned int i = 0; i < GSI_N; i++)
		gsi[i] = counter(control_gsi_counters(h->stack->control), i);
}

/* CM and QP 1 have two counters with the same names: those of QP 1 get the prefix qp1_. */
static void
add_cm(const struct call *c, struct format *f, const struct host *h)
{
	uint64_t cm[CM_N], gsi[GSI_N];
	struct control_counts counts;

	take_cm(h, cm, gsi);
	control_lock(h->stack->control);
	control_counts(h->stack->control, &counts);
	control_unlock(h->stack->control);
	format_host_row(f, h);
	format_number(f, "ids", counts.cm_ids);
	add_counters(c, f, "", cm_names, CM_N, cm, base_of(h)->cm);
	add_counters(c, f, "qp1_", gsi_names, GSI_N, gsi, base_of(h)->gsi);
}

static int
show_cm(struct call *c)
{
	return call_show_hosts(c, add_cm, FORMAT_LIST, "no host");
}

static int
clear_stats(struct call *c)
{
	for (unsigned int i = 0; i < hosts_count(); i++) {
		if (!call_means_host(c, host_at(i)))
			continue;
		tp_sum(host_at(i), bases[i].tp);
		take_cm(host_at(i), bases[i].cm, bases[i].gsi);
	}
	return 0;
}

static void
add_engine(struct format *f, const struct host *h, unsigned int number)
{
	struct inspect_engine e;

	if (inspect_engine(h->stack->control, number, &e) != 0)
		return;
	format_host_row(f, h);
	format_number(f, "engine", number);
	format_number(f, "load_%", e.load_percent);
	format_number(f, "turns", e.stats.turns);
	format_number(f, "busy_turns", e.stats.busy_turns);
	format_number(f, "rx_packets", e.stats.rx_packets);
	format_number(f, "tx_packets", e.stats.tx_packets);
	format_real(f, "burst", e.stats.rx_bursts > 0 ? (double)e.stats.rx_packets / (double)e.stats.rx_bursts : 0, 2);
	format_number(f, "doorbells", e.stats.doorbells);
	format_number(f, "mailbox", e.stats.mailbox);
	format_number(f, "sessions", e.depths.sessions);
	format_number(f, "hot_sessions", e.depths.hot_sessions);
	format_number(f, "tx_stuck_dropped", e.stats.tx_stuck_dropped);
}

/* Hosts that are ports of one stack show the same engines. */
static void
add_engines(const struct call *c, struct format *f, const struct host *h)
{
	for (unsigned int e = 0; e < h->stack->nb_engines; e++)
		add_engine(f, h, e);
}

static int
show_engine(struct call *c)
{
	return call_show_hosts(c, add_engines, FORMAT_TABLE, "no engine");
}

static const struct arg args[] = { ARG_WHICH_HOST, ARG_JSON, { 0 } };
static const struct arg stats_args[] = { ARG_WHICH_HOST, ARG_WORD("zeros", "also counters that are zero"), ARG_JSON, { 0 } };
static const struct arg clear_args[] = { ARG_WHICH_HOST, { 0 } };
static const struct command table[] = {
	{ "show stats", "What the transports counted; docs/counters.md explains each.", stats_args, NULL, show_stats },
	{ "show cm", "What the connection managers and QP 1 counted.", stats_args, NULL, show_cm },
	{ "show engine", "Engines: load, bursts, what waits.", args, NULL, show_engine },
	{ "clear stats", "Let `show stats` and `show cm` count from now.", clear_args, NULL, clear_stats },
	{ 0 },
};
COMMANDS(table)
