/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The work of the two hosts, as steps of their loops. No step waits for anything.
 *
 * The client transfers messages of one size by RDMA WRITE with immediate, SEND or RDMA READ, with HOST_DEPTH messages
 * in flight. The content of a message depends on its number. The server checks every byte that it receives and answers
 * with an empty message; then the client reuses the memory of that message. After a READ the client checks every byte
 * itself.
 *
 * The memory of each host has HOST_DEPTH slots for messages, followed on the server by as many slots for READs.
 *
 * Threads: a client or server is used by one thread at a time.
 */
#ifndef EMBED_WORK_H
#define EMBED_WORK_H

#include "host.h"

enum work_op { WORK_WRITE, WORK_SEND, WORK_READ, WORK_OPS };
extern const char *const work_names[WORK_OPS];

/** @return bytes of memory that a host needs for messages of @p size bytes. */
size_t work_bytes(size_t size);

struct client {
	struct host *host;
	const struct host *peer; /**< its address and key */
	size_t size;
	enum work_op op;
	uint64_t sent, completed, answered; /**< messages of this operation */
	uint32_t number;                    /**< of the next message that the server checks, counted over all operations */
};

struct server {
	struct host *host;
	size_t size;
	uint32_t number; /**< of the next message */
};

/** @return false on failure, with a message on stderr, like all functions here. */
bool client_init(struct client *c, struct host *h, const struct host *peer, size_t size);
bool server_init(struct server *s, struct host *h, size_t size);
/** Begin another operation. All messages of the previous one must be done. */
void client_begin(struct client *c, enum work_op op);
/** Poll for completions, and post more messages if @p more. */
bool client_step(struct client *c, bool more);
/** @return the number of messages that have arrived, were checked and answered. */
uint64_t client_done(const struct client *c);
bool server_step(struct server *s);

#endif /* EMBED_WORK_H */
