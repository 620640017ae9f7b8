/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/engine share. loop.c calls engine.c, which calls all others; clock.c and core.c call none.
 *
 * A thread that runs an engine is its owner (struct engine.owner): engine_loop() for as long as it runs, engine_turn()
 * for one turn, and engine_call() if there is no other owner. So only one thread at a time accesses what is marked
 * [owner], and the thread that waits in engine_call() never depends on a loop that has ended.
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
#include "transport/move.h"

enum {
	ENGINE_MAILBOX_BURST = 32,    /**< messages per turn */
	ENGINE_SEND_RING = 1024,      /**< packets from the control thread that may wait for a port */
	ENGINE_SEND_BURST = 32,       /**< of these, for each port and turn: the transport needs room, too */
	ENGINE_DB_WORDS = 64,         /**< low doorbell words per session and turn: a session's share */
	ENGINE_LATE_NS = 1000000,     /**< if turns are further apart than this, another thread had our core */
	ENGINE_LATE_BURSTS = 64,      /**< bursts received after such a gap before timers run */
	ENGINE_SMALL_BYTES = 8192,    /**< a full burst of frames that have no more together is followed by another one in the same turn */
	ENGINE_COPIES_END_MS = 500,   /**< how long the end of an engine waits for copies that others make for it */
	ENGINE_TX_STUCK_NS = 100000000, /**< packets that a port doesn't accept for this long are dropped */
	ENGINE_TX_RETRY_NS = 50000,   /**< how long an idle engine sleeps before it offers a port again what it hasn't accepted */
};

/** States of a message. The word is also the futex on which its sender waits. */
enum msg_state { MSG_QUEUED, MSG_WAITED, MSG_DONE };

/** One message of the mailbox. Its memory belongs to the sender. */
struct engine_msg {
	int (*fn)(struct engine *e, void *arg, uint64_t now_ns);
	void *arg;
	int rc;
	_Atomic uint32_t state; /**< enum msg_state */
};

/** A kick as struct engine.kicks has it: the session's ID, and the index of the CPU. Never NULL. */
#define KICK(session, cpu) ((void *)(((uintptr_t)(session) + 1) << 8 | (cpu)))
#define KICK_SESSION(kick) ((uint32_t)((uintptr_t)(kick) >> 8) - 1)
#define KICK_CPU(kick) ((uint32_t)((uintptr_t)(kick) & 0xff))

struct moved_qp;
struct engine_session {
	struct ring_db *db;
	struct share *share;         /**< [owner] */
	uint32_t max_slots;
	bool hot;                    /**< [owner] in the engine's list of hot sessions */
	bool stays_hot;
	enum ring_crowded crowded;   /**< [owner] copy of db->crowded */
	uint32_t hot_index;          /**< [owner] where in the list */
	uint32_t id;                 /**< [owner] where in the engine's table */
	uint32_t cpu;                /**< [owner] index of the CPU from which the client last kicked */
	int kick_fds[ENGINE_CPUS_MAX]; /**< in the engine's kick_set; -1: none */
	uint64_t last_ns;            /**< [owner] when it last rang */
	struct moved_qp **moved;     /**< [owner] by doorbell slot: QPs that are at another engine (move.c); NULL: none has ever been */
	struct qp *qps[];            /**< [owner] by doorbell slot; NULL: none, or it is at another engine */
};

/**
 * CLOCK_MONOTONIC, computed from the TSC: ns = base_ns + (tsc - base_tsc) * mult / 2^32. DPDK's value of the TSC
 * frequency is rounded, and the kernel adjusts its clock, so the rate is corrected from time to time; the time itself
 * never goes back.
 */
struct engine_clock {
	uint64_t base_ns, base_tsc, mult;
	uint64_t trim_cycles;        /**< TSC cycles from base_tsc to the next comparison with the kernel's clock */
	uint64_t seen_ns, seen_tsc;  /**< the kernel's clock and the TSC at the last comparison */
};

