/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The run-to-completion loop of one lcore.
 *
 * Owns: a struct transport, one RX and TX queue of every port, a mailbox, the doorbells of the sessions that are hot.
 * A turn: RX bursts, loopback and packets handed over by other engines, mailbox, doorbells, transport_run(), TX,
 * quiescent state.
 *
 * Whoever wants to change something that the engine owns puts a message into its mailbox; it runs on the
 * engine's thread between bursts. What the engine has to tell the control thread goes into its event ring, with an
 * eventfd.
 *
 * Idle policy: `poll` never gives the core away. `adaptive` spins for ENGINE_SPIN_TURNS idle turns (a few, if others
 * want the core), then yields the core every turn, and when there was no work for ENGINE_AWAKE_NS it sleeps,
 * ENGINE_SLEEP_MIN_NS growing to ENGINE_SLEEP_MAX_NS, never beyond the next timer.
 * A kick (eventfd written by the control thread or a client of a cold session) ends a sleep at once.
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
	ENGINE_EVENTS = 4096,        /**< events on their way to the control thread */
	ENGINE_MADS = 512,           /**< MADs on their way to the control thread */
	ENGINE_FAILURES = 20,        /**< QPs per second that the control thread is told of: so many that failed, so many that ended as asked */
	ENGINE_BURSTS = 6,           /**< classes of bursts: 1, 2-3, 4-7, 8-15, 16-31, 32 packets */
	ENGINE_HANDOFF = 4096,       /**< packets from other engines */
	ENGINE_SPIN_TURNS = 500,     /**< idle turns before the first yield, if nobody else wants the core */
	ENGINE_AWAKE_NS = 1000000,   /**< since the last work: no sleep before */
	ENGINE_SLEEP_MIN_NS = 20000,
	ENGINE_SLEEP_MAX_NS = 200000,
	ENGINE_SESSION_COLD_NS = 100000000, /**< a session without a doorbell for this long goes cold */
};

enum engine_idle { ENGINE_IDLE_POLL, ENGINE_IDLE_ADAPTIVE };

struct engine_config {
	unsigned int id;           /**< 0 ..; also the queue number and the RCU thread id */
	unsigned int nb_engines;
	enum engine_idle idle;
	struct net_port **ports;
	uint16_t nb_ports;
	enum tp_cc cc[UROCE_MAX_PORTS]; /**< congestion control of each port */
	struct shared sh;          /**< of sh.qsbr the engine is thread @c id: online while it runs, offline while it sleeps */
	struct tp_features features[UROCE_MAX_PORTS]; /**< and what its QPs do beyond the standard's minimum */
	int socket_id;
};

/** What engines tell the control thread. */
enum engine_event_kind { ENGINE_EV_ASYNC, ENGINE_EV_LEARNED, ENGINE_EV_MAD, ENGINE_EV_FAILED };
struct engine_event {
	enum engine_event_kind kind;
	union {
		struct tp_event async;
		struct net_learned learned;
		struct qp_failure failed;
		const struct tp_mad *mad; /**< good until the next engine_event_next() */
	};
};

/** [control] @return NULL with errno set. */
struct engine *engine_create(const struct engine_config *c);
/** [control, not running] */
void engine_destroy(struct engine *e);
/** [control] Make packets for QPs of the others reach them: called once, when all are created. */
void engine_connect(struct engine **all, unsigned int nb_engines);

/** [engine lcore] Turn until engine_stop(). Signature of rte_eal_remote_launch(). @return 0. */
int engine_loop(void *engine);
/** [engine lcore] One turn, for a loop of one's own; reports the quiescent state. @return work done, 0: idle. */
uint32_t engine_turn(struct engine *e);
/** [any] The same, unless a thread is in a turn or the loop. @return work done, 0: idle or taken. */
uint32_t engine_try_turn(struct engine *e);
/** [any] The loop ends after its turn, or after the first one if it begins later; then it may be begun again. */
void engine_stop(struct engine *e);

struct transport *engine_transport(struct engine *e);

/**
 * [control] Run @p fn on the engine's thread between bursts and wait for it. If the engine's loop isn't running
 * (before start, after stop), runs it right here.
 * @param fn  Gets the engine and the clock of its turn. Must neither call engine_call() nor wait for a grace period of
 * the engines' RCU: the engine it runs on would be waiting for itself.
 * @return what @p fn returned.
 */
