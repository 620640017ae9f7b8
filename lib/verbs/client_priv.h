/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Internals of libibverbs.so.1: the functions that its files call of each other. The objects are in objects_priv.h.
 *
 * One open device context is one connection to uroced (lib/ring/ctl.h). Everything except the data path is a request
 * and a reply on it. Posting, polling and arming only work on shared memory (lib/ring/ring.h), and make a system call
 * only to wake an engine that sleeps.
 *
 * The same files, except devlist.c, compat.c and private.c, are compiled with other function names as the verbs of
 * liburoce (lib/uroce), where the daemon's part is in the same process.
 *
 * Threads: any, as the verbs man pages promise.
 */
#ifndef UROCE_CLIENT_PRIV_H
#define UROCE_CLIENT_PRIV_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "verbs/faults.h"
#include "verbs/objects_priv.h"

/** Functions that programs link to by name; libibverbs.map gives them their versions. */
#define CLIENT_EXPORT __attribute__((visibility("default")))

/** For functions that return an object. @return NULL with errno set. */
static inline void *
client_null(int err)
{
	errno = err;
	return NULL;
}
/** For functions that return -1 with errno set. */
static inline int
client_fail(int err)
{
	errno = err;
	return -1;
}

/* ---- ctl.c: requests and replies ---- */

/**
 * client_exchange() on a context's connection, which this locks. Prints the daemon's message on stderr if the request
 * fails. Closes the descriptors that came with the reply.
 */
int client_call(struct client_ctx *ctx, struct client_call *c);
/** As client_call(), with ctx->ctl_lock held by the caller, who takes or closes the descriptors. */
int client_call_locked(struct client_ctx *ctx, struct client_call *c);
/** Send a request that contains only a handle. */
int client_call_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);
/** As client_call_handle(), to destroy an object. If the daemon is gone, so is the object. */
int client_destroy_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);
/** The same with ctx->ctl_lock held, for an object that the daemon created but that can't be used. */
void client_give_back(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);
/**
 * Enter the new segment that came with a reply, if any. Takes its descriptor. ctl_lock must have been held since the
 * call, because the next reply, to another thread, may refer to the segment.
 * @return 0 or an errno value: ENOMEM if it can't be mapped; then the next call tries again.
 */
int client_segment_add(struct client_ctx *ctx, const struct ctl_new_segment *seg, struct client_call *c);
/** @return where an area of a segment is mapped, or NULL if it lies outside or is shorter than @p min_bytes. ctl_lock
 * held. */
void *client_area(const struct client_ctx *ctx, const struct ctl_area *a, size_t min_bytes);
/** Unmap and close all segments. */
void client_segments_free(struct client_ctx *ctx);
/* ---- fork.c ---- */
/** All open contexts of this process; the mutex also orders opening and closing against fork. */
extern struct client_ctx *client_contexts;
extern pthread_mutex_t client_contexts_lock;
/** Register the fork handlers; once per process. */
void client_fork_setup(void);

/* ---- strings.c ---- */
/** @return the name of an opcode of struct ibv_send_wr, or "unknown" */
const char *client_wr_opcode_str(unsigned int opcode);

/* ---- query.c, cq.c, cq_ex.c, qp.c, post.c, srq.c, pd.c: the functions in a context's tables ---- */
int client_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t bytes);
int client_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *attr, size_t bytes);
int client_query_rt_values(struct ibv_context *c, struct ibv_values_ex *values);
int client_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int client_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int client_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *client_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
int client_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int client_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int client_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *client_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *client_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int client_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_mw *client_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int client_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int client_dealloc_mw(struct ibv_mw *mw);
struct ibv_mr *client_alloc_null_mr(struct ibv_pd *pd);
struct ibv_dm *client_alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr);
int client_free_dm(struct ibv_dm *dm);
struct ibv_mr *client_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
struct ibv_xrcd *client_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
struct ibv_td *client_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int client_dealloc_td(struct ibv_td *td);
struct ibv_pd *client_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr);
int client_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sges, uint32_t nb);
int client_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *client_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);

/* ---- pd.c, for cq.c, cq_ex.c, qp.c and srq.c ---- */
bool client_is_parent_domain(const struct ibv_pd *pd);
/**
 * Allocate zeroed memory for an object, aligned to a cache line, by the allocator of its parent domain if that has one.
 * @param pd  May be NULL.
 * @param memory  Receives what client_object_free() needs; the caller stores it in the object.
 * @return NULL: there is none.
 */
void *client_object_alloc(struct ibv_pd *pd, enum client_resource type, size_t size, struct client_memory *memory);
/** Free it. @param memory  A copy, since the object's own is freed. */
void client_object_free(void *p, struct client_memory memory);

/* ---- cq.c, for cq_ex.c and qp.c ---- */
/** Create a CQ and its ring. @param pd  The parent domain that provides the object's memory, or NULL. @return NULL with errno set. */
struct client_cq *client_cq_new(struct ibv_context *c, struct ibv_pd *pd, uint32_t cqe, void *cq_context,
				struct ibv_comp_channel *ch, uint32_t vector, bool stamps);
