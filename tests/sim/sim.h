/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The deterministic simulator: several transports in one process, a virtual clock, links that do everything
 * that networks do, programs of random verbs, and a model that knows what must come of them.
 *
 * One seed decides everything; the same seed gives the same run. The parts:
 *   sim.c      options, the loop over seeds, shrinking
 *   config.c   what a seed means: sizes, faults, attributes
 *   world.c    a seed from beginning to end: clock, event queue
 *   endpoint.c  hosts: engines, CQs, copies of memory
 *   setup.c    connections: memory, QPs, attributes
 *   states.c   QPs from RESET to RTS, SQD, ERR and back
 *   conn.c     connections: when they end, and begin again
 *   recvq.c    RQs and SRQs as their clients see them
 *   link.c     the network between endpoints
 *   clock.c    stalls, and clocks that jump
 *   sent.c     what senders must never do
 *   credits.c  end-to-end credits: what responders promise, and that requesters keep to it
 *   client.c   a verbs program's end of the rings
 *   program.c  which work requests a client posts
 *   windows.c  what it does with memory windows, and what must come of that
 *   model.h    what completions and memory must be (written from the specification), in several files
 *   xrc.c      XRC: SRQs that requests name
 *   paths.c    connections with alternate paths, which change to them
 *   restart.c  hosts whose daemon is replaced: records instead of transports
 *   crash.c    hosts whose daemon is killed: journals instead of records
 *   partitions.c  P_Keys of hosts and connections
 *   mads.c     MADs between the hosts' QPs 1
 *   mcast.c    multicast groups: who is in them, and who sends to them
 *   stale.c    packets of former connections that come late
 *   huge.c     messages of gigabytes
 *   looks.c    what an administrator sees of QPs
 *   moves.c    QPs that move between the engines of a host
 *   connect.c  connections that the hosts' connection managers make and end
 *   foreign*.c  ends of connections that are not uroce's
 *   hostile.c, bad.c  peers and programs that keep to no rule
 *
 * Owns everything below. One thread.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_mbuf.h>

#include "mem/mw.h"
#include "rng.h"
#include "sim_config.h"
#include "transport/move.h"
#include "transport/transport.h"

struct sim_piece {
	uint8_t *p;
	uint32_t len;
};

/** A memory region of a program. */
struct sim_mr {
	struct mr *mr;               /**< NULL: deregistered */
	uint8_t *base;
	uint32_t len;
	uint32_t key;
	uint64_t iova;
};

enum sim_bind_state {
	SIM_BIND_BINDING,            /**< posted */
	SIM_BIND_BOUND,              /**< complete */
	SIM_BIND_ENDING,             /**< an end of it is posted */
	SIM_BIND_ENDED,              /**< ... and complete */
	SIM_BIND_FAILED,
};

/** What a window was bound to once. */
struct sim_binding {
	enum sim_bind_state state;
	bool ended_by_peer;          /**< SEND_WITH_INV, of the peer that goes through it */
	bool raced;                  /**< ended while operations were under way through it */
	bool unsure;                 /**< what was to end it failed */
	enum mw_type type;
	const struct sim_mr *mr;
	uint32_t window, key;
	uint32_t off, len, access;   /**< len 0: bound to nothing */
	uint32_t users, readers;     /**< operations posted and not complete that go through it; READs */
};

/** A memory window; its client's view. */
struct sim_window {
	struct mw *mw;
	enum mw_type type;
	uint32_t key;                /**< of the last bind posted */
	uint32_t now;                /**< binding that is, or will be once all that is posted is done */
	uint32_t ending;             /**< binding that the peer is about to end */
	bool spoiled;                /**< something wrong with it was posted: the peer keeps its hands off */
};

