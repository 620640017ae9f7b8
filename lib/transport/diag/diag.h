/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Diagnosis of QPs for people: a snapshot of a QP's state, an explanation of it in words, and the QP's recent events.
 *
 * Owns: struct qp_view, which contains no pointers and can be kept; the ring of rare events, one for all QPs of a
 * transport, so that idle QPs need no memory for it. Called by: lib/control for telemetry, apps. Thread: functions
 * marked [engine] on the engine's, the rest anywhere. None of this is on the data path: the transport logs an event
 * where something went wrong or changed, and a snapshot is taken on request.
 */
#ifndef UROCE_DIAG_H
#define UROCE_DIAG_H

#include "transport/transport.h"

enum {
	DIAG_TEXT_BYTES = 1024, /**< size of the buffer for qp_explain() and qp_reason_text() */
	DIAG_LINE_BYTES = 128,  /**< longest sentence, with its terminating 0: what a string of telemetry holds */
};

struct qp_reason {
	uint64_t ns;     /**< when */
	uint32_t psn;    /**< the oldest that was not acknowledged, or that of the refused request */
	uint16_t detail;
	uint8_t why;     /**< enum qp_why */
	uint8_t retries; /**< how many retries a send got before the QP gave up */
};

/** A snapshot of a CQ. */
struct cq_view {
	uint32_t size, unpolled; /**< entries; completions that the program hasn't taken */
	uint32_t users;          /**< QPs and SRQs */
	uint32_t moderation;     /**< completions per event << 16 | microseconds */
	uint8_t armed;           /**< RING_ARM_* */
	bool overrun, channel;
};
/** [any] Take a snapshot of @p cq. The fields are read one by one while the CQ is in use. */
void cq_look(const struct cq *cq, struct cq_view *v);

/** A snapshot of a QP. */
struct qp_view {
	uint64_t now_ns; /**< the engine's clock at that moment; the other times are on the same clock */
	uint32_t qpn, dest_qpn, pd;
	unsigned int engine;
	enum uroce_qp_type type;
	enum uroce_qp_state state;
	uint16_t port, pkey;
	uint32_t mtu_bytes;
	uint32_t qkey;       /**< UD */

	/* The path to the peer: RC, UC and XRC from RTR on; otherwise ip_version is 0. */
	uint8_t ip_version;
	uint8_t sip[16], dip[16], dmac[6]; /**< IPv4: the first 4 bytes */
	uint16_t sport;
	bool loopback;
	bool address_gone;   /**< sip is no address of the port any more */
	bool mtu_too_large;  /**< packets of mtu_bytes don't fit the port's MTU: */
	uint32_t port_ip_mtu, port_mtu_bytes; /**< its IP MTU, and the largest path MTU that fits; 0: none does */
	uint8_t path_mig_state; /**< enum ibv_mig_state */
	bool migrated;       /**< the QP has changed to its alternate path */
	struct qp_reason reason; /**< why the QP last went to ERR or SQE */

	/* Requester. */
	struct {
		uint32_t depth;      /**< size of the SQ in WQEs */
		uint32_t posted;     /**< posted WQEs that the engine hasn't fetched yet */
		uint32_t in_flight;  /**< WQEs begun and not complete */
		uint32_t psn_una, psn_cur, psn_max, psn_next; /**< oldest unacknowledged, next to send, beyond all sent, of the next WQE */
		uint32_t packets_in_flight; /**< sent and not acknowledged */
		uint16_t cwnd, loss_cwnd, cc_cwnd; /**< packets allowed in flight; by losses alone, by congestion control alone (0: none) */
		enum tp_cc cc;
		uint64_t rate_bps;   /**< rate of congestion control; 0: not paced */
		uint64_t pace_ns;    /**< when the next packet may be sent; 0: now */
		uint8_t max_rd, rd_out; /**< READs and atomics: max_rd_atomic, outstanding */
		uint8_t retry_cnt, retry_left, rnr_retry, rnr_left, timeout, probes;
		bool rnr_wait;
		uint64_t deadline_ns; /**< next timeout or end of the RNR wait, 0: none */
		uint64_t since_ns;   /**< when the oldest request began to wait for its answer, as far as known; 0: unknown */
		bool credits;        /**< the peer says how many receives it has posted */
		bool out_of_credits; /**< a SEND waits for a receive at the peer */
		int32_t credits_left; /**< receives the peer has left, if it says so */
		uint8_t head_op, next_op; /**< enum uroce_wr_op of the oldest WQE and of the one being sent, UROCE_WR_OPS: none */
		uint64_t head_wr_id;
		uint32_t head_bytes;
		uint8_t wait;        /**< enum req_wait */
		bool active, watched;
		bool selective;      /**< selective repeat is in use with the peer */
		uint32_t lost;       /**< packets known to be lost and not resent yet */
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
		bool rnr_nak_sent, seq_nak_sent; /**< an RNR NAK was sent; a NAK for the missing epsn was sent */
		uint64_t nak_sent_ns; /**< when that NAK was sent */
		uint8_t min_rnr_timer;
		uint8_t max_dest_rd; /**< READs and atomics that are remembered for duplicates */
		uint32_t res_pending; /**< how many of them still have to be answered */
		uint32_t reordered;  /**< packets held in the reorder buffer */
	} rx;

