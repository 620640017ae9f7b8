/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shared by the files of commands: command.c, value.c, line.c, complete.c.
 */
#ifndef UROCE_TEST_COMMAND_PRIV_H
#define UROCE_TEST_COMMAND_PRIV_H

#include "command.h"

/**
 * Find the command that the line begins with; of several the one with most words.
 * @param used  Set to the number of its words.
 * @return NULL: there is none
 */
const struct command *command_find(const char *const *words, unsigned int nb, unsigned int *used);
/**
 * List the words that may follow the first @p nb words of any command.
 * @return how many there are.
 */
unsigned int command_next_words(const char *const *words, unsigned int nb, const char **out);

/** Add the arguments of @p table to those of the call. */
void call_add_args(struct call *c, const struct arg *table);
/** @return the index of the argument with this name that is given by name, or is a flag; -1: none. */
int call_keyed(const struct call *c, const char *word);
/** @return the index of the next argument that has a place and hasn't been given, -1: none. */
int call_placed(const struct call *c);

/**
 * Parse @p word as the call's @p i-th argument.
 * @return false: it isn't a valid value.
 */
bool arg_parse(struct call *c, unsigned int i, const char *word);
/** @return the length of @p text. */
size_t text_append(char *text, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif /* UROCE_TEST_COMMAND_PRIV_H */
