/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tells the service manager that the daemon is ready, and then that it is alive; leaves descriptors with it.
 *
 * Owns nothing. Called by: uroced; uroce-keeper (notify_ready()). Thread: main; notify_alive() any.
 */
#ifndef UROCE_APP_NOTIFY_H
#define UROCE_APP_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Send "READY=1" to $NOTIFY_SOCKET like sd_notify(3); does nothing if it isn't set. Errors are ignored. */
void notify_ready(void);
/** Send "STOPPING=1": the daemon ends by itself. If it is to be started meanwhile, the service manager does so when it has ended. */
void notify_stopping(void);
/** Tell that process @p pid serves in the place of this one. */
void notify_successor(pid_t pid);
/** @return how often in milliseconds the service manager wants notify_alive(), with some reserve (sd_watchdog_enabled(3)); 0: never. */
uint32_t notify_alive_ms(void);
/** Send "WATCHDOG=1". */
void notify_alive(void);

/** @return whether there is a service manager that listens */
bool notify_is_heard(void);
/**
 * Have the service manager keep a descriptor for the next start, and wait until it has it (sd_pid_notify_with_fds(3), FDSTORE=1).
 * @param name  Without colons and control characters.
 * @return 0; ENOTCONN: there is none; ETIMEDOUT: it doesn't answer. A manager that refuses doesn't tell.
 */
int notify_store(int fd, const char *name);
/** @return the descriptor that was kept under @p name and came with this process's start (sd_listen_fds_with_names(3)), or -1 */
int notify_stored(const char *name);
/** It needn't be kept any longer. */
void notify_forget(const char *name);

#endif /* UROCE_APP_NOTIFY_H */
