/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The RoCE v2 transport: QPs, CQs, SRQs, requester, responder, completer, retransmission.
 *
 * It does no I/O and knows no ports, lcores, sockets or threads. Packets come in as mbufs and leave through TX vectors
 * that the caller flushes, the time is passed as an argument, and events are reported through callbacks. The same code
 * runs in the daemon's engines, in an application that embeds it, and in the simulator.
 *
 * Owns: everything about a QP. There is one struct transport per engine; a QP, an SRQ and their timers belong to
 * exactly one transport and are accessed only by its thread ([engine] below). A CQ may take completions from QPs of
 * several transports. The table of QPs is shared: [control] adds and removes, engines look up under RCU.
 *
 * In each turn an engine calls transport_rx() for what arrived and transport_run(), flushes the TX vectors, and reports a
 * quiescent state.
 *
 * Nothing here allocates, locks or makes a system call on the data path.
 */
#ifndef UROCE_TRANSPORT_H
#define UROCE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "mem/mem.h"
#include "ring/ring.h"
#include "transport/sizes.h"
#include "transport/share.h"
#include "transport/gsi.h"
#include "base/shared.h"
#include "base/gid.h"
#include "wire/wire.h"
#include "transport/cc/algorithms.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_rcu_qsbr;
struct transport;
struct qp;
struct cq;
struct srq;

/** Packets that a TX vector holds. */
#define TP_TX_MAX 256

/**
 * Packets waiting to be sent by one port. The caller sends pkts[0..n) and moves those that the port didn't take to the
 * front.
 */
struct tp_txvec {
	uint16_t n;
	struct rte_mbuf *pkts[TP_TX_MAX];
};

/** Vendor error codes of completions (wc.vendor_err): the cause, where the status alone doesn't tell. */
enum tp_vendor_err {
	TP_VERR_NONE = 0,
	TP_VERR_WQE_OPCODE,   /**< opcode unknown or not supported by this QP type */
	TP_VERR_WQE_SGES,     /**< more SGEs or inline bytes than the QP supports */
	TP_VERR_WQE_LENGTH,   /**< message too long, or not 8 bytes for an atomic or ATOMIC_WRITE */
	TP_VERR_LKEY,         /**< lkey unknown, stale, of another PD, or access outside its range */
	TP_VERR_LACCESS,      /**< the MR may not be written locally */
	TP_VERR_FAULT,        /**< the program's memory is no longer there */
	TP_VERR_RECV_LENGTH,  /**< receive WQE too small for the message */
	TP_VERR_BAD_RESPONSE, /**< response doesn't fit the request */
	TP_VERR_TIMEOUT,      /**< retry_cnt transmissions without an answer */
	TP_VERR_SEQ_RETRY,    /**< retry_cnt NAKs for sequence error */
	TP_VERR_RNR,          /**< rnr_retry exceeded */
	TP_VERR_REMOTE_NAK,   /**< the responder refused the request; the status says why */
	TP_VERR_MW,           /**< bind or invalidate refused */
	TP_VERR_AH,           /**< AH unknown, stale or of another PD */
	TP_VERR_NO_RD_ATOMIC, /**< READ or atomic on a QP whose max_rd_atomic is 0 */
	TP_VERR_WQE_FLUSH,    /**< FLUSH without a placement type, or with an unknown type or selectivity level */
	TP_VERR_ADDRESS,      /**< retry_cnt transmissions without an answer, since the QP's own address has gone from its port */
	TP_VERR_MTU,          /**< retry_cnt transmissions without an answer, since the packet is larger than its port's MTU by now */
	TP_VERR_COPY_LATE,    /**< a copy of memory that isn't mapped took too long (TP_COPY_DEADLINE_NS) */
};

