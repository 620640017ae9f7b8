/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Connection management by IP address: the daemon's side of librdmacm's ids (ctl_cm.h), on top of lib/cm.
 *
 * Owns: struct cma, one per daemon: the port spaces; struct cma_session, one per session that is an event channel: its
 * socket, the events in it and those that wait for room in it; struct cma_id: addresses, negotiated parameters, and the
 * listener or connection of lib/cm that the id uses. Called by: the handlers of requests, gsi.c, control.c, events.c,
 * session_end.c. Thread: control.
 *
 * An id goes through IDLE, BOUND, RESOLVING, RESOLVED, ROUTED, CONNECTION; or IDLE, BOUND, LISTENING; or it is created
 * in CONNECTION when a connection request arrives. Within CONNECTION the state is that of lib/cm's connection, which
 * also refuses calls in the wrong order.
 */
#ifndef UROCE_CONTROL_CMA_PRIV_H
#define UROCE_CONTROL_CMA_PRIV_H

#include <sys/queue.h>

#include "cm/cm.h"
#include "control/obj/object_priv.h"

enum {
	CMA_EPHEMERAL_FIRST = 32768, /**< port numbers for ids that ask for any; as Linux's ip_local_port_range */
	CMA_EPHEMERAL_LAST = 60999,
	CMA_BIND_BUCKETS = 1024,
	CMA_PACKET_LIFE = 18,        /**< encoded as 4.096 us * 2^n; the value of Linux's RDMA CM (core/cma.c) */
	CMA_RESPONSE_TIMEOUT = 20,
	CMA_RETRIES = 15,
	CMA_HOP_LIMIT = 64,
	CMA_SIDR_RETRIES = 15,
	CMA_TARGET_ACK_DELAY = 15,   /**< encoded; what the device reports as local_ca_ack_delay */
	CMA_QPN_MASK = 0xffffff,
	/*
	 * lib/net resolves up to NET_NEIGH_PENDING_MAX addresses at a time. When most of that is in use, a session with
	 * more than its share may start no further resolution.
	 */
	CMA_RESOLVING_CROWD = NET_NEIGH_PENDING_MAX * 3 / 4,
	CMA_RESOLVING_SHARE = NET_NEIGH_PENDING_MAX / 16,
};

enum cma_state { CMA_IDLE, CMA_BOUND, CMA_RESOLVING, CMA_RESOLVED, CMA_ROUTED, CMA_LISTENING, CMA_CONNECTION };

/** The ids that are bound to one port number of one port space. */
struct cma_bind {
	LIST_ENTRY(cma_bind) link;
	uint32_t ps;
	uint16_t port;
	LIST_HEAD(, cma_id) ids;
};

TAILQ_HEAD(cma_events, cma_kept);

struct cma_group {
	struct obj obj;
	LIST_ENTRY(cma_group) link;
	struct cma_id *id;
	struct gid mgid;
};

/** An alternate path that the peer proposed in a LAP, while its MAC address is being resolved. */
struct cma_lap {
	bool resolving;
	uint8_t timeout;
	struct uroce_ah_attr ah;
};

struct cma_id {
	struct obj obj;
	struct session *session;
	enum cma_state state;
	uint32_t ps;
	uint8_t qp_type;      /**< enum uroce_qp_type */
	struct ctl_cm_addr local, remote; /**< as programs are told: packets go from cma_own_gid() to cma_peer_gid() */
	struct net_port *port; /**< NULL: not bound, or bound to the wildcard address */
	uint8_t sgid_index;
	uint8_t mac[6];        /**< of the next hop to the peer; valid once resolved */
	bool reuse, af_only;
	bool ack_timeout_set;
	uint8_t tos, ack_timeout;
	uint32_t flow_label;
	uint64_t deadline_ns;  /**< RESOLVING: when to give up */
	TAILQ_ENTRY(cma_id) resolving;
	struct cma_bind *bind;
	LIST_ENTRY(cma_id) bind_link;
	struct cma_events events; /**< its own events, and those of connection requests to it, that may be unread */
	LIST_HEAD(, cma_group) groups;

	struct cm_listener *listener;
	LIST_HEAD(, cma_id) requests; /**< listener: the ids created for connection requests to it */
	uint32_t nb_requests;         /**< number of requests so far */
	struct cma_id *asked;         /**< id of a request: its listener, while that exists */
	LIST_ENTRY(cma_id) asked_link;
	uint32_t request_no;          /**< number of the request at its listener */
	struct cma_kept *brought_by;  /**< id of a request: the event that announced it, while that may be unread */
	struct cm_conn *conn;
	bool passive;
	bool answered;         /**< passive side: accepted; active side: the REP has arrived */
	bool disconnected;     /**< the disconnect event was sent to the program */
	uint32_t qpn, remote_qpn, remote_qkey;
	uint32_t rq_psn, sq_psn; /**< first PSN of the peer, which we choose, and ours, which the peer chooses (12.6.5) */
	uint8_t responder_resources, initiator_depth; /**< this end's */
	uint8_t retry_count, rnr_retry_count;
	uint8_t path_mtu;      /**< UROCE_MTU_* */
	uint8_t timeout;       /**< local ACK timeout, encoded */
	struct cma_lap lap;
};

