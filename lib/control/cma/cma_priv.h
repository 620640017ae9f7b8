/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Connection management by IP address: what librdmacm's ids are in the daemon (ctl_cm.h), on top of lib/cm.
 *
 * Owns: struct cma, one per daemon: the port spaces; struct cma_session, one per session that is an event channel:
 * its pipe, the events in it and those that wait for room in it; struct cma_id: addresses, what was negotiated, the
 * listener or connection of lib/cm that it stands for. Called by: the handlers of requests, gsi.c, control.c,
 * events.c, session_end.c. Thread: control.
 *
 * An id goes IDLE, BOUND, RESOLVING, RESOLVED, ROUTED, CONNECTION; or IDLE, BOUND, LISTENING; or begins as CONNECTION when
 * a request comes. Inside CONNECTION the states are lib/cm's, which also refuses what is out of order.
 */
#ifndef UROCE_CONTROL_CMA_PRIV_H
#define UROCE_CONTROL_CMA_PRIV_H

#include <sys/queue.h>

#include "cm/cm.h"
#include "control/obj/object_priv.h"

enum {
	CMA_EPHEMERAL_FIRST = 32768, /**< port numbers for ids that ask for none; as Linux's ip_local_port_range */
	CMA_EPHEMERAL_LAST = 60999,
	CMA_BIND_BUCKETS = 1024,
	CMA_PACKET_LIFE = 18,        /**< code, as Linux's RDMA CM has it (core/cma.c) */
	CMA_RESPONSE_TIMEOUT = 20,
	CMA_RETRIES = 15,
	CMA_HOP_LIMIT = 64,
	CMA_UDP_QKEY = 0x01234567,   /**< of UD QPs that rdma_cm set up (rdma_cma.h) */
	CMA_SIDR_RETRIES = 15,
	CMA_TARGET_ACK_DELAY = 15,   /**< code, what the device says of itself (local_ca_ack_delay) */
	CMA_QPN_MASK = 0xffffff,
	/*
	 * lib/net asks for NET_NEIGH_PENDING_MAX addresses at a time. When most are in use, a session with more than
	 * its share gets no more.
	 */
	CMA_RESOLVING_CROWD = NET_NEIGH_PENDING_MAX * 3 / 4,
	CMA_RESOLVING_SHARE = NET_NEIGH_PENDING_MAX / 16,
};

enum cma_state { CMA_IDLE, CMA_BOUND, CMA_RESOLVING, CMA_RESOLVED, CMA_ROUTED, CMA_LISTENING, CMA_CONNECTION };

/** Ids with one port of one port space. */
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

/** An alternate path that the peer wants and whose MAC address is being asked for. */
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
	struct ctl_cm_addr local, remote;
	struct net_port *port; /**< NULL: a wildcard, or not bound */
	uint8_t sgid_index;
	uint8_t mac[6];        /**< of the next hop to the peer, once it is resolved */
	bool reuse, af_only;
	bool ack_timeout_set;
	uint8_t tos, ack_timeout;
	uint32_t flow_label;
	uint64_t deadline_ns;  /**< RESOLVING */
	TAILQ_ENTRY(cma_id) resolving;
	struct cma_bind *bind;
	LIST_ENTRY(cma_id) bind_link;
	struct cma_events events; /**< its own, and those of requests to it, that may be unread */
	LIST_HEAD(, cma_group) groups;

	struct cm_listener *listener;
	LIST_HEAD(, cma_id) requests; /**< ids made for requests to this listener */
	uint32_t nb_requests;         /**< so far */
	struct cma_id *asked;         /**< a request: its listener, while that lives */
	LIST_ENTRY(cma_id) asked_link;
	uint32_t request_no;          /**< counts its listener's requests */
	struct cma_kept *brought_by;  /**< a request: the listener's event that brought it, while that may be unread */
	struct cm_conn *conn;
	bool passive;
	bool answered;         /**< passive: accepted; active: the REP is in */
	bool disconnected;     /**< the event was sent to the program */
	uint32_t qpn, remote_qpn, remote_qkey;
	uint32_t rq_psn, sq_psn; /**< first PSN of the peer, which we choose, and ours, which it chooses (12.6.5) */
	uint8_t responder_resources, initiator_depth; /**< this end's */
	uint8_t retry_count, rnr_retry_count;
	uint8_t path_mtu;      /**< UROCE_MTU_* */
	uint8_t timeout;       /**< local ACK timeout, code */
	struct cma_lap lap;
};

/** An event that the program may not have read: an id that moves to another channel takes its unread events along. */
struct cma_kept {
	struct cma_session *in;        /**< while its id moves to another session: still the old one */
	TAILQ_ENTRY(cma_kept) link;    /**< of in: sent or queue */
	TAILQ_ENTRY(cma_kept) id_link;
	struct cma_id *id;             /**< the id that has it among its events; NULL: that is gone, or has moved */
	struct cma_id *request;        /**< CONNECT_REQUEST: the new id */
	bool sent;                     /**< it is in the pipe */
	uint32_t bytes;
	uint8_t event[];               /**< the first bytes of struct ctl_cm_event; the rest is zero */
};

struct cma_session {
	struct watch pipe;     /**< write end; watched while something waits */
	struct session *session;
	uint64_t token;
	struct cma_events sent;  /**< written into the pipe and, as far as is known, unread; oldest first */
	struct cma_events queue; /**< wait for room in it */
	uint32_t nb_sent, nb_queued;
	uint32_t nb_resolving; /**< of its ids */
	bool watching;
};

