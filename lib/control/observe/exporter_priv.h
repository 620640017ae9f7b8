/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Exports all counters to Prometheus: its text format, over HTTP on a local socket.
 *
 * Owns: struct exporter: the socket, and a thread that serves one client after the other, each for a few seconds at
 * most. Called by: control.c. Thread: control; the exporter's own thread takes control_lock() to read the counters.
 */
#ifndef UROCE_EXPORTER_H
#define UROCE_EXPORTER_H

#include <stdbool.h>
#include <stdio.h>

struct control;
struct exporter;

/**
 * Start listening.
 * @param where  In the form that config_metrics_parse() takes.
 * @param err  CONFIG_ERR_BYTES long.
 * @return NULL with a message.
 */
struct exporter *exporter_start(struct control *c, const char *where, char *err);
/** Stop it. NULL is ignored. Must not be called with control_lock() held. */
void exporter_stop(struct exporter *x);

/** @return whether another exporter, or program, listens at @p where. */
bool exporter_is_there(const char *where);

/** Write all metrics. [any thread] */
void exporter_write(struct control *c, FILE *f);

#endif /* UROCE_EXPORTER_H */
