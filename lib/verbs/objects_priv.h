/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The objects behind the verbs API. Every object starts with the struct that verbs.h defines; what follows is private
 * to the library.
 *
 * Threads: any, as the verbs man pages promise. Each queue has its own lock; the connection, the table of objects and
 * each object's count of events have a mutex. Lock order: SQ, RQ, CQs (lower address first), bounce buffers of a PD.
 */
#ifndef UROCE_OBJECTS_PRIV_H
#define UROCE_OBJECTS_PRIV_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/container_of.h"
#include "ring/ctl.h"
#include "ring/ring.h"
#include "verbs/bounce.h"
#include "verbs/copied.h"
#include "verbs/convert.h"
#include "verbs/device.h"
#include "verbs/lock.h"
#include "verbs/objtab.h"

/* These are macros for inline functions in verbs.h; here the exported functions are meant. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum {
	CLIENT_CACHE_LINE = 64,
	CLIENT_EMPTY_POLLS = 16,    /**< polls in vain before a thread yields its core, if engines report short cores */
	CLIENT_SOON_POLLS = 1 << 10, /**< the same if they report that its completions come soon: about 50 us */
	CLIENT_LOST_POLLS = 1 << 16, /**< polls in vain before a thread looks whether the daemon is still there */
	CLIENT_QPN_SLOTS = 1 << 16, /**< a session's live QPs have different QP numbers in these low bits */
};

/* ---- Objects ---- */

/** A segment of shared memory that the daemon sent to this session. */
struct client_segment {
	uint8_t *base; /**< NULL: it couldn't be mapped */
	size_t bytes;
	int fd;        /**< kept until it is mapped; the daemon sends it only once */
};

struct client_qp;

/** An open device: one connection, one session. */
struct client_ctx {
	struct verbs_context v;  /**< programs hold &v.context, its last member */
	struct client_ctx *next; /**< in the list of all, for fork */
	bool foreign;            /**< this process is a child of the one that opened it */
	bool faults;             /**< UROCE_FAULTS is set: verbs may fail on purpose */

	pthread_mutex_t ctl_lock; /**< one request at a time; guards segs */
	int sock;
	int imported_fd; /**< of ibv_import_device(), ours until the context is closed; or -1 */
	struct client_pd *left; /**< PDs that were unimported while QPs used them, under ctl_lock */
	bool broken; /**< the connection has failed; no more requests are sent */
	_Atomic bool lost; /**< the daemon's end of the connection is closed, and the program was told */
	/**
	 * Set if the daemon is in this process (lib/uroce): memory needs no mapping, and this function is used to wait.
	 * Else NULL.
	 */
	client_wait_fn wait;
	struct client_segment *segs;
	uint32_t nb_segs, nb_unmapped;

	struct client_mr *odp_mrs; /**< those for on-demand paging, under ctl_lock */
	struct objtab objs; /**< cookies of CQs, QPs and SRQs */
	bool fatal_reported;

	int kick_fds[CTL_MAX_KICKS], kick_cpus[CTL_MAX_KICKS];
	uint32_t nb_kicks;
	uint8_t *doorbells;
	size_t db_bytes, db_stride;
	uint32_t nb_engines;

	bool privileged; /**< the daemon can map our shared memory */
	bool can_convert;
	bool bounce; /**< small messages may use bounce buffers */
	struct mem_file mem;

	struct client_qp *_Atomic *qps; /**< by the low bits of the QP number; entries change under the locks of the QP's CQs */
};

/** A thread domain. We make no use of the promise that its objects are used by only one thread. */
struct client_td {
	struct ibv_td td;
	_Atomic uint32_t users; /**< number of parent domains that use it */
};