/** What a requester waits for before it sends its next packet. */
enum req_wait {
	REQ_RUNS = 0,       /**< nothing: it sends what is posted */
	REQ_WAIT_TX,        /**< room in the TX vector, or an mbuf; it tries again each turn */
	/* From here on the engine need not try again until something happens to the QP. */
	REQ_WAIT_CWND,      /**< an ACK: the congestion window is full */
	REQ_WAIT_CREDITS,   /**< a receive that the peer posts (9.7.7.2) */
	REQ_WAIT_RD_ATOMIC, /**< a response: max_rd_atomic requests are outstanding */
	REQ_WAIT_FENCE,     /**< the READs and atomics before a fenced WQE */
	REQ_WAIT_PACE,      /**< the time at which congestion control allows the next packet */
	REQ_WAIT_RNR,       /**< the end of the peer's RNR timer */
	REQ_WAIT_INFLIGHT,  /**< room for WQEs in flight */
	REQ_WAIT_MEMORY,    /**< a copy of memory that isn't mapped */
	REQ_WAIT_DRAIN,     /**< completion of all earlier WQEs: this one is executed locally, or is bad */
	REQ_WAIT_MOVE,      /**< the QP moves to another engine as soon as all that it has sent is acknowledged (move.h) */
};

/** Why a QP went to ERR or SQE. */
enum qp_why {
	QP_WHY_NONE = 0,
	QP_WHY_PROGRAM,    /**< the program modified it to ERR */
	QP_WHY_SEND,       /**< a send failed; detail: its status << 8 | enum tp_vendor_err */
	QP_WHY_REFUSED,    /**< a request of the peer was refused; detail: the NAK's syndrome */
	QP_WHY_RECEIVE,    /**< a receive failed; detail: enum tp_vendor_err */
	QP_WHY_INVALIDATE, /**< the peer's SEND_WITH_INV named no memory window of this QP */
	QP_WHY_CQ,         /**< a CQ had no room */
	QP_WHY_DEVICE,     /**< the port's device has gone */
	QP_WHYS
};
/** Rare events of QPs, which a transport logs (diag/diag.h). */
enum qp_event_kind {
	QP_EV_STATE,      /**< a: the new enum uroce_qp_state */
	QP_EV_ERROR,      /**< to ERR or SQE; a: enum qp_why, b: detail, c: retries */
	QP_EV_NAK_SENT,   /**< a: syndrome */
	QP_EV_NAK,        /**< received; a: syndrome */
	QP_EV_RNR_SENT,   /**< a: timer code */
	QP_EV_RNR,        /**< received; a: timer code, b: tries left */
	QP_EV_TIMEOUT,    /**< of the ACK timer; a: tries left */
	QP_EV_LOST_RESPONSE, /**< the response of a READ or atomic was lost: requested again */
	QP_EV_PROBE,      /**< a tail loss probe was sent */
	QP_EV_STRANGER,   /**< the peer held a packet that was never sent here; it is told to drop what it holds */
	QP_EV_SACK,       /**< packets are missing, only they are resent; a: how many */
	QP_EV_CNP,        /**< received */
	QP_EV_MIGRATED,   /**< to the alternate path */
	QP_EV_OVERRUN,    /**< of one of its CQs */
	QP_EV_KINDS
};
struct qp_event {
	uint64_t ns;     /**< time of the first */
	uint32_t qpn, psn;
	uint32_t count;  /**< how often it happened without another event of any QP in between */
	uint16_t b;
	uint8_t kind, a, c; /**< enum qp_event_kind, which says what a, b and c mean */
};
enum { TP_EVENTS = 4096 }; /**< rare events remembered per transport; a power of two */
/**
 * [engine] Get the logged events of a QP, even if the QP is gone.
 * @param qpn  0: of all QPs.
 * @return number of events put into @p out: the latest ones, at most @p max, oldest first.
 */
uint32_t qp_events(const struct transport *tp, uint32_t qpn, struct qp_event *out, uint32_t max);

/**
 * Counters of one transport. Where Linux's `rdma statistic` has the same counter, the name is its. docs/counters.md
 * explains each.
 */
