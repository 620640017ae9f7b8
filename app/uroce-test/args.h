/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Arguments that many commands have, for their tables, and the names of values.
 */
#ifndef UROCE_TEST_ARGS_H
#define UROCE_TEST_ARGS_H

#include <stdint.h>
#include <stdio.h>

#include "base/gid.h"
#include "command.h"
#include "format.h"
#include "hosts.h"

/** A flag, a text, a number after its name. */
#define ARG_WORD(word, text) { .name = word, .help = text, .type = ARG_FLAG }
#define ARG_ANY(word, text, where) { .name = word, .help = text, .type = ARG_TEXT, .place = where }
#define ARG_NUM(name, help, lo, hi) { name, help, ARG_NUMBER, ARG_KEYED, .min = lo, .max = hi }
#define ARG_JSON ARG_WORD("json", "answer in JSON")
#define ARG_ONLY_HOST { "host", "only those of it", ARG_NAME, ARG_KEYED, .names = host_names }
#define ARG_WHICH_HOST { "host", "which; all if left out", ARG_NAME, ARG_OPTIONAL, .names = host_names }
#define ARG_HOST { "host", "where; h1 if left out", ARG_NAME, ARG_KEYED, .names = host_names }

/** Indexed by enum ibv_qp_state. */
extern const char *const state_words[];
/** Indexed by enum ibv_mtu - 1. */
extern const char *const mtu_words[];
/** Names of IBV_ACCESS_*, in the order that access_bits() knows. */
extern const char *const access_words[];
/** @return the IBV_ACCESS_* bits of a comma-separated list. */
int access_bits(const char *list);
/** @return the names of IBV_ACCESS_* bits as a list; @p text has 128 bytes. */
char *access_text(unsigned int bits, char *text);

/**
 * Parse a GID in the notation of users and files: IPv6, or IPv4 for an IPv4-mapped one.
 * @return 0 or -1.
 */
int gid_parse(const char *text, struct gid *gid);

/** @return true if the command is for @p h: its argument "host" names it, says "all", or is left out. */
bool call_means_host(const struct call *c, const struct host *h);
/**
 * Print the rows of the hosts that the command is for.
 * @param add  Adds the rows of one host.
 * @return 0.
 */
int call_show_hosts(const struct call *c, void (*add)(const struct call *c, struct format *f, const struct host *h),
		    enum format_style style, const char *empty);
/** Have all commands that show something answer in JSON, and everything else that is printed on standard output go to stderr. */
void answers_in_json(void);
/** @return true if the answer shall be in JSON. */
bool call_json(const struct call *c);
/** @return where answers go. */
FILE *answer_stream(void);
/** Begin a row with the host's name. */
void format_host_row(struct format *f, const struct host *h);
/**
 * Print the rows of @p f in @p style, or as JSON if the user wants that; print @p empty if there are none.
 * @return 0.
 */
int call_answer(const struct call *c, struct format *f, enum format_style style, const char *empty);

#endif /* UROCE_TEST_ARGS_H */
