/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One host: a uroce stack with one port, and on it the verbs objects of one connection.
 *
 * Everything but the stack is verbs as in any other program. Thread: one at a time.
 */
#ifndef EMBED_HOST_H
#define EMBED_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before any other header that includes <infiniband/verbs.h>. */
#include "uroce_verbs.h"

enum { HOST_DEPTH = 16 }; /**< messages under way */

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
 * Bring a host up. Says on stderr what was wrong.
 * @param number  0 or 1: its end of the wire, and its address.
 * @param bytes  Of registered memory.
 * @return false: call host_close() all the same.
 */
bool host_open(struct host *h, unsigned int number, size_t bytes);
/** Wait until the port's link is up, some seconds at most. */
bool host_wait_link(struct host *h);
/** Move the QP to RTS towards @p peer's. What the two must know of each other they see in memory; others send it over TCP. */
bool host_connect(struct host *h, const struct host *peer);
/** Undo host_open(), however far it came. */
void host_close(struct host *h);

#endif /* EMBED_HOST_H */