/** A send work request, as it was posted, and what became of it. */
struct sim_op {
	uint64_t wr_id;
	uint8_t opcode, flags, nsge;
	bool retired;                /**< known to be complete */
	bool from_read;              /**< sends what the READ before it brought */
	bool stale;                  /**< needs an MR that was gone when it was posted: can't succeed */
	uint8_t status;              /**< once retired; SIM_NO_STATUS before */
	enum sim_plant plant;
	uint32_t len;
	uint32_t imm;
	uint32_t target_off;         /**< WRITE, READ: into the peer's target area; atomics: word */
	uint32_t last_psn;           /**< RC */
	uint32_t consume;            /**< SEND, WRITE_IMM: number of the receive it takes, per direction */
	uint32_t srqn;               /**< XRC */
	uint64_t compare_add, swap, old;
	uint32_t binding;            /**< own: BIND_MW, LOCAL_INV; the peer's: that it goes through or invalidates */
	uint32_t replaces;           /**< BIND_MW: binding that it ends */
	uint32_t window;             /**< BIND */
	struct sim_qp *to;           /**< UD: whom it is for; NULL: a group */
	uint32_t group;              /**< UD: number of the group that it is for, from 1; 0: none */
	uint32_t qkey;               /**< UD, to a group: members with this one get it */
	uint16_t pkey;               /**< of its packet */
	bool fenced;                 /**< must be */
	bool huge;                   /**< of huge.c: no pieces, and target_off is into its region */
	struct sim_binding go_by;    /**< the binding when this was posted */
	struct sim_piece pieces[SIM_MAX_SGE];
	uint8_t *copy;               /**< from_read: the data, once retired */
	uint64_t posted_ns;
};

/** A receive work request. */
struct sim_recv {
	uint64_t wr_id;
	uint8_t nsge;
	enum sim_plant plant;
	bool done;
	uint32_t len;
	uint32_t buf;                /**< which buffer of the queue's memory */
	struct sim_piece pieces[SIM_MAX_SGE];
};

/** A packet of a former connection, without its payload. */
struct sim_stale {
	struct wire_bth bth;
	uint8_t hdr[SIM_STALE_HEADERS]; /**< from the BTH on */
	uint8_t data[SIM_STALE_DATA];   /**< of a SACK */
	uint32_t payload_bytes, data_bytes;
	bool valid;
};

struct sim_ep;
struct sim_conn;
struct sim_cq;
struct foreign;

/** An RQ or SRQ: the client's view, and what was posted. */
struct sim_recvq {
	struct sim_ep *ep;
	struct rng *rng;
	struct ring ring;
	uint32_t base;               /**< ring counter at the program's beginning */
	uint32_t depth, max_sge;
	struct sim_mr mr;            /**< the buffers */
	uint32_t stride, nb_bufs, recv_len;
	struct sim_recv *recvs;
	uint32_t nb_room, nb_posted, nb_done;
	uint64_t wr_id;              /**< of the first one */
	uint64_t next_ns;            /**< slow receivers */

	/* SRQs. */
	struct srq *srq;             /**< NULL: an RQ */
	struct transport *tp;
	struct ring_srq_shared *shared;
	uint8_t *buf_used;
	struct rng own_rng;
	uint32_t limit, armed_at;    /**< 0: not armed; receives taken when it was armed */
	uint32_t nb_lost;            /**< taken by QPs that were reset */
	struct sim_cq *cq;           /**< XRC */
	uint32_t srqn, xrcd;
};

/** End-to-end credits of an RC QP, in receives since its program began. */
struct sim_credits {
	uint32_t round;              /**< of the program, from 1 */
	bool limited, unlimited;     /**< the peer has said how many receives it has, or that it doesn't say */
	uint64_t limited_ns;         /**< since then */
	uint32_t limit;              /**< as requester: receives that the peer has said it has, in all */
	uint32_t promised;           /**< as responder: receives that it has said to have, in all */
	uint32_t arrived;            /**< as responder: the highest PSN that came */
	struct {
		uint32_t psn, promised;
		bool valid;
	} came[SIM_CAME];            /**< as responder: what it had said when a PSN came first, since it was sent away */
};

