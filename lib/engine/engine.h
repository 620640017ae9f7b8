/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The run-to-completion loop of one lcore.
 *
 * Owns: a struct transport, one RX and one TX queue of every port, a mailbox, the doorbells of hot sessions. A turn: RX
 * bursts, loopback and packets from other engines, mailbox, doorbells, transport_run(), TX, quiescent state.
 *
 * To change something that an engine owns, put a message into its mailbox; the engine runs it on its thread between
 * bursts. The engine reports to the control thread through an event ring with an eventfd.
 *
 * Idle policy: `poll` never yields the core. `adaptive` spins for ENGINE_SPIN_TURNS idle turns (only a few if other
 * threads want the core), then yields the core in every turn. After ENGINE_AWAKE_NS without work it sleeps, until it gets
 * something to do or a timer is due. `interrupt` sleeps after the first idle turn. With a port that can't wake anybody no
 * sleep is longer than ENGINE_SLEEP_MIN_NS at first and ENGINE_SLEEP_MAX_NS later, or ENGINE_SLEEP_UNUSED_NS while no program
 * has a session. docs/internals/idle.md has the whole of it.
 */
#ifndef UROCE_ENGINE_H
#define UROCE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/diag/diag.h"
#include "net/net.h"
#include "ring/ring.h"
#include "transport/transport.h"

struct rte_mbuf;
struct rte_rcu_qsbr;
struct rte_ring;
struct engine;

enum {
	ENGINE_RX_BURST = 32,
	ENGINE_MAILBOX = 1024,       /**< messages */
	ENGINE_EVENTS = 4096,        /**< events that the control thread hasn't fetched yet */
	ENGINE_MADS = 512,           /**< MADs that the control thread hasn't fetched yet */
	ENGINE_FAILURES = 20,        /**< events per second for failed QPs, and as many for QPs moved to ERR by their program */
	ENGINE_BURSTS = 6,           /**< size classes of bursts: 1, 2-3, 4-7, 8-15, 16-31, 32 packets */
	ENGINE_HANDOFF = 4096,       /**< packets from other engines */
	ENGINE_LOOP_MAX = 8,         /**< engines in a loop */
	ENGINE_CPUS_MAX = 4,         /**< threads of a loop */
	ENGINE_SPIN_TURNS = 500,     /**< idle turns before the first yield, if no other thread wants the core */
	ENGINE_AWAKE_NS = 1000000,   /**< a loop without CPUs of its own (nb_cpus 0) doesn't sleep until this long after the last work */
	ENGINE_SLEEP_MIN_NS = 20000,
	ENGINE_SLEEP_MAX_NS = 200000,
	ENGINE_SLEEP_UNUSED_NS = 5000000, /**< in place of that, if no program has a session */
	ENGINE_SESSION_COLD_NS = 100000000, /**< a session without a doorbell for this long goes cold */
};

enum engine_idle { ENGINE_IDLE_POLL, ENGINE_IDLE_ADAPTIVE, ENGINE_IDLE_INTERRUPT };

struct engine_config {
	unsigned int id;           /**< 0 ..; also the queue number and the RCU thread ID */
	unsigned int nb_engines;
	enum engine_idle idle;
	bool loop_frames;            /**< packets from this host to itself are frames, which takes two copies; else they go by reference */
	struct net_port **ports;
	uint16_t nb_ports;
	enum tp_cc cc[UROCE_MAX_PORTS]; /**< congestion control of each port */
	struct shared sh;          /**< the engine is thread `id` of sh.qsbr: online while it runs, offline while it sleeps */
	struct tp_features features[UROCE_MAX_PORTS]; /**< features of the QPs of each port */
	int socket_id;
	/** Threads of the engine's loop, each on a CPU of its own, that take turns with programs there; 0: one that learns what its CPU is like. */
	unsigned int nb_cpus;
	int cpus[ENGINE_CPUS_MAX];
	void *journal;               /**< transport_config.journal, NULL: the transport keeps none */
	struct journal_limits journal_limits;
};

/** Kinds of events for the control thread. */
enum engine_event_kind { ENGINE_EV_ASYNC, ENGINE_EV_LEARNED, ENGINE_EV_MAD, ENGINE_EV_FAILED };
struct engine_event {
	enum engine_event_kind kind;
	union {
		struct tp_event async;
		struct net_learned learned;
		struct qp_failure failed;
		const struct tp_mad *mad; /**< valid until the next engine_event_next() */
	};
};

/** [control] @return NULL with errno set. */
struct engine *engine_create(const struct engine_config *c);
/** [control] Free an engine that isn't running. */
void engine_destroy(struct engine *e);
/** [control] Let the engines hand packets to each other. Called once, when all are created. */
void engine_connect(struct engine **all, unsigned int nb_engines);

/** [engine lcore] Run turns until engine_stop(). Has the signature that rte_eal_remote_launch() needs. @return 0 or an errno value. */
int engine_loop(void *engine);
/**
 * A loop that runs several engines, on one thread or on one of several threads at a time. With several, each has a CPU of its own, and a
 * client wakes the one on its own CPU: where cores are few the core goes from the program to the engine and back, and no other
 * core has to be interrupted.
 */
