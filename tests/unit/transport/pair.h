/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two hosts in one process, wired back to back, with a clock that stands still unless a test moves it.
 *
 * A host is a transport with its own MR and QP tables. An end is a QP with rings and CQs in ordinary memory and the
 * client's view of them: what lib/verbs does, as plainly as can be. Every packet that crosses the wire is noted,
 * and a test's filter may lose it.
 */
#ifndef UROCE_TEST_PAIR_H
#define UROCE_TEST_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/transport.h"

enum {
	PAIR_PD = 7,
	PAIR_MAX_EVENTS = 32,
	PAIR_MAX_LOG = 4096,
	PAIR_MAX_COPIES = 64,
	PAIR_MAX_ENDS = 16,
	PAIR_QPS = 64,
	PAIR_QUEUES = 32,
	PAIR_NS = 1,
	PAIR_US = 1000,
	PAIR_MS = 1000000,
	PAIR_TIMEOUT = 14, /* 67 ms */
};

struct pair;

/** A packet that was sent, whether or not it arrived. */
struct note {
	unsigned int from; /* host */
	struct wire_bth bth;
	uint8_t syndrome;  /* of an AETH, else 0xff */
	uint32_t msn;
	uint32_t payload;
	uint32_t reth_len;
	uint8_t dmac[6];
	uint16_t sport;
	uint32_t flow_label; /* of IPv6, else 0 */
	bool lost;
};

struct host {
	struct pair *pair;
	unsigned int id;
	struct transport *tp;
	struct shared sh;
	struct tp_event events[PAIR_MAX_EVENTS];
	unsigned int nb_events;
	struct mem_job *copies[PAIR_MAX_COPIES]; /* that its transport wants made, the oldest first */
	unsigned int nb_copies;
	bool no_copies; /* it can't have any made now */
	void *journal;  /* of its transport, or NULL */
	uint32_t nb_cqs, nb_srqs; /* made so far: their numbers */
};

struct end_cq {
	struct cq *cq;
	struct ring ring; /* the client's: counter is what it polls next */
	struct ring_cq_shared shared;
	void *mem;
	unsigned int events; /* raised and not taken */
	bool no_room;        /* its channel takes no events */
};

struct end_srq {
	struct srq *srq;
	struct ring ring;
	struct ring_srq_shared shared;
	void *mem;
	uint32_t srqn;    /* XRC; 0: none */
	struct end_cq cq; /* XRC */
};

struct end {
	struct host *host;
	struct qp *qp;
	struct ring sq, rq; /* the client's: counter is what it posts next */
	void *sq_mem, *rq_mem;
	struct ring_qp_shared shared;
	struct end_cq scq, rcq;
	struct end_srq *srq;
	enum uroce_qp_type type;
};

/** How an end is made; zeros are good defaults. */
struct end_opts {
	enum uroce_qp_type type;
	uint32_t sq_depth, rq_depth, cq_depth, max_sge, max_inline, max_mtu;
	bool sig_all;
	struct end_srq *srq;
	bool channel;
	uint32_t xrcd; /* XRC_RECV */
	struct share *share;
};

/** How two ends are connected; zeros are good defaults. */
struct conn_opts {
	uint32_t mtu, psn;        /* UROCE_MTU_*; of both directions */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, dest_rd_atomic;
	bool no_retry, no_rnr_retry, no_dest_rd_atomic, no_rd_atomic;
	uint32_t access;
	uint8_t sqd_notify;
	bool v6;
};

struct wr {
	uint64_t id;
	enum uroce_wr_op op;
	uint8_t flags;       /* SIGNALED is added unless unsignaled */
	bool unsignaled;
	const struct ring_sge *sge;
	uint32_t nb_sge;
	const void *inline_data;
	uint32_t inline_bytes;
	uint64_t remote_addr;
	uint32_t rkey, imm;
	uint64_t compare_add, swap;
	uint32_t srqn; /* XRC_SEND */
};

struct pair {
	struct host h[2];
	bool journals;
	uint64_t now;
	struct note log[PAIR_MAX_LOG];
	uint32_t nb_log;
	/* @return true to lose the packet. */
	bool (*lose)(struct pair *p, const struct note *n, void *arg);
	void *lose_arg;
	bool stalled; /* nothing leaves the TX vectors */
	bool duplicate; /* each packet arrives twice */
	bool singly;    /* each packet is a burst of its own, with a turn behind it */
	uint32_t mbufs_before;
};

