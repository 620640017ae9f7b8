/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The state of a control thread, and what every file of lib/control needs: log, clock, epoll, limits.
 *
 * Owns: struct control, which control.c creates and frees. Each part of lib/control uses only its own members of it.
 * Called by: all of lib/control, none of which it calls. Thread: control, or another one that holds control_lock(),
 * unless stated otherwise.
 */
#ifndef UROCE_CONTROL_PRIV_H
#define UROCE_CONTROL_PRIV_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <rte_log.h>

#include "base/assert.h"
#include "base/burst.h"
#include "base/container_of.h"
#include "base/counter.h"
#include "base/handles.h"
#include "control/control.h"
#include "control/core/balance_priv.h"
#include "control/core/opener.h"
#include "control/core/saving_priv.h"
#include "control/core/serving_priv.h"
#include "engine/engine.h"
#include "net/port/track.h"

extern int control_logtype;
#define CTL_LOG(level, fmt, ...) rte_log(RTE_LOG_##level, control_logtype, "uroced: " fmt "\n", ##__VA_ARGS__)

/** The limits of lib/control that can't be configured. */
enum {
	/** Segments of an MR that are shared memory: each has a descriptor open while the MR is being made. */
	CONTROL_MAX_SHARED_SEGS = 4096,
	/** Descriptors that a session has from the beginning: socket, /proc/PID, its mappings and memory. */
	SESSION_FDS = 4,
	/** What a session costs the daemon from the beginning, in bytes: structs, doorbells, events that wait. */
	SESSION_BYTES = 128 << 10,
	/**
	 * Mappings of all sessions' memory at most. The kernel allows a process 65530 (vm.max_map_count), and malloc()
	 * needs some of them.
	 */
	CONTROL_MAX_MAPS = 49152,
	/** Files of a user's shared memory, and of all, that are open while their MRs are being made. */
	CONTROL_USER_OPENING = CONTROL_MAX_SHARED_SEGS,
	CONTROL_ALL_OPENING = 4 * CONTROL_USER_OPENING,
	/** How long a program may keep its own mappings from being read; then its memory is copied by the kernel. */
	QUESTION_MS = 2000,
	/** Questions about the mappings of a user's programs that are under way at most: one that hangs for good takes nobody else's place. */
	QUESTIONS_OF_USER = SHARED_ASKED / 8,
	SESSION_COMP_VECTORS = 64,
	SESSION_AH_BUCKETS = 256,
	/** Size of the memfd for converted memory, log2. It is sparse, and no offset is used twice. */
	SESSION_MEM_SHIFT = 46,
	/** Converted memory is mapped in views of this size, log2, so that many MRs share one mapping. */
	SESSION_VIEW_SHIFT = 30,
	CONTROL_LINK_POLL_MS = 500,
	/** Events of one engine handled in a turn at most: a flood of ARP or MADs must not keep programs waiting. */
	CONTROL_EVENT_BURST = 256,
	/** QPs destroyed by one message to an engine at most, so that other programs' traffic goes on in between. */
	CONTROL_DESTROY_BURST = 32,
	/** WQEs that an engine executes in one message, before an AH is destroyed or a CQ resized: what one turn of it does. */
	CONTROL_POSTED_BUDGET = 128,
	/** How long the end of an AH or UD QP waits for datagrams: longer than a copy may take (TP_COPY_DEADLINE_NS). */
	CONTROL_POSTED_WAIT_MS = 2500,
	CONTROL_POSTED_CALLS = 8, /**< such messages to each engine, before a CQ is resized */
	/** Asynchronous events of a session that wait for room in its socket at most. */
	ASYNC_WAITING = 4096,
	/**
	 * When a turn has taken this long, registrations of many segments, deregistrations and the ends of sessions wait for
	 * the next one. At least one of them is done in each turn, and in between the requests of all others.
	 */
	CONTROL_TURN_NS = 2000000,
	CONTROL_PEER_BUCKETS = 4096,
	/**
	 * What the requests of a session may take of a turn. One whose last request took longer is not served until it has been given that much,
	 * in this and later turns, as long as others have requests too.
	 */
	CONTROL_SESSION_NS = 2000000,
	CONTROL_SMALL_MR = 64, /**< segments of an MR that doesn't count as many */
	/** Log lines about ended sessions per second at most. */
	CONTROL_LOG_BURST = 20,
};