/** What a UD QP has to do with a group. */
struct sim_member {
	bool ever, now;              /**< in it */
	uint64_t left_ns;
	uint32_t ah;                 /**< how it sends there; 0: never */
	struct tp_path path;
};

/** The path that a QP uses and the one that it may change to. */
struct sim_paths {
	uint8_t number, alt_number, old_number; /**< a byte of both addresses */
	bool loaded;                 /**< has an alternate path */
	bool peer_ready;             /**< a packet of the peer's has said since that it has too */
	bool ordered;                /**< its program wants it to migrate */
	bool provoked, told;         /**< somebody has asked for a migration to elsewhere; the program has heard of it */
	uint64_t since_ns;           /**< the last change of any of these */
	struct tp_path alt;
};

/** One end of a connection: a QP, the program that uses it, and what the model knows of it. */
struct sim_qp {
	struct sim_ep *ep;
	struct transport *tp;        /**< of the engine that owns it */
	struct sim_conn *conn;
	struct sim_qp *peer;
	struct qp *qp;               /**< NULL once destroyed; of a foreign end only its number and state count */
	struct foreign *foreign;     /**< NULL: it is uroce's */
	uint32_t id;                 /**< 2 * connection + side */
	uint16_t port;               /**< of its endpoint */
	uint32_t qpn;
	struct rng rng;
	struct qp_params params;
	struct uroce_qp_attr attr;   /**< as configured */
	struct tp_path path;
	uint16_t pkey;
	uint32_t mtu;                /**< bytes */
	struct ring sq;              /**< the client's view */
	struct sim_recvq *rq, own_rq; /**< rq: the one in use */
	struct sim_cq *send_cq, *recv_cq;
	struct ring_qp_shared *shared;
	uint32_t sq_depth;
	uint32_t ahs[2 * SIM_MAX_CONNS]; /**< UD: the ways to those it sends to, by id; 0: none */
	struct tp_path paths[2 * SIM_MAX_CONNS];
	struct sim_member groups[1 + SIM_MAX_GROUPS]; /**< UD: by the group's number */

	/* Memory. */
	struct sim_mr src_mr;        /**< the pattern under a key of its own */
	struct sim_mr dest_mr, target_mr, noaccess_mr, other_pd_mr, stale_mr;
	struct sim_mr window_mr;     /**< the target area again, for windows only */
	struct sim_window windows[SIM_MAX_WINDOWS];
	uint32_t nb_windows;
	struct sim_binding *bindings; /**< in the order of posting */
	uint32_t nb_bindings, max_bindings;
	uint32_t buf_stride;         /**< of the buffers in dest_mr */
	uint32_t nb_dest_bufs;

