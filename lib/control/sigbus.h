/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What happens when a program pulls its memory away under a mapping of ours (truncates a file, fills a tmpfs).
 *
 * Owns: the process's SIGBUS handler and the register of mappings of programs' memory. A fault inside one of them puts
 * zero pages in the place of the whole mapping, so that the engine goes on, and marks its session to be ended. A fault
 * anywhere else takes the default action.
 *
 * Threads: sigbus_add() and sigbus_remove() [control]; the handler runs on whichever thread faults.
 */
#ifndef UROCE_SIGBUS_H
#define UROCE_SIGBUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { SIGBUS_MAX_MAPS = 65536 };

/**
 * Install the handler.
 * @param event_fd  eventfd to which 1 is added when a session was marked.
 * @return 0 or an errno value.
 */
int sigbus_install(int event_fd);

/**
 * Register a mapping.
 * @param victim  Set to 1 when a fault happened in it; must live until sigbus_remove().
 * @return its number, or -1: too many.
 */
int sigbus_add(void *base, size_t bytes, _Atomic uint32_t *victim);
/** Forget mapping @p id; before it is unmapped, and when no engine uses it any more. */
void sigbus_remove(int id);

#endif /* UROCE_SIGBUS_H */
