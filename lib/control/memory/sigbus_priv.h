/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * SIGBUS: a program has taken memory away that we have mapped (it truncated the file, or a tmpfs is full).
 *
 * Owns: the process's SIGBUS handler and the register of mappings of programs' memory. A fault inside one of them puts
 * zero pages in the place of the whole mapping, so that the engine goes on, and marks its session to be ended. A fault
 * anywhere else goes to the handler that was there before, or takes the default action.
 *
 * Threads: the control threads of the process, which share all this; the handler runs on whichever thread faults.
 */
#ifndef UROCE_SIGBUS_H
#define UROCE_SIGBUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SIGBUS_MAX_MAPS = 65536,
	SIGBUS_MAX_WAKES = 16, /**< control threads that serve other programs, in one process */
};

/**
 * Install the handler, if this is the first call.
 * @param event_fd  eventfd to which 1 is added when a session was marked, perhaps another control thread's.
 * @return 0 or an errno value; EMFILE: SIGBUS_MAX_WAKES are there already.
 */
int sigbus_install(int event_fd);
/** Undo sigbus_install() of this eventfd; does nothing if there was none. After the last one the old handler is back. */
void sigbus_uninstall(int event_fd);

/**
 * Register a mapping.
 * @param victim  Set to 1 when a fault happened in it; must live until sigbus_remove().
 * @return its number, or -1: too many.
 */
int sigbus_add(void *base, size_t bytes, _Atomic uint32_t *victim);
/** Forget mapping @p id; before it is unmapped, and when no engine uses it any more. */
void sigbus_remove(int id);

#endif /* UROCE_SIGBUS_H */
