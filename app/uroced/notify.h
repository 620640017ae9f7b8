/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tells who started the daemon that it serves.
 *
 * Owns nothing. Called by: main.c. Thread: main.
 */
#ifndef UROCED_NOTIFY_H
#define UROCED_NOTIFY_H

/** Send "READY=1" to $NOTIFY_SOCKET as sd_notify(3) has it; nothing without one. A failure harms nobody but the waiting starter. */
void notify_ready(void);

#endif /* UROCED_NOTIFY_H */
