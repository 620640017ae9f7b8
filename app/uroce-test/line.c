/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a line into a call of a command. */
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "command_priv.h"

static unsigned int failures;
static void (*before)(void);

void
command_before(void (*fn)(void))
{
	before = fn;
}

unsigned int
command_failures(void)
{
	return failures;
}

/**
 * Split a line into words in place.
 * @return how many, or -1: too many.
 */
static int
split(char *line, const char **words)
{
	int n = 0;
	char *save = NULL;

	line[strcspn(line, "#\n")] = '\0';
	for (char *w = strtok_r(line, " \t\r", &save); w != NULL; w = strtok_r(NULL, " \t\r", &save)) {
		if (n == COMMAND_MAX_WORDS)
			return -1;
		words[n++] = w;
	}
	return n;
}

static int
unknown_command(const char *const *words, unsigned int nb)
{
	const char *next[COMMAND_MAX];
	unsigned int known = nb, n;
	struct near near = { 0 };

	while (known > 0 && command_next_words(words, known, next) == 0)
		known--;
	fflush(stdout);
	for (unsigned int i = 0; i < known; i++)
		fprintf(stderr, "%s%s", i > 0 ? " " : "", words[i]);
	if (known < nb)
		fprintf(stderr, "%s'%s': no such command; ", known > 0 ? " " : "", words[known]);
	else
		fputs(": ", stderr);
	n = command_next_words(words, known, next);
	for (unsigned int i = 0; known < nb && i < n; i++)
		near_look(&near, words[known], next[i]);
	if (near.word != NULL)
		fprintf(stderr, "did you mean '%s'? `help` lists all\n", near.word);
	else
		fputs("expected one of ", stderr);
	for (unsigned int i = 0; near.word == NULL && i < n; i++)
		fprintf(stderr, "%s%s", next[i], i + 1 < n ? ", " : "\n");
	return -1;
}

static int
refuse_value(const struct call *c, const struct arg *a, const char *word)
{
	char text[COMMAND_LINE_BYTES];

	return call_fail(c, "%s: '%s': expected %s", a->name, word, arg_expects(a, text, sizeof(text)));
}

static int
refuse_word(const struct call *c, const char *word)
{
	char text[COMMAND_LINE_BYTES] = "";
	struct near near = { 0 };
	bool some = false;

	for (unsigned int i = 0; i < c->nb_args; i++)
		if (c->args[i]->place == ARG_KEYED && c->text[i] == NULL) {
			near_look(&near, word, c->args[i]->name);
			text_append(text, sizeof(text), "%s%s", some ? ", " : "", c->args[i]->name);
			some = true;
		}
	if (!some)
		return call_fail(c, "'%s': nothing more was expected", word);
	if (near.word != NULL)
		return call_fail(c, "'%s': did you mean '%s'? Expected one of %s", word, near.word, text);
	return call_fail(c, "'%s': expected one of %s", word, text);
}

/**
 * Take one argument from @p words.
 * @return the number of words used, -1: refused.
 */
static int
take_arg(struct call *c, const char *const *words, unsigned int nb)
{
	const char *word = words[0];
	int i = call_keyed(c, word), used = 1;
	char text[COMMAND_LINE_BYTES];

	if (i >= 0 && c->text[i] != NULL)
		return call_fail(c, "%s: given twice", word);
	if (i >= 0 && c->args[i]->type != ARG_FLAG) {
		if (nb < 2)
			return call_fail(c, "%s: expected %s behind it", word, arg_expects(c->args[i], text, sizeof(text)));
		word = words[1];
		used = 2;
	} else if (i < 0) {
		i = call_placed(c);
		if (i < 0)
			return refuse_word(c, word);
	}
	if (!arg_parse(c, (unsigned int)i, word))
		return refuse_value(c, c->args[i], word);
	c->text[i] = word;
	if (i == 0 && c->command->args_of != NULL)
		call_add_args(c, c->command->args_of(word));
	return used;
}

/** @return 0; -1: refused. */
static int
take_args(struct call *c, const char *const *words, unsigned int nb)
{
	char text[COMMAND_LINE_BYTES];

	call_add_args(c, c->command->args);
	for (unsigned int i = 0; i < nb;) {
		int n = take_arg(c, words + i, nb - i);

		if (n < 0)
			return -1;
		i += (unsigned int)n;
	}
	for (unsigned int i = 0; i < c->nb_args; i++)
		if (c->args[i]->place == ARG_NEEDED && c->text[i] == NULL)
			return call_fail(c, "%s is missing: expected %s", c->args[i]->name,
					 arg_expects(c->args[i], text, sizeof(text)));
	return 0;
}

static int
run_words(const char *const *words, unsigned int nb)
{
	static struct call c;
	unsigned int used;
	const struct command *command;

	if (before != NULL)
		before();
	command = command_find(words, nb, &used);
	if (command == NULL)
		return unknown_command(words, nb);
	memset(&c, 0, sizeof(c));
	c.command = command;
	if (take_args(&c, words + used, nb - used) != 0)
		return -1;
	return command->run(&c);
}

int
command_run(const char *line)
{
	const char *words[COMMAND_MAX_WORDS];
	char copy[COMMAND_LINE_BYTES];
	int nb, rc;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", line) >= sizeof(copy)) {
		fprintf(stderr, "a line has at most %d characters\n", COMMAND_LINE_BYTES - 1);
		rc = -1;
	} else {
		nb = split(copy, words);
		if (nb == 0)
			return 0;
		if (nb < 0)
			fprintf(stderr, "a line has at most %d words\n", COMMAND_MAX_WORDS);
		rc = nb < 0 ? -1 : run_words(words, (unsigned int)nb);
	}
	if (rc != 0)
		failures++;
	fflush(stdout);
	return rc;
}