#define TP_COUNTERS(X) \
	X(rx_packets) X(rx_bytes) X(tx_packets) X(tx_bytes) \
	X(rx_not_roce) X(rx_truncated) X(rx_bad_ip) X(rx_bad_udp_sum) X(rx_bad_opcode) X(rx_bad_tver) X(rx_bad_length) \
	X(rx_icrc_encapsulated) X(rx_multi_segment) \
	X(rx_unknown_qp) X(rx_wrong_service) X(rx_wrong_state) X(rx_bad_pkey) X(rx_bad_qkey) X(rx_bad_address) X(rx_bad_vlan) X(rx_bad_migreq) \
	X(rx_ud_no_wqe) X(rx_uc_no_wqe) X(srq_no_sges) X(read_no_places) X(rx_uc_gap) X(rx_uc_rest) X(rx_ud_length) \
	X(rx_ghost_ack) X(rx_bad_response) X(rx_response_ignored) X(rx_duplicate_dropped) X(rx_nak_ignored) X(rx_nak_repeated) \
	X(rx_mads) X(rx_mad_length) X(rx_mcast) X(rx_mcast_no_group) X(mcast_loop_dropped) \
	X(rx_cnp) X(np_ecn_marked_roce_packets) X(np_cnp_sent) X(rp_cnp_handled) X(rp_cnp_ignored) \
	X(tail_loss_probes) X(sack_offers_sent) X(sack_offers_received) X(sacks_sent) X(sacks_received) \
	X(rx_response_placed) X(rx_held) X(rx_not_held) X(rx_sack_ignored) X(rx_sack_stranger) X(rx_sack_unmarked) X(rx_handoff) X(rx_handoff_dropped) \
	X(qps_arrived) X(qps_undrained) X(rx_moving_held) X(rx_moving_dropped) X(rx_waited) \
	X(copies) X(copy_timeouts) X(copy_no_room) X(copy_taken_back) X(rx_copy_held) X(rx_copy_dropped) \
	X(rx_write_requests) X(rx_read_requests) X(rx_atomic_requests) X(rx_flush_requests) X(rx_send_requests) \
	X(out_of_sequence) X(duplicate_request) X(packet_seq_err) X(implied_nak_seq_err) \
	X(local_ack_timeout_err) X(rnr_nak_sent) X(rnr_nak_received) X(rnr_nak_retry_err) X(retry_exceeded_err) \
	X(req_remote_access_errors) X(req_remote_invalid_request) X(req_remote_op_errors) X(req_local_errors) \
	X(resp_remote_access_errors) X(resp_invalid_requests) X(resp_op_errors) X(resp_local_length_error) \
	X(resp_rd_atomic_exceeded) X(resp_bad_xrceth) X(req_cqe_error) X(resp_cqe_error) X(cqe_flush_error) \
	X(mw_binds) X(local_invalidates) X(req_mw_errors) X(rx_invalidate_requests) X(resp_invalidate_errors) \
	X(acks_sent) X(time_wait_acks_sent) X(acks_received) X(retransmitted_packets) X(cq_overrun) X(cq_events) X(cq_events_delayed) \
	X(rc_credit_waits) X(share_rounds) X(share_rate_waits) X(share_refused) X(tx_by_reference) X(tx_no_address) X(tx_too_long) X(tx_no_mbuf) X(tx_no_room)

struct tp_counters {
#define TP_X(name) uint64_t name;
	TP_COUNTERS(TP_X)
#undef TP_X
};

/** An asynchronous event of a QP, CQ or SRQ. */
struct tp_event {
	enum uroce_event type;
	uint64_t cookie; /**< of the object */
	void *owner;     /**< of the object, as given at its creation (the session) */
};

/* ---- The QP table, shared by all engines ---- */
struct qp_table;
/**
 * [control] @param qsbr  The RCU variable that engines report to; NULL for a single-threaded user.
 * @param secret  Makes QP numbers random, see gen_table_init(); NULL: they begin at 2.
 * @return NULL with errno set.
 */
struct qp_table *qp_table_create(uint32_t max_qp, struct rte_rcu_qsbr *qsbr, const struct secret *secret);
void qp_table_destroy(struct qp_table *t);
uint32_t qp_table_count(const struct qp_table *t);
/** @return how many slots the table has. */
uint32_t qp_table_slots(const struct qp_table *t);
/**
 * [any engine] @return the QP with this number, or NULL. Valid until the engine's next quiescent state; only the thread
 * of the engine that owns the QP may access it, except through qp_engine_now().
 */
struct qp *qp_table_get(const struct qp_table *t, uint32_t qpn);

