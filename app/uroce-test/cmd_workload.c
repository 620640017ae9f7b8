/* SPDX-License-Identifier: BSD-3-Clause */
/* start, stop, wait, forget, show workload: traffic. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "format.h"
#include "workload.h"

enum { SECONDS_MAX = 86400 };

static int
run_start(struct call *c)
{
	const struct workload_ops *ops = workload_kind(call_text(c, "workload"));

	if (call_has(c, "on") && (call_has(c, "from") || call_has(c, "to") || call_has(c, "qps") || call_has(c, "mtu") ||
				  call_has(c, "ipv6")))
		return call_fail(c, "`on` names QPs that are connected already: from, to, qps, mtu and ipv6 are for QPs of its own");
	return workload_start(ops, c);
}

static const struct arg *
args_of_kind(const char *name)
{
	const struct workload_ops *ops = workload_kind(name);

	return ops != NULL ? ops->args : NULL;
}

static const char *
all_names(unsigned int i)
{
	return i == 0 ? "all" : workload_names(i - 1);
}

/** Call @p fn for the workload that the user named, or for all. */
static int
for_each(struct call *c, int (*fn)(struct call *c, struct workload *w))
{
	int rc = 0;

	if (strcmp(call_text(c, "workload"), "all") != 0)
		return fn(c, workload_find(call_text(c, "workload")));
	for (unsigned int i = 0; workload_at(i) != NULL; i++)
		if (fn(c, workload_at(i)) != 0)
			rc = -1;
	return rc;
}

static int
stop_one(struct call *c, struct workload *w)
{
	workload_stop(w);
	return workload_failing(w) ? -1 : 0;
}

static int
wait_one(struct call *c, struct workload *w)
{
	double seconds = call_real(c, "seconds", 0);

	if (atomic_load(&w->end_tsc) != 0)
		return workload_failing(w) ? -1 : 0;
	if (seconds == 0 && w->o.duration == 0 && w->o.count == 0)
		return call_fail(c, "%s ends only when it is stopped: say how many seconds to wait", w->name);
	if (!workload_wait(w, seconds))
		return call_fail(c, "%s runs still", w->name);
	return workload_failing(w) ? -1 : 0;
}

static int
run_stop(struct call *c)
{
	return for_each(c, stop_one);
}

static int
run_wait(struct call *c)
{
	return for_each(c, wait_one);
}

static int
run_forget(struct call *c)
{
	const char *name = call_text(c, "workload");
	struct workload *w = workload_find(name);

	if (w != NULL && atomic_load(&w->end_tsc) == 0)
		return call_fail(c, "%s is %s: stop it first", name, workload_state_text(w));
	if (w != NULL) {
		workload_forget(w);
		return 0;
	}
	for (unsigned int i = 0; (w = workload_at(i)) != NULL;) {
		if (atomic_load(&w->end_tsc) != 0)
			workload_forget(w);
		else
			i++;
	}
	return 0;
}

static void
add_row(struct format *f, struct workload *w)
{
	struct workload_figures g;
	char more[256] = "";

	workload_figures(w, false, &g);
	format_row(f);
	format_text(f, "name", "%s", w->name);
	format_text(f, "workload", "%s", w->ops->name);
	format_text(f, "state", "%s", workload_state_text(w));
	format_text(f, "from", "%s", w->from->name);
	format_text(f, "to", "%s", w->to->name);
	format_number(f, "qps", w->o.qps);
	format_number(f, "size", w->o.size);
	format_number(f, "depth", w->o.depth);
	format_real(f, "seconds", g.seconds, 2);
	format_number(f, "ops", g.ops);
	format_number(f, "bytes", g.bytes);
	format_real(f, "ops/s", g.ops_rate, 0);
	format_real(f, "Mbit/s", g.bit_rate / 1e6, 1);
	format_real(f, "p50_us", (double)g.p50 / 1e3, 1);
	format_real(f, "p99_us", (double)g.p99 / 1e3, 1);
	format_real(f, "p99.9_us", (double)g.p999 / 1e3, 1);
	if (w->ops->describe != NULL)
		w->ops->describe(w, more, sizeof(more));
	if (workload_failing(w))
		format_text(f, "note", "%s", w->error);
	else if (more[0] != '\0')
		format_text(f, "note", "%s", more);
}

static int
run_show(struct call *c)
{
	struct workload *w = workload_find(call_text(c, "workload"));
	struct format *f = format_new();

	if (w != NULL)
		add_row(f, w);
	for (unsigned int i = 0; w == NULL && workload_at(i) != NULL; i++)
		add_row(f, workload_at(i));
	return call_answer(c, f, w != NULL ? FORMAT_LIST : FORMAT_TABLE, "no workload has been started");
}

static const struct arg start_args[] = {
	{ "workload", "what kind of traffic", ARG_NAME, ARG_NEEDED, .names = workload_kind_names },
	{ "from", "the host that begins (h1)", ARG_NAME, ARG_KEYED, .names = host_names },
	{ "to", "the host at the other end (h2)", ARG_NAME, ARG_KEYED, .names = host_names },
	ARG_NUM("qps", "pairs of QPs, from each host that begins (1)", 1, WORKLOAD_QPS_MAX),
	{ "on", "connected QPs of yours instead, with commas between", ARG_NAME, ARG_KEYED, .list = true, .names = qp_names },
	ARG_NUM("size", "bytes of a message, at most of one whose length is random", 1, WORKLOAD_SIZE_MAX),
	ARG_NUM("depth", "operations outstanding per QP", 1, WORKLOAD_DEPTH_MAX),
	{ "rate", "operations per second of all QPs; as fast as it goes", ARG_REAL, ARG_KEYED, .min = 0.001, .max = 1e9 },
	{ "duration", "seconds; until it is stopped", ARG_REAL, ARG_KEYED, .min = 0.001, .max = SECONDS_MAX },
	ARG_NUM("count", "operations of all QPs; no limit", 1, 1e15),
	ARG_NUM("seed", "of what is random: bytes, lengths, PSNs (1)", 0, 1e15),
	{ "mtu", "bytes of a packet's payload; as large as the port has it", ARG_CHOICE, ARG_KEYED, .words = mtu_words },
	ARG_WORD("ipv6", "by the IPv6 addresses"),
	{ 0 },
};
static const struct arg one_args[] = {
	{ "workload", "which", ARG_NAME, ARG_NEEDED, .names = all_names },
	{ 0 },
};
static const struct arg wait_args[] = {
	{ "workload", "which", ARG_NAME, ARG_NEEDED, .names = all_names },
	{ "seconds", "at most; as long as it takes", ARG_REAL, ARG_OPTIONAL, .min = 0.001, .max = SECONDS_MAX },
	{ 0 },
};
static const struct arg show_args[] = {
	{ "workload", "which; all if left out", ARG_NAME, ARG_OPTIONAL, .names = all_names },
	ARG_JSON,
	{ 0 },
};

static const struct command table[] = {
	{ "start", "Start a workload, on QPs of its own between two hosts, or on yours.", start_args, args_of_kind, run_start },
	{ "stop", "Stop a workload: what has begun is finished.", one_args, NULL, run_stop },
	{ "wait", "Wait until a workload has ended.", wait_args, NULL, run_wait },
	{ "forget", "Take workloads that have ended off the list.", one_args, NULL, run_forget },
	{ "show workload", "What workloads do or have done.", show_args, NULL, run_show },
	{ 0 },
};
COMMANDS(table)
