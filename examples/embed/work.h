/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the two hosts say to each other, as steps of their loops: no step waits for anything.
 *
 * The client moves messages of one size by RDMA WRITE with immediate, SEND or RDMA READ, HOST_DEPTH of them under way. Each has bytes of
 * its own, by its number. The server checks every byte of what it gets and answers with an empty message, after which the client
 * uses that piece of memory again; of a READ the client checks every byte itself.
 *
 * Memory of each host: HOST_DEPTH slots for messages, then, on the server, as many for READs.
 *
 * Threads: a client or server is one thread's at a time.
 */
#ifndef EMBED_WORK_H
#define EMBED_WORK_H

#include "host.h"

enum work_op { WORK_WRITE, WORK_SEND, WORK_READ, WORK_OPS };
extern const char *const work_names[WORK_OPS];

/** @return memory that a host needs for messages of @p size bytes. */
size_t work_bytes(size_t size);

struct client {
	struct host *host;
	const struct host *peer; /**< its address and key */
	size_t size;
	enum work_op op;
	uint64_t sent, completed, answered; /**< messages of this operation */
	uint32_t number;                    /**< of the next one that the server checks, over all operations */
};

struct server {
	struct host *host;
	size_t size;
	uint32_t number; /**< of the next message */
};

/** @return false with a message on stderr, as all functions here. */
bool client_init(struct client *c, struct host *h, const struct host *peer, size_t size);
bool server_init(struct server *s, struct host *h, size_t size);
/** Begin another operation: all messages of the last one are done. */
void client_begin(struct client *c, enum work_op op);
/** Take what has completed, and post more if @p more. */
bool client_step(struct client *c, bool more);
/** @return the messages that are done: there, checked and answered. */
uint64_t client_done(const struct client *c);
bool server_step(struct server *s);

#endif /* EMBED_WORK_H */
