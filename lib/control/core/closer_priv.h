/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Closing what programs sent us.
 *
 * close() may wait for as long as the program likes: for a socket that lingers, for the flush of a file whose FUSE
 * server doesn't answer. So threads of their own do it. Programs that keep to the protocol never give them work.
 *
 * Owns: the descriptors that wait to be closed, up to CLOSER_MAX_THREADS threads, which end when there is nothing to
 * do. Used by: lib/control. Thread: control.
 */
#ifndef UROCE_CLOSER_H
#define UROCE_CLOSER_H

enum {
	CLOSER_MESSAGE_FDS = 253, /**< descriptors in one message at most (Linux, include/net/scm.h: SCM_MAX_FD) */
	CLOSER_MAX_THREADS = 32,
	CLOSER_STACK_BYTES = 64 << 10,
};

/** Close @p fd, now or later; it is no longer the caller's. */
void closer_close(int fd);
/** Close a connected unix socket of SOCK_SEQPACKET: descriptors may be on their way in it. */
void closer_close_socket(int sock);
/** @return descriptors that aren't closed yet. Any thread. */
unsigned int closer_pending(void);

#endif /* UROCE_CLOSER_H */