/** An event that the program may not have read yet. If its id moves to another channel, the event moves along. */
struct cma_kept {
	struct cma_session *in;        /**< the session with the event; the old one while the id is moving */
	TAILQ_ENTRY(cma_kept) link;    /**< in `sent` or `queue` of that session */
	TAILQ_ENTRY(cma_kept) id_link;
	struct cma_id *id;             /**< the id that has it in `events`; NULL: destroyed, or moved */
	struct cma_id *request;        /**< CONNECT_REQUEST: the new id */
	bool sent;                     /**< it is in the socket, or was read */
	struct saved *saved;
	uint32_t bytes;
	uint8_t event[];               /**< the first bytes of struct ctl_cm_event; the rest is zero */
};

struct cma_session {
	struct watch sock;     /**< sending end of the event socket; in epoll while events wait for room */
	int record_cost;       /**< bytes that the kernel counts for an unread event */
	struct session *session;
	uint64_t token;
	struct cma_events sent;  /**< sent and not known to have been read; oldest first */
	struct cma_events queue; /**< waiting for room in the socket */
	uint32_t nb_sent, nb_queued;
	uint32_t last_event;   /**< number of the last event */
	struct saved *saved;
	uint32_t nb_resolving; /**< ids of this session that are resolving */
	bool watching;
};

struct cma {
	struct control *control;
	struct cm *cm;
	LIST_HEAD(, cma_bind) binds[CMA_BIND_BUCKETS];
	TAILQ_HEAD(, cma_id) resolving;
	uint32_t nb_resolving;
};

/** @param cm  The daemon's connection manager; its events go to cma_cm_event(). @return NULL: no memory. */
struct cma *cma_create(struct control *c, struct cm *cm);
/** Free it; no session may have ids any more. NULL is ignored. */
void cma_destroy(struct cma *cma);
/** Let address resolutions time out that take too long. @return when to call again at the latest. */
uint64_t cma_poll(struct cma *cma, uint64_t now_ns);
/** The connection manager's cm_ops.event. */
void cma_cm_event(struct cma *cma, const struct cm_event *ev);
/** @return true if the QP of @p id is in the state ERR. */
bool cma_qp_failed(struct cma *cma, const struct cma_id *id);
/** The session ends: end its ids, telling their peers, and close its socket. */
void cma_session_end(struct session *s);

/* ---- Requests: ctl_cm.h ---- */
op_fn op_cm_open, op_cm_create_id, op_cm_destroy_id, op_cm_bind, op_cm_resolve_addr, op_cm_resolve_route,
	op_cm_query, op_cm_listen, op_cm_connect, op_cm_accept, op_cm_reject, op_cm_establish, op_cm_disconnect,
	op_cm_qp_attr, op_cm_set_option, op_cm_join, op_cm_leave, op_cm_migrate, op_cm_accept_qp, op_cm_disconnect_qp;

/* ---- id.c: a leaf of cma ---- */
/**
 * Create an id of @p s.
 * @param r  Fails if there is no new id; may be NULL.
 * @return the id, or NULL with *@p rc set: too many ids, or no memory.
 */
struct cma_id *cma_id_new(struct session *s, uint32_t ps, uint8_t qp_type, struct request *r, int *rc);
/** The same, under a handle that the id had in the daemon before. */
struct cma_id *cma_id_new_as(struct session *s, uint32_t ps, uint8_t qp_type, uint32_t handle, struct request *r, int *rc);
/** @return the id of @p handle, or NULL, with @p r failed. */
struct cma_id *cma_id_get(struct session *s, uint32_t handle, struct request *r);
/** Record that @p id was created for a connection request to @p listener. */
void cma_id_asks(struct cma_id *id, struct cma_id *listener);
/** The same for an id whose number at its listener is known. */
void cma_id_asked(struct cma_id *id, struct cma_id *listener);
/** Undo that: make @p id independent of its listener. */
void cma_id_forget_listener(struct cma_id *id);
/** Move @p id to session @p to: it gets a handle there, and its events go there from now on. @return 0 or ENOMEM. */
int cma_id_move(struct cma_id *id, struct session *to);
void cma_id_info(const struct cma_id *id, struct ctl_cm_id_info *info);
/** Choose the PSN that the peer starts with. @return 0, or EIO, with @p r failed. */
int cma_id_start_psn(struct cma_id *id, struct request *r);
static inline bool
cma_is_ud(const struct cma_id *id)
{
	return id->qp_type == UROCE_QPT_UD;
}
/** @return the port that has @p gid, with the index in *@p sgid_index, or NULL. */
struct net_port *cma_port_of(struct control *c, const struct gid *gid, uint8_t *sgid_index);
/** Fill in the address vector for packets from @p id to @p dgid. */
void cma_av(const struct cma_id *id, const struct gid *dgid, struct uroce_ah_attr *av);

