/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of the simulator of lib/cm share: two hosts, the connections between them, and what is to happen.
 *
 * test_sim.c has the rounds and what must hold at their ends; sim_queue.c what will happen when, on a virtual clock; sim_owner.c the programs,
 * which answer and leave, sim_calls.c what they call; sim_watch.c and sim_sent.c an observer of each MAD, event and counter; sim_hostile.c MADs that are not what they should
 * be; sim_misuse.c calls that are wrong; sim_replace.c CMs that go on from records; sim_sidr.c service ID resolution; sim_wire.c the formats.
 */
#ifndef TEST_CM_SIM_H
#define TEST_CM_SIM_H

#include "../../sim/rng.h"
#include "cm/cm.h"
#include "sim_wire.h"

enum {
	ACTIVE = 0,
	PASSIVE = 1,
	PAIRS = 120,
	ASKERS = 12,           /* SIDR_REQs of a round */
	MAX_CONNS = 512,       /* a power of two: any ID of one CM may be taken by the next */
	QPNS = 1024,
	FIRST_QPN = 2,
	TICK_NS = 1024,        /* timers fire so much late at most */
	MAX_CODE = 14,         /* of a path's times: 67 ms */
};
#define MS UINT64_C(1000000)
#define MAX_DELAY_NS (30 * MS)
#define SERVICE UINT64_C(0x1000000000000042)
#define TCP_SERVICE UINT64_C(0x1061234)        /* of the RDMA CM's: private data begin with an IP header */
#define NO_SERVICE UINT64_C(0x1000000000000043) /* nobody listens */

enum what { MAD, CONNECT, ACCEPT, REJECT, RTU, COMM_EST, DISCONNECT, DIE, REBOOT, BLACKOUT, ASK, REPLY, LAP, APR, REPLACE };

struct item {
	uint64_t at, order;
	enum what what;
	unsigned int host;   /* MAD: to which; REBOOT: which */
	uint32_t pair;
	unsigned int side;
	uint32_t serial;     /* of the pair when this was planned */
	struct cm_av av;
	uint8_t mad[CM_MAD_BYTES];
};

/* What an observer of the wire knows of one end of a connection. */
struct wire_end {
	uint32_t id;
	uint64_t tid;             /* of the REQ or REP to be answered, later of the DREQ */
	uint64_t interval_ns, life_ns, timewait_ns, kept_ns;
	uint64_t due_ns;          /* when its MAD is repeated or TimeWait is over; 0: no timer */
	unsigned int left;        /* repetitions */
	unsigned int probes;      /* left of the question whether the peer still knows the connection */
	uint64_t probed_ns;       /* when that was asked last; 0: never */
	bool forgot_qp;           /* a refused request: it is there to repeat its REJ */
	struct cm_av av;
	uint8_t last[CM_MAD_BYTES]; /* what it sent last, but for what it had no connection for */
};

/* The two ends of a connection as their owners see them. */
struct pair {
	uint32_t serial;         /* another for each round; 0: not in use */
	unsigned int host[2];    /* where the active and the passive end are */
	struct cm_conn *conn[2]; /* NULL: not yet, or destroyed */
	uint32_t qpn[2];
	bool established[2], over[2];
	bool asked;              /* the REQUEST has come */
	bool torn;               /* one of its hosts was started anew */
	bool cut;                /* the link was down for longer than all repetitions, or they end too soon */
	bool lap;                /* its owner was asked for another path */
	struct cm_connect_param cp;
	struct cm_accept_param ap;
	uint8_t req_data[CM_REQ_PRIVATE_BYTES], rep_data[CM_REP_PRIVATE_BYTES];
	struct wire_end end[2];
};

/* What a call into the CM may send. */
struct doing {
	struct doing *outer;
	enum { CALL, ARRIVAL, TIMER } what;
	uint8_t expect[2][CM_MAD_BYTES];
	unsigned int nb_expect, nb_sent, nb_events;
	struct pair *pair;            /* CALL: of what is expected */
	unsigned int side;
	const uint8_t *mad;           /* ARRIVAL */
	const struct cm_av *av;
	bool again;                   /* the same MAD came before */
	bool bad;                     /* it isn't as its sender sent it: nobody is told of it */
	uint16_t reason;              /* for which it is refused then */
	struct wire_end *stale;       /* a REQ that names its peer's QP */
};