/** Group setup: EAL and the mempool. */
int pair_group_setup(void **state);
int pair_group_teardown(void **state);
struct rte_mempool *pair_pool(void);
/** Mbufs that somebody holds. */
uint32_t pair_mbufs_in_use(void);

struct pair *pair_new(void);
/** The same with journals, for so many QPs as a table has, and copies that transports make themselves. @param items  tp_limits.journal_items. */
struct pair *pair_new_journal(uint16_t items);
/** A transport of a host, with a new journal if there are journals. */
struct transport *host_transport(struct host *h, const struct tp_port_config *port, const struct tp_limits *limits);
/** The same with congestion control on both ports. */
struct pair *pair_new_cc(const struct tp_port_config *port);
/** Checks that no mbuf is left behind. */
void pair_free(struct pair *p);
/** Let packets flow until nothing moves; the clock stands still. */
void pair_settle(struct pair *p);
/** Move the clock in small steps and let everything happen that becomes due. */
void pair_advance(struct pair *p, uint64_t ns);
/** One turn of one host, without delivering what it sends. @return work. */
uint32_t host_turn(struct host *h);
/** Count noted packets: opcode from host @p from, all if opcode is -1. */
uint32_t pair_count(const struct pair *p, unsigned int from, int opcode);
/** Count ACK packets with syndrome type @p syndrome (exact for NAKs, type for RNR) from a host. */
uint32_t pair_count_syndrome(const struct pair *p, unsigned int from, uint8_t syndrome);
unsigned int host_events(const struct host *h, enum uroce_event type);
/** From host @p from to the other one. */
struct wire_addr pair_address(unsigned int from, bool v6);
/** Mark a packet congestion experienced, as a switch does. */
void packet_mark_ce(struct rte_mbuf *m);
/** Deliver a hand-made RC packet to @p e as if its peer had sent it. */
void pair_inject(struct pair *p, struct end *e, const struct wire_bth *b, const void *after_bth, uint32_t len);

struct end *end_new(struct host *h, const struct end_opts *o);
void end_free(struct end *e);
/** Both to RTS, connected to each other. */
void ends_connect(struct end *a, struct end *b, const struct conn_opts *o);
void end_to_rtr(struct end *e, const struct end *peer, const struct conn_opts *o);
void end_to_rts(struct end *e, const struct conn_opts *o);
/** @return what qp_modify() returns. */
int end_state(struct end *e, enum uroce_qp_state s);

/** An AH that leads to the other host, or with @p loopback to this one. */
uint32_t host_ah(struct host *h, uint32_t pd, bool v6, bool loopback);
/** An AH that leads to a multicast group, 239.18.0.1 or ff0e::18:1. */
uint32_t host_group_ah(struct host *h, uint32_t pd, bool v6);
/** The GID of that group. */
const struct gid *pair_group(bool v6);
void ud_to_rts(struct end *e, uint32_t qkey);

/** Make the oldest copies, at most @p n, of memory that isn't mapped, and let everything happen. @return how many. */
unsigned int host_copy(struct host *h, unsigned int n);

struct mr *host_mr(struct host *h, void *buf, uint64_t len, uint32_t access);
struct end_srq *srq_new(struct host *h, uint32_t depth, uint32_t max_sge);
/** An XRC SRQ with a CQ of its own. */
struct end_srq *xsrq_new(struct host *h, uint32_t pd, uint32_t xrcd, uint32_t srqn, uint32_t depth);
void srq_free(struct host *h, struct end_srq *s);
void srq_post(struct end_srq *s, uint64_t id, const struct ring_sge *sge, uint32_t nb_sge);

/** Post; rings the doorbell if the engine doesn't watch. */
void end_send(struct end *e, const struct wr *wr);
void end_recv(struct end *e, uint64_t id, const struct ring_sge *sge, uint32_t nb_sge);
bool cq_poll(struct end_cq *c, struct ring_cqe *out, union ring_cqe_ctl *ctl);
/** The next completion, which must be there, must have @p id and @p status. */
struct ring_cqe expect_cqe(struct end_cq *c, uint64_t id, enum uroce_wc_status status);
void expect_no_cqe(struct end_cq *c);

void fill(uint8_t *buf, size_t len, uint32_t seed);

#define SGE(buf, len, mr) \
	(&(struct ring_sge){ .addr = (uint64_t)(uintptr_t)(buf), .length = (uint32_t)(len), .lkey = (mr)->key })
#define ADDR(p) ((uint64_t)(uintptr_t)(p))
#define ACCESS_ALL \
	(UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC)

#endif /* UROCE_TEST_PAIR_H */
