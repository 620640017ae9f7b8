/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands for dpdk-telemetry.py.
 *
 * Threads: rte_telemetry answers each client on a thread of its own, which holds control_lock() while it builds the
 * answer. Counters of engines are read while engines increment them: each one is read atomically (64 bits, aligned),
 * but not all at the same moment. State that has to be consistent is requested through the engines' mailboxes
 * (inspect.h).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "control/observe/telemetry_priv.h"

enum { STACKS_MAX = 8, COMMAND_BYTES = 56 /* telemetry's own limit */ };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* of the next two */
static struct control *controls[STACKS_MAX]; /* NULL: no stack has this number */
static unsigned int registered;              /* numbers whose commands telemetry has, which can't unregister any */

static const struct {
	const char *name, *help;
	tel_show_fn *show;
} commands[] = {
	{ "config", "What became of SIGHUPs. No parameters.", tel_config },
	{ "port", "Verbs devices; with a name (uroce0): addresses, link and packets beside RoCE.", tel_port },
	{ "engine", "Engines; with a number: load, what waits, and what the transport counted.", tel_engine },
	{ "session", "Programs; with a number or key=value filters: from, port, program.", tel_session },
	{ "qp", "QPs; with a number: what it waits for and why. Filters: from, session, port, program, state, type.", tel_qp },
	{ "move", "QPs that were moved between engines; QPN,ENGINE: moves one.", tel_move },
	{ "cq", "CQs; with a number: how full it is. Filters: from, session, port, program.", tel_cq },
	{ "mr", "MRs by their keys; with a key: what it is. Filters: from, session, port, program.", tel_mr },
	{ "cm", "Connections of rdma_cm: how many, and what the connection manager and QP 1 counted. No parameters.",
	  tel_cm },
	{ "handover", "What this daemon has taken over from the one before. No parameters.", tel_handover },
	{ "memory", "What the daemon's allocators have given out, in bytes. No parameters.", tel_memory },
	{ "capture", "Ports into a pcapng file: start,FILE[,port=NAME][,qp=QPN][,snap=BYTES]; stop; nothing: how it goes.",
	  tel_capture },
	{ "impair", "Ports that are impaired on purpose; NAME: settings and what was done; NAME,KEY=VALUE,... or NAME,none: changes them.", tel_impair },
};

/* The first stack of a process answers to /uroce/..., the second to /uroce2/... and so on. */
static void
command_of(char cmd[COMMAND_BYTES], unsigned int stack, unsigned int i)
{
	if (stack == 0)
		snprintf(cmd, COMMAND_BYTES, "/uroce/%s", commands[i].name);
	else
		snprintf(cmd, COMMAND_BYTES, "/uroce%u/%s", stack + 1, commands[i].name);
}

static int
on_command(const char *cmd, const char *params, struct rte_tel_data *d)
{
	unsigned int number = cmd[strlen("/uroce")] == '/' ? 0 : (unsigned int)atoi(cmd + strlen("/uroce")) - 1;
	const char *name = strrchr(cmd, '/') + 1;
	struct control *c;
	int rc = -ENOENT;

	pthread_rwlock_rdlock(&lock);
	c = number < STACKS_MAX ? controls[number] : NULL;
	for (unsigned int i = 0; i < RTE_DIM(commands) && c != NULL; i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		control_lock(c);
		rc = commands[i].show(c, params != NULL ? params : "", d);
		control_unlock(c);
	}
	pthread_rwlock_unlock(&lock);
	return rc;
}

void
telemetry_start(struct control *c)
{
	char cmd[COMMAND_BYTES];
	unsigned int number = 0;

	pthread_rwlock_wrlock(&lock);
	while (number < STACKS_MAX && controls[number] != NULL)
		number++;
	if (number < STACKS_MAX)
		controls[number] = c;
	for (; registered <= number && registered < STACKS_MAX; registered++) {
		for (unsigned int i = 0; i < RTE_DIM(commands); i++) {
			command_of(cmd, registered, i);
			if (rte_telemetry_register_cmd(cmd, on_command, commands[i].help) != 0)
				CTL_LOG(WARNING, "telemetry has no place for %s", cmd);
		}
	}
	pthread_rwlock_unlock(&lock);
}

unsigned int
telemetry_number(const struct control *c)
{
	unsigned int number = 0;

	pthread_rwlock_rdlock(&lock);
	while (number < STACKS_MAX && controls[number] != c)
		number++;
	pthread_rwlock_unlock(&lock);
	return number;
}

void
telemetry_stop(struct control *c)
{
	pthread_rwlock_wrlock(&lock);
	for (unsigned int i = 0; i < STACKS_MAX; i++)
		if (controls[i] == c)
			controls[i] = NULL;
	pthread_rwlock_unlock(&lock);
}
