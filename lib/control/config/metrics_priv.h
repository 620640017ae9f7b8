/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The key daemon.metrics: the address at which the exporter of counters listens.
 *
 * Owns: nothing. Called by: config.c, observe/exporter.c. Thread: any.
 */
#ifndef UROCE_CONTROL_METRICS_PRIV_H
#define UROCE_CONTROL_METRICS_PRIV_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

/** An address on this machine. */
union metrics_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/**
 * Parse "unix:/PATH", "127.0.0.1:PORT" or "[::1]:PORT". Other addresses are refused, because programs on other machines
 * must not reach the exporter.
 * @return the length of the address; 0: @p where is none of these.
 */
socklen_t config_metrics_parse(const char *where, union metrics_address *a);

#endif /* UROCE_CONTROL_METRICS_PRIV_H */
