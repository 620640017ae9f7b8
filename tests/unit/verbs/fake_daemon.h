/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A daemon's end of the control socket, played by a thread of the test: one device "uroce7", CQs, nothing behind them.
 *
 * Owns: the socket, the last session's pipes and CQ memory. Thread: fields are read by the test between requests.
 */
#ifndef FAKE_DAEMON_H
#define FAKE_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "ring/ctl.h"

/** How it misbehaves. */
enum fake_fault {
	FAKE_HONEST,
	FAKE_OTHER_ABI,   /**< HELLO is answered by EPROTO and another version */
	FAKE_HANGS_UP,    /**< closes without an answer */
	FAKE_SHORT_REPLY, /**< half a reply */
	FAKE_WRONG_MAGIC,
	FAKE_WRONG_COUNT,  /**< more descriptors beside the reply than it says */
	FAKE_SILENT_ERROR, /**< ENOSPC with a message for every CTL_PD_ALLOC */
	FAKE_LATE,         /**< each answer takes a millisecond */
};

struct fake_daemon {
	/** If it isn't NULL, called before each reply, which it may fill. @p fd  What came with the request, or -1. Thread: of the session. */
	void (*on_request)(const struct ctl_req *req, struct ctl_rsp *rsp, int fd);
	char path[64];
	int listen_fd;
	enum fake_fault fault;
	bool one_segment;      /**< all CQs are in the first one's segment, which its reply brings */
	pthread_t thread;
	_Atomic int sock;      /**< of the session that opened the device, -1 if none */
	int async_fd, comp_fd; /**< where it sends events */
	uint64_t cq_cookie;
	struct ring_cqe *cqes; /**< of the last CQ */
	struct ring_cq_shared *cq_shared;
};

/** Start on a socket of its own; its path is in UROCE_SOCKET from then on. */
void fake_daemon_start(struct fake_daemon *d, enum fake_fault fault);
/** Close the open session's connection and pipes, as if the daemon had died. */
void fake_daemon_die(struct fake_daemon *d);

#endif /* FAKE_DAEMON_H */
