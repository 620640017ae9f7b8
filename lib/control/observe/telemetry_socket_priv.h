/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The telemetry socket of a stack, `<socket>.telemetry`: what a stack tells those who may use it. DPDK's own telemetry socket is root's, and
 * serves everything that DPDK has.
 *
 * It speaks DPDK's protocol (SOCK_SEQPACKET): a greeting, then for each command one answer, both JSON. Commands are those of a list, for
 * reading; what writes files is for root and the daemon's own user. Rows of many objects are answered here; every other command is passed on to
 * DPDK's telemetry, whose JSON isn't available otherwise, by one connection.
 *
 * Owns: struct telemetry_socket: the socket, its clients, and a thread that never waits for one of them. Called by: control.c. Thread: control;
 * the socket's own thread takes control_lock() to read rows.
 */
#ifndef UROCE_TELEMETRY_SOCKET_H
#define UROCE_TELEMETRY_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/core/control_priv.h"

#define TEL_SOCKET_SUFFIX ".telemetry"

enum {
	TEL_CLIENTS_MAX = 32,       /**< connections in all */
	TEL_USER_CLIENTS_MAX = 8,   /**< connections of one user; root and the daemon's own user may have TEL_CLIENTS_MAX */
	TEL_COMMAND_BYTES = 1024,   /**< longest command */
	TEL_ANSWER_BYTES = 128 << 10, /**< longest answer; less than the usual limit of a unix socket's message */
	TEL_IDLE_SECONDS = 60,      /**< a client that asks nothing for so long is dropped */
	TEL_UPSTREAM_SECONDS = 5,   /**< time for DPDK's telemetry to answer */
};

/** Text of a JSON answer under construction. */
struct tel_json {
	char *text;
	size_t used, room;
	bool full; /**< something had no room */
};
/** Append; if there is no room, nothing is appended. */
void tel_json_add(struct tel_json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Append @p s as a JSON string; bytes that are no text in ASCII become '?'. */
void tel_json_string(struct tel_json *j, const char *s);
/** Append a comma and @p n. A row has a dozen of them, and printf() would take half the time of all rows. */
void tel_json_number(struct tel_json *j, uint64_t n);

/**
 * Answer "/uroce/rows,KIND[,from=NUMBER]": an object with `columns`, `rows` (as many as there is room for, in ascending order), `all` (how many
 * there are from that number on), `next` (number to go on from; 0: that was all), and `ns`, the time.
 * @param params  What follows the first comma.
 */
void tel_rows(struct control *c, const char *params, struct tel_json *j);

/* ---- The connection to DPDK's telemetry ---- */
struct tel_upstream {
	int fd;             /**< -1: there is none */
	unsigned int stale; /**< answers to come that nobody waits for any more */
};
/** Connect to the telemetry of this process; must be called before it gives up its privileges. @return false: it has none. */
bool tel_upstream_open(struct tel_upstream *u);
void tel_upstream_close(struct tel_upstream *u);
/** Send a command. @return false: it can't be sent. */
bool tel_upstream_ask(struct tel_upstream *u, const char *command);
/** Receive an answer. @return its length; 0: none that somebody waits for; -1: the connection has ended and is closed. */
ssize_t tel_upstream_take(struct tel_upstream *u, char *buf, size_t bytes);

/* ---- The socket ---- */
struct telemetry_socket;
/**
 * Begin to serve.
 * @param number  telemetry_number() of @p c.
 * @return NULL with a message in @p err, CONFIG_ERR_BYTES long.
 */
struct telemetry_socket *telemetry_socket_start(struct control *c, unsigned int number, char *err);
/** End it. NULL is ignored. Must not be called with control_lock() held. */
void telemetry_socket_stop(struct telemetry_socket *t);

/** @return whether another daemon's has the name that this configuration gives it. */
bool telemetry_socket_is_there(const struct uroced_config *conf);

#endif /* UROCE_TELEMETRY_SOCKET_H */
