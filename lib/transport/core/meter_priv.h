/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The meter: while several shares want something of an engine, each pays for the time that is spent on it.
 *
 * What a message takes differs by a factor of ten with what is in the CPU's caches, by which way it goes, and between machines, so no table of costs is fair. The CPU's clock is:
 * it is read whenever the engine begins to work for another share. A share that has the engine to itself owes nothing, so nothing is measured then,
 * and costs are calculated from bytes, packets and WQEs. So they are, at any time, in a transport without transport_config.metered, as in the simulator, and for the
 * order in which the QPs of a share take turns.
 *
 * Called on the engine's thread.
 */
#ifndef UROCE_TP_METER_H
#define UROCE_TP_METER_H

#include <rte_cycles.h>

#include "transport/core/share_priv.h"

/** What time is being spent on. Begins as { 0 }. */
struct meter {
	struct share *payer; /**< NULL: nobody's */
	uint64_t since;
};

/** Another share wants something, too: measure for a while. */
static inline void
meter_start(struct transport *tp)
{
	if (tp->tick_cost != 0)
		tp->meter_until_ns = tp->now_ns + TP_METER_NS;
}

/** @return whether time is measured. */
static inline bool
meter_runs(const struct transport *tp)
{
	return unlikely(tp->now_ns < tp->meter_until_ns);
}

/** @return what has been used up since @p since. */
static inline uint32_t
meter_cost(const struct transport *tp, uint64_t since, uint64_t now)
{
	uint64_t cost = ((now - since) * tp->tick_cost) >> TP_TICK_SHIFT;

	return (uint32_t)RTE_MIN(cost, (uint64_t)TP_METER_MAX);
}

/** @p s pays in advance for what stays on this host, since that is delivered when the turns of all shares are over. */
static inline void
meter_advance(const struct transport *tp, struct share *s, uint64_t bytes, uint64_t packets)
{
	int64_t cost = (int64_t)(bytes / TP_REFERENCE_BYTES + packets * TP_COST_REFERENCE);

	s->advance += cost;
	s->advance_turn = tp->turn;
	s->deficit -= cost;
}

/** What @p s has paid in advance in an earlier turn has been delivered since, and paid for by time. */
static inline void
meter_settle(const struct transport *tp, struct share *s)
{
	if (likely(s->advance == 0) || s->advance_turn == tp->turn)
		return;
	s->deficit += s->advance;
	s->advance = 0;
}

/** From now on time is spent on @p s; NULL: nobody. */
static inline void
meter_to(struct transport *tp, struct meter *m, struct share *s)
{
	uint64_t now;

	if (m->payer == s)
		return;
	now = rte_rdtsc();
	if (m->payer != NULL)
		share_charge_only(tp, m->payer, meter_cost(tp, m->since, now));
	m->payer = s;
	m->since = now;
}

#endif /* UROCE_TP_METER_H */
