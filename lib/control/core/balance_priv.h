/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which QPs should move to which engine: the rules of `balance = on`, apart from what measures and moves. docs/internals/moves.md says why they are so.
 *
 * In each interval the caller measures how busy the engines were and what each QP has cost, and asks balance_plan() for moves:
 *
 *   balance_begin()   the loads of the engines
 *   balance_add()     for each QP: what it has cost since the last interval
 *   balance_plan()    the moves, if any
 *
 * Two rules. An engine that is hot gives QPs to one that has less to do. Otherwise one that has little to do gives all that it has to another that
 * has room, and sleeps. The rules can't undo each other's moves, since what is hot is far above what is little.
 *
 * Owns: struct balance, the caller's. No clock, no engines, no memory from the heap. Called by: balancing.c. Thread: the owner's.
 */
#ifndef UROCE_CONTROL_BALANCE_H
#define UROCE_CONTROL_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/abi.h"

/** Loads are parts of BALANCE_ALL. */
enum {
	BALANCE_ALL = 1000000,    /**< the load of an engine that is always busy */
	BALANCE_INTERVAL_MS = 1000,
	BALANCE_HOT = 800000,        /**< an engine that is busy for more gives QPs away, */
	BALANCE_HOT_FOR = 2,      /**< if it was in so many intervals */
	BALANCE_GAP = 200000,     /**< to an engine with a load that is smaller by more than this, */
	BALANCE_MARGIN = 100000,  /**< if all that can go there is worth as much as this; a heavy QP must leave its new engine that far below the old one's load */
	BALANCE_LITTLE = 500000,     /**< two engines that had no more than this together, */
	BALANCE_LITTLE_FOR = 5,   /**< at their most in so many intervals, become one */
	BALANCE_REST = 20000,        /**< if the first one would have no more left than this, which lets it sleep */
	BALANCE_BUSY_QP = 20000,     /**< a QP with less than this stays where it is when engines become one */
	BALANCE_STAY_MS = 10000,  /**< for so long a QP stays after it has moved */
	BALANCE_MOVES = 8,        /**< in an interval at most */
	BALANCE_HEAVIEST = 32,    /**< QPs of an engine that are considered: those that cost most */
};

/** A QP, or several that move as one; and the two numbers by which the caller finds it, or one of them, again. */
struct balance_qp {
	uint64_t session;
	uint32_t handle;
	uint32_t nb_qps; /**< more than 1: a group, as those of an SRQ */
	uint64_t cost; /**< of all, in this interval, in any unit */
};

struct balance_move {
	struct balance_qp qp;
	unsigned int from, to;
	uint32_t load;               /**< of the QP: its part of what `from` did */
	uint32_t from_load, to_load; /**< of the engines in the last interval, after the moves before this one */
};

struct balance_engine {
	uint32_t loads[BALANCE_LITTLE_FOR]; /**< of the last intervals, the latest first; what has moved since counts where it is now */
	/* Of this interval. */
	uint64_t cost;         /**< of all QPs */
	uint64_t movable_cost; /**< of those that may move */
	uint32_t n;
	struct balance_qp heaviest[BALANCE_HEAVIEST]; /**< of those that may move; the heaviest first */
};

struct balance {
	unsigned int nb_engines;
	unsigned int intervals; /**< whose loads are known, up to BALANCE_LITTLE_FOR */
	bool sleeps;            /**< an engine without work sleeps: something is gained by leaving it without work */
	struct balance_engine engines[UROCE_MAX_ENGINES];
};

/** Begin anew: nothing is known of any interval. @param sleeps  Engines without work sleep. */
void balance_init(struct balance *b, unsigned int nb_engines, bool sleeps);
/** An interval has ended. @param loads  How busy each engine was in it. */
void balance_begin(struct balance *b, const uint32_t *loads);
/**
 * What a QP of @p engine has cost in the interval.
 * @param may_move  It can, and has not moved within BALANCE_STAY_MS.
 */
void balance_add(struct balance *b, unsigned int engine, const struct balance_qp *qp, bool may_move);
/** All QPs are added. @param moves  Room for BALANCE_MOVES; to be executed in this order, and any may be left out. @return how many. */
unsigned int balance_plan(struct balance *b, struct balance_move *moves);

#endif /* UROCE_CONTROL_BALANCE_H */
