/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Workloads: traffic such as verbs programs generate, each kind in one small file.
 *
 * A kind of workload is a struct workload_ops that its file registers with WORKLOAD(); `start` finds it, and `help`
 * describes it. flow.c contains what most kinds have in common: QPs and their memory, posting up to a depth or at a
 * rate, polling, ending, latencies. A kind only describes its operations.
 *
 * A running workload has *endpoints*. Each is a QP, and is active (begins operations) or passive (responds). The
 * endpoints of one host make up a *lane*, a job of the worker lcore that runs that host's engine.
 *
 * Threads: [main] the main lcore; [worker] the lane's worker. Any thread may read the counters.
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
	WORKLOADS_MAX = 64,      /**< running, or ended and not yet forgotten */
	WORKLOAD_KINDS_MAX = 32,
	WORKLOAD_QPS_MAX = 1024, /**< pairs of QPs of one workload */
	WORKLOAD_SIZE_MAX = 1 << 26,
	WORKLOAD_DEPTH_MAX = 4096,
	WORKLOAD_MEMORY_MAX = 1 << 30, /**< bytes of one lane */
	WORKLOAD_ERROR_BYTES = 256,
	WORKLOAD_NAME_BYTES = 16,
	LANE_CQS_MAX = 64,
};

struct endpoint;
struct lane;
struct workload;

/** A kind of traffic. Members may be NULL if their comments say so. */
struct workload_ops {
	const char *name, *help;
	enum ibv_qp_type qp_type;
	enum ibv_wr_opcode opcode; /**< opcode of its WRs, unless make() changes it */
	bool many_to_one;      /**< all hosts but `to` are sources */
	bool both_post;        /**< passive endpoints send too */
	bool receives;         /**< endpoints that get messages post receives; implied by both_post for active ones */
	bool reaches_memory;   /**< accesses the peer's memory: needs an rkey, and WRs have the remote address of the slot */
	uint32_t areas;        /**< blocks of memory per slot and endpoint */
	uint32_t size, depth;  /**< defaults; 0: 4096 and 16 */
	uint32_t fixed_size;   /**< 0: the user chooses */
	const struct arg *args; /**< its own options, NULL: none */
	/**
	 * [main] Read the options. NULL: nothing to do.
	 * @return 0, or -1 with w->error.
	 */
	int (*setup)(struct workload *w, const struct call *c);
	/**
	 * [worker] Describe the operation of @p slot. The WR has already been filled in from the members above, with
	 * wr_id, signaling and one SGE for all of area 0 of the slot. NULL: nothing to change.
	 */
	void (*make)(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr);
	/** [worker] The WR is complete. NULL: so is the operation. */
	void (*sent)(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc);
	/** [worker] A message has arrived; its receive is posted again afterwards. NULL: only count it. */
	void (*received)(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc);
	/**
	 * [main] The workload ended without errors: check the result. NULL: nothing to do.
	 * @return 0, or -1 with w->error.
	 */
	int (*check)(struct workload *w);
	/**
	 * [a thread of its own] Used instead of endpoints. Returns when w->stop is set or all is done. NULL: endpoints.
	 */
	void (*run)(struct workload *w);
	/** [any] Describe more than rates. NULL: nothing more. */
	void (*describe)(const struct workload *w, char *text, size_t bytes);
};

/** Options that the user gave. */
struct workload_opts {
	uint32_t size, depth, qps;
	double rate;        /**< operations per second of all QPs; 0: unlimited */
	double duration;    /**< seconds; 0: until it is stopped */
	uint64_t count;     /**< operations of all QPs; 0: no limit */
	uint64_t seed;
	bool ipv6;
	struct connect_attr connect;
};

/** One QP of a workload. */
struct endpoint {
	struct lane *lane;
	struct endpoint *peer;   /**< if it is in this process, else NULL */
	struct object *object;   /**< the user's QP; NULL: the QP is ours */
	struct ibv_qp *qp;
	struct ibv_mr *mr;       /**< MR of its memory, if it has one of its own; NULL: the lane's MR covers it */
	struct ibv_ah *ah;       /**< UD */
	uint32_t remote_qpn;     /**< UD */
	uint32_t number;         /**< among the workload's pairs */
	uint16_t wr_index;       /**< in its lane */
	bool active;
	uint8_t *mem;            /**< depth slots for each area, then the receive buffers */
	uint8_t *recv_mem;
	uint32_t lkey;
	uint64_t remote;         /**< address of the peer's mem */
	uint32_t rkey;
	uint32_t recv_depth;
	uint32_t psn;
	/* For active endpoints. */
	uint64_t quota;          /**< operations to begin; UINT64_MAX: no limit */
	uint64_t begun, done;    /**< operations */
	uint64_t next_tsc;       /**< if there is a rate */
	uint64_t *stamps;        /**< time when each slot's operation began */
	uint8_t *phases;         /**< for workloads whose operations have several steps */
	uint64_t *numbers;       /**< likewise: number of the operation in each slot */
	uint32_t *free_slots;    /**< stack of free slots */
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
	struct ibv_cq *cqs[LANE_CQS_MAX]; /**< [0] is ours, if any endpoint's QP is ours */
	unsigned int nb_cqs;
	bool own_cq;
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t bytes;
	struct endpoint *eps;
	uint32_t nb_eps, next_ep;
	uint32_t nb_active, nb_finished; /**< active endpoints, and those that have finished all their operations */
	struct hist hist;        /**< latencies of operations in ns */
	_Atomic uint64_t end_tsc; /**< when done was set */
	atomic_bool done;        /**< nothing is in flight and nothing more will be begun */
};

