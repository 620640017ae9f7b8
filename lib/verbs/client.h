/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Inside libibverbs.so.1: the objects behind the verbs API and what its files call of each other.
 *
 * One open device context is one connection to uroced (lib/ring/ctl.h). Everything but the data path is one
 * request and one reply on it. Posting, polling and arming work on shared memory only (lib/ring/ring.h) and make a
 * system call only to wake an engine that sleeps.
 *
 * The same files, with other names for their functions, are the verbs of liburoce (lib/uroce), where the daemon's part is in
 * the same process. All but devlist.c, compat.c and private.c.
 *
 * Every object starts with the struct that verbs.h promises to programs; what follows is ours.
 *
 * Threads: any, as the verbs man pages promise. Each queue has a lock of its own; the connection, the table of objects
 * and each object's count of events have a mutex. Order of locks: SQ, RQ, CQs (lower address first).
 */
#ifndef UROCE_CLIENT_H
#define UROCE_CLIENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/container_of.h"
#include "verbs/connection.h"
#include "verbs/convert.h"
#include "ring/ctl.h"
#include "verbs/objtab.h"

/* These are macros over inline functions in verbs.h; here the exported functions are meant. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/** Functions that programs link to by name; libibverbs.map gives them their versions. */
#define CLIENT_EXPORT __attribute__((visibility("default")))

enum {
	CLIENT_CACHE_LINE = 64,
	CLIENT_SPINS = 1000,        /**< tries for a queue's lock before the processor is given up */
	CLIENT_EMPTY_POLLS = 16,    /**< polls in vain after which a program gives its core away, where engines say cores are short */
	CLIENT_QPN_SLOTS = 1 << 16, /**< a session's live QPs differ in these low bits of their numbers */
};

/* ---- A lock for queues: uncontended it is one exchange and one store, and it never sleeps in the kernel ---- */

struct client_lock {
	_Atomic uint32_t held;
};

static inline void
client_lock(struct client_lock *l)
{
	unsigned int spins = 0;

	while (unlikely(atomic_exchange_explicit(&l->held, 1, memory_order_acquire))) {
		while (atomic_load_explicit(&l->held, memory_order_relaxed)) {
			/* The holder may have been preempted on this very core. */
			if (++spins % CLIENT_SPINS == 0)
				sched_yield();
			else
				__builtin_ia32_pause();
		}
	}
}

static inline void
client_unlock(struct client_lock *l)
{
	atomic_store_explicit(&l->held, 0, memory_order_release);
}

/* ---- Objects ---- */

/** A device that the daemon offers. Lives as long as the process: programs keep pointers beyond ibv_free_device_list().
 */
struct client_device {
	struct ibv_device dev;
	/**
	 * rdma-core keeps a provider's ops pointer behind struct ibv_device; libmlx5 and libefa compare it with their
	 * own to learn whether a device is theirs. It must be readable and match nobody.
	 */
	const void *foreign_ops[8];
	bool used;
	uint32_t index; /**< the daemon's number of it */
	__be64 guid;
	char socket_path[108];
};

/** A piece of shared memory that the daemon gave this session. */
struct client_segment {
	uint8_t *base; /**< NULL: there was no room to map it */
	size_t bytes;
	int fd;        /**< until it is mapped: it comes only once */
};

struct client_qp;

/** An open device: one connection, one session. */
struct client_ctx {
	struct verbs_context v;  /**< programs hold &v.context, its last member */
	struct client_ctx *next; /**< in the list of all, for fork */
	bool foreign;            /**< this process is a child of the one that opened it */

	pthread_mutex_t ctl_lock; /**< one request at a time; guards segs */
	int sock;
	bool broken; /**< the connection failed: nothing more is sent */
	/** The daemon is in this process (lib/uroce): memory needs no mapping, and waiting is done by this. Else NULL. */
	client_wait_fn wait;
	struct client_segment *segs;
	uint32_t nb_segs, nb_unmapped;

	struct objtab objs; /**< cookies of CQs, QPs and SRQs */
	bool fatal_reported;

	int kick_fd;
	uint8_t *doorbells;
	size_t db_bytes, db_stride;
	uint32_t nb_engines;

	bool privileged; /**< the daemon maps shared memory of ours */
	bool can_convert;
	struct mem_file mem;

	struct client_qp **qps; /**< by the low bits of the QP number; entries change under the locks of the QP's CQs */
};

struct client_channel {
	struct ibv_comp_channel channel;
	int write_fd; /**< goes to the daemon with each CQ; kept open so that the read end never sees an end of file */
	pthread_mutex_t mutex; /**< guards refcnt and the order of reads against the removal of a dead CQ's events */
};

