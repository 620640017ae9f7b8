/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a QP has sent is charged to it and to its share. Owns nothing. Called on the QP's engine.
 */
#ifndef UROCE_TP_CHARGE_H
#define UROCE_TP_CHARGE_H

#include "transport/core/meter_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/types_priv.h"

/** What the transport had sent before a QP ran. */
struct sent_before {
	uint64_t bytes, packets, paid;
	uint64_t ticks; /**< 0: time isn't measured */
	uint32_t wqes;
};

static inline struct sent_before
sent_before(const struct transport *tp, const struct qp *qp)
{
	return (struct sent_before){ tp->counters.tx_bytes, tp->counters.tx_packets, tp->paid_bytes, meter_runs(tp) ? rte_rdtsc() : 0, qp->req.sq.counter };
}

/** Charge the QP and its share with what it has done since. */
static inline void
charge_sent(struct transport *tp, struct qp *qp, const struct sent_before *b)
{
	uint64_t bytes = tp->counters.tx_bytes - b->bytes, packets = tp->counters.tx_packets - b->packets;
	struct share *s = qp->share;
	uint64_t cost = bytes - (tp->paid_bytes - b->paid) + packets * TP_COST_PACKET + (qp->req.sq.counter - b->wqes) * TP_COST_WQE +
			TP_COST_LOOK + RTE_MIN(s->nb_active / 2, (uint32_t)TP_COLD_PAIRS) * TP_COST_COLD;

	qp->sched.deficit -= (int32_t)cost;
	/* Not if a waiting packet was the first to show that others receive, too: then it is measured from the next QP on. */
	if (unlikely(b->ticks != 0)) {
		cost = meter_cost(tp, b->ticks, rte_rdtsc());
		if (qp->path.detour)
			meter_advance(tp, s, bytes, packets);
	}
	share_charge_only(tp, s, (uint32_t)cost);
	s->stats.bytes += bytes;
	s->stats.packets += packets;
	qp->sched.tx_bytes += bytes;
	qp->sched.tx_packets += packets;
	/* Not if it has sent nothing: what comes next may be large. */
	qp->sched.small = bytes < packets * TP_SMALL_BYTES;
	if (unlikely(s->rate != NULL))
		share_rate_charge(s, bytes, packets, tp->now_ns);
}

#endif /* UROCE_TP_CHARGE_H */
