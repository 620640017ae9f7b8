/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/cm share. Called by lib/cm only, on the owner's thread.
 *
 * Call structure, from the top: cm.c has the instance and dispatches messages and timers; end.c ends connections whose
 * timer has expired or whose owner has left; stale.c asks a peer whether it still knows a connection; passive.c and active.c are the two ends of connection establishment;
 * sidr.c SIDR; lap.c LAP and APR; mra.c MRA; listen.c listeners; disconnect.c DREQ and DREP; reject.c REJ in both
 * directions; conn.c states, sending and timers of a connection; table.c IDs, keys and limits; core.c sending and
 * events; mad.c the formats.
 *
 * Events: a handler fills in a struct cm_event and returns. Its caller delivers the event as the very last step,
 * because the owner may destroy the connection in the callback.
 */
#ifndef UROCE_CM_PRIV_H
#define UROCE_CM_PRIV_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container_of.h"
#include "base/gen_table.h"
#include "base/wheel.h"
#include "cm/cm.h"

/**
 * Repetitions are at least this far apart, whatever a peer's REQ asks for, so that one REQ doesn't cause a burst of
 * REPs.
 */
#define CM_MIN_INTERVAL_NS UINT64_C(16000000)
/** A peer that may have forgotten a connection is asked so often, and has so long for each answer; and not again for a while. */
#define CM_PROBES 3
#define CM_PROBE_NS UINT64_C(1000000000)
#define CM_PROBE_GAP_NS UINT64_C(5000000000)
#define CM_MAX_PACKET_LIFE 20
#define CM_MAX_MTU_CODE 5
#define CM_MIN_QPN 2
#define CM_QPN_MASK 0xffffffu

/* ---- One hash table for everything that is looked up ---- */
enum cm_key_kind {
	CM_KEY_REQ = 1,  /**< remote GID, CA GUID, communication ID: a REQ received before */
	CM_KEY_QPN,      /**< remote GID, CA GUID, QPN: a QP we are connected to */
	CM_KEY_SIDR,     /**< remote GID, service ID, request ID of a SIDR_REQ */
	CM_KEY_PEER2PEER, /**< remote GID, service ID: a peer-to-peer REQ of ours */
	CM_KEY_LISTEN,   /**< local GID or zeros, service ID, scope */
	CM_KEY_PEER,     /**< remote GID */
};
struct cm_key {
	struct gid gid;
	uint64_t num;
	uint32_t id;
	uint32_t kind;
};
struct cm_node {
	struct cm_node *next, **pprev; /**< pprev NULL: not in the table */
	struct cm_key key;
};

/** Counts the connections that one address has opened to us. */
struct cm_peer {
	struct cm_node node;
	uint32_t conns;
};

struct cm_list {
	struct cm_list *next, *prev;
};

struct cm_listener {
	struct cm_node node;
	struct cm_list all;     /**< in cm->listeners */
	struct cm_list pending; /**< requests waiting for the owner */
	uint32_t nb_pending, backlog;
	void *owner;
};

struct cm_conn {
	struct wheel_entry timer;
	struct cm *cm;
	enum cm_state state;
	bool passive;        /**< the other end sent the REQ or SIDR_REQ */
	bool orphan;         /**< the owner has destroyed it; freed when it becomes IDLE */
	bool peer_to_peer;
	bool xrc;
	bool alternate;      /**< the REQ had an alternate path */
	bool counted;        /**< counted in cm->nb_half_open */
	bool lap_pending;    /**< the owner has not answered the LAP with this tid yet */
	bool probing;        /**< ESTABLISHED: the peer has been asked whether it still knows the connection */
	uint8_t retries_left, max_retries;
	uint32_t local_id, remote_id;
	uint32_t qpn, remote_qpn;
	uint64_t service_id; /**< of our own request, or of a SIDR request to be answered */
	uint64_t ca_guid, remote_guid;
	uint64_t tid;        /**< of the request to be answered */
	uint64_t interval_ns, life_ns, timewait_ns, kept_ns;
	uint64_t probed_ns;  /**< when the last probe began; 0: never */
	struct cm_listener *listener; /**< while it is in the listener's pending list */
	struct cm_peer *peer;         /**< the peer that counts it */
	struct cm_list pending, kept;
	struct cm_node by_request, by_qpn;
	struct cm_av av;
	void *owner;
	uint8_t out[CM_MAD_BYTES];    /**< the last MAD, which may have to be sent again */
};