/** A PD, or a parent domain, which has its PD's handle. */
struct client_pd {
	struct ibv_pd pd;
	struct client_pd *parent; /**< the PD of a parent domain, else NULL */
	struct client_td *td;     /**< of a parent domain, or NULL */
	bool imported;
	struct client_pd *next_left; /**< in client_ctx.left */
	struct client_bounce *bounce; /**< of a parent domain: its PD's */
	_Atomic uint32_t domains; /**< number of parent domains of a PD; of objects in memory of a parent domain's allocator */
	/** The program's allocator for objects made with the parent domain, or NULL; see man ibv_alloc_parent_domain. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/** What a program's allocator is asked for: the resource codes of our driver, whose id among rdma-core's drivers is "unknown". */
enum client_resource { CLIENT_RESOURCE_QP, CLIENT_RESOURCE_CQ, CLIENT_RESOURCE_SRQ };

/** Where the memory of an object comes from. */
struct client_memory {
	struct client_pd *pd; /**< the parent domain whose allocator gave it, or NULL: the C library */
	enum client_resource type;
};

struct client_channel {
	struct ibv_comp_channel channel;
	int send_fd;     /**< the end that the daemon's engines send on, for events that are due when a CQ is armed */
	uint32_t handle;
	_Atomic uint32_t waited_ns; /**< how long the last wait for an event took; written by every waiter */
	pthread_mutex_t mutex; /**< guards refcnt and the order of reads against the removal of a dead CQ's events */
	pthread_mutex_t watch_mutex; /**< held by the thread that watches the CQs, for a few dozen us at most */
	struct client_cq *cqs; /**< under watch_mutex */
	uint32_t nb_cqs;       /**< likewise */
};

struct client_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex; /**< begins with the same members */
	};
	struct client_lock lock; /**< protects everything down to cur_ctl */
	_Atomic uint32_t empty_polls; /**< written by every poller without the lock: it needn't be exact */
	bool single_threaded;    /**< created with IBV_CREATE_CQ_ATTR_SINGLE_THREADED: no lock is taken */
	bool extended;
	/** Threads read it without the lock even while a resize enlarges it: base is changed before order. */
	struct ring ring;
	uint64_t *stamps; /**< a time stamp per slot, or NULL */
	struct ring_cq_shared *shared;
	uint32_t reported;         /**< CQEs before this counter were polled or reported by an event */
	uint32_t seen;             /**< CQEs before this counter were there when the CQ was armed, or the last event was taken here */
	_Atomic bool moderated;    /**< ibv_modify_cq() was called: engines decide when there is an event */
	bool watched;              /**< under the channel's watch_mutex: its events are left to the thread that has it */
	struct client_cq *next;    /**< likewise: the next one of the channel */
	struct client_qp *last_qp; /**< QP of the last CQE; consecutive CQEs are mostly of one QP */
	struct ring_cqe cur;       /**< extended polling: the current CQE, which the readers read */
	union ring_cqe_ctl cur_ctl;

	struct client_memory memory;
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
	struct client_memory memory;
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
	union {
		struct ibv_qp_ex qp; /**< begins with struct ibv_qp */
		/**
		 * struct ibv_qp_ex as rdma-core has it from release 46 on: with one more member. Programs may have been built with such
		 * headers, and this library with older ones.
		 */
		struct {
			uint8_t as_in_44[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)];
			void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type,
					 uint8_t level);
		};
	};
	struct client_ctx *ctx;
	struct ring_qp_shared *shared;
	struct ring_db *db;
	uint32_t db_slot;
	uint32_t is_ex;    /**< ibv_wr_* may be used */
	uint32_t type_bit; /**< 1 << type, for the table of opcodes */
	struct uroce_qp_cap cap;
	struct client_bounce *bounce; /**< its PD's, or NULL */
	int sq_sig_all;
	struct client_memory memory;
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
	struct bounce_clean sq_clean;

	/* The producer of the RQ. */
	struct client_lock rq_lock __attribute__((aligned(CLIENT_CACHE_LINE)));
	struct ring rq;
	uint32_t rq_max;
	uint32_t rq_tail_seen;
	struct bounce_clean rq_clean;

	/* Written by the thread that polls the CQs, under their locks: WQEs whose completions were polled. */
	_Atomic uint32_t sq_tail __attribute__((aligned(CLIENT_CACHE_LINE)));
	_Atomic uint32_t rq_tail;
	_Atomic uint32_t sq_bounced, rq_bounced; /**< WQEs that have slots; also written by threads that post */
};

struct client_mr {
	struct ibv_mr mr;
	unsigned int access;
	uint64_t iova;
	bool fixed; /**< a null MR, one of device memory, or imported: it can't be registered anew */
	bool imported;
	struct client_mr *next; /**< in client_ctx.odp_mrs */
	struct copied copied;
	struct {
		RB_ENTRY(client_mr) node; /**< in client_bounce.regions, if it is noted */
		struct bounce_reach reach;
		bool noted;
	} bounce;
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

/** Lock both CQs of a QP in the order that avoids deadlocks. */
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

#endif /* UROCE_OBJECTS_PRIV_H */