	/* The program; a QP that was RESET runs another one. */
	uint32_t round;
	uint32_t sq_base;            /**< ring counter at its beginning */
	struct sim_op *ops;
	uint32_t nb_ops;             /**< to be posted in all */
	uint32_t nb_posted, nb_retired;
	uint32_t psn_next;           /**< RC: of the next operation */
	uint32_t most_messages;      /**< RC: that the peer can count in what was posted */
	uint32_t nb_offers;          /**< RC: of selective repeat, that it has made */
	uint32_t old_sacks;          /**< forged SACKs for another offer that it got */
	bool nak_seen;               /**< RC: the peer has asked for nak_psn */
	uint32_t nak_psn;
	uint32_t rnr_psn;            /**< RC: not to be sent again before rnr_until */
	uint64_t rnr_until, rnr_most; /**< rnr_most: however often a foreign peer repeats itself */
	bool rnr_waits;              /**< a foreign peer has asked for time, and nothing was sent since */
	uint32_t rnr_count;          /**< RNR NAKs of rnr_psn */
	uint32_t sent_round;         /**< the next ones are of this round; sent.c */
	uint32_t sent_next, acked;   /**< RC: behind the highest PSN that was sent; first one without an answer */
	uint64_t progress_ns;        /**< last answer */
	uint64_t flight_ns;          /**< when something was sent while nothing was on its way */
	uint64_t again_ns;           /**< when something was sent again */
	bool last_was_new;           /**< what was sent last was sent for the first time */
	uint32_t answered;           /**< RC: behind the highest PSN of an answer */
	uint32_t sacked[SIM_SACKED]; /**< RC, by PSN modulo that: the peer has said that it holds this one, SIM_THIS_PSN */
	uint64_t sacked_losses;      /**< when the last one was noted: losses of other kinds that the requester knew of, */
	uint64_t sacked_waited;      /**< and packets that had to wait for a QP's turn */
	uint32_t again[SIM_SACKED];  /**< RC, by PSN modulo that, SIM_THIS_PSN: has been sent again */
	uint32_t lacked;             /**< RC: what the peer has said it lacks since lacked_ns, not sent again yet; 0: nothing */
	uint64_t lacked_ns;
	uint32_t expects, expects_round; /**< as a responder of RC: the PSN that it lacks; see sent_round */
	bool asked;                  /**< ... for that, or said that it isn't ready */
	struct sim_credits credits;
	struct sim_paths paths_now;
	uint32_t behind;             /**< the highest PSN that did */
	uint64_t gap_ns;             /**< when something behind that came first while it hadn't; 0: nothing did */
	uint64_t marked_ns, cnp_due_ns, cnp_sent_ns; /**< congestion met by what was sent to it */
	uint64_t cnp_ns, paced_bytes; /**< first CNP that came; what was sent since */
	uint32_t most_psn[2];        /**< highest PSN of requests and of responses under way to it, in most_round */
	uint32_t most_round;
	uint32_t drained_at;         /**< counter of the send CQ when the SQ was drained */
	uint32_t nb_consume;         /**< receives that posted ops take at the peer */
	/** Unreliable: the same as rx_op, by sender, and by group, since each has its way through the host. */
	uint32_t rx_from[2 * SIM_MAX_CONNS][1 + SIM_MAX_GROUPS];
	uint32_t got_from[2 * SIM_MAX_CONNS]; /**< as nb_messages, by sender */
	uint32_t rx_op;              /**< peer's ops before this one have been seen as received */
	uint32_t nb_messages;        /**< received */
	uint32_t next_srq_recv;      /**< its receives of an SRQ come in this order */
	struct {
		uint32_t next_recv, rx_op; /**< as next_srq_recv, and as rx_op of the ops that name it */
		bool ended;                /**< a receive of it came back in error */
	} xsrq[SIM_MAX_XSRQS];       /**< XRC target: SRQs may have CQs of their own */
	bool ready;                  /**< in RTS: the client may post */
	bool finalized;              /**< moved to ERR at the end */
	bool planted_remote;         /**< has posted something that sends the peer to ERR */
	bool planted_local;
	bool planted_inv;            /**< ... and gets no answer */
	bool hurried;                /**< has invalidated a window that READs are under way through */

	/* What the model has seen. */
	bool client_err;             /**< the client moved it to ERR */
	bool sq_error, rq_error;     /**< a completion in error, other than flush */
	bool sq_flush, rq_flush;
	uint32_t sqe_left;           /**< SQE was left when so many sends had been posted, of which some aren't complete; else 0 */
	uint8_t first_status;
	uint32_t err_at, sqd_at;     /**< number of ops after which the client does that; UINT32_MAX: never */
	uint32_t dereg_at;           /**< number of the peer's ops after which target_mr goes */
	uint32_t local_dereg_at;     /**< number of ops after which one of the local MRs goes */
	struct sim_mr *local_dereg;
	bool abrupt;                 /**< at err_at goes to RESET, not ERR */
	bool abandoned;              /**< has done so: what was posted is gone without a trace */
	bool sqd_waiting, drained;
	uint64_t sqd_since_ns;
	uint32_t sqd_changes;        /**< of attributes since then */
	uint32_t events[UROCE_EVENT_GID_CHANGE + 1];
	struct sim_op *atomics;      /**< of all programs so far, for atomics.c */
	uint32_t nb_atomics;
	struct sim_stale stale_now[SIM_STALE], stale_former[SIM_STALE]; /**< some that were sent to it */