/* ---- Paths to peers, and the table of AHs, shared by all engines ---- */
/** A resolved path to a peer: the result of the AV and the port's tables. */
struct tp_path {
	struct wire_addr addr; /**< sport 0: the AV has flow label 0, and the transport derives a source port from the QPNs */
	uint16_t port;         /**< index of the port */
	uint16_t pkey;         /**< P_Key value for the QP's pkey_index; for an AH WIRE_PKEY_DEFAULT */
	bool loopback;         /**< the destination is one of this daemon's own addresses: the packets stay here */
	bool multicast;        /**< the destination is a group: members on this host get a copy of what is sent */
};

struct ah_table;
/**
 * [control] @param qsbr  The RCU variable that engines report to; NULL for a single-threaded user.
 * @return NULL with errno set.
 */
struct ah_table *ah_table_create(uint32_t max_ah, struct rte_rcu_qsbr *qsbr);
void ah_table_destroy(struct ah_table *t);
uint32_t ah_table_count(const struct ah_table *t);
/**
 * [control] @param pd  Only WQEs of QPs of this PD may use the AH.
 * @param handle  Receives the handle that the client puts into WQEs; never 0.
 * @return 0; ENOMEM (no memory, or table full).
 */
int ah_create(struct ah_table *t, uint32_t pd, const struct tp_path *path, uint32_t *handle);
/**
 * [control] Address @p gid is no address of the port any more (@p gone), or again one: datagrams to the AH are dropped, or sent again.
 * @return false: it is not the AH's own address, and nothing was changed.
 */
bool ah_address_gone(struct ah_table *t, uint32_t handle, const struct gid *gid, bool gone);
/** [control] @return false: unknown or stale handle. */
bool ah_path(const struct ah_table *t, uint32_t handle, struct tp_path *path);
/** @param mac  Where packets from @p sgid to @p dgid go now; set to where they have to go. @return true: that is another MAC address. */
typedef bool (*tp_mac_fn)(const void *arg, const struct gid *sgid, const struct gid *dgid, uint8_t mac[6]);
/** [control] As transport_follow_mac() (path/changes.h), for an AH. @return true: it has followed. */
bool ah_follow_mac(struct ah_table *t, uint32_t handle, tp_mac_fn fn, const void *arg);
/** [control] @return 0; EINVAL (unknown or stale handle). */
int ah_destroy(struct ah_table *t, uint32_t handle);

/* ---- Multicast groups and the QPs attached to them, shared by all engines ---- */
struct mcast_table;
/**
 * [control] @param qsbr  The RCU variable that engines report to; NULL for a single-threaded user.
 * @return NULL with errno set.
 */
struct mcast_table *mcast_table_create(struct rte_rcu_qsbr *qsbr);
void mcast_table_destroy(struct mcast_table *t);
uint32_t mcast_table_groups(const struct mcast_table *t);
/** @return the number of attachments to all groups. */
uint32_t mcast_table_attached(const struct mcast_table *t);
/**
 * [control] Attach QP @p qpn to group @p mgid: it receives the datagrams for the group that arrive on @p port or that
 * this host sends there. It must be detached before it is destroyed. Attaching a QP a second time has no effect.
 * @return 0; ENOMEM (no memory, UROCE_MAX_MCAST_GROUPS, UROCE_MAX_MCAST_ATTACH).
 */
int mcast_attach(struct mcast_table *t, uint16_t port, const struct gid *mgid, uint32_t qpn);
/** [control] Detach a QP. Engines may deliver to it until the end of their turn. @return 0; EINVAL (not attached). */
int mcast_detach(struct mcast_table *t, uint16_t port, const struct gid *mgid, uint32_t qpn);

struct mem_job;

/* ---- A transport ---- */
/** How QPs of a port react to congestion. */
#define CC_ENUM(NAME, name) TP_CC_##NAME,
enum tp_cc { TP_CC_NONE = 0, CC_TABLE(CC_ENUM) TP_CC_ALGORITHMS };
#undef CC_ENUM
/** @return "none", "dcqcn", "swift" ... */
const char *tp_cc_name(enum tp_cc cc);

/**
 * What goes beyond the standard's minimum, per port. Each feature can be switched off, whatever the peer does.
 */
