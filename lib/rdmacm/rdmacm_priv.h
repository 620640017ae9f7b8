/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Inside librdmacm.so.1: ids, event channels, devices, and what its files call of each other.
 *
 * An event channel is one connection to uroced (lib/ring/ctl_cm.h) and a pipe from which its events are read. The daemon
 * holds the state of ids; this library opens devices by libibverbs, moves QPs, and turns records into events.
 *
 * Every object starts with the struct that rdma_cma.h promises to programs; what follows is ours. Functions that rdma_cma.h
 * declares return -1 with errno set; those of this header return 0 or an errno value.
 *
 * Threads: any. A channel's mutex guards its connection and its table of ids; an id's mutex its count of events.
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
	CM_KEPT_CHANNELS = 8,   /**< destroyed ones that are not freed yet */
	CMID_RESOLVE_MS = 2000, /**< rdma_create_ep(): for an address, and for a route */
	CMID_INDEX_MASK = (1 << 20) - 1, /**< of a handle: index in the channel's table; the other bits are a generation */
};

struct cmid;

struct cm_channel {
	struct rdma_event_channel ch;
	int sock;
	uint64_t token;       /**< the daemon checks it when an id migrates to another channel */
	bool broken;
	_Atomic bool destroyed;
	_Atomic uint32_t readers; /**< threads in rdma_get_cm_event() */
	pthread_mutex_t lock;
	struct cmid **ids;    /**< by the low bits of their handles */
	uint32_t nb_ids;      /**< size of the table */
};

/** A device, opened when the first id needs it and never closed. */
struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint8_t max_initiator_depth, max_responder_resources;
};

/** A multicast group that an id has joined, or asked to. */
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
	bool sync;             /**< the channel is its own, operations wait for their event */
	struct cm_device *dev;
	uint8_t initiator_depth, responder_resources;
	bool disconnected;     /**< DISCONNECTED was handed out */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	uint32_t events;       /**< handed out and not acknowledged */
	uint32_t taken;        /**< a listener: requests that were read; under the lock */
	struct ibv_qp_init_attr *ep_attr; /**< passive endpoint: of the QPs of its connections */
	void *connect;         /**< private data of rdma_getaddrinfo()'s, in front of the program's */
	size_t connect_len;
	pthread_mutex_t members_lock; /**< taken before the channel's */
	struct cm_member *members;
	struct ibv_sa_path_rec path;
};

struct cm_happening {
	struct rdma_cm_event event;
	struct cmid *counted;  /**< whose event it is until it is acknowledged */
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
/** @return what functions of rdma_cma.h return. */
int cm_result(int err);

/* ---- channel.c ---- */
/** @return 0 or an errno value; a refusal's message goes to stderr. */
int cm_call(struct cm_channel *ch, struct client_call *c);
int cm_call_handle(struct cm_channel *ch, enum ctl_op op, uint32_t handle);
/** CTL_CM_DESTROY_ID, without a word if the daemon has no such id any more. */
void cm_call_destroy(struct cm_channel *ch, uint32_t handle, uint32_t taken);
/** Enter @p id under its handle. @return 0 or ENOMEM. */
int cm_enter(struct cm_channel *ch, struct cmid *id);
void cm_leave(struct cm_channel *ch, struct cmid *id);
/**
 * Move @p id, which has left its channel, to this one: in the daemon and into the table at once, so that whoever reads its next
 * event finds it. @return 0 or an errno value; the id's channel says whether it has moved.
 */
int cm_take_over(struct cm_channel *ch, struct cmid *id);
/**
 * Read the next record. Of a channel that is destroyed meanwhile nothing comes any more: the thread waits, as with the kernel.
 * @return 0 with a record; an errno value, ENODEV if the daemon has gone.
 */
int cm_read_record(struct cm_channel *ch, struct ctl_cm_event *r);
/** @return the id, with one event counted on it, or NULL: destroyed meanwhile. */
struct cmid *cm_find_counted(struct cm_channel *ch, uint32_t handle);

/* ---- device.c ---- */
/** @return 0 or an errno value. */
int cm_device_get(struct cm_channel *ch, uint32_t index, struct cm_device **out);
int cm_device_xrcd(struct cm_device *dev, struct ibv_xrcd **out);

/* ---- cmid.c ---- */
struct cmid *cmid_new(struct cm_channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
void cmid_free(struct cmid *id);
/** Take over addresses and device. @return 0 or an errno value. */
int cmid_update(struct cmid *id, const struct ctl_cm_id_info *info);
/** Give back the event that a synchronous id holds. */
void cmid_ack(struct cmid *id);
/** One event less; rdma_destroy_id() waits for the last. */
void cmid_uncount(struct cmid *id);

/* ---- id.c ---- */
/** rdma_create_id() and rdma_create_ep(). @param channel  NULL: the id is synchronous. @return 0 or an errno value. */
int cmid_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps,
		enum ibv_qp_type type);

/* ---- event.c ---- */
/**
 * Wait for what a request began if the id is synchronous.
 * @param sync  cmid.sync as it was before the request: an id that isn't synchronous may be gone by now, destroyed by the thread
 *              that read the event.
 * @param err   The request's result.
 * @return as rdma_cma.h says.
 */
int cmid_complete(struct cmid *id, bool sync, int err);

/* ---- addr.c ---- */
/** @return 0, or EAFNOSUPPORT. @p sa NULL: no address. */
int cm_addr_of(const struct sockaddr *sa, struct ctl_cm_addr *out);
void cm_addr_put(const struct ctl_cm_addr *a, struct sockaddr_storage *out);
socklen_t cm_sockaddr_len(const struct sockaddr *sa);

/* ---- qp.c: the id's QP, if it has one ---- */
/** From INIT to RTS. The depths: RDMA_MAX_*: what was negotiated. */
int cmid_qp_ready(struct cmid *id, uint8_t responder_resources, uint8_t initiator_depth);
void cmid_qp_error(struct cmid *id);
/** An address vector as programs know it. */
void cm_ah_attr(const struct uroce_ah_attr *av, struct ibv_ah_attr *out);

/* ---- member.c ---- */
void cm_member_free(struct cmid *id, struct cm_member *m);
/** MULTICAST_JOIN or _ERROR came. */
void cmid_joined(struct cmid *id, const struct ctl_cm_event *r, struct cm_happening *h);
void cmid_leave_all(struct cmid *id);

#endif /* UROCE_RDMACM_PRIV_H */
