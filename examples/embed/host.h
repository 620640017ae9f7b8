/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One host: a uroce stack with one port, and on it the verbs objects of one connection.
 *
 * Except for creating the stack, everything is verbs, as in any other program. Thread: a host is used by one
 * thread at a time.
 */
#ifndef EMBED_HOST_H
#define EMBED_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before any other header that includes <infiniband/verbs.h>. */
#include "uroce_verbs.h"

enum { HOST_DEPTH = 16 }; /**< messages in flight */

struct host {
	struct uroce *stack;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem; /**< EAL's memory */
	size_t bytes;
};

/**
 * Create a host. On failure the reason is on stderr.
 * @param number  0 or 1: which end of the wire, and which address, the host gets.
 * @param bytes  Registered memory, in bytes.
 * @return false on failure; call host_close() nevertheless.
 */
bool host_open(struct host *h, unsigned int number, size_t bytes);
/** Wait until the port's link is up, some seconds at most. */
bool host_wait_link(struct host *h);
/**
 * Move the QP to RTS, connected to @p peer's. The two hosts read each other's QPN and address from memory; in other
 * applications the peers exchange them over TCP.
 */
bool host_connect(struct host *h, const struct host *peer);
/** Undo host_open(), also if it failed half-way. */
void host_close(struct host *h);

#endif /* EMBED_HOST_H */
