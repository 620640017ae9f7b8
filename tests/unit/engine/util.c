/* SPDX-License-Identifier: BSD-3-Clause */
/** @file EAL, time and threads for the tests of lib/engine. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>

#include "base/own_dirs.h"
#include "util.h"

/* EAL leaves its folder. */
static void
remove_folder(void)
{
	own_dir_remove(rte_eal_get_runtime_dir());
}

int
eal_up(const char *name)
{
	char prefix[64];
	char *argv[] = { (char *)(uintptr_t)name, "--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--no-shconf",
			 "--log-level=error", "--file-prefix", prefix,
#ifdef UROCE_TSAN
			 "--mbuf-pool-ops-name=tsan", /* tests/sanitize/pool.c */
#endif
	};
	cpu_set_t cpus;
	int rc;

	snprintf(prefix, sizeof(prefix), "%s-%d", name, (int)getpid());
	sched_getaffinity(0, sizeof(cpus), &cpus);
	rc = rte_eal_init(sizeof(argv) / sizeof(argv[0]), argv);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (rc < 0)
		return -1;
	atexit(remove_folder);
	return 0;
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
