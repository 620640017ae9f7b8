/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * All counters for Prometheus: its text format, over HTTP on a socket of this machine.
 *
 * Owns: struct exporter: the socket and a thread that serves one client after the other, each for a few seconds at most. Called by:
 * lib/control. Thread: control, but for what it does by itself under control_lock().
 */
#ifndef UROCE_EXPORTER_H
#define UROCE_EXPORTER_H

#include <stdio.h>

struct control;
struct exporter;

/**
 * Is @p where something to listen on: "unix:/path", "127.0.0.1:PORT", "[::1]:PORT"? Others than this machine's programs must not
 * reach it.
 * @param err  Gets what would be right.
 * @return 0 or EINVAL.
 */
int exporter_check(const char *where, char *err, size_t err_bytes);
/** Begin to listen. @param err  CONFIG_ERR_BYTES long. @return NULL with a message. */
struct exporter *exporter_start(struct control *c, const char *where, char *err);
/** End it. NULL: does nothing. Not to be called with control_lock() held. */
void exporter_stop(struct exporter *x);

/** Write all metrics. [any thread] */
void exporter_write(struct control *c, FILE *f);

#endif /* UROCE_EXPORTER_H */
