/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a QP is doing, for people: a picture of it at one moment, the same in words, and what has happened to it of late.
 *
 * Owns: struct qp_view, which refers to nothing and can be kept; the ring of rare events of a transport's QPs, one ring for all
 * of them, so that a QP that does nothing needs no memory for it. Called by: lib/control for telemetry, apps. Thread: what is
 * marked [engine] on the engine's, the rest anywhere. Nothing of this is on the data path: the transport notes an event
 * where something has gone wrong or changed, and a picture is taken when somebody asks for one.
 */
#ifndef UROCE_DIAG_H
#define UROCE_DIAG_H

#include "transport/transport.h"

enum {
	DIAG_TEXT_BYTES = 1024, /**< room that qp_explain() and qp_reason_text() need at most */
	DIAG_LINE_BYTES = 128,  /**< of one sentence, with its end: what a string of telemetry holds */
};

struct qp_reason {
	uint64_t ns;     /**< when */
	uint32_t psn;    /**< the oldest that wasn't acknowledged, or the one refused */
	uint16_t detail;
	uint8_t why;     /**< enum qp_why */
	uint8_t retries; /**< of a send that was given up */
};

/** What a CQ looks like. */
struct cq_view {
	uint32_t size, unpolled; /**< entries; completions that the program hasn't taken */
	uint32_t users;          /**< QPs and SRQs */
	uint32_t moderation;     /**< completions per event << 16 | microseconds */
	uint8_t armed;           /**< RING_ARM_* */
	bool overrun, channel;
};
/** [any] Numbers are read while they move. */
void cq_look(const struct cq *cq, struct cq_view *v);

/** A QP at one moment. */
struct qp_view {
	uint64_t now_ns; /**< the engine's clock: other times are to be compared with it */
	uint32_t qpn, dest_qpn, pd;
	unsigned int engine;
	enum uroce_qp_type type;
	enum uroce_qp_state state;
	uint16_t port, pkey;
	uint32_t mtu_bytes;
	uint32_t qkey;       /**< UD */

	/* The path to the peer: RC, UC and XRC from RTR on, else ip_version 0. */
	uint8_t ip_version;
	uint8_t sip[16], dip[16], dmac[6]; /**< IPv4: the first 4 bytes */
	uint16_t sport;
	bool loopback;
	uint8_t path_mig_state; /**< enum ibv_mig_state */
	bool migrated;       /**< it is on what was its alternate path */
	struct qp_reason reason; /**< of the last time it went to ERR or SQE */

	/* Requester. */
	struct {
		uint32_t depth;      /**< WQEs that the SQ holds */
		uint32_t posted;     /**< not looked at yet */
		uint32_t in_flight;  /**< begun and not complete */
		uint32_t psn_una, psn_cur, psn_max, psn_next; /**< oldest unacknowledged, next to send, beyond all sent, of the next WQE */
		uint32_t packets_in_flight; /**< sent and not acknowledged */
		uint16_t cwnd, loss_cwnd, cc_cwnd; /**< packets allowed in flight; what losses leave; what congestion control does, 0: nothing */
		enum tp_cc cc;
		uint64_t rate_bps;   /**< of congestion control; 0: not paced */
		uint64_t pace_ns;    /**< when the next packet may go, 0: now */
		uint8_t max_rd, rd_out; /**< READs and atomics allowed and outstanding */
		uint8_t retry_cnt, retry_left, rnr_retry, rnr_left, timeout, probes;
		bool rnr_wait;
		uint64_t deadline_ns; /**< next timeout or end of the RNR wait, 0: none */
		uint64_t since_ns;   /**< since when the oldest waits for its answer, as far as is known; 0: unknown */
		bool credits;        /**< the peer says how many receives it has posted */
		bool out_of_credits; /**< a SEND waits for one */
		int32_t credits_left; /**< if it says so */
		uint8_t head_op, next_op; /**< enum uroce_wr_op of the oldest WQE and of the one being sent, UROCE_WR_OPS: none */
		uint64_t head_wr_id;
		uint32_t head_bytes;
		uint8_t wait;        /**< enum req_wait */
		bool active, watched;
		bool selective;      /**< the peer repeats selectively too */
		uint32_t lost;       /**< packets known to be lost, to be sent again */
		uint32_t srtt_ns, rtt_min_ns;
	} tx;

