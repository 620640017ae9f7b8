/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The IB connection manager: establishes and ends connections between QPs (IBTA volume 1, chapter 12).
 *
 * It does no I/O and knows no sockets, threads, ports or clock. MADs come in as bytes with their addresses, go out
 * through a callback, and the time is an argument of everything that sends or waits.
 *
 * Owns: listeners, connections, their communication IDs, timers, and the answers kept for repeated MADs. It doesn't own
 * QPs: its user, the owner, changes their states as the events demand. Called by: the owner, on one thread (a daemon's
 * control thread), which receives the GSI's packets and sends what cm_ops.send passes to it.
 *
 * NOTES on ownership and calls
 *  - A struct cm_conn belongs to the owner from cm_connect(), cm_sidr_request() or the event that announced it (REQUEST,
 *    SIDR_REQUEST) until cm_destroy(), whatever happens to it in between; no event takes it away. cm_destroy() ends it in
 *    an orderly way in any state: a connected peer gets a DREQ, repeated until it is answered, a peer that waits for an
 *    answer gets a REJ. Its ID stays in use until TimeWait is over, without further events.
 *  - The event callback is the last thing that a call into the CM does. So the callback may call any function of the CM
 *    except cm_close(), even cm_destroy() for the event's connection. What an event points to is invalid when the callback
 *    returns.
 *  - The send callback must not call the CM. It may drop a MAD that it can't send: any MAD may be lost anyway.
 *  - The number of a QP that was in a connection should not be used for another connection before CM_EV_TIMEWAIT_EXIT
 *    (12.4): packets of the old connection may still be in flight.
 *  - Memory and traffic are bounded: there are at most cm_config.max_conns connections in any state, and each is one
 *    allocation. A received MAD causes at most one other MAD, of the same size, to its sender; and a second one, a REP or a DREQ, if
 *    it may show that a connection with its sender is stale (stale.c).
 */
#ifndef UROCE_CM_H
#define UROCE_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "base/secret.h"
#include "cm/mad.h"

struct cm;
struct cm_listener;
struct cm_conn;

/* ---- Limits and defaults ---- */
enum {
	CM_MAX_CONNS_LIMIT = 1 << 20,      /**< the largest max_conns */
	CM_DEFAULT_MAX_CONNS = 65536,
	CM_DEFAULT_MAX_LISTENERS = 4096,
	CM_DEFAULT_MAX_PER_PEER = 8192,    /**< connections that one remote address has opened to us */
	CM_DEFAULT_MAX_HALF_OPEN = 16384,  /**< connections opened by others that are not established yet */
	CM_DEFAULT_MAX_KEPT = 4096,        /**< answers kept to repeat them: rejections and SIDR_REPs */
	CM_MAX_BACKLOG = 16384,
	CM_DEFAULT_RETRIES = 15,
	CM_DEFAULT_RESPONSE_TIMEOUT = 20,  /**< 4.3 s, as in Linux's RDMA CM */
	CM_DEFAULT_PACKET_LIFE = 18,
	/*
	 * Limits for what a peer may ask for. Larger values are reduced, or one MAD could hold a connection for hours.
	 */
	CM_MAX_RESPONSE_TIMEOUT = 22,      /**< 17 s */
	CM_MAX_SERVICE_TIMEOUT = 24,       /**< of an MRA: 69 s, as Linux's RDMA CM asks for */
	CM_MIN_TIMEWAIT = 14,              /**< 67 ms */
	CM_MAX_TIMEWAIT = 21,              /**< 8.6 s */
};
/** How long the answer to a SIDR_REQ is kept to repeat it: longer than two retry intervals of Linux's RDMA CM. */
#define CM_SIDR_KEPT_NS UINT64_C(10000000000)

/* ---- States (12.9.7, and the names of Linux's ib_cm) ---- */
#define CM_STATES(X) \
	X(IDLE) X(REQ_SENT) X(REQ_RCVD) X(MRA_REQ_SENT) X(MRA_REQ_RCVD) X(REP_SENT) X(REP_RCVD) X(MRA_REP_SENT) \
	X(MRA_REP_RCVD) X(ESTABLISHED) X(DREQ_SENT) X(DREQ_RCVD) X(TIMEWAIT) X(SIDR_REQ_SENT) X(SIDR_REQ_RCVD) \
	X(SIDR_REP_SENT)
