/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Where threads have their stacks: memory that is never converted.
 *
 * A stack in shared memory works until something keyed by the memory's identity comes along: a waiter on a
 * non-private futex (pthread_join on the thread's own descriptor, which lies at the top of its stack) is lost by the
 * conversion, and after fork() parent and child run on one and the same stack.
 *
 * The rule, conservative (what is wrongly taken for a stack is reached by /proc/PID/mem, slower and right):
 *
 *  - The main thread: the mapping that the kernel calls [stack].
 *  - Other threads: glibc gives the kernel the head of each thread's robust futex list (set_robust_list(2)), and
 *    that head lies in the thread's descriptor, at the top of the stack, whether glibc or the program provided it. So
 * the stack is what lies below it in the same mapping, down to the guard page where the mapping ends.
 *  - The caller's stack pointer, if it is in neither (a coroutine's stack): STACKS_COROUTINE_BYTES above it.
 *  - If a thread has no robust list (it is just starting, or was made by clone(2) without glibc), any anonymous mapping
 *    that starts right above a PROT_NONE one, as a guard page is, counts as a stack.
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
	bool uncertain; /**< a thread's stack is unknown: the guard page rule applies too */
};

/**
 * Find the stacks of all threads.
 * @param sp  The caller's stack pointer.
 * @return 0 or ENOMEM.
 */
int stacks_find(struct stack_zones *zones, uint64_t sp);
/**
 * Cut the stacks out of [*start, end), a part of the mapping @p e.
 * @return true if something is left: [*start, *stop) is the first piece; go on at *stop.
 */
bool stacks_next_free(const struct stack_zones *zones, const struct map_entry *e, uint64_t *start, uint64_t end,
		      uint64_t *stop);
void stacks_free(struct stack_zones *zones);

#endif /* UROCE_CLIENT_STACKS_H */
