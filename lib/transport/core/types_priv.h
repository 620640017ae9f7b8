/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The structs that a transport consists of: WQEs in flight, CQs, SRQs, QPs and the transport itself. Limits:
 * limits_priv.h.
 *
 * Ownership:
 *
 * - A struct transport and every QP and SRQ in it are accessed only by their engine's thread. Other engines may read
 *   two fields of a QP between table look-up and quiescent state: qpn (never written after creation) and tp, by qp_transport().
 * - A CQ has several producers if it was made `multi`; its fields say which are atomic.
 * - The header of each part of lib/transport says which struct inside a QP it owns: sched_priv.h, req/, resp_priv.h,
 *   path_priv.h, event_log_priv.h.
 */
#ifndef UROCE_TP_TYPES_H
#define UROCE_TP_TYPES_H

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "base/rcu.h"
#include "base/pool.h"
#include "base/wheel.h"
#include "mem/mw.h"
#include "transport/core/limits_priv.h"
#include "transport/transport.h"
#include "wire/header_cache.h"

/** What the engine knows about a WQE between fetching and completing it. Everything else stays in the slot. */
struct tp_swqe {
	uint64_t wr_id;
	uint32_t first_psn, last_psn;
	uint32_t length;  /**< of the message, bytes */
	uint32_t recvs;   /**< receives that the peer uses up for all messages up to this one */
	uint8_t opcode;   /**< enum uroce_wr_op, checked */
	uint8_t flags;    /**< UROCE_SEND_* */
	uint8_t nb_sge;   /**< 0 with INLINE */
	uint8_t status;   /**< enum uroce_wc_status of an error found while fetching or sending; 0: none */
	uint8_t verr;     /**< enum tp_vendor_err */
	uint8_t reserved[3];
};
static_assert(sizeof(struct tp_swqe) == 32, "counts for an idle QP's memory");

/** How a requester handles an opcode. Indexed by enum uroce_wr_op. */
struct tp_req_op {
	uint8_t services; /**< the services that support it, as bits 1 << (service >> 5) */
	uint8_t wc;       /**< enum uroce_wc_op */
	uint8_t kind;     /**< enum tp_req_kind */
	uint8_t first, middle, last, only; /**< enum wire_op */
	uint8_t recvs;    /**< receives that the peer uses up for it */
};
enum tp_req_kind { TP_REQ_NONE = 0, TP_REQ_DATA, TP_REQ_READ, TP_REQ_ATOMIC, TP_REQ_LOCAL, /**< nothing is sent */
		   TP_REQ_PLACE /**< ATOMIC_WRITE, FLUSH: an empty READ response back */ };
extern const struct tp_req_op tp_req_ops[UROCE_WR_OPS];

/**
 * A READ or atomic that the responder has executed, kept so that a duplicate can be recognised and answered again
 * (C9-105, 9.4.4).
 */
struct tp_res {
	union {
		uint64_t old __attribute__((packed)); /**< atomic: the value before the operation */
		struct {
			uint32_t mark;   /**< READ: a hash of address and rkey, res_mark() */
			uint32_t length; /**< READ: bytes; ATOMIC_WRITE, FLUSH: 0 */
		};
	};
	union {
		struct {
			uint32_t psn : 24;
			uint32_t used : 1;   /**< else empty */
			uint32_t atomic : 1;
			uint32_t replay : 1; /**< the pending response answers a duplicate */
			uint32_t placed : 1; /**< ATOMIC_WRITE, FLUSH: answered by a READ response of no bytes */
		};
		uint32_t word;               /**< tp_res_word() */
	};
};
/** @return the word of a new one (wire_bth_make() says why it is made so). */
static inline uint32_t
tp_res_word(uint32_t psn, bool atomic, bool placed)
{
	return psn | UINT32_C(1) << 24 | (uint32_t)atomic << 25 | (uint32_t)placed << 27;
}
static_assert(sizeof(struct tp_res) == 12, "counts for an idle QP's memory, up to UROCE_MAX_RD_ATOMIC times");

/**
 * State of a READ that is being answered, in addition to its struct tp_res. Lent to a QP while it has responses to
 * send.
 */
