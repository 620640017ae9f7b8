/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * All counters for Prometheus: its text format, over HTTP on a socket of this machine.
 *
 * Owns: struct exporter: the socket and a thread that serves one client after the other, each for a few seconds at
 * most. Called by: control.c. Thread: control; its own thread takes control_lock() to read what it writes.
 */
#ifndef UROCE_EXPORTER_H
#define UROCE_EXPORTER_H

#include <stdio.h>

struct control;
struct exporter;

/**
 * Begin to listen.
 * @param where  As config_metrics_parse() takes it.
 * @param err  CONFIG_ERR_BYTES long.
 * @return NULL with a message.
 */
struct exporter *exporter_start(struct control *c, const char *where, char *err);
/** End it. NULL: does nothing. Not to be called with control_lock() held. */
void exporter_stop(struct exporter *x);

/** Write all metrics. [any thread] */
void exporter_write(struct control *c, FILE *f);

#endif /* UROCE_EXPORTER_H */
