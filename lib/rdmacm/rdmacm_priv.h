/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Internals of librdmacm.so.1: ids, event channels, devices, and the functions that its files share.
 *
 * An event channel is one connection to uroced (lib/ring/ctl_cm.h) and a socket from which its events are read. The
 * daemon holds the state of ids; this library opens devices with libibverbs, moves QPs from state to state, and turns
 * records into events.
 *
 * Every object starts with the struct that rdma_cma.h defines; what follows is private to the library. Functions
 * declared in rdma_cma.h return -1 with errno set; those of this header return 0 or an errno value.
 *
 * Threads: any. A channel's mutex protects its connection and its table of ids; an id's mutex its count of events.
 */
#ifndef UROCE_RDMACM_PRIV_H
#define UROCE_RDMACM_PRIV_H

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/container_of.h"
#include "verbs/connection.h"

#define RDMACM_EXPORT __attribute__((visibility("default")))

enum {
	CM_KEPT_CHANNELS = 8,   /**< destroyed channels that are not freed yet */
	CM_SEEN_EVENTS = 64,    /**< events of a channel whose numbers are remembered */
	CMID_RESOLVE_MS = 2000, /**< timeout of rdma_create_ep() for resolving an address, and again for a route */
	CMID_INDEX_MASK = (1 << 20) - 1, /**< index in the channel's table; the other bits of a handle are a generation */
};

struct cmid;

struct cm_channel {
	struct rdma_event_channel ch;
	int sock;
	uint64_t token;       /**< the daemon checks it when an id is moved to another channel */
	bool broken;
	_Atomic bool destroyed;
	_Atomic uint32_t readers; /**< threads in rdma_get_cm_event() */
	pthread_mutex_t reading; /**< to take records; before `lock` */
	uint32_t busy;        /**< under `reading`: threads with a record whose id may not be in the table yet */
	bool stale;           /**< under `reading`: among the unread records may be some of ids that are gone */
	pthread_mutex_t lock;
	struct cmid **ids;    /**< indexed by the low bits of their handles */
	uint32_t nb_ids;      /**< size of the table */
	uint32_t seen[CM_SEEN_EVENTS]; /**< numbers of events that were read, by their low bits: the next daemon after a crash may send one again */
};

/** A device, opened when the first id needs it and never closed. */
struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint8_t max_initiator_depth, max_responder_resources;
};

/** A multicast group that an id has joined or asked to join. */
struct cm_member {
	struct cm_member *next;
	uint32_t handle;
	void *context;
	struct sockaddr_storage addr;
	union ibv_gid mgid;
	bool attached;
	bool send_only;
};

struct cmid {
	struct rdma_cm_id id;
	struct cm_channel *channel;
	uint32_t handle;
	bool sync;             /**< the id has a channel of its own, and operations wait for their event */
	struct cm_device *dev;
	uint8_t initiator_depth, responder_resources;
	bool disconnected;     /**< RDMA_CM_EVENT_DISCONNECTED was returned to the program */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	uint32_t events;       /**< returned to the program and not yet acknowledged */
	uint32_t taken;        /**< a listener's: requests that were read; under the lock */
	struct ibv_qp_init_attr *ep_attr; /**< a passive endpoint's: for the QPs of its connections */
	void *connect;         /**< private data from rdma_getaddrinfo(), sent before the program's */
	size_t connect_len;
	pthread_mutex_t members_lock; /**< locked before the channel's */
	struct cm_member *members;
	struct ibv_sa_path_rec path;
};

struct cm_happening {
	struct rdma_cm_event event;
	struct cmid *counted;  /**< the id whose count of events includes this one until it is acknowledged */
	uint8_t private_data[CTL_CM_PRIVATE_BYTES];
};

static inline struct cmid *
to_cmid(struct rdma_cm_id *id)
{
	return container_of(id, struct cmid, id);
}
static inline struct cm_channel *
to_channel(struct rdma_event_channel *ch)
{
	return container_of(ch, struct cm_channel, ch);
}
/** @return what the functions of rdma_cma.h return for this errno value. */
int cm_result(int err);

/* ---- channel.c ---- */
/** @return 0 or an errno value; if the daemon refuses, its message is written to stderr. */
int cm_call(struct cm_channel *ch, struct client_call *c);
int cm_call_handle(struct cm_channel *ch, enum ctl_op op, uint32_t handle);
/** CTL_CM_DESTROY_ID; prints nothing if the daemon doesn't have the id any more. */
void cm_call_destroy(struct cm_channel *ch, uint32_t handle, uint32_t taken);
/**
 * Enter @p id under its handle.
 * @return 0 or ENOMEM.
 */