enum cm_state {
#define CM_X(name) CM_##name,
	CM_STATES(CM_X)
#undef CM_X
	CM_NB_STATES,
};
/** @return "REQ_SENT" ... */
const char *cm_state_name(enum cm_state s);

/*
 * ---- Counters ----
 * rx_mads, tx_mads: all MADs. Every MAD that is dropped without an answer is counted in one of rx_bad_length to
 * rx_duplicate:
 *   rx_bad_*, rx_other_class  the verdict of cm_mad_decode(), and REQs and REPs without a usable ID or QPN
 *   rx_unknown_id   there is no such connection, or not with this sender
 *   rx_wrong_state  not expected in the connection's state
 *   rx_wrong_qpn    DREQ for another QP than the connection's
 *   rx_peer_active  REQ of a peer-to-peer pair in which this end remains the active one
 *   rx_duplicate    a repetition that needs no answer
 * req_, rep_, dreq_, sidr_req_duplicate: repetitions, answered or not. retransmissions: MADs sent again, because of a
 * timer or a repetition. timeouts: requests given up. rej_*: requests refused, by reason: no_listener, backlog,
 * peer_limit, half_open_limit, table_full, no_memory, stale (connection), bad_request (can't be served), unknown_id (of a
 * REP), owner (cm_reject(), or cm_destroy() of a request). drep_unknown_id: DREQs for connections that don't exist.
 * apr_loaded, apr_refused, sidr_refused: LAPs accepted and refused, SIDR_REQs refused. kept_evicted: kept answers
 * dropped before their time. stale_*: peers asked whether they still know a connection, their answers, connections that
 * ended because the peer doesn't or our QP has failed.
 */
#define CM_COUNTERS(X) \
	X(rx_mads) X(tx_mads) \
	X(rx_bad_length) X(rx_bad_version) X(rx_other_class) X(rx_bad_method) X(rx_bad_attribute) X(rx_bad_field) \
	X(rx_unknown_id) X(rx_wrong_state) X(rx_wrong_qpn) X(rx_peer_active) X(rx_duplicate) \
	X(req_duplicate) X(rep_duplicate) X(dreq_duplicate) X(sidr_req_duplicate) \
	X(retransmissions) X(timeouts) \
	X(rej_no_listener) X(rej_backlog) X(rej_peer_limit) X(rej_half_open_limit) X(rej_table_full) X(rej_no_memory) \
	X(rej_stale) X(rej_bad_request) X(rej_unknown_id) X(rej_owner) X(drep_unknown_id) X(apr_loaded) X(apr_refused) \
	X(sidr_refused) X(stale_probes) X(stale_answered) X(stale_ended) X(kept_evicted) X(established) X(disconnected)
struct cm_counters {
#define CM_X(name) uint64_t name;
	CM_COUNTERS(CM_X)
#undef CM_X
};

/* ---- Addresses ---- */
/** Address vector of a MAD's sender or receiver. */
struct cm_av {
	struct gid local_gid, remote_gid;
	uint16_t port;          /**< the owner's number of the port */
	uint16_t pkey;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	bool resolved;          /**< remote_mac and vlan_tci are valid: an answer needs no address resolution */
	bool own;               /**< of a MAD that arrived: this host has sent it */
	uint8_t remote_mac[6];
	uint16_t vlan_tci;
};

/* ---- Events ---- */
#define CM_EVENTS(X) \
	X(REQUEST)         /* a REQ arrived for a listener or a peer-to-peer pair; accept or reject it */ \
	X(RESPONSE)        /* a REP arrived: move the QP to RTR and RTS, then cm_rtu(); or reject it */ \
	X(ESTABLISHED)     /* an RTU arrived, or cm_establish() was called (msg NULL) */ \
	X(MRA)             /* the peer needs more time */ \
	X(REJECTED)        /* the peer refused, or this end because of what the peer sent; see reason */ \
	X(UNREACHABLE)     /* no answer to REQ, REP or SIDR_REQ (failed_attr) after all repetitions */ \
	X(LAP)             /* the peer proposes an alternate path: load it or not, then cm_apr() */ \
	X(DISCONNECT)      /* the peer sent a DREQ: move the QP to ERR, then cm_disconnect() */ \
	X(DISCONNECTED)    /* our DREQ was answered, crossed the peer's DREQ, or got no answer (timed_out) */ \
	X(TIMEWAIT_EXIT)   /* the QP's number may be used again; the state is IDLE */ \
	X(SIDR_REQUEST)    /* a SIDR_REQ arrived for a listener; answer with cm_sidr_reply() */ \
	X(SIDR_RESPONSE)   /* a SIDR_REP arrived; the state is IDLE */
