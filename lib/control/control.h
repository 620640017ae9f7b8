/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The control thread of the daemon: sessions of programs and their objects.
 *
 * Owns: the socket, the sessions, what every session has (PDs, MRs, CQs, SRQs, QPs, AHs, shared memory), the
 * connection manager, the neighbours' timers and the state of the ports' links. Called by: lib/uroce, apps and tests.
 * Thread: everything here runs on the one control thread, which sleeps in epoll when there is nothing to do; it
 * changes what engines own through their mailboxes. Other threads may read and change its state under control_lock(),
 * which the loop holds while it is awake. A process may have several, each with its own engines and ports.
 *
 * The parts, from the bottom; each calls and includes only those above it in this list, and this header:
 *   config/   the configuration and its parser
 *   core/     what all files need: log, clock, epoll, lock; requests, sessions, quotas
 *   memory/   memory of programs and queues: shared, mapped, lost (SIGBUS)
 *   obj/      verbs objects and the handlers of the requests about them
 *   cma/      connections: rdma_cm's ids and QP 1, on lib/cm
 *   observe/  telemetry, metrics, captures, sysfs
 *   .         the roots, which nothing calls but control.c: dispatch.c, events.c, reload.c, session_end.c
 */
#ifndef UROCE_CONTROL_H
#define UROCE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shared.h"
#include "control/config/config.h"

enum { CONTROL_ADOPT_MAX = 64 };

struct cm_counters;
struct control;
struct gsi_counters;

/** What the control thread works with; everything must outlive it. */
struct control_setup {
	struct uroced_config *conf; /**< keys that can change at run time are changed in it */
	const char *config_file;    /**< the file that conf is from, which is read again on SIGHUP; NULL: none */
	const char *const *sets;    /**< settings of the command line, which win over the file */
	unsigned int nb_sets;
	struct impair **impairs;    /**< of each port, NULL: not impaired; changed on SIGHUP. NULL: ports can't be impaired */
	struct engine **engines;
	unsigned int nb_engines;
	struct net_port **ports;
	uint16_t nb_ports;
	struct shared sh;
	bool signals;               /**< SIGTERM and SIGINT end control_run(), SIGHUP is control_reload() */
};

/**
 * Bind the socket under a temporary name beside the real one, so that programs find it only when the daemon is ready.
 * Called early, since here most mistakes of a configuration show.
 *
 * @param path  Of the socket. A stale one (nobody listens) is removed; one in use is an error.
 * @param mode,group  Permissions; group "" leaves the daemon's own.
 * @param fd  Gets the listening socket.
 * @param err  Gets what was wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0 or an errno value.
 */
int control_socket_bind(const char *path, uint32_t mode, const char *group, int *fd, char *err);
/** Give the socket its real name. @return 0 or an errno value with a message. */
int control_socket_publish(const char *path, char *err);
/** Remove the socket, under whichever name it is. */
void control_socket_remove(const char *path);

/**
 * Create the control thread's state.
 * @param listen_fd  From control_socket_bind(); becomes the control's. -1: no other programs are served.
 * @param err  CONFIG_ERR_BYTES long.
 * @return NULL with a message.
 */
struct control *control_create(const struct control_setup *setup, int listen_fd, char *err);

/** Serve until control_stop() or a signal, if setup.signals; the caller has blocked these in all threads then. */
void control_run(struct control *c);
/** [any thread, signal handlers] End control_run(), also one that begins later. */
void control_stop(struct control *c);
/** Do what there is to do. @param max_ms  Sleep at most this long when there is nothing. @return events handled; 0: none. */
uint32_t control_turn(struct control *c, int max_ms);

/**
 * [any thread] Keep all others from using @p c until control_unlock(). The control loop holds the lock but while it
 * sleeps. May be nested. Not to be held for long, since requests of programs wait.
 */
void control_lock(struct control *c);
void control_unlock(struct control *c);

/**
 * Read the configuration again and put into force what can change at run time. With a mistake in it nothing changes.
 * The log and telemetry's /uroce/config say what was changed, what needs a restart and what is wrong.
 * @return 0, or what config_load() returned.
 */
int control_reload(struct control *c);

/**
 * [any thread] Begin a session of this process itself, whose memory needs no mapping (CTL_SEG_OWN). It is served from
 * the next turn on.
 * @param sock  The daemon's end of a SEQPACKET socketpair; becomes the control's, also if this fails.
 * @return 0; ENOBUFS: CONTROL_ADOPT_MAX wait already.
 */
int control_adopt(struct control *c, int sock);

/**
 * [any thread] Change `impair` of a port as control_reload() does.
 * @param p  NULL: not impaired any more.
 * @return 0; EINVAL: no such port; what impair_attach() says.
 */
int control_set_impair(struct control *c, unsigned int port, const struct impair_params *p);
/** [any thread] The same for `cc`. @return 0; EINVAL: no such port. */
int control_set_cc(struct control *c, unsigned int port, enum tp_cc cc);

/** End all sessions and free everything. The engines may run or be stopped. */
void control_destroy(struct control *c);

/** Objects that sessions have now, for tests and statistics. */
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