/* A request for a service's QP. */
struct asker {
	struct cm_conn *conn[2];
	uint32_t serial;
	unsigned int host;        /* that asks */
	bool asked, cut;
	struct cm_sidr_param sp;
	struct cm_sidr_reply_param rp;
	uint8_t req_data[CM_SIDR_REQ_PRIVATE_BYTES], rep_data[CM_SIDR_REP_PRIVATE_BYTES], info[CM_ARI_BYTES];
	uint8_t req[CM_MAD_BYTES], rep[CM_MAD_BYTES];
	uint64_t due_ns;
	unsigned int left;
};

struct host {
	struct world *w;
	struct cm *cm;
	unsigned int number;
	struct doing *doing;
	struct cm_listener *listeners[4]; /* by enum cm_listen_scope */
	struct cm_listener *tcp;          /* of TCP_SERVICE */
	const void *gone;                 /* the owner whose QP has failed */
	struct cm_counters before;        /* when what it does began */
	uint64_t nb_sent, nb_received, nb_again, nb_established, nb_disconnected, nb_refused;
	bool qpn_used[QPNS];
	uint32_t next_qpn;
};

#define SEEN_MAX (1 << 16)
#define QUEUE_MAX (1 << 16)
struct world {
	uint64_t seed, now, order, dark_until;
	struct rng rng;
	struct rng bad_rng, data_rng;
	uint32_t loss_ppm, dup_ppm, serial;
	bool ipv6;
	struct {
		uint32_t half_open, per_peer, backlog, kept; /* 0: as many as there are */
	} limits;
	bool rebooted;                    /* in this round */
	struct host hosts[2];
	struct pair pairs[PAIRS];
	struct asker askers[ASKERS];
	struct item *queue[QUEUE_MAX];
	uint32_t nb_queue;
	uint64_t seen[SEEN_MAX];          /* hashes of the MADs that have come in this round */
	uint64_t nb_established, nb_rejected, nb_stale, nb_died, nb_unreachable, nb_both, nb_ghosts, nb_comm_est, nb_bad, nb_laps, nb_sidr, nb_replaced, nb_forged;
};

