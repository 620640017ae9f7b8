/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A hierarchical timing wheel: the timers of one engine.
 *
 * Owns: the slots; each entry lies inside the object whose timer it is. Called by the wheel's owner on one
 * thread only. Never allocates. Adding and removing cost O(1); advancing costs what expires and what moves
 * one level down, never the length of the time that passed.
 *
 * Nine levels of 64 slots over ticks of 1024 ns reach as far as a 64-bit clock does, so there is no
 * horizon and no overflow list. An entry lies on the level of the highest base-64 digit in which its tick
 * differs from the wheel's; that digit is its slot. So every entry of a level is due before every entry of the
 * next, and no slot is ever behind the wheel's own position.
 */
#ifndef UROCE_WHEEL_H
#define UROCE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WHEEL_TICK_SHIFT = 10, /**< log2 of a tick in nanoseconds */
	WHEEL_SLOT_SHIFT = 6,
	WHEEL_SLOTS = 1 << WHEEL_SLOT_SHIFT,
	WHEEL_LEVELS = (64 - WHEEL_TICK_SHIFT) / WHEEL_SLOT_SHIFT,
};

/** A timer. Zeroed: it isn't running. */
struct wheel_entry {
	struct wheel_entry *next;
	struct wheel_entry **pprev; /**< NULL: not running */
	uint64_t tick;              /**< when it is due */
	uint8_t level, slot;
	uint8_t kind;               /**< the owner's, untouched by the wheel */
};

struct wheel {
	/**
	 * Set after wheel_init(), or NULL. @return when a running timer is really due, if that is later than what wheel_add() was told; 0: it isn't needed any more.
	 * It is asked when the timer would fire or come a level down, so that a timer that is put off again and again needn't be moved each time.
	 */
	uint64_t (*due_ns)(const struct wheel_entry *e);
	uint64_t tick;                         /**< the wheel's position */
	struct wheel_entry *firing;            /**< expired, callback not yet called */
	uint64_t occupied[WHEEL_LEVELS];       /**< slots that have entries */
	struct wheel_entry *slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

/** Called for an expired timer, which is no longer running and may be added again or freed. */
typedef void (*wheel_fn)(struct wheel_entry *e, void *arg);

/** Make an empty wheel whose clock stands at @p now_ns. */
void wheel_init(struct wheel *w, uint64_t now_ns);

/**
 * Start a timer; a running one is moved. Every timer fires in some wheel_advance() that begins after
 * this call, also one that is due already.
 */
void wheel_add(struct wheel *w, struct wheel_entry *e, uint64_t expiry_ns);

/** Stop a timer. It may be one that isn't running. */
void wheel_del(struct wheel *w, struct wheel_entry *e);

/** @return the time at which a running timer is due, to a tick. */
static inline uint64_t
wheel_due_ns(const struct wheel_entry *e)
{
	return e->tick << WHEEL_TICK_SHIFT;
}

/** @return true if the timer is running. */
static inline bool
wheel_pending(const struct wheel_entry *e)
{
	return e->pprev != NULL;
}

/**
 * Move the clock to @p now_ns and call @p fn once for each timer that is due. Never early; late by at most one
 * tick. A clock that goes back is taken to stand still.
 *
 * @p fn may start and stop any timer; what it starts does not fire before the next call.
 * @return timers that fired.
 */
uint32_t wheel_advance(struct wheel *w, uint64_t now_ns, wheel_fn fn, void *arg);

/**
 * @return a time before which no timer is due, UINT64_MAX if none runs. Advancing to it fires a timer or brings
 * one a level down, so a caller that sleeps until then wakes at most WHEEL_LEVELS times per timer, and as often again each time that it is put off.
 */
uint64_t wheel_next(const struct wheel *w);

#endif /* UROCE_WHEEL_H */
