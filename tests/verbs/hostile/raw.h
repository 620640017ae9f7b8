/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The control protocol (lib/ring/ctl.h) without the library: hostile programs send what they like.
 */
#ifndef HOSTILE_RAW_H
#define HOSTILE_RAW_H

#include "ring/ctl.h"

/** @return a connection to the daemon at $UROCE_SOCKET. Exits if there is none. */
int raw_connect(void);
/**
 * Send a message, with @p nb_fds descriptors.
 * @param more, bytes  Follow the request.
 * @return 0 or an errno value.
 */
int raw_send(int sock, const struct ctl_req *q, const void *more, size_t bytes, const int *fds, unsigned int nb_fds);
/** Send a message that needn't be a request, without waiting. @return 0 or an errno value. */
int raw_send_bytes(int sock, const void *bytes, size_t n, const int *fds, unsigned int nb_fds);
/** Receive a reply; its descriptors are closed but for the first @p max, which @p fds receives. @return its status; EIO: there is none. */
int raw_receive(int sock, struct ctl_rsp *r, int *fds, unsigned int max);
/** Both. */
int raw_call(int sock, const struct ctl_req *q, const int *fds, unsigned int nb_fds, struct ctl_rsp *r);
/** HELLO, and MEMORY with @p mem and @p proc, if they are not negative. @return the first status that isn't 0. */
int raw_hello(int sock, int mem, int proc);
/** HELLO as it should be, and DEVICE_OPEN. @return the connection, -1: refused. */
int raw_try_open(struct ctl_rsp *r);
/** The same. Exits if it fails. */
int raw_open(struct ctl_rsp *r);

#endif /* HOSTILE_RAW_H */
