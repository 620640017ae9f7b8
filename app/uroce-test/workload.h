/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Workloads: traffic that verbs programs make, in one small file each.
 *
 * A workload is a struct workload_ops that its file registers by WORKLOAD(); `start` finds it, `help` describes it. What
 * most have in common is flow.c's: QPs and their memory, posting up to a depth or at a rate, polling, ends, latencies. A
 * workload says what one operation is.
 *
 * One that runs has *endpoints*, each a QP, active (it begins operations) or passive (it answers). Endpoints of one host
 * make a *lane*, which is a job of the worker lcore on which that host's engine runs.
 *
 * Threads: [main] the main lcore; [worker] the lane's. Counters are read by any.
 */
#ifndef UROCE_TEST_WORKLOAD_H
#define UROCE_TEST_WORKLOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "uroce_verbs.h"

#include "command.h"
#include "hist.h"
#include "hosts.h"
#include "objects.h"

enum {
	WORKLOADS_MAX = 64,      /**< that run or wait to be looked at */
	WORKLOAD_KINDS_MAX = 32,
	WORKLOAD_QPS_MAX = 1024, /**< pairs of one */
	WORKLOAD_SIZE_MAX = 1 << 26,
	WORKLOAD_DEPTH_MAX = 4096,
	WORKLOAD_MEMORY_MAX = 1 << 30, /**< of one lane, bytes */
	WORKLOAD_ERROR_BYTES = 256,
	WORKLOAD_NAME_BYTES = 16,
	LANE_CQS_MAX = 64,
};

struct endpoint;
struct lane;
struct workload;

/** What kind of traffic. Members that say so may be NULL. */
struct workload_ops {
	const char *name, *help;
	enum ibv_qp_type qp_type;
	enum ibv_wr_opcode opcode; /**< of its WRs, unless make() says otherwise */
	bool many_to_one;      /**< all hosts but `to` are sources */
	bool both_post;        /**< passive endpoints send as well */
	bool receives;         /**< endpoints that get messages post receives; implied by both_post for active ones */
	bool reaches_memory;   /**< of the peer: an rkey is needed, WRs have the slot's remote address */
	uint32_t areas;        /**< pieces of memory per slot and endpoint: one is 0 */
	uint32_t size, depth;  /**< defaults; 0: 4096 and 16 */
	uint32_t fixed_size;   /**< 0: as the user wants it */
	const struct arg *args; /**< its own options, NULL: none */
	/** [main] Read them. NULL: nothing to do. @return 0, or -1 with w->error. */
	int (*setup)(struct workload *w, const struct call *c);
	/**
	 * [worker] Describe the operation of @p slot. What the members above say is there already, and wr_id, signalling and one
	 * SGE, which covers all of area 0 of the slot. NULL: nothing to add.
	 */
	void (*make)(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr);
	/** [worker] It is complete. NULL: then so is the operation. */
	void (*sent)(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc);
	/** [worker] A message has arrived; its receive is posted again afterwards. NULL: it is counted. */
	void (*received)(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc);
	/** [main] All has ended well: look at the result. NULL: nothing to do. @return 0, or -1 with w->error. */
	int (*check)(struct workload *w);
	/** [a thread of its own] Instead of endpoints. Returns when w->stop is set or all is done. NULL: endpoints. */
	void (*run)(struct workload *w);
	/** [any] Say more than rates. NULL: nothing to say. */
	void (*describe)(const struct workload *w, char *text, size_t bytes);
};

/** What the user wants. */
struct workload_opts {
	uint32_t size, depth, qps;
	double rate;        /**< operations per second of all QPs; 0: as fast as it goes */
	double duration;    /**< seconds; 0: until it is stopped */
	uint64_t count;     /**< operations of all QPs; 0: no limit */
	uint64_t seed;
	bool ipv6;
	struct connect_attr connect;
};

/** One QP of a workload. */
struct endpoint {
	struct lane *lane;
	struct endpoint *peer;   /**< in this process, else NULL */
	struct object *object;   /**< the user's QP, else NULL: it is ours */
	struct ibv_qp *qp;
	struct ibv_mr *mr;       /**< ours, of its memory; NULL: the lane's covers it */
	struct ibv_ah *ah;       /**< UD */
	uint32_t remote_qpn;     /**< UD */
	uint32_t number;         /**< among the workload's pairs */
	uint16_t wr_index;       /**< in its lane */
	bool active;
	uint8_t *mem;            /**< depth slots for each area, then the receives */
	uint8_t *recv_mem;
	uint32_t lkey;
	uint64_t remote;         /**< of the peer's mem */
	uint32_t rkey;
	uint32_t recv_depth;
	uint32_t psn;
	/* Of an active one. */
	uint64_t quota;          /**< operations to begin; UINT64_MAX: no limit */
	uint64_t begun, done;    /**< operations */
	uint64_t next_tsc;       /**< with a rate */
	uint64_t *stamps;        /**< when each slot's operation began */
	uint8_t *phases;         /**< for workloads whose operations have several steps */
	uint64_t *numbers;       /**< likewise: which operation is in each slot */
	uint32_t *free_slots;    /**< a stack */
	uint32_t nb_free;
	/* Counters. */
	_Atomic uint64_t ops, bytes, received;
};

/** The endpoints of one host. */
struct lane {
	struct job job;
	struct workload *w;
	struct host *host;
	struct ibv_pd *pd;
	struct ibv_cq *cqs[LANE_CQS_MAX]; /**< [0] is ours, if there is any endpoint of ours */
	unsigned int nb_cqs;
	bool own_cq;
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t bytes;
	struct endpoint *eps;
	uint32_t nb_eps, next_ep;
	uint32_t nb_active, nb_finished; /**< active endpoints, and those that have begun and ended all of theirs */
	struct hist hist;        /**< nanoseconds from begin to end of an operation */
	atomic_bool done;        /**< nothing is in flight and nothing will be begun */
};

