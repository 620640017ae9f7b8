/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Finding the threads' stacks: memory that is never converted.
 *
 * A stack in shared memory works until something depends on the memory's identity: the conversion loses a waiter on a
 * non-private futex (pthread_join on the thread's own descriptor, which is at the top of its stack), and after fork()
 * parent and child would run on the same stack.
 *
 * The rules are conservative: what is wrongly taken for a stack is accessed through /proc/PID/mem, more slowly but
 * correctly.
 *
 *  - The main thread: the mapping that the kernel calls [stack].
 *  - Other threads: glibc passes the head of each thread's robust futex list to the kernel (set_robust_list(2)), and
 *    that head is in the thread's descriptor, at the top of the stack, whether glibc or the program provided the stack.
 *    So the stack is what is below it in the same mapping, down to the guard page where the mapping ends.
 *  - The caller's stack pointer, if it is in neither (a coroutine's stack): STACKS_COROUTINE_BYTES above it.
 *  - If a thread has no robust list (it is just starting, or was created by clone(2) without glibc), any anonymous mapping
 *    that starts right above a PROT_NONE one, as above a guard page, is taken for a stack.
 *
 * Used by: mr.c. Thread: the one that registers memory.
 */
#ifndef UROCE_CLIENT_STACKS_H
#define UROCE_CLIENT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/maps.h"

#define STACKS_COROUTINE_BYTES (UINT64_C(1) << 20)

struct stack_zone {
	uint64_t start, end;
};

struct stack_zones {
	struct stack_zone *z;
	size_t n, room;
	bool uncertain; /**< a thread's stack is unknown: apply the guard page rule too */
};

/** @return true if the process has one thread. */
bool stacks_alone(void);
/**
 * Find the stacks of all threads, as far as they may be in [from, to).
 * @param sp  The caller's stack pointer.
 * @param from,to  Begin of a page; end of a mapping.
 * @return 0 or ENOMEM.
 */
int stacks_find(struct stack_zones *zones, uint64_t sp, uint64_t from, uint64_t to);
/**
 * Cut the stacks out of [*start, end), a part of mapping @p e.
 * @return true if something is left: [*start, *stop) is the first piece; continue at *stop.
 */
bool stacks_next_free(const struct stack_zones *zones, const struct map_entry *e, uint64_t *start, uint64_t end,
		      uint64_t *stop);
void stacks_free(struct stack_zones *zones);

#endif /* UROCE_CLIENT_STACKS_H */