/** Kinds of objects that have a handle. */
enum obj_type {
	OBJ_PD,
	OBJ_MR,
	OBJ_MW,
	OBJ_DM,
	OBJ_CHANNEL,
	OBJ_CQ,
	OBJ_SRQ,
	OBJ_QP,
	OBJ_AH,
	OBJ_XRCD,
	OBJ_CM_ID,
	OBJ_CM_GROUP,
	OBJ_TYPES,
};

struct obj_qp;
struct session;
struct stalls;
struct subuids;

/** A descriptor in epoll, and the function that handles its events. */
struct watch {
	void (*fn)(struct watch *w, uint32_t events);
	int fd;
};

/** The eventfd of an engine. */
struct engine_watch {
	struct watch watch;
	struct control *control;
	struct engine *engine;
};

/** What follows a port's state: ports.c. */
struct port_watch {
	struct port_track track;
	struct watch links; /**< what the kernel reports; -1: nothing */
	struct control *control;
	uint16_t index;
	bool told_why;        /**< the log has said why the port doesn't start */
	bool polled;          /**< the control thread's loop runs */
	uint64_t populate_ns; /**< when to call net_port_populate(); 0: it isn't needed */
	struct gid taken;     /**< the last address that another port had, as the log has said */
	unsigned int gids_left_out; /**< addresses for which the GID table has no index, as the log has said */
	uint32_t ip_mtu;      /**< net_port.ip_mtu, as engines know it */
	uint64_t next_follow_ns; /**< when paths may follow neighbours again */
	uint64_t followed;       /**< paths that have */
};

/** Results of control_reload(). */
struct reloads {
	uint64_t done, refused;
	char error[CONFIG_ERR_BYTES];   /**< error of the last one; "": it succeeded */
	char restart[CONFIG_ERR_BYTES]; /**< keys that the last successful one changed and that need a restart */
};

/** What this daemon has taken over from the one before. */
struct taken_over {
	uint32_t daemons; /**< how many have handed their programs to the next so far; 0: nothing was taken over */
	uint32_t sessions, qps, refused;
	uint32_t crashes;  /**< of the daemons before, how many have crashed */
	uint32_t qps_lost; /**< that went to ERR, as the last one crashed */
	uint64_t held_ns; /**< since when the daemon before had served no requests; 0: it is known for how long */
	uint64_t gap_ns;  /**< for how long nobody served them */
};

/** QPs that have moved from one engine to another: obj/qp_move.c. */
struct moves {
	uint64_t done;                /**< QPs */
	uint64_t balanced;            /**< of those: that `balance` moved */
	uint64_t refused;             /**< moves, of a QP or of a group */
	uint64_t last_ns, longest_ns; /**< for how long a QP sent nothing new */
};

/** What divides the QPs among the engines: balancing.c. */
struct balancing {
	bool on;            /**< false: the members below mean nothing */
	bool looking;       /**< at the QPs, in slices; the next one begins at the QP with index `pos` of the session with this number */
	uint64_t looks;     /**< number of the look, also of one that has ended */
	bool planning;      /**< when all are looked at, moves are planned; false: this is the first look, which says nothing about an interval */
	uint64_t session;
	uint32_t pos;
	uint64_t next_ns;   /**< when the interval ends */
	uint64_t busy_cycles[UROCE_MAX_ENGINES], idle_cycles[UROCE_MAX_ENGINES]; /**< when it began */
	struct balance policy;
	struct balance_move moves[BALANCE_MOVES];
	unsigned int nb_moves, next_move; /**< those from next_move on have still to be made */
};

/** The load of an engine between the last two calls of inspect_tick(). */
struct engine_load {
	uint64_t busy_cycles, idle_cycles; /**< at the last call */
	uint32_t percent;
};

struct control {
	struct control_setup s;
	pthread_mutex_t lock; /**< control_lock() */
	int epfd;

	/* The loop: control.c, events.c, dispatch.c, reload.c. */
	_Atomic bool stop;
	int spare_fd; /**< closed for a moment to accept and refuse a program when no descriptors are left */
	struct watch listen, wake, signals;
	uint64_t held_ns; /**< since when requests and programs that connect wait: save.c; 0: they don't */
	struct taken_over taken_over;
	pthread_mutex_t adopt_lock;
	int adopt[CONTROL_ADOPT_MAX]; /**< sockets of sessions of this process that are to begin; protected by adopt_lock */
	unsigned int nb_adopt;
	struct engine_watch engines[UROCE_MAX_ENGINES];
	struct port_watch ports[UROCE_MAX_PORTS];
	bool link_up[UROCE_MAX_PORTS]; /**< as programs were told */
	uint64_t next_links_ns, next_tick_ns;
	uint64_t next_alive_ns;
	uint64_t turn_ns; /**< when this turn began */
	uint64_t turns;   /**< of the thread so far */
	uint64_t failures_unsaid[UROCE_MAX_ENGINES]; /**< QP failures of each engine that the log has accounted for */
	uint32_t most_conns; /**< highest number of CM connections since the heap was last trimmed */
	uint8_t *rx;         /**< receive buffer for one request */
	struct reloads reloads;

