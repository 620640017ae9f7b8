/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/engine share. engine.c calls all others; clock.c and core.c call none.
 *
 * Who may run an engine: whoever holds struct engine.owner. engine_loop() holds it all the time it runs,
 * engine_turn() for one turn, and engine_call() takes it when nobody has it. So exactly one thread at a time touches
 * what is marked [owner], and the thread that waits in engine_call() never depends on a loop that has ended.
 */
#ifndef UROCE_ENGINE_PRIV_H
#define UROCE_ENGINE_PRIV_H

#include <stdatomic.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "base/burst.h"
#include "engine/engine.h"

enum {
	ENGINE_MAILBOX_BURST = 32,    /**< messages per turn */
	ENGINE_SEND_RING = 1024,      /**< packets of the control thread on their way out */
	ENGINE_DB_WORDS = 64,         /**< low doorbell words per session and turn: one session's share */
	ENGINE_LATE_NS = 1000000,     /**< longer between two turns: somebody else had our core */
	ENGINE_LATE_BURSTS = 64,      /**< then so many bursts may be received before timers look at the clock */
	ENGINE_TX_STUCK_NS = 100000000, /**< packets that a port hasn't taken for this long are dropped */
};

/** States of a message; also the futex that its sender waits on. */
enum msg_state { MSG_IDLE, MSG_QUEUED, MSG_WAITED, MSG_DONE };

/** One message of the mailbox. Lives with its sender until it is done. */
struct engine_msg {
	int (*fn)(struct engine *e, void *arg, uint64_t now_ns);
	void *arg;
	int rc;
	_Atomic uint32_t state; /**< enum msg_state */
};

struct engine_session {
	struct ring_db *db;
	uint32_t max_slots;
	bool hot;                    /**< [owner] in the engine's list of hot sessions */
	bool stays_hot;
	uint32_t hot_index;          /**< [owner] where in the list */
	uint64_t last_ns;            /**< [owner] when it last rang */
	bool crowded;                /**< [owner] what db->crowded says */
	struct engine_msg kick;
	struct qp *qps[];            /**< [owner] by doorbell slot */
};

/**
 * CLOCK_MONOTONIC, made of the TSC: ns = base_ns + (tsc - base_tsc) * mult / 2^32. What DPDK knows of the TSC's frequency is
 * rounded, and the kernel steers its clock, so the rate is corrected now and then; the time itself never jumps back.
 */
struct engine_clock {
	uint64_t base_ns, base_tsc, mult;
	uint64_t trim_cycles;        /**< from base_tsc to the next look at the kernel's clock */
	uint64_t seen_ns, seen_tsc;  /**< what the last look saw */
};

/** What the adaptive policy knows. */
struct engine_idler {
	uint64_t last_work_ns;
	uint64_t sleep_ns;           /**< length of the next sleep */
	uint32_t idle_turns;         /**< since the last work */
	uint32_t yields;
	uint32_t hog;                /**< naps left in which we believe that a yield would cost a whole time slice */
	bool yielded;                /**< the last turn ended with a yield */
	bool crowded;                /**< for ring_db.crowded */
	bool shared;                 /**< somebody else wants this core */
	uint64_t switches;           /**< the thread's context switches at the last look */
	uint64_t hog_cycles;         /**< a yield longer than this was used by somebody who doesn't yield */
};

struct engine {
	struct engine_config c;
	struct transport *tp;
	struct engine_clock clock;
	uint64_t tsc;                /**< [owner] of the last turn */
	uint64_t now_ns;             /**< [owner] never goes back */
	bool worked;                 /**< [owner] the last turn found work */
	struct engine_idler idler;   /**< [owner] */
	struct engine_stats stats;   /**< [owner] */
	struct engine_tap *tap;      /**< [owner] or NULL */
	struct net_counters net[UROCE_MAX_PORTS];      /**< [owner] */
	uint64_t tx_progress_ns[UROCE_MAX_PORTS];      /**< [owner] when the port last took a packet or had none to take */
	struct engine_session **hot; /**< [owner] room for UROCE_MAX_SESSIONS */
	uint32_t nb_hot;             /**< [owner] */
	uint32_t nb_sessions;        /**< [owner] hot and cold */
	struct burst failures[2];    /**< [owner] QPs that went to ERR; [1]: because the program asked for it */
	uint64_t handed_to;          /**< [owner] engines that got packets in this turn: to be woken */
	struct engine *peers[UROCE_MAX_ENGINES];

