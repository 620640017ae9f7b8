/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's log, which nobody waits for.
 *
 * What reads the log may be slow or stop: a service manager, a pipe, a disk that others keep busy. So lines go into a buffer, and a thread writes them. If the buffer is
 * full, lines are lost, and the log says how many.
 *
 * Owns: the buffer, the thread, and DPDK's log stream between begin and end. Called by: main.c. Thread: main; lines come from any.
 */
#ifndef UROCED_LOG_H
#define UROCED_LOG_H

#include <stdint.h>
#include <stdio.h>

enum {
	LOG_BYTES = 1 << 18,  /**< lines that wait to be written */
	LOG_WAIT_MS = 2000,   /**< who is about to abort, or to end, waits for so long until all is written */
};

/**
 * Have a thread write the log to @p fd from now on. A line of level CRIT or worse, and all that follow it, are written before their callers go on, or LOG_WAIT_MS
 * have passed, and then no more of them wait: the process is about to abort, or a driver takes something for critical.
 * @return 0 or an errno value; then the log is written to stderr, as before.
 */
int log_begin(int fd);
/** @return where lines that aren't DPDK's go: stderr, unless a thread writes the log. */
FILE *log_stream(void);
/** Write what is left, for at most LOG_WAIT_MS, and end the thread, unless it hangs. */
void log_end(void);

#endif /* UROCED_LOG_H */
