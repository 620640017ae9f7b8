/* SPDX-License-Identifier: BSD-3-Clause */
/** @file EAL, engines and threads for the tests of lib/engine. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>

#include "util.h"

enum { POOL_MBUFS = 2047, POOL_DATA = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES };

int
eal_up(const char *name)
{
	char prefix[64];
	char *argv[] = { (char *)(uintptr_t)name, "--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--no-shconf",
			 "--log-level=error", "--file-prefix", prefix };
	cpu_set_t cpus;
	int rc;

	snprintf(prefix, sizeof(prefix), "%s-%d", name, (int)getpid());
	sched_getaffinity(0, sizeof(cpus), &cpus);
	rc = rte_eal_init(sizeof(argv) / sizeof(argv[0]), argv);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	return rc < 0 ? -1 : 0;
}

void
nap_us(unsigned int us)
{
	const struct timespec ts = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };

	nanosleep(&ts, NULL);
}

uint64_t
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

bool
wait_for(const uint64_t *p, uint64_t v)
{
	uint64_t end = clock_ns() + UINT64_C(10000000000);

	while (__atomic_load_n(p, __ATOMIC_ACQUIRE) < v) {
		if (clock_ns() > end)
			return false;
		nap_us(50);
	}
	return true;
}

void
rig_up(struct rig *r, unsigned int n, enum engine_idle idle, uint16_t nb_ports, const uint16_t *port_ids)
{
	size_t bytes = rte_rcu_qsbr_get_memsize(n);
	struct engine *all[UROCE_MAX_ENGINES];

	r->qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE));
	assert_int_equal(rte_rcu_qsbr_init(r->qsbr, n), 0);
	r->pool = rte_pktmbuf_pool_create("pool", POOL_MBUFS, 0, 0, POOL_DATA, SOCKET_ID_ANY);
	assert_non_null(r->pool);
	for (uint16_t p = 0; p < nb_ports; p++) {
		r->port[p] = (struct net_port){ .index = p, .port_id = port_ids[p], .nb_queues = (uint16_t)n };
		r->ports[p] = &r->port[p];
	}
	memset(&rec, 0, sizeof(rec));
	rec.next_timeout = UINT64_MAX;
	for (unsigned int i = 0; i < n; i++) {
		/* The recording transport looks up nothing: any address will do for the tables. */
		const struct engine_config c = { .id = i, .nb_engines = n, .idle = idle, .ports = r->ports,
						 .nb_ports = nb_ports, .mrs = (struct mr_table *)r,
						 .qps = (struct qp_table *)r, .qsbr = r->qsbr, .pool = r->pool,
						 .socket_id = SOCKET_ID_ANY };

		r[i].e = engine_create(&c);
		assert_non_null(r[i].e);
		all[i] = r[i].e;
	}
	engine_connect(all, n);
}

void
rig_down(struct rig *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		engine_destroy(r[i].e);
	assert_int_equal(rte_mempool_in_use_count(r->pool), 0);
	rte_mempool_free(r->pool);
	free(r->qsbr);
}

static void *
run_main(void *e)
{
	return engine_loop(e) == 0 ? NULL : e;
}

void
run_begin(struct runner *r, struct engine *e)
{
	pthread_t thread;

	r->e = e;
	assert_int_equal(pthread_create(&thread, NULL, run_main, e), 0);
	r->thread = thread;
}

void
run_end(struct runner *r)
{
	void *rc;

	engine_stop(r->e);
	pthread_join(r->thread, &rc);
	assert_null(rc);
}
