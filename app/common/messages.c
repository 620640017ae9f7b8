/* SPDX-License-Identifier: BSD-3-Clause */
/* Which daemon is meant, and messages about mistakes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "daemon.h"

struct daemon_target target = { .program = "uroce", .where = "--socket PATH or --lab NAME HOST" };

static void
say(const char *fmt, va_list ap)
{
	fflush(stdout);
	fprintf(stderr, "%s: ", target.program);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

int
fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	return EXIT_FAILED;
}

int
usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", target.hint != NULL ? target.hint : "uroce --help lists the commands");
	return EXIT_USAGE;
}

int
unknown_word(const char *what, const char *word, const char *const *words)
{
	struct near near = { 0 };
	const char *meant = NULL;
	char known[1024] = "";

	for (size_t i = 0; words[i] != NULL; i++) {
		near_look(&near, word, words[i]);
		if (meant == NULL && word[0] != '\0' && strncmp(word, words[i], strlen(word)) == 0)
			meant = words[i];
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i > 0 ? ", " : "", words[i]);
	}
	if (meant == NULL)
		meant = near.word;
	if (meant != NULL)
		return usage("no %s '%s'; did you mean '%s'? There are: %s", what, word, meant, known);
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
