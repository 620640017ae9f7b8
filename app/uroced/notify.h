/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tells the service manager that the daemon is ready, and then that it is alive.
 *
 * Owns nothing. Called by: main.c. Thread: main; notify_alive() any.
 */
#ifndef UROCED_NOTIFY_H
#define UROCED_NOTIFY_H

#include <stdint.h>
#include <sys/types.h>

/** Send "READY=1" to $NOTIFY_SOCKET like sd_notify(3); does nothing if it isn't set. Errors are ignored. */
void notify_ready(void);
/** Tell that process @p pid serves in the place of this one. */
void notify_successor(pid_t pid);
/** @return how often in milliseconds the service manager wants notify_alive(), with some reserve (sd_watchdog_enabled(3)); 0: never. */
uint32_t notify_alive_ms(void);
/** Send "WATCHDOG=1". */
void notify_alive(void);

#endif /* UROCED_NOTIFY_H */