struct engine_loop;
/** [control] @param engines  At most ENGINE_LOOP_MAX, all with the same CPUs and idle policy. @return NULL with errno set. */
struct engine_loop *engine_loop_create(struct engine *const *engines, unsigned int n);
/**
 * [engine lcore] Be thread @p thread of the loop, until all its engines have been stopped by engine_stop().
 * @param thread  Below engine_config.nb_cpus, or 0; the caller runs on engine_config.cpus[thread] only.
 */
void engine_loop_run(struct engine_loop *l, unsigned int thread);
/** [control] No thread may be in it. */
void engine_loop_destroy(struct engine_loop *l);
/** [engine lcore] Run one turn, for a loop of the caller's; reports the quiescent state. @return work done; 0: idle. */
uint32_t engine_turn(struct engine *e);
/**
 * [any] As engine_turn(), unless another thread is running the engine.
 * @return work done; 0: idle, or run by another thread.
 */
uint32_t engine_try_turn(struct engine *e);
/**
 * [any] End the loop after its current turn, or after its first one if it starts later. Then it may be started again.
 */
void engine_stop(struct engine *e);

struct transport *engine_transport(struct engine *e);

/**
 * [control] Run @p fn on the engine's thread between bursts and wait for it. If the engine's loop isn't running (before
 * start, after stop), @p fn runs right here.
 * @param fn  Gets the engine and the time of its turn. Must neither call engine_call() nor wait for a grace period of
 * the engines' RCU: the engine that runs it would wait for itself.
 * @return what @p fn returned.
 */
int engine_call(struct engine *e, int (*fn)(struct engine *e, void *arg, uint64_t now_ns), void *arg);

/** [control] Have the engine go on with what waited for copies that have an end: packets of which they are a part are executed on return. */
void engine_run_copied(struct engine *e);
/**
 * Begin no more copies of memory that isn't mapped, or begin them again. What needs one waits as if copiers had no room, and goes on in the first turn afterwards. Those
 * that are under way end within TP_COPY_DEADLINE_NS: then QPs can be saved, whatever else comes. Any thread.
 */
void engine_hold_copies(struct engine *e, bool hold);

/**
 * [control] Stop using the ethdev of @p port, or use it again. On return the engine is in no burst of it. Packets that are to be sent
 * meanwhile are dropped.
 */
void engine_use_port(struct engine *e, uint16_t port, bool use);

/**
 * [control] Send a packet on @p port through this engine. Takes ownership. While the port is full it waits, after the transport's packets that
 * wait too; it is dropped when too many do, or the port accepts nothing for long.
 */
void engine_send(struct engine *e, uint16_t port, struct rte_mbuf *m);

/** [control] @return a descriptor that is readable while engine_event_next() has events. */
int engine_event_fd(struct engine *e);
/** [control] Fetch an event. @return false: there are no more; the descriptor has been reset. */
bool engine_event_next(struct engine *e, struct engine_event *ev);

/* ---- Captures ---- */
/**
 * Sees all packets that ports receive and send, and those that QPs of this host send each other, once, when they arrive. All functions are called on
 * the engine's lcore, for several engines at once. Without a tap an engine pays a branch per burst; with a tap it handles packets one by one.
 */
enum engine_tap_way { ENGINE_TAP_RX, ENGINE_TAP_TX, ENGINE_TAP_LOCAL /**< from this host to itself */ };
struct engine_tap {
	/**
	 * A packet was received, or is about to be sent. @p m is valid until the return.
	 * @return an argument for end(); NULL: the tap doesn't want the packet.
	 */
	void *(*begin)(struct engine_tap *t, uint16_t port, const struct rte_mbuf *m, enum engine_tap_way way, uint64_t now_ns);
	/**
	 * The packet was handled.
	 * @param dropped  Name of the counter that says why it was dropped; NULL: it wasn't.
	 */
	void (*end)(struct engine_tap *t, void *packet, const char *dropped);
	/** The port didn't accept the packet. It will be shown again, or dropped. */
	void (*cancel)(struct engine_tap *t, void *packet);
};
/** [engine, in engine_call()] Set the tap, or remove it (NULL). On return the previous tap is no longer used. */
void engine_set_tap(struct engine *e, struct engine_tap *t);

/* ---- Sessions' doorbells ---- */
struct engine_session;
/**
 * [control] Add a session: the engine polls these doorbells from now on (the session is hot).
 * @param db  Shared with the client and not trusted: only its bits are read.
 * @param max_slots  QPs that the session may have on this engine, at most RING_DB_SLOTS.
 * @param kick_fds  For each CPU of the engine (engine_config.nb_cpus, at least one) the eventfd that a client on that CPU writes to while
 * the session is cold. The engine waits for them and never reads them, because the client has them too and could make a read
 * wait. NULL: none.
 * @param stays_hot  The session becomes cold only while the engine sleeps. For a process that drives the engine itself.
 * @return NULL with errno set.
 */
