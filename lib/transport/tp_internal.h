/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/transport share. Nobody else includes it.
 *
 * Ownership, in prose:
 *
 * - A struct transport and every QP and SRQ in it are touched by their engine's thread only. Two fields of a QP
 *   are read by other engines between table look-up and quiescent state: qpn and tp (never written after creation).
 * - A CQ has several producers if it was made `multi`; its fields say which are atomic.
 * - A QP is on the active list while the engine has something to do for it or watches its SQ (sq_watch 1), and on
 *   the ack list while it owes the peer a reply. Whoever gives a QP work calls qp_activate() or qp_reply_later();
 *   nobody else puts it on a list. With work pending that a full TX vector or an empty mempool refused, it stays on.
 * - PSNs are assigned when a WQE is fetched, so a packet can be made again from its PSN alone: the WQE that has
 *   the PSN, and the offset in it. Nothing else is kept for retransmission.
 * - What the engine relies on (opcode, lengths, counts, PSNs) is copied from a posted WQE once, into struct tp_swqe,
 *   and checked. Addresses, keys and inline bytes are read from the slot again for each packet; every use checks
 *   them against the MR table. A client that rewrites a posted slot changes what its own message says, nothing else.
 * - MR pointers are never kept beyond the call that looked them up.
 * - Moving to ERR (qp_error()) only changes the state and wakes the QP; flushing happens in its turn
 *   (qp_flush_run()). So it may be called from anywhere, also while completions are being written.
 */
#ifndef UROCE_TP_INTERNAL_H
#define UROCE_TP_INTERNAL_H

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "diag.h"
#include "mw.h"
#include "transport.h"
#include "wheel.h"

enum {
	TP_INFLIGHT_OWN = 2,        /**< WQEs in flight for which every QP has room; a power of two */
	TP_INFLIGHT_MAX = 256,      /**< WQEs in flight with a borrowed window; a power of two */
	TP_WINDOWS = 1024,          /**< windows that a transport lends to busy QPs */
	TP_READ_BLOCKS = 4096,      /**< of UROCE_MAX_RD_ATOMIC struct tp_read each, lent to QPs that answer READs */
	TP_SGE_BLOCKS = 4096,       /**< copies of SGEs that a transport lends to QPs amid a message for an SRQ */
	TP_WINDOW_MAX = 256,        /**< packets of a QP on their way, requests and READ responses */
	TP_WINDOW_START = 64,       /**< of a connection without history */
	TP_WINDOW_MIN = 16,         /**< what losses leave of it */
	TP_WINDOW_STEP = 16,        /**< what each window without a loss adds */
	TP_WINDOW_CALM = 64,        /**< windows without a loss until the round trip doesn't hold growth back any more */
	TP_WINDOW_LOST = 2,         /**< what each packet that is known to be lost takes */
	TP_READ_CHUNK_PACKETS = 32, /**< response packets that one READ request asks for; a power of two */
	TP_SACK_SPAN = 256,         /**< PSNs beyond a gap that can be told apart: TP_WINDOW_MAX */
	TP_SACK_OFFERS = 3,         /**< offers of selective repeat that a peer gets before it counts as foreign */
	TP_BOARDS = 256,            /**< of each kind that a transport lends to QPs that have lost something */
	TP_HELD_MAX = 2048,         /**< packets that a transport holds beyond gaps, of all QPs */
	TP_ACKREQ_PACKETS = 32,     /**< AckReq on every so many packets inside a message; a power of two */
	TP_ACKREQ_LOSSY = 4,        /**< the same while a loss is remembered: the window is small */
	TP_QP_BUDGET = 32,          /**< packets or WQEs of a QP in one turn */
	TP_TURN_BUDGET = 128,       /**< packets or WQEs of all QPs in one turn */
	TP_TURN_QPS = 128,          /**< QPs looked at in one turn */
	TP_RX_BATCH = 16,           /**< packets parsed ahead of handling */
	TP_MBUF_CACHE = 32,         /**< mbufs taken from the mempool at a time */
	TP_TOUCHED_CQS = 64,        /**< CQs whose events wait for the end of the turn */
	TP_HELD_CQS = 64,           /**< events that moderation holds back at a time; further ones aren't */
	TP_WATCH_NS = 50000,        /**< a QP without work is watched for this long before its client must ring */
	TP_POLL_NS = 1000,          /**< with QPs watched, a turn is due this soon */
	TP_PROBES = 3,              /**< early retransmissions of the oldest packet before it's the ACK timeout's turn */
	TP_PROBE_MIN_NS = 20000,    /**< no earlier than this without progress: engines have other QPs to serve */
	TP_PROBE_PACKET_NS = 1000,  /**< and this later for each packet on the way: 4 KiB at 32 Gb/s */
	TP_PROBE_SHIFT_MAX = 8,     /**< probes that were no use make the next ones later, up to 2 to the power of this */
	TP_RTT_EVERY_NS = 10000,    /**< between round trips that are measured, without congestion control */
	TP_RTT_MIN_NS = 1000000000, /**< for how long, twice at most, the shortest round trip is remembered */
	TP_RTT_MAX_NS = 500000000,  /**< longer round trips count as this */
	TP_TIMEOUT_UNIT_NS = 4096,  /**< local ACK timeout: this times 2^timeout (9.7.6.1.3) */
	TP_BACKOFF_MAX = 2,         /**< log2 of how many times longer timeouts in a row become, */
	TP_BACKOFF_END = 16,        /**< but not beyond this timeout: 268 ms */
	TP_CREDITS_ENOUGH = 256,    /**< receives known to be posted: no need to look for more */
	TP_CREDITS_ANY = 1 << 30,   /**< of a peer that doesn't say how many receives it has */
	TP_SL_IPV4 = 0xa,           /**< wc.sl of UD receives: the L3 type, as mlx5 has it and UCX reads it */
	TP_SL_IPV6 = 0x9,
	TP_XRC_BUCKETS = 256,       /**< of a transport's table of XRC SRQs; a power of two */
	TP_RETRY_INFINITE = 7,      /**< of rnr_retry; a retry_cnt of 7 is seven (11.2.5.2) */
};

