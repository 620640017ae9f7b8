/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/core/copy_priv.h"
#include "transport/core/local_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/pools_priv.h"
#include "transport/req/scoreboard_priv.h"

int
pools_create(struct transport *tp)
{
	const struct tp_pool_sizes *n = &tp->c.pools;

	if (pool_init(&tp->inflight_blocks, TP_INFLIGHT_MAX * sizeof(struct tp_swqe), n->inflight_blocks) != 0 ||
	    pool_init(&tp->read_blocks, UROCE_MAX_RD_ATOMIC * sizeof(struct tp_read), n->read_blocks) != 0 ||
	    pool_init(&tp->sge_blocks, UROCE_MAX_SGE * sizeof(struct ring_sge), n->sge_blocks) != 0 ||
	    pool_init(&tp->scoreboards, sizeof(struct tp_scoreboard), n->scoreboards) != 0 ||
	    pool_init(&tp->reorders, sizeof(struct tp_reorder), n->reorders) != 0 ||
	    pool_init(&tp->reorder_pkts, sizeof(struct tp_reorder_pkt), n->reorder_pkts) != 0)
		return ENOMEM;
	if (pool_init(&tp->rx_waits, sizeof(struct tp_rx_wait), n->rx_waits) != 0)
		return ENOMEM;
	if (tp->c.copy == NULL)
		return 0;
	if (pool_init(&tp->copy_parts, sizeof(struct tp_copy), TP_COPY_PARTS) != 0 ||
	    pool_init(&tp->copy_jobs, sizeof(struct tp_copy_job), n->copy_jobs) != 0 ||
	    pool_init(&tp->copy_pkts, sizeof(struct tp_copy_pkt), n->copy_pkts) != 0)
		return ENOMEM;
	return 0;
}

void
pools_default(struct tp_pool_sizes *n)
{
	n->inflight_blocks = n->inflight_blocks != 0 ? n->inflight_blocks : TP_INFLIGHT_BLOCKS;
	n->read_blocks = n->read_blocks != 0 ? n->read_blocks : TP_READ_BLOCKS;
	n->sge_blocks = n->sge_blocks != 0 ? n->sge_blocks : TP_SGE_BLOCKS;
	n->scoreboards = n->scoreboards != 0 ? n->scoreboards : TP_SCOREBOARDS;
	n->reorders = n->reorders != 0 ? n->reorders : TP_SCOREBOARDS;
	n->reorder_pkts = n->reorder_pkts != 0 ? n->reorder_pkts : TP_REORDER_PKTS;
	n->rx_waits = n->rx_waits != 0 ? n->rx_waits : TP_RX_WAITS;
	n->copy_jobs = n->copy_jobs != 0 ? n->copy_jobs : TP_COPY_JOBS;
	n->copy_pkts = n->copy_pkts != 0 ? n->copy_pkts : TP_COPY_PKTS;
}

static void
limit(uint16_t *l, uint16_t most)
{
	if (*l == 0 || *l > most)
		*l = most;
}

void
limits_default(struct tp_limits *l)
{
	limit(&l->tx_packets, TP_TX_MAX);
	limit(&l->local_packets, TP_LOCAL_MAX);
	limit(&l->local_rounds, TP_LOCAL_ROUNDS);
	limit(&l->qp_budget, TP_QP_BUDGET);
	limit(&l->turn_budget, TP_TURN_BUDGET);
	limit(&l->turn_qps, TP_TURN_QPS);
	/* Half of them are for the shares that have just got work. */
	l->turn_qps = RTE_MAX(l->turn_qps, 2);
	limit(&l->cached_qps, TP_CACHED_QPS);
	limit(&l->rx_batch, TP_RX_BATCH);
	limit(&l->touched_cqs, TP_TOUCHED_CQS);
	limit(&l->deferred_cqs, TP_DEFERRED_CQS);
	limit(&l->owed_burst, TP_OWED_BURST);
	limit(&l->copy_held, TP_COPY_HELD);
	limit(&l->reorder_span, TP_SACK_SPAN);
	limit(&l->cwnd, TP_CWND_MAX);
	limit(&l->held_packets, TP_HELD);
	limit(&l->journal_items, TP_JOURNAL_ITEMS);
}

void
pools_destroy(struct transport *tp)
{
	pool_fini(&tp->inflight_blocks);
	pool_fini(&tp->read_blocks);
	pool_fini(&tp->sge_blocks);
	pool_fini(&tp->scoreboards);
	pool_fini(&tp->reorders);
	pool_fini(&tp->reorder_pkts);
	pool_fini(&tp->rx_waits);
	pool_fini(&tp->copy_parts);
	pool_fini(&tp->copy_jobs);
	pool_fini(&tp->copy_pkts);
}
