/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/near.h"

enum {
	WORD_MAX = 64, /* longer words are near to nothing */
	FAR = 3,       /* mistakes that nobody makes in one word */
};

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/** @return how many letters have to be changed, added, removed or swapped with the next one to make @p b of @p a. */
static size_t
distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1], na = strlen(a), nb = strlen(b);
	size_t *before = rows[0], *last = rows[1], *row = rows[2], *spare;

	if (na > WORD_MAX || nb > WORD_MAX)
		return FAR;
	for (size_t j = 0; j <= nb; j++)
		last[j] = j;
	for (size_t i = 1; i <= na; i++) {
		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[nb];
}

void
near_look(struct near *n, const char *written, const char *word)
{
	size_t d = distance(written, word);

	/* Of a short word hardly anything may be wrong. */
	if (d >= FAR || 2 * d > strlen(word) || (n->word != NULL && d >= n->distance))
		return;
	*n = (struct near){ word, d };
}