/** Take the next live CQE. @return false if there is none. Lock held; the caller publishes with client_cq_publish(). */
bool client_cq_next(struct client_cq *cq, struct ring_cqe *e, union ring_cqe_ctl *ctl);
/**
 * Call after polling the CQ in vain: perhaps the thread that will fill it is waiting for our core. Looks at times whether the
 * daemon is still there.
 * @return 0, or EIO: nothing will ever fill it, the daemon has gone.
 */
int client_cq_empty(struct client_cq *cq);
/** Print once that the connection of this context is lost. @param what  What the program was doing. Any thread. */
void client_connection_lost(struct client_ctx *ctx, const char *what);
/** @return what the first engine says that finds cores short. Any thread. */
enum ring_crowded client_crowded(const struct client_ctx *ctx);
static inline void
client_cq_publish(struct client_cq *cq)
{
	atomic_store_explicit(&cq->shared->cons, cq->ring.counter, memory_order_release);
}
/** Mark the CQEs of a QP that was destroyed or reset as dead. Lock held. */
void client_cq_forget(struct client_cq *cq, const struct client_qp *qp);
/** The same for the receives of an XRC SRQ that was destroyed. Takes the lock. */
void client_cq_forget_srq(struct client_cq *cq, uint32_t srqn);


/* ---- cq_events.c, for channel.c ---- */
/** Leave the events of a CQ that is armed for any completion to this thread. @return false: it isn't, or can't be. */
bool client_cq_watch(struct client_cq *cq);
/** Take the event of a watched CQ, which is then no longer armed. @return false: there is none. */
bool client_cq_watched_event(struct client_cq *cq);
/** Leave a watched CQ's events to the engines again. @return true: there is one now, which is the caller's. */
bool client_cq_unwatch(struct client_cq *cq);

/* ---- channel.c ---- */
/** A new CQ's events go to this channel. */
void client_channel_add(struct client_channel *ch, struct client_cq *cq);
/** They don't any more. Afterwards no thread that waits for an event looks at the CQ. */
void client_channel_remove(struct client_channel *ch, struct client_cq *cq);
/** Remove the events of a CQ that is being destroyed from its channel. */
void client_channel_purge(struct client_channel *ch, uint64_t cookie);
/** Raise a completion event. Never waits. @return -1 with errno set: there is no room for it. */
ssize_t client_channel_send(const struct client_channel *ch, const struct ctl_comp_event *ev);

/* ---- mw.c, for post.c and qp_wr.c ---- */
/** Fill in a BIND_MW slot, except its control word. @return 0 or EINVAL. */
int client_put_bind(struct ring_sq_wqe *w, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);

/* ---- pd.c, for import.c ---- */
/** Make a PD by @p c, CTL_PD_ALLOC or CTL_PD_IMPORT. @return NULL with errno set if there is no memory, or the daemon refuses. */
struct ibv_pd *client_pd_new(struct ibv_context *context, struct client_call *c);

/* ---- import.c, for device.c ---- */
/** Free the PDs that were unimported while they were in use; the context is being closed. */
void client_pds_left(struct client_ctx *ctx);

/* ---- odp.c, for mr.c ---- */
/** Let ibv_advise_mr() find an MR, which is new or has changed, if it is for on-demand paging. */
void client_odp_note(struct client_mr *mr);
/** It is gone. */
void client_odp_forget(struct client_mr *mr);

/* ---- qp_wr.c ---- */
/**
 * Set the ibv_wr_* functions that @p ops requests.
 * @return 0 or EOPNOTSUPP (an operation that isn't supported).
 */
int client_qp_set_builders(struct client_qp *qp, enum ibv_qp_type type, uint64_t ops);

/* ---- qp_wr.c, for faults.c ---- */
/** Store the control word of the slot under construction, without its phase. Between wr_start and wr_complete. */
void client_wr_close(struct client_qp *qp);
/** Post the slots before @p end and ring the doorbell. All are closed; sq_lock held. */
void client_wr_publish(struct client_qp *qp, uint32_t end);
/** wr_complete of a QP without faults. */
int client_wr_complete(struct ibv_qp_ex *qp);

/* ---- faults.c ---- */
/**
 * Let the context have the faults that UROCE_FAULTS asks for, if it does.
 * @return 0, or EINVAL if the variable is wrong: a message was printed.
 */
int client_faults_attach(struct client_ctx *ctx);
/** Begin with this plan in place of the variable's; counts begin at 0. */
void client_faults_begin(const struct client_fault_plan *plan);
/** A context with faults registers memory. @return true: it must fail with ENOMEM. */
bool client_faults_reg(void);
/** Let ibv_wr_complete() of a QP cause faults. */
void client_faults_builders(struct client_qp *qp);
/** Let an extended CQ's completions be late. */
void client_faults_cq(struct ibv_cq_ex *cq);
/** In the child of a fork: it counts for itself. */
void client_faults_fork_child(void);

/* ---- post.c, for qp_wr.c ---- */
/** QP types (1 << type) for which each opcode may be posted; 0: not supported. */
extern const uint32_t client_wr_types[UROCE_WR_OPS];
/** Ring the doorbell for what was just posted, unless the engine watches the SQ. */
void client_sq_ring(struct client_qp *qp);
/** @return the number of free slots in the SQ at counter @p head. */
uint32_t client_sq_room(struct client_qp *qp, uint32_t head);

#endif /* UROCE_CLIENT_PRIV_H */
