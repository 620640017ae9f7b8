/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A running daemon as programs show it: questions to its telemetry socket (lib/control/observe), and answers as tables or JSON.
 *
 * Used by: uroce, and uroce-test that is attached to a daemon. What is shown is an array of JSON objects, which show() prints as a table or as
 * JSON. Owns: the connection to the daemon, as long as the process runs. Thread: one.
 */
#ifndef UROCE_COMMON_DAEMON_H
#define UROCE_COMMON_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	PATH_BYTES = 256,
	COMMAND_BYTES = 256,      /**< longest command to the daemon */
	ANSWER_SECONDS = 10,      /**< time for the daemon to answer */
	ANSWER_BYTES_MAX = 1 << 20, /**< longest answer that is believed */
};

/** Which daemon is meant, and how answers are printed. Set it before the first question. */
struct daemon_target {
	const char *program;    /**< the name that messages begin with */
	const char *hint;       /**< where a user who made a mistake finds what is right; NULL: uroce --help */
	const char *where;      /**< the options that name a daemon */
	const char *socket;     /**< of the daemon, for programs */
	const char *lab, *host; /**< instead of a socket; NULL: none */
	bool json, pretty;
};
extern struct daemon_target target;

/** @param argv  The words behind the command, NULL behind the last. @return the exit status. */
typedef int command_fn(int argc, char **argv);
command_fn cmd_link, cmd_resource, cmd_statistic, cmd_why, cmd_capture;
/** Show the impairments of a port; NULL: of all. @return the exit status. */
int show_impairments(const char *port);
/** Print what became of moves of QPs between engines. @param qpn, engine  Move one first; NULL: don't. @return the exit status. */
int show_moves(const char *qpn, const char *engine);

/* ---- Messages: messages.c ---- */
/** Print "uroce: ..." to stderr. @return EXIT_FAILED. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The same for a mistake of the user. @return EXIT_USAGE. */
int usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/**
 * Complain that @p word isn't one of @p words (NULL behind the last), with the most similar one if there is a similar one.
 * @param what  "command", "column" ...
 * @return EXIT_USAGE.
 */
int unknown_word(const char *what, const char *word, const char *const *words);
/** @return true and *@p n if @p text is a number (0x for base 16). */
bool number_of(const char *text, uint64_t *n);

/* ---- The daemon: client.c, rows.c ---- */
/**
 * Ask the daemon that the target names. The connection is made for the first command and kept.
 * @return the answer's value, the caller's to put; NULL: it can't be had, and a message was printed, also if the daemon answers with an error.
 */
json_object *ask(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The same without messages. @param err  Receives what is wrong, if that is not NULL. */
json_object *ask_quietly(char *err, size_t bytes, const char *command);
/**
 * The same for /uroce/rows, whose pages are too large to become JSON objects several times a second.
 * @return the text from "columns": on, valid until the next question; NULL: @p err says why not.
 */
const char *ask_page(char *err, size_t bytes, const char *command);
/** @return the path of the daemon's socket for programs, from the target, UROCE_SOCKET or the default; NULL: a message was printed. */
const char *socket_path(void);
/** @return the objects of @p kind ("qp", "session" ...), each a JSON object, in an array; NULL: a message was printed. */
json_object *fetch_rows(const char *kind);
/** Remove from @p rows those that don't have one of the values that @p filters ("column=value", until NULL) name. @return 0 or EXIT_USAGE. */
int filter_rows(json_object *rows, char **filters);

/* ---- Values of JSON objects: values.c ---- */
/** @return the member as text, "" if it is missing. */
const char *text_of(json_object *o, const char *name);
/** @return the member as a number, 0 if it is missing. */
uint64_t value_of(json_object *o, const char *name);
/** @return the member's strings joined by @p between, the caller's to free; NULL: no memory. */
char *joined(json_object *o, const char *name, const char *between);

/* ---- Output: output.c ---- */
/** A column of a table. */
struct column {
	const char *head;
	const char *member;  /**< of the JSON objects */
	bool right;          /**< aligned at the right */
};
/**
 * Print an array of objects: with --json all their members, else the columns (head NULL behind the last) as a table.
 * @return the exit status.
 */
int show(json_object *array, const struct column *columns);
/** Print a JSON value. @return the exit status. */
int show_json(json_object *value);
/** @return @p value with a unit prefix: "12.3 G". @param text  At least 16 bytes. */
const char *with_prefix(double value, char *text, size_t bytes);

#endif /* UROCE_COMMON_DAEMON_H */