struct cma {
	struct control *control;
	struct cm *cm;
	LIST_HEAD(, cma_bind) binds[CMA_BIND_BUCKETS];
	TAILQ_HEAD(, cma_id) resolving;
	uint32_t nb_resolving;
};

/** @param cm  The daemon's; its events go to cma_cm_event(). @return NULL: no memory. */
struct cma *cma_create(struct control *c, struct cm *cm);
/** Free it; no session may have ids any more. NULL: does nothing. */
void cma_destroy(struct cma *cma);
/** Time out resolutions. @return when to call again at the latest. */
uint64_t cma_poll(struct cma *cma, uint64_t now_ns);
/** cm_ops.event of the daemon's CM. */
void cma_cm_event(struct cma *cma, const struct cm_event *ev);
/** The session ends: its ids, in a way that their peers understand, and its pipe. */
void cma_session_end(struct session *s);

/* ---- Requests: ctl_cm.h ---- */
op_fn op_cm_open, op_cm_create_id, op_cm_destroy_id, op_cm_bind, op_cm_resolve_addr, op_cm_resolve_route,
	op_cm_query, op_cm_listen, op_cm_connect, op_cm_accept, op_cm_reject, op_cm_establish, op_cm_disconnect,
	op_cm_qp_attr, op_cm_set_option, op_cm_join, op_cm_leave, op_cm_migrate;

/* ---- id.c: calls nothing else of cma ---- */
/**
 * @param r  Failed if there is no new id; may be NULL.
 * @return a new id of @p s, or NULL: too many, or no memory, as *@p rc says.
 */
struct cma_id *cma_id_new(struct session *s, uint32_t ps, uint8_t qp_type, struct request *r, int *rc);
/** @return the id of @p handle, or NULL with the request failed. */
struct cma_id *cma_id_get(struct session *s, uint32_t handle, struct request *r);
/** @p id stands for a request to @p listener. */
void cma_id_asks(struct cma_id *id, struct cma_id *listener);
/** The opposite: it is an id like any other from now on. */
void cma_id_forget_listener(struct cma_id *id);
/** Give @p id a handle in @p to, where its events go from now on. @return 0 or ENOMEM. */
int cma_id_move(struct cma_id *id, struct session *to);
void cma_id_info(const struct cma_id *id, struct ctl_cm_id_info *info);
/** Choose the PSN that the peer begins with. @return 0, or EIO with the request failed. */
int cma_id_start_psn(struct cma_id *id, struct request *r);
static inline bool
cma_is_ud(const struct cma_id *id)
{
	return id->qp_type == UROCE_QPT_UD;
}
/** @return the port and GID index that have @p gid, or NULL. */
struct net_port *cma_port_of(struct control *c, const struct gid *gid, uint8_t *sgid_index);
/** Fill the address vector from @p id to @p dgid. */
void cma_av(const struct cma_id *id, const struct gid *dgid, struct uroce_ah_attr *av);

/* ---- bind.c ---- */
/** @return true if @p a is of the address family that it claims, or the wildcard. */
bool cma_addr_ok(const struct ctl_cm_addr *a);
bool cma_addr_loopback(const struct ctl_cm_addr *a);
/** Bind to @p addr; port 0: any free one. @return 0 or an errno value with the request failed. */
int cma_bind_id(struct cma_id *id, const struct ctl_cm_addr *addr, struct request *r);
/** Give up the port number. */
void cma_unbind(struct cma_id *id);
/** @return false: another id that shares the port, since both allow reuse, listens and would lose requests to @p id. */
bool cma_may_listen(const struct cma_id *id);

/* ---- event.c ---- */
/** Send an event of @p id with @p status and nothing else. */
void cma_event(struct cma_id *id, enum ctl_cm_event_type type, int32_t status);
/**
 * Write @p ev, of @p id, into the pipe of its session, or queue it behind those that wait for room.
 * @param request  The new id that it brings, or NULL.
 */
void cma_event_send(struct cma_id *id, const struct ctl_cm_event *ev, struct cma_id *request);
/** @p id goes: drop its events that still wait. */
void cma_event_forget(struct cma_id *id);
/** @return how many ids of requests move with @p id, at most. */
uint32_t cma_event_requests(const struct cma_id *id);
/** The program knows @p id, which a request brought: from now on it doesn't move with its listener. */
void cma_event_known(struct cma_id *id);
/** @p id has moved from @p from: its events unread there are sent again here, with the ids of its requests. */
void cma_event_move(struct cma_id *id, struct session *from);
/** @return false: so many events wait that no new connection may come. */
bool cma_event_room(const struct session *s);
/** @return 0, or EAGAIN with the request, which would bring another event, failed. */
int cma_event_want_room(const struct session *s, struct request *r);
/** Close the pipe and drop the events of a session that has no ids any more. */
void cma_channel_end(struct session *s);

/* ---- resolve.c ---- */
/** Stop resolving, if it does. */
void cma_resolve_stop(struct cma_id *id);

/* ---- lap.c ---- */
/** A LAP came: load the path and answer, at once or when its MAC address is known. */
void cma_lap(struct cma_id *id, const struct cm_lap *m);
void cma_lap_stop(struct cma_id *id);

/* ---- group.c ---- */
void cma_group_free(struct cma_group *g);

/* ---- cma.c ---- */
/** End what the id stands for and free it. */
void cma_id_free(struct cma_id *id);

#endif /* UROCE_CONTROL_CMA_PRIV_H */
