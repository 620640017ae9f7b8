/* SPDX-License-Identifier: BSD-3-Clause */
/* The options, and messages about mistakes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uroce.h"

enum { NEAR_MAX = 48 /* longest word that is compared */ };

struct options options = { .delay = 1 };

int
fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("uroce: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_FAILED;
}

int
usage(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("uroce: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\nuroce --help lists the commands\n", stderr);
	return EXIT_USAGE;
}

/* How many letters have to be changed, added or removed to make @p b of @p a (Levenshtein). */
static size_t
distance(const char *a, const char *b)
{
	size_t n = strlen(b), row[NEAR_MAX + 1], corner, up;

	if (n > NEAR_MAX)
		return NEAR_MAX;
	for (size_t i = 0; i <= n; i++)
		row[i] = i;
	for (; *a != '\0'; a++) {
		corner = row[0]++;
		for (size_t i = 1; i <= n; i++) {
			up = row[i];
			row[i] = corner + (*a != b[i - 1]);
			if (up + 1 < row[i])
				row[i] = up + 1;
			if (row[i - 1] + 1 < row[i])
				row[i] = row[i - 1] + 1;
			corner = up;
		}
	}
	return row[n];
}

int
unknown_word(const char *what, const char *word, const char *const *words)
{
	size_t best = strlen(word) / 2 + 1 < 3 ? strlen(word) / 2 + 1 : 3, d;
	const char *near = NULL;
	char known[1024] = "";

	for (size_t i = 0; words[i] != NULL; i++) {
		d = strncmp(word, words[i], strlen(word)) == 0 && word[0] != '\0' ? 0 : distance(word, words[i]);
		if (d < best) {
			best = d;
			near = words[i];
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i > 0 ? ", " : "", words[i]);
	}
	if (near != NULL)
		return usage("no %s '%s'; did you mean '%s'? There are: %s", what, word, near, known);
	return usage("no %s '%s'; there are: %s", what, word, known);
}

bool
number_of(const char *text, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 0);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}