struct tp_read {
	uint64_t va;         /**< of the first byte */
	uint32_t rkey;
	uint32_t cur : 24;   /**< PSN of the next response packet */
	uint32_t begins : 1; /**< the packet of cur is the first of a response: its opcode is FIRST or ONLY */
	uint32_t run : 1;    /**< the next packet of again follows one already sent: its opcode is MIDDLE or LAST */
	uint32_t srqn;       /**< XRC: the SRQ whose PD the rkey is checked against */
	uint32_t again;      /**< bit i: send packet i again, before cur; only for READs of up to one chunk */
};

/** The kind of message that is being received. */
enum tp_rmsg { TP_RMSG_NONE = 0, TP_RMSG_SEND, TP_RMSG_WRITE, TP_RMSG_DROP /**< UC: the rest is dropped */ };

/** The reply that the responder owes the peer. READ and atomic responses go out before it. */
enum tp_reply {
	TP_REPLY_NONE = 0,
	TP_REPLY_ACK,      /**< acknowledges everything before epsn */
	TP_REPLY_SACK,     /**< the same, and reports which packets beyond epsn are held */
	TP_REPLY_DUP_ACK,  /**< acknowledges up to reply_psn only: the response of a READ beyond it may be lost */
	TP_REPLY_NAK_SEQ,
	TP_REPLY_RNR,
	TP_REPLY_FATAL,    /**< NAK with `syndrome` for reply_psn; the QP is in ERR */
};

/** Whether a NAK for the missing packet epsn was sent or is queued. There is one per gap (9.7.5.2.8). */
enum tp_nak_state { TP_NAK_NONE = 0, TP_NAK_SEQ_SENT, TP_NAK_RNR_SENT };

/** State of the tail loss probe (RFC 8985, section 7), until nothing is in flight or a round trip was measured. */
enum tp_probe {
	TP_PROBE_NONE = 0,
	TP_PROBE_SENT,     /**< the oldest packet was resent before the ACK timeout */
	TP_PROBE_ANSWERED, /**< psn_una has moved since: packets get through, so those still not acknowledged were lost */
};

/** Path migration states; the values are those of enum ibv_mig_state. */
enum tp_mig { TP_MIG_MIGRATED = 0, TP_MIG_REARM, TP_MIG_ARMED };

/** Which kind of object a wheel entry is part of. */
enum tp_timer { TP_TIMER_QP = 0, TP_TIMER_PACE /**< struct cc */ };

/** Said by what has to wait for a copy of memory that isn't mapped (core/copy_priv.h): no error number, status or tp_vendor_err. */
enum { COPY_LATER = 0xff };

struct cc;
struct tp_copy;
struct tp_copy_job;
struct tp_scoreboard;
struct tp_reorder;
struct tp_reorder_pkt;
struct tp_rx_wait;
struct tp_journal;
struct tp_journal_qp;
struct share;

/** The receive WQE that is being filled. */
struct tp_rwqe {
	uint64_t wr_id;
	uint64_t room;         /**< bytes that still fit */
	/**
	 * RQ: the SGEs in the slot, which the engine owns until the receive completes; read them with wqe_get_sge().
	 * SRQ, whose slot was given back: a copy, in own_sge or in a borrowed block.
	 */
	const struct ring_sge *sge;
	uint32_t sge_off;      /**< bytes used of sge[sge_cur] */
	uint16_t nb_sge, sge_cur;
	uint16_t wqe_counter;
	bool valid, borrowed;
	struct ring_sge own_sge;
};

/** One of the two rings that a CQ's CQEs can go to. */
struct cq_ring {
	struct ring ring; /**< base and order; the counter is the CQ's prod */
	uint64_t *stamps; /**< a time stamp per slot, or NULL */
};

struct cq {
	/* Bit 0: which of rings[] is in use; the bits above: the counter of the next CQE. One word, so that producers take
	 * slots by addition, and cq_resize() changes the ring at a definite counter. */
	_Atomic uint64_t prod;
	struct cq_ring rings[2];
	struct ring_cq_shared *shared;
	_Atomic uint32_t cons;        /**< the client's counter as last seen */
	_Atomic uint32_t moderation;  /**< completions per event << 16 | microseconds; 0: each one may raise an event */
	_Atomic uint32_t reported;    /**< counter of the next CQE when an engine last raised the event */
	_Atomic uint32_t users;
	_Atomic bool overrun;
	bool multi;
	int channel;                  /**< passed to transport_config.notify, or -1 */
	uint32_t number;              /**< for journals */
	uint64_t cookie;
	void *owner;
	uint8_t touched[UROCE_MAX_ENGINES]; /**< TP_TOUCHED_* of this turn, one byte per engine */
	/** Events raised for which the channel had no room. The engine that makes it 1 has the CQ in its transport.owed. */
	_Atomic uint32_t owed;
	unsigned int owed_by; /**< that engine, while it is not 0 */
	TAILQ_ENTRY(cq) owed_link;
};
enum { TP_TOUCHED = 1, TP_TOUCHED_SOLICITED = 2 };

