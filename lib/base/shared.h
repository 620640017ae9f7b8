/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the engines, transports and the control of one stack share: tables, RCU and packet buffers.
 *
 * Owns: nothing; who creates a stack (lib/uroce, tests) creates these before its parts and destroys them after. Everybody has a copy of
 * the struct in the configuration of his part. Thread: any; what each function of a table may be called by is said there.
 */
#ifndef UROCE_SHARED_H
#define UROCE_SHARED_H

struct ah_table;
struct mcast_table;
struct mr_table;
struct qp_table;
struct rte_mempool;
struct rte_rcu_qsbr;

struct shared {
	struct mr_table *mrs;
	struct qp_table *qps;
	struct ah_table *ahs;       /**< NULL: UD QPs can't send */
	struct mcast_table *mcasts; /**< NULL: no multicast */
	struct rte_rcu_qsbr *qsbr;  /**< engines report quiescent states to it, by their number; NULL: a single thread */
	struct rte_mempool *pool;   /**< data room for WIRE_MAX_FRAME_BYTES behind RTE_PKTMBUF_HEADROOM */
};

#endif /* UROCE_SHARED_H */
