/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's control thread: sessions of programs and their objects.
 *
 * Owns: the socket, the sessions, all objects of sessions (PDs, MRs, CQs, SRQs, QPs, AHs, shared memory), the
 * connection manager, the neighbours' timers and the ports' link states. Called by: lib/uroce, apps and tests. Thread:
 * everything here runs on one control thread, which sleeps in epoll when there is nothing to do; it changes what
 * engines own through their mailboxes. Other threads may read and change its state under control_lock(), which the loop
 * holds while it is awake. A process may have several control threads, each with engines and ports of its own.
 *
 * The parts, from bottom to top. Each calls and includes only parts that stand before it in this list, and this header:
 *   config/   the configuration and its parser
 * *   core/     what all files need: log, clock, epoll, lock; requests, sessions, quotas
 * *   memory/   memory of programs and of queues: sharing, mapping, SIGBUS
 *   obj/      verbs objects and the handlers of the requests about them
 * *   cma/      connections: rdma_cm's ids and QP 1, using lib/cm
 *   observe/  telemetry, metrics, captures, sysfs
 * *   .         the roots: dispatch.c, events.c, reload.c, session_end.c, which only control.c calls; save.c and restore.c (handover.h)
 */
#ifndef UROCE_CONTROL_H
#define UROCE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shared.h"
#include "control/config/config.h"

enum { CONTROL_ADOPT_MAX = 64 };

struct checkpoint_host;
struct cm_counters;
struct control;
struct gsi_counters;
struct shared_ops;

/** What the control thread works with. All of it must outlive the control thread. */
struct control_setup {
	struct uroced_config *conf; /**< keys that can be changed at run time are changed here */
	const char *config_file;    /**< the file that conf was read from, read again on SIGHUP; NULL: none */
	const char *const *sets;    /**< settings of the command line, which override the file */
	unsigned int nb_sets;
	struct impair **impairs;    /**< one per port, NULL: not impaired; changed on SIGHUP. NULL: ports can't be impaired */
	struct engine **engines;
	unsigned int nb_engines;
	const int *cpus;            /**< CPUs of the threads that run the engines, engine_config.cpus */
	unsigned int nb_cpus;       /**< 0: one thread each, on any CPU */
	struct net_port **ports;
	uint16_t nb_ports;
	struct shared sh;
	const struct shared_ops *opener; /**< who opens the shared memory of programs; NULL: this process itself */
	bool signals;               /**< SIGTERM and SIGINT end control_run(), SIGHUP calls control_reload() and then hangup() */
	/** [control] Called every alive_ms if this thread serves and every engine turns; NULL: nobody wants to know. */
	void (*alive)(void *arg);
	void *alive_arg;
	uint32_t alive_ms;
	/**
	 * [control] Another daemon wants to take the programs over, and waits on @p sock, of which the host makes a copy: handover.h.
	 * NULL: it can't. @return 0 or an errno value.
	 */
	int (*hand_over)(void *arg, int sock);
	void *hand_over_arg;
	const struct checkpoint_host *checkpoint; /**< who keeps what outlives a crash of this process (core/checkpoint.h), read during control_create(); NULL: nobody */
	const int *journals;        /**< with a checkpoint: memfds of the engines' journals, by their numbers; NULL: they keep none */
	int windows;                /**< with journals: the memfd of mw_keep() (mem/mw.h) */
	uint64_t crashed_ns;        /**< when the daemon before crashed, whose programs this one gets, CLOCK_MONOTONIC; 0: it didn't */
	void (*hangup)(void *arg);  /**< [control] passes SIGHUP on to the other stacks of the process; NULL: there are none */
	void *arg;
};

/**
 * Bind the socket under a temporary name next to the real one, so that programs don't find it before the daemon is
 * ready. Call this early: most mistakes in a configuration show here.
 *
 * @param path  Of the socket. A stale socket (nobody listens) is removed; one in use is an error.
 * @param mode,group  Permissions; group "" leaves the daemon's own.
 * @param fd  Receives the listening socket.
 * @param err  Receives what is wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0 or an errno value.
 */
int control_socket_bind(const char *path, uint32_t mode, const char *group, int *fd, char *err);
/** Rename the socket to its real name. @return 0 or an errno value with a message. */
int control_socket_publish(const char *path, char *err);
/** Remove the socket, whichever of the two names it has. */
void control_socket_remove(const char *path);

