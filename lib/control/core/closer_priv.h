/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Descriptors that programs send us: collected from messages, and closed by threads of their own.
 *
 * close() may block for as long as the program likes: on a socket that lingers, on the flush of a file whose FUSE
 * server doesn't answer. Programs that keep to the protocol never give these threads work.
 *
 * Owns: the descriptors that wait to be closed, up to CLOSER_MAX_THREADS threads, which end when there is nothing to
 * do. Called by: lib/control. Thread: control.
 */
#ifndef UROCE_CLOSER_H
#define UROCE_CLOSER_H

enum {
	CLOSER_MESSAGE_FDS = 253, /**< descriptors in one message at most (Linux, include/net/scm.h: SCM_MAX_FD) */
	CLOSER_MAX_THREADS = 32,
	CLOSER_STACK_BYTES = 64 << 10,
};

struct msghdr;

/** Collect the descriptors that came with a message. @param fds  Room for CLOSER_MESSAGE_FDS. @return how many. */
unsigned int closer_message_fds(struct msghdr *msg, int *fds);
/** Close @p fd, now or later; it is no longer the caller's. */
void closer_close(int fd);
/** Close a connected unix socket of SOCK_SEQPACKET, and the descriptors in messages that were not received yet. */
void closer_close_socket(int sock);
/** @return descriptors that aren't closed yet. Any thread. */
unsigned int closer_pending(void);

#endif /* UROCE_CLOSER_H */
