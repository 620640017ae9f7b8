/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * uroce-perf measures the stack itself: the engines run in this process, without a daemon.
 *
 * Arrangements (enum perf_role):
 *   pair           two hosts in this process, each with its own lcores, joined by memif. Every lcore runs its engine
 *                  and its part of the workload in one loop.
 *   server, client the same with the hosts in two processes, over any network; they exchange data over TCP.
 *   shm            one host; the workload is another process on another core that uses the engine through
 *                  shared-memory rings, as verbs programs do. Its QPs are connected to each other.
 *
 * An *end* is a program's side of a set of QPs: it uses rings and memory, but knows nothing of engines. The same code
 * runs in the engine's loop and in the shm arrangement's process; all its data is in the arena, which both map at the
 * same address.
 */
#ifndef UROCE_PERF_H
#define UROCE_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cores.h"
#include "ring/abi.h"

enum {
	PERF_MAX_ENGINES = 64,   /**< lcores per host */
	PERF_MAX_DEPTH = 8192,   /**< WQEs in flight per QP */
	PERF_ENDS_PER_ENGINE = 2, /**< at most: shm has both ends in one host */
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
	uint32_t active;         /**< of these, how many send, spread evenly over all */
	uint32_t signal;         /**< one of so many WQEs is signaled */
	uint32_t inline_bytes;   /**< messages up to this size are posted inline */
	uint32_t mtu;            /**< bytes */
	uint32_t rd_atomic;      /**< outstanding READs and atomics per QP */
	uint32_t engines;        /**< lcores per host */
	uint32_t iterations;     /**< number of operations in latency tests */
	double seconds, warmup;  /**< for rate tests */
	uint64_t operations;     /**< for rate tests: the test ends after so many per lcore; 0: it ends after seconds */
	uint64_t memory;         /**< bytes per lcore that messages use in turn; 0: depth * qps messages */
	bool loop_frames;        /**< shm: packets are frames, not references */
	bool journal;            /**< engines write down what survives a crash, as with daemon.survive_crash */
	bool brief;              /**< one line of key=value */
	bool ipv6;
	bool one_core;           /**< pair: both hosts on one lcore, for profiles without idle loops */
	char ethdev[PERF_TEXT_BYTES];   /**< server, client: DPDK's name of the port */
	char address[PERF_TEXT_BYTES];  /**< server, client: own address/prefix */
	char peer[PERF_TEXT_BYTES];     /**< client: host name for TCP */
	char gateway[PERF_TEXT_BYTES];  /**< MAC address of the next hop, if the peer isn't on the link */
	uint16_t tcp_port;
};

/** @return true if @p arg is one of our options, with "=VALUE" or without. */
bool perf_is_option(const char *arg);
/** Parse the options behind "--", or all if there is none. @return 0; 1: help was printed; -1: an error, with a message printed. */
int perf_opts_parse(int argc, char **argv, struct perf_opts *o);
const char *perf_op_name(enum perf_op op);
const char *perf_role_name(enum perf_role role);

/* ---- Arena: memory shared by the ends and, in the shm arrangement, by two processes ---- */
/**
 * Reserve the arena, before anything else and before fork().
 * @return false with a message printed.
 */
bool arena_open(size_t bytes);
/**
 * Allocate zeroed memory, aligned to @p align (a power of two).
 * @return never NULL: the process exits with a message if there is no memory left.
 */
void *arena_alloc(size_t bytes, size_t align);
/** @return bytes that the ends of both sides need with @p o. */
size_t arena_need(const struct perf_opts *o);
/** @return "2 MiB pages" or "4 KiB pages". */
const char *arena_pages(void);

/** Results of a test; in the arena. */
struct perf_result {
	uint64_t ops;            /**< in the measured interval */
	uint64_t all_ops;        /**< from start to end */
	uint64_t interval_cycles;
	uint64_t busy_cycles[2]; /**< of the loops of initiator and target, from start to end; 0: unknown */
	uint64_t engine_busy_cycles; /**< shm: of the engine */
	uint32_t *samples;       /**< latency tests: round trips, in cycles */
	uint32_t nb_samples;
};
/** Print the results of @p n lcores, and whether the cores of @p c were enough. */
void report(const struct perf_opts *o, struct perf_result *const *r, unsigned int n, uint64_t tsc_hz, const struct cores *c);
/** Print the value @p key of a baseline. */
void report_baseline(const struct perf_opts *o, const char *what, const char *key, double value, const char *unit);

/* ---- Tests that need no QPs ---- */
/**
 * memcpy() o->size bytes at a time over o->memory bytes, on the calling core.
 * @return exit status.
 */
int baseline_memcpy(const struct perf_opts *o);
/**
 * Measure the round trip of a WQE from a program to another core and the CQE back.
 * @return exit status.
 */
int baseline_ring(const struct perf_opts *o, const unsigned int cores[2]);

#endif /* UROCE_PERF_H */