/**
 * Whether another process still has one of the addresses, besides the programs' socket, at which control_create() will listen: those of telemetry
 * and metrics. Sockets at which nobody listens are removed. Thread: any.
 */
bool control_names_are_taken(const struct uroced_config *conf);

/**
 * Create the control thread's state.
 * @param listen_fd  From control_socket_bind(), owned by the control from now on. -1: no other programs are served.
 * @param err  CONFIG_ERR_BYTES long.
 * @return NULL with a message.
 */
struct control *control_create(const struct control_setup *setup, int listen_fd, char *err);

/**
 * Serve until control_stop(), or a signal if setup.signals is set; then the caller must have blocked these signals in
 * all threads.
 */
void control_run(struct control *c);
/** [any thread, signal handlers] End control_run(), even one that starts later. */
void control_stop(struct control *c);
/** Handle pending events. @param max_ms  Sleep at most this long if there are none. @return events handled. */
uint32_t control_turn(struct control *c, int max_ms);

/** [any thread] @return true: there are sessions of this process's own (control_adopt()). */
bool control_has_own(struct control *c);

/**
 * [any thread] Keep other threads from using @p c until control_unlock(). The control loop holds the lock except while
 * it sleeps. May be nested. Don't hold it for long, since requests of programs wait meanwhile.
 */
void control_lock(struct control *c);
void control_unlock(struct control *c);

/**
 * Read the configuration again and apply what can be changed at run time. If it has a mistake, nothing changes. The log
 * and telemetry's /uroce/config report what was changed, what needs a restart and what is wrong.
 * @return 0, or what config_load() returned.
 */
int control_reload(struct control *c);

/**
 * [any thread] Begin a session of this process itself, whose memory needs no mapping (CTL_SEG_OWN). It is served from
 * the next turn on.
 * @param sock  The daemon's end of a SEQPACKET socketpair; owned by the control from now on, even if this fails.
 * @return 0; ENOBUFS: CONTROL_ADOPT_MAX sessions are waiting already.
 */
int control_adopt(struct control *c, int sock);

/**
 * [any thread] Change `impair` of a port, like control_reload().
 * @param p  NULL: stop impairing.
 * @return 0; EINVAL: no such port; an error of impair_attach().
 */
int control_set_impair(struct control *c, unsigned int port, const struct impair_params *p);
/** [any thread] Change `cc` of a port. @return 0; EINVAL: no such port. */
int control_set_cc(struct control *c, unsigned int port, enum tp_cc cc);

/** What a move did. */
struct control_moved {
	unsigned int qps;  /**< that have moved: all that share an SRQ or an XRC domain with the one that was named; 0: it was there already */
	uint64_t pause_ns; /**< for how long they sent nothing new */
};
/**
 * [any thread] Move a QP to another engine, while its program uses it, and with it all QPs of its SRQ, or all targets of its XRC domain.
 * @param why  Gets why not.
 * @return 0; ENOENT: no QP has this number; EINVAL: no such engine; E2BIG: more than ENGINE_MOVE_MOST QPs or SRQs would have to move; EBUSY: memory that
 * isn't mapped is being copied, so try again; ENOMEM. Unless it is 0 nothing has moved.
 */
int control_move_qp(struct control *c, uint32_t qpn, unsigned int engine, struct control_moved *out, const char **why);

/** End all sessions and free everything. The engines may be running or stopped. */
void control_destroy(struct control *c);

/** Number of objects of all sessions, for tests and statistics. */
struct control_counts {
	uint32_t sessions, pds, mrs, cqs, srqs, qps, ahs, xrcds, cm_ids;
};
void control_counts(const struct control *c, struct control_counts *out);
/** [any thread] @return the GUID of port @p p: the modified EUI-64 of its MAC address, host byte order. */
uint64_t control_port_guid(const struct net_port *p);
/** Counters of QP 1 and of the connection manager behind it; they live as long as @p c does. */
const struct gsi_counters *control_gsi_counters(const struct control *c);
const struct cm_counters *control_cm_counters(const struct control *c);

#endif /* UROCE_CONTROL_H */
