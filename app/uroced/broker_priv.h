/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the daemon and its broker say to each other. Both are the same program, so that there is no version.
 */
#ifndef UROCED_BROKER_PRIV_H
#define UROCED_BROKER_PRIV_H

#include "broker.h"

/** What a stack asks with: a socket of its own, so that answers need not be told apart. */
struct broker_line {
	int sock; /**< the daemon's end, non-blocking; -1: unused */
};

struct broker {
	pid_t pid;
	int sock; /**< the daemon's end of the socket for what is said before the broker is sealed */
	struct broker_line lines[BROKER_LINES_MAX];
};

enum broker_op {
	BROKER_REMOVE, /**< before BROKER_SEAL; n: 1 if BROKER_END must have been said */
	BROKER_DETACH, /**< before BROKER_SEAL */
	BROKER_KEEP,
	BROKER_END,    /**< the daemon is about to end */
	BROKER_LINE,   /**< before BROKER_SEAL; with one descriptor: the other end of a socket for the calls below */
	BROKER_SEAL,
	BROKER_PROCESS, /**< with one descriptor: a program's socket */
	BROKER_OPEN,    /**< with two: its directory in /proc, and its mappings */
};

enum { BROKER_REQUEST_FDS = 2 };

struct broker_req {
	uint32_t op; /**< enum broker_op */
	uint32_t n;  /**< BROKER_OPEN: ranges; BROKER_REMOVE */
	uint64_t number; /**< of the answer */
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
	uint64_t number; /**< of the request */
	int32_t rc;      /**< 0 or an errno value */
	uint32_t nb_fds; /**< that come with it */
	uint32_t n;      /**< BROKER_OPEN: files */
	struct shared_file files[SHARED_BATCH]; /**< BROKER_OPEN; the fd of one with a descriptor is its index among them */
};

/**
 * Receive one message with descriptors.
 * @param flags  0: wait for it; MSG_DONTWAIT.
 * @param nb_fds  Room in @p fds, and then how many there are.
 * @return bytes received; 0: the other side is gone; -1: errno says why. EMFILE: the message came, but there was no room for its descriptors.
 */
long broker_receive(int sock, int flags, void *data, size_t bytes, int *fds, unsigned int *nb_fds);
/** @return 0 or an errno value. */
int broker_send(int sock, int flags, const void *data, size_t bytes, const int *fds, unsigned int nb_fds);

/** The broker's process: serves @p sock until the daemon is gone. */
void broker_serve(int sock) __attribute__((noreturn));

#endif /* UROCED_BROKER_PRIV_H */
