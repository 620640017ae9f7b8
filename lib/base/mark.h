/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Marks: sentences in rare branches, counted in builds with assertions, so that a run of the simulator can say which of them no seed
 * has reached. In other builds a mark is nothing at all.
 *
 * A mark stands where a test run shall come by: MARK("an ACK is owed to a duplicate"). One that the simulator can't reach names the
 * unit test that does: MARK_UNIT("...", "unit/transport/keys"). Marks with the same sentence (an inline function is compiled
 * several times) are one. tests/sim/marks.h counts and prints them.
 */
#ifndef UROCE_MARK_H
#define UROCE_MARK_H

#ifdef UROCE_ASSERTIONS

#include <stdatomic.h>
#include <stdint.h>

struct mark {
	const char *text;
	const char *unit; /**< the unit test that reaches it, or NULL: the simulator must */
	_Atomic uint64_t count;
};

/* The linker puts the pointers to all marks of a program into one array, uroce_marks. */
#define MARK_UNIT(sentence, test)                                                                    \
	do {                                                                                         \
		static struct mark mark_here = { .text = (sentence), .unit = (test) };               \
		static struct mark *const mark_entry                                                 \
			__attribute__((section("uroce_marks"), used)) = &mark_here;                  \
		(void)mark_entry;                                                                    \
		atomic_fetch_add_explicit(&mark_here.count, 1, memory_order_relaxed);                \
	} while (0)
#define MARK_IF(cond, sentence)         \
	do {                            \
		if (cond)               \
			MARK(sentence); \
	} while (0)

#else
#define MARK_UNIT(sentence, test) ((void)0)
#define MARK_IF(cond, sentence) ((void)0)
#endif

#define MARK(sentence) MARK_UNIT(sentence, NULL)

#endif /* UROCE_MARK_H */
