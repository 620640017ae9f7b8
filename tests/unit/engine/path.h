/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What tests of the whole way share: hosts with real transports, engines on threads of their own and a wire made of rings; programs with their rings,
 * doorbells and memory.
 */
#ifndef TEST_ENGINE_PATH_H
#define TEST_ENGINE_PATH_H

#include "util.h"

enum { MEM_BYTES = 1 << 20, ENGINES = 2 };

/** What a daemon has: tables, engines, one port. */
struct host {
	struct shared sh;
	struct net_port port, *ports[1];
	struct engine *engines[ENGINES];
	struct runner runners[ENGINES];
	unsigned int nb_engines;
	uint8_t number; /**< last byte of MAC and IP address */
};

/** What a program has, and the daemon's objects for it. */
struct program {
	struct host *host;
	struct engine *engine, *home; /**< home: whose doorbell it rings */
	struct engine_session *session;
	struct ring_db *db;
	int kick_fd;
	struct ring sq, cq_ring;
	struct ring_qp_shared *qp_shared;
	struct ring_cq_shared *cq_shared;
	struct cq *cq;
	struct qp *qp;
	uint32_t qpn;
	struct mr *mr;
	uint8_t *mem;
};

/**
 * Join the ports of hosts 1 and 2, and those of 3 and 4; once. All queues of the first two send into the other's first RX queue, so that with two engines a
 * QP's packets arrive at the wrong one half the time. Each queue of the last two sends into the other's queue of the same number: there is no order between
 * engines.
 */
void wires_up(void);
/** Host @p number, with its engines running. */
void host_up(struct host *h, uint8_t number, unsigned int nb_engines);
/** Its programs must be gone. */
void host_end(struct host *h);

/** A program with a QP, at home at engine @p engine. */
void program_up(struct program *p, struct host *h, unsigned int engine);
void program_down(struct program *p);
/** From RESET to RTS. */
void program_connect(struct program *p, const struct program *peer, bool loopback);
/** Post a signalled WRITE of @p len bytes at @p off, to the same place at the peer; ring as a client does. */
void post_write(struct program *p, const struct program *peer, uint64_t wr_id, size_t off, uint32_t len);
/** Wait for the next completion. */
void expect_success(struct program *p, uint64_t wr_id);
/** WRITEs of all sizes from @p a to @p b, some together; each is polled by its last byte, then by its completion. */
void writes_arrive(struct program *a, struct program *b);

#endif /* TEST_ENGINE_PATH_H */