	/* Connections of the CM. */
	struct cm_conn *cm;          /**< NULL: not yet, or TimeWait is over */
	bool cm_due;                 /**< its program is about to answer */
	bool cm_over;                /**< ended by either side, */
	uint64_t cm_over_ns;         /**< then */
	bool cm_comm_est;            /**< a packet has come before the RTU */
};

struct sim_conn {
	uint32_t id;
	struct rng rng;
	enum uroce_qp_type type;     /**< RC, too, of an XRC connection */
	bool xrc;                    /**< qp[0] sends, qp[1] is the target */
	bool foreign;                /**< one end is */
	bool loopback;
	bool done;
	bool raced;                  /**< a window was taken away from operations that go through it */
	uint32_t mtu_code;
	uint64_t quiet_at;           /**< unreliable: nothing is on its way any more */
	uint32_t rounds_left;
	struct rng path_rng;
	bool several_paths;          /**< its packets' addresses are its own */
	uint32_t path_changes;
	uint8_t paths, alternate, dead_path; /**< numbers: the last one given out, the one to be loaded, one that died; 0: none */
	bool by_cm;                  /**< made and ended by the CM */
	bool cm_ending, cm_ends[2];  /**< its end has begun; who is to begin with it */
	unsigned int cm_side;        /**< the end that asks for it */
	struct sim_qp qp[2];
};

struct sim_cq {
	struct cq *cq;
	struct ring ring;            /**< the client's view */
	struct ring_cq_shared *shared;
	bool channel;                /**< else polled */
	uint32_t events;             /**< raised and not taken */
	struct sim_ep *ep;
	bool armed, solicited_only;
	uint64_t wake_at;            /**< solicited_only: looks without event then */
	bool stray;                  /**< armed, but looked at meanwhile: its event may find nothing */
	bool dead;                   /**< overrun */
	uint64_t *stamps;            /**< a time per completion, or NULL */
	uint64_t stamp;              /**< of the last one that was polled */
	uint16_t mod_count, mod_us;  /**< moderation: completions and time; both 0: none */
	uint32_t told;               /**< completions before this one were there at the last event */
	bool loose;                  /**< an event that was held back may come for what has been polled since */
	bool late;                   /**< so may those for which its channel had no room when its daemon was replaced */
};

/** Packets that wait for an engine's next turn. */
struct sim_burst {
	struct rte_mbuf **pkts;
	uint32_t n, max;
};

/** A share, and what the last turn left of it (shares.c). */
struct sim_share {
	struct share *share;
	bool waits, begins;              /**< for its turn; since the last turn */
	uint64_t cost, rounds;
	uint64_t others[SIM_MAX_SHARES]; /**< rounds that the others had when it last got something, or began to wait */
	int64_t level[SIM_MAX_SHARES];   /**< how far it was ahead of each other one when they last didn't both wait */
};

/** What the network has seen of an engine (tally.c). */
struct sim_tally {
	uint64_t tx_packets, tx_bytes, acks, rnr_naks, sacks, cnps, offers;
	uint64_t rx_packets, rx_bytes, rx_rnr_naks, rx_seq_naks, rx_sacks, rx_cnps;
};

struct sim_engine {
	struct transport *tp;
	struct sim_share shares[SIM_MAX_SHARES];
	struct sim_burst rx, loop;   /**< arrived, not yet given to the transport */
	struct sim_tally tally;
};