/** What the engine knows about a WQE between fetching and completing it. Everything else stays in the slot. */
struct tp_swqe {
	uint64_t wr_id;
	uint32_t first_psn, last_psn;
	uint32_t length;  /**< of the message, bytes */
	uint32_t recvs;   /**< receives that the peer needs for all messages up to this one */
	uint8_t opcode;   /**< enum uroce_wr_op, checked */
	uint8_t flags;    /**< UROCE_SEND_* */
	uint8_t nb_sge;   /**< 0 with INLINE */
	uint8_t status;   /**< enum uroce_wc_status found while fetching or sending; 0: good */
	uint8_t verr;     /**< enum tp_vendor_err */
	uint8_t reserved[3];
};
static_assert(sizeof(struct tp_swqe) == 32, "counts for an idle QP's memory");

/** What a requester does with an opcode. Indexed by enum uroce_wr_op. */
struct tp_req_op {
	uint8_t services; /**< bit 1 << (service >> 5) for each service that has it */
	uint8_t wc;       /**< enum uroce_wc_op */
	uint8_t kind;     /**< enum tp_req_kind */
	uint8_t first, middle, last, only; /**< enum wire_op */
	uint8_t recvs;    /**< receives that the peer needs for it */
};
enum tp_req_kind { TP_REQ_NONE = 0, TP_REQ_DATA, TP_REQ_READ, TP_REQ_ATOMIC, TP_REQ_LOCAL, /**< nothing is sent */
		   TP_REQ_PLACE /**< ATOMIC_WRITE, FLUSH: an empty READ response back */ };
extern const struct tp_req_op tp_req_ops[UROCE_WR_OPS];

/** A READ or atomic that the responder executed: a duplicate is known, and answered again (C9-105, 9.4.4). */
struct tp_res {
	union {
		uint64_t old __attribute__((packed)); /**< atomic: the value before the operation */
		struct {
			uint32_t mark;   /**< READ: of what was asked for; res_mark() */
			uint32_t length; /**< READ: bytes; ATOMIC_WRITE, FLUSH: 0 */
		};
	};
	uint32_t psn : 24;
	uint32_t used : 1, atomic : 1, replay : 1;
	uint32_t placed : 1; /**< ATOMIC_WRITE, FLUSH: answered by a READ response of no bytes */
};
static_assert(sizeof(struct tp_res) == 12, "counts for an idle QP's memory, up to UROCE_MAX_RD_ATOMIC times");

/** What a READ needs besides while it is being answered. Lent to a QP for as long as it has responses to send. */
struct tp_read {
	uint64_t va;         /**< of the first byte */
	uint32_t rkey;
	uint32_t cur : 24;   /**< PSN of the next response packet */
	uint32_t begins : 1; /**< and that one is the first of this (re)play */
	uint32_t run : 1;    /**< amid a run of again */
	uint32_t srqn;       /**< XRC: the SRQ whose PD opened the memory */
	uint32_t again;      /**< bit i: packet i is to be sent again, before cur; of READs up to a chunk */
};

/** The message that is coming in. */
enum tp_rmsg { TP_RMSG_NONE = 0, TP_RMSG_SEND, TP_RMSG_WRITE, TP_RMSG_DROP /**< UC: the rest is dropped */ };

/** What the responder owes the peer, apart from READ and atomic responses, which go first. */
enum tp_reply {
	TP_REPLY_NONE = 0,
	TP_REPLY_ACK,      /**< everything before epsn */
	TP_REPLY_SACK,     /**< the same, and what is held beyond */
	TP_REPLY_DUP_ACK,  /**< everything up to reply_psn: a READ beyond it may have lost its response */
	TP_REPLY_NAK_SEQ,
	TP_REPLY_RNR,
	TP_REPLY_FATAL,    /**< reply_syndrome at reply_psn; the QP is in ERR */
};

/** Whether the peer has been told that epsn is missing (9.7.5.2.8: once). */
enum tp_told { TP_TOLD_NOTHING = 0, TP_TOLD_SEQ, TP_TOLD_RNR };

/** Early retransmission (RFC 8985, section 7: tail loss probe), until nothing is on the way or a round trip was measured. */
enum tp_probe {
	TP_PROBE_NONE = 0,
	TP_PROBE_SENT,     /**< the oldest packet was sent again */
	TP_PROBE_ANSWERED, /**< there was progress since: the way is open, and what doesn't come was lost */
};

/** Path migration; numbers of enum ibv_mig_state. */
enum tp_mig { TP_MIG_MIGRATED = 0, TP_MIG_REARM, TP_MIG_ARMED };

