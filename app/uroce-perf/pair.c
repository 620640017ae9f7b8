/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts in this process, joined by memif; host 0 initiates. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_lcore.h>
#include <rte_launch.h>

#include "lane.h"

enum { LINK_TRIES = 500, LINK_WAIT_US = 10000, HOSTS = 2 };

static const char *const addresses[2][HOSTS] = {
	{ "198.18.0.1/24", "198.18.0.2/24" },
	{ "fd00:18::1/64", "fd00:18::2/64" },
};

struct pair {
	struct perf_host hosts[HOSTS];
	struct perf_end *ends[HOSTS * PERF_MAX_ENGINES];
	struct perf_lane lanes[HOSTS][PERF_MAX_ENGINES];
	_Atomic bool stop;
};

static void
port_name(char *name, size_t bytes, unsigned int side)
{
	snprintf(name, bytes, "net_memif%u", side);
}

/**
 * Create the ports, the memif server before its client. Each has a queue per engine, and buffers large enough for MTU
 * 4096.
 */
static bool
wire_create(const struct perf_opts *o)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		char name[32], args[160];

		port_name(name, sizeof(name), i);
		snprintf(args, sizeof(args),
			 "role=%s,id=0,bsize=4352,rsize=7,socket=uroce-perf-%d,socket-abstract=yes",
			 i == 0 ? "server" : "client", (int)getpid());
		if (rte_eal_hotplug_add("vdev", name, args) != 0) {
			fprintf(stderr, "uroce-perf: no memif port; is DPDK's memif driver installed?\n");
			return false;
		}
	}
	return true;
}

static bool
wait_for_link(struct pair *p)
{
	for (unsigned int i = 0; i < LINK_TRIES; i++) {
		if (net_port_link(p->hosts[0].port, NULL) && net_port_link(p->hosts[1].port, NULL))
			return true;
		usleep(LINK_WAIT_US);
	}
	fprintf(stderr, "uroce-perf: the memif link doesn't come up\n");
	return false;
}

static bool
connect_ends(struct pair *p, const struct perf_opts *o)
{
	struct perf_peer *peers = calloc(o->qps, sizeof(*peers));
	struct perf_hello hello;
	bool ok = peers != NULL;

	for (unsigned int side = 0; ok && side < HOSTS; side++)
		for (unsigned int i = 0; ok && i < o->engines; i++) {
			host_hello(&p->hosts[!side], &hello);
			host_peers(&p->hosts[!side], i, peers);
			ok = host_connect(&p->hosts[side], i, &hello, peers, false);
		}
	free(peers);
	return ok;
}

static bool
set_up(struct pair *p, const struct perf_opts *o)
{
	if (!wire_create(o))
		return false;
	for (unsigned int side = 0; side < HOSTS; side++) {
		char name[32];

		port_name(name, sizeof(name), side);
		if (!host_open(&p->hosts[side], o, side, name, addresses[o->ipv6][side]))
			return false;
		for (unsigned int i = 0; i < o->engines; i++) {
			if (!lane_add(&p->lanes[side][i], &p->hosts[side], i, side == 0, &p->stop))
				return false;
			p->ends[side * o->engines + i] = p->hosts[side].ends[i];
		}
	}
	return host_impairs_found() && connect_ends(p, o) && wait_for_link(p);
}

static void
watch(void *arg)
{
	struct pair *p = arg;

	if (ends_done(p->ends, p->hosts[0].nb_ends + p->hosts[1].nb_ends))
		atomic_store(&p->stop, true);
}

/** Run the lanes: the main lcore runs the first lane of host 0, the other lcores the others, in order. */
static void
run_lanes(struct pair *p, const struct perf_opts *o)
{
	unsigned int lcore = rte_get_main_lcore();

	p->lanes[0][0].watch = watch;
	p->lanes[0][0].watch_arg = p;
	if (o->one_core) {
		struct perf_lane *both = &p->lanes[0][0];

		both->engines[both->nb_engines++] = p->hosts[1].engines[0];
		both->ends[both->nb_ends++] = p->hosts[1].ends[0];
		lane_run(both);
		return;
	}
	for (unsigned int n = 1; n < HOSTS * o->engines; n++) {
		lcore = rte_get_next_lcore(n == 1 ? (unsigned int)-1 : lcore, 1, 0);
		rte_eal_remote_launch(lane_run, &p->lanes[n % HOSTS][n / HOSTS], lcore);
	}
	lane_run(&p->lanes[0][0]);
	rte_eal_mp_wait_lcore();
}

static bool
results(struct pair *p, const struct perf_opts *o)
{
	struct perf_result *r[PERF_MAX_ENGINES];
	struct cores cores = lanes_cores(o->one_core ? 1 : HOSTS * o->engines);
	bool ok = true;

	for (unsigned int i = 0; i < o->engines; i++) {
		struct perf_end *from = p->hosts[0].ends[i], *to = p->hosts[1].ends[i];

		ok = check_end(from) && check_end(to) && ok;
		r[i] = from->result;
		r[i]->busy_cycles[0] = p->lanes[0][i].busy_cycles;
		r[i]->busy_cycles[1] = p->lanes[1][i].busy_cycles;
		cores.late_turns += p->lanes[0][i].late_turns + p->lanes[1][i].late_turns;
		if (o->one_core)
			r[i]->busy_cycles[0] = (uint64_t)((double)p->lanes[0][0].cpu_ns / 1e9 *
							  (double)rte_get_tsc_hz());
		if (ok && !end_verify(op_is_inbound(o->op) ? from : to, r[i]->all_ops)) {
			fprintf(stderr, "uroce-perf: the data that arrived isn't what was sent\n");
			ok = false;
		}
	}
	if (ok) {
		report(o, r, o->engines, rte_get_tsc_hz(), &cores);
	} else {
		host_print_counters(&p->hosts[0], "initiator");
		host_print_counters(&p->hosts[1], "target");
	}
	return ok;
}

/**
 * Close the two sides in turn: when one is closed, memif's interrupt thread handles that on the other, which must still
 * exist.
 */
static void
tear_down(struct pair *p)
{
	for (unsigned int side = HOSTS; side-- > 0;) {
		host_close(&p->hosts[side]);
		interrupts_handled();
	}
	for (unsigned int side = HOSTS; side-- > 0;) {
		char name[32];

		port_name(name, sizeof(name), side);
		rte_eal_hotplug_remove("vdev", name);
		interrupts_handled();
	}
}

int
run_pair(const struct perf_opts *o)
{
	struct pair *p = calloc(1, sizeof(*p));
	bool ok;

	if (p == NULL)
		return EXIT_FAILURE;
	if (!o->one_core && rte_lcore_count() < HOSTS * o->engines) {
		fprintf(stderr, "uroce-perf: --role pair with --engines %u needs %u lcores, EAL has %u: give -l 0-%u\n",
			o->engines, HOSTS * o->engines, rte_lcore_count(), HOSTS * o->engines - 1);
		free(p);
		return EXIT_FAILURE;
	}
	ok = set_up(p, o);
	if (ok) {
		run_lanes(p, o);
		ok = results(p, o);
	}
	tear_down(p);
	free(p);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
