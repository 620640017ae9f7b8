/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Descriptors that programs send us: taking them from messages, and closing them on separate threads.
 *
 * close() may block for as long as the program wants: on a socket that lingers, or on the flush of a file whose FUSE
 * server doesn't answer. Programs that follow the protocol never cause work for these threads.
 *
 * Owns: the descriptors waiting to be closed, and up to CLOSER_MAX_THREADS threads, which end when there is nothing to
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

/**
 * Take the descriptors that came with a message.
 * @param fds  Room for CLOSER_MESSAGE_FDS.
 * @return how many there are.
 */
unsigned int closer_message_fds(struct msghdr *msg, int *fds);
/** Close @p fd, now or later; the caller no longer owns it. */
void closer_close(int fd);
/** Close a connected unix socket of SOCK_SEQPACKET, and the descriptors in messages that have not been received yet. */
void closer_close_socket(int sock);
/** [any thread] @return number of descriptors that aren't closed yet. */
unsigned int closer_pending(void);

#endif /* UROCE_CLOSER_H */
