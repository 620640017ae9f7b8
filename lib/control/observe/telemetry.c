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

#include <rte_common.h>

#include "control/observe/telemetry_priv.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* protects control */
static struct control *control; /* NULL: there is no stack */

static const struct {
	const char *cmd, *help;
	tel_show_fn *show;
} commands[] = {
	{ "/uroce/config", "What became of SIGHUPs. No parameters.", tel_config },
	{ "/uroce/port", "Verbs devices; with a name (uroce0): addresses, link and packets beside RoCE.", tel_port },
	{ "/uroce/engine", "Engines; with a number: load, what waits, and what the transport counted.", tel_engine },
	{ "/uroce/session", "Programs; with a number or key=value filters: from, port, program.", tel_session },
	{ "/uroce/qp", "QPs; with a number: what it waits for and why. Filters: from, session, port, program, state, type.", tel_qp },
	{ "/uroce/cq", "CQs; with a number: how full it is. Filters: from, session, port, program.", tel_cq },
	{ "/uroce/mr", "MRs by their keys; with a key: what it is. Filters: from, session, port, program.", tel_mr },
	{ "/uroce/cm", "Connections of rdma_cm: how many, and what the connection manager and QP 1 counted. No parameters.",
	  tel_cm },
	{ "/uroce/memory", "What the daemon's allocators have given out, in bytes. No parameters.", tel_memory },
	{ "/uroce/capture", "Ports into a pcapng file: start,FILE[,port=NAME][,qp=QPN][,snap=BYTES]; stop; nothing: how it goes.",
	  tel_capture },
	{ "/uroce/impair", "Ports that are impaired on purpose; with a name: settings and what was done.", tel_impair },
};

static int
on_command(const char *cmd, const char *params, struct rte_tel_data *d)
{
	int rc = -ENOENT;

	pthread_rwlock_rdlock(&lock);
	for (unsigned int i = 0; i < RTE_DIM(commands) && control != NULL; i++) {
		if (strcmp(commands[i].cmd, cmd) != 0)
			continue;
		control_lock(control);
		rc = commands[i].show(control, params != NULL ? params : "", d);
		control_unlock(control);
	}
	pthread_rwlock_unlock(&lock);
	return rc;
}

void
telemetry_start(struct control *c)
{
	static bool registered; /* telemetry can't unregister commands */

	pthread_rwlock_wrlock(&lock);
	/* In a process with several stacks the first one answers, since commands don't name a stack. */
	if (control == NULL)
		control = c;
	pthread_rwlock_unlock(&lock);
	for (unsigned int i = 0; i < RTE_DIM(commands) && !registered; i++)
		if (rte_telemetry_register_cmd(commands[i].cmd, on_command, commands[i].help) != 0)
			CTL_LOG(WARNING, "telemetry has no place for %s", commands[i].cmd);
	registered = true;
}

void
telemetry_stop(struct control *c)
{
	pthread_rwlock_wrlock(&lock);
	if (control == c)
		control = NULL;
	pthread_rwlock_unlock(&lock);
}
