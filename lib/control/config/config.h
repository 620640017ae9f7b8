/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's configuration: an INI file and settings from the command line.
 *
 * Owns: struct uroced_config. Called by: app/uroced before EAL is initialized, lib/uroce, reload.c. Thread: main, control.
 *
 * Sections are `[daemon]`, one `[port uroceN]` per verbs device, and `[share NAME]`. A setting on the command line has the form
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

#define CONFIG_DEFAULT_GROUP "uroce"

enum {
	CONFIG_ERR_BYTES = 1024,  /**< size of a message buffer: a message may list all keys */
	CONFIG_SOCKET_BYTES = 96, /**< path of the socket: sun_path less the suffix of its temporary name */
	CONFIG_GROUP_BYTES = 64,
	CONFIG_METRICS_BYTES = 112, /**< address of the exporter: "unix:" and a path of sun_path */
	CONFIG_MAX_SHARES = 16,   /**< sections [share NAME] */
	CONFIG_SHARE_BYTES = 32,  /**< name of such a section */
	CONFIG_SHARE_MEMBERS = 32, /**< users that a section names at most, and groups */
	CONFIG_MAX_PROBLEMS = 20, /**< mistakes in a configuration that are told at once */
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

/**
 * What a program and a user may have at most: a row per kind of thing. The keys are session_max_KIND and user_max_KIND; 0 is no
 * limit. To add a kind, add a row, describe it in uroced.conf(5) and the sample, and call quota_take() where one is made.
 *
 * Columns: kind, one program's by default, one user's by default, largest value, unit in bytes or pieces, plural for messages.
 *
 * A quarter of what the daemon has at most is one user's, so that others have enough when he has used up his share; of multicast
 * attachments half of what one group can have.
 */
#define CONFIG_QUOTAS(X) \
	X(qp, UROCE_MAX_QP / 4, UROCE_MAX_QP / 4, UROCE_MAX_QP, 1, "QPs") \
	X(cq, UROCE_MAX_CQ / 4, UROCE_MAX_CQ / 4, UROCE_MAX_CQ, 1, "CQs") \
	X(channel, 2048, 4096, UROCE_MAX_CQ, 1, "completion channels") \
	X(srq, 4096, UROCE_MAX_SRQ / 4, UROCE_MAX_SRQ, 1, "SRQs") \
	X(mr, UROCE_MAX_MR / 8, UROCE_MAX_MR / 4, UROCE_MAX_MR, 1, "MRs, memory windows and pieces of device memory") \
	X(pd, 4096, UROCE_MAX_PD / 4, UROCE_MAX_PD, 1, "PDs") \
	X(xrcd, 1024, 2048, UROCE_MAX_PD, 1, "XRC domains") \
	X(ah, 16384, UROCE_MAX_AH / 4, UROCE_MAX_AH, 1, "AHs") \
	X(mcast, 128, 128, UROCE_MAX_MCAST_GROUPS * UROCE_MAX_MCAST_ATTACH, 1, "multicast attachments") \
	X(cm_id, 16384, UROCE_MAX_CM_ID / 4, UROCE_MAX_CM_ID, 1, "ids of rdma_cm") \
	X(cm_group, 1024, 4096, UROCE_MAX_CM_ID, 1, "groups of rdma_cm") \
	X(fd, 4096, 4096, UINT32_MAX, 1, "descriptors in the daemon") \
	X(map, 4096, 12288, UINT32_MAX, 1, "mappings in the daemon") \
	X(rings, 4096, 0 /* see config_defaults() */, UINT32_MAX, CONFIG_MIB, "MiB of queues") \
	X(metadata, 64, 256, UINT32_MAX, CONFIG_MIB, "MiB of metadata") \
	X(memory, 0, 0, UINT32_MAX, CONFIG_MIB, "MiB of registered memory")
#define CONFIG_MIB (UINT64_C(1) << 20)
enum quota {
#define X(kind, session, user, most, unit, plural) QUOTA_##kind,
	CONFIG_QUOTAS(X)
#undef X
	QUOTAS,
};

/** A section [share NAME]: what sessions of some users get. */
struct config_share {
	char name[CONFIG_SHARE_BYTES];
	struct config_ids {
		uint32_t ids[CONFIG_SHARE_MEMBERS];
		uint32_t nb;
		bool all;          /**< "*": everybody */
	} users, groups;           /**< uids, gids */
	uint32_t weight;           /**< of each user; of each session of root's: SHARE_WEIGHT_* */
	uint32_t rate_mbps;        /**< of each user, Mb/s; 0: no limit */
	uint32_t rate_packets;     /**< of each user, packets per second; 0: no limit */
};

/** Everything that can be configured; config_defaults() fills it. */
struct uroced_config {
	char socket[CONFIG_SOCKET_BYTES];
	uint32_t socket_mode;                  /**< permission bits */
	char socket_group[CONFIG_GROUP_BYTES]; /**< name or number; "": CONFIG_DEFAULT_GROUP, or the daemon's own group if there is none */
	char user[CONFIG_GROUP_BYTES];         /**< name or number of the user as whom the daemon runs; "": see app/uroced/identity.h */
	bool seccomp;                          /**< limit the daemon's system calls */
	uint32_t idle;                         /**< enum engine_idle */
	bool balance;                          /**< QPs move to other engines by their load */
	uint32_t mbufs;                        /**< packet buffers; 0: derived from the number of ports and engines */
	uint32_t log_level;                    /**< RTE_LOG_*; 0: keep EAL's */
	uint32_t max_sessions, max_pd, max_mr, max_cq, max_srq, max_qp, max_ah, max_cm_id;
	uint32_t max_peer_connections; /**< that one remote address has opened to this host */
	uint32_t max_half_open;        /**< connections opened by others that aren't established yet */
	/** Limits of one program, and of all programs of one user; see CONFIG_QUOTAS. */
#define X(kind, session, user, most, unit, plural) uint32_t session_max_##kind, user_max_##kind;
	CONFIG_QUOTAS(X)
#undef X
	uint32_t user_max_sessions;
	uint32_t session_max_connects, user_max_connects; /**< calls of rdma_connect() per second; 0: no limit */
	bool by_reference;      /**< what programs of this host send each other through one engine is copied once (engine_config.loop_frames) */
	bool limit_root;        /**< limits of users are also root's */
	uint32_t survive_crash; /**< seconds that programs wait for the next daemon if this one crashes; 0: they end with it */
	uint32_t hello_timeout; /**< seconds that a connection may take until its HELLO */
	char metrics[CONFIG_METRICS_BYTES]; /**< address of the Prometheus exporter; "": none */
	bool telemetry;       /**< serve telemetry at a socket beside that for programs */
	bool userfaultfd;     /**< give programs /dev/userfaultfd, though the system may not let them have it */
	struct config_port ports[UROCE_MAX_PORTS];
	unsigned int nb_ports;
	struct config_share shares[CONFIG_MAX_SHARES]; /**< the first one that a user belongs to counts */
	unsigned int nb_shares;
};

/** Fill @p c with the defaults; no ports. */
void config_defaults(struct uroced_config *c);

/** Called for each mistake in a configuration. @param text  Where it is, what is wrong and what would be right. */
typedef void config_problem_fn(void *arg, const char *text);

/**
 * Read the configuration, and tell all mistakes in it, up to CONFIG_MAX_PROBLEMS.
 *
 * @param tell,arg  Called for each.
 * @param file,sets,nb_sets,c  As for config_load().
 * @return as config_load().
 */
int config_load_telling(const char *file, const char *const *sets, unsigned int nb_sets, struct uroced_config *c, config_problem_fn *tell,
			void *arg);

/**
 * Read the configuration.
 *
 * @param file  INI file, or NULL: settings only.
 * @param sets,nb_sets  Settings "section.key=value", applied after the file.
 * @param c  Filled, defaults included.
 * @param err  Gets the first mistake, CONFIG_ERR_BYTES long.
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
/** What config_compare() calls the sections [share ...], which it compares and config_copy() copies as a whole. */
#define CONFIG_SHARES "[share ...]"
/** Copy the value of a key of [daemon], or CONFIG_SHARES, from @p from to @p to. */
void config_copy(struct uroced_config *to, const struct uroced_config *from, const char *key);

#endif /* UROCE_CONFIG_H */
