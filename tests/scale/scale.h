/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A fat tree of up to 1,024 hosts, each with a transport of lib/transport, in one process with a virtual clock. docs/scale.md says what is
 * simulated and what isn't.
 *
 * events.c has the clock and the queue of events, net.c links and switches, host.c the hosts, flows.c connections and messages, work.c which messages
 * are sent, report.c what is printed.
 */
#ifndef SCALE_H
#define SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "../sim/rng.h"
#include "transport/transport.h"

enum {
	SC_KEPT_BYTES = 256,    /**< of a frame that are kept; of a longer one, SC_HEAD_BYTES: the rest is payload that nobody looks at */
	SC_HEAD_BYTES = 96,
	SC_WIRE_BYTES = 24,     /**< preamble, FCS and gap of an Ethernet frame */
	SC_REGION_BYTES = 8 << 20,
	SC_DEPTH_MAX = 64,
};

/** Something that happens at a time. */
enum sc_kind { SC_ARRIVES, SC_RUNS, SC_POSTS, SC_LINKS, SC_WARM, SC_STARTS };
struct sc_event {
	struct sc_event *next;
	uint64_t at;         /**< ns */
	uint32_t where;      /**< SC_ARRIVES: link; SC_STARTS: end; others: host */
	uint8_t kind;
};

/** A packet on its way. */
struct sc_pkt {
	struct sc_event ev;
	uint32_t src, dst, hash;
	uint16_t bytes;      /**< of the frame */
	uint16_t kept;
	bool ect, urgent;    /**< urgent: a CNP, which switches send first */
	uint8_t frame[SC_KEPT_BYTES];
};

enum sc_workload { SC_INCAST, SC_PERMUTATION, SC_ALLTOALL, SC_STORAGE, SC_STORM, SC_MEMORY };

struct sc_options {
	uint32_t k, qps, depth, size, fan_in, fanout, window, conns, fail;
	enum sc_workload workload;
	enum tp_cc cc;
	uint64_t seed;
	double ms, warm_ms, start_us, load, read_share, fail_at_ms, repair_ms, detect_us;
	uint32_t gbps, prop_ns, turn_ns, nic_bytes, tx_packets;
	uint32_t mtu, timeout, retry, cwnd;
	bool sack, tlp, ecmp, quiet;
	uint32_t buffer_kb;   /**< of a switch, for each of its ports */
	double alpha, kmin_kb, kmax_kb, pmax;
	double far_us;
	double min_share, min_jain, max_p99;
};

/** One end of a connection. */
struct sc_msg {
	uint64_t posted_ns;  /**< or when it should have been */
	uint32_t len, psn;   /**< psn: of its first packet */
	bool read;
};
struct sc_end {
	struct qp *qp;
	uint32_t host, peer, stream;
	struct ring sq;
	struct ring_qp_shared *shared;
	struct sc_msg *msgs;     /**< NULL: it only answers */
	uint32_t depth, posted, done;
	uint32_t psn;            /**< of the next message */
	uint32_t rkey;           /**< of the peer's region */
	uint64_t done_bytes, warm_bytes;
	bool failed;
};

struct sc_wait {
	struct sc_wait *next;
	struct sc_msg m;
};
/** What one host sends another, over one or more connections. */
struct sc_stream {
	uint32_t src, dst, first, nb, turn; /**< ends first, first + 1 ...; turn: which is next */
	struct sc_wait *waits, **waits_end;
};

struct sc_host {
	struct transport *tp;
	struct shared sh;
	struct mr *mr;
	struct cq *cq;
	struct ring cq_ring;
	struct ring_cq_shared *cq_shared;
	struct sc_pkt *rx, **rx_end;
	uint64_t run_at, busy_until;
	struct rng rng;
	uint32_t nb_qps, cq_slots, first_stream, nb_streams, cursor;
};

