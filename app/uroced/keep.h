/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A daemon that ends leaves its programs with the service manager, for the daemon that is started next (--keep-programs): `systemctl restart`.
 * Records and descriptors (control/handover.h) wait in a socket, which is the one descriptor that the manager keeps. If it starts no other daemon, it closes it,
 * and with it go the programs' control sockets, as at a daemon's end without this.
 *
 * Owns: nothing. Called by: main.c. Thread: main.
 */
#ifndef UROCED_KEEP_H
#define UROCED_KEEP_H

#include "uroced.h"

/**
 * [the daemon that goes] Leave the programs. If that is done, this process ends here; it returns if there are no programs, no service
 * manager, or something failed, of which a message was printed: then the daemon has to end as always.
 */
void keep_programs(struct uroced *u);
/** [the daemon that comes] @return the descriptor that the manager has kept, or -1. Before other threads and processes are started. */
int kept_socket(void);
/**
 * [the daemon that comes] Get programs and sockets out of it, and close it.
 * @return 0, or -1 with a message printed: there are none that this daemon could serve.
 */
int kept_programs(struct uroced *u, const struct options *o, int fd, struct stream_in *in);
/** [the daemon that comes] Nobody goes on with the programs in @p fd, of kept_socket(): they end. -1: there are none. */
void kept_drop(int fd);

#endif /* UROCED_KEEP_H */
