/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a transport has of everything, and how much it does at a time. Everybody but tests wants what core/limits_priv.h says: all 0.
 */
#ifndef UROCE_TRANSPORT_SIZES_H
#define UROCE_TRANSPORT_SIZES_H

#include <stdint.h>

/**
 * How many items each pool of a transport has: what it lends to its QPs while they need it. 0: as many as limits_priv.h says.
 */
struct tp_pool_sizes {
	uint32_t inflight_blocks;  /**< for WQEs in flight */
	uint32_t read_blocks;      /**< for QPs that answer READs */
	uint32_t sge_blocks;       /**< for QPs that receive a message into an SRQ's WQE */
	uint32_t scoreboards;      /**< for requesters that do selective repeat */
	uint32_t reorders;         /**< for responders that do selective repeat */
	uint32_t reorder_pkts;     /**< packets in all reorder buffers */
	uint32_t copy_jobs;        /**< copies of memory that isn't mapped */
	uint32_t copy_pkts;        /**< packets that wait for them */
	uint32_t rx_waits;         /**< received packets that wait for turns of their QPs */
};

/**
 * How much a transport does at a time, and how many of something it has at most. 0, or more than limits_priv.h says: as many as that says.
 */
struct tp_limits {
	uint16_t tx_packets;       /**< in a TX vector, and in transport_loop() */
	uint16_t local_packets;    /**< by reference that wait */
	uint16_t local_rounds;     /**< in which these are delivered in a turn */
	uint16_t qp_budget;        /**< packets or WQEs of a QP in a turn */
	uint16_t turn_budget;      /**< of all QPs */
	uint16_t turn_qps;         /**< QPs looked at in a turn; 1 counts as 2 */
	uint16_t cached_qps;       /**< QPs that are taken to stay in a cache */
	uint16_t rx_batch;         /**< received packets that are parsed before the first of them is handled */
	uint16_t touched_cqs;      /**< CQs whose events wait for the end of the turn */
	uint16_t deferred_cqs;     /**< events that moderation holds back */
	uint16_t owed_burst;       /**< events tried again at a time */
	uint16_t copy_held;        /**< packets that a QP holds while one waits for its copy */
	uint16_t reorder_span;     /**< PSNs beyond a gap that are kept */
	uint16_t cwnd;             /**< packets of a QP in flight */
	uint16_t held_packets;     /**< that are held for QPs on their way to another engine */
	uint16_t journal_items;    /**< completions and events that a turn has in its journal before it ends early */
};

/** What a journal has room for (journal/journal.h). */
struct journal_limits {
	uint32_t qps;        /**< QPs at a time: at least as many as the table of QPs has slots */
	uint32_t cqs, srqs;  /**< cq_params.number and srq_params.number are below */
};

#endif /* UROCE_TRANSPORT_SIZES_H */
