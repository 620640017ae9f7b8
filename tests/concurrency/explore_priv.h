/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Between the explorer's scheduler (schedule.c), its memory model (memory.c) and its race detector (shadow.c).
 */
#ifndef EXPLORE_PRIV_H
#define EXPLORE_PRIV_H

#include "explore.h"

enum {
	EXPLORE_LOCATIONS = 160, /**< words with atomic operations, per execution */
	EXPLORE_MESSAGES = 48,   /**< stores to each */
};

enum explore_model {
	MODEL_C11, /**< what C promises; weaker than any processor but for loads that see stores of the future */
	MODEL_TSO, /**< x86: only a store may be overtaken, by later loads; read-modify-writes are fences */
	MODEL_SC,  /**< no reordering */
};
extern enum explore_model explore_model;

/** What a thread knows: of each location the oldest store that it may still read; of each thread how far it has seen it. */
struct view {
	uint16_t seen[EXPLORE_LOCATIONS];
	uint16_t clock[EXPLORE_THREADS];
};

/* ---- schedule.c ---- */
/** @return true while threads of a case run. */
bool explore_running(void);
/** An atomic operation is next: perhaps let other threads go first. */
void explore_point(void);
/** Take one of @p n possible stores to read; 0 is the newest. Those that aren't cost some of the bound. */
unsigned int explore_choose_store(unsigned int n);
/** Let the other threads run until memory_may_go_on(). */
void explore_block(void);
/** Add what this thread has just done to its history, which makes the state. */
void explore_note(uint64_t a, uint64_t b, uint64_t c);
/** Add a line to the printed history of a failure. */
void explore_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** @return the change of the operation at the site noted last, and forget the site. */
enum explore_change explore_mutated(uint64_t *value);

/* ---- memory.c ---- */
void memory_reset(void);
/** @return true if a word that thread @p t has read since it yielded has changed. */
bool memory_may_go_on(unsigned int t);
/** A part of the state that isn't in the histories. */
uint64_t memory_hash(void);
struct view *memory_view(unsigned int thread);
/** A plain write of a byte in [@p addr, @p addr + @p n). */
void memory_plain_write(uintptr_t addr, size_t n);

/* ---- shadow.c ---- */
enum access { PLAIN_READ, PLAIN_WRITE, ATOMIC_READ, ATOMIC_WRITE, ACCESS_KINDS };
void shadow_reset(void);
/** Note an access, and fail if it is unordered with an earlier one. */
void shadow_access(uintptr_t addr, size_t n, enum access kind);

#endif /* EXPLORE_PRIV_H */