	struct rte_ring *mailbox;    /**< struct engine_msg */
	struct rte_ring *send;       /**< mbufs of the control thread */
	struct rte_ring *handoff;    /**< mbufs of other engines; bit 0: trusted */
	struct rte_ring *events;     /**< struct engine_event, filled */
	struct rte_ring *free_events;
	struct engine_event *event_pool;
	struct rte_ring *free_mads;
	struct tp_mad *mad_pool;
	struct tp_mad *mad_spare;    /**< [owner] taken and not used */
	struct tp_mad *mad_lent;     /**< [control] what the last event taken points to */
	_Atomic uint32_t event_signalled; /**< event_fd has been written since the control thread found nothing */
	int event_fd;
	int kick_fd;

	_Alignas(RTE_CACHE_LINE_SIZE) _Atomic uint32_t owner; /**< 1: somebody runs the engine */
	_Atomic uint32_t stop;
	_Atomic uint32_t sleeping;   /**< 1: write kick_fd after giving it something */
};

/* clock.c */
/** Start the clock, at the kernel's time. */
void clock_init(struct engine *e);
/** [owner] Read the TSC; from here on it is e->now_ns. @return the time now, never before the last. */
uint64_t engine_now(struct engine *e);
/** [owner] transport_config.clock: the time at this moment, without moving e->now_ns. */
uint64_t clock_read(void *engine);

/* core.c */
/** [any] Become the owner. @return false if somebody is. */
bool engine_own(struct engine *e);
/** [owner] */
void engine_disown(struct engine *e);
/** [any] After giving it something: end its sleep. */
void engine_wake(struct engine *e);
/** Make a ring without a name. @return NULL with errno set. */
struct rte_ring *engine_ring(const char *what, unsigned int entries, int socket_id, unsigned int flags);

/* mailbox.c */
/** [owner] Run messages that wait. @return how many. */
uint32_t mailbox_run(struct engine *e, uint64_t now_ns);
/** [any] Send without waiting; does nothing if it is on its way already. */
void mailbox_post(struct engine *e, struct engine_msg *msg);

/* event.c */
/** [owner] Tell the control thread. */
void event_post(struct engine *e, const struct engine_event *ev);
/** [owner] transport_config.mad. */
void event_post_mad(void *engine, const struct tp_mad *mad);
int events_create(struct engine *e);
void events_destroy(struct engine *e);

/* session.c */
/** [owner] Look at the doorbells of the hot sessions. @return doorbells found. */
uint32_t sessions_run(struct engine *e, uint64_t now_ns);
/** [owner] @return true if a hot session has rung. */
bool sessions_rung(const struct engine *e);

/* io.c */
/**
 * [owner] Receive from the ports, from ourselves and from other engines.
 * @param bursts  At most so many from each port, and from the other engines.
 * @return packets.
 */
uint32_t io_rx(struct engine *e, uint32_t bursts, uint64_t now_ns);
/** [owner] For @p ns there was no turn: time in which no port could take anything from us. */
void io_was_away(struct engine *e, uint64_t ns);
/** [owner] Send what the control thread gave us. @return packets. */
uint32_t io_send(struct engine *e);
/** [owner] Flush the TX vectors. @return packets that the ports took. */
uint32_t io_tx(struct engine *e, uint64_t now_ns);
/** [owner] transport_config.handoff. */
void io_handoff(void *engine, unsigned int to, uint16_t port, struct rte_mbuf *m, bool trusted);
/** [owner] Wake the engines that got packets. */
void io_handoff_done(struct engine *e);
/** [owner] Free every packet that is still held. */
void io_drain(struct engine *e);

/* idle.c */
void idle_init(struct engine *e);
/** [owner] After a turn; @p work is what it did, @p cycles what it and the yield before it took. */
void idle_turn(struct engine *e, uint32_t work, uint64_t cycles);
/** What engine_loop() changes about its thread, to be restored. */
struct idle_thread {
	int timer_slack_ns;
};
void idle_thread_begin(struct engine *e, struct idle_thread *t);
void idle_thread_end(struct engine *e, const struct idle_thread *t);

#endif /* UROCE_ENGINE_PRIV_H */