enum workload_state { WORKLOAD_RUNNING, WORKLOAD_STOPPING, WORKLOAD_DONE, WORKLOAD_FAILED };

struct workload {
	char name[WORKLOAD_NAME_BYTES];
	const struct workload_ops *ops;
	struct workload_opts o;
	struct host *from, *to;
	uint16_t tag;                  /**< in the wr_id of all its work requests; not 0 */
	struct lane *lanes[HOSTS_MAX];
	unsigned int nb_lanes;
	pthread_t thread;
	bool threaded;
	bool attached;
	atomic_int state;              /**< enum workload_state */
	atomic_bool stop;              /**< begin nothing more */
	atomic_bool thread_done;
	_Atomic uint64_t begin_tsc, end_tsc; /**< 0: it hasn't ended */
	uint64_t deadline_tsc;         /**< 0: none */
	double tsc_per_op;             /**< with a rate: cycles between operations of one endpoint */
	atomic_flag failing;           /**< who sets it writes the error */
	char error[WORKLOAD_ERROR_BYTES];
	_Atomic uint64_t extra[4];     /**< the workload's own */
	_Atomic uint64_t own_ops, own_bytes; /**< of run() */
	struct hist own_hist;
	/* What was there at the last look, for rates over an interval. */
	struct workload_look {
		uint64_t tsc, ops, bytes;
		struct hist hist;
	} last;
};

/** Register a kind, before main(). */
void workload_add(const struct workload_ops *ops);
#define WORKLOAD(ops) \
	static void __attribute__((constructor)) workload_##ops(void) \
	{ \
		workload_add(&ops); \
	}
const struct workload_ops *workload_kind(const char *name);
/** For tables of arguments. */
const char *workload_kind_names(unsigned int i);
/** Names of those that run or ran. */
const char *workload_names(unsigned int i);
struct workload *workload_find(const char *name);
struct workload *workload_at(unsigned int i);
const char *workload_state_text(const struct workload *w);

/* ---- [main] ---- */
/** Begin one. @return 0, or -1 with a message printed for @p c. */
int workload_start(const struct workload_ops *ops, const struct call *c);
/** End it, after the operations in flight. Its figures stay until it is forgotten. */
void workload_stop(struct workload *w);
/** Wait until it ends by itself, at most @p seconds; 0: as long as it takes. @return false: it runs still. */
bool workload_wait(struct workload *w, double seconds);
/** Give back what it had; called before commands, so that what has ended holds nothing. */
void workloads_reap(void);
/** Forget it; it has ended. */
void workload_forget(struct workload *w);
void workloads_stop_all(void);
/** Wait for those that end by themselves, stop the others. */
void workloads_finish(void);
/** @return workloads that have failed since the start. */
unsigned int workloads_failed(void);
/** Print a line for each every so many seconds from now on, 0: don't. */
void workloads_period(unsigned int seconds);
unsigned int workloads_get_period(void);

/** Figures at one moment. */
struct workload_figures {
	double seconds;      /**< since the start, or until the end */
	uint64_t ops, bytes, received;
	double ops_rate, bit_rate;
	uint64_t p50, p99, p999, latencies; /**< ns; how many were measured */
};
/** [any] Since the start; or, with @p interval, since the last such call. */
void workload_figures(struct workload *w, bool interval, struct workload_figures *f);
/** One line of them. @return @p text. */
char *workload_line(struct workload *w, const struct workload_figures *f, char *text, size_t bytes);

/* ---- setup.c [main] ---- */
/** Make lanes and endpoints. @return 0, or -1 with w->error. What was made is workload_teardown()'s to free. */
int workload_build(struct workload *w);
/** The same on the user's QPs, whose names are @p list, with commas between. */
int workload_build_on(struct workload *w, const char *list);
void workload_teardown(struct workload *w);

/* ---- flow.c [worker] ---- */
uint32_t flow_step(struct job *job);
/** [main] Post the receives. @return 0 or an errno value. */
int flow_prepare(struct endpoint *ep);
/** The operation of @p slot is complete: count @p bytes and its latency, and let the slot be used again. */
void flow_done(struct endpoint *ep, uint32_t slot, uint64_t bytes);
/** Post one WR more for @p slot, whose operation has begun. make() describes it. */
void flow_post(struct endpoint *ep, uint32_t slot);
/** The workload has failed, for this reason; the first one counts. [any] */
void workload_fail(struct workload *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool
workload_failing(const struct workload *w)
{
	return atomic_load_explicit(&w->state, memory_order_relaxed) == WORKLOAD_FAILED;
}

/** Bytes from slot to slot. */
static inline size_t
flow_stride(const struct workload *w)
{
	return ((size_t)w->o.size + 63) & ~(size_t)63;
}

/** @return where area @p area of a slot is, in the endpoint's memory. */
static inline uint8_t *
flow_slot(const struct endpoint *ep, uint32_t area, uint32_t slot)
{
	const struct workload *w = ep->lane->w;

	return ep->mem + ((size_t)area * w->o.depth + slot) * flow_stride(w);
}

/** @return the address of area 0 of a slot at the peer. */
static inline uint64_t
flow_remote(const struct endpoint *ep, uint32_t slot)
{
	return ep->remote + (uint64_t)slot * flow_stride(ep->lane->w);
}

#endif /* UROCE_TEST_WORKLOAD_H */