struct engine {
	struct engine_config c;
	struct transport *tp;
	struct engine_clock clock;
	uint64_t tsc;                /**< [owner] TSC of the last turn */
	uint64_t now_ns;             /**< [owner] never goes back */
	bool worked;                 /**< [owner] the last turn found work */
	bool crowded;                /**< [owner] for ring_db.crowded */
	bool tells_later;            /**< [owner] its loop raises completion events, when other engines have had their turn */
	bool looping;                /**< [owner] a loop runs the engine and waits for kicks */
	_Atomic bool in_turn;
	struct engine_stats stats;   /**< [owner] */
	struct engine_tap *tap;      /**< [owner] or NULL */
	struct tp_tap tp_tap;        /**< [owner] shows it what goes by reference */
	struct net_counters net[UROCE_MAX_PORTS];      /**< [owner] */
	uint64_t tx_progress_ns[UROCE_MAX_PORTS];      /**< [owner] when the port last accepted a packet or had none */
	struct engine_session **sessions; /**< [owner] all of them by their ids, room for UROCE_MAX_SESSIONS; NULL: no session */
	struct engine_session **hot; /**< [owner] room for UROCE_MAX_SESSIONS */
	uint32_t nb_hot;             /**< [owner] */
	uint32_t nb_sessions;        /**< [owner] hot and cold */
	struct burst failures[2];    /**< [owner] limits events about QPs that went to ERR; [1]: at the program's request */
	uint64_t handed_to;          /**< [owner] bits of the engines that got packets in this turn and must be woken */
	struct engine *peers[UROCE_MAX_ENGINES];

	_Atomic(struct mem_job *) copied; /**< copies that have an end, the latest first */
	_Atomic bool holds_copies;   /**< engine_hold_copies() */
	struct rte_ring *mailbox;    /**< struct engine_msg */
	struct rte_ring *send[UROCE_MAX_PORTS]; /**< mbufs from the control thread, by port: one that takes none holds up no other */
	struct rte_ring *handoff;    /**< mbufs from other engines; bit 0: trusted */
	struct rte_ring *events;     /**< posted struct engine_event */
	struct rte_ring *free_events;
	struct engine_event *event_pool;
	struct rte_ring *free_mads;
	struct tp_mad *mad_pool;
	struct tp_mad *mad_spare;    /**< [owner] taken from free_mads, but its event found no room: used next */
	struct tp_mad *mad_lent;     /**< [control] the MAD that the last fetched event points to */
	_Atomic uint32_t event_signalled; /**< event_fd was written since the control thread last found no events */
	int event_fd;
	/* One for each thread that may run the engine. */
	int kick_fds[ENGINE_CPUS_MAX]; /**< eventfds for engine_wake() */
	struct kick_set *kick_set;   /**< epolls with that eventfd and those of the sessions; the engines of a loop share it */
	unsigned int kick_index;     /**< of the engine in the set */
	uint32_t waking;             /**< bits of the ports whose packets should end a sleep */
	_Atomic uint32_t proven;     /**< bits of those that need not prove it, or have done it */
	uint32_t paused;             /**< [owner] bits of the ports whose ethdevs must not be touched */
	struct rte_ring *kicks;      /**< KICK(): sessions that have kicked, and on which CPU */
	_Atomic uint32_t kicks_lost; /**< 1: the ring was full, so look at the doorbells of all sessions */

	_Alignas(RTE_CACHE_LINE_SIZE) _Atomic uint32_t owner; /**< 1: a thread is running the engine */
	_Atomic uint32_t stop;
	_Atomic uint32_t sleeping;   /**< 1: write a kick_fd after giving the engine something to do */
};

/* clock.c */
/** Start the clock with the kernel's time. */
void clock_init(struct engine *e);
/** [owner] Read the TSC and update e->now_ns. @return the time now, never less than before. */
uint64_t engine_now(struct engine *e);
/** [owner] transport_config.stamp_ns: the time now, without changing e->now_ns. */
uint64_t clock_read(void *engine);

/* core.c */
/** [any] Become the owner. @return false: another thread is the owner. */
bool engine_own(struct engine *e);
/** [owner] Stop being the owner. */
void engine_disown(struct engine *e);
/** [any] Wake the engine if it sleeps. Call this after putting something into one of its rings. */
void engine_wake(struct engine *e);
/** Create a ring without a name. @return NULL with errno set. */
struct rte_ring *engine_ring(const char *what, unsigned int entries, int socket_id, unsigned int flags);

/* copy.c */
/** [owner] transport_config.copy. */
bool copies_begin(void *engine, struct mem_job *job);
/** [owner] Tell the transport which copies have an end. @return how many. */
uint32_t copies_run(struct engine *e, uint64_t now_ns);
/** [owner] Wait for the copies that have none. @return false: some program lets one wait for ever; the transport's memory must stay. */
bool copies_end(struct engine *e);

/* mailbox.c */
/** [owner] Run waiting messages. @return how many. */
uint32_t mailbox_run(struct engine *e, uint64_t now_ns);

/* event.c */
/** [owner] Send an event to the control thread; counted as lost if there is no room. */
void event_post(struct engine *e, const struct engine_event *ev);
/** [owner] The transport's transport_config.mad. */
void event_post_mad(void *engine, const struct tp_mad *mad);
int events_create(struct engine *e);
void events_destroy(struct engine *e);

