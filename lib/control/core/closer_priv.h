/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Descriptors that programs send us: taking them from messages, and closing them on separate threads.
 *
 * close() may block for as long as the program wants: on a socket that lingers, or on the flush of a file whose FUSE
 * server doesn't answer. Programs that follow the protocol never cause work for these threads. A user whose descriptors
 * don't close keeps CLOSER_USER_THREADS of them, and begins no further session while CLOSER_USER_PENDING descriptors wait.
 *
 * Owns: the descriptors waiting to be closed, and up to CLOSER_MAX_THREADS threads, which end when there is nothing to
 * do. Called by: lib/control. Thread: control.
 */
#ifndef UROCE_CLOSER_H
#define UROCE_CLOSER_H

#include <stdbool.h>
#include <sys/types.h>

enum {
	/** Descriptors that are taken from one message at most: one more than any request has. */
	CLOSER_MESSAGE_FDS = 3,
	CLOSER_MAX_THREADS = 32,
	CLOSER_USER_THREADS = 2,
	CLOSER_USER_PENDING = 16,
#ifdef UROCE_TSAN
	CLOSER_STACK_BYTES = 2 << 20, /**< ThreadSanitizer's own data for each thread is there, too */
#else
	CLOSER_STACK_BYTES = 256 << 10, /**< more than PTHREAD_STACK_MIN on any machine; only what is used has pages */
#endif
	CLOSER_SO_PASSRIGHTS = 83, /**< Linux 6.16, include/uapi/asm-generic/socket.h; newer than Debian 12's headers */
};

struct msghdr;

/**
 * Take the descriptors that came with a message.
 * @param fds  Room for CLOSER_MESSAGE_FDS, as many as the message's control buffer has room for.
 * @return how many there are.
 */
unsigned int closer_message_fds(struct msghdr *msg, int *fds);
/** Close @p fd, which @p uid sent, now or later; the caller no longer owns it. */
void closer_close(int fd, uid_t uid);
/** Close a connected unix socket of SOCK_SEQPACKET, with the messages of @p uid that have not been received yet. */
void closer_close_socket(int sock, uid_t uid);
/** @return number of descriptors of @p uid that aren't closed yet. */
unsigned int closer_pending_of(uid_t uid);
/** [any thread] @return number of descriptors that aren't closed yet. */
unsigned int closer_pending(void);
/**
 * Let the kernel refuse messages with descriptors that are sent to @p sock, and to those that are accepted from it; or
 * allow them again.
 */
void closer_refuse_rights(int sock, bool refuse);

#endif /* UROCE_CLOSER_H */