enum cm_event_type {
#define CM_X(name) CM_EV_##name,
	CM_EVENTS(CM_X)
#undef CM_X
	CM_NB_EVENTS,
};
/** @return "REQUEST" ... */
const char *cm_event_name(enum cm_event_type t);

struct cm_event {
	enum cm_event_type type;
	enum cm_state state;          /**< of the connection, after the event */
	struct cm_conn *conn;
	struct cm_listener *listener; /**< REQUEST, SIDR_REQUEST: the listener; NULL for a peer-to-peer REQUEST */
	void *owner;                  /**< the listener's owner if listener isn't NULL, else the connection's */
	const struct cm_msg *msg;     /**< the message that caused the event, or NULL */
	const struct cm_av *av;       /**< the sender of msg; NULL if msg is */
	uint16_t reason;              /**< REJECTED: enum cm_rej_reason */
	enum cm_attr failed_attr;     /**< UNREACHABLE */
	bool local;                   /**< REJECTED: this end refused */
	bool timed_out;               /**< DISCONNECTED */
};

struct cm_ops {
	/** Send @p mad (CM_MAD_BYTES) from QP 1 to QP 1 as @p av says. */
	void (*send)(void *arg, const struct cm_av *av, const uint8_t *mad);
	void (*event)(void *arg, const struct cm_event *ev);
	/**
	 * May be NULL. @return true if the QP of the established connection with this owner has failed or doesn't exist any more.
	 * Must not call the CM.
	 */
	bool (*qp_gone)(void *arg, void *owner);
};

/** A value of 0 selects the default. */
struct cm_config {
	uint32_t max_conns, max_listeners, max_per_peer, max_half_open, max_kept;
	struct secret secret;    /**< makes IDs and hashes unpredictable */
	struct cm_ops ops;
	void *arg;               /**< for ops */
};

/** @return NULL with errno set: EINVAL (a limit out of range, or an op is missing), ENOMEM. */
struct cm *cm_open(const struct cm_config *config, uint64_t now_ns);
/**
 * Drop everything at once, without sending anything and without events. All pointers obtained from @p cm become
 * invalid.
 */
void cm_close(struct cm *cm);
const struct cm_counters *cm_counters(const struct cm *cm);

/** What is in use now. */
struct cm_usage {
	uint32_t conns;      /**< all connections, including destroyed ones in TimeWait and kept answers */
	uint32_t half_open, kept, listeners, peers, timers;
};
void cm_usage(const struct cm *cm, struct cm_usage *u);

/** Handle a packet to QP 1 with a valid ICRC, P_Key and Q_Key. @p mad is its payload after the DETH, @p len bytes. */
void cm_rx(struct cm *cm, const struct cm_av *av, const uint8_t *mad, size_t len, uint64_t now_ns);
/** Handle expired timers. */
void cm_run(struct cm *cm, uint64_t now_ns);
/** @return when to call cm_run() next, at the latest; UINT64_MAX if no timer is running. */
uint64_t cm_next_timeout(const struct cm *cm);

/* ---- Listeners ---- */
enum cm_listen_scope {
	CM_LISTEN_GID,      /**< to one local GID; a loopback address: for programs of this host that ask for one */
	CM_LISTEN_ANY_IPV4, /**< to all IPv4-mapped local GIDs */
	CM_LISTEN_ANY_IPV6, /**< to all others */
	CM_LISTEN_ANY,      /**< to both kinds */
};
struct cm_listen_param {
	uint64_t service_id;
	enum cm_listen_scope scope;
	struct gid gid; /**< CM_LISTEN_GID */
	/**
	 * Limit of requests that wait for cm_accept(), cm_reject() or cm_sidr_reply(); 0: CM_MAX_BACKLOG, the maximum.
	 */
	uint32_t backlog;
	void *owner;
};
/**
 * A request goes to the most specific listener: one for its GID, one for its address family, or CM_LISTEN_ANY. One whose RDMA CM's header has a loopback
 * address goes to a listener for that first, if it comes from this host.
 * @return NULL with errno set: EADDRINUSE (same service ID and scope), ENOSPC (max_listeners), EINVAL, ENOMEM.
 */