/** @return the address from which packets of @p id go: its own one, or for a loopback address the port's. */
const struct gid *cma_own_gid(const struct cma_id *id);
/** @return the address to which they go. */
const struct gid *cma_peer_gid(const struct cma_id *id);

/* ---- bind.c ---- */
/** @return true if @p a has a valid address family and is an address of it, or the wildcard. */
bool cma_addr_ok(const struct ctl_cm_addr *a);
bool cma_addr_loopback(const struct ctl_cm_addr *a);
/** Bind @p id to @p addr; port 0: any free one. @return 0 or an errno value, with @p r failed. */
int cma_bind_id(struct cma_id *id, const struct ctl_cm_addr *addr, struct request *r);
/** Take the port number of @p id, which had it in the daemon before. @return 0 or ENOMEM. */
int cma_bind_take(struct cma_id *id);
/** Release the port number of @p id. */
void cma_unbind(struct cma_id *id);
/** @return 0, or an errno value if another id with the same port (both allow reuse) is listening, so that it would lose requests to @p id. */
int cma_may_listen(const struct cma_id *id);

/* ---- event.c ---- */
/** Send an event of @p id that carries only @p status. */
void cma_event(struct cma_id *id, enum ctl_cm_event_type type, int32_t status);
/**
 * Send event @p ev of @p id on the socket of its session, or queue it if other events wait for room.
 * @param request  The new id that a CONNECT_REQUEST announces, or NULL.
 */
void cma_event_send(struct cma_id *id, const struct ctl_cm_event *ev, struct cma_id *request);
/** Drop the queued events of @p id, which is being destroyed. */
void cma_event_forget(struct cma_id *id);
/** @return an upper bound of the number of request ids that move with @p id. */
uint32_t cma_event_requests(const struct cma_id *id);
/** The program has read the event that announced @p id. From now on @p id doesn't move with its listener. */
void cma_event_known(struct cma_id *id);
/**
 * @p id has moved from @p from: send its events that are unread there to the new session, and move the ids of its
 * requests.
 */
void cma_event_move(struct cma_id *id, struct session *from);
/** @return false if so many events wait that no new connection request may be accepted. */
bool cma_event_room(const struct session *s);
/** Check cma_event_room() for a request that will cause another event. @return 0, or EAGAIN, with @p r failed. */
int cma_event_want_room(const struct session *s, struct request *r);
/** Close the socket and drop the events of a session that has no ids left. */
void cma_channel_end(struct session *s);

/** Go on with the events of a channel of the daemon before, on @p fd, our end of its socket. @return 0 or an errno value, with @p r failed. */
int cma_channel_take(struct session *s, int fd, int record_cost, uint64_t token, struct request *r);
/** Note an event that was sent already, or queue it, as it was in the daemon before. @param id  NULL: destroyed. @return 0 or ENOMEM. */
int cma_event_take(struct session *s, struct cma_id *id, struct cma_id *request, bool sent, const void *event, uint32_t bytes);

/* ---- record.c ---- */
/** [engines stopped] Hand-over: the event channel of a session, its ids and their connections. @return 0 or ENOMEM. */
int cma_save(struct session *s, struct stream_out *o);
obj_restore_fn cma_restore;
/** The parts of it; a listener and another id write nothing of each other. */
obj_save_fn cma_channel_save, cma_listener_save, cma_id_save, cma_event_save;

/* ---- resolve.c ---- */
/** Begin to resolve the address of an id that has its ends, or go on with it. */
void cma_resolve_begin(struct cma_id *id, uint64_t now_ns);
/** Stop resolving an address for @p id, if it does. */
void cma_resolve_stop(struct cma_id *id);

/* ---- qp_attr.c ---- */
/**
 * @param qp  Receives the QP of this number, if there is one.
 * @return its session, which is another one of the process of @p id; NULL: there is none, or the QP is an XRC target.
 */
struct session *cma_qp_session(const struct cma_id *id, uint32_t qpn, const struct qp **qp);

/* ---- lap.c ---- */
/** Handle a LAP: load the proposed path and answer, now or when its MAC address is resolved. */
void cma_lap(struct cma_id *id, const struct cm_lap *m);
void cma_lap_stop(struct cma_id *id);

/* ---- group.c ---- */
void cma_group_free(struct cma_group *g);

/* ---- conn.c ---- */
/** Have @p id, which is bound, listen. @return 0 or an errno value. */
int cma_listen(struct cma_id *id, uint32_t backlog);

/* ---- cma.c ---- */
/** The device of @p port has gone: ids that are bound to one of its addresses get RDMA_CM_EVENT_DEVICE_REMOVAL. */
void cma_device_gone(struct control *c, const struct net_port *port);
/** End the listener or connection that @p id uses, and free @p id. */
void cma_id_free(struct cma_id *id);

#endif /* UROCE_CONTROL_CMA_PRIV_H */