struct client_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex; /**< begins with the same members */
	};
	struct client_lock lock; /**< everything down to cur_ctl */
	uint32_t empty_polls;    /**< written by every poller, without the lock: it needn't be exact */
	bool single_threaded;    /**< created with IBV_CREATE_CQ_ATTR_SINGLE_THREADED: no lock is taken */
	bool extended;
	/** While a resize makes it larger, threads look at it without the lock: base changes before order. */
	struct ring ring;
	uint64_t *stamps; /**< a time per slot, or NULL */
	struct ring_cq_shared *shared;
	uint32_t reported;         /**< CQEs below this counter were polled or told of by an event */
	struct client_qp *last_qp; /**< of the last CQE: they come in runs */
	struct ring_cqe cur;       /**< extended polling: the CQE that the readers speak of */
	union ring_cqe_ctl cur_ctl;

	uint64_t cookie;
	pthread_mutex_t resize_mutex; /**< one resize at a time; taken before the lock */
	uint32_t comp_events_reported;  /**< under objs.mutex */
	uint32_t async_events_reported; /**< likewise */
};

struct client_srq {
	struct ibv_srq srq;
	struct client_lock lock;
	struct ring ring;
	struct ring_srq_shared *shared;
	uint32_t max_wr, max_sge;
	uint32_t srqn;        /**< XRC; 0: no XRC SRQ */
	struct client_cq *cq; /**< XRC */
	uint64_t cookie;
	uint32_t events_reported;
};

struct client_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t handle;
};

struct client_qp {
	struct ibv_qp_ex qp; /**< begins with struct ibv_qp */
	/**
	 * The next member of struct ibv_qp_ex from rdma-core 46 on, whose headers programs may have been built with: right
	 * behind what the headers here know of it (qp_wr.c checks).
	 */
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level);
	struct client_ctx *ctx;
	struct ring_qp_shared *shared;
	struct ring_db *db;
	uint32_t db_slot;
	uint32_t is_ex;    /**< ibv_wr_* may be used */
	uint32_t type_bit; /**< 1 << type, for the table of opcodes */
	struct uroce_qp_cap cap;
	int sq_sig_all;
	uint64_t cookie;
	uint32_t events_reported;

	/* The producer of the SQ. */
	struct client_lock sq_lock __attribute__((aligned(CLIENT_CACHE_LINE)));
	struct ring sq;
	uint32_t sq_max;
	uint32_t sq_tail_seen; /**< last value of sq_tail that the producer read */
	/* ibv_wr_*: between wr_start and wr_complete, with sq_lock held. */
	uint32_t wr_next;
	int wr_err;
	struct ring_sq_wqe *wr_cur;
	union ring_sq_ctl wr_ctl;

	/* The producer of the RQ. */
	struct client_lock rq_lock __attribute__((aligned(CLIENT_CACHE_LINE)));
	struct ring rq;
	uint32_t rq_max;
	uint32_t rq_tail_seen;

	/* Written by whoever polls the CQs, under their locks: WQEs whose completions were polled. */
	_Atomic uint32_t sq_tail __attribute__((aligned(CLIENT_CACHE_LINE)));
	_Atomic uint32_t rq_tail;
};

/** A thread domain: what it promises (objects used by one thread only) isn't made use of. */
struct client_td {
	struct ibv_td td;
	_Atomic uint32_t users; /**< parent domains */
};

/** A PD, or a parent domain: that has its PD's handle. */
struct client_pd {
	struct ibv_pd pd;
	struct client_pd *parent; /**< the PD of a parent domain, else NULL */
	struct client_td *td;     /**< of a parent domain, or NULL */
	_Atomic uint32_t domains; /**< parent domains of a PD */
};

struct client_mr {
	struct ibv_mr mr;
	unsigned int access;
	uint64_t iova;
};

struct client_ah {
	struct ibv_ah ah;
};

static inline struct client_ctx *
to_ctx(struct ibv_context *c)
{
	return container_of(c, struct client_ctx, v.context);
}

static inline struct client_cq *
to_cq(struct ibv_cq *c)
{
	return (struct client_cq *)c;
}

static inline struct client_qp *
to_qp(struct ibv_qp *q)
{
	return (struct client_qp *)q;
}

static inline struct client_srq *
to_srq(struct ibv_srq *s)
{
	return (struct client_srq *)s;
}

static inline struct client_xrcd *
to_xrcd(struct ibv_xrcd *x)
{
	return (struct client_xrcd *)x;
}

static inline void
client_cq_lock(struct client_cq *cq)
{
	if (likely(!cq->single_threaded))
		client_lock(&cq->lock);
}

static inline void
client_cq_unlock(struct client_cq *cq)
{
	if (likely(!cq->single_threaded))
		client_unlock(&cq->lock);
}

/** Take the locks of a QP's two CQs in the one order that can't deadlock. */
static inline void
client_cq_lock_two(struct client_cq *a, struct client_cq *b)
{
	client_cq_lock(a < b ? a : b);
	if (a != b)
		client_cq_lock(a < b ? b : a);
}

static inline void
client_cq_unlock_two(struct client_cq *a, struct client_cq *b)
{
	client_cq_unlock(a);
	if (a != b)
		client_cq_unlock(b);
}

