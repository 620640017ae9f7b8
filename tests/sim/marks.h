/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which marks (lib/base/mark.h) of this program a run has reached.
 */
#ifndef SIM_MARKS_H
#define SIM_MARKS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mark.h"

#ifdef UROCE_ASSERTIONS

/* The linker's array; absent in a program without marks. */
extern struct mark *const __start_uroce_marks[] __attribute__((weak));
extern struct mark *const __stop_uroce_marks[] __attribute__((weak));

/* @return how often the sentence was reached; 0 too if an earlier entry has the same sentence, which *@p first then says. */
static inline uint64_t
mark_count(struct mark *const *at, bool *first)
{
	uint64_t n = 0;

	*first = true;
	for (struct mark *const *m = __start_uroce_marks; m < __stop_uroce_marks; m++) {
		if (strcmp((*m)->text, (*at)->text) != 0)
			continue;
		*first &= m >= at;
		n += (*m)->count;
	}
	return n;
}

/* Print how many marks were reached and which were not; with @p list all of them, with their counts. */
static inline void
marks_print(bool list)
{
	unsigned int nb = 0, reached = 0, unit = 0;
	bool first;

	for (struct mark *const *m = __start_uroce_marks; m < __stop_uroce_marks; m++) {
		uint64_t n = mark_count(m, &first);

		if (!first)
			continue;
		nb++;
		reached += n != 0;
		unit += n == 0 && (*m)->unit != NULL;
		if (list)
			printf("mark %10" PRIu64 "  %s%s%s\n", n, (*m)->text, (*m)->unit != NULL ? "; " : "", (*m)->unit != NULL ? (*m)->unit : "");
	}
	printf("marks: %u of %u reached, %u left to unit tests%s\n", reached, nb, unit, reached + unit == nb ? "" : "; no seed has reached:");
	for (struct mark *const *m = __start_uroce_marks; m < __stop_uroce_marks; m++) {
		if (mark_count(m, &first) == 0 && first && (*m)->unit == NULL)
			printf("  %s\n", (*m)->text);
	}
}

#else

static inline void
marks_print(bool list)
{
	if (list)
		printf("no marks: they are counted in builds with assertions\n");
}

#endif

#endif /* SIM_MARKS_H */