struct cm_table {
	struct cm_node **buckets;
	uint64_t mask;
	uint64_t secret[2];
};

struct cm {
	struct cm_config cfg;
	struct cm_counters counters;
	struct wheel wheel;
	struct cm_table table;
	uint32_t nb_half_open, nb_kept, nb_listeners, nb_peers, nb_timers;
	uint32_t id_key, tid_hi;
	struct cm_list kept;       /**< oldest first */
	struct cm_list listeners;
	struct gen_table ids;      /**< connections */
};

#define CM_COUNT(cm, name) ((cm)->counters.name++)

static inline void
cm_list_init(struct cm_list *l)
{
	l->next = l->prev = l;
}
static inline void
cm_list_append(struct cm_list *head, struct cm_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}
static inline void
cm_list_del(struct cm_list *l)
{
	l->next->prev = l->prev;
	l->prev->next = l->next;
}
static inline bool
cm_list_empty(const struct cm_list *l)
{
	return l->next == l;
}

/** For functions that return NULL with errno set. */
static inline void *
cm_null(int err)
{
	errno = err;
	return NULL;
}

static inline uint8_t
cm_at_most(uint8_t v, uint8_t max)
{
	return v < max ? v : max;
}

/* ---- table.c ---- */
struct cm_key cm_key(enum cm_key_kind kind, const struct gid *gid, uint64_t num, uint32_t id);
int table_init(struct cm *cm);
void table_free(struct cm *cm);
/** @return the first node with @p key, or NULL. Several may have the same CM_KEY_PEER2PEER. */
struct cm_node *table_find(const struct cm *cm, const struct cm_key *key);
void table_add(struct cm *cm, struct cm_node *n, const struct cm_key *key);
/** May be called for a node that isn't in the table. */
void table_del(struct cm_node *n);
/** Give @p c an ID. @return false if none is free. */
bool id_take(struct cm *cm, struct cm_conn *c);
void id_release(struct cm *cm, struct cm_conn *c);
/** @return the connection whose ID is @p local_id, or NULL. */
struct cm_conn *id_find(const struct cm *cm, uint32_t local_id);
/** Count @p c for its peer. @return 0, EDQUOT (limit), ENOMEM. */
int peer_take(struct cm *cm, struct cm_conn *c);
void peer_release(struct cm_conn *c);

/* ---- conn.c ---- */
/** Create a connection: IDLE, active, without keys. @return NULL with errno set (ENOSPC, ENOMEM). */
struct cm_conn *conn_new(struct cm *cm, const struct cm_av *av);
/** @return the connection that a message with these IDs is about; NULL (counted) if there is none with this sender. */
struct cm_conn *conn_find(struct cm *cm, const struct cm_av *av, uint32_t local_id, uint32_t remote_id);
/** Change the state; the change is checked against the table of legal ones. IDLE releases everything except the ID. */
void conn_set_state(struct cm_conn *c, enum cm_state s);
/** Count the connection among those that aren't established yet, or no longer, as its state demands. */
void conn_count(struct cm_conn *c);
/** Free an orphan that has become IDLE. @return true if it was freed. */
bool conn_reap(struct cm_conn *c);
void conn_free(struct cm_conn *c);
void conn_enter_timewait(struct cm_conn *c, uint64_t now_ns);
void conn_timer(struct cm_conn *c, uint64_t expiry_ns);
void conn_timer_stop(struct cm_conn *c);
/** Record the peer's QP. */
void conn_set_remote_qpn(struct cm_conn *c, uint64_t ca_guid, uint32_t qpn);
/** @return another connection with the same QP of @p av's peer, or NULL. */
struct cm_conn *conn_stale(const struct cm *cm, const struct cm_av *av, uint64_t ca_guid, uint32_t qpn);
/** Encode @p m into c->out and send it. */
void conn_send(struct cm_conn *c, const struct cm_msg *m);
/** Send c->out again. */
void conn_resend(struct cm_conn *c);
/** As conn_send(), and repeat the message until it is answered. */
void conn_send_reliably(struct cm_conn *c, const struct cm_msg *m, uint64_t now_ns);
/** @return the attribute of the message in c->out. */
uint16_t conn_out_attr(const struct cm_conn *c);
/** @return the tid for a request of our own. */
uint64_t conn_own_tid(const struct cm_conn *c);
/** Add a destroyed connection that exists only to repeat its answer to the bounded list of kept answers. */
void conn_keep(struct cm_conn *c);
/** Drop the oldest kept answer. @return false if there is none. */
bool conn_evict(struct cm *cm);
/** Deliver @p ev if there is one. */
void cm_event_deliver(struct cm *cm, const struct cm_event *ev);