struct sc_stats {
	uint64_t events, sent, arrived, dropped, dropped_links, marked, errors, msgs, max_queue, wall_ns;
};

struct sc_world {
	struct sc_options o;
	uint64_t now, end_ns, warm_ns;
	uint32_t m, nb_hosts;    /**< m: k / 2 */
	struct sc_host *hosts;
	struct sc_end *ends;
	struct sc_stream *streams;
	uint32_t nb_ends, max_ends, nb_streams, max_streams;
	uint32_t open;           /**< messages of a storm that aren't complete */
	uint64_t storm_ns;
	struct rte_mempool *pool;
	uint8_t *region;
	struct rng net_rng, work_rng;
	struct sc_stats s;
	float *fct_us, *slow;    /**< of each message that was posted and completed after the warm-up */
	uint32_t nb_fct, max_fct;
};
extern struct sc_world w;

/* ---- options.c ---- */
bool options_parse(int argc, char **argv, struct sc_options *o);
void options_print(const struct sc_options *o);
const char *workload_name(enum sc_workload v);

/* ---- events.c ---- */
void events_init(void);
void event_add(struct sc_event *e, uint64_t at);
/** As event_add(), of a new event that event_free() frees. */
void event_new(enum sc_kind kind, uint32_t where, uint64_t at);
void event_free(struct sc_event *e);
/** @return the next event, which is no longer in the queue, or NULL if it is later than @p until. Sets w.now. */
struct sc_event *event_take(uint64_t until);
struct sc_pkt *pkt_get(void);
void pkt_put(struct sc_pkt *p);

/* ---- net.c ---- */
void net_init(void);
/** @return bytes that the NIC of @p host still has to send. */
uint32_t net_backlog(uint32_t host);
/** The NIC of @p host takes a frame. */
void net_send(uint32_t host, const uint8_t *frame, uint16_t bytes);
void net_arrives(struct sc_pkt *p);
/** Links fail, are routed around, or are whole again: @p step 0 to 3. */
void net_links(uint32_t step);
/** @return links from @p a to @p b. */
uint32_t net_hops(uint32_t a, uint32_t b);
double net_ps_per_byte(void);
/** Everything to and from @p host takes --far-us longer, each way. */
void net_far(uint32_t host);

/* ---- host.c ---- */
bool hosts_make(void);
void host_receives(uint32_t host, struct sc_pkt *p);
void host_run_at(uint32_t host, uint64_t at);
void host_runs(uint32_t host, uint64_t at);
/** Make room in the CQ for what the ends of each host may have outstanding. Call once all streams are there. */
bool host_cqs_make(void);

/* ---- flows.c ---- */
/** @return the number of a new stream with @p qps connections, each with @p depth messages outstanding at most. @p both: the other host sends as well, by the stream after it. */
uint32_t stream_add(uint32_t src, uint32_t dst, uint32_t qps, uint32_t depth, bool both);
/** Connect everything. Call after host_cqs_make(). */
bool streams_connect(void);
/** Send a message, at once or as soon as a connection has room. */
void stream_send(uint32_t stream, uint32_t len, bool read);
/** Post as much as there is room for, again and again. */
void end_fill(struct sc_end *e);
/** @return whether the client did anything. */
bool client_polls(uint32_t host);
/** @return payload bytes that have arrived so far. */
uint64_t end_bytes(const struct sc_end *e);
bool qp_connect(uint32_t host, struct qp *qp, uint32_t peer_host, const struct qp *peer, uint32_t psn, uint32_t peer_psn);

/* ---- work.c ---- */
bool work_make(void);
void work_start(void);
void work_posts(uint32_t host);
/** A message of @p e is complete. */
void work_done(struct sc_end *e);

/* ---- memory.c ---- */
int memory_run(void);

/* ---- report.c ---- */
void report_done(const struct sc_end *e, const struct sc_msg *m);
/** @return whether the run is as good as the options ask. */
bool report_print(void);

#endif /* SCALE_H */