/* ---- ctl.c: requests and replies ---- */

/** client_exchange() on a context's connection, which this locks. Tells stderr what the daemon said of a failure. */
int client_call(struct client_ctx *ctx, struct client_call *c);
/** The same with ctx->ctl_lock held by the caller. */
int client_call_locked(struct client_ctx *ctx, struct client_call *c);
/** A request that carries only a handle. */
int client_call_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);
/** The same for destroying something: with the daemon gone it is gone already. */
int client_destroy_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);
/** The same with ctx->ctl_lock held, of an object that the daemon made and that can't be used. */
void client_give_back(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);
/**
 * Enter a new segment that a reply brought, if it brought one. Takes the descriptor. ctl_lock held since the call: the
 * next reply, another thread's, may speak of the segment.
 * @return 0 or an errno value: ENOMEM if one can't be mapped, which the next call tries again.
 */
int client_segment_add(struct client_ctx *ctx, const struct ctl_new_segment *seg, struct client_call *c);
/** @return where an area of a segment is mapped, or NULL if it lies outside or is shorter than @p min_bytes. ctl_lock
 * held. */
void *client_area(const struct client_ctx *ctx, const struct ctl_area *a, size_t min_bytes);
/** Unmap and close all. */
void client_segments_free(struct client_ctx *ctx);
/* ---- device.c ---- */
/** Fill in what struct ibv_device says of a device. @param netdev  Kernel interface that it shares, or "". */
void client_device_fill(struct client_device *d, const char *name, const char *netdev);
/**
 * Open @p d on a connection where HELLO was said.
 * @param sock  Becomes the context's, also if this fails.
 * @param wait  NULL, or as in struct client_ctx.
 * @return NULL with errno set.
 */
struct ibv_context *client_open_session(struct client_device *d, int sock, client_wait_fn wait);
/** All open contexts of this process; the mutex also orders opening and closing against fork. */
extern struct client_ctx *client_contexts;
extern pthread_mutex_t client_contexts_lock;

/* ---- fork.c ---- */
/** Register the fork handlers; once per process. */
void client_fork_setup(void);

/* ---- query.c, cq.c, cq_ex.c, qp.c, post.c, srq.c, pd.c: what a context's tables point at ---- */
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
struct ibv_xrcd *client_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
struct ibv_td *client_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int client_dealloc_td(struct ibv_td *td);
struct ibv_pd *client_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr);
int client_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *client_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);

/* ---- pd.c, for cq_ex.c ---- */
bool client_is_parent_domain(const struct ibv_pd *pd);

/* ---- cq.c, for cq_ex.c and qp.c ---- */
/** A CQ and its ring; errno is set if NULL. */
struct client_cq *client_cq_new(struct ibv_context *c, uint32_t cqe, void *cq_context, struct ibv_comp_channel *ch,
				uint32_t vector, bool stamps);
/** Take the next live CQE. @return false if there is none. Lock held; the caller publishes with client_cq_publish(). */
bool client_cq_next(struct client_cq *cq, struct ring_cqe *e, union ring_cqe_ctl *ctl);
/** The CQ was polled in vain: perhaps whoever is to fill it waits for our core. */
void client_cq_empty(struct client_cq *cq);
static inline void
client_cq_publish(struct client_cq *cq)
{
	atomic_store_explicit(&cq->shared->cons, cq->ring.counter, memory_order_release);
}
/** Mark the CQEs of a QP dead: it is gone, or was reset. Lock held. */
void client_cq_forget(struct client_cq *cq, const struct client_qp *qp);
/** The same for the receives of an XRC SRQ that is gone. Takes the lock. */
void client_cq_forget_srq(struct client_cq *cq, uint32_t srqn);

/* ---- channel.c ---- */
/** Take events of a CQ that goes away out of its channel. */
void client_channel_purge(struct client_channel *ch, uint64_t cookie);

/* ---- mw.c, for post.c and qp_wr.c ---- */
/** Fill in a BIND_MW slot but for its control word. @return 0 or EINVAL. */
int client_put_bind(struct ring_sq_wqe *w, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);

/* ---- qp_wr.c ---- */
/**
 * Set the ibv_wr_* functions that @p ops asks for.
 * @return 0 or EOPNOTSUPP (an operation that isn't served).
 */
int client_qp_set_builders(struct client_qp *qp, enum ibv_qp_type type, uint64_t ops);

/* ---- post.c, for qp_wr.c ---- */
/** QP types (1 << type) for which each opcode may be posted; 0: not served. */
extern const uint32_t client_wr_types[UROCE_WR_OPS];
/** Tell the engine of what was just posted, if it isn't looking. */
void client_sq_ring(struct client_qp *qp);
/** @return free slots of the SQ at counter @p head. */
uint32_t client_sq_room(struct client_qp *qp, uint32_t head);

#endif /* UROCE_CLIENT_H */