int engine_call(struct engine *e, int (*fn)(struct engine *e, void *arg, uint64_t now_ns), void *arg);

/** [control] Send a packet on @p port by this engine. Takes ownership. */
void engine_send(struct engine *e, uint16_t port, struct rte_mbuf *m);

/** [control] Descriptor that becomes readable when engine_event_next() has something. */
int engine_event_fd(struct engine *e);
/** [control] @return false: nothing more; the descriptor has been reset. */
bool engine_event_next(struct engine *e, struct engine_event *ev);

/* ---- Captures ---- */
/**
 * Sees the packets of ports as they come and go. All on the engine's lcore; several engines may be in it at once. Without one an
 * engine pays a branch per burst, with one it takes packets singly.
 */
struct engine_tap {
	/** A packet has come, or is about to go. @return what end() gets, NULL: it isn't wanted. */
	void *(*begin)(struct engine_tap *t, uint16_t port, const struct rte_mbuf *m, bool tx, uint64_t now_ns);
	/** What became of it. @param dropped  Why it was dropped: the name of the counter; NULL: it wasn't. */
	void (*end)(struct engine_tap *t, void *packet, const char *dropped);
	/** The port didn't take it: it will come again, or be lost. */
	void (*cancel)(struct engine_tap *t, void *packet);
};
/** [engine, in engine_call()] From now on; NULL: nobody looks, and what was set before isn't used any more. */
void engine_set_tap(struct engine *e, struct engine_tap *t);

/* ---- Sessions' doorbells ---- */
struct engine_session;
/**
 * [control] The engine looks at these doorbells from now on (hot).
 * @param db  Shared with the client, hostile: only its bits are read.
 * @param max_slots  QPs that the session may have on this engine, at most RING_DB_SLOTS.
 * @param stays_hot  The session never goes cold: it is of the process that drives the engine, where nobody may be reading kicks.
 * @return NULL with errno set.
 */
struct engine_session *engine_session_add(struct engine *e, struct ring_db *db, uint32_t max_slots, bool stays_hot);
/** [control] Waits until the engine doesn't use it any more. */
void engine_session_remove(struct engine *e, struct engine_session *s);
/** [control] The client kicked: look at the doorbells again. */
void engine_session_kick(struct engine *e, struct engine_session *s);
/** [engine, in engine_call()] QP of doorbell slot @p slot; NULL: none. */
void engine_session_set_qp(struct engine_session *s, uint32_t slot, struct qp *qp);

/** Load of an engine. Read by any thread without a lock: each counter is whole, they may be of different moments. */
struct engine_stats {
	uint64_t turns, busy_turns, idle_turns, sleeps;
	uint64_t busy_cycles, idle_cycles;
	uint64_t rx_bursts, rx_packets, tx_packets;
	uint64_t rx_bursts_of[ENGINE_BURSTS]; /**< rx_bursts by their sizes */
	uint64_t late_turns;       /**< turns that began ENGINE_LATE_NS or more after the one before: somebody else had the core */
	uint64_t doorbells, mailbox, events_lost, handoff_dropped;
	uint64_t failures_unsaid;  /**< QPs that failed beyond ENGINE_FAILURES in a second: not in the log */
	uint64_t mads_dropped;     /**< MADs that the control thread was too slow for */
	_Atomic uint64_t send_dropped; /**< packets beside the transport (ARP, ND, ICMP) that the port didn't take */
	uint64_t tx_stuck_dropped; /**< packets of the transport that the port didn't take for too long */
};
const struct engine_stats *engine_stats(const struct engine *e);
/** What waits inside an engine. */
struct engine_depths {
	struct tp_depths transport;
	uint32_t sessions, hot_sessions;
	uint32_t mailbox, events, mads, handoff, send; /**< entries of the rings between engine and others */
};
/** [engine, in engine_call()] */
void engine_depths(const struct engine *e, struct engine_depths *d);
const struct net_counters *engine_net_counters(const struct engine *e, uint16_t port);

#endif /* UROCE_ENGINE_H */