/** What a wheel entry belongs to. */
enum tp_timer { TP_TIMER_QP = 0, TP_TIMER_PACE /**< struct cc */ };

struct cc;
struct tp_board;
struct tp_ahead;
struct tp_held;

/** The receive WQE in use. */
struct tp_rwqe {
	uint64_t wr_id;
	uint64_t room;         /**< bytes that still fit */
	/**
	 * Of an RQ: in its slot, which is the engine's until the receive completes; to be read with sge_snapshot(). Of an
	 * SRQ, whose slot was given back: a copy, in own_sge or borrowed.
	 */
	const struct ring_sge *sge;
	uint32_t sge_off;      /**< bytes used of sge[sge_cur] */
	uint16_t nb_sge, sge_cur;
	uint16_t wqe_counter;
	bool valid, borrowed;
	struct ring_sge own_sge;
};

/** Where a CQ's completions go. */
struct cq_ring {
	struct ring ring; /**< base and order; the counter is the CQ's prod */
	uint64_t *stamps; /**< a time per slot, or NULL */
};

struct cq {
	/** Which of rings[] in bit 0, above it the next CQE: several producers take numbers by addition, and the one step that
	 * changes the ring (cq_resize()) leaves no doubt which numbers are in which. */
	_Atomic uint64_t prod;
	struct cq_ring rings[2];
	struct ring_cq_shared *shared;
	_Atomic uint32_t cons;        /**< the client's counter as last seen */
	_Atomic uint32_t moderation;  /**< completions per event << 16 | microseconds; 0: each one may raise an event */
	_Atomic uint32_t told;        /**< CQEs below this counter were there when an engine raised the last event */
	_Atomic uint32_t users;
	_Atomic bool overrun;
	bool multi;
	int channel_fd;
	uint64_t cookie;
	void *owner;
	uint8_t touched[UROCE_MAX_ENGINES]; /**< TP_TOUCHED_* of this turn, each engine its own */
};
enum { TP_TOUCHED = 1, TP_TOUCHED_SOLICITED = 2 };

/** An event that moderation holds back. */
struct cq_hold {
	struct cq *cq;
	uint64_t due_ns; /**< UINT64_MAX: only its number of completions raises it */
	uint8_t flags;   /**< TP_TOUCHED_* */
};

struct srq {
	struct ring ring;
	struct ring_srq_shared *shared;
	uint32_t pd, max_sge, limit;
	uint32_t users;         /**< QPs; of an XRC SRQ those that were reached last by a message for it */
	uint64_t cookie;
	void *owner;

	/* XRC. */
	LIST_ENTRY(srq) link;   /**< in its bucket */
	struct cq *cq;
	uint32_t srqn, xrcd;
	bool gone;              /**< destroyed; freed with its last user */
};
LIST_HEAD(tp_srq_list, srq);

struct qp {
	/* Shared with other engines; written at creation only. */
	struct transport *tp;
	uint32_t qpn;

	uint8_t type;          /**< enum uroce_qp_type */
	uint8_t service;       /**< enum wire_service whose rules it follows: XRC's are RC's */
	uint8_t prefix;        /**< enum wire_service in the opcodes of its packets */
	uint8_t state;         /**< enum uroce_qp_state; the one truth, shared->state mirrors it */
	uint8_t mtu_shift;
	uint32_t pd;           /**< XRC_RECV: of the SRQ that the last request named, as recv_cq and srq are */
	uint32_t dest_qpn;
	uint32_t access;       /**< qp_access_flags */
	uint16_t port, pkey;
	bool loopback, multicast, sig_all, comm_est, last_wqe_told, sqd_told;
	bool on_active, on_ack, watched;
	uint8_t mig;           /**< enum tp_mig */
	bool alt_loaded, mig_err_told;
	TAILQ_ENTRY(qp) active_link, ack_link;
	uint64_t last_work_ns;
	struct ring_qp_shared *shared;
	struct cq *send_cq, *recv_cq;

