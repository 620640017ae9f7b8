/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks values of arguments, and describes those that are allowed. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_priv.h"

size_t
text_append(char *text, size_t bytes, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, bytes - n, fmt, ap);
	va_end(ap);
	return strlen(text);
}

/**
 * Append the names of @p a's values, separated by ", ".
 * @return false: there are none.
 */
static bool
append_values(const struct arg *a, char *text, size_t bytes)
{
	const char *word;
	unsigned int i;

	for (i = 0; (word = a->words != NULL ? a->words[i] : a->names != NULL ? a->names(i) : NULL) != NULL; i++)
		text_append(text, bytes, "%s%s", i > 0 ? ", " : "", word);
	return i > 0;
}

char *
arg_expects(const struct arg *a, char *text, size_t bytes)
{
	text[0] = '\0';
	switch (a->type) {
	case ARG_FLAG:
		text_append(text, bytes, "%s", a->name);
		break;
	case ARG_NUMBER:
		text_append(text, bytes, "a number from %.0f to %.0f", a->min, a->max);
		break;
	case ARG_REAL:
		text_append(text, bytes, "a number from %g to %g", a->min, a->max);
		break;
	case ARG_CHOICE:
	case ARG_NAME:
		text_append(text, bytes, "%s of ", a->list ? "some" : "one");
		if (!append_values(a, text, bytes))
			snprintf(text, bytes, "the name of one that is there; none is yet");
		if (a->open)
			text_append(text, bytes, ", or %s", a->help);
		break;
	case ARG_TEXT:
		text_append(text, bytes, "%s", a->help);
		break;
	}
	return text;
}

static bool
parse_number(const struct arg *a, const char *word, uint64_t *value)
{
	static const char units[] = "kmg";
	unsigned long long n;
	const char *unit;
	char *end;
	unsigned int shift = 0;

	if (!isdigit((unsigned char)word[0]))
		return false;
	errno = 0;
	n = strtoull(word, &end, 0);
	if (errno != 0)
		return false;
	unit = *end != '\0' ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (unit != NULL) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	*value = n << shift;
	return *end == '\0' && *value >> shift == n && (double)*value >= a->min && (double)*value <= a->max;
}

static bool
parse_real(const struct arg *a, const char *word, double *value)
{
	char *end;

	*value = strtod(word, &end);
	return end != word && *end == '\0' && *value >= a->min && *value <= a->max;
}

static bool
is_one_of(const struct arg *a, const char *word, size_t n, uint64_t *value)
{
	const char *known;

	for (unsigned int i = 0; (known = a->words != NULL ? a->words[i] : a->names(i)) != NULL; i++)
		if (strlen(known) == n && strncmp(known, word, n) == 0) {
			*value = i;
			return true;
		}
	return false;
}

static bool
are_all_of(const struct arg *a, const char *word, uint64_t *value)
{
	if (!a->list)
		return is_one_of(a, word, strlen(word), value);
	while (true) {
		size_t n = strcspn(word, ",");

		if (!is_one_of(a, word, n, value))
			return false;
		if (word[n] == '\0')
			return true;
		word += n + 1;
	}
}

bool
arg_parse(struct call *c, unsigned int i, const char *word)
{
	const struct arg *a = c->args[i];

	switch (a->type) {
	case ARG_NUMBER:
		return parse_number(a, word, &c->number[i]);
	case ARG_REAL:
		return parse_real(a, word, &c->real[i]);
	case ARG_CHOICE:
		return are_all_of(a, word, &c->number[i]);
	case ARG_NAME:
		return are_all_of(a, word, &c->number[i]) || a->open;
	case ARG_FLAG:
	case ARG_TEXT:
		return true;
	}
	return false;
}
