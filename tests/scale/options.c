/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: a table of options, all of which have a value. */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"

static const char *const workloads[] = {
	[SC_INCAST] = "incast", [SC_PERMUTATION] = "permutation", [SC_ALLTOALL] = "alltoall", [SC_STORAGE] = "storage", [SC_STORM] = "storm",
	[SC_MEMORY] = "memory",
};
enum { NB_WORKLOADS = sizeof(workloads) / sizeof(workloads[0]) };

enum type { U32, U64, REAL, BOOL, WORKLOAD, CC };
static const struct {
	const char *name;
	enum type type;
	size_t at;
	double least, most;
	const char *what;
} table[] = {
#define O(name, type, member, least, most, what) { name, type, offsetof(struct sc_options, member), least, most, what }
	O("k", U32, k, 4, 16, "ports of a switch: 4, 8, 16 for 16, 128, 1024 hosts"),
	O("workload", WORKLOAD, workload, 0, 0, "incast, permutation, alltoall, storage, storm, memory"),
	O("cc", CC, cc, 0, 0, "none, dcqcn, swift"),
	O("seed", U64, seed, 0, 1e18, "chooses everything that is random"),
	O("ms", REAL, ms, 0.01, 1e5, "time of the network"),
	O("warm-ms", REAL, warm_ms, 0, 1e5, "of which this much is not counted"),
	O("start-us", REAL, start_us, 0, 1e8, "connections begin one after another, at random times of this span; 0: all at once"),
	O("qps", U32, qps, 1, 4000000, "connections from a host to another; memory: QPs"),
	O("depth", U32, depth, 1, SC_DEPTH_MAX, "messages of a connection outstanding"),
	O("size", U32, size, 1, SC_REGION_BYTES, "bytes of a message"),
	O("fan-in", U32, fan_in, 1, 1023, "incast: senders"),
	O("far-us", REAL, far_us, 0, 1e5, "incast: how much farther away the first sender is, each way"),
	O("fanout", U32, fanout, 1, 1023, "storage: hosts that each host talks to"),
	O("load", REAL, load, 0.01, 2, "storage: of the links"),
	O("read", REAL, read_share, 0, 1, "storage: READs among the messages; the others are WRITEs"),
	O("window", U32, window, 1, 1023, "alltoall: messages of a host outstanding"),
	O("conns", U32, conns, 1, 2000000, "storm: connections that begin at once"),
	O("fail", U32, fail, 0, 1000, "links between switches that fail"),
	O("fail-at-ms", REAL, fail_at_ms, 0, 1e5, "when"),
	O("repair-ms", REAL, repair_ms, 0, 1e5, "and for how long"),
	O("detect-us", REAL, detect_us, 0, 1e6, "after which routing avoids them"),
	O("gbps", U32, gbps, 1, 400, "speed of all links"),
	O("prop-ns", U32, prop_ns, 1, 100000, "delay of a link, and of the switch behind it"),
	O("turn-ns", U32, turn_ns, 1, 100000, "time of a turn of an engine"),
	O("nic-bytes", U32, nic_bytes, 1, 1 << 24, "that a NIC has taken and not yet sent"),
	O("tx-packets", U32, tx_packets, 1, TP_TX_MAX, "that wait for the NIC"),
	O("buffer-kb", U32, buffer_kb, 1, 1 << 20, "memory of a switch, for each port"),
	O("alpha", REAL, alpha, 0.001, 1000, "a queue may have alpha times what is free"),
	O("kmin-kb", REAL, kmin_kb, 0, 1e6, "no marks in queues shorter than this"),
	O("kmax-kb", REAL, kmax_kb, 0, 1e6, "marks on all in longer ones"),
	O("pmax", REAL, pmax, 0, 1, "marks in queues of almost that length"),
	O("ecmp", BOOL, ecmp, 0, 1, "0: all take the first way"),
	O("mtu", U32, mtu, 256, 4096, "of paths"),
	O("timeout", U32, timeout, 0, 31, "ACK timeout: 4.096 us times 2 to the power of this"),
	O("retry", U32, retry, 0, 7, "retry_cnt"),
	O("cwnd", U32, cwnd, 0, 256, "most packets of a QP in flight; 0: the transport's own limit"),
	O("sack", BOOL, sack, 0, 1, "selective repeat"),
	O("tlp", BOOL, tlp, 0, 1, "tail loss probes"),
	O("min-share", REAL, min_share, 0, 1, "fail if the goodput is less, as a share of the links"),
	O("min-jain", REAL, min_jain, 0, 1, "fail if Jain's index is less"),
	O("max-p99", REAL, max_p99, 0, 1e9, "fail if the 99th percentile of completion time / ideal is more"),
	O("quiet", BOOL, quiet, 0, 1, "print one line"),
#undef O
};
enum { NB_OPTIONS = sizeof(table) / sizeof(table[0]) };

