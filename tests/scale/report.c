/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run has brought. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scale.h"

enum { HEADERS = 14 + 20 + 8 + 12 + 4 };

/* @return the time that a message would take if it had the network for itself. */
static double
ideal_ns(const struct sc_end *e, const struct sc_msg *m)
{
	double ns_byte = net_ps_per_byte() / 1000, hops = net_hops(e->host, e->peer);
	uint32_t mtu = w.o.mtu, packets = (m->len + mtu - 1) / mtu, one = m->len < mtu ? m->len : mtu;
	double small = (HEADERS + SC_WIRE_BYTES) * ns_byte;

	/* All of it by the first link, its last packet by the others, and a request or an acknowledgement the other way. */
	return m->len * ns_byte + packets * small + (hops - 1) * (one * ns_byte + small) + hops * small + 2 * hops * w.o.prop_ns;
}

void
report_done(const struct sc_end *e, const struct sc_msg *m)
{
	if (m->posted_ns < w.warm_ns)
		return;
	if (w.nb_fct == w.max_fct) {
		w.max_fct = w.max_fct == 0 ? 4096 : 2 * w.max_fct;
		w.fct_us = realloc(w.fct_us, w.max_fct * sizeof(float));
		w.slow = realloc(w.slow, w.max_fct * sizeof(float));
		if (w.fct_us == NULL || w.slow == NULL)
			abort();
	}
	w.fct_us[w.nb_fct] = (float)(w.now - m->posted_ns) / 1000;
	w.slow[w.nb_fct++] = (float)((double)(w.now - m->posted_ns) / ideal_ns(e, m));
}

static int
by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static double
percentile(const float *v, double p)
{
	return w.nb_fct == 0 ? 0 : v[(uint32_t)(p * (w.nb_fct - 1))];
}

static double
stream_gbps(const struct sc_stream *s)
{
	uint64_t bytes = 0;

	for (uint32_t j = 0; j < s->nb; j++) {
		const struct sc_end *e = &w.ends[s->first + 2 * j];

		bytes += end_bytes(e) - e->warm_bytes;
	}
	return (double)bytes * 8 / (double)(w.now - w.warm_ns);
}

/* Goodput of each stream, added up and compared. */
static void
goodput(double *gbps, double *jain, double *lowest, double *highest)
{
	double squares = 0;

	*gbps = 0;
	*lowest = 1e18;
	*highest = 0;
	for (uint32_t i = 0; i < w.nb_streams; i++) {
		double one = stream_gbps(&w.streams[i]);

		*gbps += one;
		squares += one * one;
		*lowest = one < *lowest ? one : *lowest;
		*highest = one > *highest ? one : *highest;
	}
	*jain = squares > 0 ? *gbps * *gbps / (squares * w.nb_streams) : 0;
}

static struct tp_counters
all_counters(void)
{
	struct tp_counters all = { 0 };

	for (uint32_t i = 0; i < w.nb_hosts; i++) {
		const struct tp_counters *c = transport_counters(w.hosts[i].tp);

#define ADD(name) all.name += c->name;
		TP_COUNTERS(ADD)
#undef ADD
	}
	return all;
}

bool
report_print(void)
{
	struct tp_counters c = all_counters();
	double gbps, jain, lowest, highest, link, share, p99;
	bool good;

	goodput(&gbps, &jain, &lowest, &highest);
	link = w.o.workload == SC_INCAST ? w.o.gbps : (double)w.o.gbps * w.nb_hosts;
	share = gbps / link;
	if (w.nb_fct != 0) {
		qsort(w.fct_us, w.nb_fct, sizeof(float), by_size);
		qsort(w.slow, w.nb_fct, sizeof(float), by_size);
	}
	p99 = percentile(w.slow, 0.99);
	printf("%s k=%u %s seed %" PRIu64 ": goodput %.1f Gb/s, share %.3f, Jain %.3f, ", workload_name(w.o.workload), w.o.k, tp_cc_name(w.o.cc),
	       w.o.seed, gbps, share, jain);
	printf("FCT/ideal p50 %.2f p99 %.2f p99.9 %.2f, ", percentile(w.slow, 0.5), p99, percentile(w.slow, 0.999));
	printf("resent %.4f, drops %" PRIu64 ", marks %" PRIu64 ", retries exceeded %" PRIu64 "\n",
	       (double)c.retransmitted_packets / (double)(w.s.sent == 0 ? 1 : w.s.sent), w.s.dropped + w.s.dropped_links, w.s.marked, c.retry_exceeded_err);
	if (!w.o.quiet) {
		printf("  messages %" PRIu64 " (%u timed), FCT p50 %.1f p99 %.1f p99.9 %.1f us; streams %u, lowest %.3f highest %.3f Gb/s\n", w.s.msgs, w.nb_fct,
		       percentile(w.fct_us, 0.5), percentile(w.fct_us, 0.99), percentile(w.fct_us, 0.999), w.nb_streams, lowest, highest);
		printf("  packets %" PRIu64 ", dropped by switches %" PRIu64 ", by links %" PRIu64 ", longest queue %" PRIu64 " KiB; resent %" PRIu64
		       ", probes %" PRIu64 ", timeouts %" PRIu64 ", NAKs %" PRIu64 ", SACKs %" PRIu64 ", CNPs %" PRIu64 ", duplicates %" PRIu64 "\n",
		       w.s.sent, w.s.dropped, w.s.dropped_links, w.s.max_queue / 1024, c.retransmitted_packets, c.tail_loss_probes, c.local_ack_timeout_err,
		       c.packet_seq_err, c.sacks_sent, c.np_cnp_sent, c.duplicate_request);
		printf("  events %" PRIu64 ", %.1f s of this machine, %.2f us each packet\n", w.s.events, (double)w.s.wall_ns / 1e9,
		       (double)w.s.wall_ns / 1e3 / (double)(w.s.sent == 0 ? 1 : w.s.sent));
	}
	if (w.o.workload == SC_INCAST && w.o.far_us != 0)
		printf("  the sender that is farther away: %.3f Gb/s\n", stream_gbps(&w.streams[0]));
	if (w.o.workload == SC_STORM)
		printf("  storm: %u of %u messages complete%s %.3f ms\n", w.nb_streams - w.open, w.nb_streams, w.open == 0 ? ", the last after" : " after",
		       (double)(w.open == 0 ? w.storm_ns : w.now) / 1e6);
	good = share >= w.o.min_share && jain >= w.o.min_jain && p99 <= w.o.max_p99 && c.retry_exceeded_err == 0 && w.s.errors == 0 &&
	       (w.o.workload != SC_STORM || w.open == 0);
	if (!good)
		printf("FAILED: share %.3f of at least %.3f, Jain %.3f of %.3f, p99 %.2f of at most %.2f, retries exceeded %" PRIu64 ", errors %" PRIu64 "\n",
		       share, w.o.min_share, jain, w.o.min_jain, p99, w.o.max_p99, c.retry_exceeded_err, w.s.errors);
	return good;
}