/** An event that moderation holds back. */
struct cq_deferred {
	struct cq *cq;
	uint64_t due_ns; /**< UINT64_MAX: raised only by the number of completions */
	uint8_t flags;   /**< TP_TOUCHED_* */
};

struct srq {
	struct ring ring;
	struct ring_srq_shared *shared;
	uint32_t pd, max_sge, limit;
	uint32_t users;         /**< QPs; for an XRC SRQ: QPs whose last message was for it */
	struct transport *tp;   /**< that of its QPs; NULL: it moves with them to another engine (move.h) */
	uint64_t cookie;
	void *owner;

	/* XRC. */
	LIST_ENTRY(srq) link;   /**< in its bucket */
	struct cq *cq;
	uint32_t srqn, xrcd;
	bool gone;              /**< destroyed; freed when its last user lets go of it */

	/* Of its transport's journal. */
	bool dirty, leaving;
	uint32_t number;
};
LIST_HEAD(tp_srq_list, srq);

/** A QP's place in its engine's schedule. */
struct qp_sched {
	bool on_active;           /**< on share->active */
	bool on_reply : 1;        /**< on tp->replies */
	bool watched : 1;         /**< the engine polls the SQ: shared->sq_watch is 1 */
	bool drains : 1;          /**< it is about to move, and sends nothing new: requester_drain() instead of requester_run() */
	bool asked : 1;           /**< since then it has sent a packet more, which asks for an ACK of all */
	bool small : 1;           /**< the frames of its last turn were small: less than TP_SMALL_BYTES on average */
	bool unnoted : 1;         /**< it has a journal, where this turn's changes, if there are any, aren't noted: journal_touch() */
	uint16_t rx_wait;         /**< the last of the received packets that wait for the QP's turn (core/rx_wait_priv.h): its number plus one; 0: there are none */
	int32_t deficit;          /**< cost that it may still cause before the other QPs of its share get their turns */
	TAILQ_ENTRY(qp) active_link, reply_link;
	uint64_t last_work_ns;
	uint64_t tx_bytes, tx_packets; /**< sent so far, for qp_glance() */
};

/**
 * The requester: what was posted and what is in flight. WQEs in flight are [sq_tail, sq.counter). Of these all before
 * sq_cur have been sent, and of sq_cur the packets before psn_cur.
 */
struct qp_requester {
	struct ring sq;
	struct tp_swqe *inflight;   /**< own_inflight of the QP, or a block lent by the transport */
	uint32_t inflight_mask;
	uint32_t sq_tail, sq_cur;   /**< counters of SQ slots: oldest incomplete WQE, WQE being sent */
	uint32_t psn_una;           /**< oldest PSN not acknowledged */
	uint32_t psn_cur;           /**< next PSN to send */
	uint32_t psn_max;           /**< one beyond the highest PSN ever sent */
	uint32_t psn_next;          /**< first PSN of the next WQE */
	uint32_t recvs_next;        /**< receives of the peer that all WQEs fetched so far need, */
	uint32_t recvs_done;        /**< that complete WQEs have used up, */
	uint32_t recvs_limit;       /**< and that the peer has posted as far as it said (9.7.7.2) */
	uint16_t max_inline;
	uint8_t max_send_sge;
	uint8_t max_rd, rd_out;     /**< READ and atomic requests: max_rd_atomic, outstanding */
	bool credits;               /**< the peer says how many receives it has posted */
	bool out_of_credits;
	uint8_t wait;               /**< enum req_wait, from its last run */
	bool sack_peer;             /**< the peer has sent a SACK */
	uint8_t sack_offers;        /**< how many more offers of selective repeat may be sent */
	uint8_t sack_mark;          /**< that requests bear: the peer's; 0: it has not told one */
	bool sig_all : 1;
	bool sqd_event : 1;         /**< the event SQ_DRAINED was sent */
	uint32_t sack_nonce;        /**< of offers, 24 bits; another one with each connection */
	struct tp_scoreboard *scoreboard; /**< what the peer holds beyond a gap; NULL: no loss is being repaired */
	struct cc *cc;              /**< congestion control, or NULL */
};

