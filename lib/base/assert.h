/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Assertions: what the code relies on, checked in debug builds, in unit tests and in the simulator. In a release build they are
 * compiled, so that they stay correct, but never evaluated.
 *
 * An assertion states an invariant of our own. What comes from a client, a packet, a file or a socket is checked in every
 * build and answered with an error.
 */
#ifndef UROCE_ASSERT_H
#define UROCE_ASSERT_H

#include <stdio.h>
#include <stdlib.h>

#ifdef UROCE_ASSERTIONS
#define UROCE_ASSERT(cond) ((cond) ? (void)0 : uroce_assert_failed(#cond, __FILE__, __LINE__, __func__))
#else
#define UROCE_ASSERT(cond) ((void)sizeof((cond) ? 1 : 0))
#endif

/** Say which assertion failed and end the process with SIGABRT. */
static inline __attribute__((noreturn, cold, unused)) void
uroce_assert_failed(const char *cond, const char *file, int line, const char *func)
{
	fprintf(stderr, "%s:%d: %s(): assertion failed: %s\n", file, line, func, cond);
	abort();
}

#endif /* UROCE_ASSERT_H */
