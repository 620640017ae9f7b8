/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the tests of lib/engine share: EAL without privileges, and a transport that only records what the engine
 * does to it (double.c).
 */
#ifndef TEST_ENGINE_UTIL_H
#define TEST_ENGINE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "engine/engine.h"

/** Start EAL without hugepages, privileges and files; the thread keeps its CPU affinity. @return 0 or -1. */
int eal_up(const char *name);
/** Sleep. */
void nap_us(unsigned int us);
/** CLOCK_MONOTONIC. */
uint64_t clock_ns(void);
/** Wait until *@p p is at least @p v, ten seconds at most. @return false: it never was. */
bool wait_for(const uint64_t *p, uint64_t v);

/** An engine with its surroundings. */
struct rig {
	struct engine *e;
	struct shared sh; /**< tables: pointers that nobody follows */
	struct net_port *ports[2];
	struct net_port port[2];
};
/** Engines 0 .. n-1 that share @p r[0]'s surroundings; ports are those with the given ethdev ids. */
void rig_up(struct rig *r, unsigned int n, enum engine_idle idle, uint16_t nb_ports, const uint16_t *port_ids);
void rig_down(struct rig *r, unsigned int n);
/** The CPUs of the engines' loops; none unless a test sets them. */
extern const int *rig_cpus;
extern unsigned int rig_nb_cpus;

/** The loop on a thread of its own. */
struct runner {
	struct engine *e;
	unsigned long thread;
};
void run_begin(struct runner *r, struct engine *e);
void run_end(struct runner *r);

/* What the recording transport was told and what it shall answer. One for all engines. */
struct qp {
	uint64_t rung;
};
struct recorded {
	uint64_t rx_packets, rx_trusted, rx_untrusted, runs, called, last_now_ns;
	struct tp_tap *tap; /**< of the last transport_set_tap() */
	uint64_t untold;   /**< completion events that wait for transport_tell() */
	uint64_t told, told_runs; /**< those that it raised, and runs when it did */
	unsigned int last_rx_engine;
	uint16_t last_rx_port;
	uint64_t next_timeout;       /**< transport_next_timeout() */
	bool light;                  /**< share_is_light() */
	uint32_t work;               /**< transport_run() */
	bool rx_gives_back;          /**< transport_rx() says that nothing is RoCE v2 */
	enum net_action action;      /**< net_rx() */
	bool learned;
	struct tp_port_config ports[UROCE_MAX_PORTS]; /**< transport_create() */
	void (*on_run)(void *arg, uint64_t now_ns); /**< called by transport_run() */
	void *on_run_arg;
};
extern struct recorded rec;
/** Make the transport of @p e emit an event on its next run. */
void double_emit(const struct tp_event *ev, uint32_t times);
/** QPs 1 to @p times fail on its next run, by @p why. */
void double_emit_failures(uint8_t why, uint32_t times);
/** MADs for QP 1 arrive on its next run, from QPs @p first and following. */
void double_emit_mads(uint32_t first, uint32_t times);
/** Hand a packet over from engine @p e to engine @p to on the next run. */
void double_handoff(unsigned int from, unsigned int to, uint16_t port, struct rte_mbuf *m, bool trusted);

#endif /* TEST_ENGINE_UTIL_H */