/** Loss recovery and the congestion window of the requester. */
struct qp_loss {
	uint32_t psn_grow;          /**< the congestion window grows when this is acknowledged */
	uint32_t psn_recover;       /**< until this is acknowledged another loss doesn't shrink the window again */
	uint16_t cwnd;              /**< packets that may be in flight: the smaller of loss_cwnd and congestion control's */
	uint16_t loss_cwnd;         /**< the window that losses allow */
	uint16_t not_in_flight;     /**< packets between psn_una and psn_max that arrived beyond a gap or were lost */
	uint8_t lossy;              /**< how many more windows without a loss until losses are forgotten */
	uint8_t ackreq_mask;        /**< a PSN in which all these bits are set asks for an ACK */
	uint8_t retry_cnt, retry_left, rnr_retry, rnr_left, timeout;
	bool rnr_wait;              /**< the timer is the peer's RNR timer; nothing is sent until it fires */
	bool resent : 1;            /**< psn_una was sent again by going back, without progress since */
	bool rnr_known : 1;         /**< an RNR NAK was acted on, without progress since; it is repeated if psn_una wasn't resent */
	bool restarted : 1;         /**< went back for a lost response; not again before there is progress */
	bool nak_each : 1;          /**< since psn_una was sent again, the peer has repeated its sequence NAK: it answers each packet behind a gap */
	uint8_t naks_due;           /**< how many more of these the first flight may bring */
	bool rtt_timing;            /**< the round trip of rtt_psn is being measured; it was sent once (Karn) */
	uint8_t probe;              /**< enum tp_probe */
	uint8_t probes;             /**< tail loss probes since the last progress */
	uint8_t pto_shift;          /**< probes since the last measured round trip: each doubles the next one's delay */
	uint32_t rtt_psn;
	uint32_t rtt_una;           /**< psn_una at the last measurement */
	uint32_t srtt_ns, rttvar_ns; /**< as in RFC 6298 */
	uint32_t rtt_min_ns;        /**< shortest of this and the last period: round trip without queues */
	uint32_t rtt_low_ns;        /**< shortest of this period */
	uint32_t pto_ns;            /**< probe timeout (RFC 8985); 0: no round trip measured yet, use TP_PROBE_FIRST_NS */
	uint64_t rtt_low_until_ns;  /**< when the period ends */
	uint64_t rtt_sent_ns;
	uint64_t rtt_next_ns;       /**< no measurement begins before this */
	uint64_t deadline_ns;       /**< ACK or probe timeout, or end of the RNR wait; 0: none */
	uint64_t giveup_ns;         /**< when the ACK timeout expires, while deadline_ns is a probe timeout; or when an RNR wait must end */
	struct wheel_entry timer;
};

/** The receiver: the next expected packet, the message being received and where its bytes go. */
struct qp_receiver {
	struct ring rq;
	struct srq *srq;
	uint32_t xrcd;
	uint32_t epsn, msn;         /**< msn: UC and UD count their messages with it, too */
	uint8_t msg;                /**< enum tp_rmsg */
	uint8_t nak_state;          /**< enum tp_nak_state */
	bool sack_on;               /**< the peer understands SACKs */
	uint8_t sack_mark;          /**< that requests beyond a gap must bear; another one with each connection */
	uint8_t reply_mark;         /**< that responses bear: the peer's; 0: it has made no offer */
	bool comm_est;              /**< the event COMM_EST was sent */
	bool last_wqe_event;        /**< the event LAST_WQE_REACHED was sent */
	uint8_t min_rnr_timer;
	uint32_t sack_nonce;        /**< of the peer's offer */
	uint32_t rq_seen;           /**< all receives before this counter were seen posted */
	uint32_t psn_dropped;       /**< the highest PSN dropped behind a gap, while nak_state says that there is a gap */
	uint32_t length;            /**< bytes of the message so far */
	uint32_t left;              /**< WRITE: bytes to come */
	uint32_t rkey;
	uint32_t qkey;              /**< UD: that datagrams must have */
	uint64_t va;                /**< WRITE: where the next byte goes */
	struct tp_reorder *reorder; /**< packets received beyond a gap, or NULL */
	uint64_t cnp_next_ns;       /**< no CNP is sent before this */
	uint64_t rx_bytes;          /**< payload that has come in so far, of READs too, for qp_glance() */
	struct tp_rwqe rwqe;
};

