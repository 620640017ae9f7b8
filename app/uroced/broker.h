/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The broker: a small process that keeps what the daemon gives up when it becomes an ordinary user.
 *
 * It has a socket to each stack of the daemon, and answers two calls on them while the daemon runs:
 *
 *  - the mappings of a program: of the process at the other end of a socket that the daemon passes (CAP_SYS_PTRACE);
 *  - the files of a program's shared memory: opened with no more rights than the program's own mappings have (CAP_CHECKPOINT_RESTORE,
 *    CAP_DAC_OVERRIDE). The checks are those of lib/control/memory/opener.c; a daemon that somebody has taken over can't get around them.
 *
 * Each question is answered by a thread of its own, which waits for the program as long as it must; others go on meanwhile. The daemon waits for none
 * of them (lib/control/memory/questions.c).
 *
 * When the daemon's end of its first socket closes, because the daemon ended or was killed, it removes what the daemon had named before it gave up its rights, and ends.
 *
 * Owns: the process, and the daemon's ends of the sockets. Called by: main.c. Thread: main for starting and ending; the ops: control.
 */
#ifndef UROCED_BROKER_H
#define UROCED_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "control/core/opener.h"
#include "identity.h"

enum { BROKER_PATHS_MAX = 64, BROKER_XDP_MAX = 64, BROKER_PATH_BYTES = 128, BROKER_LINES_MAX = 8 };

struct broker;

/**
 * Fork the broker. To be called as root, before memory and threads are made.
 * @return NULL with errno set.
 */
struct broker *broker_start(void);

/** Have @p path, a socket or a folder with all that is in it, removed at the end. A name that doesn't exist now is left out. @return 0 or an errno value. */
int broker_remove_at_end(struct broker *b, const char *path);
/** The same, but not if the daemon is killed or crashes, because the next one goes on with it. @return 0 or an errno value. */
int broker_remove_unless_crashed(struct broker *b, const char *path);
/** At any time: don't remove @p path, because another daemon goes on with it. @return 0 or an errno value. */
int broker_keep(struct broker *b, const char *path);
/** Have the XDP program that is on interface @p ifindex now removed at the end. @return 0 or an errno value. */
int broker_detach_at_end(struct broker *b, uint32_t ifindex);
/**
 * Have the broker become user @p id, with the capabilities that its calls need. From now on it answers only the two calls, in threads.
 * @param confined  Limit its system calls (seccomp).
 * @return 0 or an errno value.
 */
int broker_seal(struct broker *b, const struct identity *id, bool confined);

/**
 * Make the ops of a stack, which the broker executes once it is sealed. Before that it has to be called, once for each stack.
 * @param ops  Receives them; valid until broker_end().
 * @return 0 or an errno value.
 */
int broker_ops(struct broker *b, struct shared_ops *ops);

/** End the broker, and wait until it has cleaned up, but not for ever. */
void broker_end(struct broker *b);

#endif /* UROCED_BROKER_H */
