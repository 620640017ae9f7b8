/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How the daemon gives up its privileges: first as root everything that needs them, then the user (identity.h), the broker (broker.h) and the list of system
 * calls (sandbox.h). docs/security.md has what needs which right when.
 *
 * Owns: the broker. Called by: main.c. Thread: main.
 */
#ifndef UROCED_PRIVILEGES_H
#define UROCED_PRIVILEGES_H

#include <stdbool.h>

#include "broker.h"
#include "control/config/config.h"
#include "identity.h"
#include "uroce/stack.h"

struct privileges {
	struct identity id;
	bool seccomp;
	struct broker *broker;    /**< NULL: the daemon was started without rights */
};

/**
 * Before EAL starts, which makes memory and threads: decide who the daemon will be, and start the broker.
 * @param confs  The configurations of the process's @p n stacks.
 * @return 0, or -1 with a message printed.
 */
int privileges_prepare(struct privileges *p, const struct uroced_config *confs, unsigned int n);
/**
 * When ports are open, engines run and sockets have their names, but before programs are served: give the privileges up.
 * @return 0, or -1 with a message printed: the daemon must not go on.
 */
int privileges_drop(struct privileges *p, struct uroce *const *of, unsigned int n);
/** At the end, when the ports are closed: what the daemon can't clean up any more the broker does. */
void privileges_end(struct privileges *p);

#endif /* UROCED_PRIVILEGES_H */