struct engine_session *engine_session_add(struct engine *e, struct ring_db *db, uint32_t max_slots, const int *kick_fds,
					  bool stays_hot);
/** [control] Remove a session. Waits until the engine doesn't use it any more. */
void engine_session_remove(struct engine *e, struct engine_session *s);
/** @return the share that the session's QPs on this engine should have; it ends with the session. */
struct share *engine_session_share(const struct engine_session *s);
/** [control] Change weight and rate of the session's share. @return 0 or EINVAL (weight). */
int engine_session_set_share(struct engine *e, struct engine_session *s, const struct share_params *p);
/** [control] Fill in @p v. @return what all shares of the engine have cost, to compare with v->stats.cost. */
uint64_t engine_session_look(struct engine *e, struct engine_session *s, struct share_view *v);
/** [engine, in engine_call()] Set the QP of doorbell slot @p slot; NULL: none. */
void engine_session_set_qp(struct engine_session *s, uint32_t slot, struct qp *qp);

/* ---- QPs that move ---- */
/** A QP that moves, with others or alone. */
struct engine_move {
	struct qp *qp;
	struct share *share;             /**< at the new engine; NULL: its transport's own */
	struct engine *home;             /**< the engine whose doorbell the QP has; NULL: it has none (XRC targets) */
	struct engine_session *session;  /**< at its home */
	uint32_t slot;                   /**< of the doorbell */
};
/** What moves at once: a QP; or all QPs of an SRQ, and the SRQ; or all targets and SRQs of an XRC domain. */
struct engine_group {
	const struct engine_move *qps;
	unsigned int nb_qps;             /**< 1 to ENGINE_MOVE_MOST */
	struct srq *const *srqs;
	unsigned int nb_srqs;            /**< at most ENGINE_MOVE_MOST */
	bool brief;                      /**< wait as briefly as possible for ACKs of what the QPs have sent (qp_move_be_brief()) */
};
/** QPs that can move together, and SRQs: all of them wait until the last one has arrived. A macro, since messages name it. */
#define ENGINE_MOVE_MOST 256
/**
 * [control] Move QPs that are in use from one engine to another, all at once. Nothing is lost by it, and what arrives meanwhile comes later. No other
 * thread may move QPs of these engines at the same time, or destroy one of them.
 * @param pause_ns  Gets for how long the QPs sent nothing new: until all that they had sent was acknowledged, and then until they had arrived.
 * @return 0; EBUSY: copies of memory that isn't mapped are under way; ENOMEM: no memory, or a pool of @p to is empty. Then nothing has changed.
 */
int engine_move_qps(struct engine *from, struct engine *to, const struct engine_group *g, uint64_t *pause_ns);
/** [control] Have doorbell @p slot ring for a QP that is at another engine than @p home. @return 0, EINVAL or ENOMEM. */
int engine_session_set_elsewhere(struct engine *home, struct engine_session *s, uint32_t slot, struct qp *qp);
/** [control] Doorbell @p slot rings for nobody any more: its QP, which is at engine @p at, is about to be destroyed. */
void engine_session_forget_qp(struct engine *home, struct engine *at, struct engine_session *s, uint32_t slot);

/**
 * Statistics of an engine. Any thread may read them without a lock: each counter is read atomically, but not all at the
 * same moment.
 */
struct engine_stats {
	uint64_t turns, busy_turns, idle_turns, sleeps;
	uint64_t busy_cycles, idle_cycles;
	uint64_t rx_bursts, rx_packets, tx_packets;
	uint64_t rx_bursts_of[ENGINE_BURSTS]; /**< rx_bursts by size class */
	uint64_t late_turns;       /**< turns more than ENGINE_LATE_NS after the one before: another thread had the core */
	uint64_t doorbells, mailbox, events_lost, handoff_dropped;
	uint64_t failures_unsaid;  /**< failed QPs beyond ENGINE_FAILURES in a second: no event was sent */
	uint64_t mads_dropped;     /**< MADs dropped because the control thread was too slow */
	_Atomic uint64_t send_dropped; /**< other than the transport's packets (MADs, ARP, ND, ICMP) that found no room to wait for the port */
	uint64_t tx_stuck_dropped; /**< packets that the port didn't accept for too long */
};
const struct engine_stats *engine_stats(const struct engine *e);
/**
 * [any] Look whether the engine is in a turn. If it is in the same one the next time, the turn takes long.
 * @param turns  How many it has had.
 * @param serving  The QP that it serves, or NULL; as transport_serving().
 */
bool engine_in_turn(const struct engine *e, uint64_t *turns, const struct qp **serving);
/** How much is waiting inside an engine. */
struct engine_depths {
	struct tp_depths transport;
	uint32_t sessions, hot_sessions;
	uint32_t mailbox, events, mads, handoff, send; /**< number of entries in the rings between the engine and others */
};
/** [engine, in engine_call()] Fill in @p d. */
void engine_depths(const struct engine *e, struct engine_depths *d);
const struct net_counters *engine_net_counters(const struct engine *e, uint16_t port);

#endif /* UROCE_ENGINE_H */