/* ---- stale.c ---- */
/** A message from the peer of @p old names the QP of this connection for a new one. */
void stale_conn(struct cm_conn *old, uint64_t now_ns);
/** The peer has answered: it still knows the connection. @return false: it was not asked. */
bool stale_answered(struct cm_conn *c);
/** Ask no more. */
void stale_stop(struct cm_conn *c);
/** A probe has got no answer in time. */
void stale_expired(struct cm_conn *c, uint64_t now_ns);

/* ---- end.c ---- */
/** The timer of @p c has expired. */
void conn_expired(struct cm_conn *c, uint64_t now_ns, struct cm_event *ev);

/* ---- core.c ---- */
void cm_send(struct cm *cm, const struct cm_av *av, const uint8_t *mad);
void cm_send_msg(struct cm *cm, const struct cm_av *av, const struct cm_msg *m);
/** Fill in an event of @p c. */
void cm_event_set(struct cm_event *ev, enum cm_event_type type, struct cm_conn *c);
/** As cm_event_set(), for an event caused by message @p m from @p way. */
void cm_event_set_msg(struct cm_event *ev, enum cm_event_type type, struct cm_conn *c, const struct cm_av *way,
		      const struct cm_msg *m);
/** @return false if @p p is longer than @p room, or has a length but no data. */
bool cm_private_ok(const struct cm_private *p, uint32_t room);
void cm_private_put(const struct cm_private *p, uint8_t *to);

/* ---- listen.c ---- */
/** @return the listener for a request with this private data, or NULL. @param av  How it came. */
struct cm_listener *listener_find(const struct cm *cm, uint64_t service_id, const struct cm_av *av, const uint8_t *private_data, uint32_t len_bytes);
/** @return a new connection in the pending list of @p l; NULL: a limit is reached (counted). */
struct cm_conn *listener_admit(struct cm *cm, struct cm_listener *l, const struct cm_av *av);
/** @return true if the service ID requires no IP header, or @p private_data begins with one. */
bool request_ip_hdr_ok(uint64_t service_id, const uint8_t *private_data, uint32_t len_bytes);

/* ---- reject.c ---- */
/** Refuse a message without creating a connection. */
void reject_stateless(struct cm *cm, const struct cm_av *av, uint64_t tid, struct cm_rej *rej);
/** Send a REJ for the last request or response of @p c, and remember it. */
void reject_send(struct cm_conn *c, enum cm_msg_of of, uint16_t reason, const struct cm_private *ari,
		 const struct cm_private *private_data);
/** Tell the peer that we have given up: REJ(timeout) with our CA GUID, by which the peer finds the REQ (12.6.7.2). */
void reject_send_timeout(struct cm_conn *c);
/** The common part of cm_reject() and cm_destroy(). */
void reject_and_end(struct cm_conn *c, uint16_t reason, const struct cm_private *ari,
		    const struct cm_private *private_data, uint64_t now_ns);

/* ---- disconnect.c ---- */
void disconnect_send_dreq(struct cm_conn *c, const struct cm_private *private_data, uint64_t now_ns);
void disconnect_send_drep(struct cm_conn *c, const struct cm_private *private_data);

/* ---- sidr.c ---- */
void sidr_send_reply(struct cm_conn *c, const struct cm_sidr_reply_param *p, uint64_t now_ns);

/* ---- Handlers of messages: fill in ev if the owner has to be told of something ---- */
typedef void cm_handler(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns,
			struct cm_event *ev);
cm_handler handle_req, handle_rep, handle_rtu, handle_rej, handle_mra, handle_dreq, handle_drep, handle_lap, handle_apr,
	handle_sidr_req, handle_sidr_rep;

#endif /* UROCE_CM_PRIV_H */
