/* SPDX-License-Identifier: BSD-3-Clause */
/* Time that passes while nothing happens: engines that stall, and clocks that jump. */
#include <inttypes.h>

#include "sim.h"

enum {
	STREAM_JUMPS = 44,
	LONG_STALL = 30,        /* one stall in so many, if retries may run out, */
	LONG_STALLS_MOST = 4,   /* and so often in a seed */
	JUMP_ONE_IN = 20000,    /* events */
	JUMPS_MOST = 3,
};
#define JUMP_SLACK_NS SIM_NS_PER_MS /* until every engine has had a turn */

void
clock_init(struct sim_world *w)
{
	w->jump_rng = rng_stream(w->cfg.seed, STREAM_JUMPS);
}

/* Where retries may run out an engine may also stand still for seconds: its host swaps, or has other things to do. */
uint64_t
clock_stall_ns(struct sim_world *w, struct sim_ep *ep)
{
	/* Copies of memory that isn't mapped have a deadline, behind which the QP fails. */
	if (!w->cfg.harsh || w->copies || w->nb_long_stalls == LONG_STALLS_MOST || !rng_one_in(&w->jump_rng, LONG_STALL))
		return rng_between(&ep->rng, 1000, 100000);
	w->nb_long_stalls++;
	return rng_between(&w->jump_rng, 100 * SIM_NS_PER_MS, 3 * SIM_NS_PER_S);
}

/*
 * All hosts' clocks jump, as when the machine that they are guests of was suspended: nothing has happened meanwhile, but every timer's
 * time is over.
 */
static void
clocks_jump(struct sim_world *w)
{
	uint64_t ns = rng_between(&w->jump_rng, SIM_NS_PER_MS, 5 * SIM_NS_PER_S);
	uint32_t i;

	w->nb_jumps++;
	sim_trace(w, "the clocks jump by %" PRIu64 " us", ns / 1000);
	for (i = 0; i < w->nb_heap; i++)
		w->heap[i].at += ns;
	for (i = 0; i < w->cfg.nb_eps; i++) {
		w->eps[i].run_at += w->eps[i].run_at == UINT64_MAX ? 0 : ns;
		w->eps[i].busy_until += ns;
		w->eps[i].stalled_until += w->eps[i].stalled_until > w->now_ns ? ns : 0;
		w->eps[i].dark_until += w->eps[i].dark_until > w->now_ns ? ns : 0;
		w->eps[i].copies_until += ns;
	}
	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		w->conns[i / 2].quiet_at = 0;
		foreign_clock_jumps(&w->conns[i / 2].qp[i & 1], ns);
	}
	w->jumped_until = w->now_ns + ns + JUMP_SLACK_NS;
}

void
clock_may_jump(struct sim_world *w)
{
	if (w->cfg.harsh && !w->copies && (w->cfg.faults & SIM_F_STALL) && w->nb_jumps < JUMPS_MOST && !w->settled &&
	    rng_one_in(&w->jump_rng, JUMP_ONE_IN))
		clocks_jump(w);
}
