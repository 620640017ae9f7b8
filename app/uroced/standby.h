/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A standby's side of uroce-keeper: it waits until the daemon that is served has crashed, and gets what that had.
 *
 * Owns: nothing; the connection is in struct survivor. Called by: start.c. Thread: main.
 */
#ifndef UROCED_STANDBY_H
#define UROCED_STANDBY_H

#include <stdbool.h>

#include "survive.h"

/**
 * Find the keeper and say that this process is a standby. This comes before EAL, whose start is long: what is wrong shows here.
 * @param socket  Of the daemon.
 * @param seconds  For how long programs wait for the next daemon if this one crashes later.
 * @param serves  Receives whether this process is the daemon at once, since no other one is.
 * @return 0, or -1 with a message printed.
 */
int standby_greet(struct survivor *s, const char *socket, uint32_t seconds, unsigned int nb_stacks, bool *serves);

enum standby_end {
	STANDBY_SERVES, /**< the daemon has crashed */
	STANDBY_ENDS,   /**< the daemon has ended properly, or this process was told to end */
	STANDBY_FAILED, /**< a message was printed */
};
/**
 * Wait for the end of the daemon that is served. SIGTERM and SIGINT, which must be blocked, end this process.
 * @param process  Receives a pidfd of the one that has crashed, or -1 if the keeper has none.
 */
enum standby_end standby_wait(struct survivor *s, int *process);

#endif /* UROCED_STANDBY_H */