/** The responder: what has to be sent in answer to the peer's requests. */
struct qp_responder {
	uint8_t reply, syndrome;    /**< enum tp_reply; the syndrome of a TP_REPLY_FATAL */
	uint8_t res_max, res_head;  /**< res[]: its size; the next entry to overwrite, which is the oldest */
	uint8_t res_limit;          /**< max_dest_rd_atomic; less than res_max if it was larger before on this connection */
	uint32_t reply_psn;
	uint64_t pending;           /**< bit i: the response of res[i] has to be sent */
	struct tp_res *res;
	struct tp_read *reads;      /**< one per entry of res[], while any READ is being answered */
};

/** Why packets of a QP don't go into its port's TX vector: qp_path.detour. */
enum {
	DETOUR_LOOPBACK = 1,
	DETOUR_GONE = 2, /**< the QP's own address is no address of the port any more: they are dropped */
	DETOUR_MTU = 4,  /**< the path MTU is larger than the port's MTU permits: those that don't fit are dropped. Never with DETOUR_LOOPBACK */
};

/** The path to the peer, and the alternate one. */
struct qp_path {
	uint32_t dest_qpn;
	uint16_t port, pkey;
	uint8_t mtu_shift;
	bool loopback, multicast;
	uint8_t detour;             /**< DETOUR_*; 0: none */
	uint8_t mig;                /**< enum tp_mig */
	bool alt_loaded : 1, migrated : 1;
	bool mig_err_event : 1;     /**< the event PATH_MIG_ERR was sent */
	uint16_t vlan;              /**< of a connected QP's own address; 0: untagged */
	uint64_t tmpl_ah;           /**< UD: the serial number of the AH that tmpl was made from */
	struct tp_path *alt;        /**< the alternate path, while alt_loaded */
	struct wire_tmpl tmpl;
};

/** What went wrong, for diag/. */
struct qp_diagnosis {
	uint64_t stuck_ns;          /**< since when psn_una is stuck_psn; 0: never. Set only when something went wrong */
	uint64_t nak_ns;            /**< when the NAK recorded in nak_state was sent */
	uint64_t why_ns;            /**< when the QP went to ERR or SQE, */
	uint32_t why_psn, stuck_psn;
	uint16_t why_detail;
	uint8_t why;                /**< and why: enum qp_why */
	bool too_long;              /**< packets were dropped because of DETOUR_MTU, */
	uint32_t losses, retransmitted; /**< times that a loss was noticed, packets sent again; both may wrap */
	uint32_t too_long_psn;      /**< and the PSN of the first that isn't acknowledged; it may be before psn_una */
};

struct qp {
	/* Identity. tp and qpn are read by other engines; qpn never changes after creation. */
	struct transport *tp;  /**< NULL: the QP moves to another engine (move.h). Written by the engine that it leaves, and by the one it arrives at */
	uint32_t qpn;
	uint8_t type;          /**< enum uroce_qp_type */
	uint8_t service;       /**< enum wire_service whose rules apply: RC for XRC too */
	uint8_t prefix;        /**< enum wire_service in the opcodes of its packets */
	uint8_t state;         /**< enum uroce_qp_state; shared->state is a copy for the client */
	uint32_t pd;           /**< XRC_RECV: from the SRQ that the last request named, like recv_cq and srq */
	uint32_t access;       /**< qp_access_flags */
	struct tp_copy *copy;  /**< lent while copies of memory that isn't mapped are made (core/copy_priv.h); or NULL */
	struct tp_journal_qp *journal; /**< core/journal_priv.h; NULL: the transport keeps no journal */
	struct ring_qp_shared *shared;
	struct cq *send_cq;
	struct share *share;

	/* In this order they make the lines of core/prefetch_priv.h. */
	struct qp_sched sched;
	struct qp_requester req;
	struct qp_loss loss;
	struct qp_responder resp;
	struct qp_receiver rcv;
	struct cq *recv_cq;
	struct qp_path path;
	union {
		struct tp_swqe own_inflight[TP_INFLIGHT_OWN];
		struct deferred deferred; /**< destroyed, so that nothing is in flight any more: freed after a grace period */
	};