const char *
workload_name(enum sc_workload v)
{
	return workloads[v];
}

static bool
set(struct sc_options *o, uint32_t i, const char *value)
{
	void *p = (uint8_t *)o + table[i].at;
	char *end = NULL;
	double d;

	if (table[i].type == WORKLOAD || table[i].type == CC) {
		for (uint32_t v = 0; v < (table[i].type == CC ? (uint32_t)TP_CC_ALGORITHMS : (uint32_t)NB_WORKLOADS); v++) {
			if (strcmp(value, table[i].type == CC ? tp_cc_name((enum tp_cc)v) : workloads[v]) != 0)
				continue;
			if (table[i].type == CC)
				o->cc = (enum tp_cc)v;
			else
				o->workload = (enum sc_workload)v;
			return true;
		}
		return false;
	}
	d = strtod(value, &end);
	if (end == value || *end != 0 || !(d >= table[i].least && d <= table[i].most))
		return false;
	if (table[i].type == U32)
		*(uint32_t *)p = (uint32_t)d;
	else if (table[i].type == U64)
		*(uint64_t *)p = (uint64_t)d;
	else if (table[i].type == BOOL)
		*(bool *)p = d != 0;
	else
		*(double *)p = d;
	return true;
}

static void
usage(void)
{
	fputs("usage: scale [--OPTION VALUE]...\n", stderr);
	for (uint32_t i = 0; i < NB_OPTIONS; i++)
		fprintf(stderr, "  --%-12s %s\n", table[i].name, table[i].what);
}

bool
options_parse(int argc, char **argv, struct sc_options *o)
{
	struct option longs[NB_OPTIONS + 1] = { 0 };
	int i = -1;

	*o = (struct sc_options){
		.k = 4, .qps = 1, .depth = 2, .size = 65536, .fan_in = 8, .fanout = 16, .window = 16, .conns = 100000, .workload = SC_PERMUTATION,
		.cc = TP_CC_SWIFT, .seed = 1, .ms = 2, .warm_ms = -1, .load = 0.5, .read_share = 0.5, .fail_at_ms = 1, .repair_ms = 1e5, .detect_us = 100,
		.gbps = 100, .prop_ns = 600, .turn_ns = 400, .nic_bytes = 16384, .tx_packets = 16, .buffer_kb = 512, .alpha = 1,
		.kmin_kb = 100, .kmax_kb = 400, .pmax = 0.2, .ecmp = true, .mtu = 4096, .timeout = 14, .retry = 7, .sack = true, .tlp = true, .max_p99 = 1e9,
	};
	for (uint32_t n = 0; n < NB_OPTIONS; n++)
		longs[n] = (struct option){ table[n].name, required_argument, NULL, 0 };
	for (int ch; (ch = getopt_long(argc, argv, "", longs, &i)) != -1;) {
		if (ch != 0 || !set(o, (uint32_t)i, optarg)) {
			usage();
			return false;
		}
	}
	if (o->warm_ms < 0)
		o->warm_ms = o->ms / 5;
	if (optind != argc || (o->k & (o->k - 1)) != 0 || o->warm_ms >= o->ms || o->kmin_kb >= o->kmax_kb || (o->mtu & (o->mtu - 1)) != 0) {
		usage();
		return false;
	}
	return true;
}
