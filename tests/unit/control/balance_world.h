/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Engines and QPs with loads that the test makes up, for tests of the rules of `balance`: interval by interval, and what is planned is done.
 */
#ifndef TEST_BALANCE_WORLD_H
#define TEST_BALANCE_WORLD_H

#include "control/core/balance_priv.h"

enum {
	PERCENT = BALANCE_ALL / 100,
	QPS_MOST = 400,
	STAY = BALANCE_STAY_MS / BALANCE_INTERVAL_MS,
	LONG_AGO = -STAY,
};

struct world_qp {
	uint32_t load;      /* that it causes wherever it is */
	unsigned int engine;
	int moved;          /* the interval in which it moved last */
	bool stays;         /* it is of a kind that can't move */
	uint32_t nb_qps;    /* more than 1: it is a group */
};

/* Engines and QPs with loads, and what has been planned. */
struct world {
	struct balance b;
	struct world_qp qp[QPS_MOST];
	uint32_t nb_qps;
	uint32_t own[UROCE_MAX_ENGINES]; /* what an engine has to do beside its QPs */
	int interval;
	struct balance_move moves[BALANCE_MOVES];
	unsigned int n;
};

/** @return a world without QPs; free() ends it. */
struct world *world(unsigned int nb_engines);
/** @return the number of the first of @p n QPs with @p load each. */
uint32_t add(struct world *w, unsigned int engine, uint32_t n, uint32_t load);
/** @return the number of a group of @p n QPs with @p load together. */
uint32_t add_group(struct world *w, unsigned int engine, uint32_t n, uint32_t load);
/** What its QPs want, which may be more than an engine has. */
uint32_t wanted(const struct world *w, unsigned int engine);
/** What the engine does of it. */
uint32_t load(const struct world *w, unsigned int engine);
/** An interval ends, with costs in a unit of their own; QPs without load have cost a little, too. @return how many moves are planned; they are made. */
unsigned int interval(struct world *w);
/** Let so many intervals pass. @return the moves in all of them. */
unsigned int intervals(struct world *w, unsigned int n);
uint32_t qps_at(const struct world *w, unsigned int engine);

#endif /* TEST_BALANCE_WORLD_H */