struct cm_listener *cm_listen(struct cm *cm, const struct cm_listen_param *p);
/** Remove a listener. Connections that came through it remain. */
void cm_unlisten(struct cm *cm, struct cm_listener *l);

/* ---- Connections. Operations return 0 or an errno value; EINVAL: not in this state, or an argument out of range.
 * Private data is copied; data that is too long for the message is EINVAL, shorter data is padded with zeros. ---- */
struct cm_private {
	const void *data;
	uint32_t len_bytes;
};

struct cm_connect_param {
	struct cm_av av;                 /**< of the MADs and of the primary path */
	uint64_t service_id, ca_guid;
	uint32_t qpn, qkey, starting_psn;
	enum cm_transport transport;     /**< RC, UC, or EXTENDED for XRC (qpn is the sending QP's) */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	uint8_t path_mtu;                /**< 1 to 5 */
	uint8_t packet_life;             /**< encoded; with ack_timeout 0, one more than this is used */
	uint8_t ack_timeout;             /**< encoded */
	uint8_t remote_response_timeout, local_response_timeout; /**< encoded */
	uint8_t max_cm_retries;          /**< 0 to 15 repetitions */
	uint8_t packet_rate;
	bool flow_control, srq;
	bool peer_to_peer;               /**< the other end may connect to us at the same time (12.10.4) */
	struct cm_private private_data;
	void *owner;
};
/** Send a REQ. @return NULL with errno set: EINVAL, ENOSPC (max_conns), ENOMEM. */
struct cm_conn *cm_connect(struct cm *cm, const struct cm_connect_param *p, uint64_t now_ns);

struct cm_accept_param {
	uint64_t ca_guid;
	uint32_t qpn, qkey, starting_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay;        /**< encoded */
	uint8_t rnr_retry_count;
	bool flow_control, srq;
	struct cm_private private_data;
};
/** Answer a REQUEST with a REP. The QP must be in RTR by now, so that it accepts packets that precede the RTU. */
int cm_accept(struct cm_conn *c, const struct cm_accept_param *p, uint64_t now_ns);

/** Answer a RESPONSE with an RTU: the connection is established. */
int cm_rtu(struct cm_conn *c, struct cm_private private_data, uint64_t now_ns);

/**
 * Refuse a REQUEST or a RESPONSE, or withdraw a REP. (cm_destroy() withdraws a REQ.)
 * @param ari  Additional rejection information as the reason defines it, at most CM_ARI_BYTES.
 */
int cm_reject(struct cm_conn *c, uint16_t reason, struct cm_private ari, struct cm_private private_data,
	      uint64_t now_ns);

/** Ask the peer for @p service_timeout (encoded) more time to answer a REQUEST or a RESPONSE. */
int cm_mra(struct cm_conn *c, uint8_t service_timeout, struct cm_private private_data, uint64_t now_ns);

/**
 * A packet reached the QP before the RTU arrived (COMM_EST, 12.9.6): consider the connection established.
 * @return EISCONN if the RTU has arrived in the meantime.
 */
int cm_establish(struct cm_conn *c, uint64_t now_ns);

/** In ESTABLISHED: send a DREQ. After the event DISCONNECT: answer with a DREP. */
int cm_disconnect(struct cm_conn *c, struct cm_private private_data, uint64_t now_ns);

/**
 * Answer a LAP. Only the passive end gets LAPs (12.8.1); the active end refuses them itself.
 * @param status  enum cm_apr_status.
 * @param info  As the status defines it, at most CM_ARI_BYTES.
 */
int cm_apr(struct cm_conn *c, uint8_t status, struct cm_private info, struct cm_private private_data);

/** End @p c in any state (see NOTES). The pointer becomes invalid. */
void cm_destroy(struct cm_conn *c, uint64_t now_ns);