	/* Requester. In flight: [sq_tail, sq.counter); sent: below sq_cur, and of sq_cur what is below psn_cur. */
	struct ring sq;
	struct tp_swqe *inflight;
	uint32_t inflight_mask;
	uint32_t sq_tail, sq_cur;   /**< counters of SQ slots: oldest not complete, being sent */
	uint32_t psn_una;           /**< oldest PSN not acknowledged */
	uint32_t psn_cur;           /**< next PSN to send */
	uint32_t psn_max;           /**< beyond the highest PSN ever sent */
	uint32_t psn_next;          /**< first PSN of the next WQE */
	uint32_t psn_grow;          /**< when this is acknowledged the window grows */
	uint32_t psn_recover;       /**< before this is acknowledged a loss doesn't shrink the window again */
	uint32_t recvs_next;        /**< receives that the peer needs for all that was fetched, */
	uint32_t recvs_done;        /**< has used up for what is complete, */
	uint32_t recvs_limit;       /**< and has, as far as it said (9.7.7.2) */
	uint16_t window;            /**< packets that may be on their way: the smaller of the next and cc's */
	uint16_t loss_window;       /**< what losses leave */
	uint8_t lossy;              /**< windows for which a loss is remembered */
	uint8_t ackreq_mask;        /**< of PSNs: those that have it all set have AckReq */
	uint16_t max_inline;
	uint8_t max_send_sge;
	uint8_t max_rd, rd_out;     /**< READ and atomic requests allowed, on their way */
	uint8_t retry_cnt, retry_left, rnr_retry, rnr_left, timeout;
	bool rnr_wait;              /**< the timer is the peer's RNR timer; nothing is sent */
	bool restarted;             /**< went back for a lost response; not again before there is progress */
	bool credits;               /**< the peer says how many receives it has */
	bool out_of_credits;
	bool sack_peer;             /**< the peer has sent a SACK */
	uint8_t sack_offers;        /**< that may still be made */
	bool blocked;               /**< what comes next must wait for the peer, or for its time */
	bool rtt_timing;            /**< the round trip of rtt_psn is being measured; it was sent once (Karn) */
	uint8_t probe, probes;      /**< enum tp_probe; early retransmissions since there was progress */
	uint8_t rto_shift;          /**< these since the last measured round trip: each doubles the next one's delay */
	uint32_t rtt_psn;
	uint32_t rtt_una;           /**< psn_una at the last measurement */
	uint32_t srtt_ns, rttvar_ns; /**< as in RFC 6298 */
	uint32_t rtt_min_ns;        /**< without queues, as far as is known: the shortest of this period and of the last */
	uint32_t rtt_low_ns;        /**< the shortest of this period */
	uint32_t rto_ns;            /**< early retransmission after this; 0: nothing measured yet */
	uint64_t rtt_low_until_ns;  /**< when the period ends */
	uint64_t rtt_sent_ns;
	uint64_t rtt_next_ns;       /**< no measurement begins before */
	uint64_t deadline_ns;       /**< ACK timeout, early retransmission or end of the RNR wait; 0: none. The wheel may
				      *  fire earlier */
	uint64_t giveup_ns;         /**< ACK timeout, while deadline_ns is an early retransmission */
	struct wheel_entry timer;
	struct tp_board *board;     /**< what the peer holds beyond a gap; NULL: nothing was lost */
	struct cc *cc;              /**< congestion control, or NULL */
	uint64_t cnp_next_ns;       /**< no CNP before */

	/* Responder. */
	struct ring rq;
	struct srq *srq;
	uint32_t xrcd;
	uint32_t epsn, msn;
	uint8_t rmsg, reply, reply_syndrome, told; /**< enum tp_rmsg, tp_reply, AETH, tp_told */
	bool sack_on;               /**< the peer understands SACKs */
	uint8_t min_rnr_timer;
	uint8_t res_max, res_head;  /**< res[]: size; next to overwrite, which is the oldest */
	uint32_t rq_seen;           /**< receives before this one were seen to be posted */
	uint32_t reply_psn;
	uint32_t psn_dropped;       /**< the last PSN that was dropped behind a gap, while told says there is one */
	uint32_t r_length;          /**< bytes of the message so far */
	uint32_t r_left;            /**< WRITE: bytes to come */
	uint32_t r_rkey;
	uint64_t r_va;              /**< WRITE: where the next byte goes */
	uint64_t res_pending;       /**< bit per res[]: response to be sent */
	struct tp_ahead *ahead;     /**< packets held beyond a gap, or NULL */
	struct tp_res *res;
	struct tp_read *reads;      /**< one for each of res[], while any READ is being answered */
	struct tp_rwqe rwqe;

	struct wire_tmpl tmpl;
	uint32_t qkey;
	uint32_t tmpl_ah;           /**< UD: the AH that tmpl was made from */

	/* Seldom used. */
	struct uroce_qp_attr attr;
	uint64_t cookie;
	void *owner;
	struct tp_path *alt;        /**< the alternate path, while alt_loaded */
	uint64_t stuck_ns;          /**< since when psn_una is stuck_psn; 0: never was. Kept where something goes wrong only */
	uint64_t told_ns;           /**< when the peer was told what it is told */
	uint64_t why_ns;            /**< when it went to ERR or SQE, */
	uint32_t why_psn, stuck_psn;
	uint16_t why_detail;
	uint8_t why;                /**< and why: enum qp_why */
	bool migrated;
	struct qp *zombie_next;     /**< destroyed, waiting for the grace period */
	uint64_t zombie_token;
	uint32_t slot;              /**< index in the QP table */
	struct tp_swqe own_inflight[TP_INFLIGHT_OWN];
};

TAILQ_HEAD(tp_qp_list, qp);

