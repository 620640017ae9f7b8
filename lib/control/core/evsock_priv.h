/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The sockets through which programs get events (lib/ring/ctl.h).
 *
 * A pipe would not do. Its mutex is held by whoever reads it, for as long as the copy into the reader's memory takes. A
 * reader whose page never comes (userfaultfd, FUSE) would stop every writer for good, O_NONBLOCK or not. A sender on a
 * socket takes no lock that is held during a copy.
 *
 * Owns: nothing. Called by: obj, cma, session.c. Thread: any.
 */
#ifndef UROCE_EVSOCK_PRIV_H
#define UROCE_EVSOCK_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/** What the kernel counts for a record of up to this size, in bytes; a send buffer has room for two of them per byte asked. */
	EVSOCK_RECORD_BYTES = 768,
	EVSOCK_RECORDS = 256, /**< records that a new pair takes, at least, before its reader reads them */
};

/**
 * Make a connected pair of SOCK_SEQPACKET sockets. Nothing can be sent to @p ours, so that no descriptor of a program
 * can wait in it to be closed by us.
 * @param ours, theirs  Receive the sending and the receiving end.
 * @return 0 or an errno value.
 */
int evsock_pair(int *ours, int *theirs);
/** Let a pair hold @p records, as far as the system allows it (net.core.wmem_max, for those without CAP_NET_ADMIN). */
void evsock_make_room(int ours, uint32_t records);
/**
 * Send a record. Never waits.
 * @return false: there is no room now. If nobody can receive it any more the record is dropped, and this returns true.
 */
bool evsock_send(int ours, const void *record, size_t bytes);
/** @return how many bytes the kernel counts for the records that have not been read; the same for each of one size. */
int evsock_unread(int ours);

#endif /* UROCE_EVSOCK_PRIV_H */
