/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Hosts: the ports of the stacks in this process, named h1, h2 and so on; the wires between them, if we made them; and
 * the lcores that drive everything.
 *
 * Every worker lcore runs one loop: a turn of each of its engines, then a step of each job attached to it. So a
 * workload and its engine share a core without context switches.
 *
 * Thread: main lcore, unless a function's comment says otherwise.
 */
#ifndef UROCE_TEST_HOSTS_H
#define UROCE_TEST_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cores.h"
#include "options.h"

struct ibv_context;
struct uroce;

enum {
	HOSTS_MAX = 16,
	HOST_NAME_BYTES = 16,
	WORKERS_MAX = 64,
	WORKER_JOBS_MAX = 128, /**< attached to one lcore */
};

struct host {
	char name[HOST_NAME_BYTES];
	struct uroce *stack;
	unsigned int port;       /**< index in the stack */
	unsigned int worker;     /**< the worker that runs its first engine */
	struct ibv_context *ctx; /**< open as long as the host exists */
};

/**
 * Bring up all hosts and start the lcores.
 * @return 0; -1 with a message printed.
 */
int hosts_start(const struct options *o);
/** Everything created with the hosts' contexts must have been destroyed. */
void hosts_stop(void);

unsigned int hosts_count(void);
struct host *host_at(unsigned int i);
/** @return NULL if no host has that name. */
struct host *host_find(const char *name);
/** For tables of arguments. */
const char *host_names(unsigned int i);
/** @return the index of the GID that packets are sent from: the first that was configured. */
unsigned int host_sgid_index(const struct host *h, bool ipv6);
const struct gid *host_gid(const struct host *h, unsigned int index);

/* ---- Lcores ---- */
struct job {
	/**
	 * [worker lcore] Must not wait.
	 * @return amount of work done, 0: none.
	 */
	uint32_t (*step)(struct job *job);
};
unsigned int workers_count(void);
/** @return the EAL lcore of worker @p i. */
unsigned int worker_lcore(unsigned int i);
/**
 * Have a worker call job->step() from now on.
 * @return 0; -1 if it has WORKER_JOBS_MAX jobs.
 */
int worker_attach(unsigned int worker, struct job *job);
/** Detach a job. Returns when the worker doesn't use it any more. */
void worker_detach(unsigned int worker, struct job *job);
/**
 * Get the number of workers that run engines, the CPUs that they may use, and the engines' late turns since the start. Those of
 * engines of one worker coincide.
 */
void workers_cores(struct cores *c);
/** Get the number of turns of a worker's loop since the start, and of those that did something. [any] */
void worker_turns(unsigned int worker, uint64_t *turns, uint64_t *busy);
/* ---- workers.c, for hosts.c ---- */
void worker_add_engine(unsigned int worker, struct uroce *u, unsigned int engine);
int workers_start(void);
void workers_stop(void);

/* ---- wires.c ---- */
/**
 * Make ports for @p n hosts that reach each other: two directly, more through a switch, all over memif.
 * @return 0; -1 with a message printed.
 */
int wires_create(unsigned int n, unsigned int queues);
/** Get DPDK's name of the port of host @p i. */
void wires_port(unsigned int i, char *name, size_t bytes);
/**
 * Wait for the links.
 * @return false if they aren't up in time.
 */
bool wires_wait(void);
/** @return the switch's job; NULL: there is no switch. */
struct job *wires_switch(void);
/** Remove the wires. The hosts' ports must be closed. */
void wires_destroy(void);
/**
 * A port was closed: wait until EAL's interrupt thread has handled that at the other end, where it frees memif's memory. Until then nothing else may
 * close the other end.
 */
void wires_settle(void);

#endif /* UROCE_TEST_HOSTS_H */
