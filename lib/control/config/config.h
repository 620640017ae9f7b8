/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's configuration: an INI file (rte_cfgfile) and settings from the command line.
 *
 * Owns: struct uroced_config. Called by: app/uroced before EAL is initialized, lib/uroce, reload.c. Thread: main, control.
 *
 * Sections are `[daemon]` and one `[port uroceN]` per verbs device. A setting on the command line has the form
 * `section.key=value` and overrides the file. Each mistake gives one message that names the place (file and line, or
 * --set), the key, what is wrong and what would be right.
 */
#ifndef UROCE_CONFIG_H
#define UROCE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/ctl.h"
#include "engine/engine.h"
#include "impair.h"
#include "net/net.h"
#include "transport/transport.h"

enum {
	CONFIG_ERR_BYTES = 1024,  /**< size of a message buffer: a message may list all keys */
	CONFIG_SOCKET_BYTES = 96, /**< path of the socket: sun_path less the suffix of its temporary name */
	CONFIG_GROUP_BYTES = 64,
	CONFIG_METRICS_BYTES = 112, /**< address of the exporter: "unix:" and a path of sun_path */
	CONFIG_MAX_SETTINGS = 1024, /**< settings in the file and on the command line together */
};

/** The configuration of a port. */
struct config_port {
	struct net_port_config net;
	uint32_t cc;   /**< enum tp_cc: congestion control */
	struct tp_features features;
	bool impaired; /**< impair what the port receives: loss, delay ... (drivers/net/impair) */
	struct impair_params impair;
};

/** Everything that can be configured; config_defaults() fills it. */
struct uroced_config {
	char socket[CONFIG_SOCKET_BYTES];
	uint32_t socket_mode;                  /**< permission bits */
	char socket_group[CONFIG_GROUP_BYTES]; /**< name or number; "": the daemon's own group */
	uint32_t idle;                         /**< enum engine_idle */
	uint32_t mbufs;                        /**< packet buffers; 0: derived from the number of ports and engines */
	uint32_t log_level;                    /**< RTE_LOG_*; 0: keep EAL's */
	uint32_t max_sessions, max_pd, max_mr, max_cq, max_srq, max_qp, max_ah, max_cm_id;
	/**
	 * Limits of one program, and of all programs of one user (uid); 0: none. Memory is registered memory in MiB,
	 * connects are per second.
	 */
	uint32_t session_max_qp, session_max_cq, session_max_mr, session_max_memory, session_max_connects;
	uint32_t user_max_sessions, user_max_qp, user_max_cq, user_max_mr, user_max_memory, user_max_connects;
	char metrics[CONFIG_METRICS_BYTES]; /**< address of the Prometheus exporter; "": none */
	bool userfaultfd;     /**< give programs /dev/userfaultfd, though the system may not let them have it */
	uint32_t ring_memory; /**< MiB of queues that a session may have */
	struct config_port ports[UROCE_MAX_PORTS];
	unsigned int nb_ports;
};

/** Fill @p c with the defaults; no ports. */
void config_defaults(struct uroced_config *c);

/**
 * Read the configuration.
 *
 * @param file  INI file, or NULL: settings only.
 * @param sets,nb_sets  Settings "section.key=value", applied after the file.
 * @param c  Filled, defaults included.
 * @param err  Gets the message, CONFIG_ERR_BYTES long.
 * @return 0, or EINVAL (a mistake in it), or the errno of reading the file.
 */
int config_load(const char *file, const char *const *sets, unsigned int nb_sets, struct uroced_config *c, char *err);

/** Put a message into @p err, CONFIG_ERR_BYTES long. @return @p rc. */
int config_fail(char *err, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/**
 * Called for each key whose value differs between two configurations.
 * @param old_port,new_port  The port's configurations; NULL, NULL: a key of [daemon]. If only one is NULL, the section
 * exists only in the other configuration, and @p key is "".
 */
typedef void (*config_differs_fn)(void *arg, const struct config_port *old_port, const struct config_port *new_port,
				  const char *key);
/** Compare two configurations, defaults included. Ports are matched by name. */
void config_compare(const struct uroced_config *old, const struct uroced_config *new, config_differs_fn differs, void *arg);
/** Copy the value of a key of [daemon] from @p from to @p to. */
void config_copy(struct uroced_config *to, const struct uroced_config *from, const char *key);

#endif /* UROCE_CONFIG_H */
