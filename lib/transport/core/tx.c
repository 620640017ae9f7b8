/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mbufs from the mempool, when the cache is empty.
 */
#include "transport/core/tx_priv.h"

struct rte_mbuf *
tp_mbuf_refill(struct transport *tp)
{
	if (rte_pktmbuf_alloc_bulk(tp->c.sh.pool, tp->mbufs, TP_MBUF_CACHE) == 0) {
		tp->nb_mbufs = TP_MBUF_CACHE - 1;
		return tp->mbufs[TP_MBUF_CACHE - 1];
	}
	/* The last few. */
	tp->mbufs[0] = rte_pktmbuf_alloc(tp->c.sh.pool);
	if (tp->mbufs[0] == NULL)
		tp->counters.tx_no_mbuf++;
	return tp->mbufs[0];
}