struct transport {
	struct transport_config c;
	struct tp_counters counters;
	struct tp_violations violations[UROCE_MAX_PORTS];
	uint64_t now_ns;
	struct tp_qp_list active, ack;
	uint32_t nb_active, nb_qps;
	bool idle;                       /**< the last turn found nothing to do */
	struct wheel wheel;
	struct cq *touched[TP_TOUCHED_CQS];
	uint32_t nb_touched;
	struct tp_srq_list xrc_srqs[TP_XRC_BUCKETS]; /**< by the low bits of their numbers */
	uint32_t nb_held;
	uint64_t held_next_ns;           /**< when the first of held[] is due; UINT64_MAX: none */
	struct cq_hold held[TP_HELD_CQS];
	uint32_t nb_mbufs;
	struct rte_mbuf *mbufs[TP_MBUF_CACHE];
	uint32_t nb_windows;
	struct tp_swqe *windows[TP_WINDOWS];
	struct tp_swqe *window_mem;
	uint32_t nb_read_blocks;
	struct tp_read *read_blocks[TP_READ_BLOCKS];
	struct tp_read *read_block_mem;
	uint32_t nb_sge_blocks;
	struct ring_sge *sge_blocks[TP_SGE_BLOCKS]; /**< of UROCE_MAX_SGE each */
	struct ring_sge *sge_block_mem;
	/* Lent to QPs that have lost something; selective.h. */
	uint32_t nb_boards, nb_aheads, nb_held_free;
	struct tp_board *boards[TP_BOARDS], *board_mem;
	struct tp_ahead *aheads[TP_BOARDS], *ahead_mem;
	uint16_t held_free[TP_HELD_MAX];
	struct tp_held *held_mem;
	struct tp_diag *diag;            /**< rare events */
	struct tp_txvec loop;
	struct tp_txvec tx[];
};

/* ---- transport.c ---- */
void tp_event(struct transport *tp, enum uroce_event type, uint64_t cookie, void *owner);
void qp_activate(struct transport *tp, struct qp *qp);
void qp_reply_later(struct transport *tp, struct qp *qp);
/** Take @p qp off both lists and stop its timer. */
void qp_unlist(struct transport *tp, struct qp *qp);
struct rte_mbuf *tp_mbuf_refill(struct transport *tp);
/** A packet that is for @p qp, which is this transport's: check it and hand it to the service. */
void transport_to_qp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p);

/* ---- qp_table.c ---- */
/** @return 0 or ENOMEM. Sets qpn and slot. */
int qp_table_add(struct qp_table *t, struct qp *qp);
/** Unpublish; the memory is freed by qp_free() after the grace period. */
void qp_table_remove(struct qp_table *t, struct qp *qp);

/* ---- diag.c ---- */
/** @return 0 or ENOMEM. */
int diag_create(struct transport *tp);
void diag_destroy(struct transport *tp);
/** Remember a rare event. Not for what happens packet by packet. */
void diag_note(struct transport *tp, const struct qp *qp, enum qp_event_kind kind, uint8_t a, uint16_t b, uint32_t psn);
/** psn_una doesn't get on, as far as is known since @p since_ns. */
void diag_stuck(struct qp *qp, uint64_t since_ns);
/** Why a QP can't go on. */
struct tp_because {
	uint8_t why;     /**< enum qp_why */
	uint16_t detail;
};
#define TP_BECAUSE(why, detail) ((struct tp_because){ QP_WHY_##why, (uint16_t)(detail) })
/** It has gone to ERR or SQE. */
void diag_failed(struct transport *tp, struct qp *qp, struct tp_because because);

/* ---- qp.c ---- */
void qp_free(struct qp *qp);
/** Move to ERR; @p event or -1. Harmless if it is there already. */
void qp_error(struct transport *tp, struct qp *qp, int event, struct tp_because because);
/** Send error of a UC or UD QP: SQE. */
void qp_send_error(struct transport *tp, struct qp *qp, struct tp_because because);
/** Flush in ERR and SQE. @return WQEs flushed. */
uint32_t qp_flush_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** The SQ stopped moving: in SQD say so once. */
void qp_check_drained(struct transport *tp, struct qp *qp);

/** Send by @p path from now on. No allocation if the QP has a struct cc or needs none. */
void qp_use_path(struct transport *tp, struct qp *qp, const struct tp_path *path);

/* ---- migration.c ---- */
/** An alternate path. @return 0 or ENOMEM. */
int migration_load(struct qp *qp, const struct tp_path *path);
/** May path_mig_state be set to @p to? @p loading: an alternate path comes with it. */
bool migration_may(const struct qp *qp, uint32_t to, bool loading);
void migration_set(struct transport *tp, struct qp *qp, uint32_t to);
void migration_reset(struct qp *qp);
/** Change to the alternate path. @return false: there is none to change to. */
bool migration_go(struct transport *tp, struct qp *qp);
/** A packet for a QP that is REARM or ARMED. @return false: drop it. */
bool migration_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- cq.c ---- */
/** Fields of a CQE; ctl without phase. */
struct tp_cqe {
	uint64_t wr_id;
	uint32_t byte_len, imm, src_qp;
	uint8_t status, opcode;
	union ring_cqe_ctl ctl;
};
/** Write a CQE of @p qp. An overrun takes CQ and QP to error. */
void cq_push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e);
/** End of a turn: one fence, then the channels of armed CQs. */
void cq_flush_touched(struct transport *tp);
/** Raise the events that were held back and are due. */
void cq_run_held(struct transport *tp);

/* ---- requester.c ---- */
/** Send what may be sent. @return packets sent and WQEs fetched. */
uint32_t requester_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** @return true if there is something to send and nothing of the peer's to wait for. */
bool requester_pending(const struct qp *qp);
/** Gather @p len bytes at offset @p off of the message. @return 0, or the status that @p w has then too. */
uint8_t requester_gather(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot,
			 uint32_t off, uint8_t *dst, uint32_t len);
