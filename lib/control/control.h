/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The control thread of the daemon: sessions of programs and their objects.
 *
 * Owns: the socket, the sessions, what every session has (PDs, MRs, CQs, SRQs, QPs, AHs, shared memory), the
 * connection manager, the neighbours' timers and the watch over the ports' links. Called by: lib/uroce and tests. Thread: everything here runs
 * on the one control thread, which sleeps in epoll when there is nothing to do; what engines own it changes through
 * their mailboxes. Other threads may look and change under control_lock(), which the loop holds while it is awake. A process may
 * have several, each with its own engines and ports.
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
	const char *config_file;    /**< where conf came from: read again on SIGHUP; NULL: from nowhere */
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
 * Bind the socket under a temporary name beside the real one, so that a program never finds a daemon that isn't ready.
 * Called early, since most mistakes show here.
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
/** Look once at all that there is to do. @param max_ms  Sleep at most this long when there is nothing. @return what was done, 0: nothing. */
uint32_t control_turn(struct control *c, int max_ms);

/**
 * [any thread] Nobody else touches @p c in between: the control loop stays out, but for its sleep. May be nested. Not to be held for
 * long: programs' requests wait.
 */
void control_lock(struct control *c);
void control_unlock(struct control *c);

/**
 * Read the configuration again and put into force what can change at run time. A mistake in it changes nothing. What was
 * done, what would need a restart and what is wrong goes to the log and to telemetry's /uroce/config.
 * @return 0, or what config_load() returned.
 */
int control_reload(struct control *c);

/**
 * [any thread] Begin a session of this process itself: its memory needs no mapping (CTL_SEG_OWN). It is served from the next turn on.
 * @param sock  The daemon's end of a SEQPACKET socketpair; becomes the control's, also if this fails.
 * @return 0; ENOBUFS: CONTROL_ADOPT_MAX wait already.
 */
int control_adopt(struct control *c, int sock);

/**
 * [any thread] What reloading a configuration with another `impair` of a port would do.
 * @param p  NULL: not impaired any more.
 * @return 0; EINVAL: no such port; what impair_attach() says.
 */
int control_set_impair(struct control *c, unsigned int port, const struct impair_params *p);
/** [any thread] The same for `cc`. @return 0; EINVAL: no such port. */
int control_set_cc(struct control *c, unsigned int port, enum tp_cc cc);

/** End all sessions, the engines still running or already stopped, and free everything. */
void control_destroy(struct control *c);

/** Objects that sessions have now, for tests and statistics. */
struct control_counts {
	uint32_t sessions, pds, mrs, cqs, srqs, qps, ahs, xrcds, cm_ids;
};
void control_counts(const struct control *c, struct control_counts *out);
/** Counters of QP 1 and of the connection manager behind it; they live as long as @p c does. */
const struct gsi_counters *control_gsi_counters(const struct control *c);
const struct cm_counters *control_cm_counters(const struct control *c);

#endif /* UROCE_CONTROL_H */