struct tp_features {
	bool selective_repeat; /**< RC, with uroce peers: only what was lost is sent again (core/sack_format_priv.h); off: not offered or accepted */
	bool tail_loss_probe;  /**< RC requesters resend the oldest packet early; off: only the ACK timeout finds a lost last packet */
	bool credits;          /**< RC: end-to-end flow control (9.7.7.2); off: no credits are sent or heeded, only RNR NAKs */
	bool ack_coalescing;   /**< RC responders answer at the end of a turn; off: each packet that asks for an ACK gets one at once */
};
#define TP_FEATURES_ALL { .selective_repeat = true, .tail_loss_probe = true, .credits = true, .ack_coalescing = true }

struct tp_port_config {
	enum tp_cc cc; /**< packets of QPs under congestion control are sent as ECT(0) */
	uint32_t mbps; /**< link speed; 0: unknown */
	uint16_t pkeys[UROCE_MAX_PKEYS]; /**< the P_Key table; 0: unused; all 0: WIRE_PKEY_DEFAULT alone */
	struct tp_features features; /**< features not set are off: TP_FEATURES_ALL sets all */
	uint32_t ip_mtu;   /**< bytes of the largest IP packet that the port sends; 0: it takes whatever fits a path MTU of 4096 */
	uint8_t mtu_shift; /**< log2 of the largest path MTU that fits in ip_mtu with all headers; 0: not even 256 does, or ip_mtu is 0 */
};

struct transport_config {
	struct shared sh;
	struct tp_pool_sizes pools;
	struct tp_limits limits;
	unsigned int engine;       /**< this transport's number, below UROCE_MAX_ENGINES */
	uint16_t nb_ports;         /**< at most UROCE_MAX_PORTS */
	struct tp_port_config ports[UROCE_MAX_PORTS];
	int socket_id;
	/** QPs without work aren't watched for a while, so that their clients ring the doorbell for each list of WQEs. */
	bool no_watch;
	/** Packets between QPs of this transport go by reference instead of through transport_loop(); only UC, UD and QP 1 always have frames. */
	bool by_reference;
	/** While several shares want something, each pays for the time that it takes by the CPU's clock, instead of what is calculated. Not where time is simulated. */
	bool metered;
	/**
	 * @return the time now, for completions with time stamps. NULL: they get the time at which the turn began,
	 * which is up to a turn (microseconds) old and too coarse for programs that measure with it.
	 */
	uint64_t (*stamp_ns)(void *arg);
	/**
	 * Called on the engine's thread to raise the completion event of a CQ whose client has armed it.
	 * @param channel, cookie  As given at the CQ's creation.
	 * @return false: there is no room for it now (counted as delayed); it is tried again. NULL: no CQ has a channel.
	 */
	bool (*notify)(void *arg, int channel, uint64_t cookie);
	/** It is called by transport_tell() alone, so that the system calls that it makes come after the packets of the turn. Not with a journal. */
	bool tell_later;
	/** Called on the engine's thread for each asynchronous event. */
	void (*event)(void *arg, const struct tp_event *ev);
	/** Called on the engine's thread when a QP has gone to ERR or SQE; qp_look() tells why. May be NULL. */
	void (*failed)(void *arg, const struct qp *qp);
	/**
	 * Called on the engine's thread for each datagram from outside, and for packets of connections whose tag isn't the one that they are sent with.
	 * @return whether a packet to @p dgid, an address or a group, is for the port if it came in VLAN @p vlan, 0: untagged. NULL: all are.
	 */
	bool (*takes)(void *arg, uint16_t port, const struct gid *dgid, uint16_t vlan);
	/** Called on the engine's thread for each MAD for QP 1; NULL: there is no QP 1. */
	void (*mad)(void *arg, const struct tp_mad *mad);
	/**
	 * Passes a packet for a QP of another engine on to that engine, unchecked; takes ownership. NULL: such packets
	 * are dropped.
	 */
	void (*handoff)(void *arg, unsigned int engine, uint16_t port, struct rte_mbuf *m, bool trusted);
	/**
	 * Called on the engine's thread to have a copy of memory made that isn't mapped: it may take as long as the program likes. When it has
	 * an end, transport_copied() is to be called, always.
	 * @return false: it can't be made now. NULL: the transport makes such copies itself, and waits for them (tests).
	 */
	bool (*copy)(void *arg, struct mem_job *job);
	void *arg;
	void *journal; /**< journal_bytes() of zeros for a journal, aligned to a page; NULL: it keeps none (journal/journal.h) */
	struct journal_limits journal_limits;
};
/** [control] @return the transport, or NULL with errno set. */
struct transport *transport_create(const struct transport_config *c);
/** [control, engine stopped] All its QPs must be gone. */
void transport_destroy(struct transport *tp);

