/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of commands share: command.c, value.c, line.c, complete.c.
 */
#ifndef UROCE_TEST_COMMAND_PRIV_H
#define UROCE_TEST_COMMAND_PRIV_H

#include "command.h"

/** @return the command that the line begins with, the longest; *@p used of the line's words are its. */
const struct command *command_find(const char *const *words, unsigned int nb, unsigned int *used);
/** Words that may stand in place @p nb behind the first @p nb, of any command. @return how many. */
unsigned int command_next_words(const char *const *words, unsigned int nb, const char **out);

/** Let the call have the arguments of @p table too. */
void call_add_args(struct call *c, const struct arg *table);
/** @return the argument with this name behind which a value stands, or a flag; -1: none. */
int call_keyed(const struct call *c, const char *word);
/** @return the next argument that has a place and hasn't been given, -1: none. */
int call_placed(const struct call *c);

/** Read @p word as the call's @p i-th argument. @return false: it isn't what it may be. */
bool arg_parse(struct call *c, unsigned int i, const char *word);
/** @return the length of @p text. */
size_t text_append(char *text, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif /* UROCE_TEST_COMMAND_PRIV_H */