int cm_enter(struct cm_channel *ch, struct cmid *id);
void cm_leave(struct cm_channel *ch, struct cmid *id);
/**
 * Move @p id, which has left its channel, to this one, in the daemon and in the table at once, so that the thread that
 * reads its next event finds it.
 * @return 0 or an errno value; the id's channel says whether it was moved.
 */
int cm_take_over(struct cm_channel *ch, struct cmid *id);
/**
 * Read the next record. If the channel is destroyed meanwhile the calling thread waits for ever, as with the kernel.
 * @return 0 with a record; an errno value, ENODEV if the daemon is gone.
 */
int cm_read_record(struct cm_channel *ch, struct ctl_cm_event *r);
/** The caller has done with the record that it read: what that says about ids is in the table. */
void cm_read_done(struct cm_channel *ch);
/**
 * An id has left the channel. Its unread records must not make the channel's descriptor readable: the kernel's isn't
 * then, and programs that poll it would wait for an event that never comes. They are taken out as soon as they are next.
 */
void cm_forget_records(struct cm_channel *ch);
/** @return the id, with its count of events increased by one, or NULL if it was destroyed meanwhile. */
struct cmid *cm_find_counted(struct cm_channel *ch, uint32_t handle);

/* ---- device.c ---- */
/** @return 0 or an errno value. */
int cm_device_get(struct cm_channel *ch, uint32_t index, struct cm_device **out);
int cm_device_xrcd(struct cm_device *dev, struct ibv_xrcd **out);

/* ---- cmid.c ---- */
struct cmid *cmid_new(struct cm_channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
void cmid_free(struct cmid *id);
/**
 * Set the id's addresses and device from @p info.
 * @return 0 or an errno value.
 */
int cmid_update(struct cmid *id, const struct ctl_cm_id_info *info);
/** Acknowledge the event that a synchronous id holds. */
void cmid_ack(struct cmid *id);
/** Decrease the id's count of events; rdma_destroy_id() waits until it is 0. */
void cmid_uncount(struct cmid *id);

/* ---- id.c ---- */
/**
 * For rdma_create_id() and rdma_create_ep().
 * @param channel  NULL: the id is synchronous.
 * @return 0 or an errno value.
 */
int cmid_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps,
		enum ibv_qp_type type);

/* ---- event.c ---- */
/**
 * If the id is synchronous, wait for the event that ends the operation.
 * @param sync  cmid.sync from before the request: an id that isn't synchronous may be gone by now, destroyed by the
 * thread that read the event.
 * @param err  The request's result.
 * @return what rdma_cma.h says.
 */
int cmid_complete(struct cmid *id, bool sync, int err);

/* ---- addr.c ---- */
/**
 * @p sa may be NULL: no address.
 * @return 0 or EAFNOSUPPORT.
 */
int cm_addr_of(const struct sockaddr *sa, struct ctl_cm_addr *out);
void cm_addr_put(const struct ctl_cm_addr *a, struct sockaddr_storage *out);
socklen_t cm_sockaddr_len(const struct sockaddr *sa);

/* ---- qp.c: the id's QP, if it has one ---- */
/** Move the QP from INIT to RTS. The depths are the negotiated ones, or RDMA_MAX_*. */
int cmid_qp_ready(struct cmid *id, uint8_t responder_resources, uint8_t initiator_depth);
/**
 * The same, and send what follows: REP or RTU. One request to the daemon, if it can do all of it.
 * @param c  CTL_CM_ACCEPT, filled in, with such depths.
 */
int cmid_accept_qp(struct cmid *id, struct client_call *c);
/** Move the QP to ERR and send a DREQ or DREP; as cmid_accept_qp(). */
int cmid_disconnect_qp(struct cmid *id);
void cmid_qp_error(struct cmid *id);
/** Convert an address vector to struct ibv_ah_attr. */
void cm_ah_attr(const struct uroce_ah_attr *av, struct ibv_ah_attr *out);

/* ---- member.c ---- */
void cm_member_free(struct cmid *id, struct cm_member *m);
/** Handle a MULTICAST_JOIN or MULTICAST_ERROR event. */
void cmid_joined(struct cmid *id, const struct ctl_cm_event *r, struct cm_happening *h);
void cmid_leave_all(struct cmid *id);

#endif /* UROCE_RDMACM_PRIV_H */
