/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tells the service manager that the daemon serves.
 *
 * Owns nothing. Called by: main.c. Thread: main.
 */
#ifndef UROCED_NOTIFY_H
#define UROCED_NOTIFY_H

/** Send "READY=1" to $NOTIFY_SOCKET as sd_notify(3) does; nothing if it is not set. Failures are ignored. */
void notify_ready(void);

#endif /* UROCED_NOTIFY_H */
