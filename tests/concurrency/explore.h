/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The explorer: runs a few threads on production code in every order of their atomic operations, up to a bound, and under a weak memory model.
 *
 * The threads are coroutines. Each atomic operation is a point where another thread may go on, and where a load may return an older value that
 * its thread is still allowed to see (memory.c). So one execution is a list of choices; schedule.c takes them in turn, depth first, and
 * doesn't go on where an earlier execution has been in the same state. A case fails if a thread calls explore_fail(), if two threads access
 * the same byte without order and at least one access is a plain write, if what was freed is used, or if no thread can go on.
 *
 * docs/testing.md says how to add a protocol.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 4 };

/** How a mutation changes what an atomic operation does. */
enum explore_change {
	EXPLORE_END,   /**< ends a list */
	EXPLORE_DROP,  /**< a fence or store: isn't executed; a read-modify-write: reads only */
	EXPLORE_RELAX, /**< has memory_order_relaxed */
	EXPLORE_VALUE, /**< a load: isn't executed and returns explore_mutation.value */
};

/** A fault that the case must find: of the test, not of the product. */
struct explore_mutation {
	enum explore_change change;
	const char *func; /**< the function with the operation */
	const char *what; /**< the operation, as sites.h writes it: "fence", "load &db->top, memory_order_relaxed" */
	uint64_t value;
};

/** A protocol: what runs, and what must hold. */
struct explore_case {
	const char *name;
	void (*setup)(void);                     /**< before each execution: makes all state anew */
	void (*threads[EXPLORE_THREADS])(void);  /**< up to the first NULL */
	void (*check)(void);                     /**< after all threads have ended; may be NULL */
	unsigned int preemptions, stale;         /**< bounds of the daily run; 0: those of schedule.c */
	const struct explore_mutation *mutations; /**< NULL: none */
	bool freely_mixed; /**< explore_memcpy() copies whole aligned words by relaxed operations: the other side polls the memory */
};

/**
 * Run the cases and the mutations of each. @return the exit status.
 * Arguments: see usage() in schedule.c.
 */
int explore_main(int argc, char **argv, const struct explore_case *cases, unsigned int n);

/* ---- For the threads of a case ---- */
/** The execution violates the case's guarantee. Doesn't return. */
void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define explore_check(cond) ((cond) ? (void)0 : explore_fail("%s(), line %d: not %s", __func__, __LINE__, #cond))
/** This thread can't go on before a word that it has read since it last called this has changed. */
void explore_yield(void);
/** In setup(): changes of the word at @p p end no explore_yield(). For what is only counted. */
void explore_ignore(const volatile void *p);
/** @return the number of the thread that runs; 0 in setup() and check(). */
unsigned int explore_thread(void);
/** Memory that is zero, and all free again before the next execution. explore_free(): any later access fails. */
void *explore_alloc(size_t bytes);
void explore_free(void *p);
/** memcpy() of a production file. */
void *explore_memcpy(void *to, const void *from, size_t n);
/** Of sites.h: the next atomic operation of this thread is this one. */
void explore_site(const char *func, const char *what);

/** A descriptor or futex of the kernel's that holds a number of wake-ups. As an eventfd, it orders the writer before the reader. */
struct explore_event {
	_Atomic uint32_t count;
};
void explore_event_write(struct explore_event *e);
/** Wait until the count isn't 0, and make it 0. */
void explore_event_read(struct explore_event *e);
/** @return false: the count was 0. */
bool explore_event_try(struct explore_event *e);

/** write() of a production file: the case's. */
long explore_write(int fd, const void *p, size_t n);

#endif /* EXPLORE_H */