enum workload_state { WORKLOAD_RUNNING, WORKLOAD_STOPPING, WORKLOAD_DONE, WORKLOAD_FAILED };

struct workload {
	char name[WORKLOAD_NAME_BYTES];
	const struct workload_ops *ops;
	struct workload_opts o;
	struct host *from, *to;
	uint16_t tag;                  /**< part of the wr_id of all its work requests; not 0 */
	struct lane *lanes[HOSTS_MAX];
	unsigned int nb_lanes;
	pthread_t thread;
	bool threaded;
	bool attached;
	atomic_int state;              /**< enum workload_state */
	atomic_bool stop;              /**< begin no more operations */
	_Atomic uint64_t thread_end_tsc; /**< when run() returned; 0: it hasn't */
	_Atomic uint64_t begin_tsc;
	_Atomic uint64_t end_tsc;      /**< when its last operation ended; 0: it runs, or its end hasn't been announced yet */
	uint64_t deadline_tsc;         /**< 0: none */
	uint64_t late_before;          /**< late turns of all engines before it began */
	double tsc_per_op;             /**< if there is a rate: cycles between operations of one endpoint */
	atomic_flag failing;           /**< the thread that sets it writes the error */
	char error[WORKLOAD_ERROR_BYTES];
	_Atomic uint64_t extra[4];     /**< used by the kind of workload */
	_Atomic uint64_t own_ops, own_bytes; /**< counted by run() */
	struct hist own_hist;
	/* The values at the last sample, for rates over an interval. */
	struct workload_look {
		uint64_t tsc, ops, bytes;
		struct hist hist;
	} last;
};

/** Register a kind of workload, before main(). */
void workload_add(const struct workload_ops *ops);
#define WORKLOAD(ops) \
	static void __attribute__((constructor)) workload_##ops(void) \
	{ \
		workload_add(&ops); \
	}
const struct workload_ops *workload_kind(const char *name);
/** For tables of arguments. */
const char *workload_kind_names(unsigned int i);
/** Names of the workloads that run or have ended. */
const char *workload_names(unsigned int i);
struct workload *workload_find(const char *name);
struct workload *workload_at(unsigned int i);
const char *workload_state_text(const struct workload *w);

/* ---- [main] ---- */
/**
 * Start a workload.
 * @return 0, or -1 with a message printed for @p c.
 */
int workload_start(const struct workload_ops *ops, const struct call *c);
/** Stop a workload, after the operations in flight. Its figures are kept until it is forgotten. */
void workload_stop(struct workload *w);
/**
 * Wait until a workload ends by itself, at most @p seconds; 0: without limit.
 * @return false: it is still running.
 */
bool workload_wait(struct workload *w, double seconds);
/**
 * Announce workloads that have ended, and free their resources. Called before each command and while the user types nothing; the figures are
 * those of the end itself.
 */
void workloads_reap(void);
/** @return true if workloads_reap() has something to announce. */
bool workloads_due(void);
/** Forget a workload that has ended. */
void workload_forget(struct workload *w);
void workloads_stop_all(void);
/** Wait for those that end by themselves, and stop the others. */
void workloads_finish(void);
/** @return the number of workloads that have failed since the start. */
unsigned int workloads_failed(void);
/** From now on print a line for each workload every @p seconds; 0: stop that. */
void workloads_period(unsigned int seconds);
unsigned int workloads_get_period(void);

/** Figures of a workload at one moment. */
struct workload_figures {
	double seconds;      /**< since the start, or until the end */
	uint64_t ops, bytes, received;
	double ops_rate, bit_rate;
	uint64_t p50, p99, p999, latencies; /**< percentiles in ns, and how many latencies were measured */
};
/** [any] Get the figures since the start or, with @p interval, since the last such call. */
void workload_figures(struct workload *w, bool interval, struct workload_figures *f);
/**
 * Write the figures in one line.
 * @return @p text.
 */
char *workload_line(struct workload *w, const struct workload_figures *f, char *text, size_t bytes);

/* ---- setup.c [main] ---- */
/**
 * Make lanes and endpoints. The caller frees them with workload_teardown(), also on failure.
 * @return 0, or -1 with w->error.
 */
int workload_build(struct workload *w);
/** As workload_build(), on the user's QPs, whose names @p list contains, separated by commas. */
int workload_build_on(struct workload *w, const char *list);
void workload_teardown(struct workload *w);

/* ---- flow.c [worker] ---- */
uint32_t flow_step(struct job *job);
/** [main] Post the receives. @return 0 or an errno value. */
int flow_prepare(struct endpoint *ep);
/** The operation of @p slot is complete: count @p bytes and its latency, and free the slot. */
void flow_done(struct endpoint *ep, uint32_t slot, uint64_t bytes);
/** Post another WR for the operation of @p slot. make() describes it. */
void flow_post(struct endpoint *ep, uint32_t slot);
/** Fail the workload with this message; only the first one is kept. [any] */
void workload_fail(struct workload *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool
workload_failing(const struct workload *w)
{
	return atomic_load_explicit(&w->state, memory_order_relaxed) == WORKLOAD_FAILED;
}

/** @return bytes from one slot to the next. */
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
