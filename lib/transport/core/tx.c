/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Refilling the cache of mbufs from the mempool.
 */
#include "transport/core/tx_priv.h"

struct rte_mbuf *
tp_mbuf_refill(struct transport *tp)
{
	if (rte_pktmbuf_alloc_bulk(tp->c.sh.pool, tp->mbufs, TP_MBUF_CACHE) == 0) {
		tp->nb_mbufs = TP_MBUF_CACHE - 1;
		return tp->mbufs[TP_MBUF_CACHE - 1];
	}
	/* The mempool has less than a cacheful left: take one mbuf. */
	tp->mbufs[0] = rte_pktmbuf_alloc(tp->c.sh.pool);
	if (tp->mbufs[0] == NULL)
		tp->counters.tx_no_mbuf++;
	return tp->mbufs[0];
}