/**
 * [engine] Take packets that arrived on @p port. Takes ownership of the mbufs.
 * @param trusted  The packets never left this process's memory (loopback): their ICRC is not checked.
 * @param now_ns  Time of a monotonic clock.
 * @return number of packets that are not RoCE v2 (ARP, ICMP ...): moved to the front of @p pkts, still owned by the
 * caller.
 */
uint16_t transport_rx(struct transport *tp, uint16_t port, struct rte_mbuf **pkts, uint16_t n, bool trusted,
		      uint64_t now_ns);

/**
 * [engine] Timers, deferred ACKs and responses, requesters, completion events; one bounded turn.
 * @return packets and WQEs handled; 0 means idle.
 */
uint32_t transport_run(struct transport *tp, uint64_t now_ns);
/** [engine] @return whether transport_tell() has something to do. */
bool transport_untold(const struct transport *tp);
/** [engine] Raise the completion events that wait for it (transport_config.tell_later). */
void transport_tell(struct transport *tp);

/**
 * [engine] Before the engine sleeps: stop watching the SQs of QPs that have nothing to do, so that their clients ring the doorbell.
 * @return false: some QP has work.
 */
bool transport_rest(struct transport *tp);

/** [engine] The control thread asked for something, and may soon ask again: for a while turns are brief, so that it needn't wait long. */
void transport_called(struct transport *tp, uint64_t now_ns);

/** [engine] A copy that transport_config.copy was asked for has an end: mem_job_run() was called, or it was cut and rc is ECANCELED. */
void transport_copied(struct transport *tp, struct mem_job *job, uint64_t now_ns);
/** [any] @return the QP whose packet or turn it is, or NULL. Only an identity, unless nobody can destroy QPs meanwhile. */
struct qp *transport_serving(const struct transport *tp);
/** [engine] What the engine does next is for no QP in particular. */
void transport_serves_nobody(struct transport *tp);
/** [engine stopped] @return copies that have no end yet. Their memory is part of the transport's. */
uint32_t transport_copies(const struct transport *tp);

/** [engine] @return the time at which transport_run() must be called at the latest, UINT64_MAX if nothing is due. */
uint64_t transport_next_timeout(const struct transport *tp);

/** Sees the packets that QPs of one transport send each other by reference, as the frames that they would have. All on the engine's thread. */
struct tp_tap {
	/** @p m is about to be delivered; it is valid until the return. @return an argument for end(); NULL: the tap doesn't want the packet. */
	void *(*begin)(struct tp_tap *t, uint16_t port, const struct rte_mbuf *m, uint64_t now_ns);
	/** It was delivered. @param dropped  Name of the counter that says why it was dropped; NULL: it wasn't. */
	void (*end)(struct tp_tap *t, void *packet, const char *dropped);
};
/** [engine] Set the tap, or remove it (NULL). */
void transport_set_tap(struct transport *tp, struct tp_tap *t);

/** [engine] @return the TX vector of @p port. The ICRCs of its packets are filled in; those of packets that come later, when transport_run() returns. */
struct tp_txvec *transport_tx(struct transport *tp, uint16_t port);
/**
 * [engine] @return the TX vector of packets to this host, for any port, less those that go by reference (transport_config). Give them to transport_rx() with trusted true,
 * which takes the port from mbuf->port. Their ICRC is not filled in.
 */
struct tp_txvec *transport_loop(struct transport *tp);

/** [any thread] Each counter is read atomically, but not all at the same moment. */
const struct tp_counters *transport_counters(const struct transport *tp);
/** P_Key and Q_Key violations of a port, as in struct ibv_port_attr. */
struct tp_violations {
	uint64_t bad_pkey, bad_qkey;
};
/** [any] */
const struct tp_violations *transport_violations(const struct transport *tp, uint16_t port);

/**
 * [engine] Set the congestion control of QPs that get a path to their peer from now on. The others keep what they have.
 */