/** @return true if the peer has named its QP, and the connection hasn't ended. */
bool cm_conn_agreed(const struct cm_conn *c);
enum cm_state cm_conn_state(const struct cm_conn *c);
uint32_t cm_conn_local_id(const struct cm_conn *c);
uint32_t cm_conn_remote_id(const struct cm_conn *c);
/** @return the address to which its MADs are sent. */
const struct cm_av *cm_conn_av(const struct cm_conn *c);
void cm_conn_set_owner(struct cm_conn *c, void *owner);

/* ---- Service ID resolution (12.11): UD ---- */
struct cm_sidr_param {
	struct cm_av av;
	uint64_t service_id;
	uint64_t timeout_ns;     /**< time after which the request is repeated; at least 1 ms */
	uint8_t max_retries;
	struct cm_private private_data;
	void *owner;
};
/** Send a SIDR_REQ. @return NULL with errno set: EINVAL, ENOSPC, ENOMEM. */
struct cm_conn *cm_sidr_request(struct cm *cm, const struct cm_sidr_param *p, uint64_t now_ns);

struct cm_sidr_reply_param {
	enum cm_sidr_status status;
	uint32_t qpn, qkey;
	struct cm_private info, private_data;
};
/** Answer a SIDR_REQUEST. */
int cm_sidr_reply(struct cm_conn *c, const struct cm_sidr_reply_param *p, uint64_t now_ns);

/* ---- Records (base/record.h): the CM of another process goes on with a connection ---- */
enum { CM_CONN_RECORD_VERSION = 1 };
/** A connection. Where the owner's own references to it lead, the owner knows. */
struct cm_conn_record {
	struct record_head head;
	uint64_t service_id, ca_guid, remote_guid, tid;
	uint64_t interval_ns, life_ns, timewait_ns, kept_ns;
	uint64_t timer_ns;       /**< until it fires; UINT64_MAX: it doesn't run */
	uint64_t request_num;    /**< of the key of its request */
	uint32_t request_id, request_kind; /**< request_kind 0: it is in no table by its request */
	uint32_t local_id, remote_id, qpn, remote_qpn;
	struct gid local_gid, remote_gid;
	uint32_t flow_label;
	uint16_t port, pkey, vlan_tci;
	uint8_t traffic_class, hop_limit, resolved, remote_mac[6];
	uint8_t state, passive, peer_to_peer, xrc, alternate;
	uint8_t retries_left, max_retries;
	uint8_t has_peer;        /**< it is counted among those that its peer has opened */
	uint8_t pending;         /**< it waits for its owner's answer in the list of its listener */
	uint8_t by_qpn;          /**< the peer's QP is known */
	uint8_t out[CM_MAD_BYTES];
	uint8_t reserved[3];     /**< 0 */
};
static_assert(sizeof(struct cm_conn_record) == 440, "format");
/** Write down @p c. An owner's answer to a LAP, and a question whether the peer still knows the connection, are not in it. */
void cm_conn_save(const struct cm_conn *c, uint64_t now_ns, struct cm_conn_record *to);
/**
 * Go on with a connection under the same communication ID.
 * @param listener  In whose list of waiting requests it is, if it is in one; may be NULL.
 * @param nb_ports  The owner's number of ports.
 * @param why  Gets what was wrong, a static string that begins with the field's name.
 * @return NULL with errno set: EINVAL, EEXIST (the ID is in use), ENOMEM, EDQUOT (a limit).
 */
struct cm_conn *cm_conn_restore(struct cm *cm, const struct cm_conn_record *r, uint32_t room, struct cm_listener *listener, uint16_t nb_ports,
				void *owner, uint64_t now_ns, const char **why);
/** The part of transaction IDs that all requests of @p cm have in common, so that answers to those on their way are recognized. */
uint32_t cm_tid(const struct cm *cm);
void cm_set_tid(struct cm *cm, uint32_t tid);
/** @return the limit of requests that wait for the owner. */
uint32_t cm_listener_backlog(const struct cm_listener *l);
/** @return the listener in whose list of waiting requests @p c is, or NULL. */
struct cm_listener *cm_conn_listener(const struct cm_conn *c);

#endif /* UROCE_CM_H */
