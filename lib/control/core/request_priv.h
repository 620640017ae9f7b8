/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A program's request while it is handled: the message, the reply, and why it failed.
 *
 * Owns: nothing; the request is on dispatch.c's stack, or on that of obj/path.c when it is resumed after a wait. Called
 * by: the handlers (op_*) and what they call. Thread: control.
 */
#ifndef UROCE_CONTROL_REQUEST_PRIV_H
#define UROCE_CONTROL_REQUEST_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/ctl.h"

struct session;

struct request {
	const struct ctl_req *req;
	const struct ctl_seg *segs; /**< follow it in the message */
	uint32_t nb_segs;
	void *obj; /**< the object that the request is about, if there is one (set by dispatch.c) */
	int fds[CTL_MAX_FDS]; /**< received; a handler that keeps or closes one puts -1 in its place */
	uint32_t nb_fds;
	struct ctl_rsp rsp;
	int out_fds[CTL_MAX_FDS];
	bool out_close[CTL_MAX_FDS]; /**< close it after sending */
	char message[256];           /**< why the request failed */
};

/**
 * Handles a request. @return 0; an errno value, with r->message set; EINPROGRESS: the reply is sent later; EALREADY: nothing has
 * changed yet, the request is to be handled again soon (settle_again()).
 */
typedef int op_fn(struct session *s, struct request *r);

/** Set the message of a request that fails. @return @p err. */
int req_fail(struct request *r, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Add a descriptor to the reply. @param close_it  Close it when the reply is sent. */
void req_send_fd(struct request *r, int fd, bool close_it);
/** Send a reply with its descriptors. @return 0 or an errno value; EAGAIN: the program doesn't read its replies. */
int send_reply(int sock, const struct ctl_rsp *rsp, const int *fds, uint32_t nb_fds);

#endif /* UROCE_CONTROL_REQUEST_PRIV_H */