void transport_set_cc(struct transport *tp, uint16_t port, enum tp_cc cc, uint32_t mbps);

/* ---- CQs ---- */
struct cq_params {
	struct ring ring;               /**< counter 0; slots zeroed */
	struct ring_cq_shared *shared;
	uint64_t *stamps;               /**< gets a time stamp per slot (transport_config.stamp_ns), or NULL */
	int channel;                    /**< passed to transport_config.notify for its events; -1: no events */
	uint64_t cookie;
	void *owner;
	bool multi;                     /**< QPs of several transports may complete here */
	uint32_t number;                /**< under which journals know it: below journal_limits.cqs, and no other CQ's of any of the transports */
};
/** [control] @return 0 or ENOMEM. */
int cq_create(const struct cq_params *p, struct cq **out);
/**
 * Let completions go to another ring from now on. [engine, or any thread if the CQ is `multi`] Engines may write to the
 * old ring until each has had a quiescent state; a second resize must wait for that.
 * @param ring  Slots zeroed; larger than the old one.
 * @return the counter of the first CQE in the new ring. The client moves the unpolled CQEs before it from the old ring.
 */
uint32_t cq_resize(struct cq *cq, const struct ring *ring, uint64_t *stamps);
/**
 * [any] Raise an event only after @p count completions, or @p period_us after the first; 0: this limit is off; both 0:
 * raise it at once. An event held back under the old setting is raised by cq_release_deferred() on each transport.
 */
void cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us);
/** [engine] Drop an event that is held back. @param raise  Raise it first. */
void cq_release_deferred(struct transport *tp, struct cq *cq, bool raise);
/** [engine] Drop the events of a CQ that no QP uses any more, if this transport has some that wait for room or for the end of a turn. */
void cq_drop_owed(struct transport *tp, struct cq *cq);
/**
 * [any] @return true if an engine has events of the CQ that wait for room in its channel. Once no QP uses the CQ, this
 * becomes false at some time, but never true.
 */
bool cq_owes_events(const struct cq *cq);
/**
 * [control] No QP may use the CQ any more, and since then every engine must have had a quiescent state and hold back no
 * event.
 */
void cq_destroy(struct cq *cq);
/** [control] @return QPs and SRQs that use it. */
uint32_t cq_users(const struct cq *cq);

/* ---- SRQs ---- */
struct srq_params {
	struct ring ring;
	struct ring_srq_shared *shared;
	uint32_t pd, max_sge, limit;
	uint64_t cookie;
	void *owner;
	/* XRC: all or nothing. */
	uint32_t xrcd; /**< XRC domain: QPs of it reach the SRQ; 0: not an XRC SRQ */
	uint32_t srqn; /**< number, 24 bits; unique among XRC SRQs, and in its low 16 bits, which CQEs carry */
	struct cq *cq; /**< where its receives complete */
	uint32_t number; /**< under which journals know it: below journal_limits.srqs, and no other SRQ's of any of the transports */
};
/** [engine] @return 0; ENOMEM; EINVAL (XRC: srqn or cq is missing). */
int srq_create(struct transport *tp, const struct srq_params *p, struct srq **out);
/** [engine] Arm the limit event; 0 disarms. */
void srq_set_limit(struct srq *srq, uint32_t limit);
uint32_t srq_limit(const struct srq *srq);
/**
 * [engine] @return 0, or EBUSY while a QP uses it. An XRC SRQ can always be destroyed; a message being received into it
 * is refused.
 */
int srq_destroy(struct transport *tp, struct srq *srq);

/* ---- QPs ---- */
/**
 * XRC_SEND has no recv_cq, srq and rq. XRC_RECV has no pd, CQs, srq and rings: it uses those of the SRQ that each
 * request names.
 */
struct qp_params {
	enum uroce_qp_type type;
	uint32_t pd;
	uint32_t xrcd;                 /**< XRC_RECV: its domain, not 0 */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;               /**< or NULL */
	bool sq_sig_all;
	struct uroce_qp_cap cap;       /**< as granted: matches the rings */
	struct ring sq, rq;            /**< counter 0; slots zeroed; rq.base NULL with an SRQ */
	struct ring_qp_shared *shared;
	uint16_t port;
	uint32_t max_mtu;              /**< UROCE_MTU_* of the port, which limits UD messages; 0: UROCE_MTU_4096 */
	uint64_t cookie;
	void *owner;
	struct share *share;           /**< whose time and pools it uses; NULL: the transport's own */
};
/**
 * [engine] Create a QP in RESET and enter it into the table.
 * @return 0; ENOMEM (no memory, or table full); EINVAL (type not supported).
 */
