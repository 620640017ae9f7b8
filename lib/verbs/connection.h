/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A connection to uroced: finding its socket, HELLO, requests and replies (lib/ring/ctl.h).
 *
 * Shared by libibverbs and librdmacm. Owns nothing: the caller has the sockets, and the lock that allows one request at
 * a time. Threads: any.
 */
#ifndef UROCE_CONNECTION_H
#define UROCE_CONNECTION_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/ctl.h"

enum {
	CLIENT_MAX_COMPLAINTS = 20, /**< lines on stderr per process */
	CLIENT_CREATE_IN_INIT = 1 << 30, /**< a flag for ibv_create_qp_ex(), of librdmacm: CTL_QP_CREATE's in_init; the QP's state says what became of it */
};

/** poll() without a timeout, for a process that must drive the daemon itself while it waits (lib/uroce). */
typedef int (*client_wait_fn)(struct pollfd *fds, unsigned long n);

/** A request and its reply: the caller fills in req, optionally fds; client_call() fills in rsp and got. */
struct client_call {
	struct ctl_req req;
	struct ctl_rsp rsp;
	int fds[CTL_MAX_FDS]; /**< to send; remain the caller's */
	uint32_t nb_fds;
	int got[CTL_MAX_FDS]; /**< received; the caller must close them */
	uint32_t nb_got;
	const struct ctl_seg *segs;
	uint32_t nb_segs;
	bool quiet; /**< print no message if the daemon refuses, because the caller has an alternative */
	client_wait_fn wait; /**< NULL: sleep until the reply arrives */
};

/** Start a request: everything is zero except magic and op. */
void client_call_init(struct client_call *c, enum ctl_op op);
/**
 * Send a request on @p sock and receive its reply.
 * @return 0; the daemon's errno value; EIO if the connection failed: then *@p broken is set and got is empty.
 */
int client_exchange(int sock, struct client_call *c, bool *broken);
/** Close the descriptors of a reply from number @p from on. */
void client_call_close_fds(struct client_call *c, uint32_t from);
/** Print a line "uroce: ..." on stderr, unless UROCE_QUIET is set or there were too many. */
void client_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** @return the time by CLOCK_MONOTONIC. */
uint64_t client_now_ns(void);

/** @return UROCE_SOCKET, or the default path of the daemon's socket. */
const char *client_socket_path(void);
/**
 * Connect to the daemon at @p path and send HELLO. A failure is reported on stderr, once per process.
 * @return 0 or an errno value.
 */
int client_connect(const char *path, int *sock, uint32_t *nb_devices);
/**
 * Send HELLO, the first request, on a connected socket.
 * @param path    of the socket, for messages
 * @param mem_fd  descriptor of /proc/self/mem, or -1
 * @return 0 or an errno value
 */
int client_hello(int sock, const char *path, int mem_fd, client_wait_fn wait, uint32_t *nb_devices);
/** Ask for device @p index. @return 0 or an errno value. */
int client_device_get(int sock, uint32_t index, struct ctl_device_get_rsp *out);

#endif /* UROCE_CONNECTION_H */