	struct cq_view send_cq, recv_cq; /**< size 0: none */

	/* State of the QP's engine. */
	uint32_t inflight_blocks_left; /**< blocks for WQEs in flight that are still free; 0 if its share may take none of them */
	uint8_t share_wait;    /**< enum share_wait of its share */
	bool no_tx_room;       /**< the TX vector is full: the port doesn't take packets as fast as they are made */
	uint32_t load_percent; /**< recent load; UINT32_MAX: unknown. Filled in by the caller */
};

/** [engine] Take a snapshot of @p qp. */
void qp_look(const struct qp *qp, uint64_t now_ns, struct qp_view *v);

/**
 * A glance at a QP: what other threads may read while its engine is at work. Each field is right, but they are not all of the same
 * moment. Counters are those of the QP since it was created.
 */
struct qp_glance {
	uint32_t qpn, dest_qpn;
	uint8_t type, state;       /**< enum uroce_qp_type, enum uroce_qp_state */
	uint8_t ip_version;        /**< of the peer's address; 0: it has none */
	uint8_t dip[16];
	uint8_t wait;              /**< enum req_wait */
	uint16_t cwnd;
	uint32_t packets_in_flight;
	uint32_t srtt_ns;
	uint32_t sends, receives;  /**< work requests completed by the requester (may wrap); messages taken by the responder (24 bits) */
	uint64_t tx_bytes, tx_packets; /**< sent: headers included */
	uint64_t rx_bytes;         /**< payload that came in: SENDs, WRITEs, and what READs have brought */
	uint32_t losses, retransmitted; /**< may wrap */
};
/** [any thread, while nobody destroys the QP: holding control_lock()] Fill in @p g without asking the QP's engine. */
void qp_glance(const struct qp *qp, struct qp_glance *g);

/** What a QP had done when it was looked at. */
struct qp_costs {
	uint64_t bytes;            /**< sent and received, with TP_COST_PACKET for each packet sent */
	uint32_t sends, receives;  /**< as in struct qp_glance */
};
/**
 * [any thread, as qp_glance()] @return what the QP has cost its engine since @p seen, which is set to now; in bytes as share_stats.cost, but with what it
 * has received. That is wrong if the QP was reset meanwhile, or has received 2^24 messages or more.
 */
uint64_t qp_cost_since(const struct qp *qp, struct qp_costs *seen);

/** What the log says about a QP that has gone to ERR or SQE. */
struct qp_failure {
	struct qp_reason reason;
	uint32_t qpn, dest_qpn;
	uint8_t type, state; /**< enum uroce_qp_type, enum uroce_qp_state */
	uint8_t ip_version;  /**< of the peer's address; 0: it had none */
	uint8_t dip[16];
	void *owner;         /**< of the QP, as given at its creation */
};
/** [engine] Fill in @p f; to be called from transport_config.failed. */
void qp_failure(const struct qp *qp, struct qp_failure *f);

/** How much of a transport's resources is in use. */
struct tp_depths {
	uint32_t qps, active_qps;      /**< all QPs; those on the active list */
	uint32_t inflight_blocks, inflight_blocks_max; /**< blocks for WQEs in flight that are lent to QPs; all such blocks */
	uint32_t reordered, reordered_max; /**< packets in reorder buffers */
	uint32_t tx_waiting;           /**< packets waiting in TX vectors */
};
/** [engine] Fill in @p d. */
void transport_depths(const struct transport *tp, struct tp_depths *d);

/**
 * Explain what the QP is doing and what it waits for: the most important first, one sentence per line, each shorter
 * than DIAG_LINE_BYTES.
 * @param text  DIAG_TEXT_BYTES long.
 * @return @p text.
 */
const char *qp_explain(const struct qp_view *v, char *text);
/** Put the reason into words, without time and QP. @param text  DIAG_LINE_BYTES long. @return @p text. */
const char *qp_reason_text(const struct qp_reason *r, char *text);

/** @return "RC", "UC" ... */
const char *qp_type_name(enum uroce_qp_type t);
/** @return "SEND", "RDMA_READ" ..., "-" for UROCE_WR_OPS. */
const char *wr_op_name(uint8_t op);
/** @return the name of an enum req_wait in one or two words: "nothing", "cwnd", "credits" ... */
const char *req_wait_name(uint8_t wait);
/** @return "migrated", "rearm", "armed". */
const char *qp_mig_name(uint8_t path_mig_state);

/** @return the name of the first drop counter that differs between @p before and @p after, or NULL if none does. */
const char *tp_drop_reason(const struct tp_counters *before, const struct tp_counters *after);

/* ---- Events ---- */
/** Put an event into words, without time and QP. @param text  DIAG_LINE_BYTES long. @return @p text. */
const char *qp_event_text(const struct qp_event *e, char *text);

#endif /* UROCE_DIAG_H */