int qp_create(struct transport *tp, const struct qp_params *p, struct qp **out);

/**
 * Check a modify request against the state table and the attributes' ranges, without doing it.
 *
 * Which attributes are required and allowed for each transition and type is what rdma-core's man page of
 * ibv_modify_qp and the specification's table 91 (11.2.5.2) say.
 *
 * @param max_mtu  UROCE_MTU_* of the port.
 * @return 0, or EINVAL; *@p why then names the attribute or transition that is wrong (static string).
 */
int qp_modify_check(enum uroce_qp_type type, enum uroce_qp_state cur, const struct uroce_qp_attr *attr, uint32_t mask,
		    uint32_t max_mtu, const char **why);

/**
 * [engine] Modify a QP.
 * @param path  With UROCE_QP_AV: the resolved path; else NULL.
 * @return 0, EINVAL (qp_modify_check(); max_rd_atomic 0 with requests in flight; SQE to RTS, but the CQ had no room for
 * the flushed WQEs, and the QP is in ERR) or ENOMEM.
 */
int qp_modify(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask,
	      const struct tp_path *path, uint64_t now_ns);
/**
 * [engine] As qp_modify(), with an alternate path.
 * @param alt  With UROCE_QP_ALT_PATH: the resolved path, on the same port as the first and loopback if that is; else
 * NULL.
 * @return as qp_modify(); also EINVAL for a path_mig_state that the QP can't change to.
 */
int qp_modify_paths(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask,
		    const struct tp_path *path, const struct tp_path *alt, uint64_t now_ns);

/** [engine] Fill in every field of ibv_query_qp(). */
void qp_query(const struct qp *qp, struct uroce_qp_attr *attr);

/**
 * [engine] Remove a QP from all tables and lists and free it. Other engines may hold a pointer to it until their next
 * quiescent state; the memory is freed after that.
 */
void qp_destroy(struct transport *tp, struct qp *qp);

/** [engine] qp_doorbell() comes soon, for others before: if the transport has many QPs, fetch this one from memory. */
void qp_doorbell_soon(const struct transport *tp, const struct qp *qp);
/** [engine] The client rang the doorbell: look at the SQ, and at the RQ if the QP flushes. */
void qp_doorbell(struct transport *tp, struct qp *qp);
/**
 * [engine] Build now what the client has posted to a QP, or flush it, instead of in the QP's turn: an AH that it needs is about to be destroyed,
 * the QP is about to go to ERR, or the client asks how full its CQ is. It ends where a turn would: when the share has used up its deficit while others want turns, at the
 * share's rate, and when there is no room for more packets. They leave with the engine's next turn.
 * @param budget  Packets or WQEs that may be built or flushed; what was done is subtracted.
 */
void qp_work_posted(struct transport *tp, struct qp *qp, uint32_t *budget, uint64_t now_ns);
/** [engine] @return number of the send WQE that a QP executes next, for qp_posted_left(). */
uint32_t qp_posted_next(const struct qp *qp);
/**
 * [engine] @return false: all that had been posted then has been sent, because the SQ is empty or as many WQEs as it holds have been sent since, or the QP
 * doesn't send in its state.
 * @param next  What qp_posted_next() was then.
 */
bool qp_posted_left(const struct qp *qp, uint32_t next);

uint32_t qp_num(const struct qp *qp);
/** [any thread that keeps @p qp from being destroyed] @return owner and cookie, as given at creation. */
void *qp_owner(const struct qp *qp);
uint64_t qp_cookie(const struct qp *qp);
/** [the engine that owns it, or a thread that keeps it from moving] The number of the transport that owns it; see qp_engine_now(). */
unsigned int qp_engine(const struct qp *qp);
enum uroce_qp_state qp_state(const struct qp *qp);
/** @return "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR". */
const char *qp_state_name(enum uroce_qp_state s);

#endif /* UROCE_TRANSPORT_H */
