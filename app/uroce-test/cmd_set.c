/* SPDX-License-Identifier: BSD-3-Clause */
/* set: changes settings while hosts and workloads run; show impair. */
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

#include "args.h"
#include "format.h"
#include "hosts.h"
#include "uroce/stack.h"
#include "workload.h"

enum { ERR_BYTES = 512, PERIOD_MAX = 86400 };

/* The index is RTE_LOG_* - 1. */
static const char *const log_words[] = { "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug", NULL };

static const char *
cc_names(unsigned int i)
{
	return i < TP_CC_ALGORITHMS ? tp_cc_name((enum tp_cc)i) : NULL;
}

static const char *
host_or_all(unsigned int i)
{
	return i == 0 ? "all" : host_names(i - 1);
}

static int
set_impair(struct call *c)
{
	const char *text = call_text(c, "settings");
	bool off = strcmp(text, "off") == 0;
	struct impair_params p;
	char err[ERR_BYTES];
	int rc;

	if (!off && impair_parse(text, &p, err, sizeof(err)) != 0)
		return call_fail(c, "%s; `off` takes all of it away, docs/faults.md has all settings", err);
	for (unsigned int i = 0; i < hosts_count(); i++) {
		struct host *h = host_at(i);

		if (!call_means_host(c, h))
			continue;
		rc = control_set_impair(h->stack->control, h->port, off ? NULL : &p);
		if (rc != 0)
			return call_errno(c, h->name, rc);
		printf("%s: %s\n", h->name, off ? "not impaired" : text);
	}
	return 0;
}

static int
set_cc(struct call *c)
{
	int rc;

	for (unsigned int i = 0; i < hosts_count(); i++) {
		struct host *h = host_at(i);

		if (!call_means_host(c, h))
			continue;
		rc = control_set_cc(h->stack->control, h->port, (enum tp_cc)call_choice(c, "algorithm", 0));
		if (rc != 0)
			return call_errno(c, h->name, rc);
		printf("%s: %s, for QPs that are connected from now on\n", h->name, call_text(c, "algorithm"));
	}
	return 0;
}

static int
set_log(struct call *c)
{
	const char *type = call_has(c, "type") ? call_text(c, "type") : "uroce.*";

	if (rte_log_set_level_pattern(type, (uint32_t)call_choice(c, "level", 0) + 1) != 0)
		return call_fail(c, "type: '%s': no such pattern", type);
	printf("%s: %s\n", type, call_text(c, "level"));
	return 0;
}

static int
set_period(struct call *c)
{
	workloads_period((unsigned int)call_number(c, "seconds", 0));
	return 0;
}

static void
add_impair(const struct call *c, struct format *f, const struct host *h)
{
	char text[IMPAIR_TEXT_BYTES];
	struct impair_counters n;

	if (h->stack->impairs[h->port] == NULL)
		return;
	impair_counters(h->stack->impairs[h->port], &n);
	format_host_row(f, h);
	format_text(f, "settings", "%s", impair_format(&h->stack->conf.ports[h->port].impair, text, sizeof(text)));
#define IMPAIR_X(name) format_number(f, #name, n.name);
	IMPAIR_COUNTERS(IMPAIR_X)
#undef IMPAIR_X
}

static int
show_impair(struct call *c)
{
	return call_show_hosts(c, add_impair, FORMAT_LIST, "no host is impaired");
}

#define ARG_WHERE { "host", "what it receives; or all", ARG_NAME, ARG_NEEDED, .names = host_or_all }
static const struct arg impair_args[] = {
	ARG_WHERE,
	ARG_ANY("settings", "KEY=VALUE,... as loss=0.01,delay=100; or off", ARG_NEEDED),
	{ 0 },
};
static const struct arg cc_args[] = {
	ARG_WHERE,
	{ "algorithm", "congestion control", ARG_CHOICE, ARG_NEEDED, .names = cc_names },
	{ 0 },
};
static const struct arg log_args[] = {
	{ "level", "what is less important isn't printed", ARG_CHOICE, ARG_NEEDED, .words = log_words },
	ARG_ANY("type", "DPDK's log types by a pattern (uroce.*)", ARG_OPTIONAL),
	{ 0 },
};
static const struct arg period_args[] = {
	{ "seconds", "between lines about running workloads; 0: none", ARG_NUMBER, ARG_NEEDED, .min = 0, .max = PERIOD_MAX },
	{ 0 },
};
static const struct arg show_args[] = {
	{ "host", "which; all if left out", ARG_NAME, ARG_OPTIONAL, .names = host_or_all },
	ARG_JSON,
	{ 0 },
};
static const struct command table[] = {
	{ "set impair", "Make what a host receives worse: lose, delay, duplicate, corrupt packets.", impair_args, NULL, set_impair },
	{ "set cc", "Choose the congestion control of a host.", cc_args, NULL, set_cc },
	{ "set log", "Choose what is logged.", log_args, NULL, set_log },
	{ "set stats-period", "Print a line about each running workload every so often.", period_args, NULL, set_period },
	{ "show impair", "What is done to packets on purpose.", show_args, NULL, show_impair },
	{ 0 },
};
COMMANDS(table)
