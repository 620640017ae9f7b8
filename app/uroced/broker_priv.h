/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the daemon and its broker say to each other. Both are the same program, so that there is no version.
 */
#ifndef UROCED_BROKER_PRIV_H
#define UROCED_BROKER_PRIV_H

#include <pthread.h>

#include "broker.h"

struct broker {
	pthread_mutex_t lock; /**< control threads of several stacks ask */
	pid_t pid;
	int sock; /**< the daemon's end; -1: the broker is gone, or was given up */
};

enum broker_op {
	BROKER_REMOVE, /**< before BROKER_SEAL */
	BROKER_DETACH, /**< before BROKER_SEAL */
	BROKER_SEAL,
	BROKER_PROCESS, /**< with one descriptor: a program's socket */
	BROKER_OPEN,    /**< with two: its directory in /proc, and its mappings */
};

enum { BROKER_REQUEST_FDS = 2 };

struct broker_req {
	uint32_t op; /**< enum broker_op */
	uint32_t n;  /**< BROKER_OPEN: ranges */
	union {
		char path[BROKER_PATH_BYTES];
		uint32_t ifindex;
		struct {
			struct identity id;
			bool confined;
		} seal;
		struct shared_range ranges[SHARED_BATCH];
	};
};

struct broker_rsp {
	int32_t rc;      /**< 0 or an errno value */
	uint32_t nb_fds; /**< that come with it */
	struct shared_file files[SHARED_BATCH]; /**< BROKER_OPEN; the fd of one with a descriptor is its index among them */
};

/**
 * Receive one message with descriptors; waits for it.
 * @param nb_fds  Room in @p fds, and then how many there are.
 * @return bytes received; 0: the other side is gone; -1: an error, or a message that isn't whole.
 */
long broker_receive(int sock, void *data, size_t bytes, int *fds, unsigned int *nb_fds);
/** @return 0 or an errno value. */
int broker_send(int sock, const void *data, size_t bytes, const int *fds, unsigned int nb_fds);

/** The broker's process: serves @p sock until the daemon is gone. */
void broker_serve(int sock) __attribute__((noreturn));

#endif /* UROCED_BROKER_PRIV_H */
