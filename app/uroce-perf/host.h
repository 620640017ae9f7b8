/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A host: a port, its engines and tables, and its ends. Setup and teardown, on the main thread.
 */
#ifndef UROCE_PERF_HOST_H
#define UROCE_PERF_HOST_H

#include "end.h"
#include "engine/engine.h"
#include "impair.h"
#include "mem/mem.h"
#include "net/net.h"
#include "transport/transport.h"

enum { PERF_PD = 1 };

struct perf_host {
	const struct perf_opts *o;
	struct shared sh;
	struct net_port *port;
	struct impair *impair; /**< or NULL */
	unsigned int sgid_index;
	unsigned int nb_engines, nb_ends;
	struct engine *engines[PERF_MAX_ENGINES];
	struct perf_end *ends[PERF_MAX_ENGINES * PERF_ENDS_PER_ENGINE];
	struct engine *end_engine[PERF_MAX_ENGINES * PERF_ENDS_PER_ENGINE]; /**< the engine of each end's QPs */
};

/** What the peer of a QP has to know. Also the format on the TCP connection, between machines of the same kind. */
struct perf_peer {
	uint64_t addr;
	uint32_t qpn, psn, rkey;
};
/** What the peer of a host has to know. */
struct perf_hello {
	uint32_t magic, version;
	uint32_t op, test, size, mtu, qps, engines, depth;
	uint8_t gid[16], mac[6];
};

/** Set the impairments: hosts whose ports are among these are impaired. */
void host_set_impairs(const struct impair_vdevs *v);
/** @return false, with a message printed, if one of these ports isn't an open host's. */
bool host_impairs_found(void);
/** @return false with a message printed. */
bool host_open(struct perf_host *h, const struct perf_opts *o, unsigned int number, const char *ethdev,
	       const char *address);
/**
 * Add an end with its QPs, which @p engine drives.
 * @return NULL with a message printed.
 */
struct perf_end *host_add_end(struct perf_host *h, unsigned int engine, bool initiator, uint64_t tsc_hz);
void host_hello(const struct perf_host *h, struct perf_hello *hello);
/** Describe the o->qps QPs of end @p i. */
void host_peers(const struct perf_host *h, unsigned int i, struct perf_peer *peers);
/** Connect the QPs of end @p i. @return false with a message printed. */
bool host_connect(struct perf_host *h, unsigned int i, const struct perf_hello *hello, const struct perf_peer *peers,
		  bool loopback);
/** Print the transports' counters that aren't zero, for a test that failed. */
void host_print_counters(const struct perf_host *h, const char *name);
/** Destroy everything; what wasn't created is skipped. The engines must have stopped. */
void host_close(struct perf_host *h);

#endif /* UROCE_PERF_HOST_H */