	/* Responder. */
	struct {
		uint32_t depth, posted; /**< of the RQ; both 0 with an SRQ */
		uint32_t srq_depth, srq_posted; /**< of the SRQ, if it has one */
		bool srq;
		uint32_t epsn, msn;
		bool midway;         /**< part of a message has arrived */
		uint32_t message_bytes;
		bool rnr_nak_sent, seq_nak_sent; /**< an RNR NAK; a NAK for the missing epsn */
		uint64_t nak_sent_ns; /**< when */
		uint8_t min_rnr_timer;
		uint8_t max_dest_rd; /**< READs and atomics remembered */
		uint32_t res_pending; /**< of them to be answered */
		uint32_t reordered;  /**< packets held in the reorder buffer */
	} rx;

	struct cq_view send_cq, recv_cq; /**< size 0: none */

	/* Of its engine. */
	uint32_t inflight_blocks_left; /**< blocks for WQEs in flight that its engine has left */
	bool no_tx_room;       /**< the port doesn't take packets as fast as they are made */
	uint32_t load_percent; /**< of late; UINT32_MAX: unknown. Filled in by who knows */
};

/** [engine] Take a picture. */
void qp_look(const struct qp *qp, uint64_t now_ns, struct qp_view *v);

/** A QP that has gone to ERR or SQE, for the log. */
struct qp_failure {
	struct qp_reason reason;
	uint32_t qpn, dest_qpn;
	uint8_t type, state; /**< enum uroce_qp_type, enum uroce_qp_state */
	uint8_t ip_version;  /**< of the peer's address; 0: it had none */
	uint8_t dip[16];
	void *owner;         /**< as given at its creation */
};
/** [engine] In transport_config.failed. */
void qp_failure(const struct qp *qp, struct qp_failure *f);

/** What of a transport is in use. */
struct tp_depths {
	uint32_t qps, active_qps;      /**< all; those that have or lately had work */
	uint32_t inflight_blocks, inflight_blocks_max; /**< for WQEs in flight, in use by busy QPs */
	uint32_t reordered, reordered_max; /**< packets in reorder buffers */
	uint32_t tx_waiting;           /**< packets made that no port has taken */
};
/** [engine] */
void transport_depths(const struct transport *tp, struct tp_depths *d);

/**
 * Say what the QP is doing and what it waits for: the most important first, one sentence per line, each shorter than
 * DIAG_LINE_BYTES.
 * @param text  DIAG_TEXT_BYTES long.
 * @return @p text.
 */
const char *qp_explain(const struct qp_view *v, char *text);
/** The reason in words, without time and QP. @param text  DIAG_LINE_BYTES long. @return @p text. */
const char *qp_reason_text(const struct qp_reason *r, char *text);

/** @return "RC", "UC" ... */
const char *qp_type_name(enum uroce_qp_type t);
/** @return "SEND", "RDMA_READ" ..., "-" for UROCE_WR_OPS. */
const char *wr_op_name(uint8_t op);
/** @return what an enum req_wait says, in one or two words: "nothing", "cwnd", "credits" ... */
const char *req_wait_name(uint8_t wait);
/** @return "migrated", "rearm", "armed". */
const char *qp_mig_name(uint8_t path_mig_state);

/** Which counter of dropped packets has moved? @return its name, or NULL: none. The first of them, where a packet moved several. */
const char *tp_drop_reason(const struct tp_counters *before, const struct tp_counters *after);

/* ---- What has happened ---- */
/** One event in words, without time and QP. @param text  DIAG_LINE_BYTES long. @return @p text. */
const char *qp_event_text(const struct qp_event *e, char *text);

#endif /* UROCE_DIAG_H */