	/* Rarely used. */
	struct qp_diagnosis diag;
	struct uroce_qp_attr attr;
	uint64_t cookie;
	void *owner;
};

TAILQ_HEAD(tp_qp_list, qp);

/** A packet for a QP that is on its way to another transport. */
struct tp_held {
	struct rte_mbuf *m;
	const struct qp *qp;
	uint16_t port;
	bool trusted; /**< its ICRC has been checked */
};
struct tp_held_list {
	uint32_t n;
	struct tp_held e[TP_HELD];
};

/** The pools of a transport. */
enum tp_pool { TP_POOL_INFLIGHT = 0, TP_POOL_READS, TP_POOL_SGES, TP_POOL_SCOREBOARDS, TP_POOL_REORDERS, TP_POOL_REORDER_PKTS,
	       TP_POOL_COPY_PARTS, TP_POOL_COPY_JOBS, TP_POOL_COPY_PKTS, TP_POOL_RX_WAIT, TP_POOLS };

/** Where a share stands in the schedule: the list in which it is. The order is explained in core/sched_priv.h. */
enum share_on { SHARE_FRESH = 0, SHARE_BACKLOG, SHARE_BLOCKED, SHARE_LIMITED, SHARE_LISTS, SHARE_QUEUED = SHARE_LISTS, SHARE_ASLEEP };

/** What the QPs of one session get of a transport: core/share_priv.h and core/sched_priv.h. */
TAILQ_HEAD(tp_copy_job_list, tp_copy_job);

struct share {
	TAILQ_ENTRY(share) link;
	struct tp_qp_list active;   /**< its QPs with work, or whose SQ is watched */
	uint32_t nb_active;
	uint8_t on;                 /**< enum share_on */
	bool gone;                  /**< destroyed; freed with its last QP and copy */
	bool rested;                /**< when it had its last turn, there was nothing (more) to do */
	bool no_room;               /**< when it had its last turn, there was no room in the TX vector for what it has to send */
	uint32_t users;             /**< QPs */
	uint32_t weight;
	int64_t quantum;            /**< added to the deficit in each round: the weight times TP_SHARE_QUANTUM */
	int64_t deficit;            /**< cost that it may still cause before it has to wait for the others */
	const struct qp *worker;    /**< the QP that had work last; compared, never followed */
	uint32_t worker_alone;      /**< how many QPs have been looked at since another one had work */
	struct share_rate *rate;    /**< NULL: no limit */
	struct share_group *group;  /**< NULL: none */
	struct share_owed owed;     /**< without a group */
	uint64_t light_ns;          /**< when it last sent little, and that was all it had to send */
	uint64_t emptied_cost;      /**< stats.cost when it last had nothing more to do */
	int64_t advance;            /**< paid for what hasn't been delivered yet (core/meter_priv.h), */
	uint32_t advance_turn;      /**< in this turn of the transport */
	uint64_t due_ns;            /**< SHARE_LIMITED: when it may send again */
	uint32_t rx_round;          /**< the last round of receiving in which it got a quantum */
	bool rx_spent;              /**< and it has used it up */
	uint32_t held[TP_POOLS];    /**< items that its QPs have of each pool */
	struct tp_copy_job_list fetched; /**< copies of bytes to send, of which some have been sent; the oldest first */
	struct share_stats stats;
};

/** A share that had nothing more to do: core/brief_priv.h. */
struct tp_light {
	const struct share *share;  /**< or NULL. Compared, never followed: it may have ended */
	uint64_t until_ns;          /**< for so long it counts */
	uint32_t cost;              /**< what a share of the usual weight gets meanwhile */
};

