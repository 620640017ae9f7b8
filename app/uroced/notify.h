/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tells the service manager that the daemon is ready.
 *
 * Owns nothing. Called by: main.c. Thread: main.
 */
#ifndef UROCED_NOTIFY_H
#define UROCED_NOTIFY_H

/** Send "READY=1" to $NOTIFY_SOCKET like sd_notify(3); does nothing if it isn't set. Errors are ignored. */
void notify_ready(void);

#endif /* UROCED_NOTIFY_H */
