/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

#ifdef UROCE_ASSERTIONS
static const char assertions[] = "on";
#else
static const char assertions[] = "off";
#endif

static int
by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static double
per(uint64_t a, uint64_t b)
{
	return b != 0 ? (double)a / (double)b : 0;
}

static void
report_rate(const struct perf_opts *o, struct perf_result *const *r, unsigned int n, uint64_t tsc_hz, const struct cores *c)
{
	double rate = 0;
	uint64_t ops = 0, busy[2] = { 0, 0 }, engine = 0;

	for (unsigned int i = 0; i < n; i++) {
		rate += per(r[i]->ops, r[i]->interval_cycles) * (double)tsc_hz;
		ops += r[i]->all_ops;
		busy[0] += r[i]->busy_cycles[0];
		busy[1] += r[i]->busy_cycles[1];
		engine += r[i]->engine_busy_cycles;
	}
	if (o->brief) {
		printf("role=%s op=%s test=rate size=%u qps=%u active=%u depth=%u engines=%u mtu=%u ops_per_s=%.0f GB_per_s=%.3f "
		       "ops=%llu cycles_initiator=%.0f cycles_target=%.0f cycles_engine=%.0f pages=%s pollers=%u cores=%u late_turns=%" PRIu64 " assertions=%s\n",
		       perf_role_name(o->role), perf_op_name(o->op), o->size, o->qps, o->active, o->depth, n, o->mtu, rate,
		       rate * o->size / 1e9, (unsigned long long)ops, per(busy[0], ops), per(busy[1], ops),
		       per(engine, ops), arena_pages(), c->pollers, c->cpus, c->late_turns, assertions);
		return;
	}
	printf("%s of %u bytes, %s, %u lcore(s) a side, %u QP(s) each, %u active, depth %u, MTU %u\n",
	       perf_op_name(o->op), o->size, perf_role_name(o->role), n, o->qps, o->active, o->depth, o->mtu);
	printf("  %.3f million/s per lcore, %.3f GB/s per lcore; all: %.3f million/s, %.3f GB/s\n", rate / n / 1e6,
	       rate / n * o->size / 1e9, rate / 1e6, rate * o->size / 1e9);
	printf("  busy cycles per message:");
	if (o->one_core)
		printf(" %.0f on both hosts together\n", per(busy[0], ops));
	else if (o->role == PERF_SHM)
		printf(" program %.0f, engine %.0f\n", per(busy[0], ops), per(engine, ops));
	else
		printf(" initiator %.0f, target %.0f\n", per(busy[0], ops), per(busy[1], ops));
}

static void
report_latency(const struct perf_opts *o, struct perf_result *r, uint64_t tsc_hz, const struct cores *c)
{
	/* The time of a message is half a ping-pong; READs and atomics are timed as a whole. */
	bool half = o->op == PERF_WRITE || o->op == PERF_SEND;
	double us = 1e6 / (double)tsc_hz / (half ? 2 : 1);
	uint32_t *s = r->samples, n = r->nb_samples;

	qsort(s, n, sizeof(*s), by_value);
	if (o->brief) {
		printf("role=%s op=%s test=latency size=%u median_us=%.3f p99_us=%.3f min_us=%.3f half=%d pollers=%u cores=%u "
		       "late_turns=%" PRIu64 " assertions=%s\n",
		       perf_role_name(o->role), perf_op_name(o->op), o->size, s[n / 2] * us,
		       s[(uint64_t)n * 99 / 100] * us, s[0] * us, half, c->pollers, c->cpus,
		       c->late_turns, assertions);
		return;
	}
	printf("%s of %u bytes, %s, %s: median %.3f us, 99%% %.3f us, least %.3f us\n", perf_op_name(o->op), o->size,
	       perf_role_name(o->role), half ? "half the ping-pong" : "post to completion", s[n / 2] * us,
	       s[(uint64_t)n * 99 / 100] * us, s[0] * us);
}

void
report(const struct perf_opts *o, struct perf_result *const *r, unsigned int n, uint64_t tsc_hz, const struct cores *c)
{
	char text[CORES_TEXT_BYTES];

	if (!o->brief && strcmp(assertions, "on") == 0)
		printf("This build checks its assertions (-Dassertions=true): it is slower than a release build.\n");
	if (o->test == PERF_RATE)
		report_rate(o, r, n, tsc_hz, c);
	else
		report_latency(o, r[0], tsc_hz, c);
	if (!o->brief && cores_scarce(c))
		printf("%s\n", cores_text(c, text, sizeof(text)));
}

void
report_baseline(const struct perf_opts *o, const char *what, const char *key, double value, const char *unit)
{
	if (o->brief)
		printf("baseline=%s size=%u %s=%.3f assertions=%s\n", what, o->size, key, value, assertions);
	else
		printf("%s: %.3f %s\n", what, value, unit);
}