struct transport {
	struct transport_config c;
	struct tp_counters counters;
	struct tp_violations violations[UROCE_MAX_PORTS];
	uint64_t now_ns;
	struct qp *_Atomic serving;      /**< the QP whose packet or turn it is; NULL: none's */
	struct tp_share_list shares[SHARE_LISTS]; /**< those with active QPs */
	uint32_t nb_competing;           /**< shares that want a turn: with active QPs, and not kept back by their rates */
	uint64_t limited_next_ns;        /**< when the first of SHARE_LIMITED may send again; UINT64_MAX: there are none */
	struct tp_light light[2];        /**< the last two shares that had nothing more to do, the last first */
	struct share control;            /**< stands for the control thread there */
	uint64_t brief_ns;               /**< when the turn of another one was cut short for that */
	struct tp_qp_list replies;       /**< QPs that owe their peer a reply */
	uint32_t nb_active, nb_qps;
	uint32_t nb_shares;              /**< made by share_create() */
	uint64_t cost;                   /**< of all shares */
	uint64_t tick_cost;              /**< cost of a tick of the CPU's clock, in parts of 2^TP_TICK_SHIFT; 0: time is never measured (core/meter_priv.h) */
	uint64_t meter_until_ns;         /**< until then it is */
	uint64_t paid_bytes;             /**< of READ responses by reference: their requesters have paid, and there is no second copy */
	struct share own_share;          /**< of QPs for which no share was given */
	uint32_t turn;                   /**< counts turns */
	bool idle;                       /**< the last turn found nothing to do */
	struct wheel wheel;
	struct cq *touched[TP_TOUCHED_CQS];
	uint32_t nb_touched;
	uint32_t nb_untold;
	struct cq *untold[TP_TOUCHED_CQS];  /* CQs with an event for transport_tell(); one may be there several times */
	struct tp_srq_list xrc_srqs[TP_XRC_BUCKETS]; /**< by the low bits of their numbers */
	uint32_t nb_deferred;
	uint64_t deferred_next_ns;           /**< when the first of deferred[] is due; UINT64_MAX: none */
	struct cq_deferred deferred[TP_DEFERRED_CQS];
	uint32_t nb_owed;
	uint64_t owed_next_ns;               /**< when to try owed again; UINT64_MAX: there are none */
	TAILQ_HEAD(, cq) owed;               /**< CQs with events for which their channels had no room */
	uint32_t nb_mbufs;
	struct rte_mbuf *mbufs[TP_MBUF_CACHE];
	/* Pools of what is lent to QPs. */
	struct pool inflight_blocks;     /**< of TP_INFLIGHT_MAX struct tp_swqe each */
	struct pool read_blocks;         /**< of UROCE_MAX_RD_ATOMIC struct tp_read each */
	struct pool sge_blocks;          /**< of UROCE_MAX_SGE struct ring_sge each */
	struct pool scoreboards, reorders, reorder_pkts; /**< core/reorder_priv.h, req/scoreboard_priv.h */
	struct tp_reserve {
		uint32_t each;           /**< items that every share can have, whatever the others hold */
		uint32_t left;           /**< how many of those nobody has now */
	} reserve[TP_POOLS];
	struct pool rx_waits;            /**< core/rx_wait_priv.h */
	const struct share *rx_share;    /**< that paid last for what was received. Compared, never followed */
	uint64_t rx_others_ns;           /**< until then others than that count as receiving, too */
	struct tp_rx_round {             /**< core/rx_wait_priv.h */
		uint32_t number;
		uint32_t receivers;      /**< shares that have received something in this round, */
		uint32_t receivers_before; /**< in the one before it, */
		uint32_t spent;          /**< and have used up their deficits */
		uint64_t began_ns;
	} rx_round;
	struct pool copy_parts, copy_jobs, copy_pkts;    /**< core/copy_priv.h; empty if nobody copies for the transport */
	uint32_t nb_copies;              /**< handed over and not come back */
	uint32_t nb_blocked, nb_fresh;
	uint64_t blocked_next_ns;        /**< when to try blocked again */
	TAILQ_HEAD(, tp_copy) fresh;     /**< of QPs with received packets whose copies are to begin */
	TAILQ_HEAD(, tp_copy) blocked;   /**< of QPs with received packets whose copies could not begin */
	TAILQ_HEAD(, tp_copy_job) copies; /**< those for which QPs wait, the oldest first */
	struct tp_diag *diag;            /**< log of rare events */
	struct tp_held_list *held;       /**< packets for QPs that are on their way (core/held_priv.h) */
	struct tp_journal *journal;      /**< core/journal_priv.h, or NULL: the transport keeps none */
	struct tp_tap *tap;              /**< sees packets by reference, or NULL */
	struct tp_locals *locals;        /**< packets by reference (core/local_priv.h), or NULL: the transport has none */
	struct wire_sealer sealer;       /**< packets in tx whose ICRC isn't filled in yet */
	struct wire_header_cache headers; /**< of packets that were received */
	struct tp_txvec loop;
	struct tp_txvec tx[];
};

#endif /* UROCE_TP_TYPES_H */