/* ---- test_sim.c ---- */
void failed(const struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
struct gid host_gid(const struct world *w, unsigned int number);
uint64_t host_guid(unsigned int number);
/** @return the address from this host to the other. */
struct cm_av host_av(const struct world *w, unsigned int number);

/** Let a MAD arrive at host @p to some time, as its sender's @p av says. */
void carry(struct world *w, unsigned int to, const struct cm_av *av, const uint8_t *mad);

void host_start(struct world *w, unsigned int number);

/* ---- sim_queue.c ---- */
struct item *plan(struct world *w, uint64_t delay_ns, enum what what);
/** Plan what end @p side of a pair does within @p max_delay_ns. */
void plan_for(struct world *w, uint64_t max_delay_ns, enum what what, uint32_t pair, unsigned int side);
/** Take what happens next. The caller frees it. */
struct item *next_item(struct world *w);

/* ---- sim_watch.c ---- */
/** For cm_ops. */
void watch_send(void *arg, const struct cm_av *av, const uint8_t *mad);
/** A host begins something, of which @p d says what; and has done it. */
void watch_begin(struct host *h, struct doing *d);
void watch_end(struct host *h, struct doing *d);
/** Begin a call about an end of a pair. */
void watch_call(struct doing *d, struct world *w, struct pair *p, unsigned int side);
/** The call has to send this next. */
void watch_expect(struct doing *d, const struct cm_msg *m);
/** Check what an event says, and note what follows from it. @p p NULL: it is of no pair. */
void watch_event(struct host *h, const struct cm_event *ev, struct pair *p, unsigned int side);
/** An end's state is what its call or event left it in: its timer of TimeWait runs now. */
void watch_timewait(struct world *w, struct pair *p, unsigned int side);
/** At the end of a round: what was counted is what was seen. */
void watch_counted(struct world *w);
/** Begin a message that an end of @p p sends. */
struct cm_msg watch_msg(const struct host *h, const struct pair *p, unsigned int side, enum cm_attr attr, uint64_t tid);
/** @return the tid of its requests. */
uint64_t watch_own_tid(const struct host *h, const struct pair *p, unsigned int side);
/** An end's numbers once its REQ is known. */
void watch_times(struct pair *p, unsigned int side);
/** @return the limit of refusals and answers that are kept. */
uint32_t max_kept(const struct world *w);
/** A MAD arrives. @param bad  With a fault: nobody may be told; if it is refused, then for @p reason. */
void watch_arrival(struct world *w, unsigned int to, const struct cm_av *av, const uint8_t *mad, size_t len, bool bad, uint16_t reason);
/** Check that a timer that was due then may fire now. */
void watch_due(const struct world *w, uint64_t due_ns, const char *what);
/** @return the state of the connection with this ID as its owner sees it; IDLE: no owner has it. */
/** @return the connections that others have opened to @p h and that aren't established yet. */
uint32_t watch_half_open(const struct host *h);
/** @return those that wait for their owners' answers, of TCP_SERVICE or of the other one. */
uint32_t watch_pending(const struct host *h, bool tcp);
/** A REQ arrives that names the QP of @p p's peer of end @p side, as if that peer had forgotten the connection. */
void watch_forged(struct world *w, struct pair *p, unsigned int side, const uint8_t *mad);
bool watch_established(const struct pair *p, unsigned int side);
enum cm_state watch_state(struct world *w, unsigned int host, uint32_t id);

/* ---- sim_owner.c ---- */
void owner_event(void *arg, const struct cm_event *ev);
/** A request came to the right listener. */
void check_listener(const struct host *h, const struct cm_event *ev);
struct host *host_of(struct world *w, const struct pair *p, unsigned int side);
/** Fail unless an end's state is @p s. */
void must_be(const struct world *w, const struct pair *p, unsigned int side, enum cm_state s);
/** A call has to send this REJ next. */
void expect_rej(struct doing *d, const struct host *h, uint16_t reason, struct cm_private ari, struct cm_private data);
/** The header that the RDMA CM puts before private data (annex A11): addresses and the port of the host that connects. */
void ip_hdr(const struct world *w, unsigned int from, uint8_t *to);
/** An owner ends its connection. */
void disconnect(struct world *w, struct pair *p, unsigned int side);
void *owner_of_pair(uint32_t pair, unsigned int side);
/** The owner of an end leaves. @param died  With its program: the CM waits for its QP's number. */
void let_go(struct world *w, struct pair *p, unsigned int side, bool died);
/** @return random private data of up to @p room bytes in @p buf, the rest of which is zero. */
struct cm_private some_data(struct world *w, uint8_t *buf, uint32_t room);

/* ---- sim_calls.c ---- */
void owner_acts(struct world *w, const struct item *it);
/* ---- sim_sidr.c ---- */
void *owner_of_asker(uint32_t asker, unsigned int side);
void sidr_plan(struct world *w);
void sidr_acts(struct world *w, const struct item *it);
/** @return whether the event is one of an asker. */
bool sidr_event(struct host *h, const struct cm_event *ev);

/* ---- sim_hostile.c ---- */
/** Now and then: before a MAD comes one that looks like it, but isn't right. */
void forge_maybe(struct world *w);
void hostile_maybe(struct world *w, const struct item *it);

/* ---- sim_misuse.c ---- */
/** Now and then: a call that is wrong, before one that is right. */
void misuse_maybe(struct world *w, struct pair *p, unsigned int side);

/* ---- sim_replace.c ---- */
void host_replace(struct world *w, unsigned int number);

#endif /* TEST_CM_SIM_H */
