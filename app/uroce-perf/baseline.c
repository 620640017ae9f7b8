/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine can do without our stack: copying memory, and passing ring slots between two cores. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_pause.h>

#include "perf.h"
#include "ring/ring.h"

enum { ROUND_TRIPS = 200000, RING_ORDER = 7, SQ_SHIFT = 6, CQ_SHIFT = 5 };
#define MEMCPY_MEMORY (UINT64_C(256) << 20)

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int
baseline_memcpy(const struct perf_opts *o)
{
	uint64_t bytes = o->memory != 0 ? o->memory : MEMCPY_MEMORY, size = o->size, copied = 0;
	uint8_t *from, *to;
	double begin, took;

	if (size == 0 || size > bytes) {
		fprintf(stderr, "uroce-perf: --size: from 1 byte to --memory\n");
		return EXIT_FAILURE;
	}
	if (!arena_open(2 * bytes + (1 << 20)))
		return EXIT_FAILURE;
	from = arena_alloc(bytes, 4096);
	to = arena_alloc(bytes, 4096);
	memset(from, 0x5a, bytes);
	memset(to, 0xa5, bytes);
	begin = now_s();
	do {
		for (uint64_t off = 0; off + size <= bytes; off += size) {
			memcpy(to + off, from + off, size);
			__asm__ volatile("" : : "r"(to + off) : "memory");
			copied += size;
		}
		took = now_s() - begin;
	} while (took < o->seconds);
	report_baseline(o, "memcpy", "GB_per_s", (double)copied / took / 1e9, "GB/s");
	return EXIT_SUCCESS;
}

/** Rings alone, without transport or packets. */
struct bare {
	struct ring sq, cq;
};

static cpu_set_t
only(unsigned int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	return set;
}

/* Begin a thread on a core. It can't go there by itself: with SCHED_FIFO it would never run on the core of this thread, which polls. */
static int
begin_on(unsigned int core, pthread_t *thread, void *(*run)(void *), void *arg)
{
	cpu_set_t set = only(core);
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	rc = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	if (rc == 0)
		rc = pthread_create(thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return rc;
}

/** The engine's side: write a CQE for each WQE. */
static void *
echo(void *arg)
{
	struct bare *b = arg;

	for (uint32_t n = 0; n < ROUND_TRIPS; n++) {
		const struct ring_sq_wqe *w = ring_slot(&b->sq, n);
		struct ring_cqe *e = ring_slot(&b->cq, n);
		union ring_cqe_ctl ctl = { .wqe_counter = (uint16_t)n, .phase = ring_phase(n, RING_ORDER) };

		while (!ring_sq_ready(&b->sq, n))
			rte_pause();
		e->wr_id = w->wr_id;
		atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
	}
	return NULL;
}

/**
 * The program's side.
 * @return seconds per round trip.
 */
static double
ask(struct bare *b)
{
	double begin = now_s();

	for (uint32_t n = 0; n < ROUND_TRIPS; n++) {
		struct ring_sq_wqe *w = ring_slot(&b->sq, n);
		union ring_sq_ctl ctl = { .opcode = UROCE_WR_SEND, .count = 1 };
		union ring_cqe_ctl answer;

		w->wr_id = n;
		*wqe_sges(w, UROCE_WR_SEND) = (struct ring_sge){ .addr = n, .length = 8, .lkey = 1 };
		ring_sq_post(&b->sq, n, w, ctl);
		while (!ring_cq_ready(&b->cq, n, &answer))
			rte_pause();
	}
	return (now_s() - begin) / ROUND_TRIPS;
}

int
baseline_ring(const struct perf_opts *o, const unsigned int cores[2])
{
	struct bare b = {
		.sq = { RING_SIZE(RING_ORDER, SQ_SHIFT) },
		.cq = { RING_SIZE(RING_ORDER, CQ_SHIFT) },
	};
	cpu_set_t ours = only(cores[0]);
	pthread_t thread;
	double each;

	if (!arena_open(1 << 20))
		return EXIT_FAILURE;
	b.sq.base = arena_alloc((size_t)1 << (RING_ORDER + SQ_SHIFT), 4096);
	b.cq.base = arena_alloc((size_t)1 << (RING_ORDER + CQ_SHIFT), 4096);
	sched_setaffinity(0, sizeof(ours), &ours);
	if (begin_on(cores[1], &thread, echo, &b) != 0) {
		fprintf(stderr, "uroce-perf: no thread for the other end of the ring\n");
		return EXIT_FAILURE;
	}
	each = ask(&b);
	pthread_join(thread, NULL);
	report_baseline(o, "ring", "round_trip_ns", each * 1e9, "ns round trip of a WQE and its CQE");
	return EXIT_SUCCESS;
}
