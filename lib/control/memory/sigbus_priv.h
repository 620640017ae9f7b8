/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * SIGBUS handling: a program has taken away memory that we have mapped (it truncated the file, or a tmpfs is full).
 *
 * Owns: the process's SIGBUS handler and the table of mappings of programs' memory. On a fault inside one of them, the
 * handler replaces the whole mapping by zero pages, so that the engine goes on, and marks the session, which is then
 * ended. A fault anywhere else goes to the previous handler or takes the default action.
 *
 * Threads: the control threads of the process, which share all of this; the handler runs on whichever thread faults.
 */
#ifndef UROCE_SIGBUS_H
#define UROCE_SIGBUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SIGBUS_MAX_MAPS = 65536,
	SIGBUS_MAX_WAKES = 16, /**< control threads in one process that serve other programs */
};

/**
 * Install the handler, if this is the first call.
 * @param event_fd  eventfd to which 1 is added when a session was marked, even another control thread's.
 * @return 0 or an errno value; EMFILE: SIGBUS_MAX_WAKES are installed already.
 */
int sigbus_install(int event_fd);
/** Undo sigbus_install() for this eventfd; does nothing if there was none. The last call restores the old handler. */
void sigbus_uninstall(int event_fd);

/**
 * Register a mapping.
 * @param victim  Set to 1 when a fault happens in it; must exist until sigbus_remove().
 * @return its number, or -1: too many.
 */
int sigbus_add(void *base, size_t bytes, _Atomic uint32_t *victim);
/** Unregister mapping @p id. Call this before unmapping it, when no engine uses it any more. */
void sigbus_remove(int id);

#endif /* UROCE_SIGBUS_H */
