/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Hosts: ports of stacks in this process, h1, h2 and so on; the wires between them, if they are ours; the lcores that drive
 * all of it.
 *
 * Every worker lcore runs one loop: a turn of each engine that is its, a step of each job that hangs on it. So a workload and
 * its engine share a core without switches of context, and nothing but the operating system comes between.
 *
 * Thread: main lcore, unless a line says otherwise.
 */
#ifndef UROCE_TEST_HOSTS_H
#define UROCE_TEST_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

struct ibv_context;
struct uroce;

enum {
	HOSTS_MAX = 16,
	HOST_NAME_BYTES = 16,
	WORKERS_MAX = 64,
	WORKER_JOBS_MAX = 128, /**< on one lcore */
};

struct host {
	char name[HOST_NAME_BYTES];
	struct uroce *stack;
	unsigned int port;       /**< of the stack */
	unsigned int worker;     /**< where its first engine runs */
	struct ibv_context *ctx; /**< open as long as the host is there */
};

/** Bring all hosts up and start the lcores. @return 0; -1 with a message printed. */
int hosts_start(const struct options *o);
/** What has been made with the hosts' contexts must be gone. */
void hosts_stop(void);

unsigned int hosts_count(void);
struct host *host_at(unsigned int i);
/** @return NULL: there is none of that name. */
struct host *host_find(const char *name);
/** For tables of arguments. */
const char *host_names(unsigned int i);
/** @return the index of the GID that packets are sent from: the first that was configured. */
unsigned int host_sgid_index(const struct host *h, bool ipv6);
const struct gid *host_gid(const struct host *h, unsigned int index);

/* ---- Lcores ---- */
struct job {
	/** [worker lcore] Never waits. @return what was done, 0: nothing. */
	uint32_t (*step)(struct job *job);
};
unsigned int workers_count(void);
/** The EAL lcore of worker @p i. */
unsigned int worker_lcore(unsigned int i);
/** Let a worker call job->step() from now on. @return 0; -1: WORKER_JOBS_MAX. */
int worker_attach(unsigned int worker, struct job *job);
/** Returns when the worker doesn't use it any more. */
void worker_detach(unsigned int worker, struct job *job);
/** Turns of its loop, and those that did something, since the start. [any] */
void worker_turns(unsigned int worker, uint64_t *turns, uint64_t *busy);
/* ---- workers.c, for hosts.c ---- */
void worker_add_engine(unsigned int worker, struct uroce *u, unsigned int engine);
int workers_start(void);
void workers_stop(void);

/* ---- wires.c ---- */
/**
 * Make the ports of @p n hosts that reach each other: two back to back, more by a switch, all of them memif.
 * @return 0; -1 with a message printed.
 */
int wires_create(unsigned int n, unsigned int queues);
/** DPDK's name of the port of host @p i. */
void wires_port(unsigned int i, char *name, size_t bytes);
/** Links are up within a while. */
bool wires_wait(void);
/** The switch's job, NULL: there is none. */
struct job *wires_switch(void);
/** Hosts' ports are closed. */
void wires_destroy(void);

#endif /* UROCE_TEST_HOSTS_H */