/** A QP, or all QPs of an SRQ or an XRC domain, that moves to another engine of its host (moves.c). */
struct sim_moving {
	struct rng rng;
	int step;                    /**< enum step; 0: none moves */
	uint32_t turns;              /**< until the next step */
	struct sim_engine *from, *to;
	uint32_t nb_qps, nb_srqs;
	struct sim_qp *qps[2 * SIM_MAX_CONNS]; /**< also those that are destroyed, and will be made again at the same engine */
	struct share *shares[2 * SIM_MAX_CONNS]; /**< of each at the new engine */
	struct sim_recvq *srqs[SIM_MAX_XSRQS + SIM_MAX_SRQS];
	struct qp_move *m;
	const struct rte_mbuf *last[UROCE_MAX_PORTS]; /**< of each port, behind all that they have built; must have left before they arrive */
	struct tp_held_list *held;   /**< for the model: what its former engine held */
};

/** A port whose MTU is smaller than its QPs' for a while. */
struct sim_mtu {
	struct rng rng;
	uint64_t change_ns;          /**< when it becomes smaller, or large enough again */
	uint64_t ended_ns;           /**< when it was large enough again */
	uint32_t ip_mtu;             /**< 0: it is large enough */
	uint16_t port;
};

/** How a host is killed: crash.c. */
struct sim_crash {
	bool armed;
	bool killed;                 /**< what it does from now on never happened */
	uint32_t steps;              /**< until it is killed */
	const struct sim_engine *turn; /**< whose turn it is; NULL: none's */
	struct transport *tp;        /**< whose events were told in the turn of this number, */
	uint64_t told_turn;
	uint32_t told;               /**< and how many */
	uint64_t counted;            /**< the last turn of that engine that counts */
	uint8_t *arena;              /**< what programs had in memory when it was killed */
};

struct sim_ep {
	struct sim_world *w;
	uint32_t id;
	uint32_t nb_engines;
	uint16_t nb_ports;
	uint16_t pkeys[UROCE_MAX_PKEYS];
	struct sim_engine engines[SIM_MAX_ENGINES];
	struct shared sh;
	struct mem_owner owner;
	struct sim_cq cqs[SIM_MAX_CQS];
	uint32_t nb_cqs;
	struct sim_recvq srqs[SIM_MAX_SRQS];
	uint32_t nb_srqs;
	struct sim_recvq xsrqs[SIM_MAX_XSRQS]; /**< XRC SRQs, of one domain */
	uint32_t nb_xsrqs;
	struct srq *foreign_srq;     /**< of another domain */
	uint32_t foreign_srqn;
	struct sim_mr pattern_mr;    /**< of the shared pattern: local reads only */
	struct sim_mr atomic_mr;
	struct mem_job *copied, **copied_end; /**< copies that have an end, for its engines' next turn */
	uint32_t cuts;               /**< MRs destroyed: no copy for one of them begins later */
	struct rng copy_rng;
	uint64_t copies_until;       /**< when the last copy has an end: they are made in order */
	struct cm *cm;               /**< NULL: none */
	struct cm_listener *cm_listener;
	struct tp_mad *cm_mads;      /**< for its next turn */
	uint32_t nb_cm_mads;
	struct rng cm_rng;
	uint64_t run_at;             /**< pending EV_RUN, UINT64_MAX: none */
	uint64_t stalled_until;      /**< its engine does nothing until then */
	uint32_t idle_turns;         /**< of its client, in a row */
	struct rng rng;
	uint64_t busy_until;         /**< end of its last turn */
	struct rng restart_rng;
	uint32_t restarts;           /**< so far */
	bool restarting;             /**< as soon as no copy is under way */
	struct sim_moving move;
	struct sim_mtu mtu;
	struct sim_crash crash;
	uint64_t killed_ns;          /**< when it was killed last; 0: never */
	uint64_t dark_until;         /**< its daemon was replaced: until then it makes no turn, and packets to it are lost */
	uint64_t tx_blocked_until;   /**< the NIC takes no packets until then */
	uint32_t errors[UROCE_WC_GENERAL_ERR + 1]; /**< that its programs were told of, by status */
};