/** A request of @p psns PSNs has been sent. */
void requester_sent(struct transport *tp, struct qp *qp, const struct tp_swqe *w, uint32_t psns);
/** Go back to the oldest PSN that is not acknowledged. */
void requester_rewind(struct transport *tp, struct qp *qp);
/** Send the oldest packet that is not acknowledged again, and ask for an answer. */
void requester_probe(struct transport *tp, struct qp *qp);
/** Send the packet of @p psn, which is in WQE @p counter, again. @return 1 if sent; 0: not now, or the WQE is bad. */
uint32_t requester_send_again(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn);
/** Ask for @p packets packets of a READ again, from @p psn on. @return as requester_send_again(). */
uint32_t requester_read_again(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn, uint32_t packets);
/** SQD: give back the WQEs that haven't been started. */
void requester_unfetch(struct qp *qp);
/** Nothing in flight: return a borrowed window. */
void requester_return_window(struct transport *tp, struct qp *qp);

/* ---- completer.c ---- */
/** A response packet, admitted. */
void completer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A connection begins: its window, nothing measured. */
void completer_start(struct qp *qp);
/** The round trip that is being measured can't be told any more; the next packet's may be. */
static inline void
completer_untime(struct qp *qp)
{
	qp->rtt_timing = false;
	qp->rtt_next_ns = 0;
}
/** Everything up to @p psn has arrived. @return false: a READ or atomic before it lacks its response. */
bool completer_acknowledge(struct transport *tp, struct qp *qp, uint32_t psn);
/**
 * Scatter response bytes at offset @p off of the message into the SGEs of WQE @p counter. @return 0 or the vendor error.
 */
uint8_t completer_scatter(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data,
			  uint32_t len);
/** The next PSN of the READ or atomic at the head has been answered. */
void completer_answered(struct transport *tp, struct qp *qp);
/** A response was lost: ask again. */
void completer_restart(struct transport *tp, struct qp *qp);
/** @p n packets that are known one by one were lost. */
void completer_lost(struct transport *tp, struct qp *qp, uint32_t n);
/** The peer is there and things arrive, though psn_una stays: the timer starts anew. */
void completer_alive(struct transport *tp, struct qp *qp);
/** The packet of rtt_psn has arrived. */
void completer_rtt(struct transport *tp, struct qp *qp);
/** Round trips and probes of the path before say nothing any more. */
void completer_new_path(struct qp *qp);
/** What limits the window has changed. */
void completer_window(struct qp *qp);
/** How long the ACK timer runs now. */
uint64_t completer_ack_timeout_ns(const struct qp *qp);
/** The timer of a QP. */
void completer_timer(struct transport *tp, struct qp *qp);
/** Start the ACK timer if it isn't running. */
void completer_arm(struct transport *tp, struct qp *qp);
/** Complete the oldest WQE with success. */
void completer_head(struct transport *tp, struct qp *qp);
/** Complete the oldest WQE with an error; the QP goes to ERR, or SQE. */
void completer_fail_head(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);

/* ---- local.c ---- */
/** BIND_MW and LOCAL_INV. @return 1 if done; 0 if it has to wait or was refused (w->status). */
uint32_t local_run(struct transport *tp, struct qp *qp, struct tp_swqe *w);

/* ---- ah.c ---- */
struct tp_ah {
	uint32_t handle, pd;
	struct tp_path path;
	struct wire_tmpl tmpl;  /**< to be copied: its ICRC cache has one user */
	struct tp_ah *zombie_next;
	uint64_t zombie_token;
};
/** @return the AH, good until the next quiescent state, or NULL. */
const struct tp_ah *ah_get(const struct ah_table *t, uint32_t handle, uint32_t pd);

/* ---- ud.c ---- */
/** Send a UD message. @return packets sent: 0 if it has to wait or the WQE turned out bad. */
uint32_t ud_send(struct transport *tp, struct qp *qp, struct tp_swqe *w);
void ud_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- mcast.c ---- */
/** A packet for the multicast QPN whose ICRC is good. */
void mcast_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p);
/** @p qp has sent this to a group: copies for members on this host. */
void mcast_loop(struct transport *tp, const struct qp *qp, const struct rte_mbuf *sent);

/* ---- gsi.c ---- */
/** A packet for QP 1 whose ICRC is good. */
void gsi_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p);

