/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host sends what to whom. */
#include <math.h>
#include <stdlib.h>

#include "scale.h"

/*
 * Sizes of a storage cluster's messages: bytes, and how many per cent are not longer (Li et al., HPCC, SIGCOMM 2019; the file AliStorage2019.txt of its
 * simulator). Between two rows they are evenly distributed.
 */
static const struct { double bytes, percent; } sizes[] = {
	{ 0, 0 }, { 4000, 22.93 }, { 8000, 69.21 }, { 16000, 80.61 }, { 32000, 90.47 },
	{ 64000, 93.53 }, { 128000, 96.77 }, { 256000, 97.53 }, { 2000000, 100 },
};
enum { NB_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static double
uniform(struct rng *r)
{
	return (double)(rng_next(r) >> 11) / 9007199254740992.0;
}

static uint32_t
storage_size(struct rng *r)
{
	double p = 100 * uniform(r), bytes;
	uint32_t i = 1;

	while (i < NB_SIZES - 1 && p > sizes[i].percent)
		i++;
	bytes = sizes[i - 1].bytes + (sizes[i].bytes - sizes[i - 1].bytes) * (p - sizes[i - 1].percent) / (sizes[i].percent - sizes[i - 1].percent);
	return bytes < 1 ? 1 : (uint32_t)bytes;
}

static double
storage_mean(void)
{
	double mean = 0;

	for (uint32_t i = 1; i < NB_SIZES; i++)
		mean += (sizes[i].bytes + sizes[i - 1].bytes) / 2 * (sizes[i].percent - sizes[i - 1].percent) / 100;
	return mean;
}

/* All hosts in random order. */
static uint32_t *
shuffled(void)
{
	uint32_t *order = malloc(w.nb_hosts * sizeof(*order));

	if (order == NULL)
		abort();
	for (uint32_t i = 0; i < w.nb_hosts; i++) {
		uint32_t j = (uint32_t)rng_below(&w.work_rng, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	return order;
}

static uint32_t
another_host(uint32_t host)
{
	return (host + 1 + (uint32_t)rng_below(&w.work_rng, w.nb_hosts - 1)) % w.nb_hosts;
}

static void
make_incast(void)
{
	uint32_t *order = shuffled();

	net_far(order[1]);
	for (uint32_t i = 1; i <= w.o.fan_in; i++)
		stream_add(order[i], order[0], w.o.qps, w.o.depth, false);
	free(order);
}

/* Each host sends to the next one in a random order of all. */
static void
make_permutation(void)
{
	uint32_t *order = shuffled();

	for (uint32_t i = 0; i < w.nb_hosts; i++)
		stream_add(order[i], order[(i + 1) % w.nb_hosts], w.o.qps, w.o.depth, false);
	free(order);
}

static void
make_storage(void)
{
	for (uint32_t i = 0; i < w.nb_hosts; i++) {
		w.hosts[i].first_stream = w.nb_streams;
		w.hosts[i].nb_streams = w.o.fanout;
		for (uint32_t j = 0; j < w.o.fanout; j++)
			stream_add(i, another_host(i), w.o.qps, w.o.depth, false);
	}
}

/* One connection for each two hosts, which both use: the streams from i to j > i are those from i's first on, two for each j. */
static void
make_alltoall(void)
{
	for (uint32_t i = 0; i < w.nb_hosts; i++) {
		w.hosts[i].first_stream = w.nb_streams;
		w.hosts[i].cursor = i;
		for (uint32_t j = i + 1; j < w.nb_hosts; j++)
			stream_add(i, j, 1, w.o.depth, true);
	}
}

static uint32_t
stream_between(uint32_t from, uint32_t to)
{
	return from < to ? w.hosts[from].first_stream + 2 * (to - from - 1) : w.hosts[to].first_stream + 2 * (from - to - 1) + 1;
}

static void
make_storm(void)
{
	for (uint32_t i = 0; i < w.o.conns; i++)
		stream_add(i % w.nb_hosts, another_host(i % w.nb_hosts), 1, 1, false);
}

bool
work_make(void)
{
	switch (w.o.workload) {
	case SC_INCAST:
		if (w.o.fan_in >= w.nb_hosts)
			return false;
		make_incast();
		break;
	case SC_PERMUTATION:
		make_permutation();
		break;
	case SC_ALLTOALL:
		make_alltoall();
		break;
	case SC_STORAGE:
		make_storage();
		break;
	case SC_STORM:
		make_storm();
		break;
	case SC_MEMORY:
		return false;
	}
	return true;
}

/* The next message of an all-to-all exchange: to the host after the one before. */
static void
next_peer(uint32_t host)
{
	struct sc_host *h = &w.hosts[host];

	h->cursor = (h->cursor + 1) % w.nb_hosts;
	if (h->cursor == host)
		h->cursor = (h->cursor + 1) % w.nb_hosts;
	stream_send(stream_between(host, h->cursor), w.o.size, false);
}

/* A host's messages come at random times (a Poisson process), whatever has become of those before. */
static void
post_later(uint32_t host)
{
	double mean_ns = storage_mean() * 8 / (w.o.load * w.o.gbps);

	event_new(SC_POSTS, host, w.now + 1 + (uint64_t)(-log(1 - uniform(&w.hosts[host].rng)) * mean_ns));
}

void
work_posts(uint32_t host)
{
	struct sc_host *h = &w.hosts[host];

	stream_send(h->first_stream + (uint32_t)rng_below(&h->rng, h->nb_streams), storage_size(&h->rng), uniform(&h->rng) < w.o.read_share);
	post_later(host);
}

void
work_start(void)
{
	w.open = w.o.workload == SC_STORM ? w.nb_streams : 0;
	if (w.o.workload == SC_STORAGE || w.o.workload == SC_ALLTOALL) {
		for (uint32_t i = 0; i < w.nb_hosts; i++) {
			if (w.o.workload == SC_STORAGE)
				post_later(i);
			else
				for (uint32_t j = 0; j < w.o.window; j++)
					next_peer(i);
		}
		return;
	}
	for (uint32_t i = 0; i < w.nb_ends; i++) {
		if (w.o.start_us == 0)
			end_fill(&w.ends[i]);
		else
			event_new(SC_STARTS, i, rng_below(&w.work_rng, (uint64_t)(w.o.start_us * 1e3) + 1));
	}
}

void
work_done(struct sc_end *e)
{
	switch (w.o.workload) {
	case SC_INCAST:
	case SC_PERMUTATION:
		end_fill(e);
		break;
	case SC_ALLTOALL:
		next_peer(e->host);
		break;
	case SC_STORM:
		if (--w.open == 0)
			w.storm_ns = w.now;
		break;
	case SC_STORAGE:
	case SC_MEMORY:
		break;
	}
}
