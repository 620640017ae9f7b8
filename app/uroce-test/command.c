/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all commands, and the arguments of a call. */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_priv.h"

static const struct command *commands[COMMAND_MAX];
static unsigned int nb_commands;

void
command_add(const struct command *table)
{
	for (; table->words != NULL; table++) {
		unsigned int at = nb_commands;

		assert(nb_commands < COMMAND_MAX);
		while (at > 0 && strcmp(commands[at - 1]->words, table->words) > 0) {
			commands[at] = commands[at - 1];
			at--;
		}
		commands[at] = table;
		nb_commands++;
	}
}

void
command_only(const char *words)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < nb_commands; i++) {
		size_t len = strcspn(commands[i]->words, " ");

		for (const char *at = words; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " "))
			if (strcspn(at, " ") == len && strncmp(at, commands[i]->words, len) == 0) {
				commands[kept++] = commands[i];
				break;
			}
	}
	nb_commands = kept;
}

const struct command *
command_at(unsigned int i)
{
	return i < nb_commands ? commands[i] : NULL;
}

/**
 * Compare the words of @p c with the beginning of the line.
 * @param all  Set to true if the line contains all words of @p c.
 * @return how many match.
 */
static unsigned int
words_match(const struct command *c, const char *const *words, unsigned int nb, bool *all)
{
	const char *at = c->words;
	unsigned int n = 0;

	*all = false;
	while (n < nb) {
		size_t len = strcspn(at, " ");

		if (strlen(words[n]) != len || strncmp(words[n], at, len) != 0)
			return n;
		n++;
		if (at[len] == '\0') {
			*all = true;
			return n;
		}
		at += len + 1;
	}
	return n;
}

const struct command *
command_find(const char *const *words, unsigned int nb, unsigned int *used)
{
	const struct command *found = NULL;
	bool all;

	*used = 0;
	for (unsigned int i = 0; i < nb_commands; i++) {
		unsigned int n = words_match(commands[i], words, nb, &all);

		if (all && n > *used) {
			found = commands[i];
			*used = n;
		}
	}
	return found;
}

unsigned int
command_next_words(const char *const *words, unsigned int nb, const char **out)
{
	static char kept[COMMAND_MAX][COMMAND_WORD_BYTES];
	unsigned int n = 0;
	bool all;

	for (unsigned int i = 0; i < nb_commands; i++) {
		const char *at = commands[i]->words;

		if (words_match(commands[i], words, nb, &all) != nb || (all && nb > 0))
			continue;
		for (unsigned int k = 0; k < nb; k++)
			at = strchr(at, ' ') + 1;
		snprintf(kept[n], sizeof(kept[n]), "%.*s", (int)strcspn(at, " "), at);
		if (n == 0 || strcmp(kept[n], kept[n - 1]) != 0) {
			out[n] = kept[n];
			n++;
		}
	}
	return n;
}

/* ---- A call ---- */
void
call_add_args(struct call *c, const struct arg *table)
{
	for (; table != NULL && table->name != NULL; table++) {
		assert(c->nb_args < COMMAND_MAX_ARGS);
		c->args[c->nb_args++] = table;
	}
}

int
call_keyed(const struct call *c, const char *word)
{
	for (unsigned int i = 0; i < c->nb_args; i++)
		if (c->args[i]->place == ARG_KEYED && strcmp(c->args[i]->name, word) == 0)
			return (int)i;
	return -1;
}

int
call_placed(const struct call *c)
{
	for (unsigned int i = 0; i < c->nb_args; i++)
		if (c->args[i]->place != ARG_KEYED && c->text[i] == NULL)
			return (int)i;
	return -1;
}

/* ---- The arguments given ---- */
static unsigned int
arg_index(const struct call *c, const char *name)
{
	for (unsigned int i = 0; i < c->nb_args; i++)
		if (strcmp(c->args[i]->name, name) == 0)
			return i;
	assert(!"a command asks for an argument that its table doesn't have");
	abort();
}

bool
call_has(const struct call *c, const char *name)
{
	return c->text[arg_index(c, name)] != NULL;
}

const char *
call_text(const struct call *c, const char *name)
{
	return c->text[arg_index(c, name)];
}

double
call_real(const struct call *c, const char *name, double otherwise)
{
	unsigned int i = arg_index(c, name);

	return c->text[i] != NULL ? c->real[i] : otherwise;
}

uint64_t
call_number(const struct call *c, const char *name, uint64_t otherwise)
{
	unsigned int i = arg_index(c, name);

	return c->text[i] != NULL ? c->number[i] : otherwise;
}

int
call_choice(const struct call *c, const char *name, int otherwise)
{
	unsigned int i = arg_index(c, name);

	return c->text[i] != NULL ? (int)c->number[i] : otherwise;
}

int
call_fail(const struct call *c, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: ", c->command->words);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	putc('\n', stderr);
	return -1;
}

int
call_errno(const struct call *c, const char *what, int err)
{
	return call_fail(c, "%s: %s", what, strerror(err));
}

/* ---- Help ---- */
char *
command_syntax(const struct command *c, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", c->words);
	for (const struct arg *a = c->args; a != NULL && a->name != NULL; a++) {
		char upper[COMMAND_WORD_BYTES];
		size_t i;

		for (i = 0; a->name[i] != '\0' && i < sizeof(upper) - 1; i++)
			upper[i] = (char)toupper((unsigned char)a->name[i]);
		upper[i] = '\0';
		if (a->place == ARG_NEEDED)
			text_append(text, bytes, " %s", upper);
		else if (a->place == ARG_OPTIONAL)
			text_append(text, bytes, " [%s]", upper);
		else if (a->type == ARG_FLAG)
			text_append(text, bytes, " [%s]", a->name);
		else
			text_append(text, bytes, " [%s %s]", a->name, a->type == ARG_NUMBER || a->type == ARG_REAL ? "N" : upper);
	}
	return text;
}

void
command_explain(const struct command *c)
{
	char text[COMMAND_LINE_BYTES];

	printf("%s\n  %s\n", command_syntax(c, text, sizeof(text)), c->help);
	for (const struct arg *a = c->args; a != NULL && a->name != NULL; a++)
		printf("    %-16s %s%s%s\n", a->name, a->help, a->type == ARG_FLAG || a->type == ARG_TEXT ? "" : ": ",
		       a->type == ARG_FLAG || a->type == ARG_TEXT ? "" : arg_expects(a, text, sizeof(text)));
}
