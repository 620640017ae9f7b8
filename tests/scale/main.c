/* SPDX-License-Identifier: BSD-3-Clause */
/* Making the world of a run, and its clock. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "scale.h"

enum { EXIT_MISSED = 1, EXIT_USAGE = 2, PIECE_BYTES = 16384, CACHE = 512, ROOM = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES };

struct sc_world w;

/* The same few pages again and again, so that bytes are copied from and to the CPU's cache. */
static uint8_t *
region_make(void)
{
	int fd = memfd_create("scale", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, SC_REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fd < 0 || p == MAP_FAILED || ftruncate(fd, PIECE_BYTES) != 0)
		return NULL;
	for (uint32_t i = 0; i < SC_REGION_BYTES; i += PIECE_BYTES)
		if (mmap(p + i, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
			return NULL;
	close(fd);
	return p;
}

static bool
setup(void)
{
	uint32_t mbufs = w.nb_hosts * (w.o.tx_packets + 40) + 4096, cpu = 0;
	char lcores[16], megabytes[16];
	char *argv[] = { "scale",    "--no-huge", "-m",          megabytes, "--no-pci", "--no-shconf", "--no-telemetry",
			 "--lcores", lcores,      "--log-level", "error",   NULL };
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return false;
	while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &cpus))
		cpu++;
	snprintf(lcores, sizeof(lcores), "0@%u", cpu);
	snprintf(megabytes, sizeof(megabytes), "%u", 64 + (uint32_t)((uint64_t)mbufs * (ROOM + 512) >> 20));
	if (rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv) < 0) {
		fprintf(stderr, "scale: EAL: %s\n", rte_strerror(rte_errno));
		return false;
	}
	sched_setaffinity(0, sizeof(cpus), &cpus);
	w.pool = rte_pktmbuf_pool_create("scale", mbufs, CACHE, 0, ROOM, SOCKET_ID_ANY);
	w.region = region_make();
	if (w.pool == NULL || w.region == NULL)
		fprintf(stderr, "scale: no memory\n");
	return w.pool != NULL && w.region != NULL;
}

static bool
world_make(void)
{
	w.m = w.o.k / 2;
	w.nb_hosts = w.o.k * w.m * w.m;
	w.end_ns = (uint64_t)(w.o.ms * 1e6);
	w.warm_ns = (uint64_t)(w.o.warm_ms * 1e6);
	w.net_rng = rng_stream(w.o.seed, 1);
	w.work_rng = rng_stream(w.o.seed, 2);
	w.hosts = calloc(w.nb_hosts, sizeof(*w.hosts));
	if (w.hosts == NULL || !setup())
		return false;
	events_init();
	net_init();
	if (w.o.workload == SC_MEMORY)
		w.hosts[0].nb_qps = w.o.qps;
	else if (!work_make())
		return false;
	return hosts_make() && host_cqs_make() && streams_connect();
}

static void
warm(void)
{
	for (uint32_t i = 0; i < w.nb_ends; i++)
		w.ends[i].warm_bytes = end_bytes(&w.ends[i]);
}

static void
happens(struct sc_event *e)
{
	switch ((enum sc_kind)e->kind) {
	case SC_ARRIVES:
		net_arrives((struct sc_pkt *)e);
		return;
	case SC_RUNS:
		host_runs(e->where, e->at);
		break;
	case SC_POSTS:
		work_posts(e->where);
		break;
	case SC_STARTS:
		end_fill(&w.ends[e->where]);
		break;
	case SC_LINKS:
		net_links(e->where);
		break;
	case SC_WARM:
		warm();
		break;
	}
	event_free(e);
}

static void
run(void)
{
	uint64_t fails = (uint64_t)(w.o.fail_at_ms * 1e6), whole = fails + (uint64_t)(w.o.repair_ms * 1e6), late = (uint64_t)(w.o.detect_us * 1e3);
	struct timespec t0, t1;
	struct sc_event *e;

	event_new(SC_WARM, 0, w.warm_ns);
	if (w.o.fail != 0) {
		event_new(SC_LINKS, 0, fails);
		event_new(SC_LINKS, 1, fails + late);
		event_new(SC_LINKS, 2, whole);
		event_new(SC_LINKS, 3, whole + late);
	}
	clock_gettime(CLOCK_MONOTONIC, &t0);
	work_start();
	while ((w.o.workload != SC_STORM || w.open != 0) && (e = event_take(w.end_ns)) != NULL) {
		w.s.events++;
		happens(e);
	}
	if (w.o.workload != SC_STORM)
		w.now = w.end_ns;
	clock_gettime(CLOCK_MONOTONIC, &t1);
	w.s.wall_ns = (uint64_t)((t1.tv_sec - t0.tv_sec) * 1000000000 + t1.tv_nsec - t0.tv_nsec);
}

int
main(int argc, char **argv)
{
	if (!options_parse(argc, argv, &w.o))
		return EXIT_USAGE;
	if (!world_make()) {
		fprintf(stderr, "scale: this network can't be made\n");
		return EXIT_USAGE;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (w.o.workload == SC_MEMORY)
		return memory_run();
	run();
	return report_print() ? EXIT_SUCCESS : EXIT_MISSED;
}
