/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * uroce-perf measures the stack itself: engines in this process, no daemon.
 *
 * Arrangements (enum perf_role):
 *   pair           two hosts in this process, each with its lcores, joined by memif. Every lcore runs
 *                  its engine and its share of the workload in one loop.
 *   server, client the same with the hosts in two processes, on any wire; they meet over TCP.
 *   shm            one host; the workload is another process on another core that talks to the engine through
 *                  shared-memory rings, as verbs programs do. Its QPs are connected to each other.
 *
 * An *end* is a program's side of a set of QPs: it knows rings and memory, nothing of engines. The same code runs
 * inside the engine's loop and in the shm arrangement's process; all it touches lies in the arena, which both have
 * at the same address.
 */
#ifndef UROCE_PERF_H
#define UROCE_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/abi.h"

enum {
	PERF_MAX_ENGINES = 64,   /**< lcores per host */
	PERF_MAX_QPS = 4096,     /**< per lcore */
	PERF_MAX_DEPTH = 8192,   /**< WQEs in flight per QP */
	PERF_TCP_PORT = 18700,
	PERF_TEXT_BYTES = 64,
};

enum perf_role { PERF_PAIR, PERF_SERVER, PERF_CLIENT, PERF_SHM };
enum perf_op { PERF_WRITE, PERF_SEND, PERF_READ, PERF_FETCH_ADD, PERF_CMP_SWAP, PERF_OPS };
enum perf_test { PERF_RATE, PERF_LATENCY, PERF_MEMCPY, PERF_RING };

struct perf_opts {
	enum perf_role role;
	enum perf_op op;
	enum perf_test test;
	uint32_t size;           /**< bytes of a message */
	uint32_t depth;          /**< WQEs in flight per QP */
	uint32_t qps;            /**< per lcore */
	uint32_t signal;         /**< one of so many WQEs is signalled */
	uint32_t inline_bytes;   /**< messages up to this size are posted inline */
	uint32_t mtu;            /**< bytes */
	uint32_t rd_atomic;      /**< outstanding READs and atomics per QP */
	uint32_t engines;        /**< lcores per host */
	uint32_t iterations;     /**< of latency tests */
	double seconds, warmup;  /**< of rate tests */
	uint64_t operations;     /**< of rate tests, per lcore: the end of the test; 0: it ends after seconds */
	uint64_t memory;         /**< bytes per lcore that messages walk over; 0: depth * qps messages */
	bool brief;              /**< one line of key=value */
	bool ipv6;
	bool one_core;           /**< pair: both hosts on one lcore, for profiles without idle turns */
	char ethdev[PERF_TEXT_BYTES];   /**< server, client: DPDK's name of the port */
	char address[PERF_TEXT_BYTES];  /**< server, client: own address/prefix */
	char peer[PERF_TEXT_BYTES];     /**< client: host name for TCP */
	char gateway[PERF_TEXT_BYTES];  /**< MAC address of the next hop, if the peer isn't on the link */
	uint16_t tcp_port;
};

/** Parse the options behind "--". @return 0; 1: help was printed; -1: an error, with a message printed. */
int perf_opts_parse(int argc, char **argv, struct perf_opts *o);
const char *perf_op_name(enum perf_op op);
const char *perf_role_name(enum perf_role role);

/* ---- Arena: memory that the ends and, in the shm arrangement, two processes share ---- */
/** Reserve it, before anything else and before fork(). @return false with a message printed. */
bool arena_open(size_t bytes);
/** @return zeroed memory, aligned to @p align (a power of two); never NULL: exits with a message if there is none. */
void *arena_alloc(size_t bytes, size_t align);
/** @return bytes that ends of @p o need, both sides. */
size_t arena_need(const struct perf_opts *o);
/** @return "2 MiB pages" or "4 KiB pages". */
const char *arena_pages(void);

/** What a test found out; in the arena. */
struct perf_result {
	uint64_t ops;            /**< in the measured window */
	uint64_t all_ops;        /**< from start to end */
	uint64_t window_cycles;
	uint64_t busy_cycles[2]; /**< of the loops of initiator and target, from start to end; 0: not known */
	uint64_t engine_busy_cycles; /**< shm: of the engine */
	uint32_t *samples;       /**< latency, in cycles; round trips */
	uint32_t nb_samples;
};
/** Print the results of @p n lcores. */
void report(const struct perf_opts *o, struct perf_result *const *r, unsigned int n, uint64_t tsc_hz);
/** Print a baseline: @p key and its value. */
void report_baseline(const struct perf_opts *o, const char *what, const char *key, double value, const char *unit);

/* ---- Tests that need no QPs ---- */
/** memcpy of o->size pieces over o->memory bytes, on the calling core. @return exit status. */
int baseline_memcpy(const struct perf_opts *o);
/** Client posts a WQE, another core answers with a CQE: the round trip. @return exit status. */
int baseline_ring(const struct perf_opts *o, const unsigned int cores[2]);

#endif /* UROCE_PERF_H */
