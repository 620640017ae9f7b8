/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory and time many QPs of one host need. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "scale.h"

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long size, resident = 0;

	if (f != NULL) {
		if (fscanf(f, "%lu %lu", &size, &resident) != 2)
			resident = 0;
		fclose(f);
	}
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* All QPs share one ring and one shared page, as no program ever posts: those are a program's memory, not the transport's. */
int
memory_run(void)
{
	static struct ring_qp_shared shared;
	static uint8_t slot[64] __attribute__((aligned(64)));
	struct qp_params p = { .type = UROCE_QPT_RC, .pd = 1, .send_cq = w.hosts[0].cq, .recv_cq = w.hosts[0].cq, .shared = &shared,
			       .cap = { .max_send_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }, .sq = { .base = slot, .shift = 6 } };
	struct qp **qps = calloc(w.o.qps, sizeof(*qps));
	uint64_t turns = 1000, work = 0;
	double t0, made, connected, ran, bytes0, bytes1, bytes2;

	if (qps == NULL)
		return 2;
	for (uint32_t i = 0; i < w.o.qps; i++)
		qps[i] = NULL; /* so that its pages count before */
	bytes0 = resident_bytes();
	t0 = seconds();
	for (uint32_t i = 0; i < w.o.qps; i++) {
		if (qp_create(w.hosts[0].tp, &p, &qps[i]) != 0) {
			printf("QP %u can't be created\n", i);
			return 1;
		}
	}
	made = seconds();
	bytes1 = resident_bytes();
	for (uint32_t i = 0; i < w.o.qps; i++)
		if (!qp_connect(0, qps[i], 1 + i % (w.nb_hosts - 1), qps[i], 0, 0))
			return 1;
	connected = seconds();
	bytes2 = resident_bytes();
	for (uint64_t i = 0; i < turns; i++) {
		w.now += 1000;
		work += transport_run(w.hosts[0].tp, w.now);
	}
	ran = seconds();
	printf("memory %s: %u QPs; %.0f bytes each when created, %.0f in RTS (%.2f GB for all); created in %.2f us each, to RTS in %.2f us each; "
	       "a turn with all idle %.0f ns (%.0f things done)\n",
	       tp_cc_name(w.o.cc), w.o.qps, (bytes1 - bytes0) / w.o.qps, (bytes2 - bytes0) / w.o.qps, (bytes2 - bytes0) / 1e9, (made - t0) * 1e6 / w.o.qps,
	       (connected - made) * 1e6 / w.o.qps, (ran - connected) * 1e9 / (double)turns, (double)work);
	t0 = seconds();
	for (uint32_t i = 0; i < w.o.qps; i++)
		qp_destroy(w.hosts[0].tp, qps[i]);
	printf("  destroyed in %.2f us each\n", (seconds() - t0) * 1e6 / w.o.qps);
	free(qps);
	return 0;
}
