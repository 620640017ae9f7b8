/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion: the words that may come next in a line. */
#include <stdio.h>
#include <string.h>

#include "command_priv.h"

static const char *(*describe_value)(const char *name);

void
command_describe(const char *(*fn)(const char *name))
{
	describe_value = fn;
}

/** Add a word. @return the number of words. */
static unsigned int
offer(struct command_choice *out, unsigned int n, const char *word, const char *help)
{
	if (n == COMMAND_MAX_CHOICES)
		return n;
	out[n].word = word;
	snprintf(out[n].help, sizeof(out[n].help), "%s", help != NULL ? help : "");
	return n + 1;
}

static unsigned int
offer_values(const struct arg *a, struct command_choice *out, unsigned int n)
{
	const char *word;

	for (unsigned int i = 0; n < COMMAND_MAX_CHOICES &&
	     (word = a->words != NULL ? a->words[i] : a->names != NULL ? a->names(i) : NULL) != NULL; i++)
		n = offer(out, n, word, a->names != NULL && describe_value != NULL ? describe_value(word) : NULL);
	return n;
}

/**
 * Parse the complete words of the line, ignoring mistakes.
 * @return the index of the argument whose value comes next, -1: none.
 */
static int
take_quietly(struct call *c, const char *const *words, unsigned int nb)
{
	call_add_args(c, c->command->args);
	for (unsigned int i = 0; i < nb; i++) {
		int k = call_keyed(c, words[i]);

		if (k >= 0 && c->args[k]->type != ARG_FLAG) {
			c->text[k] = words[i];
			if (++i == nb)
				return k;
			continue;
		}
		if (k < 0)
			k = call_placed(c);
		if (k < 0)
			continue;
		c->text[k] = words[i];
		if (k == 0 && c->command->args_of != NULL)
			call_add_args(c, c->command->args_of(words[i]));
	}
	return -1;
}

/** Say in @p text what the command is for that the words and @p word make; of several commands their next words. */
static const char *
help_of_word(const char *const *words, unsigned int nb, const char *word, char *text)
{
	const char *all[COMMAND_MAX_WORDS], *next[COMMAND_MAX];
	const struct command *c;
	unsigned int used, n;

	text[0] = '\0';
	if (nb + 1 > COMMAND_MAX_WORDS)
		return text;
	memcpy(all, words, nb * sizeof(*all));
	all[nb] = word;
	c = command_find(all, nb + 1, &used);
	if (c != NULL && used == nb + 1)
		return c->help;
	n = command_next_words(all, nb + 1, next);
	for (unsigned int i = 0; i < n; i++)
		text_append(text, COMMAND_HELP_BYTES, "%s%s", i > 0 ? ", " : "", next[i]);
	return text;
}

static unsigned int
offer_commands(const char *const *words, unsigned int nb, struct command_choice *out)
{
	/* help_of_word() asks for next words, too, and they are kept in one place. */
	static char kept[COMMAND_MAX][COMMAND_WORD_BYTES];
	const char *next[COMMAND_MAX];
	char help[COMMAND_HELP_BYTES];
	unsigned int nb_next = command_next_words(words, nb, next), n = 0;

	for (unsigned int i = 0; i < nb_next; i++)
		snprintf(kept[i], sizeof(kept[i]), "%s", next[i]);
	for (unsigned int i = 0; i < nb_next; i++)
		n = offer(out, n, kept[i], help_of_word(words, nb, kept[i], help));
	return n;
}

/** Describe what @p a is, and of numbers what they may be. */
static void
describe_arg(const struct arg *a, char *hint)
{
	char expected[COMMAND_LINE_BYTES];
	bool number = a->type == ARG_NUMBER || a->type == ARG_REAL;

	snprintf(hint, COMMAND_LINE_BYTES, "%s: ", a->name);
	text_append(hint, COMMAND_LINE_BYTES, "%s%s%s", a->help, number ? ": " : "", number ? arg_expects(a, expected, sizeof(expected)) : "");
}

unsigned int
command_choices(const char *const *words, unsigned int nb_words, struct command_choice *out, char *hint, bool *list)
{
	unsigned int used, n = offer_commands(words, nb_words, out), values;
	static struct call c;
	const struct arg *a;
	int value, place;

	*list = false;
	snprintf(hint, COMMAND_LINE_BYTES, "a command:");
	memset(&c, 0, sizeof(c));
	c.command = command_find(words, nb_words, &used);
	if (c.command == NULL) {
		if (n == 0)
			snprintf(hint, COMMAND_LINE_BYTES, "no command begins so");
		return n;
	}
	value = take_quietly(&c, words + used, nb_words - used);
	place = call_placed(&c);
	values = n;
	if (value >= 0 || place >= 0) {
		a = c.args[value >= 0 ? value : place];
		describe_arg(a, hint);
		*list = a->list;
		n = offer_values(a, out, n);
	}
	values = n - values;
	for (unsigned int i = 0; value < 0 && i < c.nb_args; i++)
		if (c.args[i]->place == ARG_KEYED && c.text[i] == NULL)
			n = offer(out, n, c.args[i]->name, c.args[i]->help);
	if (value < 0 && place < 0)
		snprintf(hint, COMMAND_LINE_BYTES, n > 0 ? "options, or the end of the line:" : "nothing more is expected");
	else if (values == 0 && c.args[value >= 0 ? value : place]->names != NULL)
		text_append(hint, COMMAND_LINE_BYTES, "; none is there yet");
	return n;
}
