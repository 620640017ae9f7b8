/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion: the words that may come next in a line. */
#include <stdio.h>
#include <string.h>

#include "command_priv.h"

static unsigned int
offer_values(const struct arg *a, const char **out, unsigned int n)
{
	const char *word;

	for (unsigned int i = 0; n < COMMAND_MAX_CHOICES &&
	     (word = a->words != NULL ? a->words[i] : a->names != NULL ? a->names(i) : NULL) != NULL; i++)
		out[n++] = word;
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

unsigned int
command_choices(const char *const *words, unsigned int nb_words, const char **out, char *hint)
{
	unsigned int used, n = command_next_words(words, nb_words, out);
	static struct call c;
	const struct arg *a;
	int value, place;

	snprintf(hint, COMMAND_LINE_BYTES, "command");
	memset(&c, 0, sizeof(c));
	c.command = command_find(words, nb_words, &used);
	if (c.command == NULL)
		return n;
	value = take_quietly(&c, words + used, nb_words - used);
	place = call_placed(&c);
	if (value < 0 && place < 0)
		snprintf(hint, COMMAND_LINE_BYTES, "%s", "option");
	if (value >= 0 || place >= 0) {
		a = c.args[value >= 0 ? value : place];
		snprintf(hint, COMMAND_LINE_BYTES, "%s: %s", a->name, a->help);
		n = offer_values(a, out, n);
	}
	for (unsigned int i = 0; value < 0 && i < c.nb_args && n < COMMAND_MAX_CHOICES; i++)
		if (c.args[i]->place == ARG_KEYED && c.text[i] == NULL)
			out[n++] = c.args[i]->name;
	return n;
}