/** What comes from a TX queue of a host. */
struct sim_lane {
	struct rng rng;
	uint64_t late_ns, late_until; /**< how late it is, and until when */
	uint64_t last_at;            /**< when the last of it arrives */
};

/** One direction between two endpoints. */
struct sim_link {
	struct rng rng;
	struct sim_lane lanes[SIM_MAX_ENGINES];
	uint64_t free_at;            /**< when the last packet has left */
	uint64_t last_at;            /**< when the last in-order packet arrives */
	uint64_t burst_from, burst_to;
};

enum sim_event_type { EV_PACKET, EV_RUN, EV_CLIENT, EV_HOSTILE, EV_COPY, EV_FOREIGN };
struct sim_event {
	uint64_t at, seq;
	enum sim_event_type type;
	uint32_t ep;                 /**< EV_FOREIGN: the QP's id */
	union {
		struct rte_mbuf *m;
		struct mem_job *job;
	};
};

struct sim_stats {
	uint64_t events, packets, lost, duplicated, reordered, corrupted, stale;
	uint64_t ops, recvs, completions, flushed, errors, bytes, virtual_ns, moves;
};

struct sim_world {
	struct sim_config cfg;
	uint64_t now_ns, deadline_ns;
	uint64_t seq;
	struct sim_event *heap;
	uint32_t nb_heap, max_heap;
	struct sim_ep eps[SIM_MAX_EPS];
	struct sim_link links[SIM_MAX_EPS][SIM_MAX_EPS];
	uint64_t ports_free_at[SIM_MAX_EPS][SIM_MAX_PORTS];
	struct sim_conn conns[SIM_MAX_CONNS];
	uint64_t arena_used;
	uint64_t partition_from, partition_to;
	uint32_t partition_mask;     /**< endpoints on one side */
	bool copies;                 /**< some transport has others copy memory that isn't mapped: packets may be executed late */
	bool quiet;                  /**< what is being checked assumes that packets are executed when they arrive */
	struct rte_mempool *pool;
	struct rng net_rng, rng, mcast_rng, stale_rng, jump_rng;
	bool late_all;               /**< all that a TX queue brings may be late, and QPs that move wait for it (link.c) */
	uint32_t nb_long_stalls, nb_jumps; /**< of engines, and of the clocks */
	uint64_t jumped_until;       /**< until then nobody need have done what is due since the clocks jumped */
	struct sim_group {
		bool ip6;
		struct gid gid;
	} groups[1 + SIM_MAX_GROUPS]; /**< by number, from 1 */
	uint32_t nb_groups;
	struct sim_mad {
		uint32_t from, to, received;
		uint16_t pkey, port;   /**< port: of the receiver */
		struct wire_addr addr;
	} mads[SIM_MAX_MADS];
	uint32_t nb_mads;
	struct sim_huge {
		struct sim_qp *q;      /**< who sends such messages, or NULL */
		bool reads;            /**< by READ; else by WRITE */
		uint32_t nb;           /**< so far */
		uint64_t local_off;    /**< of the last one */
		struct sim_mr from, to;
		uint8_t *buf, *tail;   /**< that the region @c to shows */
		struct rng rng;
	} huge;
	bool verbose, failed, settled;
	bool hostile;                /**< strangers raise counters too */
	char why[512];
	struct sim_stats stats;
};

/* Shared by all seeds: made once. */
extern uint8_t *sim_arena, *sim_pattern;
extern struct rte_mempool *sim_pool, *sim_small_pool;
extern int sim_mem_fd;

#include "sim_calls.h"
#include "sim_peers.h"

#endif /* SIM_H */
