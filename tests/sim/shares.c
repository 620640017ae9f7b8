/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares: half of the seeds divide the QPs of each engine among one to four sessions with weights of their own. At the end of every turn:
 *
 * - Nobody waits for ever: while a share waits for its turn and gets none, no other completes more than two rounds. (It may begin one before
 *   that share, and be in the middle of one.)
 * - Those that wait all the time get equal numbers of rounds, and with each of them a quantum of bytes by their weights: none is two ahead of
 *   another.
 */
#include "sim.h"

enum { STREAM_SHARES = 41, ROUNDS_AHEAD = 2 };

bool
shares_make(struct sim_world *w, struct sim_ep *ep)
{
	struct rng r = rng_stream(w->cfg.seed, STREAM_SHARES + 64 * (ep->id + 1));

	for (uint32_t i = 0; i < ep->nb_engines; i++) {
		struct sim_engine *e = &ep->engines[i];

		for (uint32_t j = 0; j < w->cfg.nb_shares; j++) {
			struct share_params p = { .weight = rng_one_in(&r, 2) ? 0 : (uint32_t)rng_between(&r, 10, 1000) };

			if (share_create(e->tp, &p, &e->shares[j].share) != 0)
				return false;
		}
	}
	return true;
}

struct share *
shares_choose(const struct sim_world *w, struct sim_ep *ep, const struct transport *tp, uint32_t number)
{
	struct rng r = rng_stream(w->cfg.seed, STREAM_SHARES + 4096 + number);

	if (w->cfg.nb_shares == 0)
		return NULL;
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		if (ep->engines[i].tp == tp)
			return ep->engines[i].shares[rng_below(&r, w->cfg.nb_shares)].share;
	return NULL;
}

/* What share @p s has got since the share @p of began to wait. */
static uint64_t
rounds_since(const struct sim_share *s, const struct sim_share *of, uint32_t at)
{
	return s->rounds - of->others[at];
}

/* @p s has had a turn, or wants none: it begins to wait anew. */
static void
wait_begins(struct sim_engine *e, struct sim_share *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		s->others[i] = e->shares[i].rounds;
}

static void
check_pair(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e, uint32_t i, uint32_t j)
{
	struct sim_share *a = &e->shares[i], *b = &e->shares[j];
	int64_t ahead;

	if (!a->waits || !b->waits || a->begins || b->begins) {
		a->level[j] = (int64_t)(a->rounds - b->rounds);
		return;
	}
	ahead = (int64_t)(a->rounds - b->rounds) - a->level[j];
	if (!w->copies && (ahead > ROUNDS_AHEAD || ahead < -ROUNDS_AHEAD))
		sim_fail(w, "endpoint %u: shares %u and %u want turns all the time, and one is %ld rounds ahead", ep->id, i, j,
			 (long)ahead);
}

void
shares_check(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e)
{
	uint32_t n = w->cfg.nb_shares, i, j;
	bool served[SIM_MAX_SHARES];
	struct share_view v;

	for (i = 0; i < n; i++) {
		struct sim_share *s = &e->shares[i];

		share_look(e->tp, s->share, &v);
		/* It may have begun at the end of the turn, by a packet by reference. */
		s->begins = !s->waits && v.wait == SHARE_WAIT_TURN;
		s->waits = v.wait == SHARE_WAIT_TURN;
		served[i] = !s->waits || s->begins || v.stats.cost != s->cost || v.stats.rounds != s->rounds;
		s->cost = v.stats.cost;
		s->rounds = v.stats.rounds;
	}
	for (i = 0; i < n; i++) {
		if (served[i])
			wait_begins(e, &e->shares[i], n);
		for (j = 0; j < n; j++)
			/* A copy of memory that isn't mapped is charged at once: its share may have to wait for as many rounds as it costs. */
			if (!w->copies && rounds_since(&e->shares[j], &e->shares[i], j) > ROUNDS_AHEAD)
				sim_fail(w, "endpoint %u: share %u waits for its turn, and share %u has had %lu rounds", ep->id, i, j,
					 (unsigned long)rounds_since(&e->shares[j], &e->shares[i], j));
		for (j = 0; j < i; j++)
			check_pair(w, ep, e, i, j);
	}
}

void
shares_free(struct sim_ep *ep)
{
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		for (uint32_t j = 0; j < SIM_MAX_SHARES; j++)
			share_destroy(ep->engines[i].tp, ep->engines[i].shares[j].share);
}