/* session.c */
/** [owner] Handle the doorbells of the hot sessions. @return number of doorbells. */
uint32_t sessions_run(struct engine *e, uint64_t now_ns);
/** [owner] @return true if a doorbell of a hot session has rung. */
bool sessions_rung(const struct engine *e);
/** [owner] Tell the clients of hot sessions that they must kick after ringing (true), or needn't (false). */
void sessions_arm(struct engine *e, bool armed);
/** [owner] Heat the sessions whose kicks were taken. */
void sessions_kicked(struct engine *e);
/** [owner] Count hot sessions that have rung since @p since_ns. @param n  Gets as many more for each CPU, by where their clients last kicked. */
void sessions_active(const struct engine *e, uint64_t since_ns, uint32_t n[ENGINE_CPUS_MAX]);

/* move.c */
/** [owner] A doorbell has rung whose place in qps[] is empty. Pass it on if its QP is elsewhere. @return false: there is no such QP. */
bool moved_ring(struct engine *e, struct engine_session *s, uint32_t slot);

/* kick.c */
/** Create kick_fds and a kick_set. @return 0 or an errno value. */
int kicks_create(struct engine *e);
/** Close what there is of kick_fds, and leave the kick_set. */
void kicks_destroy(struct engine *e);
/** Join the kick_set of another engine of the same loop. Neither is running. @return 0 or an errno value. */
int kicks_share(struct engine *e, struct engine *with);
/** [owner] Let writes to @p fd wake the thread of CPU @p cpu. @param session  ID plus one; 0: the engine itself. @return 0 or an errno value. */
int kicks_watch(struct engine *e, unsigned int cpu, int fd, uint32_t session);
/** [owner] */
void kicks_unwatch(struct engine *e, unsigned int cpu, int fd);
/** [owner] The ethdev of @p port has started again: let its packets wake the engine. */
void kicks_watch_port(struct engine *e, uint16_t port);
/** Let writes to @p fd, an eventfd of the loop, end kicks_take(), which doesn't count them. @return 0 or an errno value. */
int kicks_watch_loop(struct engine *e, unsigned int cpu, int fd);
/**
 * [any] Wait for kicks that arrive at CPU @p cpu, of all engines that share @p e's kick_set, and note their sessions for sessions_kicked().
 * @param timeout  NULL: wait for ever.
 * @return true if there were any.
 */
bool kicks_take(struct engine *e, unsigned int cpu, const struct timespec *timeout);

/* io.c */
/**
 * [owner] Receive packets from the ports, from loopback and from other engines.
 * @param bursts  At most so many bursts from each port, and from the other engines.
 * @return number of packets.
 */
uint32_t io_rx(struct engine *e, uint32_t bursts, uint64_t now_ns);
/** [owner] Receive all that has come by loopback and from other engines until now. */
void io_rx_inside(struct engine *e, uint64_t now_ns);
/** [owner] There was no turn for @p ns. This time must not count as time in which ports accepted no packets. */
void io_was_away(struct engine *e, uint64_t ns);
/** [owner] Have packets end the sleep that follows. @return false: there are packets already. */
bool io_arm(const struct engine *e);
/** [owner] Packets needn't wake anybody any more. */
void io_disarm(const struct engine *e);
/** [owner] Put packets of the control thread into the TX vectors, as far as there is room. */
void io_send(struct engine *e);
/** [owner] @return whether io_send() has something to do. */
bool io_may_send(const struct engine *e);
/** [owner] @return whether packets are in TX vectors because a port didn't take them. */
bool io_waits_for_port(const struct engine *e);
/** [owner] Flush the TX vectors. @return number of packets that the ports accepted. */
uint32_t io_tx(struct engine *e, uint64_t now_ns);
/** [owner] The transport's transport_config.takes. */
bool io_takes(void *engine, uint16_t port, const struct gid *dgid, uint16_t vlan);
/** [owner] The transport's transport_config.handoff. */
void io_handoff(void *engine, unsigned int to, uint16_t port, struct rte_mbuf *m, bool trusted);
/** [owner] Wake the engines that got packets in this turn. */
void io_handoff_done(struct engine *e);
/** [owner] Free all packets that the engine holds. */
void io_drain(struct engine *e);

/* engine.c */
/** Wait until this thread is the owner. */
void engine_own_wait(struct engine *e);
/** [owner] One turn. @return work done. */
uint32_t engine_run_turn(struct engine *e);
/** [any] @return the number of kick_fds, and of epolls in kick_set. */
static inline unsigned int
engine_cpus(const struct engine *e)
{
	return e->c.nb_cpus > 0 ? e->c.nb_cpus : 1;
}

#endif /* UROCE_ENGINE_PRIV_H */