/* ---- read_atomic.c ---- */
/** Requests with the expected PSN: executed, remembered, answered later; or refused. */
void responder_read(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_atomic(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_atomic_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_flush(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** @return what was executed with @p psn, or NULL. */
struct tp_res *responder_res_find(struct qp *qp, uint32_t psn);
/** Answer a READ again, all of it or a part. @return false: it is not what was asked for, or there is no place now. */
bool responder_read_again(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** The last PSN of what was executed. */
static inline uint32_t
res_last_psn(const struct qp *qp, const struct tp_res *r)
{
	return r->atomic ? r->psn : wire_psn_add(r->psn, wire_packets(r->length, qp->mtu_shift) - 1);
}
/** Nothing is left to be answered: give back what was lent for it. */
static inline void
responder_return_reads(struct transport *tp, struct qp *qp)
{
	if (qp->reads == NULL || qp->res_pending != 0)
		return;
	tp->read_blocks[tp->nb_read_blocks++] = qp->reads;
	qp->reads = NULL;
}

/* ---- responder.c, reply.c, uc.c ---- */
/** Execute the request with the expected PSN. */
void responder_execute(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A request packet, admitted, of an RC QP. */
void responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Send responses and the reply. @return packets sent. */
uint32_t responder_run(struct transport *tp, struct qp *qp, uint32_t budget);
static inline bool
responder_busy(const struct qp *qp)
{
	return qp->res_pending != 0 || qp->reply != TP_REPLY_NONE;
}
/** The next request needs what there isn't now: RNR NAK (class B errors, 9.9.3), the peer tries again. */
void responder_not_ready(struct transport *tp, struct qp *qp);
/** Refuse a request for good (class C errors, 9.9.3): NAK with its PSN, QP to ERR. */
void responder_refuse(struct transport *tp, struct qp *qp, uint8_t syndrome, uint32_t psn);
/**
 * epsn has moved, after something beyond it was dropped or refused. If the NAK still waits to be sent it now asks for
 * what comes next, provided that was dropped: the peer has no other way to know. @return true if so.
 */
bool responder_gap_remains(struct qp *qp);
/** What a peer's key opens to it. @p va becomes the address in that MR. */
static inline struct mr *
key_opens(struct transport *tp, const struct qp *qp, uint32_t rkey, uint32_t access, uint64_t *va, uint32_t len)
{
	return mr_check_remote(tp->c.mrs, rkey, qp->pd, qp->qpn, access, va, len);
}
/** Parts that RC and UC share. Statuses: enum uroce_wc_status with *@p verr, 0 is good. */
bool responder_shape_ok(const struct qp *qp, const struct wire_pkt *p);
bool responder_write_begin(struct qp *qp, const struct wire_pkt *p);
bool responder_write_allowed(struct transport *tp, struct qp *qp);
bool responder_write_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void uc_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- recv.c: receive WQEs ---- */
/** Take the next receive WQE of RQ or SRQ into qp->rwqe. @return false: none posted. */
bool recv_take(struct transport *tp, struct qp *qp);
/** Put bytes into the receive WQE. @return status; *@p verr says more. */
uint8_t recv_place(struct transport *tp, struct qp *qp, const uint8_t *data, uint32_t len, uint8_t *verr);
/** Complete the receive WQE. @p p: the message's last packet, or NULL without immediate and solicited bit. */
void recv_complete(struct transport *tp, struct qp *qp, uint8_t opcode, const struct wire_pkt *p);
void recv_fail(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);
/** Flush one receive WQE of an RQ. @return false: nothing left. */
bool recv_flush_one(struct transport *tp, struct qp *qp);
/** @return the low bits of an AETH that acknowledges: receives that are posted (9.7.7.2.1). */
uint8_t recv_credit_code(struct qp *qp);
/** The receive WQE in use, if there is one, is done with. */
void recv_drop(struct transport *tp, struct qp *qp);
/** Begin to use the slot of @p counter, which has @p nb_sge SGEs at @p sge. */
void rwqe_begin(struct tp_rwqe *w, const struct ring *r, uint32_t counter, const struct ring_sge *sge, uint32_t nb_sge);
/** SGEs of a posted receive. */
static inline uint32_t
rwqe_nb_sge(const struct ring_rq_wqe *slot, uint32_t max_sge)
{
	union ring_rq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_acquire) };

	/* The client library refuses to post more than max_sge; who writes it to the slot gets an empty buffer. */
	return ctl.num_sge <= max_sge ? ctl.num_sge : 0;
}

/* ---- srq.c ---- */
bool srq_take(struct transport *tp, struct srq *srq, struct tp_rwqe *w);
/** A QP lets go of it. */
void srq_release(struct srq *srq);

/* ---- xrc.c ---- */
void xrc_srq_enter(struct transport *tp, struct srq *srq);
/** A request with the expected PSN: turn to the SRQ that it names. @return false: refused. */
bool xrc_admit(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A QP of type XRC_RECV lets go of the SRQ that it turned to last. */
void xrc_leave(struct qp *qp);
/** @return whether the QP's domain still has an SRQ of this number; its PD. */
bool xrc_pd(const struct transport *tp, const struct qp *qp, uint32_t srqn, uint32_t *pd);
/** Write the XRCETH of a request. */
void xrc_put_eth(uint8_t *eth, const struct ring_sq_wqe *slot);
static inline uint32_t
xrc_srqn(const struct wire_pkt *p)
{
	return wire_get24(p->bthp + p->op->off_xrceth + 1);
}

/* ---- Sending, inline because every packet goes through it ---- */
/** @return an empty mbuf or NULL (counted). */
static inline struct rte_mbuf *
tp_mbuf(struct transport *tp)
{
	if (unlikely(tp->nb_mbufs == 0))
		return tp_mbuf_refill(tp);
	return tp->mbufs[--tp->nb_mbufs];
}

static inline void
tp_mbuf_put(struct transport *tp, struct rte_mbuf *m)
{
	if (tp->nb_mbufs < TP_MBUF_CACHE)
		tp->mbufs[tp->nb_mbufs++] = m;
	else
		rte_pktmbuf_free(m);
}

static inline struct tp_txvec *
tp_txvec_of(struct transport *tp, const struct qp *qp)
{
	return qp->loopback ? &tp->loop : &tp->tx[qp->port];
}

/** A packet being built. */
struct tp_out {
	struct rte_mbuf *m;
	struct tp_txvec *vec;
	uint8_t *frame, *bth;
	const struct wire_opcode *op;
};

/**
 * Begin a packet: find room and an mbuf.
 * @return false: none now; the caller keeps the work and comes back next turn.
 */
static inline bool
tp_begin(struct transport *tp, const struct qp *qp, uint8_t opcode, struct tp_out *o)
{
	o->vec = tp_txvec_of(tp, qp);
	if (unlikely(o->vec->n == TP_TX_MAX)) {
		tp->counters.tx_no_room++;
		return false;
	}
	o->m = tp_mbuf(tp);
	if (unlikely(o->m == NULL))
		return false;
	o->op = &wire_opcodes[opcode];
	o->frame = rte_pktmbuf_mtod(o->m, uint8_t *);
	o->bth = o->frame + qp->tmpl.bth_off;
	return true;
}

/** Where the payload goes. */
static inline uint8_t *
tp_payload(const struct tp_out *o)
{
	return o->bth + o->op->hdr_bytes;
}

/**
 * Finish a packet whose extended headers and payload are in place and put it into its TX vector.
 * @param b  pad is filled in here.
 */
static inline void
tp_finish(struct transport *tp, struct qp *qp, struct tp_out *o, struct wire_bth *b, uint32_t payload_bytes)
{
	uint32_t pad = -payload_bytes & 3;
	uint8_t *end = tp_payload(o) + payload_bytes;
	uint16_t l4 = (uint16_t)(o->op->hdr_bytes + payload_bytes + pad + WIRE_ICRC_BYTES);

	b->pad = (uint8_t)pad;
	wire_put_bth(o->bth, b);
	memset(end, 0, pad + WIRE_ICRC_BYTES);
	wire_tmpl_write(&qp->tmpl, o->frame, l4, 0);
	if (!qp->loopback)
		wire_tmpl_seal(&qp->tmpl, o->frame, l4);
	o->m->data_len = (uint16_t)(qp->tmpl.bth_off + l4);
	o->m->pkt_len = o->m->data_len;
	o->m->port = qp->port;
	o->vec->pkts[o->vec->n++] = o->m;
	tp->counters.tx_packets++;
	tp->counters.tx_bytes += o->m->data_len;
}

/** Read an SGE from a slot once: what is checked is what is used, whatever the client writes meanwhile. */
static inline struct ring_sge
sge_snapshot(const struct ring_sge *s)
{
	return (struct ring_sge){
		.addr = *(const volatile uint64_t *)&s->addr,
		.length = *(const volatile uint32_t *)&s->length,
		.lkey = *(const volatile uint32_t *)&s->lkey,
	};
}

/** The first SGE, or inline byte, of an SQ slot. */
static inline const struct ring_sge *
slot_sges(const struct ring_sq_wqe *slot, uint8_t opcode)
{
	const uint8_t *p = (const uint8_t *)(slot + 1);

	return (const void *)(p + (ring_op_has_operands(opcode) ? sizeof(struct ring_atomic) : 0));
}

/** Why mr_check() for writing refused an SGE. @return enum tp_vendor_err. */
static inline uint8_t
lkey_verr(const struct transport *tp, uint32_t lkey, uint32_t pd, uint64_t va, uint32_t len)
{
	return mr_check(tp->c.mrs, lkey, pd, 0, va, len) != NULL ? TP_VERR_LACCESS : TP_VERR_LKEY;
}

static inline uint8_t
wqe_error(struct tp_swqe *w, uint8_t status, uint8_t verr)
{
	w->status = status;
	w->verr = verr;
	return status;
}

static inline struct tp_swqe *
qp_inflight(struct qp *qp, uint32_t counter)
{
	return &qp->inflight[counter & qp->inflight_mask];
}

static inline void
qp_set_state(struct qp *qp, enum uroce_qp_state s)
{
	qp->state = s;
	atomic_store_explicit(&qp->shared->state, s, memory_order_release);
}

/** From the peer's address to ours, as the QP's AV has them (9.6.1.1.1). */
static inline bool
qp_address_match(const struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *ours = qp->tmpl.hdr + qp->tmpl.l3_off;

	if (p->ip_version != qp->tmpl.ip_version)
		return false;
	if (p->ip_version == 4)
		return memcmp(p->l3 + 12, ours + 16, 4) == 0 && memcmp(p->l3 + 16, ours + 12, 4) == 0;
	return memcmp(p->l3 + 8, ours + 24, 16) == 0 && memcmp(p->l3 + 24, ours + 8, 16) == 0;
}

/** 10.9.3: equal but for the membership bit, not the invalid key, and not both limited members. */
static inline bool
pkey_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

static inline void
count_bad_pkey(struct transport *tp, uint16_t port)
{
	tp->counters.rx_bad_pkey++;
	tp->violations[port].bad_pkey++;
}

static inline void
count_bad_qkey(struct transport *tp, uint16_t port)
{
	tp->counters.rx_bad_qkey++;
	tp->violations[port].bad_qkey++;
}

/** Requests are taken in these states, responses and sending in the others. */
static inline bool
qp_receives(const struct qp *qp)
{
	return qp->state >= UROCE_QPS_RTR && qp->state <= UROCE_QPS_SQE && qp->type != UROCE_QPT_XRC_SEND;
}
static inline bool
qp_sends(const struct qp *qp)
{
	return qp->state == UROCE_QPS_RTS || qp->state == UROCE_QPS_SQD;
}

#endif /* UROCE_TP_INTERNAL_H */