	struct serving serving; /**< what the control thread is doing: core/serving.c */
	struct stalls *stalls;  /**< who looks at that: observe/stall.c */

	/* Sessions and users: core. */
	TAILQ_HEAD(session_list, session) sessions;
	TAILQ_HEAD(, settling) settling; /**< replies that are put off: core/settle.c */
	TAILQ_HEAD(, session) closed; /**< closed sessions, destroyed at the end of this turn */
	uint32_t nb_sessions;
	TAILQ_HEAD(, session) strangers; /**< without HELLO, the oldest first */
	uint64_t next_session;
	LIST_HEAD(, user) users;
	struct burst ends; /**< limits log lines about ended sessions */
	struct subuids *subuids;
	struct burst refusals; /**< limits log lines about refused requests */
	uint64_t refused[QUOTAS], refused_sessions, hello_timeouts; /**< requests beyond a limit of a program or user */

	/* Objects: obj, memory. */
	struct shared_ops shared; /**< who opens what programs have mapped (/proc/PID/map_files) */
	uint32_t opening;         /**< files open for MRs that are being made */
	/* Questions to it: memory/questions.c. */
	struct watch answers; /**< its socket, or -1: nobody is asked */
	TAILQ_HEAD(, session) questions; /**< sessions that wait for an answer, the oldest first */
	struct {
		uint64_t number;
		uid_t uid;
	} asked[SHARED_ASKED]; /**< those that may still be answered, though perhaps nobody waits for it */
	uint32_t nb_asked;
	uint64_t last_question, unread_maps; /**< numbers given so far; questions that were not answered in time */
	bool hugepages;
	int uffd; /**< /dev/userfaultfd, or -1 */
	uint32_t count[OBJ_TYPES], limit[OBJ_TYPES];
	struct handles pd_ids;
	uint64_t next_cq;
	struct handles numbers[OBJ_TYPES]; /**< of CQs and SRQs, for journals: obj_number() */
	struct old_journals *old_journals; /**< after a crash, while programs are restored: those of the daemon before; else NULL */
	unsigned int next_engine; /**< engine of the next QP, SRQ or XRC domain, modulo the number of engines */
	LIST_HEAD(, xrcd) xrcds;
	uint32_t next_xrcd;
	struct handles srqns;   /**< numbers of XRC SRQs */
	struct handles targets; /**< struct xrc_target */
	struct secret secret;   /**< of hash tables */
	LIST_HEAD(peer_list, obj_qp) *peers; /**< connected QPs by their peers, CONTROL_PEER_BUCKETS: obj/identity.c */
	/**
	 * Whether a connection manager has the agreement of the peer at @p gid that its QP @p peer_qpn is for @p qpn of the user of
	 * @p s; set by cma.
	 */
	bool (*peer_agreed)(struct control *c, const struct session *s, uint32_t qpn, const struct gid *gid, uint32_t peer_qpn);
	uint64_t refused_qpns, refused_peers; /**< connections in the name of others' QPs, and to their peers */

	/* Connections: cma. */
	struct gsi *gsi;
	struct cma *cma;

	struct moves moves;
	struct balancing balancing;

	struct saving saving; /**< for the daemon after a crash: core/saving.c */

	/* Observation: observe. */
	struct engine_load load[UROCE_MAX_ENGINES];
	struct exporter *exporter;
	struct telemetry_socket *telemetry; /**< NULL: it has none */
	struct capture *capture; /**< NULL: none is running */
	bool sysfs;              /**< the files of sysfs.h were written */
};

/** [any thread] @return CLOCK_MONOTONIC in ns. */
uint64_t control_now_ns(void);
/** @return true if this turn has taken so long that what can wait should. */
static inline bool
control_turn_is_long(const struct control *c)
{
	return control_now_ns() - c->turn_ns > CONTROL_TURN_NS;
}
/** Call on our other threads: blocks the signals that the control thread handles. */
void control_thread_signals(void);
/** Add @p w to epoll. @return 0 or an errno value. */
int control_watch(struct control *c, struct watch *w, uint32_t events);
/** Remove @p w from epoll. */
void control_unwatch(struct control *c, struct watch *w);

#endif /* UROCE_CONTROL_PRIV_H */
