/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a stack consists of, for the files of lib/uroce and for applications of this project that look inside (uroced,
 * uroce-test, tests). Applications of others use uroce.h.
 *
 * Owns: struct uroce and, by it, everything that lib/control, lib/engine and lib/net work with. Thread: as uroce.h says.
 */
#ifndef UROCE_STACK_H
#define UROCE_STACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rte_log.h>
#include <rte_thread.h>

#include "control/config/config.h"
#include "control/control.h"
#include "control/handover.h"
#include "control/core/opener.h"
#include "engine/engine.h"
#include "impair.h"
#include "mem/mem.h"
#include "net/net.h"
#include "transport/transport.h"
#include "uroce.h"

extern int stack_logtype;
#define STACK_LOG(level, fmt, ...) rte_log(RTE_LOG_##level, stack_logtype, "uroce: " fmt "\n", ##__VA_ARGS__)

/** Who drives the control. */
enum stack_driver {
	DRIVER_NONE,
	DRIVER_POLL,   /**< a thread is in uroce_control_poll() right now */
	DRIVER_RUN,    /**< a thread is in uroce_control_run() */
	DRIVER_THREAD, /**< uroce_control_start() began one */
};

/** A stack. All but the members that say so is set by uroce_create() and then only read. */
struct uroce {
	struct uroced_config conf;           /**< keys that can change at run time: by the control */
	char *config_file;
	char **sets;
	unsigned int nb_sets;
	bool signals;
	bool bound;                          /**< the socket is ours, under the temporary name or the real one */
	int listen_fd;                       /**< until the control has it */
	struct shared sh;
	struct net_port *ports[UROCE_MAX_PORTS];
	struct impair *impairs[UROCE_MAX_PORTS]; /**< by the control */
	uint16_t nb_ports;
	struct engine *engines[UROCE_MAX_ENGINES];
	unsigned int nb_engines;
	int cpus[ENGINE_CPUS_MAX];           /**< threads of each engine's loop */
	unsigned int nb_cpus;
	_Atomic uint32_t running[UROCE_MAX_ENGINES]; /**< a thread is in uroce_engine_run() */
	struct control *control;             /**< NULL after uroce_shutdown() */
	_Atomic uint32_t driver;             /**< enum stack_driver */
	bool resumed;                        /**< the socket is that of the daemon before, with its name */
	bool published;                      /**< the socket has its real name; by the driver */
	rte_thread_t thread;                 /**< DRIVER_THREAD */
	_Atomic int asked;                   /**< socket of a process that wants the programs, or -1 */
	bool suspended;                      /**< another process has them: this stack does nothing any more */
	void (*asked_for)(void *arg);        /**< uroce_params.asked_for */
	void *asked_arg;
	void *devices;                       /**< verbs.c: of each port, made when first asked for */
	/** Of each engine: the journal that its transport keeps, in a memfd. */
	bool keeps_journals;
	int journal_fds[UROCE_MAX_ENGINES];
	void *journals[UROCE_MAX_ENGINES];
	int windows_fd;                      /**< of what is known of memory windows, mw_keep() */
	void *windows;
	struct journal_limits journal_limits;
	bool listed;
	TAILQ_ENTRY(uroce) link;             /**< in the list of all */
};
TAILQ_HEAD(stack_list, uroce);

/* All stacks of the process: a thread that waits for a stack gives turns to those that no thread drives. */
extern struct stack_list stacks;
extern pthread_mutex_t stacks_lock;
/**
 * [any] Give a turn to each control and each engine of the process that no thread drives.
 * @return how much was done, 0: nothing.
 */
uint32_t stacks_turn(void);
/**
 * [control] Make memory for a journal of each engine (transport/journal/journal.h), in memfds that outlive this process if somebody keeps them.
 * @return 0 or an errno value.
 */
int stack_journals_create(struct uroce *u);
/** [control] The transports that write the journals must be gone. */
void stack_journals_destroy(struct uroce *u);
/**
 * [control] Make a loop that runs engine @p engine of each of @p n stacks; uroce_engine_run() is refused meanwhile. Ports of theirs that are
 * the two ends of a memif wire don't keep it from sleeping.
 * @return NULL with errno set: EINVAL; EBUSY (an engine runs already).
 */
struct engine_loop *stacks_loop_create(struct uroce *const *stacks, unsigned int n, unsigned int engine);
/** [control] No thread may be in it. */
void stacks_loop_destroy(struct engine_loop *l, struct uroce *const *stacks, unsigned int n, unsigned int engine);
/** [control thread] Have all stacks but @p but read their configurations again. */
void stacks_reload(void *but);
/** @return true if some control of the process has a thread. */
bool stacks_have_thread(void);

/** What the process around a stack does for it; all 0: nothing. */
struct stack_host {
	const int *cpus;      /**< the engines' loops have a thread on each of these CPUs; at most ENGINE_CPUS_MAX */
	unsigned int nb_cpus; /**< 0: one thread each */
	const struct shared_ops *opener; /**< control_setup.opener */
	void (*alive)(void *arg);        /**< control_setup.alive */
	void *alive_arg;
	uint32_t alive_ms;
	int (*hand_over)(void *arg, int sock); /**< control_setup.hand_over */
	void *hand_over_arg;
	const struct checkpoint_host *checkpoint; /**< control_setup.checkpoint */
	uint64_t crashed_ns;             /**< control_setup.crashed_ns */
	bool resumes;                    /**< stack_open() will be called with @c resume, or with @c binds: stack_prepare() binds no socket */
	bool binds;                      /**< stack_open() binds it: what it should have gone on with can't be */
	struct stream_in *resume;        /**< what another daemon has handed over; the next in it is this stack's. NULL: a stack without programs */
};

/**
 * uroce_create() with a configuration that was read and a socket that was bound already.
 * @param conf  From config_load() of the same file and settings, or NULL: read it.
 * @param listen_fd  From control_socket_bind() of conf->socket; becomes the stack's, as does the socket's name, also if this fails. -1: none yet.
 */
struct uroce *stack_create(const struct uroce_params *p, const struct uroced_config *conf, int listen_fd, char *err);
/**
 * The first part of that, which takes most of the time: memory and tables. No port is touched. What other process has the ports meanwhile doesn't
 * matter.
 */
struct uroce *stack_prepare(const struct uroce_params *p, const struct uroced_config *conf, int listen_fd, const struct stack_host *host, char *err);
/**
 * The rest.
 * @param p,host  As for stack_prepare(); only host->resume, binds, checkpoint and crashed_ns may be new.
 * @return 0, or -1 with a message: then uroce_destroy() it.
 */
int stack_open(struct uroce *u, const struct uroce_params *p, const struct stack_host *host, char *err);
/** The same in a process that does more for it. @param host  Read during the call only. */
struct uroce *stack_create_on(const struct uroce_params *p, const struct uroced_config *conf, int listen_fd, const struct stack_host *host,
			      char *err);

/**
 * Give the socket its real name, if there is one and it hasn't: programs find the stack from now on. The first driver of the control does it
 * too. @return 0 or a negative errno value with a message.
 */
int stack_publish(struct uroce *u, char *err);

/**
 * [engines stopped] After control_save(): close the ports, as far as the next daemon can't open them otherwise, and give up what only one daemon can have.
 * Afterwards the process may only end: programs go on using the memory that it shares with them.
 */
void stack_leave(struct uroce *u);

#endif /* UROCE_STACK_H */
