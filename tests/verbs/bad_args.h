/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of bad_args share: tables of wrong values, and the cases that are in other files than main().
 */
#ifndef BAD_ARGS_H
#define BAD_ARGS_H

#include <stddef.h>

#include "vt.h"

/** A wrong value of a member. */
struct bad {
	const char *what;
	size_t offset, bytes;
	uint64_t value;
	int err;
};
#define NOTHING { "nothing wrong", 0, 0, 0, 0 }
#define BAD(type, member, value, err) \
	{ #member " = " #value, offsetof(type, member), sizeof(((type *)0)->member), (uint64_t)(value), err }

/** A call with these arguments; destroys what it made. @return 0 or the errno value. */
typedef int (*call_fn)(struct vt *t, void *args);

/** Make the call once for each row, with that value wrong and all others as in @p good. */
void walk(struct vt *t, const char *call, call_fn fn, const void *good, size_t bytes, const struct bad *rows, size_t n);
#define WALK(t, fn, good, rows) walk(t, #fn, fn, &(good), sizeof(good), rows, sizeof(rows) / sizeof((rows)[0]))

/* bad_args_qp.c */
void creating_qps(struct vt *t);
void modifying_an_rc_qp(struct vt *t);
void modifying_uc_and_ud_qps(struct vt *t);

/* bad_args_memory.c */
void memory_regions(struct vt *t);
void reregistration(struct vt *t);
void memory_windows(struct vt *t);
void device_memory(struct vt *t);

#endif /* BAD_ARGS_H */
