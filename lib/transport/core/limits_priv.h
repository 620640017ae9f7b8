/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The transport's limits: sizes, budgets and times. All of them are here, and nowhere else.
 */
#ifndef UROCE_TP_LIMITS_H
#define UROCE_TP_LIMITS_H

#include "ring/abi.h"

enum {
	/* Pools whose items a transport lends to QPs. */
	TP_INFLIGHT_OWN = 2,        /**< WQEs in flight that every QP has room for; a power of two */
	TP_INFLIGHT_MAX = 256,      /**< WQEs in flight that a QP with a lent block has room for; a power of two */
	TP_INFLIGHT_BLOCKS = 3072,  /**< blocks for WQEs in flight */
	TP_READ_BLOCKS = 4096,      /**< blocks of UROCE_MAX_RD_ATOMIC struct tp_read, for QPs that answer READs */
	TP_SGE_BLOCKS = 4096,       /**< blocks of UROCE_MAX_SGE SGEs, for QPs that receive a message into an SRQ's WQE */
	TP_SCOREBOARDS = 512,      /**< scoreboards, and as many reorder buffers */
	TP_REORDER_PKTS = 2112,     /**< packets in all reorder buffers of a transport */
	TP_RX_WAITS = 512,          /**< received packets that wait for turns of their QPs. They keep their mbufs: a port's pool has 1024 more than the port needs */
	TP_SHARES = UROCE_MAX_SESSIONS + 1, /**< shares at most: one for each session, and the transport's own */
	TP_RESERVE_OF = 2,          /**< one part in this many of a pool is reserved, in equal parts for TP_SHARES shares, unless it has a limit *_EACH */

	/*
	 * Shares. Costs are in bytes. A packet costs its bytes and TP_COST_PACKET, a WQE TP_COST_WQE: what a packet or WQE takes besides copying,
	 * expressed as bytes that could be sent in that time (docs/internals/transport.md says how this was measured).
	 */
	TP_COST_PACKET = 256,
	TP_COST_WQE = 3072,
	TP_COST_RX = 768,           /**< a received request, besides its bytes */
	TP_COST_LOOK = 128,         /**< looking at a QP that has nothing to do */
	TP_COST_COLD = 16,          /**< the same, for each two QPs of the share with work: the more there are, the less of this one is in the CPU's caches, */
	TP_COLD_PAIRS = 256,        /**< and with so many nothing */
	TP_SHARE_QUANTUM = 32768,   /**< what a share of the usual weight may use in a round */
	TP_RX_LEAD = 2,             /**< so many quanta more than others who receive a share may receive before its packets wait */
	TP_LIGHT_OF = 4,            /**< who uses less than this part of a quantum until he has nothing more to do sends little */
	TP_BRIEF = 16,              /**< in a brief turn a share may use at least its quantum divided by this */
	TP_LIGHT_NS = 100000,       /**< for so long after a share had nothing more to do, the turns of others are brief, */
	TP_CALLED_NS = 1000000,     /**< and after a request of the control thread */
	TP_QP_QUANTUM = 98304,      /**< what a QP may use before it is the turn of the others of its share */
	TP_COST_PER_NS = 5,         /**< if time is measured */
	TP_COST_REFERENCE = 64,     /**< a packet by reference until its time has been measured, */
	TP_REFERENCE_BYTES = 16,    /**< and so many of its bytes cost 1 */
	TP_TICK_SHIFT = 16,
	TP_METER_MAX = 1 << 17,     /**< what is done without a break costs no more: the kernel may have interrupted it */
	TP_METER_NS = 1000000,      /**< for so long time is measured after two shares have wanted something */
	TP_AWAY_NS = 200000,        /**< who had nothing to do for so long was away, and is owed something when it comes back, */
	TP_AWAY_MAX_NS = 30000000,  /**< but not after so long */
	TP_OWED_QUANTA = 3,         /**< it gets so many quanta more in a round, */
	TP_OWED_MAX = 5000000 * TP_COST_PER_NS, /**< and that in sum: 5 ms of the engine */
	TP_DEBT_MAX = 1 << 20,      /**< more than this a share or QP never owes */
	TP_BUCKET_NS = 1000000,     /**< a rate's bucket holds what may be sent in this time */

	/* Memory that isn't mapped. A program decides how long a copy takes, so every share has reserves of its own: *_EACH. */
	TP_COPY_PARTS_EACH = 4,
	TP_COPY_JOBS_EACH = 3,      /**< a QP may have one of each enum copy_role, and needs them all to go on */
	TP_COPY_PKTS_EACH = 4,
	TP_COPY_PARTS = 1024 + TP_COPY_PARTS_EACH * TP_SHARES, /**< QPs that wait for such memory, or have fetched some */
	TP_COPY_JOBS = 256 + TP_COPY_JOBS_EACH * TP_SHARES,    /**< copies, running or with bytes that are still wanted */
	TP_COPY_PKTS = 2048 + TP_COPY_PKTS_EACH * TP_SHARES,   /**< received packets that wait for copies */
	TP_COPY_BYTES = 128 << 10,  /**< that one job copies, of several packets or messages; at least a packet's */
	TP_COPY_PARTS_OF_JOB = 128, /**< parts of packets or messages in a job */
	TP_COPY_HELD = 1024,        /**< packets that a QP holds while one waits for its copy: windows of both directions, and ACKs */
	TP_COPY_RETRY_NS = 50000,   /**< a copy for which there was no room is tried again after this */
	TP_COPY_DEADLINE_NS = 2000000000, /**< a copy that takes longer has failed: the QP goes to ERR, as if the memory weren't there */

	/* Congestion window, packets. */
	TP_CWND_MAX = 256,          /**< packets of a QP in flight, requests and READ responses */
	TP_CWND_START = 64,         /**< initial window of a connection */
	TP_CWND_MIN = 16,           /**< losses don't shrink the window below this */
	TP_CWND_STEP = 16,          /**< the window grows by this for each full window acknowledged without a loss */
	TP_CWND_CALM = 64,          /**< after so many windows without a loss the window grows whatever the round trips are */
	TP_CWND_LOST = 2,           /**< each packet that is known to be lost shrinks the window by this */
	TP_READ_CHUNK_PACKETS = 32, /**< response packets that one READ request asks for; a power of two */
	TP_ACKREQ_PACKETS = 32,     /**< inside a message every so many packets one asks for an ACK; a power of two */
	TP_ACKREQ_LOSSY = 4,        /**< the same while a recent loss is remembered and the window is small */

	/* Selective repeat. */
	TP_SACK_SPAN = 256,         /**< PSNs beyond a gap that a scoreboard and a reorder buffer cover: TP_CWND_MAX */
	TP_SACK_OFFERS = 3,         /**< offers a peer gets; if it answers none, it doesn't know selective repeat */

	/* Turns. */
	TP_QP_BUDGET = 32,          /**< packets or WQEs of a QP in one turn, */
	TP_SMALL_BYTES = 256,       /**< or twice as many if frames have less than this on average */
	TP_TURN_BUDGET = 128,       /**< packets or WQEs of all QPs in one turn */
	TP_TURN_QPS = 128,          /**< QPs looked at in one turn, */
	TP_VAIN_LOOKS = 4,          /**< and of these, in vain while no port takes any more packets */
	TP_LOCAL_ROUNDS = 4,        /**< how often in a turn packets by reference are delivered, and their answers sent */
	TP_HELD = 4096,             /**< packets that are held for QPs on their way from one engine to another: at 100 Gb/s, 160 us of packets of 512 bytes; the windows of 16 QPs */
	TP_JOURNAL_ITEMS = 16384,   /**< completions and events in a journal, with which a turn ends early */
	TP_RX_BATCH = 16,           /**< received packets that are parsed before the first of them is handled */
	TP_CACHED_QPS = 256,        /**< with more, those that have been idle for a while are no longer in a cache (core/prefetch_priv.h) */
	TP_MBUF_CACHE = 32,         /**< mbufs taken from the mempool at a time */
	TP_TOUCHED_CQS = 64,        /**< CQs whose events can wait for the end of the turn */
	TP_OWED_BURST = 32,         /**< events tried again at a time, of those for which channels had no room */
	TP_OWED_RETRY_NS = 1000000, /**< and how long after they found none */
	TP_DEFERRED_CQS = 64,       /**< events that moderation holds back at a time; further ones are raised at once */
	TP_WATCH_NS = 50000,        /**< a QP without work is watched for this long; then its client must ring the doorbell */
	TP_POLL_NS = 1000,          /**< while QPs are watched, the next turn is due after this */

	/* Loss recovery (RFC 8985: PTO and tail loss probe; RFC 6298: round trips). */
	TP_PROBES = 3,              /**< tail loss probes in a row; after that only the ACK timeout */
	TP_PROBE_MIN_NS = 20000,    /**< least PTO: the peer's engine has other QPs to serve */
	TP_PROBE_FIRST_NS = 25000000, /**< PTO while no round trip has been measured, */
	TP_PROBE_FIRST_OF = 16,     /**< for QPs whose timeout is at least this (268 ms); rdma_cm's QPs have 2 s */
	TP_PROBE_PACKET_NS = 1000,  /**< added to the PTO for each packet in flight: 4 KiB at 32 Gb/s */
	TP_PROBE_SHIFT_MAX = 8,     /**< log2 of the largest factor by which unanswered probes lengthen the PTO */
	TP_DRAIN_PTOS = 2,          /**< a QP that is about to move waits for ACKs for so many PTOs, */
	TP_DRAIN_MIN_NS = 1000000,  /**< but at least so long, */
	TP_DRAIN_MAX_NS = 20000000, /**< and at most so long: also if no round trip has been measured */
	TP_MOVE_QUIET_NS = 16000,   /**< so long after a port has taken the last packet from the former engine, a QP that moves sends from the new one: a turn of the peer's engine takes 10 us */
	TP_RTT_EVERY_NS = 10000,    /**< time between round trip measurements, without congestion control */
	TP_RTT_MIN_NS = 1000000000, /**< the shortest round trip is remembered for this long, at most for twice this */
	TP_RTT_MAX_NS = 500000000,  /**< longer round trips count as this */
	TP_TIMEOUT_UNIT_NS = 4096,  /**< local ACK timeout: this times 2^timeout (9.7.6.1.3) */
	TP_BACKOFF_MAX = 2,         /**< log2 of the largest factor by which repeated ACK timeouts lengthen the timeout, */
	TP_BACKOFF_END = 16,        /**< but not beyond the time of this timeout value: 268 ms */
	TP_RETRY_INFINITE = 7,      /**< rnr_retry value for no limit; a retry_cnt of 7 means seven (11.2.5.2) */

	/* End-to-end flow control. */
	TP_CREDITS_ENOUGH = 256,    /**< with this many posted receives found, the responder looks for no more */
	TP_CREDITS_ANY = 1 << 30,   /**< credits assumed for a peer that doesn't say how many receives it has */

	TP_SL_IPV4 = 0xa,           /**< wc.sl of UD receives carries the L3 type, as mlx5 sets it and UCX reads it */
	TP_SL_IPV6 = 0x9,
	TP_XRC_BUCKETS = 256,       /**< of a transport's table of XRC SRQs; a power of two */
};

#endif /* UROCE_TP_LIMITS_H */
